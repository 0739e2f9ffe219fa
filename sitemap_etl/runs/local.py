"""A whole run in this process, from plan to notification."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from sitemap_etl import limits
from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError
from sitemap_etl.publish.publish import Published, publish
from sitemap_etl.publish.summary import add_answers, answers_of, finish_run, put_summary, read_summary
from sitemap_etl.runs.build import build, timed
from sitemap_etl.runs.failures import remember_failure
from sitemap_etl.stages.about import note
from sitemap_etl.stages.ping import engines_to_notify, notify
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.resident import Resident
from sitemap_etl.stages.run import Environment, Run, check_options, open_run, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.lease import leased, release_lease, renewing, take_lease
from sitemap_etl.state.records import Options, Partition, Summary
from sitemap_etl.storage import Storage

SPLIT_ROWS: Final = 500_000
"""Target rows per split. A local task has a few milliseconds of overhead, and small ones keep all processors busy."""
KEPT: Final = (
    layout.PLAN,
    layout.SETTLE,
    layout.PARTITION,
    layout.EXTRACT,
    layout.TRANSFORM,
    layout.MERGE,
    layout.RENDER,
    layout.ALIGN,
)
"""Staged objects that publishing a run needs."""


@dataclass
class Finished:
    """A run that has ended, published or not, with its summary."""

    run: Run
    published: Published
    summary: Summary


def run_locally(
    site: Site, options: Options, environment: Environment, *, jobs: int = 2, now: datetime | None = None
) -> Finished:
    """Run all stages in this process. Staging is removed if the run publishes, and kept if not."""
    check_options(site, options)
    begun: list[Run] = []
    try:
        return _run(site, options, environment, jobs, now, begun)
    except BaseException as error:
        if begun or not options.dry_run:
            remember_failure(site, environment, error, *begun)
        raise


def _run(
    site: Site, options: Options, environment: Environment, jobs: int, now: datetime | None, begun: list[Run]
) -> Finished:
    """Run all stages. The run is appended to `begun` as soon as it exists."""
    seconds: dict[str, float] = {}
    scratch = None if not site.work.startswith("s3://") else Path(tempfile.mkdtemp(prefix="sitemap_etl-"))
    try:
        staging = None if scratch is None else environment.open_storage(scratch, durable=False)
        started = time.monotonic()
        environment.advance("plan", 0, 1)
        run = start_run(
            site,
            options,
            environment,
            now=now,
            staging=staging,
            one_process=True,
            durable=False,
            split_rows=SPLIT_ROWS,
        )
        begun.append(run)
        # No other process goes on with this run, and finds its receipts without the rows.
        run.resident = Resident(limits.RESIDENT_BYTES)
        try:
            _tell_plan(run)
            renew = partial(take_lease, run.work, run.run_id)
            with renewing(renew):
                build(run, jobs, seconds, renew=renew)
                with timed(run, "publish", seconds, counts_itself=True):
                    published = publish(run)
                seconds["total"] = time.monotonic() - started
                with timed(run, "report", {}):
                    summary = finish_run(run, published, seconds)
        except SitemapEtlError as error:
            error.run_id = run.run_id
            raise
        finally:
            release_lease(run.work, run.run_id)
        if scratch is not None and published.outcome is None:
            _keep_staging(run)
        return Finished(run, published, summary)
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _tell_plan(run: Run) -> None:
    """Log the plan of the run."""
    environment, plan = run.environment, run.plan
    environment.advance("plan", 1, 1)
    splits, sections = len(plan.units), len(run.read_sections())
    base = "" if run.base is None else f"; compared with run {run.base.run_id}"
    environment.detail(
        f"plan: run {run.run_id}; sections: {sections:,}, splits: {splits:,}{base}; state at {run.work.url}",
        stage="plan",
        sections=sections,
        splits=splits,
        state=run.work.url,
    )


def _keep_staging(run: Run) -> None:
    """Move the staged files of a dry or refused run to the state, so that it can be published as shown."""
    target = run.work.sub(layout.run_folder(run.run_id))
    copy_staging(run.staging, target)


def copy_staging(staging: Storage, target: Storage) -> None:
    """Copy the staged objects and reports that publishing needs. Shuffle files are left out."""
    needed = (".json", *(f"-{kind}.parquet" for kind in layout.ASIDE))
    for prefix in KEPT:
        for stat in staging.list(prefix):
            if stat.key.startswith((layout.EXTRACT, layout.TRANSFORM, layout.MERGE)) and not stat.key.endswith(needed):
                continue
            stored = staging.get(stat.key)
            if stored is None:
                raise Refused(f"{staging.url_of(stat.key)} vanished while it was copied. Run again")
            target.put(stat.key, stored.data)


def publish_locally(
    site: Site,
    run_id: str,
    environment: Environment,
    *,
    force: tuple[str, ...],
    reason: str | None,
    adopt: bool,
    moved: bool = False,
) -> Finished:
    """Publish a dry or refused run as its report shows it. Raise ConfigError if the state has no such run."""
    if not layout.is_run_id(run_id):
        raise ConfigError(f"{run_id}: expected the id of a run, such as 20261120T020000Z-7f3a")
    work = open_work(site, environment)
    state = state_of(site, environment, work, moved=moved)
    state.current()  # the state of another site is refused before anything is written there
    staging = work.sub(layout.run_folder(run_id))
    if staging.stat(layout.PLAN) is None:
        raise ConfigError(
            f"{run_id}: there is no such run in {work.url}/runs. Only dry and refused runs can be published: "
            "their files are kept for two weeks, or until they are published"
        )
    run = open_run(staging.url, environment, staging=staging, moved=moved)
    check_options(run.site, Options(force=force, reason=reason))
    if run.receipt(layout.PARTITION, Partition) is None:
        published_before = state.kept_manifest(layout.manifest(run_id)) is not None
        if published_before:
            why = "was published already"
        elif (shown := read_summary(run)) is not None and shown.status == "unchanged":
            why = "found that nothing had changed, so that it has nothing to publish"
        else:
            why = "ended before there was anything to publish"
        raise Refused(f"Run {run_id} {why}. Nothing was written")
    if run.options.limit is not None:
        raise Refused(
            f"Run {run_id} read {run.options.limit:,} rows of each split (--limit), and would unlist the pages that it "
            "did not read. It shows what a run would do, and is not published. Nothing was written"
        )
    ours, theirs = state.owner, run.state.owner
    if ours is not None and theirs is not None and not ours.is_also(theirs):
        raise Refused(
            f"{run_id} was made to be published to {theirs.describe()}, and the site file now says {ours.describe()}. "
            "Nothing was written; run again"
        )
    run.state.current()
    note(run=run_id)
    with leased(work, run_id):
        try:
            before = time.monotonic()
            published = publish(run, dry_run=False, force=frozenset(force), reason=reason, adopt=adopt)
            summary = finish_run(run, published, {"publish": time.monotonic() - before})
        except BaseException as error:
            remember_failure(site, environment, error, run)
            raise
    return Finished(run, published, summary)


def ping_locally(finished: Finished, environment: Environment) -> Summary:
    """Notify the engines of pending changes and return the summary. A failing engine doesn't affect the others."""
    run, summary = finished.run, finished.summary
    if finished.published.outcome is None:
        return summary
    engines = engines_to_notify(run.site, environment, published=summary.published)
    if not engines:
        return summary
    answers = notify(run.site, run.run_id, engines, environment)
    summary = add_answers(run, summary, {**answers_of(run), **answers})
    put_summary(run, summary)
    return summary
