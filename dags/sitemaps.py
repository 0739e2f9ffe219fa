"""Builds the sitemaps of one site from its catalogue, publishes them, and notifies search engines.

This DAG was made from one site file. A run reads the sources of its sections, lists every page once
under its canonical URL, and replaces only those published files whose contents changed.

| task | what it does |
|---|---|
| `wait` | only where a section may wait for its source: looks every five minutes, and holds no worker in between |
| `plan` | fixes what the run reads, from which published set it starts, and that no other run is at it |
| `build` | for a small site, in place of the tasks up to `render`: does all of them in one |
| `extract` | reads parts of a source, key ranges or files; makes their rows canonical, keeps rejected ones apart |
| `buckets`, `merge` | only where a section reads what changed: merge it with what earlier runs read |
| `partition` | divides the pages of each section in which something differs into groups |
| `clusters`, `collect`, `align` | only where a section has hreflang clusters: close them over the listed pages |
| `render` | writes the sitemaps of groups and finds what was added, changed and removed |
| `publish` | asks the gates (one may visit new pages), then writes new and changed files, the index, robots.txt |
| `ping` | notifies search engines of what changed |

A task costs seconds before it reads a row. So a small site (`airflow.small` in the site file: rows) is built by one
task, and those from `extract` to `render` are skipped; of a larger one `build` is. A stage is at most 256 tasks, each
of which may do several parts: its name in the grid says which.

### Starting it by hand

**Trigger** asks for these; a scheduled run has the defaults.

| parameter | |
|---|---|
| `sections` | read only these; the others stay as published. None chosen: all |
| `full` | read everything, also where a SELECT asks for what came since the last run (`:since`) |
| `dry_run` | stop before anything public is written; the log of `publish` says what would be |
| `ping` | off: search engines are notified of the changes by the next run |
| `force`, `reason` | let a gate pass that refused, such as `products.max_drop`; the reason is kept in the manifest |
| `now`, `reason` | the time of the run, such as `2026-11-20T02:00:00Z`, to repeat a run, or where clocks are wrong |
| `moved` | once, after the site or the place it is published to was changed on purpose: its state is taken along |

The same goes for REST and for `airflow dags trigger --conf`. A key that is none of these fails `plan`, and nothing
is written. A backfill is not offered, because a run reads the sources as they are now.

### When it fails

A task is retried only if something did not answer: three times, with growing pauses. Everything else fails at once,
because trying again cannot help. **The log of the failed task ends with one message**: what is wrong, where, and what
to do. In any case the published sitemaps are intact; the next run continues from them.

- **A gate refused** (`publish`): the message says how much and where, and how to look. If it is right after all,
  publish the refused run with the command it shows, or trigger a new one with `force` and `reason`.
- **A source is broken or late** (`plan`, `build`, `extract`): fix it and start a run. With `on_error: keep`,
  its section stays as published and the others go on; the log of `publish` names it.
- **An engine failed** (`ping`): the sitemaps are published. It hears of these changes with the next run.

Clearing, marking and deleting is safe at any time. Tasks of a published run that are cleared do nothing, and end as
*already published*; to publish what the sources say now, trigger a new run.

Where the site file has `notify:`, people are told of it when the run is over, once.

The log of `publish` has the counts; so has its XCom `counts`. A site file that can't be read has no DAG: the import
errors say what is wrong in it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import (
    DAG,
    Connection,
    Param,
    TriggerRule,
    WeightRule,
    get_current_context,
    get_parsing_context,
    task,
)
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowNotFoundException

from sitemap_etl.airflow import assets, failures, lineage, pools
from sitemap_etl.airflow.deadlines import deadline_of
from sitemap_etl.airflow.links import PLAN, RUN, TAG, ReportLink
from sitemap_etl.config import Site, read_folder
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.memory import keep_memory
from sitemap_etl.runs.form import fields

if TYPE_CHECKING:
    from sitemap_etl.stages.run import Environment

# Parsing must stay quick: nothing above imports pandas, pyarrow or boto3. The tasks import the stages.

Part = Sequence[int]  # JSON, see sitemap_etl.runs.bundles
T = TypeVar("T")

SITES = Path(os.environ.get("SITEMAP_ETL_SITES") or Path(__file__).resolve().parent.parent / "sites")
LABEL = "{{ label | default('') }}"
RUN_TYPES = ["manual", "scheduled", "asset_triggered", "asset_materialization", "operator_triggered"]
"""No backfill is offered: a run reads its sources as they are now, whichever day it is of."""
log = logging.getLogger("sitemap_etl")
wanted = get_parsing_context().dag_id  # a worker asks for the one DAG whose task it runs


def environment(site_file: Path | None = None) -> Environment:
    """The world as a task reaches it: Airflow's connections, the task's log, its label in the grid."""
    from sitemap_etl.stages.run import Environment

    logging.getLogger("botocore").setLevel(logging.WARNING)  # it says where it found credentials, each time
    return Environment(
        connections=connection_of,
        log=tell,
        detail=tell_detail,
        label=show_label,
        site_file="" if site_file is None else str(site_file),
    )


def tell(line: str) -> None:
    """Write a line to the task's log."""
    log.log(logging.WARNING if line.startswith("warning: ") else logging.INFO, line)


