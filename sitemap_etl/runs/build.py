"""Run the stages from extract to render in one process, several tasks in parallel."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.stages.about import about, here, subject
from sitemap_etl.stages.clusters import align, cluster_units, collect_members
from sitemap_etl.stages.decide import decide_sections
from sitemap_etl.stages.extract import extract_split, lanes, one_moment
from sitemap_etl.stages.merge import merge_bucket, plan_merge
from sitemap_etl.stages.partition import partition
from sitemap_etl.stages.render import render_group
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.transform import retransform_split, transform_split

T = TypeVar("T")

_OF_SPLITS: Final = ("extract", "transform")
"""Stages whose tasks are the splits of a source."""
_SMALL_SPLIT: Final = 8_000
"""Average rows of a split below which splits are transformed one at a time.

Python's own work dominates in small splits. With 5,000 rows per split, two threads took a sixth longer than one and a
third more processor time; with 10,000 rows, a fifth less time (bench/splits.py).
"""


def build(run: Run, jobs: int, seconds: dict[str, float], *, renew: Callable[[], object], final: bool = True) -> None:
    """Run the stages from extract to render, `jobs` tasks at a time.

    `seconds` is filled with the duration of each stage. `renew` extends the lease between stages. `final`: no other
    attempt follows (see the stages).
    """
    splits = splits_of(run)
    with one_moment(run):
        _each(run, "extract", splits, partial(extract_split, final=final), jobs, seconds, lanes=lanes(run))
    renew()
    _each(run, "transform", splits, partial(transform_split, final=final), _side_by_side(run, jobs), seconds)
    if run.plan.readings:
        plan_merge(run)
        buckets = buckets_of(run)
        needed = buckets[: run.merging().needed]
        _each(run, "merge", needed, partial(merge_bucket, final=final), jobs, seconds)
    with timed(run, "decide", seconds):
        again, late = decide_sections(run).again, decide_sections(run).merge
    if late:
        units = [buckets[n] for n in late]
        _each(run, "merge", units, lambda run, at: merge_bucket(run, late[at], final=final), jobs, seconds)
    if again:
        units = [splits[n] for n in again]
        _each(run, "retransform", units, lambda run, at: retransform_split(run, again[at]), jobs, seconds)
    with timed(run, "partition", seconds):
        partition(run, jobs=jobs)
    renew()
    groups = groups_of(run)
    members = cluster_units(run)
    if members:
        units = [groups[n] for n in members]
        _each(run, "collect", units, lambda run, at: collect_members(run, members[at]), jobs, seconds)
        with timed(run, "align", seconds):
            align(run)
    _each(run, "render", groups, render_group, jobs, seconds)
    run.resident.clear()
    renew()


def splits_of(run: Run) -> list[tuple[str, str]]:
    """Return section and label of the units of extract and transform."""
    return [(unit.section, unit.label) for unit in run.plan.units]


def buckets_of(run: Run) -> list[tuple[str, str]]:
    """Return the same for the units of merge, which are planned by then."""
    return [(section, f"bucket {bucket + 1}") for section, bucket in run.merging().units]


def groups_of(run: Run) -> list[tuple[str, str]]:
    """Return the same for the units of render, which are planned by then."""
    return [(section, f"group {group + 1}") for section, group in run.partition().units]


def _side_by_side(run: Run, jobs: int) -> int:
    """Return the number of splits to transform at a time: one if they are so small that threads would only wait."""
    rows = sum(run.extracted(n).rows for n in range(len(run.plan.units)))
    return jobs if rows >= _SMALL_SPLIT * len(run.plan.units) else 1


@contextmanager
def timed(run: Run, stage: str, seconds: dict[str, float], *, counts_itself: bool = False) -> Iterator[None]:
    """Time a stage that is one piece of work. `counts_itself`: its own progress takes over."""
    environment = run.environment
    environment.advance(stage, 0, 1)
    before = time.monotonic()
    with about(stage=stage):
        yield
        took = seconds[stage] = time.monotonic() - before
        environment.detail(f"{stage} took {took:.1f} s", seconds=round(took, 3))
    if not counts_itself:
        environment.advance(stage, 1, 1)


def do_unit(run: Run, stage: str, n: int, unit: tuple[str, str], work: Callable[[Run, int], T]) -> T:
    """Run task `n` of a stage and log its counts. `unit`: its section and label."""
    section, label = unit
    which = {"split" if stage in _OF_SPLITS else "unit": n}
    with about(stage=stage, section=section, **which):
        before = time.monotonic()
        try:
            receipt = work(run, n)
        except SitemapEtlError as error:
            error.about = dict(subject())
            raise
        took = time.monotonic() - before
        counts = {name: getattr(receipt, name, None) for name in ("rows", "excluded", "rejected")}
        told = "".join(f", {count:,} {name}" for name, count in counts.items() if count)
        run.environment.detail(
            f"{stage}: {section}: {label}{told}, {took:.1f} s", label=label, seconds=round(took, 3), **counts
        )
    return receipt


def _each(
    run: Run,
    stage: str,
    units: Sequence[tuple[str, str]],
    work: Callable[[Run, int], Any],
    jobs: int,
    seconds: dict[str, float],
    *,
    lanes: Mapping[int, tuple[str, int]] | None = None,
) -> None:
    """Do a stage's units, `jobs` at a time; each has its section, and what it is called. The first error ends it.

    `lanes`: of some units, the name of a lane and how many units may be in it at a time.
    """
    before = time.monotonic()
    done, count = 0, len(units)
    if units:
        run.environment.advance(stage, 0, count)
    ready = list(range(count))
    # Also one at a time they are done in a thread: a signal reaches this one, and no driver takes it for its own.
    with ThreadPoolExecutor(jobs) as pool:
        at_work: dict[Future[Any], int] = {}
        try:
            while ready or at_work:
                while len(at_work) < jobs and (n := _next(ready, at_work.values(), lanes or {})) is not None:
                    ready.remove(n)
                    at_work[pool.submit(here(do_unit), run, stage, n, units[n], work)] = n
                finished, _ = wait(at_work, return_when=FIRST_COMPLETED, timeout=0.2)
                for future in finished:
                    del at_work[future]
                    future.result()
                    done += 1
                    run.environment.advance(stage, done, count)
        except BaseException:
            run.stopping.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    seconds[stage] = time.monotonic() - before


def _next(ready: Sequence[int], at_work: Collection[int], lanes: Mapping[int, tuple[str, int]]) -> int | None:
    """Return the first task whose connection has a free slot, or None."""
    busy = Counter(lanes[n][0] for n in at_work if n in lanes)
    return next((n for n in ready if n not in lanes or busy[lanes[n][0]] < lanes[n][1]), None)
