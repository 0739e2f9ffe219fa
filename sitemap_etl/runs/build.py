"""Run the stages from extract to render in one process, several tasks in parallel."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, Final

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.runs import units
from sitemap_etl.runs.stages import STAGES
from sitemap_etl.stages.about import about, here, subject
from sitemap_etl.stages.clusters import align, cluster_units
from sitemap_etl.stages.decide import decide_sections
from sitemap_etl.stages.extract import lanes, one_moment
from sitemap_etl.stages.merge import plan_merge
from sitemap_etl.stages.partition import partition
from sitemap_etl.stages.run import Run

_Lanes = Mapping[int, tuple[str, int]]
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
    with one_moment(run):
        _each(run, "extract", jobs, seconds, lanes=lanes(run), final=final)
    renew()
    _each(run, "transform", _side_by_side(run, jobs), seconds, final=final)
    if run.plan.readings:
        plan_merge(run)
        _each(run, "merge", jobs, seconds, final=final)
    with timed(run, "decide", seconds):
        decided = decide_sections(run)
    if decided.again or decided.merge:
        _each(run, "retransform", jobs, seconds, final=final)
    with timed(run, "partition", seconds):
        partition(run, jobs=jobs)
    renew()
    if cluster_units(run):
        _each(run, "collect", jobs, seconds)
        with timed(run, "align", seconds):
            align(run)
    _each(run, "render", jobs, seconds)
    run.resident.clear()
    renew()


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


def units_of(run: Run, stage: str) -> units.Units:
    """Return the section and label of each unit of a mapped stage."""
    found: units.Units = getattr(units, STAGES[stage].units)(run)
    return found


def do_unit(run: Run, stage: str, n: int, unit: tuple[str, str], **options: bool) -> Any:
    """Do unit `n` of a mapped stage, log its counts, and return the task result. `unit`: its section and label."""
    section, label = unit
    which = {"split" if STAGES[stage].units == STAGES["extract"].units else "unit": n}
    with about(stage=stage, section=section, **which):
        before = time.monotonic()
        try:
            receipt = getattr(units, STAGES[stage].unit)(run, n, **options)
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
    run: Run, stage: str, jobs: int, seconds: dict[str, float], lanes: _Lanes | None = None, **options: bool
) -> None:
    """Do the units of a mapped stage, `jobs` at a time. The first error ends it.

    `lanes`: of some units, the name of a lane and how many units may be in it at a time. `options`: of the stage.
    """
    planned = units_of(run, stage)
    before = time.monotonic()
    done, count = 0, len(planned)
    if planned:
        run.environment.advance(stage, 0, count)
    ready = list(range(count))
    # Also one at a time they are done in a thread: a signal reaches this one, and no driver takes it for its own.
    with ThreadPoolExecutor(jobs) as pool:
        at_work: dict[Future[Any], int] = {}
        try:
            while ready or at_work:
                while len(at_work) < jobs and (n := _next(ready, at_work.values(), lanes or {})) is not None:
                    ready.remove(n)
                    at_work[pool.submit(here(do_unit), run, stage, n, planned[n], **options)] = n
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


def _next(ready: Sequence[int], at_work: Collection[int], lanes: _Lanes) -> int | None:
    """Return the first task whose connection has a free slot, or None."""
    busy = Counter(lanes[n][0] for n in at_work if n in lanes)
    return next((n for n in ready if n not in lanes or busy[lanes[n][0]] < lanes[n][1]), None)