def tell_detail(line: str, **facts: Any) -> None:
    """Write to the task's log what one part of its work came to; of single files only where debugging is asked for."""
    log.log(logging.DEBUG if "file" in facts else logging.INFO, line)


def connection_of(connection_id: str) -> str:
    """An Airflow connection as JSON: of a secrets backend, the environment or the metadata database."""
    try:
        connection: Connection = Connection.get(connection_id)
    except AirflowNotFoundException:
        raise ConfigError(
            f"connection {connection_id!r} is not known: create it in Airflow (Admin, Connections), or set "
            f"AIRFLOW_CONN_{connection_id.upper()} to its URI"
        ) from None
    return connection.as_json()


def show_label(text: str) -> None:
    """Name the mapped task at hand."""
    get_current_context()["label"] = text  # type: ignore[typeddict-unknown-key]  # read by map_index_template


def owner_of(context: Mapping[str, Any]) -> str:
    """What the lease calls this run."""
    return f"{context['dag'].dag_id}/{context['run_id']}"


def is_dry(context: Mapping[str, Any]) -> bool:
    """Whether this run was triggered as a dry one, of which nobody is told; also where `plan` refused its conf."""
    asked = getattr(context.get("dag_run"), "conf", None) or {}
    return bool(asked.get("dry_run"))


def has_ended(owner: str) -> bool:
    """Whether the run that a lease names, one of this DAG, is no longer under way; also where it was deleted."""
    context = get_current_context()
    dag_id, _, run_id = owner.partition("/")
    if dag_id != context["dag"].dag_id:
        return False
    return bool(context["ti"].get_dr_count(dag_id, run_ids=[run_id], states=["running"]) == 0)


def is_last_try() -> bool:
    """Whether the scheduler makes no other try of this task: then `on_error: keep` keeps the section."""
    instance = get_current_context()["ti"]
    return instance.try_number > instance.max_tries


def was_cleared() -> bool:
    """Whether somebody cleared this task after a try of it had ended: that gives it all of its retries once more."""
    context = get_current_context()
    return bool(context["ti"].max_tries > context["task"].retries)


def attempt(stage: Callable[[Any, Environment], T], site_file: Path | None = None) -> T:
    """What a stage, one of `runs.tasks`, gives. What it raises becomes the last message of the task's log."""
    limit = get_current_context()["task"].execution_timeout

    def begin() -> T:
        keep_memory()
        from sitemap_etl.runs import tasks

        world = environment(site_file)
        return stage(tasks, replace(world, explained=lambda error: failures.explained(error, limit)))

    return failures.attempt(begin, limit)


def parts_before() -> int:
    """How many tasks of extract this DAG run has had: of one that has none again, what follows would never start."""
    context = get_current_context()
    if context["ti"].try_number == 1:
        return 0
    found = context["ti"].get_task_states(context["dag"].dag_id, task_ids=["extract"], run_ids=[context["run_id"]])
    return sum(name.startswith("extract_") for states in found.values() for name in states)


def again(context: Mapping[str, Any]) -> datetime | None:
    """For when this DAG run was made, where somebody cleared tasks of it. One before may have had its name."""
    run = context["dag_run"]
    made: datetime | None = run.run_after if run.clear_number else None
    return made


def parameters(site: Site) -> dict[str, Param]:
    """What a person who triggers a run is asked for."""
    return {name: Param(**schema) for name, schema in fields(site).items()}


def run_key() -> str:
    """What the tasks of this run open it by, which `plan` left. Raises Refused where it left nothing of the kind."""
    found = get_current_context()["ti"].xcom_pull(task_ids=PLAN, key=RUN)
    if found is None:
        raise Refused(
            "This run was planned by another release of sitemap_etl, whose tasks are not these, or its plan was "
            "cleared. Nothing was done, and the published sitemaps are intact. Trigger a new run"
        )
    return str(found)


