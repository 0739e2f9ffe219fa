"""Convert timestamps between Arrow's units and to text, without overflow or wrong values.

Arrow's own conversions fail, or wrap if they are unsafe, and write years of at most five digits. Here a value that the
target can't represent becomes the end of its range, and its text shows that.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from sitemap_etl.arrow import mask_of, numbers_of
from sitemap_etl.dates import DAY, UNITS

FIRST: Final = -(2**63)
LAST: Final = 2**63 - 1
"""Ends of int64, which PostgreSQL and DuckDB use for infinity."""
YEAR_1: Final = -62_135_596_800
YEAR_10000: Final = 253_402_300_800
"""Seconds from 1970 to the beginning of these years."""
FIRST_DAY: Final = -(2**31)
LAST_DAY: Final = 2**31 - 1
"""Ends of int32, which represent infinity among dates."""
_NO_DAYS: Final = 2
"""Distance from the start of int32 or int64 to values for days that don't exist in any calendar."""
_LAST_NO_DAY: Final = 99_99_99_99
_UNREADABLE: Final = "<value out of range"
"""Beginning of Arrow's text for a value that it can't write."""
_ERA_DAYS: Final = 146_097
"""Days of 400 years, after which the calendar repeats."""
_FROM_MARCH_0: Final = 719_468
"""Days from 0000-03-01 to 1970-01-01."""


def in_unit(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return timestamps in the unit and zone of `kind`, floored. Values outside the range become the ends of int64.

    `column`: timestamps of any unit.
    """
    if column.type.unit == kind.unit:
        return column.cast(kind)
    there, here = UNITS[column.type.unit], UNITS[kind.unit]
    values = numbers_of(column.view(pa.int64()))
    beyond_first, beyond_last = values == FIRST, values == LAST
    if there > here:
        made = np.floor_divide(values, there // here)
    else:
        times = here // there
        beyond_first |= values < -(LAST // times)
        beyond_last |= values > LAST // times
        made = np.where(beyond_first | beyond_last, 0, values) * times
    made[beyond_first], made[beyond_last] = FIRST, LAST
    missing = mask_of(pc.is_null(column)) if column.null_count else None
    return pa.array(made, pa.int64(), mask=missing).view(kind)


def in_calendar(column: pa.Array) -> pa.Array:
    """Return the column with nulls instead of dates and timestamps outside the years 1 to 9999.

    Columns of other types are returned unchanged.
    """
    if pt.is_date32(column.type):
        return _within(column, YEAR_1 // DAY, YEAR_10000 // DAY - 1, pa.int32())
    if pt.is_timestamp(column.type):
        units = UNITS[column.type.unit]
        # The ends of int64 mean infinity, even for nanoseconds, whose range ends earlier.
        return _within(column, max(YEAR_1 * units, FIRST + 1), min(YEAR_10000 * units - 1, LAST - 1), pa.int64())
    return column


def no_days(written: NDArray[np.int64], *, dates: bool) -> NDArray[np.int64]:
    """Return values for days that don't exist in any calendar, such as 0000-00-00. `spelled` converts them back.

    `written`: the digits of each as one number, YYYYMMDD. `dates`: return `date32` instead of `timestamp[us]`. The
    values are before every time that is published, and before every time that PostgreSQL and MySQL store.
    """
    return (FIRST_DAY if dates else FIRST) + _NO_DAYS + written


def spelled(values: pa.Array) -> pa.Array:
    """Return dates and timestamps as text, `2600-01-01 00:00:00.000000`, with as many digits as the year needs.

    Values at an end of their range become `after …` or `before …`, because they mean infinity or a time outside the
    range. Values of `no_days` get their original text.
    """
    kind = values.type
    try:
        texts = values.cast(pa.string())
    except pa.ArrowInvalid:  # a zone that does not exist
        values = values.view(pa.timestamp(kind.unit, "UTC"))
        texts = values.cast(pa.string())
    if pt.is_timestamp(kind):
        raw = numbers_of(values.view(pa.int64()))
        # Arrow writes the ends as times, and writes wrong zoned times far from our calendar.
        first, last = (bound * UNITS[kind.unit] for bound in (YEAR_1, YEAR_10000))
        odd = (raw < first) | (raw >= last) | (raw == FIRST) | (raw == LAST)
    else:
        raw = numbers_of(values.view(pa.int32() if kind.bit_width == 32 else pa.int64()))
        odd = np.zeros(len(values), bool)
    odd |= mask_of(pc.starts_with(texts, _UNREADABLE))
    if values.null_count:
        odd &= ~mask_of(pc.is_null(values))
    if not odd.any():
        return texts
    mended = pa.array([_spelled(int(value), kind) for value in raw[odd]], pa.string())
    return pc.replace_with_mask(texts, pa.array(odd), mended)


def _within(column: pa.Array, first: int, last: int, storage: pa.DataType) -> pa.Array:
    raw = column.view(storage)
    bounds = pc.min_max(raw)
    if bounds["min"].as_py() is None or (bounds["min"].as_py() >= first and bounds["max"].as_py() <= last):
        return column
    inside = pc.and_(pc.greater_equal(raw, first), pc.less_equal(raw, last))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


def _spelled(value: int, kind: Any) -> str:
    if pt.is_date32(kind) or kind == pa.timestamp("us", getattr(kind, "tz", None)):
        written = value - (FIRST_DAY if pt.is_date32(kind) else FIRST) - _NO_DAYS
        if 0 <= written <= _LAST_NO_DAY:
            return f"{written // 10_000:04}-{written // 100 % 100:02}-{written % 100:02}"
    if pt.is_date32(kind) and value in (FIRST_DAY, LAST_DAY):
        return f"before {_day(value + 1)}" if value == FIRST_DAY else f"after {_day(value - 1)}"
    if pt.is_date(kind):
        return _day(value if kind.bit_width == 32 else value // (DAY * UNITS["ms"]))
    if value == FIRST:
        return f"before {_spelled(FIRST + 1, kind)}"
    if value == LAST:
        return f"after {_spelled(LAST - 1, kind)}"
    seconds, rest = divmod(value, UNITS[kind.unit])
    days, clock = divmod(seconds, DAY)
    digits = len(str(UNITS[kind.unit])) - 1
    fraction = f".{rest:0{digits}}" if digits else ""
    return f"{_day(days)} {timedelta(seconds=clock)!s:0>8}{fraction}{'Z' if kind.tz else ''}"


def _day(days: int) -> str:
    """Return the date of any number of days since 1970, in the Gregorian calendar.

    https://howardhinnant.github.io/date_algorithms.html
    """
    era, of_era = divmod(days + _FROM_MARCH_0, _ERA_DAYS)
    year_of_era = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year = year_of_era + era * 400 + (month <= 2)
    return f"{year:05}-{month:02}-{day:02}" if year < 0 else f"{year:04}-{month:02}-{day:02}"
