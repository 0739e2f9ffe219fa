"""A stretch of ordered rows to shards: stable where it can be, equal where it must be cut."""

from __future__ import annotations

import numpy as np

from sitemap_etl.settings import Shards

MERGE_BELOW = 0.1
"""A shard with a smaller share of the limits may be merged when it is rewritten anyway."""
MERGE_UP_TO = 0.7
"""Share of the limits that a merged shard may reach."""


def cut(sizes: np.ndarray, bounds: Shards, published: int | None = None) -> list[int]:
    """Where parts begin, in rows; the first is 0. One part where everything fits.

    `bounds.bytes` are those of rendered entries: without the wrapper.
    `sizes`: exact bytes of each row's entry, in order. `published`: how many rows sort up to and
    including the last published loc of this range, or None where nothing was. Rows after it go to
    parts of their own once the range is past a limit, so that appending leaves old files alone.
    """
    total = int(sizes.sum())
    if bounds.hold(len(sizes), total):
        return [0]
    if published is None or published in (0, len(sizes)):
        return _equal_parts(sizes, bounds)
    head, tail = sizes[:published], sizes[published:]
    starts = [0] if bounds.hold(len(head), int(head.sum())) else _equal_parts(head, bounds)
    return starts + [published + start for start in _equal_parts(tail, bounds)]


def _equal_parts(sizes: np.ndarray, bounds: Shards) -> list[int]:
    """Give k = max(⌈n / (fill·rows)⌉, ⌈b / (fill·bytes)⌉) equal parts; more where bytes are unevenly spread."""
    count = len(sizes)
    reached = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    by_rows = max(1, -(-count // max(1, int(bounds.fill * bounds.rows))))
    by_bytes = max(1, -(-int(reached[-1]) // max(1, int(bounds.fill * bounds.bytes))))
    parts = max(by_rows, by_bytes)
    while parts < count:
        if by_rows >= by_bytes:
            starts = np.arange(parts) * count // parts
        else:
            starts = np.searchsorted(reached, reached[-1] * np.arange(parts) // parts, side="left")
        starts = np.unique(np.minimum(starts, count - 1))
        ends = np.append(starts[1:], count)
        if (ends - starts).max() <= bounds.rows and (reached[ends] - reached[starts]).max() <= bounds.bytes:
            return [int(start) for start in starts]
        parts += 1
    return list(range(count))


def mergeable(rows: int, size: int, bounds: Shards) -> bool:
    """Whether a rewritten shard is small enough to give up its file."""
    return rows < MERGE_BELOW * bounds.rows and size < MERGE_BELOW * bounds.bytes


def absorbs(rows: int, size: int, bounds: Shards) -> bool:
    """Whether a shard of so many rows and bytes is still a fair one after a merge."""
    return rows <= MERGE_UP_TO * bounds.rows and size <= MERGE_UP_TO * bounds.bytes
