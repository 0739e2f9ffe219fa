"""Send alerts about how a run ended, each once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sitemap_etl import alerts
from sitemap_etl.advice import SITE_FILE, for_file
from sitemap_etl.config import Notify, Site, filled, revealed
from sitemap_etl.dates import instant
from sitemap_etl.errors import ConfigError, SitemapEtlError
from sitemap_etl.runs.failures import LAST, failure, given_up, last_of
from sitemap_etl.stages.run import Environment, open_work
from sitemap_etl.state.attempts import claim_alert, read_attempt, read_attempts
from sitemap_etl.state.records import Attempt, Summary


@dataclass
class Watched:
    """A run in progress. `summary` is set when the run has one."""

    summary: Summary | None = None


@contextmanager
def watching(site: Site, environment: Environment, *, dry_run: bool) -> Iterator[Watched]:
    """Ping the monitor when a run starts, and send alerts when it ends.

    Failures to send are logged as warnings and change nothing else. A dry run sends nothing.
    """
    found = Watched()
    if dry_run or site.notify.silent:
        yield found
        return
    tell_start(site, environment)
    try:
        yield found
    except BaseException as error:
        run_id = getattr(error, "run_id", None)
        tell_end(site, environment, _known(site, environment, run_id) or failure(error, environment, run_id=run_id))
        raise
    if found.summary is not None and found.summary.run_id is not None:
        ended = _known(site, environment, found.summary.run_id)
        if ended is not None:
            tell_end(site, environment, ended)


def tell_start(site: Site, environment: Environment) -> None:
    """Tell the monitor that a run starts. Unreadable settings are reported at its end."""
    if not site.notify.silent:
        with suppress(ConfigError):
            _log(environment, alerts.beat(revealed("notify", site.notify, environment.environ), "start"))


def tell_end(site: Site, environment: Environment, ended: Attempt) -> None:
    """Send alerts and ping the monitor that a run ended, unless the same was sent before."""
    notify = _readable(site.notify, environment)
    if notify is None or not _first(site, environment, ended):
        return
    alert = alert_of(site, ended, environment.site_file)
    _send(notify, alert, environment)
    _log(environment, alerts.beat(notify, "success" if ended.good else "fail", alert.text()))


def tell(notify: Notify, alert: alerts.Alert, environment: Environment) -> None:
    """Send an alert. Failures to send are logged as warnings."""
    readable = _readable(notify, environment)
    if readable is not None:
        _send(readable, alert, environment)


def _send(notify: Notify, alert: alerts.Alert, environment: Environment) -> None:
    _log(environment, [*alerts.send(notify, alert), *_announce(notify, alert, environment)])


def _announce(notify: Notify, alert: alerts.Alert, environment: Environment) -> Iterator[str]:
    """Send an alert with Airflow's notifiers. Yield a problem for each that failed."""
    if alert.status not in notify.on:
        return
    for name, notifier in notify.airflow.items():
        try:
            if environment.announce is None:
                raise ConfigError("only a run of the DAG has Airflow's notifiers")
            environment.announce(notifier.class_, filled("args", notifier.args, environment.environ), alert)
        except SitemapEtlError as error:
            yield f"notify.airflow.{name}: the message was not sent: {error}"


def tell_end_of(site: Site, environment: Environment, owner: str, *, good: bool, began: datetime | None = None) -> None:
    """Send alerts about a scheduler's run, which can have failed before it wrote any record.

    `good`: the scheduler counts the run as successful. Nothing is sent about a successful run without a record.
    `began`: start of the run; a successful record from before it belongs to an earlier run of the same name.
    """
    if site.notify.silent:
        return
    found: list[Attempt] = []
    unread = ""
    try:
        found = read_attempts(open_work(site, environment), LAST)
        if not found:
            unread = f" (the process that tells people finds no run that is remembered in {site.work})"
    except (SitemapEtlError, OSError) as error:
        unread = f" (the process that tells people can't read the state: {error})"
    ended = last_of(owner, found)
    if not good and ended is not None and ended.good and began is not None:
        ended = None if datetime.fromisoformat(ended.ended or ended.now) < began.replace(microsecond=0) else ended
    if ended is None and good:
        _log(environment, [f"no message says that {owner} was successful, because there is no record of it{unread}"])
        return
    if ended is None:
        why = f"Its log says why{unread}"
        ended = Attempt("", instant(environment.clock()), status="failed", owner=owner, error=why)
    if not ended.dry_run:
        tell_end(site, environment, ended if good else given_up(ended, environment))


def alert_of(site: Site, ended: Attempt, site_file: str | None) -> alerts.Alert:
    """Build the alert about a run."""
    failed = [f"{name} failed: {answer.message}" for name, answer in ended.engines.items() if answer.failed]
    held = [f"section {name} stays as published: {why}" for name, why in ended.kept.items()]
    reason = "\n".join([ended.error] if ended.error else [*held, *failed])
    return alerts.Alert(
        name=site.name,
        site=site.site,
        status=ended.status,
        run_id=ended.run_id or None,
        now=ended.now,
        reason=for_file(reason, site_file) or None,
        gates=tuple(gate.name for gate in ended.gates if gate.status == "refused"),
        look=for_file(f"sitemap-etl status {SITE_FILE}", site_file) if ended.failed else None,
        report=ended.report,
        listed=ended.listed if ended.sections else None,
        counts={what: ended.total.of(what) for what in _COUNTED},
    )


_COUNTED: Final = ("added", "changed", "removed")


def _readable(notify: Notify, environment: Environment) -> Notify | None:
    """Return the settings with their secrets, or None if they can't be read or all alerts are off."""
    if notify.silent:
        return None
    try:
        return revealed("notify", notify, environment.environ)
    except ConfigError as error:
        _log(environment, [f"nobody was notified: {problem}" for problem in error.problems])
        return None


def _known(site: Site, environment: Environment, run_id: str | None) -> Attempt | None:
    """Return the stored record of a run, or None if it can't be read."""
    with suppress(SitemapEtlError, OSError):
        return None if run_id is None else read_attempt(open_work(site, environment), run_id)
    return None


def _first(site: Site, environment: Environment, ended: Attempt) -> bool:
    """Record that an alert is sent.

    Return True if it is new or the state can't be read: a repeat is better than none.
    """
    if not ended.run_id:
        return True
    with suppress(SitemapEtlError, OSError):
        now = instant(environment.clock())
        return claim_alert(open_work(site, environment), ended.run_id, ended.status, now)
    return True


def _log(environment: Environment, problems: list[str]) -> None:
    for problem in problems:
        environment.log(f"warning: {problem}")
