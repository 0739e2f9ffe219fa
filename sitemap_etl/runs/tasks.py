"""The stages as tasks of a scheduler. Each takes the run's key and a bundle, and returns counts, never rows.

The key is the address of the run's folder. Everything else is in the run's plan and in the results of earlier tasks, so
that any machine can run any task, and repeat it. A repeated task skips the parts that already have a result.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial
from types import FrameType
from typing import Any, Final

from sitemap_etl.advice import for_file
from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.claim import demand_newest
from sitemap_etl.publish.publish import publish as publish_run
from sitemap_etl.publish.summary import (
    add_answers,
    answers_of,
    attempt_of,
    finish_run,
    put_summary,
    read_summary,
    remove_staging,
)
from sitemap_etl.runs.alerts import tell_end_of, tell_start
from sitemap_etl.runs.build import build as build_run
from sitemap_etl.runs.build import do_unit, units_of
from sitemap_etl.runs.bundles import MOST, Bundle, bundles, called, is_small
from sitemap_etl.runs.failures import remember_abandoned, remember_failure
from sitemap_etl.runs.form import TITLES, filled_in
from sitemap_etl.runs.over import ended_run, published_by, tell_over
from sitemap_etl.runs.story import counts_of, story
from sitemap_etl.runs.work import dag_lacks_work
from sitemap_etl.stages.clock import written
from sitemap_etl.stages.clusters import align as align_run
from sitemap_etl.stages.clusters import cluster_units
from sitemap_etl.stages.decide import decide_sections
from sitemap_etl.stages.merge import plan_merge
from sitemap_etl.stages.partition import partition as partition_run
from sitemap_etl.stages.ping import engines_of, engines_to_notify, notify
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.run import Environment, Run, check_options, open_run, open_work
from sitemap_etl.state import layout
from sitemap_etl.state.codec import encode
from sitemap_etl.state.lease import LEASE_TIME, AnotherRun, holder, release_lease, renewing, take_lease
from sitemap_etl.state.records import Answered, GroupCounts, Options, Rendered, Transformed

Counts = dict[str, int]


class Started(Frozen):
    """A run that was planned. `key`: what its tasks open it by; `bundles`: of extract, none where `build` does all."""

    key: str
    bundles: list[Bundle]


NO_PROCESS: Final = 0
"""Process ID in the lease of a scheduler's run. Such a lease only ends by its time."""
_POLL: Final = 2.0
"""Seconds between checks for the end of another run."""


def demand_work(site: Site, environment: Environment) -> None:
    """Raise ConfigError with the line to add if a site file has no `work`."""
    problem = dag_lacks_work(site)
    if problem is not None:
        raise ConfigError(f"{environment.site_file or site.name}: {problem}")


def asked(site: Site, defaults: Mapping[str, Any], conf: Mapping[str, Any] | None) -> tuple[Options, datetime | None]:
    """Return the options and the time, if any, that a run was triggered with.

    `defaults`: values of the form's fields. Raise ConfigError in the form's terms, before anything is written.
    """
    given = filled_in(defaults, conf)
    options = Options(
        sections=tuple(given["sections"] or ()),
        full=given["full"],
        dry_run=given["dry_run"],
        ping=given["ping"],
        force=tuple(given["force"] or ()),
        reason=given["reason"],
        moved=given["moved"],
    )
    check_options(site, options, said=TITLES)
    return options, written(given["now"], said=TITLES["now"])


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM interrupt the task inside this block, so that it cancels its database statement.

    A scheduler sends SIGTERM to end a task, and kills it some seconds later. Airflow's own handler is called too.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread can handle signals
        yield
        return
    before = signal.getsignal(signal.SIGTERM)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if callable(before):
            before(number, frame)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _remembering(run: Run) -> Iterator[None]:
    """Renew the lease during a task, and record its failure. A retry can still fix the run."""
    try:
        with renewing(partial(_renew, run)), _interruptible():
            yield
    except BaseException as error:
        remember_failure(run.site, run.environment, run.environment.explained(error), run)
        raise


