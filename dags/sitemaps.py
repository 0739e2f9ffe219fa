"""Builds the sitemaps of one site from its catalogue, publishes them, and notifies search engines.

This DAG was made from one site file. A run reads the sources of its sections, lists every page once
under its canonical URL, and replaces only those published files whose contents changed.

| task | what it does |
|---|---|
| `plan` | fixes what the run reads, from which published set it starts, and that no other run is at it |
| `extract` | reads a part of a source: one task a key range or file |
| `transform` | makes its rows canonical, and keeps those that are excluded or rejected apart, with the reason |
| `buckets`, `merge` | only where a section reads what changed: merge it with what earlier runs read |
| `partition` | divides the pages of each section into groups |
| `clusters`, `collect`, `align` | only where a section has hreflang clusters: close them over the listed pages |
| `render` | writes the sitemaps of a group and finds what was added, changed and removed |
| `publish` | asks the gates (one may visit new pages), then writes new and changed files, the index, robots.txt |
| `ping` | notifies one search engine of what changed |

### Starting it by hand

**Trigger** asks for these; a scheduled run has the defaults.

| parameter | |
|---|---|
| `sections` | read only these; the others stay as published. None chosen: all |
| `full` | read everything, also where a SELECT asks for what came since the last run (`:since`) |
| `dry_run` | stop before anything public is written; the log of `publish` says what would be |
| `ping` | off: search engines are notified of the changes by the next run |
| `force`, `reason` | let a gate pass that refused, such as `products.max_drop`; the reason is kept in the manifest |
| `now`, `reason` | the time of the run, such as `2026-11-20T02:00:00Z`, where the clocks say another one |
| `moved` | once, after the site or the place it is published to was changed on purpose: its state is taken along |

### When it fails

A task is retried only if something did not answer: three times, with growing pauses. Everything else fails at once,
because trying again cannot help. **The log of the failed task ends with one message**: what is wrong, where, and what
to do. In any case the published sitemaps are intact; the next run continues from them.

- **A gate refused** (`publish`): the message says how much and where, and how to look. If it is right after all,
  publish the refused run with the command it shows, or trigger a new one with `force` and `reason`.
- **A source is broken or late** (`plan`, `extract`, `transform`): fix it and start a run. With `on_error: keep`,
  its section stays as published and the others go on; the log of `publish` names it.
- **An engine failed** (`ping`): the sitemaps are published. It hears of these changes with the next run.

Where the site file has `notify:`, people are told of it when the run is over, once.

The log of `publish` has the counts; so has its XCom `counts`. A site file that can't be read has no DAG: the import
errors say what is wrong in it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.sdk import (
    DAG,
    Connection,
    CronTriggerTimetable,
    Param,
    TriggerRule,
    get_current_context,
    get_parsing_context,
    task,
)
from airflow.sdk.exceptions import AirflowFailException, AirflowNotFoundException

from sitemap_etl.config import Site, read_folder
from sitemap_etl.errors import ConfigError, SitemapEtlError, Unavailable, defect
from sitemap_etl.settings import Gates

if TYPE_CHECKING:
    from sitemap_etl.stages.run import Environment

# Parsing must stay quick: nothing above imports pandas, pyarrow or boto3. The tasks import the stages.

Unit = dict[str, Any]
T = TypeVar("T")

SITES = Path(os.environ.get("SITEMAP_ETL_SITES") or Path(__file__).resolve().parent.parent / "sites")
LABEL = "{{ label | default('') }}"
GATES = tuple(Gates.model_fields)
log = logging.getLogger("sitemap_etl")


def environment(site_file: Path | None = None) -> Environment:
    """The world as a task reaches it: Airflow's connections, the task's log, its label in the grid."""
    from sitemap_etl.stages.run import Environment

    logging.getLogger("botocore").setLevel(logging.WARNING)  # it says where it found credentials, each time
    return Environment(
        connections=connection_of, log=tell, label=show_label, site_file="" if site_file is None else str(site_file)
    )


def tell(line: str) -> None:
    """Write a line to the task's log."""
    log.log(logging.WARNING if line.startswith("warning: ") else logging.INFO, line)


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


