"""The stages as tasks of a scheduler: each takes a unit `{key, n}` and gives counts, never rows.

`key` is the address of the run's folder, `n` the number of the unit. What a task needs besides is in
the run's plan and in the receipts of the tasks before it, so that any machine can do any of them, and
do it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, TypedDict

from sitemap_etl.config import Site
from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.frames import Reason
from sitemap_etl.publish.publish import publish as publish_run
from sitemap_etl.publish.summary import add_answers, finish_run, put_summary, read_summary, remove_staging
from sitemap_etl.runs.alerts import tell_end_of, tell_start
from sitemap_etl.runs.failures import remember_abandoned, remember_failure
from sitemap_etl.runs.work import missing_work
from sitemap_etl.stages.clusters import align as align_run
from sitemap_etl.stages.clusters import cluster_units, collect_members
from sitemap_etl.stages.extract import extract_split
from sitemap_etl.stages.merge import merge_bucket, plan_merge
from sitemap_etl.stages.partition import partition as partition_run
from sitemap_etl.stages.ping import engines_of, engines_to_notify, ping_engine
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.render import render_group
from sitemap_etl.stages.run import Environment, Run, check_options, open_run, open_work
from sitemap_etl.stages.transform import transform_split
from sitemap_etl.state import layout
from sitemap_etl.state.codec import encode
from sitemap_etl.state.lease import release_lease, take_lease
from sitemap_etl.state.records import COUNTED, Options, Summary, Transformed


class Unit(TypedDict):
    """What a task is given: the address of the run's folder and a number."""

    key: str
    n: int


NO_PROCESS: Final = 0
"""The lease of a scheduler's run belongs to no process: only its time can end it."""


def demand_work(site: Site, environment: Environment) -> None:
    """Raises ConfigError with the line to write where a site file does not say where its state lies."""
    if not site.says_work:
        raise missing_work(site, environment.site_file)


@contextmanager
def _remembering(run: Run) -> Iterator[None]:
    """Keep why a task failed with what becomes of its run; another try of it may mend that."""
    try:
        yield
    except BaseException as error:
        remember_failure(run.site, run.environment, error, run)
        raise


def start(
    site: Site,
    options: Options,
    environment: Environment,
    *,
    now: datetime | None = None,
    final: bool = True,
    owner: str = "",
) -> list[Unit]:
    """Plan a run; gives the units of extract. `final`: no other attempt follows. `owner`: the scheduler's run."""
    check_options(site, options)
    if not options.dry_run:
        tell_start(site, environment)
    try:
        run = start_run(site, options, environment, now=now, final=final, pid=NO_PROCESS, owner=owner)
    except BaseException as error:
        if not options.dry_run and (final or not isinstance(error, Unavailable)):
            remember_failure(site, environment, error, owner=owner)
        raise
    for name, why in run.plan.held.items():
        environment.log(f"warning: section {name} stays as published: {why}")
    return _units(run.work.url_of(layout.run_folder(run.run_id)), len(run.plan.units) or 1)


def _units(key: str, count: int) -> list[Unit]:
    return [{"key": key, "n": n} for n in range(count)]


def _open(unit: Unit, environment: Environment) -> Run:
    run = open_run(unit["key"], environment)
    take_lease(run.work, run.run_id, pid=NO_PROCESS, owner=run.plan.owner)
    return run


def _open_split(unit: Unit, environment: Environment) -> Run | None:
    """The run, its unit named; None where there is nothing to read because every section is kept."""
    run = _open(unit, environment)
    if unit["n"] >= len(run.plan.units):
        environment.label("nothing to read")
        return None
    planned = run.plan.units[unit["n"]]
    environment.label(f"{planned.section}: {planned.label}")
    return run


def extract(unit: Unit, environment: Environment, *, final: bool = True) -> dict[str, int]:
    """Extract one split; gives its rows."""
    run = _open_split(unit, environment)
    if run is None:
        return {"rows": 0}
    with _remembering(run):
        receipt = extract_split(run, unit["n"], final=final)
    _log_held(run, unit, receipt.held, environment)
    return {"rows": receipt.rows}


def transform(unit: Unit, environment: Environment, *, final: bool = True) -> dict[str, int]:
    """Transform one split; gives its counts."""
    run = _open_split(unit, environment)
    if run is None:
        return {"rows": 0}
    with _remembering(run):
        receipt = transform_split(run, unit["n"], final=final)
    _log_held(run, unit, receipt.held, environment)
    return _counts(receipt)


def _counts(receipt: Transformed) -> dict[str, int]:
    return {name: getattr(receipt, name) for name in ("rows", "inventory", "excluded", "rejected")}


def buckets(unit: Unit, environment: Environment) -> list[Unit]:
    """The buckets of the mirrors of what is read incrementally: units of merge."""
    run = _open(unit, environment)
    with _remembering(run):
        return _units(unit["key"], len(plan_merge(run).units))


def merge(unit: Unit, environment: Environment, *, final: bool = True) -> dict[str, int]:
    """Merge what was read with one bucket of a mirror, and transform what comes out; gives its counts."""
    run = _open(unit, environment)
    units = run.merging().units
    section, bucket = units[unit["n"]]
    environment.label(f"{section} {bucket + 1} of {sum(other == section for other, _ in units)}")
    with _remembering(run):
        receipt = merge_bucket(run, unit["n"], final=final)
    if receipt.held:
        environment.log(f"warning: section {section} stays as published: {receipt.held}")
    return {**_counts(receipt), "carried": receipt.carried}


def _log_held(run: Run, unit: Unit, held: str | None, environment: Environment) -> None:
    if held:
        environment.log(f"warning: section {run.plan.units[unit['n']].section} stays as published: {held}")


