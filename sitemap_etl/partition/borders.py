"""Windows and groups: what is sorted together, and what is one task.

A *routing* border decides which message of a run file a row goes to: it affects speed, never bytes.
A *window* is what render holds in memory. Windows are whole ranges of the last manifest, joined; where
a range outgrew a window (on a first publish: the one range of all locs) it is cut at samples, which
are a function of the set of locs alone, so that re-splitting or shuffling a source changes nothing.
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
"""One loc in so many is a sample: those whose `hash64` is 0 modulo this."""
FULL: Final = 0.75
"""How full windows are planned, of rows and bytes: samples estimate, and sections grow."""


SAMPLES: Final = pa.schema([("loc", pa.string()), ("bytes", pa.int64())])
"""Sampled locs, each with the bytes of its row."""


class Range(Frozen):
    """A published shard's stretch of the order: `low` (the first has "") up to the next one's."""

    low: str
    rows: int
    bytes: int


class Window(Frozen):
    """Locs from `low` up to, not including, `high` (None: the end), and the rows expected there."""

    low: str
    high: str | None
    rows: int
    bytes: int


def samples(locs: pa.Array, hashes: np.ndarray, sizes: np.ndarray) -> pa.Table:
    """The samples among `locs`, by their `hash64`: SAMPLES. `sizes` are bytes, one a row."""
    at = np.flatnonzero(hashes % np.uint64(SAMPLE_SHARE) == 0)
    return pa.table([locs.take(pa.array(at)), pa.array(sizes[at])], schema=SAMPLES)


def distinct(sampled: Sequence[pa.Table]) -> pa.Table:
    """The samples in order of loc, each loc once with its largest size: SAMPLES."""
    table = pa.concat_tables([SAMPLES.empty_table(), *sampled])
    table = table.sort_by([("loc", "ascending"), ("bytes", "descending")]).combine_chunks()
    locs = column_of(table, "loc")
    again = pc.equal(locs.slice(1), locs.slice(0, max(len(locs) - 1, 0)))
    return table.filter(pa.array(np.concatenate((np.ones(min(len(locs), 1), bool), ~mask_of(again))))).combine_chunks()


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


def windows(ranges: Sequence[Range], sampled: pa.Table) -> list[Window]:
    """The windows of a section: its published `ranges` joined, those that outgrew a window cut at samples.

    `sampled`: `distinct` samples of the section's rows of this run, in order.
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


def _cut_at_samples(low: str, high: str | None, sampled: pa.Table) -> list[Window]:
    """One window, or several of equal weight with samples as their borders."""
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
