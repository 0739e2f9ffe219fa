"""Windows and groups: what is sorted together, and what is one task.

A *routing* border decides which message of a run file a row goes to: it affects speed, never bytes.
A *window* is what render holds in memory. Windows are whole ranges of the last manifest, joined; where
a range outgrew a window (on a first publish: the one range of all locs) it is cut at samples, which
are a function of the set of locs alone, so that re-splitting or shuffling a source changes nothing.
"""

from __future__ import annotations

import itertools
import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from sitemap_etl import limits

SAMPLE_SHARE: Final = 256
"""One loc in so many is a sample: those whose `hash64` is 0 modulo this."""
FULL: Final = 0.75
"""How full windows are planned, of rows and bytes: samples estimate, and sections grow."""


@dataclass(frozen=True, order=True)
class Sample:
    """A sampled loc and the bytes of its row (the larger, where a loc came twice)."""

    loc: str
    bytes: int


@dataclass(frozen=True)
class Range:
    """A published shard's stretch of the order: `low` (the first has "") up to the next one's."""

    low: str
    rows: int
    bytes: int


@dataclass(frozen=True)
class Window:
    """Locs from `low` up to, not including, `high` (None: the end), and the rows expected there."""

    low: str
    high: str | None
    rows: int
    bytes: int


def samples(locs: pa.Array, hashes: np.ndarray, sizes: np.ndarray | int) -> list[Sample]:
    """The samples among `locs`, by their `hash64`; `sizes` are bytes a row, one a row or one for all."""
    at = np.flatnonzero(hashes % np.uint64(SAMPLE_SHARE) == 0)
    picked = locs.take(pa.array(at)).to_pylist()  # one row in 256
    weights = np.broadcast_to(sizes, (len(locs),))[at].tolist()
    return [Sample(loc, int(size)) for loc, size in zip(picked, weights, strict=True)]


def distinct(sampled: Iterable[Sample]) -> list[Sample]:
    """The samples in order of loc, each loc once with its largest size."""
    sizes: dict[str, int] = {}
    for sample in sampled:
        sizes[sample.loc] = max(sample.bytes, sizes.get(sample.loc, 0))
    return [Sample(loc, sizes[loc]) for loc in sorted(sizes)]


def routing_borders(
    ranges: Sequence[Range], guesses: Sequence[str] = (), rows: int = 0, most: int = 1 << 16
) -> list[str]:
    """Borders for run files: the published ranges joined to windows, or quantiles of `guesses`.

    `guesses` are canonical locs drawn from the source of a section's first publish; `rows` how many
    the source is believed to have, `most` how many messages are worth making. Messages are made smaller
    than windows then, since the windows will not fall on these borders.
    """
    if ranges:
        return [joined[0].low for joined in _joined(ranges)][1:]
    parts = min(-(-rows * 3 // limits.WINDOW_ROWS), len(guesses), most)
    if rows <= limits.WINDOW_ROWS * FULL or parts < 2:
        return []
    ordered = sorted(guesses)
    return sorted({ordered[len(ordered) * part // parts] for part in range(1, parts)} - {ordered[0]})


def windows(ranges: Sequence[Range], sampled: Sequence[Sample]) -> list[Window]:
    """The windows of a section: its published `ranges` joined, those that outgrew a window cut at samples.

    `sampled`: `distinct` samples of the section's rows of this run, in order.
    """
    base = _joined(ranges) if ranges else [[Range("", 0, 0)]]
    lows = [joined[0].low if at else "" for at, joined in enumerate(base)]
    locs = [sample.loc for sample in sampled]
    result = []
    for at, low in enumerate(lows):
        high = lows[at + 1] if at + 1 < len(lows) else None
        start = bisect_left(locs, low)
        stop = len(locs) if high is None else bisect_left(locs, high)
        result.extend(_cut_at_samples(low, high, sampled[start:stop]))
    return result


def _joined(ranges: Sequence[Range]) -> list[list[Range]]:
    """Neighbouring ranges joined greedily while they fill no more than `FULL` of a window."""
    result: list[list[Range]] = []
    rows = size = 0
    for entry in ranges:
        rows += entry.rows
        size += entry.bytes
        if not result or rows > limits.WINDOW_ROWS * FULL or size > limits.WINDOW_BYTES * FULL:
            result.append([])
            rows, size = entry.rows, entry.bytes
        result[-1].append(entry)
    return result


def _cut_at_samples(low: str, high: str | None, sampled: Sequence[Sample]) -> list[Window]:
    """One window, or several of equal weight with samples as their borders."""
    rows = len(sampled) * SAMPLE_SHARE
    size = sum(sample.bytes for sample in sampled) * SAMPLE_SHARE
    if rows <= limits.WINDOW_ROWS and size <= limits.WINDOW_BYTES:
        return [Window(low, high, rows, size)]
    weights = np.array(
        [max(1 / limits.WINDOW_ROWS, sample.bytes / limits.WINDOW_BYTES) * SAMPLE_SHARE / FULL for sample in sampled]
    )
    reached = np.cumsum(weights)
    parts = int(np.ceil(reached[-1]))
    at = np.searchsorted(reached, reached[-1] * np.arange(1, parts) / parts)
    borders = sorted({sampled[index].loc for index in at.tolist()} - {low})
    bounds = [low, *borders]
    return [
        Window(begin, bounds[index + 1] if index + 1 < len(bounds) else high, rows // len(bounds), size // len(bounds))
        for index, begin in enumerate(bounds)
    ]


def groups(planned: Sequence[Window], jobs: int = 1) -> list[tuple[int, int]]:
    """Neighbouring windows joined to tasks of about equal weight: (first, past the last) of each group's windows.

    `jobs`: how many are done at a time. As far as there are windows, no job stays without a group.
    """
    rows = np.array([max(window.rows, 1) for window in planned])
    largest = limits.GROUP_ROWS - limits.WINDOW_ROWS  # a group reaches beyond its share by half a window at each end
    count = math.ceil(rows.sum() / largest / jobs) * jobs
    count = min(count, max(1, limits.GROUPS_PER_SECTION // jobs) * jobs, len(planned))
    # The middle of a window decides on which side of a border it falls.
    group = ((np.cumsum(rows) - rows / 2) * count / rows.sum()).astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(planned)]
    return list(itertools.pairwise(bounds))
