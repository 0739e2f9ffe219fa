"""The work of a scheduler's tasks, by name. Arguments and results are JSON, so that any process can run them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from sitemap_etl.alerts import Alert
from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs import alerts, tasks
from sitemap_etl.runs.stages import STAGES
from sitemap_etl.runs.waits import next_look
from sitemap_etl.settings import Notify
from sitemap_etl.stages.run import Environment


class Scheduler(Frozen):
    """The scheduler's side of a call.

    `has_ended` returns True if the run of another owner, by name, is over. `login`: to S3, or None for boto3's chain.
    """

    environment: Environment
    has_ended: Callable[[str], bool] = lambda _owner: False


Arguments = Mapping[str, Any]
"""Keyword arguments of a call, as JSON."""


def perform(call: str, site: Site | None, arguments: Arguments, scheduler: Scheduler) -> Any:
    """Run a call and return its result as JSON. Raises the stage's errors."""
    return _CALLS[call](site, scheduler, **arguments)


def _plan(
    site: Site,
    scheduler: Scheduler,
    *,
    fields: Mapping[str, Any],
    conf: Mapping[str, Any] | None,
    owner: str,
    made: str | None,
    final: bool,
    problem: str | None,
    most: int,
    parts: int,
) -> dict[str, Any]:
    """Plan a run.

    `made`: creation time of the scheduler's run if its tasks were cleared. `problem`: a message that fails the plan.
    """
    environment = scheduler.environment
    tasks.demand_work(site, environment)
    options, now = tasks.asked(site, fields, conf)

    def demand() -> None:
        if problem is not None:
            raise ConfigError(problem)

    started = tasks.start(
        site,
        options,
        environment,
        now=now,
        final=final,
        owner=owner,
        again=_moment(made),
        has_ended=scheduler.has_ended,
        demand=demand,
        most=most,
        parts=parts,
        waits=False,  # an earlier task waits
    )
    return {"key": started.key, "bundles": started.bundles}


def _wait(
    site: Site,
    scheduler: Scheduler,
    *,
    fields: Mapping[str, Any],
    conf: Mapping[str, Any] | None,
    owner: str,
    made: str | None,
    began: str,
) -> str | None:
    """Return the next check of the sources, or None if the run need not wait for any."""
    environment, since = scheduler.environment, _moment(made)
    if since is not None and tasks.is_done(site, owner, since, environment):
        return None
    options, _ = tasks.asked(site, fields, conf)
    found = next_look(site, options, environment, began=datetime.fromisoformat(began))
    return None if found is None else found.isoformat()


def _publish(_site: Site, scheduler: Scheduler, *, key: str, cleared: bool) -> dict[str, Any]:
    """Publish a run. `news` is None if nothing changed, or if an earlier try of a cleared task has reported it."""
    environment = scheduler.environment
    reported = cleared and tasks.is_over(key, environment)
    counts = tasks.publish(key, environment)
    news = None if reported else tasks.news(key, environment)
    return {"counts": counts, "news": news, "engines": tasks.engines(key, environment)}


def _conclude(site: Site, scheduler: Scheduler, *, owner: str, good: bool, began: str | None) -> None:
    tasks.conclude(site, owner, scheduler.environment, good=good, began=_moment(began))


def _report_late(
    _site: Site | None, scheduler: Scheduler, *, notify: Mapping[str, Any], alert: Mapping[str, str]
) -> None:
    """Send the alert that a run is late. Reads no site file, because the triggerer's machine may lack it."""
    late = Alert(alert["name"], alert["site"], "late", now=alert["now"], reason=alert["reason"], look=alert["look"])
    alerts.tell(Notify.model_validate(notify), late, scheduler.environment)


def _of_run(stage: Callable[..., Any]) -> Callable[..., Any]:
    """Return the call of a stage that needs the run's key and no site."""
    return lambda _site, scheduler, *, key, **arguments: stage(key, environment=scheduler.environment, **arguments)


_OWN: Final[Mapping[str, Callable[..., Any]]] = {
    "plan": _plan,
    "wait": _wait,
    "publish": _publish,
    "abandon": lambda site, scheduler, *, owner: tasks.abandon(site, owner, scheduler.environment),
    "conclude": _conclude,
    "report_late": _report_late,
}
"""Calls with arguments of their own."""
_CALLS: Final = {
    **{name: _of_run(getattr(tasks, name)) for name, stage in STAGES.items() if stage.page and name not in _OWN},
    **_OWN,
}


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
