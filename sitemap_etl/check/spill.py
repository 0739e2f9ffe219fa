"""Rows sorted into buckets by a key, on disk once there are many: 100 million URLs compared in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

_BUCKETS: Final = 256
HELD: Final = 2_000_000
"""Rows held in memory before they go to disk."""
_SPREAD: Final = np.uint64(0x9E3779B97F4A7C15)
_TOP: Final = np.uint64(56)


class Spill:
    """Rows of one dtype in 256 buckets; rows of equal key share a bucket.

    A bucket of 100 million rows is 400 thousand rows. `held` rows stay in memory; the rest goes into files below
    `folder`, which the caller removes.
    """

    def __init__(self, dtype: np.dtype, folder: Path, name: str, *, held: int = HELD) -> None:
        self.rows = 0
        self._dtype = dtype
        self._folder = folder
        self._name = name
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._waiting = 0
        self._most = held

    def add(self, rows: np.ndarray, key: np.ndarray) -> None:
        """Keep `rows`; `key` (uint64, one a row) decides the bucket."""
        if not len(rows):
            return
        self._held.append((rows, (key * _SPREAD >> _TOP).astype(np.uint8)))
        self._waiting += len(rows)
        self.rows += len(rows)
        if self._waiting >= self._most:
            self._write()

    def buckets(self) -> Iterator[np.ndarray]:
        """The rows of every bucket, also of empty ones, always in the same order; within one, as they were added."""
        if self._held and self.rows > self._waiting:
            self._write()
        if self._held:
            rows, cuts = self._sorted()
            for number in range(_BUCKETS):
                yield rows[cuts[number] : cuts[number + 1]]
            return
        for number in range(_BUCKETS):
            file = self._file(number)
            yield np.fromfile(file, self._dtype) if file.exists() else np.empty(0, self._dtype)

    def _sorted(self) -> tuple[np.ndarray, np.ndarray]:
        bucket = np.concatenate([b for _, b in self._held])
        order = np.argsort(bucket, kind="stable")
        rows = np.concatenate([r for r, _ in self._held])[order]
        return rows, np.searchsorted(bucket[order], np.arange(_BUCKETS + 1))

    def _write(self) -> None:
        rows, cuts = self._sorted()
        self._held, self._waiting = [], 0
        self._folder.mkdir(parents=True, exist_ok=True)
        for number in range(_BUCKETS):
            if cuts[number] < cuts[number + 1]:
                with self._file(number).open("ab") as out:
                    rows[cuts[number] : cuts[number + 1]].tofile(out)

    def _file(self, number: int) -> Path:
        return self._folder / f"{self._name}-{number:03}"
