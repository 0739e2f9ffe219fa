"""Calls of tasks and callbacks, with errors for Airflow."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sitemap_etl.airflow import failures, remote, world
from sitemap_etl.airflow.links import PLAN, RUN
from sitemap_etl.airflow.loaded import SiteFile, site_of
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.memory import keep_memory


def attempt(context: Mapping[str, Any], call: str, **arguments: Any) -> Any:
    """Return the result of a call of `runs.calls` in a task. An error becomes the last message of the task's log."""
    limit = context["task"].execution_timeout
    found = site_of(context["dag"].dag_id)
    return failures.attempt(
        lambda: perform(found, call, arguments, explained=lambda error: failures.explained(error, limit)), limit
    )


def attempt_of_run(context: Mapping[str, Any], call: str, **arguments: Any) -> Any:
    """Return the result of a call for the run that `plan` has planned."""
    limit = context["task"].execution_timeout
    key = failures.attempt(lambda: run_key(context), limit)
    return attempt(context, call, key=key, **arguments)


def perform(found: SiteFile, call: str, arguments: Mapping[str, Any], **fields: Any) -> Any:
    """Return the result of a call. `fields`: of the stage's environment."""
    python = found.site.airflow.python
    if python is not None:
        return remote.perform(python, found.path, call, arguments, fields.get("announce"))
    keep_memory()
    try:
        from sitemap_etl.runs import calls

        scheduler = calls.Scheduler(world.environment(found.path, **fields), world.has_ended)
        return calls.perform(call, found.site, arguments, scheduler)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "sitemap_etl":
            raise
        raise ConfigError(
            f"Airflow's environment ({sys.executable}) has no module {error.name}, which this run needs. Name an "
            "interpreter that has sitemap_etl with all of its libraries, such as `airflow: {python: "
            "/opt/sitemap/bin/python}` in the site file, or install them in Airflow's environment"
        ) from error


def run_key(context: Mapping[str, Any]) -> str:
    """Return the key that `plan` left for the tasks of this run. Raise Refused if it left none."""
    found = context["ti"].xcom_pull(task_ids=PLAN, key=RUN)
    if found is None:
        raise Refused(
            "This run was planned by another version of sitemap_etl, whose tasks are not these, or its plan was "
            "cleared. Nothing was done, and the published sitemaps are intact. Trigger a new run"
        )
    return str(found)


def is_last_try(context: Mapping[str, Any]) -> bool:
    """Return True if this is the last try. Only then does `on_error: keep` keep a section."""
    instance = context["ti"]
    return bool(instance.try_number > instance.max_tries)


def was_cleared(context: Mapping[str, Any]) -> bool:
    """Return True if this task was cleared after a try had ended. Clearing adds all retries again."""
    return bool(context["ti"].max_tries > context["task"].retries)


def made_at(context: Mapping[str, Any]) -> str | None:
    """Return the creation time of the DAG run if its tasks were cleared. An earlier run can have had the same name."""
    run = context["dag_run"]
    made: datetime | None = run.run_after if run.clear_number else None
    return None if made is None else made.isoformat()


def earlier_parts(context: Mapping[str, Any]) -> int:
    """Return the number of tasks of extract in earlier tries. If one is missing, later tasks never start."""
    if context["ti"].try_number == 1:
        return 0
    found = context["ti"].get_task_states(context["dag"].dag_id, task_ids=["extract"], run_ids=[context["run_id"]])
    return sum(name.startswith("extract_") for states in found.values() for name in states)


def abandon(context: Mapping[str, Any]) -> None:
    """Release the lease of a DAG run that has failed. A callback of Airflow."""
    perform(site_of(context["dag"].dag_id), "abandon", {"owner": world.owner_of(context)})


def conclude(context: Mapping[str, Any], *, good: bool = True) -> None:
    """Send the messages about a DAG run that has ended. A callback of Airflow."""
    from sitemap_etl.airflow.notifiers import announcing

    began: datetime | None = getattr(context.get("dag_run"), "start_date", None)
    arguments = {
        "owner": world.owner_of(context),
        "good": good,
        "began": None if began is None else began.isoformat(),
    }
    perform(site_of(context["dag"].dag_id), "conclude", arguments, announce=announcing(context))


def give_up(context: Mapping[str, Any]) -> None:
    """Release the lease of a failed DAG run, and send the messages about it. A callback of Airflow."""
    try:
        abandon(context)
    finally:  # the messages are sent even if the state can't be reached
        if not _is_dry(context):
            conclude(context, good=False)


def _is_dry(context: Mapping[str, Any]) -> bool:
    """Return True if the run was triggered as a dry run, even if `plan` refused its conf."""
    asked = getattr(context.get("dag_run"), "conf", None) or {}
    return bool(asked.get("dry_run"))
