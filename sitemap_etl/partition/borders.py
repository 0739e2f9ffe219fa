"""Plan windows and groups: the rows that are sorted together, and the windows of one task.

A *routing border* decides which block of a shuffle file a row goes to. It affects speed, never bytes. A *window* is the
rows that render holds in memory together. Windows are whole ranges of the last manifest, joined. A range that outgrew a
window is cut at samples. On a first publish, that is the one range of all locs. Samples depend only on the set of locs,
so splitting or shuffling a source differently changes nothing.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import column_of, mask_of
from sitemap_etl.frozen import Frozen

SAMPLE_SHARE: Final = 256
"""Divisor of the sampling: a loc is a sample if its `hash64` is 0 modulo this."""
FULL: Final = 0.75
"""Planned share of a window's limits, in rows and bytes. Samples are estimates, and sections grow."""


SAMPLES: Final = pa.schema([("loc", pa.string()), ("bytes", pa.int64())])
"""Sampled locs with the bytes of their rows."""


class Range(Frozen):
    """Range of a published shard: from `low` (the first has "") to the next shard's `low`."""

    low: str
    rows: int
    bytes: int


class Window(Frozen):
    """Locs from `low` to before `high` (None: the end), with the expected rows and bytes."""

    low: str
    high: str | None
    rows: int
    bytes: int


def samples(locs: pa.Array, hashes: np.ndarray, sizes: np.ndarray) -> pa.Table:
    """Return the samples among `locs`, by their `hash64`: SAMPLES. `sizes` are the bytes of each row."""
    at = np.flatnonzero(hashes % np.uint64(SAMPLE_SHARE) == 0)
    return pa.table([locs.take(pa.array(at)), pa.array(sizes[at])], schema=SAMPLES)


def distinct(sampled: Sequence[pa.Table]) -> pa.Table:
    """Return the samples ordered by loc, each loc once with its largest size: SAMPLES."""
    table = pa.concat_tables([SAMPLES.empty_table(), *sampled])
    table = table.sort_by([("loc", "ascending"), ("bytes", "descending")]).combine_chunks()
    locs = column_of(table, "loc")
    again = pc.equal(locs.slice(1), locs.slice(0, max(len(locs) - 1, 0)))
    return table.filter(pa.array(np.concatenate((np.ones(min(len(locs), 1), bool), ~mask_of(again))))).combine_chunks()


def routing_borders(
    ranges: Sequence[Range], guesses: Sequence[str] = (), rows: int = 0, most: int = 1 << 16
) -> list[str]:
    """Return the borders of shuffle files: published ranges joined to windows, or quantiles of `guesses`.

    guesses: canonical locs drawn from the source of a section's first publish.
    rows: the estimated number of rows in the source.
    most: the largest useful number of blocks.

    With guesses, blocks are smaller than windows, because the windows won't end at these borders.
    """
    if ranges:
        return [joined[0].low for joined in _joined(ranges)][1:]
    parts = min(-(-rows * 3 // limits.WINDOW_ROWS), len(guesses), most)
    if rows <= limits.WINDOW_ROWS * FULL or parts < 2:
        return []
    ordered = sorted(guesses)
    return sorted({ordered[len(ordered) * part // parts] for part in range(1, parts)} - {ordered[0]})


def windows(ranges: Sequence[Range], sampled: pa.Table) -> list[Window]:
    """Return the windows of a section: its published `ranges` joined, and cut at samples if they outgrew a window.

    sampled: `distinct` samples of the section's rows in this run, in order.
    """
    base = _joined(ranges) if ranges else [[Range("", 0, 0)]]
    lows = [joined[0].low if at else "" for at, joined in enumerate(base)]
    starts = [0]
    if len(lows) > 1:
        starts += pc.search_sorted(column_of(sampled, "loc"), pa.array(lows[1:]), side="left").to_pylist()
    bounds = itertools.pairwise([*starts, sampled.num_rows])
    result = []
    for low, high, (start, stop) in zip(lows, [*lows[1:], None], bounds, strict=True):
        result.extend(_cut_at_samples(low, high, sampled.slice(start, stop - start)))
    return result


def _joined(ranges: Sequence[Range]) -> list[list[Range]]:
    """Join neighboring ranges greedily while they fill at most `FULL` of a window."""
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


def _cut_at_samples(low: str, high: str | None, sampled: pa.Table) -> list[Window]:
    """Return one window, or several of equal weight with samples as their borders."""
    sizes = sampled.column("bytes").to_numpy()
    rows = len(sizes) * SAMPLE_SHARE
    size = int(sizes.sum()) * SAMPLE_SHARE
    if rows <= limits.WINDOW_ROWS and size <= limits.WINDOW_BYTES:
        return [Window(low, high, rows, size)]
    weights = np.maximum(1 / limits.WINDOW_ROWS, sizes / limits.WINDOW_BYTES)
    reached = np.cumsum(weights * SAMPLE_SHARE / FULL)
    parts = int(np.ceil(reached[-1]))
    at = np.searchsorted(reached, reached[-1] * np.arange(1, parts) / parts)
    borders = sorted(set(sampled.column("loc").take(pa.array(at)).to_pylist()) - {low})
    bounds = [low, *borders]
    return [
        Window(begin, bounds[index + 1] if index + 1 < len(bounds) else high, rows // len(bounds), size // len(bounds))
        for index, begin in enumerate(bounds)
    ]


def groups(planned: Sequence[Window], jobs: int = 1) -> list[tuple[int, int]]:
    """Join neighboring windows to groups of about equal weight. Return (first, past the last) window of each group.

    jobs: tasks that run at a time. Each job gets a group if there are enough windows.
    """
    rows = np.array([max(window.rows, 1) for window in planned])
    largest = limits.GROUP_ROWS - limits.WINDOW_ROWS  # a group exceeds its share by half a window at each end
    count = math.ceil(rows.sum() / largest / jobs) * jobs
    count = min(count, max(1, limits.GROUPS_PER_SECTION // jobs) * jobs, len(planned))
    # The middle of a window decides which side of a border it is on.
    group = ((np.cumsum(rows) - rows / 2) * count / rows.sum()).astype(np.int64)
    bounds = [0, *(np.flatnonzero(np.diff(group)) + 1).tolist(), len(planned)]
    return list(itertools.pairwise(bounds))
