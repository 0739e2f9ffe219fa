"""Search for rows of a string array that may not be canonical, in the whole buffer instead of row by row.

The bytes go through in blocks that stay in cache. A block without odd bytes costs about 1 ns a byte. Otherwise only the
odd positions are examined.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sitemap_etl import kernels
from sitemap_etl.arrow import bytes_of, joined, offsets_of, over, windows
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls import parameters

_BLOCK: Final = 1 << 18
"""Bytes per block. With temporaries, a block is about as large as a level 2 cache."""

_SOFT: Final = np.zeros(256, np.bool_)
_SOFT[list(b' "<>[\\]^`{|}' + bytes(range(0x80, 0x100)))] = True
"""Bytes that path and query must have percent-encoded (not in RFC 3986 pchar, "/" or "?")."""
_HARD: Final = np.zeros(256, np.bool_)
_HARD[list(bytes(range(0x20)) + b"#\x7f\\")] = True
"""Bytes that percent-encoding alone does not solve: controls, the beginning of a fragment, a backslash."""

_NEUTRAL: Final = np.zeros(256, np.bool_)
_NEUTRAL[list(b"$=")] = True
"""Bytes that are examined because of their neighbors (`_mark`)."""

_FINE, _LOWER, _ODD = 0, 1, 2
_WORD: Final = 4
_NOWHERE: Final = np.empty(0, np.int64)


def _escapes() -> np.ndarray:
    """Return the state of every pair of bytes after a "%": fine, lower case that becomes upper case, or odd."""
    states = np.full(1 << 16, _ODD, np.uint8)
    unreserved = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~"
    for hi in "0123456789abcdefABCDEF":
        for lo in "0123456789abcdefABCDEF":
            if int(hi + lo, 16) not in unreserved:
                states[ord(lo) << 8 | ord(hi)] = _FINE if (hi + lo).isupper() or (hi + lo).isdigit() else _LOWER
    return states


_ESCAPES: Final = _escapes()


class Text(Frozen):
    """The buffers of a string array without nulls' meaning: `data` holds its rows' bytes only."""

    data: np.ndarray
    """uint8."""
    starts: np.ndarray
    """int64, one more than rows: where each row begins in `data`."""

    @classmethod
    def of(cls, array: pa.Array) -> Text:
        """Return the memory of a string or large_string array, not a copy."""
        offsets = offsets_of(array).astype(np.int64)
        return cls(bytes_of(array), offsets - offsets[0])

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def byte(self, at: int) -> np.ndarray:
        """Return the byte at this place of each row, 0 if the row is shorter."""
        if len(self.data) == 0:
            return np.zeros(len(self.starts) - 1, np.uint8)
        found = self.data[np.minimum(self.starts[:-1] + at, len(self.data) - 1)]
        return np.where(self.lengths > at, found, np.uint8(0))

    def rows_at(self, positions: np.ndarray) -> np.ndarray:
        """Return a mask of the rows that hold one of these positions, which ascend."""
        rows = len(self.starts) - 1
        if len(positions) < rows:
            mask = np.zeros(rows, np.bool_)
            mask[np.searchsorted(self.starts, positions, "right") - 1] = True
            return mask
        before = np.searchsorted(positions, self.starts)
        result: np.ndarray = before[1:] > before[:-1]
        return result


class Findings(Frozen):
    """Result of `scan`."""

    odd: np.ndarray
    """Mask of the rows that need care."""
    soft: np.ndarray
    """Mask of the rows, odd or not, with bytes that must be percent-encoded."""
    lower: np.ndarray
    """Positions in the data: the "%" of triples that are only to be made upper case."""
    pairs: np.ndarray
    """Positions in the data: the second of two slashes in a row that don't follow a colon."""
    colons: int
    """How many there are."""


def scan(text: Text, strip: frozenset[str]) -> Findings:
    """Return the rows whose path or query may not be canonical, wherever they live.

    Odd is: a control character, a fragment, a "%" that is stray or of an unreserved character, a "/.", the
    beginning of a parameter that `strip` takes out. All that is not canonical is odd, soft or lower; some of what
    is odd is canonical.
    """
    data = text.data
    if len(data) < _WORD:
        every = np.ones(len(text.starts) - 1, np.bool_)
        return Findings(every, ~every, _NOWHERE, _NOWHERE, 0)
    words = windows(data, "<u4")
    singles = b"`(" if "sessions" in strip else b"`"
    begins = _begins(strip)
    room = _Room(np.empty(_BLOCK, np.uint8), *(np.empty(_BLOCK, np.bool_) for _ in range(3)))
    odd, soft, lower, pairs = [_NOWHERE], [_NOWHERE], [_NOWHERE], [_NOWHERE]
    colons = 0
    percents = False
    for begin in range(0, len(data), _BLOCK):
        block = data[begin : begin + _BLOCK]
        marks, more = _mark(block, singles, room)
        colons += more
        if marks is None:
            continue
        at = np.flatnonzero(marks)
        found = block[at]
        at += begin
        slashes = found == ord("/")
        if slashes.any():
            second = at[slashes]
            second = second[(data[second - 1] == ord("/")) & (data[second - 2] != ord(":"))]  # blocks begin anywhere
            pairs.append(second[text.starts[np.searchsorted(text.starts, second, "right") - 1] != second])
            at, found = at[~slashes], found[~slashes]
        soft.append(at[_SOFT[found]])
        flags = _HARD[found] | ((found == ord(".")) & (data[at - 1] == ord("/")))
        escapes = np.flatnonzero(found == ord("%"))
        if len(escapes):
            percents = True
            triples = at[escapes]
            states = _ESCAPES[_after(words, triples) & np.uint32(0xFFFF)]
            states[np.searchsorted(triples, len(words) - 1) :] = _ODD
            flags[escapes] = states == _ODD
            lower.append(triples[states == _LOWER])
        if strip:
            flags |= _may_be_stripped(data, at, found, begins[_fold(_after(words, at))])
        last = np.searchsorted(at, len(words) - 1)  # the next bytes are unknown, so the last row may need care
        flags[last:] |= ~_NEUTRAL[found[last:]]
        odd.append(at[flags])
    rows = text.rows_at(np.concatenate(odd))
    lowered = np.concatenate(lower)
    if percents:
        # A triple that its row's end cuts short was read on into the next row.
        stops = np.sort(np.concatenate([text.starts[1:][text.lengths >= k] - k for k in (1, 2)]))
        cut = stops[data[stops] == ord("%")]
        rows |= text.rows_at(cut)
        lowered = lowered[~np.isin(lowered, cut)]
    return Findings(rows, text.rows_at(np.concatenate(soft)), lowered, np.concatenate(pairs), colons)


_DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_SOFT_BYTES: Final = _SOFT.astype(np.uint8).tobytes()
"""For `bytes.translate`, which looks up twice as fast as an index."""
_ENCODED_ROWS: Final = 4_096
"""Rows encoded together, so that what is computed for each byte stays in cache."""


def encode(array: pa.Array) -> pa.Array:
    """Return the rows with every byte percent-encoded that must be, as string."""
    parts = [_encode(Text.of(array.slice(at, _ENCODED_ROWS))) for at in range(0, len(array), _ENCODED_ROWS)]
    return joined(parts, pa.string())


def _encode(text: Text) -> pa.Array:
    data = text.data
    at = np.flatnonzero(np.frombuffer(data.tobytes().translate(_SOFT_BYTES), np.bool_))
    to = at + np.arange(0, 2 * len(at), 2)
    encoded = np.empty(len(data) + 2 * len(at), np.uint8)
    kept = np.ones(len(encoded), np.bool_)  # where one byte of the text is one byte here
    kept[to + 1] = kept[to + 2] = False
    encoded[kept] = data
    codes = data[at]
    encoded[to] = ord("%")
    encoded[to + 1] = _DIGITS[codes >> 4]
    encoded[to + 2] = _DIGITS[codes & 15]
    starts = text.starts + 2 * np.searchsorted(at, text.starts)
    return over(pa.string(), starts.astype(np.int32), encoded)


class _Room(Frozen):
    """Memory that every block uses again: fresh pages cost more than the comparisons."""

    values: np.ndarray
    marks: np.ndarray
    some: np.ndarray
    slashes: np.ndarray


def _mark(block: np.ndarray, singles: bytes, room: _Room) -> tuple[np.ndarray | None, int]:
    """Return a mask of the bytes to look at, or None if there are none, and the number of colons.

    It covers all that matter, and a few that are fine.

    Comparisons of whole blocks run several times as fast as look-ups in a table of 256.
    """
    size = len(block)
    if kernels.compiled is not None:
        marks = room.marks[:size]
        some_marked, colons = kernels.compiled.mark(block, marks, parenthesis=b"(" in singles)
        return marks if some_marked else None, colons
    values, marks, some, slashes = (part[:size] for part in (room.values, room.marks, room.some, room.slashes))
    np.subtract(block, 0x21, out=values)
    np.greater(values, 0x59, out=marks)  # controls, space, { | } ~ DEL and all that is not ASCII
    for first, more in ((0x5B, 3), (0x22, 4), (0x3B, 4)):  # [ \\ ] ^ and " # $ % & and ; < = > ?
        np.subtract(block, first, out=values)
        np.less_equal(values, more, out=some)
        np.logical_or(marks, some, out=marks)
    for byte in singles:
        np.equal(block, byte, out=some)
        np.logical_or(marks, some, out=marks)
    slashes[0] = True
    np.equal(block[:-1], ord("/"), out=slashes[1:])
    np.equal(block, ord("."), out=some)
    np.logical_and(some, slashes, out=some)
    np.logical_or(marks, some, out=marks)
    np.equal(block, ord(":"), out=some)
    colons = int(np.count_nonzero(some))
    np.logical_and(slashes[1:], block[1:] == ord("/"), out=slashes[1:])
    slashes[0] = block[0] == ord("/")
    np.greater(slashes[2:], some[:-2], out=slashes[2:])
    np.logical_or(marks, slashes, out=marks)
    return marks if marks.any() else None, colons


def _after(words: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return the four bytes after each of these positions, the first one lowest; near the end, other bytes."""
    result: np.ndarray = words[np.minimum(at + 1, len(words) - 1)]
    return result


def _fold(words: np.ndarray) -> np.ndarray:
    """Return 15 bits of the first three letters, equal for upper and lower case."""
    five = np.uint32(31)
    first, second, third = words & five, (words >> np.uint32(8)) & five, (words >> np.uint32(16)) & five
    result: np.ndarray = first << np.uint32(10) | second << np.uint32(5) | third
    return result


def _begins(strip: frozenset[str]) -> np.ndarray:
    """Return a table of the folded first three letters that removable names have."""
    table = np.zeros(1 << 15, np.bool_)
    exact, families = parameters.names(strip)
    for name in (*exact, *families):
        table[_fold(np.frombuffer(name[:3].encode() + b"\0", "<u4"))] = True
    return table


def _may_be_stripped(data: np.ndarray, at: np.ndarray, found: np.ndarray, named: np.ndarray) -> np.ndarray:
    """Return a mask of the positions behind which something may be taken out; `named`: the letters there fit a name."""
    result: np.ndarray = (((found == ord("?")) | (found == ord("&")) | (found == ord(";"))) & named) | (
        (found == ord("(")) & (data[at - 1] == ord("/"))
    )
    return result
