"""The bytes under a string column, and whether some occur in them: whole buffers, no copies."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

_BLOCK: Final = 1 << 18
"""Bytes searched at a time: the temporaries stay in cache."""
_FIRST_PLAIN: Final = np.uint8(0x21)
_PLAIN: Final = np.uint8(0x80 - 0x21)


def offsets_of(values: pa.Array) -> np.ndarray:
    """Where each row of a string or list array begins and the last one ends: n + 1 integers."""
    wide = pa.types.is_large_string(values.type) or pa.types.is_large_list(values.type)
    dtype = np.int64 if wide else np.int32
    if len(values) == 0:
        return np.zeros(1, dtype)
    return np.frombuffer(values.buffers()[1], dtype)[values.offset : values.offset + len(values) + 1]


def bytes_of(values: pa.Array) -> np.ndarray:
    """The UTF-8 bytes that a string array's rows span: uint8. Those of rows that are null may lie between."""
    if len(values) == 0 or values.buffers()[2] is None:
        return np.empty(0, np.uint8)
    offsets = offsets_of(values)
    return np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]


def occurs(data: np.ndarray, code: int) -> bool:
    """Whether a byte is among them."""
    return any(bool((data[at : at + _BLOCK] == code).any()) for at in range(0, len(data), _BLOCK))


def occurs_below(data: np.ndarray, code: int) -> bool:
    """Whether a smaller byte is among them."""
    return any(bool((data[at : at + _BLOCK] < code).any()) for at in range(0, len(data), _BLOCK))


def is_plain(data: np.ndarray) -> bool:
    """Whether all are visible ASCII: no blank, no control, nothing of other scripts."""
    # One comparison for both ends: what is below wraps around to the top.
    blocks = (data[at : at + _BLOCK] - _FIRST_PLAIN for at in range(0, len(data), _BLOCK))
    return not any(bool((block >= _PLAIN).any()) for block in blocks)
