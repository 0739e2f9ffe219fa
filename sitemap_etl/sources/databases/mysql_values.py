"""Values of MySQL's text protocol as Arrow arrays, whole columns at a time.

docs/reference/databases.md describes the conversion of types. Zero dates ('0000-00-00', '2026-01-00') and dates that
don't exist in the calendar become values of `instants.no_days`.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.types as pt
from numpy.typing import NDArray

from sitemap_etl.arrow import over, windows
from sitemap_etl.instants import no_days
from sitemap_etl.sources.databases.mysql_packets import Values

_BINARY: Final = 63
"""Number of the character set `binary`."""
_UNSIGNED: Final = 32
_DAY_MICROSECONDS: Final = 86_400_000_000
_DIGITS: Final = 38
"""Digits of a decimal128."""


def arrow_type(field: Any) -> pa.DataType:
    """Return the type of a column from PyMySQL's `FieldDescriptorPacket`."""
    from pymysql.constants import FIELD_TYPE as TYPE

    code, unsigned = field.type_code, bool(field.flags & _UNSIGNED)
    if code in {TYPE.DECIMAL, TYPE.NEWDECIMAL}:
        # Its length includes the point and, unless unsigned, the sign.
        digits = field.length - (field.scale > 0) - (not unsigned)
        return pa.decimal128(_DIGITS, field.scale) if digits <= _DIGITS else pa.decimal256(76, field.scale)
    if (code == TYPE.LONGLONG and unsigned) or (code == TYPE.BIT and field.length == 64):
        return pa.uint64()
    if code in {TYPE.TINY, TYPE.SHORT, TYPE.INT24, TYPE.LONG, TYPE.LONGLONG, TYPE.YEAR, TYPE.BIT}:
        return pa.int64()
    known: dict[int, pa.DataType] = {
        TYPE.FLOAT: pa.float64(),
        TYPE.DOUBLE: pa.float64(),
        TYPE.DATE: pa.date32(),
        TYPE.NEWDATE: pa.date32(),
        TYPE.DATETIME: pa.timestamp("us"),
        TYPE.TIMESTAMP: pa.timestamp("us", "UTC"),
        TYPE.TIME: pa.duration("us"),
        TYPE.NULL: pa.string(),
        TYPE.JSON: pa.string(),  # the protocol reports it as binary
    }
    binary = field.charsetnr == _BINARY and field.length > 0  # length 0: the NULL of a UNION
    return known.get(code) or (pa.binary() if binary else pa.string())


def array(values: Values, field: Any, kind: pa.DataType) -> pa.Array:
    """Return a column in its `arrow_type`. Raises `pa.ArrowInvalid` if a value doesn't fit."""
    from pymysql.constants import FIELD_TYPE as TYPE

    if pt.is_date32(kind):
        days, wrong, written = _days(values)
        days[wrong] = no_days(written, dates=True)
        return pa.array(days.astype(np.int32), pa.int32(), mask=values.null).view(kind)
    if pt.is_timestamp(kind):
        days, wrong, written = _days(values)
        moments = days * _DAY_MICROSECONDS + _clock(values, 11, 2)
        moments[wrong] = no_days(written, dates=False)
        return pa.array(moments, pa.int64(), mask=values.null).view(kind)
    if pt.is_duration(kind):
        return pa.array(_span(values), pa.int64(), mask=values.null).view(kind)
    if field.type_code == TYPE.BIT:
        return pa.array(_bits(values), kind, mask=values.null)
    if pt.is_string(kind) or pt.is_binary(kind):
        return _text(values, kind)
    return _text(values, pa.string()).cast(kind)


def _text(values: Values, kind: pa.DataType) -> pa.Array:
    """Return the values as text or bytes. They are selected from an array over the values and the gaps between them."""
    rows = len(values.starts)
    ends = np.empty(2 * rows, np.int32)
    ends[0::2] = values.starts
    ends[1::2] = values.starts + values.lengths
    return over(kind, ends, values.data).take(pa.array(np.arange(0, 2 * rows, 2), mask=values.null))


def _characters(values: Values, first: int, count: int) -> NDArray[np.int64]:
    """Return some characters of each value as digits, 0 after its end: an array (count, rows)."""
    at = values.starts + first
    taken = windows(values.data, f"V{count}")[at].view(np.uint8).reshape(len(at), count)
    digits: NDArray[np.int64] = taken.T.astype(np.int64) - ord("0")
    if int(values.lengths.min()) < first + count:
        digits[np.arange(first, first + count)[:, None] >= values.lengths] = 0
    return digits


def _number(digits: NDArray[np.int64]) -> NDArray[np.int64]:
    found: NDArray[np.int64] = digits[0]
    for digit in digits[1:]:
        found = found * 10 + digit
    return found


def _days(values: Values) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Return days since 1970 of texts that begin with `YYYY-MM-DD`, a mask of invalid days, and their YYYYMMDD.

    Invalid days don't exist in the calendar. Nulls are not invalid, and have arbitrary numbers.
    """
    digits = _characters(values, 0, 10)
    year, month, day = _number(digits[0:4]), _number(digits[5:7]), _number(digits[8:10])
    months = (year - 1970) * 12 + month - 1
    first = months.astype("M8[M]")
    days: NDArray[np.int64] = first.astype("M8[D]").astype(np.int64) + day - 1
    same = days.astype("M8[D]").astype("M8[M]") == first
    wrong = ~(same & (year > 0) & (month > 0) & (month < 13) & (day > 0))
    if values.null is not None:
        wrong &= ~values.null
    return days, wrong, (year[wrong] * 100 + month[wrong]) * 100 + day[wrong]


def _clock(values: Values, first: int, hour_digits: int) -> NDArray[np.int64]:
    """Return microseconds of `HH:MM:SS[.ffffff]`, which begins at character `first`."""
    digits = _characters(values, first, hour_digits + 13)
    hours, rest = _number(digits[:hour_digits]), digits[hour_digits:]
    seconds = (hours * 60 + _number(rest[1:3])) * 60 + _number(rest[4:6])
    return seconds * 1_000_000 + _number(rest[7:13])


def _span(values: Values) -> NDArray[np.int64]:
    """Return microseconds of `[-]HH:MM:SS[.ffffff]` with two or three digits of hours."""
    negative = (values.lengths > 0) & (values.data[np.minimum(values.starts, len(values.data) - 1)] == ord("-"))
    plain = Values(values.data, values.starts + negative, values.lengths - negative, values.null)
    colon = ord(":") - ord("0")
    spans = np.where(_characters(plain, 2, 1)[0] == colon, _clock(plain, 0, 2), _clock(plain, 0, 3))
    return np.where(negative, -spans, spans)


def _bits(values: Values) -> NDArray[np.uint64]:
    """Return the numbers of up to eight bytes, highest first."""
    found = np.zeros(len(values.starts), np.uint64)
    for byte in range(8):
        held = values.lengths > byte
        at = np.minimum(values.starts + byte, len(values.data) - 1)
        found = np.where(held, (found << np.uint64(8)) | values.data[at], found)
    return found
