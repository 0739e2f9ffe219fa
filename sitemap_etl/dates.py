"""Dates and times as text, and text as dates and times: one grammar for whole columns.

    written                          W3C  XSD  3339  databases   meaning
    2026-01-02                        x    x          x          a date
    2026-01-02T03:04:05Z              x    x    x     x          an instant; also ±hh:mm (XSD: to 14:00), and a
                                                                 fraction of any length
    2026-01-02T03:04Z                 x               x          an instant, to the minute
    2026-01-02t03:04:05z                        x     x          an instant
    2026-01-02 03:04:05+01                            x          an instant; also ±hhmm, UTC, GMT, a space before the
                                                                 offset, a comma before the fraction, offsets to 15:59
    2026-01-02T03:04:05                    x          x          a local time, which needs a time zone
    2026-01-02 03:04:05                               x          a local time; seconds are optional
    2026-01-02T24:00:00Z                   x                     an instant: midnight at the end of the day
    2026-01-02Z                            x                     a date; the offset is ignored
    2026, 2026-01                     x                          too coarse: no day
    Fri, 02 Jan 2026 03:04:05 GMT                                an instant by RFC 822, if accepted

W3C: https://www.w3.org/TR/NOTE-datetime. XSD: `xsd:date` and `xsd:dateTime`, which the protocol's schemas use. 3339:
RFC 3339, which Atom uses. Databases: output of PostgreSQL, MySQL, SQLite, SQL Server, DuckDB, Java and Ruby, which
includes the common subset of W3C, XSD and RFC 3339. RFC 822 is used by RSS. Surrounding whitespace doesn't count.

Values of a source are read in the forms of databases, whatever the column is for. Values of a sitemap are judged by the
standard of its readers: `Written.forms`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, data_of, mask_of, offsets_of, over, windows
from sitemap_etl.frozen import Frozen

BLANK, DATE, LOCAL, INSTANT, COARSE, OTHER = range(6)
"""Kinds of texts. `BLANK` includes null, `COARSE` has no day, `OTHER` is not a date that exists."""
W3C, XSD, RFC3339, RFC822, DATABASES = (1 << bit for bit in range(5))
"""Standards that accept a text as a date: bits of `Written.forms`."""

DAY: Final = 86_400
"""Seconds of a day."""
UNITS: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
"""Number of each unit in a second."""

_LONGEST: Final = 48
"""Bytes of the longest form that is read. Allows a fraction of 20 digits."""
_BLOCK: Final = 1 << 15
"""Rows read or written at a time, so that temporaries stay in cache."""
_INSTANT: Final = np.dtype([("month", "u8"), ("day", "u2"), ("minute", "u8"), ("second", "u2")])
"""YYYY-MM-DDThh:mm:ssZ in four words: YYYY-MM-, DD, Thh:mm:s and sZ."""
_DAY_END: Final = 10
_MINUTE_END: Final = 16
_SECOND_END: Final = 19
_OFFSET_HOURS: Final = 15
"""Hours of PostgreSQL's largest offset, 15:59."""
_XSD_OFFSET: Final = 14 * 3600


def instant(moment: datetime) -> str:
    """Return the text YYYY-MM-DDThh:mm:ssZ of a time."""
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


class Written(Frozen):
    """Meaning of each value of a column.

    `kind`: uint8, one of the constants above. `value`: int64, days since 1970 of a `DATE`, seconds since 1970 of an
    `INSTANT` (UTC) or a `LOCAL` (local clock). `forms`: uint8, bits of the standards that accept the text.
    """

    kind: np.ndarray
    value: np.ndarray
    forms: np.ndarray

    @property
    def seconds(self) -> np.ndarray:
        """Seconds since 1970 for kinds with a `value`. A date counts from its midnight."""
        return np.where(self.kind == DATE, self.value * DAY, self.value)