def start(
    site: Site,
    options: Options,
    environment: Environment,
    *,
    now: datetime | None = None,
    final: bool = True,
    owner: str = "",
    again: datetime | None = None,
    has_ended: Callable[[str], bool] = lambda _owner: False,
    demand: Callable[[], None] = lambda: None,
    patience: timedelta = LEASE_TIME,
    most: int = MOST,
    parts: int = 0,
    waits: bool = True,
) -> Started:
    """Plan a run.

    `final`: no other attempt follows. `owner`: the scheduler's run. `again`: its creation time if somebody restarts it;
    if it has already published, that run is returned. `has_ended`: returns True if another owner's run is over.
    `demand`: raises the scheduler's objection to the run. `patience`: time to wait for another run, after which
    Unavailable is raised. `most`: maximum tasks per stage. `parts`: extract tasks that the scheduler's run already has,
    which can't become none. `waits`: wait for late sources; False if the scheduler polls `arrival.not_yet` itself.
    """
    ended = None if again is None else published_by(owner, again, site, environment)
    if ended is not None:
        tell_over(ended, environment)
        key = open_work(site, environment).url_of(layout.run_folder(ended.run_id))
        return Started(key, [_NOTHING] * min(parts, most))
    if not options.dry_run:
        tell_start(site, environment)
    begin = partial(
        start_run, site, options, environment, now=now, final=final, pid=NO_PROCESS, owner=owner, waits=waits
    )
    try:
        demand()
        run = _after_others(partial(begin, has_ended=has_ended), site, environment, has_ended, patience)
    except BaseException as error:
        if final or not isinstance(error, Unavailable):
            told = environment.explained(error)
            remember_failure(site, environment, told, owner=owner, dry_run=options.dry_run)
        raise
    for name, why in run.plan.held.items():
        environment.log(f"warning: section {name} stays as published: {why}")
    key = run.work.url_of(layout.run_folder(run.run_id))
    units = len(run.plan.units)
    started = Started(key, [] if is_small(run) and not parts else bundles(units, most))
    if parts and not started.bundles:
        started = Started(key, [_NOTHING])
    sections = len(run.read_sections())
    how = "each stage is tasks of its own" if started.bundles else "one task does all of it (build)"
    environment.log(f"run {run.run_id}: sections: {sections:,}, splits: {units:,}; {how}")
    return started


_NOTHING: Final[Bundle] = [0, 0]
"""An empty bundle."""


def _after_others(
    begin: Callable[[], Run],
    site: Site,
    environment: Environment,
    has_ended: Callable[[str], bool],
    patience: timedelta,
) -> Run:
    """Call `begin` as soon as no other run is in progress, and return its run. Raise Unavailable after `patience`."""
    until = time.monotonic() + patience.total_seconds()
    while True:
        try:
            return begin()
        except AnotherRun as error:
            if time.monotonic() >= until:
                raise Unavailable(str(error)) from error
            environment.log(f"waiting: {str(error).partition('. Nothing was done')[0]}")
        work = open_work(site, environment)
        while time.monotonic() < until:
            time.sleep(_POLL)
            other = holder(work)
            if other is None or (other.owner and has_ended(other.owner)):
                break


def _open(key: str, environment: Environment) -> Run | None:
    """Open the run and renew its lease. Return None if the run is finished, so the task has nothing to do."""
    ended = ended_run(key, environment)
    if ended is not None:
        tell_over(ended, environment)
        return None
    run = open_run(key, environment)
    _renew(run)
    return run


def _renew(run: Run) -> None:
    take_lease(run.work, run.run_id, pid=NO_PROCESS, owner=run.plan.owner)


def _one_by_one(run: Run, bundle: Bundle) -> Iterator[int]:
    """Yield the units of a bundle, one after the other, while the lease lasts."""
    for n in range(*bundle):
        if n > bundle[0]:
            _renew(run)
        yield n


def _each(
    key: str, bundle: Bundle, environment: Environment, stage: str, counts: Callable[..., Counts], **options: bool
) -> Counts:
    """Do the units of a bundle of a mapped stage, and return the counts of their task results."""
    run = _open(key, environment)
    if run is None:
        return {}
    units = units_of(run, stage)
    environment.label(called([section for section, _ in units], bundle))
    with _remembering(run):
        receipts = [do_unit(run, stage, n, units[n], **options) for n in _one_by_one(run, bundle)]
    _log_held(run, receipts)
    return counts(receipts)


def _divide(key: str, environment: Environment, work: Callable[[Run], object], stage: str, most: int) -> list[Bundle]:
    """Do the work that decides which units a mapped stage has, and return their bundles."""
    run = _open(key, environment)
    if run is None:
        return []
    with _remembering(run):
        work(run)
        return bundles(len(units_of(run, stage)), most)


