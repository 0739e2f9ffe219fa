"""Cut ordered rows into shards: keep published borders if possible, otherwise cut equal parts."""

from __future__ import annotations

import numpy as np

from sitemap_etl.settings import Shards

MERGE_BELOW = 0.1
"""Share of the limits below which a shard can be merged, if it is rewritten anyway."""
MERGE_UP_TO = 0.7
"""Share of the limits that a merged shard can reach."""


def cut(sizes: np.ndarray, bounds: Shards, published: int | None = None) -> list[int]:
    """Return the first row of each part; the first is 0. Return one part if everything fits.

    sizes: exact bytes of each row's entry, in order.
    bounds: `bounds.bytes` are bytes of rendered entries, without the wrapper.
    published: number of rows up to the last published loc of this range, or None if nothing was published.

    If the range exceeds a limit, rows after `published` go to parts of their own, so that appending changes no old
    file.
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
    """Return the starts of k = max(⌈n / (fill·rows)⌉, ⌈b / (fill·bytes)⌉) equal parts, or more if a part exceeds a
    limit.
    """
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
    """Return True if a rewritten shard is small enough to give up its file."""
    return rows < MERGE_BELOW * bounds.rows and size < MERGE_BELOW * bounds.bytes


def absorbs(rows: int, size: int, bounds: Shards) -> bool:
    """Return True if a merged shard with these rows and bytes is small enough."""
    return rows <= MERGE_UP_TO * bounds.rows and size <= MERGE_UP_TO * bounds.bytes