def is_last_try() -> bool:
    """Whether the scheduler makes no other try of this task: then `on_error: keep` keeps the section."""
    instance = get_current_context()["ti"]
    return instance.try_number > instance.max_tries


def attempt(stage: Callable[[Any, Environment], T], site_file: Path | None = None) -> T:
    """What a stage, one of `runs.tasks`, gives. Unavailable is left to the retries; all else fails for good."""
    try:
        from sitemap_etl.runs import tasks

        return stage(tasks, environment(site_file))
    except Unavailable as error:
        raise Unavailable(str(error)) from None
    except SitemapEtlError as error:
        raise AirflowFailException(str(error)) from None
    except Exception as error:  # a defect of ours: another try of it would end the same
        raise AirflowFailException(defect(error)) from error


def parameters(site: Site) -> dict[str, Param]:
    """What a person who triggers a run is asked for."""
    names = list(site.sections)
    gates = [*GATES, *(f"{name}.{gate}" for name in names for gate in GATES)]
    return {
        "sections": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "enum": names},
            examples=names,
            title="Sections",
            description="Read only these; the others stay as published. None: all of them.",
        ),
        "full": Param(False, type="boolean", title="Full", description="Read everything, not only what came since."),
        "dry_run": Param(False, type="boolean", title="Dry run", description="Write nothing public."),
        "ping": Param(True, type="boolean", title="Ping", description="Notify search engines of what changed."),
        "force": Param(
            [],
            type=["array", "null"],
            items={"type": "string", "enum": gates},
            examples=gates,
            title="Force",
            description="Gates to override. Requires a reason.",
        ),
        "reason": Param(
            None,
            type=["string", "null"],
            title="Reason",
            description="Why you override a gate or a clock; recorded in the manifest.",
        ),
        "now": Param(
            None,
            type=["string", "null"],
            title="Now",
            description="The time of the run, in ISO 8601 (default: now). Far from the clocks, it requires a reason.",
        ),
        "moved": Param(
            False,
            type="boolean",
            title="Moved",
            description="Take over state that belongs to another site or publishes to another place.",
        ),
    }


@task(multiple_outputs=False, map_index_template=LABEL)
def extract(unit: Unit) -> dict[str, int]:
    """Read one split of a source."""
    return attempt(lambda tasks, world: tasks.extract(unit, world, final=is_last_try()))


@task(multiple_outputs=False, map_index_template=LABEL)
def transform(unit: Unit) -> dict[str, int]:
    """Make the rows of one split canonical."""
    return attempt(lambda tasks, world: tasks.transform(unit, world, final=is_last_try()))


@task(multiple_outputs=False)
def buckets(units: list[Unit]) -> list[Unit]:
    """Find where the rows of each part of the mirrors are; gives the units of merge."""
    return attempt(lambda tasks, world: tasks.buckets(units[0], world))


@task(multiple_outputs=False, map_index_template=LABEL)
def merge(unit: Unit) -> dict[str, int]:
    """Merge what changed with what earlier runs read, and make the rows canonical."""
    return attempt(lambda tasks, world: tasks.merge(unit, world, final=is_last_try()))


# Nothing to merge is no reason to stop.
@task(multiple_outputs=False, trigger_rule=TriggerRule.NONE_FAILED)
def partition(units: list[Unit]) -> list[Unit]:
    """Divide the pages into groups; gives the units of render."""
    return attempt(lambda tasks, world: tasks.partition(units[0], world))


@task(multiple_outputs=False)
def clusters(units: list[Unit]) -> list[Unit]:
    """Find the groups with hreflang clusters; gives the units of collect."""
    return attempt(lambda tasks, world: tasks.clusters(units[0], world))


@task(multiple_outputs=False, map_index_template=LABEL)
def collect(unit: Unit) -> dict[str, int]:
    """Find the listed members of clusters in one group."""
    return attempt(lambda tasks, world: tasks.collect(unit, world))


@task(multiple_outputs=False, trigger_rule=TriggerRule.NONE_FAILED)
def align(units: list[Unit]) -> dict[str, int]:
    """Close the clusters."""
    return attempt(lambda tasks, world: tasks.align(units[0], world))


