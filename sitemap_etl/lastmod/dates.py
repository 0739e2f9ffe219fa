"""The lastmod that a source's column says, as text; what can't be true is left out and counted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import ConfigError, InvalidSource
from ..frames import EXAMPLES, Tally, plain
from ..limits import LASTMOD_FIRST_YEAR
from . import forms

FUTURE: Final = "lastmod in the future"
EARLY: Final = "lastmod before 1990"
NO_DATE: Final = "lastmod not a date"
COARSE: Final = "lastmod without a day"
REASONS: Final = {
    FUTURE: "It is later than the moment the row was read, or a date later than tomorrow.",
    EARLY: "No page is older than the web: an earlier date is a default that leaked.",
    NO_DATE: "The value is no date that exists, or is in a form that is not read.",
    COARSE: "A year or a month alone is no lastmod: sitemaps know no such form, and a made-up day would be false.",
}
"""Why a row loses its lastmod, each with a sentence. The row itself stays listed."""

UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""What an epoch number can count, and how many of them make a second."""

_DAY: Final = 86_400
_YEAR_1: Final = -62_135_596_800
_YEAR_10000: Final = 253_402_300_800
_INT64: Final = 9.2e18
"""A little under the largest int64: beyond it is no date in any unit."""
_NUMBER: Final = r"^[+-]?([0-9]{1,18}|[0-8][0-9]{18}|9[01][0-9]{17})(\.[0-9]*)?$"
"""Epoch text that an int64 holds."""
_EPOCH_DIGITS: Final = 9
"""Seconds since 1970 have nine digits from 1973 on. Shorter text alone is no reason to ask for a unit."""


def from_column(
    column: pa.Array | pa.ChunkedArray,
    *,
    name: str,
    timezone: str | None = None,
    unit: str | None = None,
    read_at: datetime,
    tally: Tally,
) -> pa.Array:
    """The lastmod of each row as text (`string`), null where there is none or it can't be true.

    `column`: dates, timestamps with or without a zone, text (the forms of `forms`), or numbers (text
    of numbers too) that count `unit` since 1970. `timezone` is the zone of times that name none.
    `read_at`: the moment the rows were read, with a zone. A value later than that, before 1990, or no
    date at all becomes null and is counted in `tally` with examples as the source has them.

    Raises `InvalidSource` where a time needs a zone, a number a unit, or the type holds no dates;
    `ConfigError` where the zone or the unit does not exist.
    """
    if read_at.tzinfo is None:
        raise ValueError("read_at needs a zone")
    if unit is not None and unit not in UNITS:
        raise ConfigError(f"lastmod: unit is {unit!r}, expected one of {', '.join(UNITS)}")
    parts = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    texts = [
        _Column(part, name=name, timezone=timezone, unit=unit, read_at=read_at, tally=tally).text()
        for part in parts
        if len(part)
    ]
    if len(texts) == 1:
        return texts[0]
    return pa.concat_arrays(texts) if texts else pa.array([], pa.string())


def newest_of(columns: Sequence[pa.Array]) -> pa.Array:
    """The newest lastmod of each row, null where all are null. Takes and gives lastmod text.

    An instant is newer than the date of the same day: the date says less and is its midnight at the earliest.
    """
    if not columns:
        raise ValueError("newest_of needs at least one column")
    return pc.max_element_wise(*columns, skip_nulls=True) if len(columns) > 1 else columns[0]


