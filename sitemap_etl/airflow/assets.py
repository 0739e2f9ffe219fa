"""Schedules of DAGs, and the asset that a publish updates.

The asset of a site is `x-sitemap://<name>`. Unlike `s3://`, this scheme loads no provider in every task.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

from airflow.sdk import Asset, AssetAlias

from sitemap_etl.airflow.compat import AssetOrTimeSchedule, CronTriggerTimetable, check_clock, conf
from sitemap_etl.errors import ConfigError, nearest
from sitemap_etl.runs.work import dag_lacks_work
from sitemap_etl.settings import AssetSchedule, Schedule, Site


def schedule_of(site: Site) -> Any:
    """Return the `schedule` of the DAG. Raise ConfigError for an asset that Airflow does not accept."""
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
    # A new site starts at its next scheduled time. A time in the last five minutes counts as next: Airflow plans again
    # whenever it parses the file, and would move a first run that is due but not started to the next day.
    return CronTriggerTimetable(cron, timezone=timezone, run_immediately=timedelta(minutes=5))


def _asset(name: str) -> Asset:
    try:
        return Asset(name)
    except ValueError as error:  # of the provider that knows addresses of this kind
        raise ConfigError(f'schedule.assets: Airflow does not take "{name}": {error}') from None


def published_set(name: str) -> Asset:
    """Return the asset that represents the published sitemap of a site."""
    return Asset(f"x-sitemap://{name}")


def publishes(name: str) -> AssetAlias:
    """Return the outlet of `publish`. An alias has only the events that are added, an asset one for each success."""
    return AssetAlias(f"sitemaps of {name}")


def problems_of(site: Site) -> Iterator[str]:
    """Yield the keys that a DAG lacks in a site file, and those that this Airflow can't obey.

    Airflow would remove the DAGs of all sites for one of these.
    """
    if (problem := dag_lacks_work(site)) is not None:
        yield problem
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
    """Return the error that Airflow raises for a cron expression when it plans a first run, or None."""
    try:
        check_clock(_clock(cron, timezone))
    except Exception as error:  # noqa: BLE001 - no error of one site may remove the DAGs of the others
        return str(error)
    return None


def _executors() -> set[str]:
    """Return the names of the configured executors, or an empty set if teams have their own executors."""
    configured = conf.get("core", "executor")
    if "=" in configured:
        return set()
    found: set[str] = set()
    for entry in configured.split(","):
        alias, _, path = entry.strip().rpartition(":")
        found |= {alias or path.rpartition(".")[2]} | ({path} if "." in path else set())
    return found