@task(multiple_outputs=False, map_index_template=LABEL)
def render(unit: Unit) -> dict[str, int]:
    """Write the sitemaps of one group."""
    return attempt(lambda tasks, world: tasks.render(unit, world))


# Where every section is kept there is nothing to render: that is skipped, and publish says so.
@task(multiple_outputs=False, trigger_rule=TriggerRule.NONE_FAILED)
def publish(units: list[Unit]) -> list[Unit]:
    """Ask the gates and publish; gives the units of ping, one an engine."""
    published = attempt(lambda tasks, world: tasks.publish(units[0], world))
    get_current_context()["ti"].xcom_push("counts", published)
    return attempt(lambda tasks, world: tasks.engines(published, world))


@task(multiple_outputs=False, map_index_template=LABEL)
def ping(unit: Unit) -> dict[str, Any]:
    """Notify one search engine."""
    return attempt(lambda tasks, world: tasks.ping(unit, world))


def make_dag(site: Site, site_file: Path) -> DAG:
    """The DAG of one site."""

    def abandon(context: Mapping[str, Any]) -> None:
        from sitemap_etl.runs import tasks

        tasks.abandon(site, owner_of(context), environment())

    def conclude(context: Mapping[str, Any]) -> None:
        from sitemap_etl.runs import tasks

        tasks.conclude(site, owner_of(context), environment(site_file))

    def give_up(context: Mapping[str, Any]) -> None:
        abandon(context)
        conclude(context)

    timetable = None
    if site.schedule:  # a new site begins with its next time, not with the one that has just gone by
        cron, timezone = site.schedule.cron, site.schedule.timezone
        timetable = CronTriggerTimetable(cron, timezone=timezone, run_immediately=timedelta(0))
    with DAG(
        site.name,
        description=f"The sitemaps of {site.site}",
        doc_md=__doc__,
        schedule=timetable,
        catchup=False,
        max_active_runs=1,
        params=parameters(site),
        tags=["sitemap"],
        on_failure_callback=give_up,
        on_success_callback=None if site.notify.silent else conclude,
        default_args={
            "retries": 3,
            "retry_delay": timedelta(seconds=30),
            "retry_exponential_backoff": 2.0,
            "max_retry_delay": timedelta(minutes=10),
            "on_failure_callback": abandon,
        },
    ) as dag:
        wire(site, site_file)
    return dag


def wire(site: Site, site_file: Path) -> None:
    """The tasks of a site and their order."""

    @task(task_id="plan", multiple_outputs=False)
    def plan() -> list[Unit]:
        """Fix what the run does; gives the units of extract."""
        from sitemap_etl.stages.clock import written

        context = get_current_context()
        asked = context["params"]

        def start(tasks: Any, world: Environment) -> list[Unit]:
            tasks.demand_work(site, world)
            options = tasks.Options(
                sections=tuple(asked["sections"] or ()),
                full=asked["full"],
                dry_run=asked["dry_run"],
                ping=asked["ping"],
                force=tuple(asked["force"] or ()),
                reason=asked["reason"],
                moved=asked["moved"],
            )
            now = written(asked["now"])
            return tasks.start(site, options, world, now=now, final=is_last_try(), owner=owner_of(context))

        return attempt(start, site_file)

    planned = plan()
    extracted = extract.expand(unit=planned)
    transformed = transform.expand(unit=planned)
    partitioned = partition(planned)
    rendered = render.expand(unit=partitioned)
    published = publish(planned)
    extracted >> transformed >> partitioned >> rendered >> published
    ping.expand(unit=published)
    if any(section.keyed for section in site.sections.values()):
        bucketed = buckets(planned)
        extracted >> bucketed >> merge.expand(unit=bucketed) >> partitioned
    if any(section.alternates for section in site.sections.values()):
        clustered = clusters(planned)
        collected = collect.expand(unit=clustered)
        partitioned >> clustered >> collected >> align(planned) >> rendered


wanted = get_parsing_context().dag_id  # a worker asks for the one DAG whose task it runs
FOLDER = read_folder(SITES, environ=os.environ)
DAGS = {
    name: make_dag(site, FOLDER.files[name]) for name, site in FOLDER.sites.items() if wanted is None or name == wanted
}
