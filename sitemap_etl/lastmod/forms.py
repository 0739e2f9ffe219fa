"""The written forms of dates and times, read from whole columns of text.

Read are W3C-DTF (https://www.w3.org/TR/NOTE-datetime) and what databases print:

    2026-01-02                       a date
    2026-01-02T03:04Z                an instant; `t` or a space instead of T; seconds, a fraction of any length
    2026-01-02 03:04:05.678+01       offsets ±hh, ±hhmm, ±hh:mm, `Z`, `z`, `UTC`, `GMT`, a space before them or none
    2026-01-02 03:04:05              a local time: which instant it is depends on a zone
    2026, 2026-01                    W3C-DTF, but too coarse for a lastmod (the XSD has no such form)

Rows of one length are read together, as a matrix of bytes; nothing runs once a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

BLANK, DATE, LOCAL, INSTANT, COARSE, OTHER = range(6)
"""What a text is: `BLANK` for null too; `OTHER` is no date that exists."""

_LONGEST: Final = 48
"""Bytes of the longest form read; it leaves room for a fraction of 20 digits."""
_BLOCK: Final = 1 << 15
"""Rows read at a time: the columns of the matrix stay in cache."""
_DAY: Final = 86_400
_MINUTE_END: Final = 16
_SECOND_END: Final = 19
_OFFSET_HOURS: Final = 15
"""PostgreSQL's widest offset is 15:59; the XSD's is 14:00."""


@dataclass(frozen=True)
class Written:
    """What each text says.

    `kind`: uint8, one of the constants above. `value`: int64, days since 1970 of a `DATE`, seconds since
    1970 of an `INSTANT` (of UTC) or a `LOCAL` (of the local clock).
    """

    kind: np.ndarray
    value: np.ndarray


def read(text: pa.Array) -> Written:
    """What each text of a `string` array says; surrounding white space is ignored."""
    written = _read(text)
    odd = np.flatnonzero(written.kind == OTHER)
    if len(odd):
        trimmed = pc.ascii_trim_whitespace(text.take(pa.array(odd)))
        mended = _read(trimmed)
        written.kind[odd] = mended.kind
        written.value[odd] = mended.value
    return written


def _read(text: pa.Array) -> Written:
    rows = len(text)
    kind = np.full(rows, OTHER, np.uint8)
    value = np.zeros(rows, np.int64)
    if rows == 0:
        return Written(kind, value)
    _, offset_buffer, data_buffer = text.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[text.offset : text.offset + rows + 1]
    data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.empty(0, np.uint8)
    for begin in range(0, rows, _BLOCK):
        stop = min(begin + _BLOCK, rows)
        starts = offsets[begin:stop]
        lengths = np.minimum(offsets[begin + 1 : stop + 1] - starts, _LONGEST + 1)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            at = np.flatnonzero(lengths == length)
            if length == 0:
                kind[begin + at] = BLANK
            elif length in (4, 7) or 10 <= length <= _LONGEST:
                if len(at) == stop - begin:
                    first = int(starts[0])
                    matrix = data[first : first + len(at) * length].reshape(len(at), length)
                else:
                    texts = np.ndarray((len(data) - length + 1,), np.dtype((np.void, length)), data, strides=(1,))
                    matrix = texts[starts[at]].view(np.uint8).reshape(len(at), length)
                kind[begin + at], value[begin + at] = _same_length(matrix)
    if text.null_count:
        kind[pc.is_null(text).to_numpy(zero_copy_only=False)] = BLANK
    return Written(kind, value)


def _same_length(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kinds and values of texts that have the same length, one a line of the matrix of bytes."""
    length = matrix.shape[1]
    if length in (4, 7):
        ok = _digits(matrix, range(4))
        if length == 7:
            month, good = _two(matrix, 5)
            ok &= good & (matrix[:, 4] == ord("-")) & (month >= 1) & (month <= 12)
        return np.where(ok, COARSE, OTHER).astype(np.uint8), np.zeros(len(matrix), np.int64)
    days, ok = _days(matrix)
    if length == 10:
        return np.where(ok, DATE, OTHER).astype(np.uint8), days
    kind = np.full(len(matrix), OTHER, np.uint8)
    if length < _MINUTE_END:
        return kind, days
    value = days * _DAY
    zones = _zone_forms(matrix)
    for zone in np.flatnonzero(np.bincount(zones)):
        at = slice(None) if (zones == zone).all() else np.flatnonzero(zones == zone)
        seconds, good = _clock(matrix[at], int(zone))
        value[at] += seconds
        kind[at] = np.where(ok[at] & good, INSTANT if zone else LOCAL, OTHER)
    return kind, value