def is_dated(kind: pa.DataType) -> bool:
    """Return True if `read` accepts the type."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_string(kind))


def read(column: pa.Array, accepted: int = DATABASES) -> Written:
    """Read the dates of a column. `accepted`: bits of the accepted standards.

    Texts in other forms are `OTHER`, or `COARSE` without a day. `column`: `string`, a date or a timestamp. Native dates
    and times are used unchanged, even outside our calendar, and count as every form.
    """
    if pa.types.is_string(column.type):
        return _texts(column, accepted)
    if pa.types.is_date(column.type):
        kind, per = DATE, 1 if pa.types.is_date32(column.type) else DAY * UNITS["ms"]
    else:
        kind, per = LOCAL if column.type.tz is None else INSTANT, UNITS[column.type.unit]
    kinds = np.full(len(column), kind, np.uint8)
    if column.null_count:
        kinds[mask_of(pc.is_null(column))] = BLANK
    value = np.floor_divide(_integers(column).astype(np.int64, copy=False), per)
    return Written(kinds, value, np.full(len(column), 0xFF, np.uint8))


def placed(seconds: np.ndarray, zone: str) -> np.ndarray:
    """Convert seconds of a local clock to UTC seconds, both since 1970. Raise ValueError if the zone doesn't exist.

    An hour that the clock repeats is the earlier one, so that a row edited in it is never in the future of the same
    run. In a skipped hour, the time is the moment of the skip.
    """
    local = pa.array(seconds, pa.int64()).view(pa.timestamp("s"))
    name = "UTC" if zone in ("Z", "z") else zone
    try:
        return _integers(pc.assume_timezone(local, name, ambiguous="earliest", nonexistent="latest"))
    except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
        raise ValueError(f"there is no timezone {zone!r}; expected a name like Europe/Berlin") from error


def text(kind: np.ndarray, value: np.ndarray) -> pa.Array:
    """Return the text of each `DATE` (YYYY-MM-DD) and `INSTANT` (YYYY-MM-DDThh:mm:ssZ), null for other kinds.

    `value`: as in `Written`. Dates and instants must be in the years 1 to 9999.
    """
    is_date, is_instant = kind == DATE, kind == INSTANT
    if not is_instant.any():
        return _date_text(value, is_date)
    if not is_date.any():
        return _instant_text(value, is_instant)
    return pc.coalesce(_date_text(value, is_date), _instant_text(value, is_instant))


def _integers(array: pa.Array) -> np.ndarray:
    """Return the integers of an array of dates or timestamps without a copy. Values under nulls are undefined."""
    width = np.int32 if array.type.bit_width == 32 else np.int64
    return np.frombuffer(array.buffers()[1], width, count=array.offset + len(array))[array.offset :]


def _date_text(days: np.ndarray, keep: np.ndarray) -> pa.Array:
    mask = None if keep.all() else ~keep
    return pa.array(days.astype(np.int32), mask=mask).view(pa.date32()).cast(pa.string())


def _instant_text(seconds: np.ndarray, keep: np.ndarray) -> pa.Array:
    """Return instants as text, composed from two halves of ten bytes: YYYY-MM-DD and Thh:mm:ssZ.

    Most columns have few days, and a day has 86,400 seconds, so both halves are looked up. This takes a fifth of the
    time of Arrow's own conversion.
    """
    rows = len(seconds)
    every = bool(keep.all())
    there = seconds if every else seconds[keep]
    wide = np.empty(len(there), _INSTANT)
    for at in range(0, len(there), _BLOCK):
        days = there[at : at + _BLOCK] // DAY
        first, last = days.min(), days.max()
        few = last - first < _BLOCK
        words = *_day_words(np.arange(first, last + 1) if few else days), *_clock_words()
        day = days - first if few else np.arange(len(days))
        second = there[at : at + _BLOCK] - days * DAY
        for name, texts, place in zip(_INSTANT.names or (), words, (day, day, second, second), strict=True):
            wide[name][at : at + _BLOCK] = texts[place]
    offsets = np.zeros(rows + 1, np.int32)
    offsets[1:] = np.arange(20, rows * 20 + 20, 20) if every else np.cumsum(keep) * 20
    validity = None if every else pa.array(keep).buffers()[1]
    return over(pa.string(), offsets, wide, validity)


def _day_words(days: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each day as YYYY-MM-DD, in two words."""
    return _words(_date_text(days, np.ones(len(days), bool)))


@cache
def _clock_words() -> tuple[np.ndarray, np.ndarray]:
    """Return each second of a day as Thh:mm:ssZ, in two words."""
    plain = pa.array(np.arange(DAY, dtype=np.int32)).view(pa.time32("s")).cast(pa.string())
    return _words(pc.binary_join_element_wise("T", plain, "Z", ""))