def partition(unit: Unit, environment: Environment) -> list[Unit]:
    """Plan windows and groups; gives the units of render."""
    run = _open(unit, environment)
    with _remembering(run):
        return _units(unit["key"], len(partition_run(run).units))


def clusters(unit: Unit, environment: Environment) -> list[Unit]:
    """The units of the sections with hreflang clusters; none where no section has them."""
    run = _open(unit, environment)
    return [{"key": unit["key"], "n": n} for n in cluster_units(run)]


def collect(unit: Unit, environment: Environment) -> dict[str, int]:
    """Find the listed members of clusters in one group."""
    run = _open_group(unit, environment)
    with _remembering(run):
        return {"members": collect_members(run, unit["n"]).members}


def align(unit: Unit, environment: Environment) -> dict[str, int]:
    """Close the clusters of every bucket; gives how many rows have alternates."""
    run = _open(unit, environment)
    with _remembering(run):
        return {"aligned": align_run(run).aligned}


def render(unit: Unit, environment: Environment) -> dict[str, int]:
    """Render one group; gives its counts."""
    run = _open_group(unit, environment)
    with _remembering(run):
        return dict(encode(render_group(run, unit["n"]).counts))


def _open_group(unit: Unit, environment: Environment) -> Run:
    """The run, its unit of render named."""
    run = _open(unit, environment)
    units = run.partition().units
    section, group = units[unit["n"]]
    environment.label(f"{section} {group + 1} of {sum(other == section for other, _ in units)}")
    return run


def publish(unit: Unit, environment: Environment) -> dict[str, Any]:
    """Publish the run; gives its summary's counts. Raises Refused where a gate says no."""
    run = _open(unit, environment)
    summary = read_summary(run)
    if summary is None or summary.status not in _DONE:
        with _remembering(run):
            published = publish_run(run)
            summary = finish_run(run, published)
        for line in _story(summary):
            environment.log(line)
        if published.status == "refused":
            release_lease(run.work, run.run_id)
            assert published.error is not None
            raise published.error
    else:  # a try before this one came to the end, but could not say so
        remove_staging(run)
    release_lease(run.work, run.run_id)
    return {
        "key": unit["key"],
        "status": summary.status,
        "files": encode(summary.files),
        "sections": encode(summary.sections),
    }


_DONE: Final = ("published", "unchanged", "partial")


_REASONS: Final = 10
"""Reasons of one kind and section that a log shows, the most frequent first; the report has them all."""


def _story(summary: Summary) -> Iterator[str]:
    """The summary in a few lines of a log."""
    files = summary.files
    yield f"{summary.status}: {files.written:,} files written, {files.unchanged:,} unchanged"
    for name, counts in summary.sections.items():
        shown = ", ".join(f"{counts.of(what):,} {what}" for what in COUNTED if counts.of(what))
        yield f"section {name}: {shown or 'no rows'}"
    for name, kinds in summary.reasons.items():
        for kind, tally in kinds.items():
            for reason in tally.ordered()[:_REASONS]:
                said = reason.as_dropped() if kind == "notes" else f"{reason.count:,} {kind}: {reason.text}"
                yield f"section {name}: {said}{_such_as(reason)}"
    for reason in summary.clusters.notes.ordered():
        yield f"hreflang {reason.text} ({reason.count:,}){_such_as(reason)}"
    for name, why in summary.kept.items():
        yield f"warning: section {name} stays as published: {why}"
    for warning in summary.warnings:
        yield f"warning: {warning}"
    if summary.error and summary.status == "dry_run":
        yield summary.error
    for address in summary.index:
        yield f"index: {address}"
    yield f"report: {summary.report}"


def _such_as(reason: Reason) -> str:
    return f", such as {reason.examples[0]}" if reason.examples else ""


def engines(published: Mapping[str, Any], environment: Environment) -> list[Unit]:
    """The units of ping: one an engine, none where the run is not to ping or there is nothing to say.

    A run that published nothing notifies those engines that have not heard of runs before it.
    """
    run = open_run(published["key"], environment)
    if published["status"] not in ("published", "unchanged", "partial") or not run.options.ping:
        return []
    summary = read_summary(run)
    if summary is None:
        return []
    asked = engines_to_notify(run.site, environment, published=summary.published)
    return [{"key": published["key"], "n": n} for n, engine in enumerate(engines_of(run.site)) if engine in asked]


def ping(unit: Unit, environment: Environment) -> dict[str, Any]:
    """Notify one engine; gives what it took. Raises Unavailable or Refused where it was not accepted, or not asked."""
    run = open_run(unit["key"], environment)
    engine = engines_of(run.site)[unit["n"]]
    environment.label(engine)
    try:
        answer = ping_engine(run.site, run.run_id, engine, environment)
    finally:
        summary = read_summary(run)
        if summary is not None:
            put_summary(run, add_answers(run, summary))
    if answer.failed:
        raise Refused(f"{engine}: {answer.message}")
    environment.log(f"{engine}: {answer.status}: {answer.message}")
    return {"status": answer.status, "sent": answer.sent}


def abandon(site: Site, owner: str, environment: Environment) -> None:
    """Give the lease of the scheduler's run back after it failed for good, so that a new run may start at once."""
    work = open_work(site, environment)
    remember_abandoned(site, work, owner, environment)
    release_lease(work, "", owner=owner)


def conclude(site: Site, owner: str, environment: Environment) -> None:
    """Tell everyone who is to hear of it how the scheduler's run ended, which is over."""
    tell_end_of(site, environment, owner)