_ZULU, _NAMED, _COLON, _PLAIN, _HOURS = 1, 2, 3, 4, 5
_SPACED: Final = 8
_SIGNS: Final = np.frombuffer(b"+-", np.uint8)
_WIDTH: Final = {0: 0, _ZULU: 1, _NAMED: 3, _COLON: 6, _PLAIN: 5, _HOURS: 3}
"""Bytes of each form of zone: none, Z, UTC, +hh:mm, +hhmm, +hh."""


def _zone_forms(matrix: np.ndarray) -> np.ndarray:
    """How each text names its zone; `_SPACED` is added where a space precedes it."""
    rows, length = matrix.shape
    form = np.zeros(rows, np.uint8)

    def byte(back: int) -> np.ndarray:
        return np.asarray(matrix[:, length - back])

    def sign(back: int) -> np.ndarray:
        return np.isin(byte(back), _SIGNS)

    if length >= _MINUTE_END + 3:
        form[sign(3)] = _HOURS
        last = [byte(back) & 0xDF for back in (3, 2, 1)]  # upper case
        named = np.zeros(rows, bool)
        for word in (b"UTC", b"GMT"):
            named |= (last[0] == word[0]) & (last[1] == word[1]) & (last[2] == word[2])
        form[named] = _NAMED
    if length >= _MINUTE_END + 5:
        form[sign(5)] = _PLAIN
    if length >= _MINUTE_END + 6:
        form[sign(6) & (byte(3) == ord(":"))] = _COLON
    if length > _MINUTE_END:
        form[(byte(1) & 0xDF) == ord("Z")] = _ZULU
    for zone, width in _WIDTH.items():
        if zone and length > _MINUTE_END + width:
            form[(form == zone) & (byte(width + 1) == ord(" "))] += _SPACED
    return form


def _clock(matrix: np.ndarray, zone: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds from the text's midnight, the offset taken off, and where the clock is a real one."""
    form = zone & ~_SPACED
    offset_at = matrix.shape[1] - _WIDTH[form]
    end = offset_at - bool(zone & _SPACED)
    separator = matrix[:, 10]
    ok = (separator == ord("T")) | (separator == ord(" ")) | (separator == ord("t"))
    hour, good = _two(matrix, 11)
    ok &= good & (hour < 24)
    minute, good = _two(matrix, 14)
    ok &= good & (minute < 60) & (matrix[:, 13] == ord(":"))
    seconds = hour.astype(np.int64) * 3600 + minute.astype(np.int64) * 60
    if end in (17, 18, 20):
        ok[:] = False
    elif end >= _SECOND_END:
        second, good = _two(matrix, 17)
        ok &= good & (second < 60) & (matrix[:, 16] == ord(":"))
        seconds += second
        if end > _SECOND_END:
            ok &= (matrix[:, 19] == ord(".")) | (matrix[:, 19] == ord(","))
            ok &= _digits(matrix, range(20, end))
    if form in (_COLON, _PLAIN, _HOURS):
        hours, good = _two(matrix, offset_at + 1)
        ok &= good & (hours <= _OFFSET_HOURS)
        offset = hours.astype(np.int64) * 3600
        if form != _HOURS:
            minutes, good = _two(matrix, offset_at + (4 if form == _COLON else 3))
            ok &= good & (minutes < 60)
            offset += minutes.astype(np.int64) * 60
        seconds -= np.where(matrix[:, offset_at] == ord("-"), -offset, offset)
    return seconds, ok


def _days(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970 of the YYYY-MM-DD that each text begins with, and where that day exists."""
    century, ok = _two(matrix, 0)
    years, good = _two(matrix, 2)
    ok &= good
    month, good = _two(matrix, 5)
    ok &= good & (month >= 1) & (month <= 12)
    day, good = _two(matrix, 8)
    ok &= good & (matrix[:, 4] == ord("-")) & (matrix[:, 7] == ord("-"))
    months = (century.astype(np.int32) * 100 + years) * 12 + month - 1
    months[~ok] = 0
    first = _month_starts()
    start = first[months]
    ok &= (day >= 1) & (day <= first[months + 1] - start) & (months >= 12)  # there is no year 0
    return start.astype(np.int64) + day - 1, ok


@cache
def _month_starts() -> np.ndarray:
    """Days since 1970 of the first of each month of the years 0 to 9999, and the one after: int32."""
    return np.arange("0000-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int32)


def _two(matrix: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
    """The two-digit number at a place of each text, and where it is one."""
    tens = matrix[:, at] - np.uint8(ord("0"))
    ones = matrix[:, at + 1] - np.uint8(ord("0"))
    ok = (tens < 10) & (ones < 10)
    return tens * np.uint8(10) + ones, ok


def _digits(matrix: np.ndarray, places: range) -> np.ndarray:
    """Where the bytes at all these places are digits."""
    ok = np.ones(len(matrix), bool)
    for at in places:
        ok &= (matrix[:, at] - np.uint8(ord("0"))) < 10
    return ok