def extract(key: str, bundle: Bundle, environment: Environment, *, final: bool = True) -> Counts:
    """Extract and transform splits, and return their counts. Sections with a mirror are transformed by merge."""
    run = _open(key, environment)
    if run is None:
        return {}
    units = units_of(run, "extract")
    first, past = bundle
    name = ": ".join(units[first]) if past - first == 1 else called([section for section, _ in units], bundle)
    environment.label(name)
    rows, receipts = 0, []
    with _remembering(run):
        for n in _one_by_one(run, bundle):
            rows += do_unit(run, "extract", n, units[n], final=final).rows
            receipts.append(do_unit(run, "transform", n, units[n], final=final))
    _log_held(run, receipts)
    return {**_counts(receipts), "rows": rows}


def _counts(receipts: Sequence[Transformed], *more: str) -> Counts:
    names = ("rows", "inventory", "excluded", "rejected", *more)
    return {name: sum(getattr(receipt, name) for receipt in receipts) for name in names}


def _log_held(run: Run, receipts: Sequence[Any]) -> None:
    kept = {one.section: one.held for one in receipts if isinstance(one, Transformed) and one.held}
    for section, why in kept.items():
        run.environment.log(f"warning: section {section} stays as published: {why}")


def build(key: str, environment: Environment, *, final: bool = True) -> Counts:
    """Run everything from extract to render, for a small site. Return its counts."""
    run = _open(key, environment)
    if run is None:
        return {}
    with _remembering(run):
        build_run(run, 1, {}, renew=lambda: _renew(run), final=final)
    of_sections = (run.parts(name) or map(run.transformed, run.units_of(name)) for name in run.read_sections())
    receipts = [part for parts in of_sections for part in parts]
    _log_held(run, receipts)
    return _counts(receipts)


def buckets(key: str, environment: Environment, *, most: int = MOST) -> list[Bundle]:
    """Plan merge and return its bundles: buckets of the mirrors of incremental sections."""
    return _divide(key, environment, plan_merge, "merge", most)


def merge(key: str, bundle: Bundle, environment: Environment, *, final: bool = True) -> Counts:
    """Merge the new rows into buckets of a mirror, transform the result, and return the counts."""
    return _each(key, bundle, environment, "merge", lambda found: _counts(found, "carried"), final=final)


def decide(key: str, environment: Environment, *, most: int = MOST) -> list[Bundle]:
    """Decide which sections are unchanged, and return the bundles of retransform."""
    return _divide(key, environment, decide_sections, "retransform", most)


def retransform(key: str, bundle: Bundle, environment: Environment) -> Counts:
    """Transform unchanged splits and buckets of sections that have changed, and return the counts."""
    return _each(key, bundle, environment, "retransform", _counts)


def partition(key: str, environment: Environment, *, most: int = MOST) -> list[Bundle]:
    """Plan windows and render groups, and return the bundles of render."""
    return _divide(key, environment, partition_run, "render", most)


def clusters(key: str, environment: Environment, *, most: int = MOST) -> list[Bundle]:
    """Return the bundles of collect: groups of sections with hreflang clusters. Empty if no section has them."""
    return _divide(key, environment, cluster_units, "collect", most)


def collect(key: str, bundle: Bundle, environment: Environment) -> Counts:
    """Collect the listed members of clusters from groups, and return their number."""
    return _each(key, bundle, environment, "collect", lambda found: {"members": sum(one.members for one in found)})


def align(key: str, environment: Environment) -> Counts:
    """Complete the clusters of every bucket, and return the number of rows with alternates."""
    run = _open(key, environment)
    if run is None:
        return {}
    with _remembering(run):
        return {"aligned": align_run(run).aligned}


def render(key: str, bundle: Bundle, environment: Environment) -> Counts:
    """Render groups and return their counts."""

    def counts(receipts: Sequence[Rendered]) -> Counts:
        return dict(encode(sum((receipt.counts for receipt in receipts), GroupCounts())))

    return _each(key, bundle, environment, "render", counts)


def is_done(site: Site, owner: str, since: datetime, environment: Environment) -> bool:
    """Return True if the scheduler's run, created at this time, has published or found no changes."""
    return published_by(owner, since, site, environment) is not None


def is_over(key: str, environment: Environment) -> bool:
    """Return True if an earlier task finished the run."""
    return ended_run(key, environment) is not None


def publish(key: str, environment: Environment) -> dict[str, Any]:
    """Publish the run and return its counts. Raise Refused if a gate fails."""
    run = _open(key, environment)
    if run is None:
        return _published_before(key, environment)
    with _remembering(run):
        if not run.options.dry_run:
            demand_newest(run)
        published = publish_run(run)
        summary = finish_run(run, published)
    for line in story(summary):
        environment.log(line)
    release_lease(run.work, run.run_id)
    if published.status == "refused":
        assert published.error is not None
        raise Refused(for_file(str(published.error), run.plan.site_file)) from published.error
    return counts_of(attempt_of(run, summary))


