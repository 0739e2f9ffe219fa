"""Keep shuffled rows in memory when one process runs both transform and render.

It replaces shuffle files if no other process has to continue the run. Nothing is compressed, written, read or decoded.
The rows of a batch are sorted by loc, so the rows of any range are adjacent. The windows don't have to be known in
advance. The common prefix of a batch's locs is stored once.
"""

from __future__ import annotations

import posixpath
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from sitemap_etl import kernels
from sitemap_etl.arrow import column_of, data_of, offsets_of, over
from sitemap_etl.frames import with_column
from sitemap_etl.frozen import Frozen
from sitemap_etl.partition import ordered, stretch


class _Batch(Frozen):
    """Sorted rows of one batch."""

    first: str  # lowest loc
    last: str  # highest loc
    prefix: str  # common prefix of all locs
    rows: pa.Table  # rows, with locs that lack the prefix


class Resident:
    """The rows of spools, by the spools' keys. `room`: bytes. Safe for use by several threads."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._admitted: dict[str, bool] = {}
        self._planned = self._size = 0
        self._batches: dict[str, list[_Batch]] = defaultdict(list)
        self._lock = threading.Lock()

    def admits(self, section: str, size: int) -> bool:
        """Return True if the rows of a section, about this many bytes, fit. The first answer holds for the whole
        section.
        """
        with self._lock:
            if section not in self._admitted:
                self._admitted[section] = self._planned + size <= self._room
                self._planned += size if self._admitted[section] else 0
            return self._admitted[section]

    def keep(self, key: str, rows: pa.Table) -> tuple[str, str] | None:
        """Store rows and return their first and last loc.

        Return None if the memory is used up, because sections are larger than estimated.
        """
        rows, _ = ordered(rows)
        locs = column_of(rows, "loc")
        first, last = locs[0].as_py(), locs[-1].as_py()
        # Only a compiled kernel can add the prefix again.
        prefix = "" if kernels.compiled is None else posixpath.commonprefix([first, last])
        rows = with_column(rows, "loc", _without(locs, len(prefix)))
        with self._lock:
            if self._size + rows.nbytes > self._room:
                return None
            self._size += rows.nbytes
            self._batches[key].append(_Batch(first, last, prefix, rows))
        return first, last

    def rows(self, key: str, low: str, high: str | None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of a shuffle file in [low, high) that stay in memory, one table per batch, with only `columns`
        if given.
        """
        for batch in self._batches.get(key, ()):
            if low > batch.last or (high is not None and high <= batch.first):
                continue
            # A text between two others begins with what both begin with.
            begin = low.removeprefix(batch.prefix) if low > batch.first else ""
            end = high.removeprefix(batch.prefix) if high is not None and high <= batch.last else None
            found = stretch(batch.rows, begin, end)
            if columns is not None:
                found = found.select([name for name in found.column_names if name in columns])
            if found.num_rows and "loc" in found.column_names:
                found = with_column(found, "loc", _with(batch.prefix, column_of(found, "loc")))
            if found.num_rows:
                yield found

    def clear(self) -> None:
        """Release all rows."""
        with self._lock:
            self._batches.clear()
            self._size, self._room = 0, 0


def _without(locs: pa.Array, length: int) -> pa.Array:
    """Return the locs without their first `length` bytes, in new memory."""
    if not length or kernels.compiled is None:
        return locs
    texts = kernels.compiled.texts([(offsets_of(locs), data_of(locs))])
    bare = texts._replace(addresses=texts.addresses + np.uint64(length), lengths=texts.lengths - np.int32(length))
    return pa.Array.from_buffers(
        pa.string(), len(locs), [None, *kernels.compiled.taken(bare, np.arange(len(locs), dtype=np.int64))]
    )


def _with(prefix: str, locs: pa.Array) -> pa.Array:
    """Return the locs with this prefix."""
    if not prefix or kernels.compiled is None:
        return locs
    bare = offsets_of(locs)
    offsets = bare - bare[0] + np.arange(len(bare), dtype=np.int32) * np.int32(len(prefix))
    parts: list[kernels.Part] = [prefix.encode(), ((bare, data_of(locs)), None)]
    (data,) = kernels.compiled.joined(parts, np.diff(offsets).astype(np.int64), len(locs))
    return over(pa.string(), offsets, data)
