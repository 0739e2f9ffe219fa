"""Operators of a site's DAG, one for each stage. Tasks pass keys and counts to each other, never rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar

from airflow.sdk import BaseOperator

from sitemap_etl.airflow import assets, lineage, performing, pools, world
from sitemap_etl.airflow.compat import HAS_DEADLINES, conf, event_extra
from sitemap_etl.airflow.links import RUN, ReportLink
from sitemap_etl.airflow.loaded import site_of
from sitemap_etl.errors import ConfigError
from sitemap_etl.runs.stages import STAGES

Part = Sequence[int]
"""Numbers of the units of a mapped task (`sitemap_etl.runs.bundles`), as JSON."""
Context = Mapping[str, Any]


class Stage(BaseOperator):  # type: ignore[misc] # Airflow's types are not followed
    """A task that runs a call of `sitemap_etl.runs.calls` about the planned run. Its name is the task's id."""

    ui_color = "#e8f0e4"
    template_fields: ClassVar[Sequence[str]] = ()

    def execute(self, context: Context) -> Any:
        if STAGES[self.task_id].pooled:
            lineage.note_sources(self, site_of(context["dag"].dag_id).site)
        return performing.attempt_of_run(context, self.task_id, **self.arguments(context))

    def arguments(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - subclasses need the context
        """Return the arguments of the call."""
        return {}


class Mapped(Stage):
    """A stage that is divided among mapped tasks. `part`: the units of this one."""

    def __init__(self, *, part: Part = (), **options: Any) -> None:
        super().__init__(**options)
        self.part = part

    def arguments(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - as above
        return {"bundle": list(self.part)}


class Reading(Mapped):
    """A mapped stage that may keep a section after its last try."""

    def arguments(self, context: Context) -> dict[str, Any]:
        return {**super().arguments(context), "final": performing.is_last_try(context)}


class Dividing(Stage):
    """A stage that returns the parts of the next one."""

    def arguments(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - as above
        return {"most": most_tasks()}


class Extract(Reading):
    """Reads parts of a source, and makes their rows canonical."""


class Build(Stage):
    """Does everything from extract to render, of a small site."""

    def arguments(self, context: Context) -> dict[str, Any]:
        return {"final": performing.is_last_try(context)}


class Ping(Mapped):
    """Notifies search engines."""

    def arguments(self, context: Context) -> dict[str, Any]:  # noqa: ARG002 - as above
        return {"numbers": list(self.part)}


class Plan(Stage):
    """Plans the run. Returns the parts of extract, and none for a small site."""

    def execute(self, context: Context) -> list[Part]:
        """Begin the run."""
        if site_of(context["dag"].dag_id).site.airflow.done_by is not None and not HAS_DEADLINES:
            world.log("warning: airflow.done_by: deadlines need Airflow 3.2 or later, so late runs are not reported")
        started = performing.attempt(
            context,
            "plan",
            **asked(context),
            final=performing.is_last_try(context),
            problem=problem_of(context),
            most=most_tasks(),
            parts=performing.earlier_parts(context),
        )
        context["ti"].xcom_push(RUN, started["key"])
        parts: list[Part] = started["bundles"]
        return parts


class Publish(Stage):
    """Asks the gates and publishes. Returns the parts of ping."""

    operator_extra_links = (ReportLink(),)

    def execute(self, context: Context) -> list[Part]:
        """Publish, and update the asset of the site if the published files changed."""
        done = performing.attempt_of_run(context, "publish", cleared=performing.was_cleared(context))
        context["ti"].xcom_push("counts", done["counts"])
        if done["news"] is not None:
            name = context["dag"].dag_id
            lineage.note_published(self, site_of(name).site)
            for outlet in context["outlets"]:
                context["outlet_events"][outlet].add(assets.published_set(name), event_extra(done["news"]))
        engines: list[Part] = done["engines"]
        return engines


def look(context: Context) -> datetime | None:
    """Return when to look again at the sources that a run waits for, or None."""
    began = context["dag_run"].start_date.isoformat()
    found = performing.attempt(context, "wait", **asked(context), began=began)
    return None if found is None else datetime.fromisoformat(found)


def asked(context: Context) -> dict[str, Any]:
    """Return the arguments that say which run was triggered, and how."""
    return {
        "fields": dict(context["params"]),
        "conf": context["dag_run"].conf,
        "owner": world.owner_of(context),
        "made": performing.made_at(context),
    }


def problem_of(context: Context) -> str | None:
    """Return the reason why this Airflow can't do the run, or None."""
    if context["dag_run"].run_type == "backfill":  # Airflow 3.0 and 3.1 start backfills of any DAG
        return "Backfills are not offered: a run reads its sources as they are now. Trigger a run instead"
    try:
        pools.demand_pools(context["ti"].xcom_pull(task_ids=pools.KEPT_BY, key=pools.MISSING))
    except ConfigError as error:
        return str(error)
    return None


def most_tasks() -> int:
    """Return the maximum number of mapped tasks."""
    return int(conf.getint("core", "max_map_length", fallback=1024))