class _Column:
    """One array on its way to text. Dates and instants are kept apart until they are written."""

    def __init__(
        self, array: pa.Array, *, name: str, timezone: str | None, unit: str | None, read_at: datetime, tally: Tally
    ) -> None:
        self.array = plain(array)
        self.name = name
        self.timezone = "UTC" if timezone in ("Z", "z") else timezone
        self.unit = unit
        self.tally = tally
        moment = read_at.astimezone(UTC)
        epoch = datetime(1970, 1, 1, tzinfo=UTC)
        first = datetime(LASTMOD_FIRST_YEAR, 1, 1, tzinfo=UTC)
        self.last_second = (moment - epoch) // timedelta(seconds=1)
        self.first_second = (first - epoch) // timedelta(seconds=1)
        self.last_day = self.last_second // _DAY + 1
        self.first_day = self.first_second // _DAY

    def text(self) -> pa.Array:
        kind = self.array.type
        if pa.types.is_null(kind):
            return pa.nulls(len(self.array), pa.string())
        valid = _valid(self.array)
        if pa.types.is_floating(kind):
            valid &= ~np.isnan(_numbers(self.array, pa.float64(), np.nan))  # how pandas writes a missing number
        if pa.types.is_date(kind):
            per_day = 1 if pa.types.is_date32(kind) else _DAY * UNITS["ms"]
            return self._dates(np.floor_divide(_integers(self.array).astype(np.int64), per_day), valid)
        if pa.types.is_timestamp(kind):
            seconds = np.floor_divide(_integers(self.array), UNITS[kind.unit])
            if kind.tz is None:
                seconds = self._zoned(seconds, valid)
            return self._instants(seconds, valid)
        if pa.types.is_string(kind):
            return self._written()
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            if self.unit is None and valid.any():
                self._ask_for_unit(int(np.argmax(valid)))
            seconds, good = _epoch(self.array, UNITS[self.unit or "s"])
            self._count(NO_DATE, valid & ~good)
            return self._instants(seconds, valid & good)
        raise InvalidSource(
            f"lastmod can't be read from {self.name}: it is {kind}, expected a date, a timestamp, text or a number"
        )

    def _written(self) -> pa.Array:
        """Lastmods of a column of text."""
        written = forms.read(self.array)
        kind, value = written.kind, written.value
        unread = np.flatnonzero((kind == forms.OTHER) | (kind == forms.COARSE))
        if len(unread):
            texts = pc.ascii_trim_whitespace(self.array.take(pa.array(unread)))
            numbers = pc.match_substring_regex(texts, _NUMBER).to_numpy(zero_copy_only=False)
            if self.unit is not None and numbers.any():
                at = unread[numbers]
                value[at], good = _epoch(texts.filter(pa.array(numbers)), UNITS[self.unit])
                kind[at] = np.where(good, forms.INSTANT, forms.OTHER)
            elif numbers.any() and not ((kind >= forms.DATE) & (kind <= forms.INSTANT)).any():
                lengths = pc.binary_length(texts).to_numpy(zero_copy_only=False)
                numbers &= lengths >= _EPOCH_DIGITS
                if numbers.any():
                    self._ask_for_unit(int(unread[np.argmax(numbers)]))
        local = kind == forms.LOCAL
        if local.any():
            value = self._zoned(value, local)
            kind[local] = forms.INSTANT
        self._count(NO_DATE, kind == forms.OTHER)
        self._count(COARSE, kind == forms.COARSE)
        dates, instants = kind == forms.DATE, kind == forms.INSTANT
        if not instants.any():
            return self._dates(value, dates)
        if not dates.any():
            return self._instants(value, instants)
        return pc.coalesce(self._dates(value, dates), self._instants(value, instants))

    def _zoned(self, seconds: np.ndarray, valid: np.ndarray) -> np.ndarray:
        """Seconds of UTC from seconds of the local clock, where `valid`.

        An hour that the clock shows twice is the earlier one, so that a row edited in it is never "in
        the future" of the same night. An hour that it skips is the moment of the skip.
        """
        if self.timezone is None:
            if valid.any():
                self._ask_for_zone(int(np.argmax(valid)))
            return seconds
        # Two days beyond the bounds is out of them in every zone; nearer to the end of time, zones fail.
        near = np.clip(seconds, self.first_second - 2 * _DAY, self.last_second + 2 * _DAY)
        local = pa.array(near, pa.int64()).view(pa.timestamp("s"))
        try:
            zoned = pc.assume_timezone(local, self.timezone, ambiguous="earliest", nonexistent="latest")
        except pa.ArrowInvalid as error:
            raise ConfigError(
                f"lastmod of {self.name}: there is no timezone {self.timezone!r}; expected a name like Europe/Berlin"
            ) from error
        beyond = (seconds < _YEAR_1) | (seconds >= _YEAR_10000)
        return np.where(valid & ~beyond, _integers(zoned), seconds)

    def _dates(self, days: np.ndarray, valid: np.ndarray) -> pa.Array:
        keep = self._believed(days, valid, self.first_day, self.last_day, _DAY)
        mask = None if keep.all() else ~keep
        return pa.array(days.astype(np.int32), mask=mask).view(pa.date32()).cast(pa.string())

    def _instants(self, seconds: np.ndarray, valid: np.ndarray) -> pa.Array:
        keep = self._believed(seconds, valid, self.first_second, self.last_second, 1)
        return _instant_text(seconds, keep)

    def _believed(self, values: np.ndarray, valid: np.ndarray, first: int, last: int, width: int) -> np.ndarray:
        """Where a value is valid and between the bounds; what is not is counted. `width`: seconds of a unit."""
        early, late = valid & (values < first), valid & (values > last)
        if not (early.any() or late.any()):
            return valid
        beyond = valid & ((values < _YEAR_1 // width) | (values >= _YEAR_10000 // width))
        self._count(NO_DATE, beyond)
        self._count(EARLY, early & ~beyond)
        self._count(FUTURE, late & ~beyond)
        return valid & ~early & ~late

    def _count(self, reason: str, mask: np.ndarray) -> None:
        count = int(np.count_nonzero(mask))
        if count:
            self.tally.add(reason, count, [self._shown(at) for at in np.flatnonzero(mask)[:EXAMPLES].tolist()])

    def _shown(self, at: int) -> str:
        """A value as the source has it. Arrow's own text: it also has one for times that Python can't hold."""
        return str(self.array.slice(at, 1).cast(pa.string())[0].as_py())

    def _ask_for_zone(self, at: int) -> None:
        raise InvalidSource(
            f"{self.name} holds times without a zone (e.g. {self._shown(at)}), which may be hours off."
            " Say which zone they are in:\n"
            f"  lastmod: {{column: {self.name}, timezone: Europe/Berlin}}"
        )

    def _ask_for_unit(self, at: int) -> None:
        shown = self._shown(at)
        size = abs(float(shown))
        unit = "ns" if size >= 1e17 else "us" if size >= 1e14 else "ms" if size >= 1e11 else "s"
        raise InvalidSource(
            f"{self.name} holds numbers (e.g. {shown}). Say what they count since 1970 ({', '.join(UNITS)}):\n"
            f"  lastmod: {{column: {self.name}, unit: {unit}}}"
        )


def _valid(array: pa.Array) -> np.ndarray:
    if not array.null_count:
        return np.ones(len(array), bool)
    valid: np.ndarray = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return valid


def _epoch(array: pa.Array, per_second: int) -> tuple[np.ndarray, np.ndarray]:
    """Seconds since 1970 of an array of numbers or texts of numbers, floored, and where an int64 holds them."""
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


def _integers(array: pa.Array) -> np.ndarray:
    """The integers behind an array of dates or timestamps, zero copy; what lies under a null is anything."""
    width = np.int32 if array.type.bit_width == 32 else np.int64
    return np.frombuffer(array.buffers()[1], width, count=array.offset + len(array))[array.offset :]


def _numbers(array: pa.Array, kind: pa.DataType, missing: Any) -> np.ndarray:
    """The array as numbers of `kind`, `missing` where it is null."""
    cast = pc.cast(array, kind, safe=False)
    numbers: np.ndarray = pc.fill_null(cast, pa.scalar(missing, kind)).to_numpy(zero_copy_only=False)
    return numbers


def _instant_text(seconds: np.ndarray, keep: np.ndarray) -> pa.Array:
    """YYYY-MM-DDThh:mm:ssZ of seconds since 1970 (years 1 to 9999) where `keep`, else null.

    Arrow writes times without a zone twenty times as fast as those with one or `strftime`: take its
    text, put in the T, widen each by the Z.
    """
    rows = len(seconds)
    every = bool(keep.all())
    plain = pa.array(seconds if every else seconds[keep]).view(pa.timestamp("s")).cast(pa.string())
    written = len(plain)
    wide = np.empty((written, 20), np.uint8)
    if written:
        wide[:, :19] = np.frombuffer(plain.buffers()[2], np.uint8)[: written * 19].reshape(written, 19)
        wide[:, 10] = ord("T")
        wide[:, 19] = ord("Z")
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1:] = np.arange(20, rows * 20 + 20, 20) if every else np.cumsum(keep) * 20
    validity = None if every else pa.array(keep).buffers()[1]
    return pa.Array.from_buffers(pa.string(), rows, [validity, pa.py_buffer(offsets), pa.py_buffer(wide)])
