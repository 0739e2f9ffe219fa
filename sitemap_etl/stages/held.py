"""Rows on their way from transform to render that stay in memory, where one process does both.

What takes a spool's place: nothing is compressed, written, read and decoded. The rows of a batch are held in the order
of their locs, so that those of any stretch lie side by side in each, and are found without knowing the windows before.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence

import pyarrow as pa

from sitemap_etl.partition import stretch


class Held:
    """The rows of spools, by the spools' keys. `room`: bytes. Safe for use by several threads."""

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._admitted: dict[str, bool] = {}
        self._planned = self._size = 0
        self._batches: dict[str, list[pa.Table]] = defaultdict(list)
        self._lock = threading.Lock()

    def admits(self, section: str, size: int) -> bool:
        """Whether the rows of a section, about so many bytes, are held; the first answer holds for all its spools."""
        with self._lock:
            if section not in self._admitted:
                self._admitted[section] = self._planned + size <= self._room
                self._planned += size if self._admitted[section] else 0
            return self._admitted[section]

    def keep(self, key: str, batch: pa.Table) -> bool:
        """Hold rows of a spool, ordered by loc. False where sections turned out larger than they were thought to be."""
        size = batch.nbytes
        with self._lock:
            if self._size + size > self._room:
                return False
            self._size += size
            self._batches[key].append(batch)
            return True

    def rows(self, key: str, low: str, high: str | None, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """The rows of a spool in [low, high) that are held, a table a batch; of `columns` only, where given."""
        for batch in self._batches.get(key, ()):
            found = stretch(batch, low, high)
            if found.num_rows:
                yield found if columns is None else found.select([n for n in found.column_names if n in columns])

    def clear(self) -> None:
        """Let go of all rows: nothing reads them any more."""
        with self._lock:
            self._batches.clear()
            self._size, self._room = 0, 0