def note_sources() -> None:
    """Tell who gathers lineage what this task reads."""
    context = get_current_context()
    lineage.note_sources(context["task"], FOLDER.sites[context["dag"].dag_id])


def most_tasks() -> int:
    """How many tasks a stage may be: no more than Airflow takes."""
    from sitemap_etl.runs.bundles import MOST

    return min(MOST, conf.getint("core", "max_map_length", fallback=MOST))


@task(map_index_template=LABEL)
def extract(part: Part) -> dict[str, int]:
    """Read parts of a source, and make their rows canonical."""
    note_sources()
    return attempt(lambda tasks, world: tasks.extract(run_key(), part, world, final=is_last_try()))


# A small site has no parts: extract is skipped, and with it all that follow it, for this one. Tasks of extract that
# there were, and are not any more, are no skipped ones to Airflow.
@task(trigger_rule=TriggerRule.ALL_SKIPPED)
def build() -> dict[str, int]:
    """Do everything from extract to render, of a small site."""
    note_sources()
    return attempt(lambda tasks, world: tasks.build(run_key(), world, final=is_last_try()))


@task
def buckets() -> list[Part]:
    """Find where the rows of each part of the mirrors are; gives the parts of merge."""
    return attempt(lambda tasks, world: tasks.buckets(run_key(), world, most=most_tasks()))


@task(map_index_template=LABEL)
def merge(part: Part) -> dict[str, int]:
    """Merge what changed with what earlier runs read, and make the rows canonical."""
    return attempt(lambda tasks, world: tasks.merge(run_key(), part, world, final=is_last_try()))


