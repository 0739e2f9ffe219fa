"""Read lastmods from a source's column. Impossible values are dropped and counted.

Until rendering, a lastmod is a *moment*: twice the seconds since 1970, plus one if it is an instant. A date counts from
its midnight. Moments sort like the published texts, and take less memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrow import joined, mask_of, numbers_of, plain, text_of
from ..dates import BLANK, COARSE, DATE, DAY, INSTANT, LOCAL, OTHER, UNITS, Written, is_dated, placed, read, text
from ..errors import ConfigError, InvalidSource
from ..frames import Tally
from ..instants import YEAR_1, YEAR_10000, spelled
from ..limits import LASTMOD_FIRST_YEAR
from ..settings.date_format import EXCEL
from .formats import iso, of_mail, serials
from .mongo import UNIT, unwrapped

FUTURE: Final = "lastmod in the future"
EARLY: Final = "lastmod before 1990"
NO_DATE: Final = "lastmod not a date"
NO_DAY: Final = "lastmod without a day"
REASONS: Final = {
    FUTURE: "The time is later than when the row was read, or the date is later than tomorrow. Check the time zone.",
    EARLY: "Dates before 1990 are placeholders such as 1970-01-01. Use NULL if the date is unknown.",
    NO_DATE: "Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ, or name the column's format.",
    NO_DAY: "A year or a month is not enough: a lastmod needs a full date.",
}
"""Reasons for dropping a lastmod, each with a sentence. The row itself stays listed."""

_INT64: Final = 9.2e18
"""A little less than the largest int64. Larger numbers are not dates in any unit."""
_NUMBER: Final = r"^[+-]?([0-9]{1,18}|[0-8][0-9]{18}|9[01][0-9]{17})(\.[0-9]*)?$"
"""Text of an epoch that fits into an int64."""
_EPOCH_DIGITS: Final = 9
"""Minimum digits of a text that looks like an epoch. Seconds since 1970 have nine digits from 1973 on."""


def moments(
    column: pa.Array | pa.ChunkedArray,
    *,
    name: str,
    timezone: str | None = None,
    unit: str | None = None,
    form: str | None = None,
    read_at: datetime,
    tally: Tally,
    loc: pa.Array | None = None,
) -> pa.Array:
    """Return the lastmod of each row as a moment (int64), null for missing and impossible values.

    `column`: dates, timestamps with or without a zone, text or bytes (as `dates` reads it), or numbers that count
    `unit` since 1970, also as text. `form`: a format for its texts and numbers (see `formats`). `timezone`: zone of
    times without one. `read_at`: time of the read, with a zone. Values later than that, before 1990, or without a valid
    date become null, and are counted in `tally` with examples. `loc`: pages to name in examples, if the column is one
    array.

    Raise InvalidSource if a time needs a zone, a number needs a unit, or the type can't hold dates; ConfigError if the
    zone or the unit doesn't exist.
    """
    if read_at.tzinfo is None:
        raise ValueError("read_at needs a zone")
    if unit is not None and unit not in UNITS:
        raise ConfigError(f"lastmod: unit: expected one of {', '.join(UNITS)}, got {unit!r}")
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    found = [
        _Column(part, name=name, timezone=timezone, unit=unit, form=form, read_at=read_at, tally=tally, loc=loc).read()
        for part in parts
        if len(part)
    ]
    return joined(found, pa.int64())


def texts(found: pa.Array) -> pa.Array:
    """Return each moment as text, YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ: string, nulls stay null."""
    there = numbers_of(found)
    kind = np.where(there & 1, np.uint8(INSTANT), np.uint8(DATE))
    if found.null_count:
        kind[~_valid(found)] = BLANK
    dated = kind != INSTANT
    value = there >> 1
    if dated.any():
        value[dated] //= DAY
    return text(kind, value)


def newest_of(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the newest moment of each row, null if all are null.

    An instant is newer than the date of the same day, because a date counts from its midnight.
    """
    if not columns:
        raise ValueError("newest_of needs at least one column")
    return pc.max_element_wise(*columns, skip_nulls=True) if len(columns) > 1 else columns[0]


def until(column: pa.Array | pa.ChunkedArray, now: str) -> pa.Array | pa.ChunkedArray:
    """Return lastmods (text) with null for those that are later than `now`, an instant as text.

    A date can be the next day's, which has already begun in other time zones.
    """
    tomorrow = (date.fromisoformat(now[:10]) + timedelta(days=1)).isoformat()
    latest = pc.if_else(pc.equal(pc.binary_length(column), len(tomorrow)), tomorrow, now)
    return pc.if_else(pc.fill_null(pc.greater(column, latest), False), pa.scalar(None, pa.string()), column)


