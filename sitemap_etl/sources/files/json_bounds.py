"""Limits of JSON lines, checked on bytes before a parser reads them.

Recursive parsers overflow the stack of the process, and the time of others grows with the square of the keys.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Final

import numpy as np
from numpy.typing import NDArray

_LF, _QUOTE, _ESCAPE, _COLON = b'\n"\\:'
_STEPS: Final = np.zeros(256, np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def find_deep_line(block: bytes, end: int, levels: int) -> int | None:
    """Return the first line, counted from 0, with more than `levels` nested lists and objects, or None.

    `end`: bytes of the block that are whole lines. Lines that are not JSON can give any result.
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


def find_wide_line(block: bytes, end: int, keys: int, inner_keys: int) -> tuple[int, int] | None:
    """Return the first line, counted from 0, with an object of too many keys, and their number, or None.

    `keys`: maximum for the line's own object. `inner_keys`: maximum for an inner object. `end`: bytes of the block that
    are whole lines. The lines must not be nested deeply.
    """
    found = np.frombuffer(block, np.uint8, end)
    breaks = np.flatnonzero(found == _LF)
    starts = np.concatenate(([0], breaks[:-1] + 1))
    colons = np.add.reduceat(found == _COLON, starts, dtype=np.int64)
    for line in np.flatnonzero(colons > min(keys, inner_keys)).tolist():
        *within, own = _keys_of(block[int(starts[line]) : int(breaks[line])]) or [0]
        inner = max(within, default=0)
        if own > keys or inner > inner_keys:
            return line, own if own > keys else inner
    return None


def _keys_of(line: bytes) -> list[int]:
    """Return the number of keys of each object in a line, outer objects last."""
    counts: list[int] = []
    with suppress(ValueError):  # not JSON, which the parser reports later
        json.loads(line, object_pairs_hook=lambda pairs: counts.append(len(pairs)))
    return counts


def _inside_text(line: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return a mask of the bytes of a line that are inside a text."""
    quotes = line == _QUOTE
    escapes = np.flatnonzero(line[:-1] == _ESCAPE)
    if len(escapes):
        # In a run of escapes, every second one is escaped itself.
        number = np.arange(len(escapes))
        begins = np.maximum.accumulate(np.where(np.diff(escapes, prepend=-2) != 1, number, 0))
        quotes[escapes[(number - begins) % 2 == 0] + 1] = False
    inside: NDArray[np.bool_] = np.logical_xor.accumulate(quotes)
    return inside
