"""Convert dates in a `strptime` format to ISO 8601 text, whole columns at a time.

`dates` then reads the text and checks that the day exists.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..settings.date_format import MAIL, SHORT_MONTHS, ZONES, pattern

_EXCEL_EPOCH: Final = -25_569
"""Days from 1970-01-01 to 1899-12-30, which makes all serial numbers from 1 March 1900 correct."""
_CENTURY: Final = 69
"""First two-digit year of the twentieth century (POSIX)."""


def iso(texts: pa.Array, form: str) -> pa.Array:
    """Return text of this format as ISO 8601 (`2026-01-02`, `2026-01-02T03:04:05+01:00`), and other text unchanged."""
    found = pc.extract_regex(texts, pattern(form))
    fields = {child.name: found.field(at) for at, child in enumerate(found.type)}
    if found.null_count:
        fields = {name: pc.if_else(found.is_valid(), value, None) for name, value in fields.items()}
    made = pc.binary_join_element_wise(_year(fields), _month(fields), _two(fields["day"]), "-")
    if "hour" in fields or "half_hour" in fields:
        clock = pc.binary_join_element_wise(
            _hour(fields), _two(fields.get("minute", "00")), _two(fields.get("second", "00")), ":"
        )
        made = pc.binary_join_element_wise(made, clock, "T")
        if "offset" in fields:
            made = pc.binary_join_element_wise(made, _zone(fields["offset"]), "")
    return pc.coalesce(made, texts)


def of_mail(text: str) -> str | None:
    """Return the format of a mail or feed date (RFC 822), or None if it isn't one."""
    return next((form for form in MAIL if re.match(pattern(form), text)), None)


def _zone(offset: pa.Array) -> pa.Array:
    """Return offsets in ISO 8601 notation. RFC 822 defines the named zones."""
    zone = pc.utf8_upper(offset)
    at = pc.index_in(zone, value_set=pa.array(ZONES))
    return pc.coalesce(pa.array(ZONES.values()).take(at), zone)


def _two(digits: pa.Array | str) -> pa.Array | str:
    return digits if isinstance(digits, str) else pc.utf8_lpad(digits, width=2, padding="0")


def _year(fields: dict[str, pa.Array]) -> pa.Array:
    if "year" in fields:
        return fields["year"]
    short = fields["short_year"]
    century = pc.if_else(pc.less(pc.cast(short, pa.int8()), _CENTURY), "20", "19")
    return pc.binary_join_element_wise(century, short, "")


def _month(fields: dict[str, pa.Array]) -> pa.Array:
    if "month" in fields:
        return _two(fields["month"])
    name = pc.ascii_lower(pc.utf8_slice_codeunits(fields["month_name"], 0, 3))
    number = pc.index_in(name, value_set=pa.array(SHORT_MONTHS))
    return _two(pc.cast(pc.add(number, 1), pa.string()))


def _hour(fields: dict[str, pa.Array]) -> pa.Array:
    if "hour" in fields:
        return _two(fields["hour"])
    hour = pc.cast(fields["half_hour"], pa.int8())
    afternoon = pc.equal(pc.ascii_lower(fields["half"]), "p")
    # Twelve o'clock is the first hour of each half. Hours above 12 are invalid.
    counted = pc.add(pc.if_else(pc.equal(hour, 12), 0, hour), pc.if_else(afternoon, 12, 0))
    return _two(pc.cast(pc.if_else(pc.and_(pc.greater(hour, 0), pc.less_equal(hour, 12)), counted, 99), pa.string()))


def serials(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Convert serial numbers (float64) to dates.

    Returns days since 1970 and seconds of the day (int64 each), and a mask of valid numbers.
    """
    good = np.isfinite(numbers) & (np.abs(numbers) < 2**31)
    values = np.where(good, numbers, 0.0)
    days = np.floor(values)
    seconds = np.rint((values - days) * 86_400)
    return days.astype(np.int64) + _EXCEL_EPOCH, seconds.astype(np.int64), good