class _Column:
    """One array on its way to moments. Dates and instants are kept apart until the end."""

    def __init__(
        self,
        array: pa.Array,
        *,
        name: str,
        timezone: str | None,
        unit: str | None,
        form: str | None,
        read_at: datetime,
        tally: Tally,
        loc: pa.Array | None,
    ) -> None:
        given = text_of(plain(array))
        inside = unwrapped(given)
        self.array = given if inside is None else inside
        self.name = name
        self.timezone = timezone
        self.unit = UNIT if unit is None and inside is not None else unit
        self.form = form
        self.tally = tally
        self.loc = loc
        self.advice = self._advice()
        moment = read_at.astimezone(UTC)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        first = datetime(LASTMOD_FIRST_YEAR, 1, 1, tzinfo=UTC)
        self.last_second = (moment - epoch) // timedelta(seconds=1)
        self.first_second = (first - epoch) // timedelta(seconds=1)

    def read(self) -> pa.Array:
        kind = self.array.type
        if pa.types.is_null(kind):
            return pa.nulls(len(self.array), pa.int64())
        numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
        if self.form is not None and (numeric or pa.types.is_string(kind)):
            written = self._serial() if self.form == EXCEL else read(iso(self.array.cast(pa.string()), self.form))
        elif is_dated(kind):
            written = read(self.array)
            if pa.types.is_string(kind):
                self._read_numbers(written)
                self._advise_on_mail(written)
        elif numeric:
            written = self._counted()
        else:
            raise InvalidSource(
                f"lastmod can't be read from {self.name}: its type is {kind}, expected a date, a timestamp, text "
                "or a number"
            )
        local = written.kind == LOCAL
        if local.any():
            written.value[local] = self._zoned(written.value, local)[local]
            written.kind[local] = INSTANT
        self._count(NO_DATE, written.kind == OTHER, self.advice)
        self._count(NO_DAY, written.kind == COARSE)
        last_day = self.last_second // DAY + 1
        self._disbelieve(written, DATE, self.first_second // DAY, last_day, DAY)
        self._disbelieve(written, INSTANT, self.first_second, self.last_second, 1)
        is_instant = written.kind == INSTANT
        there = is_instant | (written.kind == DATE)
        return pa.array(2 * written.seconds + is_instant, mask=None if there.all() else ~there)

    def _serial(self) -> Written:
        """Read a column of spreadsheet serial numbers, as numbers or text. Other text is read as usual."""
        numbers = self.array
        written = Written(*(np.zeros(len(numbers), kind) for kind in (np.uint8, np.int64, np.uint8)))
        if pa.types.is_string(numbers.type):
            written = read(numbers)
            texts = pc.ascii_trim_whitespace(numbers)
            numbers = pc.if_else(pc.match_substring_regex(texts, _NUMBER), texts, None)
        reals = _numbers(numbers, pa.float64(), np.nan)
        days, seconds, good = serials(reals)
        valid, timed = _valid(numbers) & ~np.isnan(reals), seconds > 0  # pandas writes NaN for a missing number
        kind = np.where(good, np.where(timed, np.uint8(LOCAL), np.uint8(DATE)), np.uint8(OTHER))
        written.kind[valid] = kind[valid]
        written.value[valid] = np.where(timed, days * DAY + seconds, days)[valid]
        return written

    def _counted(self) -> Written:
        """Read a column of numbers."""
        valid = _valid(self.array)
        if pa.types.is_floating(self.array.type):
            valid &= ~np.isnan(_numbers(self.array, pa.float64(), np.nan))  # pandas writes NaN for a missing number
        if self.unit is None and valid.any():
            self._ask_for_unit(int(np.argmax(valid)))
        seconds, good = _epoch(self.array, UNITS[self.unit or "s"])
        kind = np.where(valid, np.where(good, np.uint8(INSTANT), np.uint8(OTHER)), np.uint8(BLANK))
        return Written(kind, seconds, np.zeros(len(kind), np.uint8))

    def _read_numbers(self, written: Written) -> None:
        """Read the numbers in a column of text."""
        unread = np.flatnonzero((written.kind == OTHER) | (written.kind == COARSE))
        if not len(unread):
            return
        texts = pc.ascii_trim_whitespace(self.array.take(pa.array(unread)))
        numbers = mask_of(pc.match_substring_regex(texts, _NUMBER))
        if self.unit is not None and numbers.any():
            at = unread[numbers]
            written.value[at], good = _epoch(texts.filter(pa.array(numbers)), UNITS[self.unit])
            written.kind[at] = np.where(good, np.uint8(INSTANT), np.uint8(OTHER))
            return
        numbers &= numbers_of(pc.binary_length(texts)) >= _EPOCH_DIGITS
        if numbers.any():
            at = int(unread[np.argmax(numbers)])
            if not ((written.kind >= DATE) & (written.kind <= INSTANT)).any():
                self._ask_for_unit(at)
            self.advice = f"Some are numbers: set their unit since 1970, such as {self._with_unit(at)}."

    def _advise_on_mail(self, written: Written) -> None:
        """Name the format of mail and feed dates in the advice, if the first unread text is one."""
        unread = written.kind == OTHER
        form = of_mail(self._shown(int(np.argmax(unread)))) if unread.any() else None
        if form is not None:
            rule = f"lastmod: {{column: {self.name}, format: '{form}'}}"
            self.advice = f"Some are dates of mails and feeds: name their format, {rule}."

    def _zoned(self, seconds: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Convert local seconds to UTC seconds at `valid`. Values outside the calendar need no zone."""
        beyond = (seconds < YEAR_1) | (seconds >= YEAR_10000)
        local = valid & ~beyond
        if not local.any():
            return seconds
        if self.timezone is None:
            self._ask_for_zone(int(np.argmax(local)))
        # Two days outside the bounds is outside in every zone. Zone arithmetic fails near the ends of the calendar.
        near = np.clip(seconds, self.first_second - 2 * DAY, self.last_second + 2 * DAY)
        try:
            zoned = placed(near, str(self.timezone))
        except ValueError as error:
            raise ConfigError(f"lastmod of {self.name}: {error}") from error
        return np.where(beyond, seconds, zoned)

    def _disbelieve(self, written: Written, kind: int, first: int, last: int, width: int) -> None:
        """Drop and count values outside the bounds. `width`: seconds per unit of `value`."""
        mine = written.kind == kind
        if not mine.any():
            return
        early, late = mine & (written.value < first), mine & (written.value > last)
        if not (early.any() or late.any()):
            return
        beyond = mine & ((written.value < YEAR_1 // width) | (written.value >= YEAR_10000 // width))
        self._count(NO_DATE, beyond)
        self._count(EARLY, early & ~beyond)
        self._count(FUTURE, late & ~beyond)
        written.kind[early | late] = OTHER

    def _count(self, reason: str, mask: np.ndarray, advice: str = "") -> None:
        self.tally.add_rows(reason, mask, self._shown, self.loc, advice)

    def _advice(self) -> str:
        """Return advice for unreadable dates, with an example of a rule. Only the user knows the right format."""
        wrong = "correct its format" if self.form else "name its format"
        zone = self.timezone or "Europe/Berlin"
        rule = f"lastmod: {{column: {self.name}, format: '%d.%m.%Y %H:%M', timezone: {zone}}}"
        return f"Write YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ, or {wrong}, such as {rule}."

    def _shown(self, at: int) -> str:
        """Return a value as the source has it, even a time that Python can't represent."""
        value = self.array.slice(at, 1)
        timed = pa.types.is_timestamp(value.type) or pa.types.is_date(value.type)
        return str((spelled(value) if timed else value.cast(pa.string()))[0].as_py())

    def _ask_for_zone(self, at: int) -> None:
        raise InvalidSource(
            f"{self.name} has times without a zone (e.g. {self._shown(at)}), which could be off by hours."
            " Set their time zone:\n"
            f"  lastmod: {{column: {self.name}, timezone: Europe/Berlin}}"
        )

    def _ask_for_unit(self, at: int) -> None:
        raise InvalidSource(
            f"{self.name} has numbers (e.g. {self._shown(at)}). Set their unit since 1970 ({', '.join(UNITS)}):\n"
            f"  {self._with_unit(at)}"
        )

    def _with_unit(self, at: int) -> str:
        """Return the line to add, with the unit that fits the size of a number."""
        size = abs(float(self._shown(at)))
        unit = "ns" if size >= 1e17 else "us" if size >= 1e14 else "ms" if size >= 1e11 else "s"
        return f"lastmod: {{column: {self.name}, unit: {unit}}}"


def _valid(array: pa.Array) -> np.ndarray:
    return mask_of(pc.is_valid(array)) if array.null_count else np.ones(len(array), bool)


def _epoch(array: pa.Array, per_second: int) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds since 1970 of numbers or their texts, floored, and a mask of values that fit into an int64."""
    kind = array.type
    good = np.ones(len(array), bool)
    if pa.types.is_floating(kind):
        reals = _numbers(array, pa.float64(), np.nan)
        good = np.abs(reals) < _INT64  # false for NaN
        return np.floor_divide(np.where(good, reals, 0.0), float(per_second)).astype(np.int64), good
    if pa.types.is_string(kind):
        array = pc.replace_substring_regex(array, r"^\+|\..*$", "").cast(pa.int64())
    elif pa.types.is_decimal(kind):
        good = np.abs(_numbers(array, pa.float64(), np.nan)) < _INT64
        array = pc.if_else(pa.array(good), pc.floor(array), None).cast(pa.int64())
    elif pa.types.is_uint64(kind):
        good = _numbers(array, kind, 0) < np.uint64(_INT64)
    return np.floor_divide(_numbers(array, pa.int64(), 0), per_second), good


def _numbers(array: pa.Array, kind: pa.DataType, missing: Any) -> np.ndarray:
    """Return the array as numbers of `kind`, with `missing` for nulls."""
    return numbers_of(pc.cast(array, kind, safe=False), missing)