# Nothing to merge is no reason to stop.
@task(trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def partition() -> list[Part]:
    """Divide the pages into groups; gives the parts of render."""
    return attempt(lambda tasks, world: tasks.partition(run_key(), world, most=most_tasks()))


@task
def clusters() -> list[Part]:
    """Find the groups with hreflang clusters; gives the parts of collect."""
    return attempt(lambda tasks, world: tasks.clusters(run_key(), world, most=most_tasks()))


@task(map_index_template=LABEL)
def collect(part: Part) -> dict[str, int]:
    """Find the listed members of clusters in groups."""
    return attempt(lambda tasks, world: tasks.collect(run_key(), part, world))


@task
def align() -> dict[str, int]:
    """Close the clusters."""
    return attempt(lambda tasks, world: tasks.align(run_key(), world))


# No cluster to close is no reason to stop.
@task(map_index_template=LABEL, trigger_rule=TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS)
def render(part: Part) -> dict[str, int]:
    """Write the sitemaps of groups."""
    return attempt(lambda tasks, world: tasks.render(run_key(), part, world))


# Where every section is kept there is nothing to render: that is skipped, and publish says so.
@task(trigger_rule=TriggerRule.NONE_FAILED)
def publish() -> list[Part]:
    """Ask the gates and publish; gives the parts of ping."""
    told = was_cleared() and attempt(lambda tasks, world: tasks.is_over(run_key(), world))
    published = attempt(lambda tasks, world: tasks.publish(run_key(), world))
    context = get_current_context()
    context["ti"].xcom_push("counts", published)
    news = None if told else attempt(lambda tasks, world: tasks.news(run_key(), world))
    if news is not None:
        lineage.note_published(context["task"], FOLDER.sites[context["dag"].dag_id])
        for outlet in context["outlets"]:
            context["outlet_events"][outlet].add(assets.published_set(context["dag"].dag_id), news)
    return attempt(lambda tasks, world: tasks.engines(run_key(), world))


@task(map_index_template=LABEL)
def ping(part: Part) -> dict[str, Any]:
    """Notify search engines."""
    return attempt(lambda tasks, world: tasks.ping(run_key(), part, world))


def make_dag(site: Site, site_file: Path) -> DAG:
    """The DAG of one site."""

    def abandon(context: Mapping[str, Any]) -> None:
        from sitemap_etl.runs import tasks

        tasks.abandon(site, owner_of(context), environment())

    def conclude(context: Mapping[str, Any], *, good: bool = True) -> None:
        from sitemap_etl.airflow.notifiers import announcing
        from sitemap_etl.runs import tasks

        world = replace(environment(site_file), announce=announcing(context))
        tasks.conclude(
            site, owner_of(context), world, good=good, began=getattr(context.get("dag_run"), "start_date", None)
        )

    def give_up(context: Mapping[str, Any]) -> None:
        try:
            abandon(context)
        finally:  # people hear of it wherever the state lies
            if not is_dry(context):
                conclude(context, good=False)

    with DAG(
        site.name,
        description=f"The sitemaps of {site.site}",
        doc_md=__doc__,
        # A worker runs its task whatever starts the DAG, and an asset such as s3://… would load its provider for that.
        schedule=assets.schedule_of(site) if wanted is None else None,
        catchup=False,
        max_active_runs=1,
        allowed_run_types=RUN_TYPES,
        deadline=deadline_of(site, site_file),
        params=parameters(site),
        tags=[TAG, *site.airflow.tags],
        on_failure_callback=give_up,
        on_success_callback=None if site.notify.silent else conclude,
        default_args={**operation(site), "on_failure_callback": abandon},
    ) as dag:
        wire(site, site_file)
    return dag


def operation(site: Site) -> dict[str, Any]:
    """What the operators of Airflow decide about every task of a site."""
    asked = site.airflow
    given = {"owner": asked.owner, "priority_weight": asked.priority, "executor": asked.executor, "queue": asked.queue}
    return {
        "retries": asked.retries,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": 2.0,
        "max_retry_delay": timedelta(minutes=10),
        "retry_policy": failures.RetryUnavailable(),
        "execution_timeout": asked.timeout,
        "show_return_value_in_logs": False,
        "multiple_outputs": False,
        # Airflow's own rule adds the weights of all tasks that follow: a site with more tasks would go first.
        "weight_rule": WeightRule.ABSOLUTE if asked.priority else WeightRule.DOWNSTREAM,
        **{name: value for name, value in given.items() if value is not None},
    }


def wire(site: Site, site_file: Path) -> None:
    """The tasks of a site and their order."""

    @task(task_id=PLAN)
    def plan() -> list[Part]:
        """Fix what the run does; gives the parts of extract, none of a small site."""
        context = get_current_context()

        def start(tasks: Any, world: Environment) -> Any:
            tasks.demand_work(site, world)
            options, now = tasks.asked(site, context["params"], context["dag_run"].conf)
            return tasks.start(
                site,
                options,
                world,
                now=now,
                final=is_last_try(),
                owner=owner_of(context),
                again=again(context),
                has_ended=has_ended,
                demand=lambda: pools.demand_pools(context["ti"].xcom_pull(task_ids=pools.KEPT_BY, key=pools.MISSING)),
                most=most_tasks(),
                parts=parts_before(),
                waits=False,  # that was a task of its own
            )

        started = attempt(start, site_file)
        context["ti"].xcom_push(RUN, started.key)
        parts: list[Part] = started.bundles
        return parts

    def look() -> datetime | None:
        context = get_current_context()

        def ask(tasks: Any, world: Environment) -> datetime | None:
            from sitemap_etl.runs.waits import next_look

            made = again(context)
            if made is not None and tasks.is_done(site, owner_of(context), made, world):
                return None
            options, _ = tasks.asked(site, context["params"], context["dag_run"].conf)
            found: datetime | None = next_look(site, options, world, began=context["dag_run"].start_date)
            return found

        return attempt(ask, site_file)

    planned = plan()
    if any(section.waits for section in site.sections.values()):
        from sitemap_etl.airflow.waiting import AwaitSources  # it loads a provider, which other sites need not

        AwaitSources(task_id="wait", look=look) >> planned
    pool = {"pool": site.airflow.pool} if site.airflow.pool else {}
    extracted = extract.override(**pool).expand(part=planned)
    partitioned = partition()
    rendered = render.expand(part=partitioned)
    published = publish.override(outlets=[assets.publishes(site.name)])()
    published.operator.operator_extra_links = (ReportLink(),)
    extracted >> partitioned
    [rendered, extracted >> build.override(**pool)()] >> published
    ping.expand(part=published)
    if any(section.keyed for section in site.sections.values()):
        bucketed = buckets()
        extracted >> bucketed
        merge.expand(part=bucketed) >> partitioned
    if any(section.alternates for section in site.sections.values()):
        clustered = clusters()
        partitioned >> clustered
        collect.expand(part=clustered) >> align() >> rendered


FOLDER = read_folder(SITES, environ=os.environ)
DAGS = {
    name: make_dag(site, FOLDER.files[name])
    for name, site in FOLDER.sites.items()
    if name == wanted or (wanted is None and not list(assets.problems_of(site)))
}
