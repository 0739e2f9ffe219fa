"""Dates of videos and articles → the two forms that W3C Datetime and the XSDs share.

`YYYY-MM-DD` and `YYYY-MM-DDThh:mm:ssZ` (UTC). A time without a zone is read in the zone given, or not at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.extensions import texts
from sitemap_etl.extensions.nested import single

_FORM: Final = (
    r"^(?P<date>\d{4}-\d{2}-\d{2})"
    r"(?:[Tt ](?P<hour>\d{2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,]\d+)?)?"
    r" ?(?:(?P<utc>[Zz]|UTC)|(?P<sign>[+-])(?P<zh>\d{2})(?::?(?P<zm>\d{2}))?)?)?$"
)
_FIRST: Final = np.datetime64("1900-01-01", "s").astype(np.int64)
_LAST: Final = np.datetime64("9999-12-31T00:00:00", "s").astype(np.int64)
_SECONDS: Final = pa.timestamp("s")


@dataclass(frozen=True)
class Dates:
    """The dates of a column.

    `text`: string, null where there is none to publish. `seconds`: int64 since 1970 UTC, null alike; a date
    counts from its midnight in the zone given, else UTC. `is_date`: no time of day. `naive`: it has a time of
    day that no zone places; its text is null.
    """

    text: pa.Array
    seconds: pa.Array
    is_date: np.ndarray
    naive: np.ndarray


def dates(column: pa.Array | pa.ChunkedArray, timezone: str | None = None) -> Dates:
    """Dates, timestamps with and without zone, and text in W3C and common database forms.

    What is none of these, or no day of the calendar, has a null text and is not naive. Raises ValueError
    where `timezone` is no name of the time zone database.
    """
    column = single(column)
    kind = column.type
    if pa.types.is_date(kind):
        local = column.cast(pa.timestamp("ms"), safe=False).cast(_SECONDS, safe=False)
        return _placed(local, np.ones(len(column), bool), None, timezone)
    if pa.types.is_timestamp(kind):
        seconds = pc.floor_temporal(column, unit="second").cast(pa.timestamp("s", kind.tz), safe=False)
        local = seconds.cast(pa.int64()).cast(_SECONDS)
        offsets = np.zeros(len(column), np.int64) if kind.tz else None
        return _placed(local, np.zeros(len(column), bool), offsets, timezone)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _read(texts.cleaned(column), timezone)
    nothing = np.zeros(len(column), bool)
    return Dates(pa.nulls(len(column), pa.string()), pa.nulls(len(column), pa.int64()), nothing, nothing)


def _read(values: pa.Array, timezone: str | None) -> Dates:
    parts = pc.extract_regex(values, _FORM)

    def part(name: str) -> np.ndarray:
        digits = pc.struct_field(parts, name)
        digits = pc.if_else(pc.equal(digits, ""), "0", digits)
        found: np.ndarray = pc.fill_null(digits.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        return found

    def given(name: str) -> np.ndarray:
        mask: np.ndarray = pc.fill_null(pc.not_equal(pc.struct_field(parts, name), ""), fill_value=False).to_numpy(
            zero_copy_only=False
        )
        return mask

    date = pc.struct_field(parts, "date")
    day, valid = _days(date)
    hour, minute, second, zone_hour, zone_minute = map(part, ("hour", "minute", "second", "zh", "zm"))
    valid &= (hour < 24) & (minute < 60) & (second < 60) & (zone_hour < 15) & (zone_minute < 60)
    is_date = ~given("hour")
    minus = pc.fill_null(pc.equal(pc.struct_field(parts, "sign"), "-"), fill_value=False)
    offset = (zone_hour * 3600 + zone_minute * 60) * np.where(minus.to_numpy(zero_copy_only=False), -1, 1)
    zoned = given("utc") | given("sign")
    local = pa.array(day * 86_400 + hour * 3600 + minute * 60 + second, mask=~valid).cast(_SECONDS)
    return _placed(local, is_date, offset, timezone, zoned=zoned)


def _days(date: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Days since 1970 of texts YYYY-MM-DD, and which of them are in the calendar."""
    filled = pc.fill_null(date, "0000-00-00")
    year, month, day = (
        pc.utf8_slice_codeunits(filled, start, stop).cast(pa.int64()).to_numpy()
        for start, stop in ((0, 4), (5, 7), (8, 10))
    )
    valid = (month >= 1) & (month <= 12) & (day >= 1)
    months = ((year - 1970) * 12 + np.where(valid, month, 1) - 1).astype("M8[M]")
    begin = months.astype("M8[D]").astype(np.int64)
    valid &= day <= (months + 1).astype("M8[D]").astype(np.int64) - begin
    return begin + day - 1, valid


def _placed(
    local: pa.Array,
    is_date: np.ndarray,
    offset: np.ndarray | None,
    timezone: str | None,
    *,
    zoned: np.ndarray | None = None,
) -> Dates:
    """Wall-clock seconds → instants: by their own `offset` (seconds east) where `zoned`, else in `timezone`."""
    rows = len(local)
    if zoned is None:
        zoned = np.full(rows, offset is not None)
    valid = pc.is_valid(local).to_numpy(zero_copy_only=False)
    wall = pc.fill_null(local.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    valid &= (wall >= _FIRST) & (wall <= _LAST)
    wall = np.where(valid, wall, 0)
    instant = wall - (0 if offset is None else offset)
    unplaced = ~zoned
    if timezone is not None and unplaced.any():
        try:
            placed = pc.assume_timezone(
                pa.array(wall).cast(_SECONDS), timezone, ambiguous="earliest", nonexistent="earliest"
            )
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise ValueError(f"{timezone!r} is no time zone; write one like Europe/Berlin") from error
        instant = np.where(unplaced, placed.cast(pa.int64()).to_numpy(), instant)
    naive = valid & ~is_date & unplaced & (timezone is None)
    absent = ~valid | naive
    days = pa.array(np.floor_divide(wall, 86_400).astype(np.int32)).cast(pa.date32()).cast(pa.string())
    moments = pc.binary_join_element_wise(
        pc.replace_substring(pa.array(instant).cast(_SECONDS).cast(pa.string()), " ", "T"), "Z", ""
    )
    either = pc.if_else(pa.array(is_date), days, moments)
    text = pc.if_else(pa.array(absent), pa.scalar(None, pa.string()), either)
    return Dates(text, pa.array(instant, mask=absent), is_date & valid, naive)