def _words(texts: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """Return texts of ten bytes as their first eight and their last two bytes."""
    halves = bytes_of(texts).view([("first", "u8"), ("last", "u2")])
    return np.ascontiguousarray(halves["first"]), np.ascontiguousarray(halves["last"])


# --- the grammar: rows of one length together, as a matrix of bytes; nothing runs once a row ---------------------


def _texts(column: pa.Array, accepted: int) -> Written:
    """Read each text of a `string` array."""
    written = _as_written(column)
    odd = np.flatnonzero(written.kind == OTHER)
    if len(odd):
        trimmed = pc.ascii_trim_whitespace(column.take(pa.array(odd)))
        again = _as_written(trimmed)
        if accepted & RFC822:
            _rfc822(trimmed, again)
        for mine, theirs in zip((written.kind, written.value, written.forms), _columns(again), strict=True):
            mine[odd] = theirs
    refused = (written.forms & np.uint8(accepted)) == 0
    if refused.any():
        written.kind[refused & (written.kind != BLANK) & (written.kind != COARSE)] = OTHER
    return written


def _columns(written: Written) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return written.kind, written.value, written.forms


def _as_written(column: pa.Array) -> Written:
    """Read each text, assuming that it has no surrounding whitespace."""
    rows = len(column)
    written = Written(np.full(rows, OTHER, np.uint8), np.zeros(rows, np.int64), np.zeros(rows, np.uint8))
    if rows == 0:
        return written
    offsets, data = offsets_of(column), data_of(column)
    for begin in range(0, rows, _BLOCK):
        stop = min(begin + _BLOCK, rows)
        starts = offsets[begin:stop]
        lengths = np.minimum(offsets[begin + 1 : stop + 1] - starts, _LONGEST + 1)
        for length in np.flatnonzero(np.bincount(lengths)).tolist():
            at = np.flatnonzero(lengths == length)
            if length == 0:
                written.kind[begin + at] = BLANK
            elif length in (4, 7) or _DAY_END <= length <= _LONGEST:
                if len(at) == stop - begin:
                    first = int(starts[0])
                    matrix = data[first : first + len(at) * length].reshape(len(at), length)
                else:
                    matrix = windows(data, (np.void, length))[starts[at]].view(np.uint8).reshape(len(at), length)
                for mine, theirs in zip(_columns(written), _same_length(matrix), strict=True):
                    mine[begin + at] = theirs
    if column.null_count:
        null = mask_of(pc.is_null(column))
        written.kind[null], written.forms[null] = BLANK, 0
    return written


def _same_length(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return kinds, values and forms of texts of the same length, one per row of the matrix of bytes."""
    length = matrix.shape[1]
    if length in (4, 7):
        ok = _digits(matrix, range(4))
        if length == 7:
            month, good = _two(matrix, 5)
            ok &= good & (matrix[:, 4] == ord("-")) & (month >= 1) & (month <= 12)
        return _chosen(ok, COARSE, OTHER), np.zeros(len(matrix), np.int64), _chosen(ok, W3C, 0)
    days, ok = _days(matrix)
    if length == _DAY_END:
        return _chosen(ok, DATE, OTHER), days, _chosen(ok, W3C | XSD | DATABASES, 0)
    zones = _zone_forms(matrix)
    if length < _MINUTE_END:
        ok &= (zones == _ZULU) & (length == _DAY_END + 1) & (matrix[:, _DAY_END] == ord("Z"))
        return _chosen(ok, DATE, OTHER), days, _chosen(ok, XSD, 0)
    kind = np.full(len(matrix), OTHER, np.uint8)
    value = days * DAY
    forms = np.zeros(len(matrix), np.uint8)
    for zone in np.flatnonzero(np.bincount(zones)):
        at = slice(None) if (zones == zone).all() else np.flatnonzero(zones == zone)
        seconds, takers = _clock(matrix[at], int(zone))
        takers *= ok[at]
        value[at] += seconds
        forms[at] = takers
        kind[at] = _chosen(takers != 0, INSTANT if zone else LOCAL, OTHER)
    if length == _DAY_END + _WIDTH[_COLON]:
        offset, good = _offset(matrix, _COLON)
        zoned = ok & good & np.isin(matrix[:, _DAY_END], _SIGNS) & (np.abs(offset) <= _XSD_OFFSET)
        kind[zoned], value[zoned], forms[zoned] = DATE, days[zoned], XSD
    return kind, value, forms


def _chosen(mask: np.ndarray, yes: int, no: int) -> np.ndarray:
    return np.where(mask, np.uint8(yes), np.uint8(no))


_ZULU, _NAMED, _COLON, _PLAIN, _HOURS = 1, 2, 3, 4, 5
_SPACED: Final = 8
_SIGNS: Final = np.frombuffer(b"+-", np.uint8)
_WIDTH: Final = {0: 0, _ZULU: 1, _NAMED: 3, _COLON: 6, _PLAIN: 5, _HOURS: 3}
"""Bytes of each form of zone: none, Z, UTC, +hh:mm, +hhmm, +hh."""


def _zone_forms(matrix: np.ndarray) -> np.ndarray:
    """Return the form of each text's zone. `_SPACED` is added if a space precedes it."""
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
    form[(byte(1) & 0xDF) == ord("Z")] = _ZULU
    for zone, width in _WIDTH.items():
        if zone and length > _MINUTE_END + width:
            form[(form == zone) & (byte(width + 1) == ord(" "))] += _SPACED
    return form


def _clock(matrix: np.ndarray, zone: int) -> tuple[np.ndarray, np.ndarray]:
    """Return seconds from midnight minus the offset, and the standards that accept the time (0: none)."""
    form = zone & ~_SPACED
    end = matrix.shape[1] - _WIDTH[form] - bool(zone & _SPACED)
    separator = matrix[:, 10]
    upper, lower = separator == ord("T"), separator == ord("t")
    ok = upper | lower | (separator == ord(" "))
    hour, good = _two(matrix, 11)
    ok &= good
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
            point = matrix[:, 19] == ord(".")
            ok &= point | (matrix[:, 19] == ord(","))
            ok &= _digits(matrix, range(20, end))
            upper &= point
            lower &= point
    narrow = upper
    if form == _ZULU:
        capital = matrix[:, -1] == ord("Z")
        lower |= upper & ~capital
        upper &= capital
    midnight = hour >= 24
    is_late = bool(midnight.any())
    if is_late:
        zeros = (matrix[:, 20:end] == ord("0")).all(axis=1)
        ok &= ~midnight | (zeros & (seconds == DAY))
    if form in (_COLON, _PLAIN, _HOURS):
        offset, good = _offset(matrix, form)
        ok &= good
        seconds -= offset
        narrow = upper & (np.abs(offset) <= _XSD_OFFSET)
    forms = np.full(len(matrix), DATABASES, np.uint8)
    timed = end >= _SECOND_END
    if zone in (_ZULU, _COLON):
        forms |= _bits(upper, W3C | RFC3339 * timed)
        forms |= _bits(lower, RFC3339 * timed)
        forms |= _bits(narrow, XSD * timed)
    elif zone == 0:
        forms |= _bits(upper, XSD * timed)
    if is_late:
        forms[midnight] &= XSD
    forms *= ok
    return seconds, forms


def _bits(mask: np.ndarray, bits: int) -> np.ndarray:
    """Return the bits where the mask holds, otherwise 0."""
    chosen: np.ndarray = mask.view(np.uint8) * np.uint8(bits)
    return chosen


def _offset(matrix: np.ndarray, form: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the offset at the end of each text in seconds east of UTC, and a mask of valid ones."""
    at = matrix.shape[1] - _WIDTH[form]
    hours, ok = _two(matrix, at + 1)
    ok &= hours <= _OFFSET_HOURS
    offset = hours.astype(np.int64) * 3600
    if form != _HOURS:
        minutes, good = _two(matrix, at + (4 if form == _COLON else 3))
        ok &= good & (minutes < 60)
        offset += minutes.astype(np.int64) * 60
    return np.where(matrix[:, at] == ord("-"), -offset, offset), ok


def _days(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return days since 1970 of the YYYY-MM-DD at the start of each text, and a mask of days that exist."""
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
    """Return days since 1970 of the first of each month in the years 0 to 9999, and of the next month: int32."""
    return np.arange("0000-01", "10000-02", dtype="datetime64[M]").astype("datetime64[D]").astype(np.int32)


def _two(matrix: np.ndarray, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the two-digit number at an index of each text, and a mask of valid ones."""
    tens = matrix[:, at] - np.uint8(ord("0"))
    ones = matrix[:, at + 1] - np.uint8(ord("0"))
    ok = (tens < 10) & (ones < 10)
    return tens * np.uint8(10) + ones, ok


def _digits(matrix: np.ndarray, places: range) -> np.ndarray:
    """Return a mask of rows whose bytes at all these indexes are digits."""
    ok = np.ones(len(matrix), bool)
    for at in places:
        ok &= (matrix[:, at] - np.uint8(ord("0"))) < 10
    return ok


def _rfc822(texts: pa.Array, written: Written) -> None:
    """Read the remaining texts by RFC 822, each distinct text once, with the standard library's parser."""
    encoded = texts.dictionary_encode()
    kinds, values = [], []
    for said in encoded.dictionary.to_pylist():
        try:
            moment = parsedate_to_datetime(said)
            kinds.append(LOCAL if moment.tzinfo is None else INSTANT)
            values.append(int((moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).timestamp()))
        except (ValueError, TypeError, OverflowError):
            kinds.append(OTHER)
            values.append(0)
    codes = encoded.indices.to_numpy()
    found = np.array(kinds, np.uint8)[codes]
    new = (written.kind == OTHER) & (found != OTHER)
    written.kind[new], written.value[new], written.forms[new] = found[new], np.array(values)[codes][new], RFC822
