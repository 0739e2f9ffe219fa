"""From site files to DAGs: the functions that a user's DAG file calls."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from airflow.sdk import DAG, Param, get_parsing_context

from sitemap_etl.airflow import assets, compat, failures, operators, performing
from sitemap_etl.airflow.deadlines import deadline_of
from sitemap_etl.airflow.guide import GUIDE
from sitemap_etl.airflow.links import PLAN, TAG
from sitemap_etl.airflow.loaded import SiteFile, remember
from sitemap_etl.airflow.loading import LoadTime
from sitemap_etl.config import Site, find_site, load, read_folder
from sitemap_etl.errors import ConfigError
from sitemap_etl.runs.form import fields
from sitemap_etl.runs.stages import STAGES

LABEL: Final = "{{ label | default('') }}"


def site_dags(folder: str | os.PathLike[str]) -> dict[str, DAG]:
    """Return a DAG for every site file at the top of a folder, by name. A DAG file adds them to its globals.

    A worker needs one DAG, so only its site file is read. Site files with mistakes are omitted, and so are those that
    this Airflow can't run: `raise_site_errors` shows them. Raise ConfigError if no site can be read, or if Airflow
    would stop the process before it has the DAGs.
    """
    path, wanted = Path(folder), get_parsing_context().dag_id
    if wanted is not None:
        found = find_site(path, wanted, environ=os.environ)
        return {} if found is None else {wanted: make_dag(SiteFile(*found), scheduled=False)}
    time = LoadTime(path)
    with time.limited():
        sites = read_folder(path, environ=os.environ, before_each=time.demand_time)
        if sites.problems and not sites.sites:
            raise ConfigError(sites.problems)
        dags: dict[str, DAG] = {}
        for name, site in sites.sites.items():
            time.demand_time()
            if not list(assets.problems_of(site)):
                dags[name] = make_dag(SiteFile(site, sites.files[name]))
        time.demand_time_for(dags)
    return dags


def site_dag(file: str | os.PathLike[str]) -> DAG:
    """Return the DAG of one site file. A DAG file assigns it to a variable.

    Raise ConfigError for mistakes in the file, and for settings that this Airflow can't run.
    """
    found = SiteFile(load(Path(file), environ=os.environ), Path(file))
    wanted = get_parsing_context().dag_id
    if wanted is None and (problems := [f"{file}: {problem}" for problem in assets.problems_of(found.site)]):
        raise ConfigError(problems)
    return make_dag(found, scheduled=wanted is None)


def raise_site_errors(folder: str | os.PathLike[str]) -> None:
    """Raise ConfigError with every mistake in the site files of a folder, if there are any.

    Call it in a separate DAG file: Airflow removes all DAGs of a file that has an import error.
    """
    if get_parsing_context().dag_id is not None:
        return
    sites = read_folder(Path(folder), environ=os.environ)
    problems = [
        *sites.problems,
        *(
            f"{sites.files[name]}: {problem}"
            for name, site in sites.sites.items()
            for problem in assets.problems_of(site)
        ),
    ]
    if problems:
        raise ConfigError(problems)


def make_dag(found: SiteFile, *, scheduled: bool = True) -> DAG:
    """Return the DAG of a site. `scheduled`: False in a worker, which needs no schedule and no provider for it."""
    site = found.site
    with DAG(
        site.name,
        description=f"The sitemaps of {site.site}",
        doc_md=GUIDE,
        schedule=assets.schedule_of(site) if scheduled else None,
        catchup=False,
        max_active_runs=1,
        tags=[TAG, *site.airflow.tags],
        on_failure_callback=performing.give_up,
        on_success_callback=None if site.notify.silent else performing.conclude,
        default_args={**_operation(site), "on_failure_callback": performing.abandon},
        **compat.run_types(),
        **_deadline(found),
    ) as dag:
        _add_tasks(site)
    # Tasks copy the parameters that their DAG has when they are made. Each copy would be validated and stored again.
    dag.params.update({name: Param(**schema) for name, schema in fields(site).items()})
    remember(site.name, found)
    return dag


def _deadline(found: SiteFile) -> dict[str, Any]:
    deadline = deadline_of(found.site, found.path)
    return {} if deadline is None else {"deadline": deadline}


def _operation(site: Site) -> dict[str, Any]:
    """Return the arguments of every task that the keys below `airflow` decide."""
    asked = site.airflow
    given = {"owner": asked.owner, "priority_weight": asked.priority, "executor": asked.executor, "queue": asked.queue}
    return {
        "retries": asked.retries,
        "retry_delay": timedelta(seconds=30),
        "retry_exponential_backoff": compat.BACKOFF,
        "max_retry_delay": timedelta(minutes=10),
        "execution_timeout": asked.timeout,
        # Airflow's own rule adds the weights of all following tasks: a site with more tasks would go first.
        **({"weight_rule": "absolute"} if asked.priority else {}),
        **({"retry_policy": failures.RetryUnavailable()} if compat.HAS_RETRY_POLICIES else {}),
        **{name: value for name, value in given.items() if value is not None},
    }


def _task(site: Site, kind: type[Any], name: str, parts: Any = None, **options: Any) -> Any:
    """Return the task of a stage. `parts`: the task that returns the parts of a mapped one."""
    stage = STAGES[name]
    given = {"task_id": name, "doc_md": stage.page, **options}
    if stage.pooled and site.airflow.pool:
        given["pool"] = site.airflow.pool
    if not stage.unit:
        return kind(**given)
    return kind.partial(**given, map_index_template=LABEL).expand(part=parts.output)


def _add_tasks(site: Site) -> None:
    """Add the tasks of a site, in their order, to the DAG at hand."""
    task = partial(_task, site)
    planned = task(operators.Plan, PLAN)
    if any(section.waits for section in site.sections.values()):
        from sitemap_etl.airflow.waiting import AwaitSources  # it loads a provider, which other sites don't need

        task(AwaitSources, "wait", look=operators.look) >> planned
    extracted = task(operators.Extract, "extract", planned)
    # Without parts, extract and all tasks after it are skipped in favour of this one. Tasks of extract that an earlier
    # try of the run had, and that are gone, do not count as skipped.
    built = task(operators.Build, "build", trigger_rule="all_skipped")
    # An empty merge, retransform or collect must not skip the tasks after it.
    unless_skipped = {"trigger_rule": "none_failed_min_one_success"}
    decided = task(operators.Dividing, "decide", **unless_skipped)
    retransformed = task(operators.Mapped, "retransform", decided)
    partitioned = task(operators.Dividing, "partition", **unless_skipped)
    rendered = task(operators.Mapped, "render", partitioned, **unless_skipped)
    # If every section is kept, render is skipped and publish reports that.
    outlets = [assets.publishes(site.name)]
    published = task(operators.Publish, "publish", trigger_rule="none_failed", outlets=outlets)
    task(operators.Ping, "ping", published)
    extracted >> decided >> partitioned
    retransformed >> partitioned
    [rendered, extracted >> built] >> published
    if any(section.keyed for section in site.sections.values()):
        bucketed = task(operators.Dividing, "buckets")
        extracted >> bucketed
        task(operators.Reading, "merge", bucketed) >> decided
    if any(section.alternates for section in site.sections.values()):
        clustered = task(operators.Dividing, "clusters")
        partitioned >> clustered
        task(operators.Mapped, "collect", clustered) >> task(operators.Stage, "align") >> rendered