def _published_before(key: str, environment: Environment) -> dict[str, Any]:
    """Return the counts of a finished run. If a killed try left its staging and lease, remove them."""
    ended = ended_run(key, environment)
    assert ended is not None
    if _is_kept(key, environment):
        run = open_run(key, environment)
        if not ended.dry_run:
            remove_staging(run.staging)
        release_lease(run.work, run.run_id)
    return counts_of(ended)


_DONE: Final = ("published", "unchanged", "partial")


def _is_kept(key: str, environment: Environment) -> bool:
    """Return True if the plan of a run still exists. Without it, the run is long over and later runs have reported."""
    return environment.open_storage(key).stat(layout.PLAN) is not None


def news(key: str, environment: Environment) -> dict[str, Any] | None:
    """Return the data of the asset event of a run that published a new release, or None for any other run."""
    summary = read_summary(open_run(key, environment)) if _is_kept(key, environment) else None
    if summary is None or not summary.published:
        return None
    return {
        "run_id": summary.run_id,
        "status": summary.status,
        **{what: summary.total.of(what) for what in ("listed", "added", "changed", "removed")},
        "files": encode(summary.files),
        "index": list(summary.index),
        "report": summary.report,
    }


def engines(key: str, environment: Environment) -> list[list[int]]:
    """Return the numbers of the engines for each ping task: one engine per task, or all in one for a small site.

    Empty if there is nothing to send. A run that published nothing notifies only engines with pending changes.
    """
    if not _is_kept(key, environment):
        return []
    run = open_run(key, environment)
    summary = read_summary(run)
    if summary is None or summary.status not in _DONE or not run.options.ping:
        return []
    asked = engines_to_notify(run.site, environment, published=summary.published)
    numbers = [n for n, engine in enumerate(engines_of(run.site)) if engine in asked]
    rows = sum(counts.extracted + counts.carried for counts in summary.sections.values())
    return [numbers] if numbers and rows <= run.site.airflow.small else [[n] for n in numbers]


def ping(key: str, numbers: Sequence[int], environment: Environment) -> dict[str, dict[str, Any]]:
    """Notify engines, each independently of the others. Return the submissions that they accepted.

    An engine that has accepted the run's changes is not asked again. Raise Unavailable or Refused if an engine did not
    accept them or was not asked.
    """
    ended = ended_run(key, environment)
    if ended is not None and not _is_kept(key, environment):
        tell_over(ended, environment)
        return {}
    run = open_run(key, environment)
    names = [engines_of(run.site)[n] for n in numbers]
    environment.label(", ".join(names))
    known = {} if ended is None else {name: answer for name, answer in ended.engines.items() if not answer.failed}
    for engine in names:
        if engine in known:
            environment.log(f"{engine} was notified of run {run.run_id} already: {known[engine].message}")
    answers = notify(run.site, run.run_id, [name for name in names if name not in known], environment)
    for engine, answer in answers.items():
        if not answer.failed:
            environment.log(f"{engine}: {answer.status}: {answer.message}")
    summary = read_summary(run)
    if summary is not None and answers:
        heard: Mapping[str, Answered] | None = None
        while heard != (now := answers_of(run)):  # another task may have added an answer meanwhile
            heard = now
            summary = add_answers(run, summary, {**heard, **answers})
            put_summary(run, summary)
    failed = [answer for answer in answers.values() if answer.failed]
    if failed:
        retried = any(answer.status == "unavailable" for answer in failed)
        raise (Unavailable if retried else Refused)("\n".join(f"{one.engine}: {one.message}" for one in failed))
    taken = {name: {**known, **answers}[name] for name in names}
    return {name: {"status": answer.status, "sent": answer.sent} for name, answer in taken.items()}


def abandon(site: Site, owner: str, environment: Environment) -> None:
    """Release the lease of a scheduler's run that failed for good, so that a new run can start at once."""
    work = open_work(site, environment)
    remember_abandoned(site, work, owner, environment)
    release_lease(work, "", owner=owner)


def conclude(site: Site, owner: str, environment: Environment, *, good: bool, began: datetime | None = None) -> None:
    """Send alerts about the end of a scheduler's run.

    `good`: the scheduler counts it as successful. `began`: its start, which distinguishes records of the same name.
    """
    tell_end_of(site, environment, owner, good=good, began=began)
