"""Rows on their way from transform to render that stay in memory, where one process does both, and no other one could
go on in between.

What takes a spool's place: nothing is compressed, written, read and decoded. The rows of a batch are kept in the order
of their locs, so that those of any stretch lie side by side in each, and are found without knowing the windows before.
What all locs of a batch begin with is kept once.
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
    """`rows` from `first` to `last`, by locs without the `prefix` that these two share."""

    first: str
    last: str
    prefix: str
    rows: pa.Table


class Resident:
    """The rows of spools, by the spools' keys. `room`: bytes. Safe for use by several threads."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._admitted: dict[str, bool] = {}
        self._planned = self._size = 0
        self._batches: dict[str, list[_Batch]] = defaultdict(list)
        self._lock = threading.Lock()

    def admits(self, section: str, size: int) -> bool:
        """Whether the rows of a section, about so many bytes, stay; the first answer holds for all its spools."""
        with self._lock:
            if section not in self._admitted:
                self._admitted[section] = self._planned + size <= self._room
                self._planned += size if self._admitted[section] else 0
            return self._admitted[section]

    def keep(self, key: str, rows: pa.Table) -> tuple[str, str] | None:
        """Keep rows of a spool; gives their first and their last loc. None where there is no room for them, because
        sections turned out larger than they were thought to be.
        """
        rows, _ = ordered(rows)
        locs = column_of(rows, "loc")
        first, last = locs[0].as_py(), locs[-1].as_py()
        # The prefix is put back by a kernel alone.
        prefix = "" if kernels.compiled is None else posixpath.commonprefix([first, last])
        rows = with_column(rows, "loc", _without(locs, len(prefix)))
        with self._lock:
            if self._size + rows.nbytes > self._room:
                return None
            self._size += rows.nbytes
            self._batches[key].append(_Batch(first, last, prefix, rows))
        return first, last

    def rows(self, key: str, low: str, high: str | None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of a spool in [low, high) that stay, a table a batch; of `columns` only, where given."""
        for batch in self._batches.get(key, ()):
            if low > batch.last or (high is not None and high <= batch.first):
                continue
            # What lies between two texts begins with what both begin with.
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
        """Let go of all rows: nothing reads them any more."""
        with self._lock:
            self._batches.clear()
            self._size, self._room = 0, 0


def _without(locs: pa.Array, length: int) -> pa.Array:
    """The locs without so many bytes at their beginning, in memory of their own."""
    if not length or kernels.compiled is None:
        return locs
    texts = kernels.compiled.texts([(offsets_of(locs), data_of(locs))])
    bare = texts._replace(addresses=texts.addresses + np.uint64(length), lengths=texts.lengths - np.int32(length))
    return pa.Array.from_buffers(
        pa.string(), len(locs), [None, *kernels.compiled.taken(bare, np.arange(len(locs), dtype=np.int64))]
    )


def _with(prefix: str, locs: pa.Array) -> pa.Array:
    """The locs with this prefix."""
    if not prefix or kernels.compiled is None:
        return locs
    bare = offsets_of(locs)
    offsets = bare - bare[0] + np.arange(len(bare), dtype=np.int32) * np.int32(len(prefix))
    parts: list[kernels.Part] = [prefix.encode(), ((bare, data_of(locs)), None)]
    (data,) = kernels.compiled.joined(parts, np.diff(offsets).astype(np.int64), len(locs))
    return over(pa.string(), offsets, data)
