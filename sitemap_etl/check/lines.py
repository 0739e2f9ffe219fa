"""Find line and column of byte offsets, in memory that does not grow with the number of lines."""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np

_BLOCK: Final = 1 << 16
"""Bytes whose newlines are looked up together."""


class Lines:
    """Lines and columns of a document. Only the positions of the newlines in one block are kept."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._kept = -1, np.empty(0, np.int64)

    @cached_property
    def _before(self) -> np.ndarray:
        """Newlines before each block, and in all of the data."""
        starts = range(0, len(self._data), _BLOCK)
        return np.cumsum([0, *(self._data.count(b"\n", at, at + _BLOCK) for at in starts)])

    def _newlines(self, block: int) -> np.ndarray:
        """Return the byte offsets of the newlines in a block."""
        if self._kept[0] != block:
            at = block * _BLOCK
            found = np.flatnonzero(np.frombuffer(self._data[at : at + _BLOCK], np.uint8) == ord("\n"))
            self._kept = block, found + at
        return self._kept[1]

    def _begin(self, line: int) -> int:
        """Return the byte offset of a line's beginning."""
        if line == 1:
            return 0
        block = int(np.searchsorted(self._before, line - 1)) - 1
        return int(self._newlines(block)[line - 2 - int(self._before[block])]) + 1

    def place(self, offset: int) -> tuple[int, int]:
        """Return (line, column) of an offset, both from 1. The column counts bytes."""
        line = int(self.numbers(np.array([offset]))[0])
        return line, offset - self._begin(line) + 1

    def numbers(self, offsets: np.ndarray) -> np.ndarray:
        """Return the line of each offset, from 1."""
        blocks = offsets // _BLOCK
        numbers: np.ndarray = self._before[blocks] + 1
        order = np.argsort(blocks, kind="stable")
        used, first = np.unique(blocks[order], return_index=True)
        for block, rows in zip(used.tolist(), np.split(order, first[1:]), strict=False):
            numbers[rows] += np.searchsorted(self._newlines(block), offsets[rows])
        return numbers

    def offset(self, line: int, column: int) -> int:
        """Return the byte offset of a place, within the data."""
        return min(self._begin(min(line, int(self._before[-1]) + 1)) + column - 1, len(self._data))
