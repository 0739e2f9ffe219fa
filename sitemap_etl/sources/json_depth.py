"""How deeply lines of JSON are nested, found in their bytes: parsers that recurse overflow the stack of the process."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

_LF, _QUOTE, _ESCAPE = b'\n"\\'
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def find_deep_line(block: bytes, end: int, levels: int) -> int | None:
    """Return the first line with more levels of lists and objects than `levels`, counted from 0; None if there is none.

    `end`: bytes of the block that are whole lines. Lines that are not JSON can count as deep, or not.
    """
    found = np.frombuffer(block, np.uint8, end)
    steps = _STEPS[found]
    breaks = np.flatnonzero(found == _LF)
    starts = np.concatenate(([0], breaks[:-1] + 1))
    opening = np.add.reduceat(steps > 0, starts, dtype=np.int64)
    for line in np.flatnonzero(opening > levels).tolist():
        first, last = int(starts[line]), int(breaks[line])
        inside = _inside_text(found[first:last])
        if np.cumsum(np.where(inside, 0, steps[first:last]), dtype=np.int64).max() > levels:
            return line
    return None


def _inside_text(line: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which bytes of a line are in a text."""
    quotes = line == _QUOTE
    escapes = np.flatnonzero(line[:-1] == _ESCAPE)
    if len(escapes):
        # Of escapes in a row every second one is escaped itself.
        number = np.arange(len(escapes))
        begins = np.maximum.accumulate(np.where(np.diff(escapes, prepend=-2) != 1, number, 0))
        quotes[escapes[(number - begins) % 2 == 0] + 1] = False
    inside: NDArray[np.bool_] = np.logical_xor.accumulate(quotes)
    return inside
