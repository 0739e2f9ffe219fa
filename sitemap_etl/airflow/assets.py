"""What starts a site's DAG, and what a publish starts in turn: clocks and assets, as Airflow has them.

A site is the asset `x-sitemap://<name>`: addresses of that scheme load no provider, which `s3://` does in every task.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

from airflow.sdk import Asset, AssetAlias

from sitemap_etl.airflow.compat import AssetOrTimeSchedule, CronTriggerTimetable, check_clock, conf
from sitemap_etl.errors import ConfigError, nearest
from sitemap_etl.settings import AssetSchedule, Schedule, Site


def schedule_of(site: Site) -> Any:
    """The `schedule` of the DAG. Raises ConfigError for an asset that this Airflow does not take."""
    schedule = site.schedule
    if schedule is None:
        return None
    clock = _clock_of(schedule)
    if not isinstance(schedule, AssetSchedule):
        return clock
    assets = [_asset(name) for name in schedule.assets]
    return assets if clock is None else AssetOrTimeSchedule(assets=assets, timetable=clock)


def _clock_of(schedule: Schedule | AssetSchedule) -> CronTriggerTimetable | None:
    return None if schedule.cron is None else _clock(schedule.cron, schedule.timezone)


@cache  # sites share few schedules, and each costs milliseconds
def _clock(cron: str, timezone: str) -> CronTriggerTimetable:
    # A new site begins with its next time. One that has just gone by counts, since Airflow plans a run anew with each
    # look at the file, and a look between its time and its begin would plan the first one for the day after.
    return CronTriggerTimetable(cron, timezone=timezone, run_immediately=timedelta(minutes=5))


def _asset(name: str) -> Asset:
    try:
        return Asset(name)
    except ValueError as error:  # of the provider that knows addresses of this kind
        raise ConfigError(f'schedule.assets: Airflow does not take "{name}": {error}') from None


def published_set(name: str) -> Asset:
    """The asset that stands for what the site of this name has published."""
    return Asset(f"x-sitemap://{name}")


def publishes(name: str) -> AssetAlias:
    """The outlet of publish. An asset as an outlet has an event with every success, an alias only those added to it."""
    return AssetAlias(f"sitemaps of {name}")


def problems_of(site: Site) -> Iterator[str]:
    """What this Airflow can't do of a site file. Airflow would take back the DAGs of all sites for one of these."""
    try:
        schedule_of(site)
    except ConfigError as error:
        yield from error.problems
    if site.schedule is not None:
        yield from _clock_problems(site.schedule)
    known, wanted = _executors(), site.airflow.executor
    if wanted is not None and known and wanted not in known:
        meant = nearest(wanted, known)
        hint = f"; did you mean {meant}?" if meant else ""
        yield f'airflow.executor: this Airflow has no executor "{wanted}", it has {", ".join(sorted(known))}{hint}'


def _clock_problems(schedule: Schedule | AssetSchedule) -> Iterator[str]:
    if schedule.cron is not None and (error := _clock_error(schedule.cron, schedule.timezone)) is not None:
        key = "schedule.or_cron" if isinstance(schedule, AssetSchedule) else "schedule"
        yield (
            f'{key}: Airflow can\'t run by "{schedule.cron}" in the time zone {schedule.timezone} ({error}); '
            "write another expression or time zone"
        )


@cache
def _clock_error(cron: str, timezone: str) -> str | None:
    """Return what Airflow would find wrong with a cron expression when it has all DAGs, or plans a first run."""
    try:
        check_clock(_clock(cron, timezone))
    except Exception as error:  # noqa: BLE001 - whatever it is, the DAGs of the other sites must not go with this one
        return str(error)
    return None


def _executors() -> set[str]:
    """The names that Airflow knows its executors by; none where teams have executors of their own."""
    configured = conf.get("core", "executor")
    if "=" in configured:
        return set()
    found: set[str] = set()
    for entry in configured.split(","):
        alias, _, path = entry.strip().rpartition(":")
        found |= {alias or path.rpartition(".")[2]} | ({path} if "." in path else set())
    return found
