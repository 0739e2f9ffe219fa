"""What can be wrong with dates, looked for in whole columns.

Both the W3C's note on dates and XSD take `YYYY-MM-DD` and `YYYY-MM-DDThh:mm:ss[.f](Z|±hh:mm)`. Each takes a
few forms more; those are a warning. Everything else is an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.check.report import Faults
from sitemap_etl.limits import LASTMOD_FIRST_YEAR

_DAY: Final = r"\d{4}-\d{2}-\d{2}"
_ZONE: Final = r"(?:Z|[+-](?:0\d|1[0-4]):[0-5]\d)"
_DATE: Final = rf"^{_DAY}$"
_INSTANT: Final = rf"^{_DAY}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?{_ZONE}$"
_ONLY_W3C: Final = rf"^\d{{4}}(?:-\d{{2}}(?:-\d{{2}}T\d{{2}}:\d{{2}}{_ZONE})?)?$"
_ONLY_XSD: Final = rf"^{_DAY}(?:{_ZONE}|T\d{{2}}:\d{{2}}:\d{{2}}(?:\.\d+)?(?:{_ZONE})?)$"
CLOCKS: Final = 300
"""Seconds by which two machines' clocks may differ, and which a server may take to make a file."""


@dataclass
class Dates:
    """Dates read: `seconds` since 1970 (UTC), valid where `read`; `daily` where there is no time of day."""

    read: np.ndarray
    seconds: np.ndarray
    daily: np.ndarray


@dataclass(frozen=True)
class Lastmods:
    """What the lastmods of a file have in common.

    `newest` in seconds since 1970; `same` where all are one and the same, `now` where all are the moment of
    reading. `at` and `example` are of the first.
    """

    count: int
    oldest_text: str
    newest_text: str
    newest: int
    newest_daily: bool
    same: bool
    now: bool
    at: int
    example: str


def parsed(texts: Any) -> Dates:
    """The dates of a string array (null: none) in the forms that both standards take."""
    rows = len(texts)
    instants = _true(pc.match_substring_regex(texts, _INSTANT))
    daily = _true(pc.match_substring_regex(texts, _DATE))
    seconds = np.zeros(rows, np.int64)
    shaped = instants | daily
    if shaped.any():
        days = pc.utf8_slice_codeunits(texts, 0, 10).dictionary_encode()
        real = np.array([d is not None and _is_day(d) for d in days.dictionary.to_pylist()] + [False], bool)
        shaped &= real[days.indices.fill_null(len(real) - 1).to_numpy(zero_copy_only=False)]
    instants &= shaped
    daily &= shaped
    if instants.any():
        chosen = texts.filter(pa.array(instants))
        chosen = pc.replace_substring_regex(chosen, r"\.\d+", "")
        seconds[instants] = chosen.cast(pa.timestamp("s", "UTC")).cast(pa.int64()).to_numpy(zero_copy_only=False)
    if daily.any():
        day = texts.filter(pa.array(daily)).cast(pa.date32()).cast(pa.int32()).to_numpy(zero_copy_only=False)
        seconds[daily] = day.astype(np.int64) * 86_400
    return Dates(shaped, seconds, daily)


def check_lastmods(texts: Any, offsets: np.ndarray, faults: Faults, now: datetime) -> Lastmods | None:
    """Report what is wrong with lastmods (a string array, null: none); what they have in common."""
    present = texts.is_valid()
    if not pc.any(present).as_py():
        return None
    trimmed = pc.utf8_trim_whitespace(texts)
    faults.rows("loc-space", pc.not_equal(trimmed, texts), texts, offsets, detail="in lastmod")
    dates = parsed(trimmed)
    bad = _true(present) & ~dates.read
    if bad.any():
        odd = bad & (
            _true(pc.match_substring_regex(trimmed, _ONLY_W3C)) | _true(pc.match_substring_regex(trimmed, _ONLY_XSD))
        )
        odd &= _plausible(trimmed, odd)
        faults.rows("lastmod-form", odd, trimmed, offsets)
        faults.rows("lastmod-invalid", bad & ~odd, trimmed, offsets)
    future = dates.read & in_future(dates, now)
    faults.rows("lastmod-future", future, trimmed, offsets)
    first = int((date(LASTMOD_FIRST_YEAR, 1, 1) - date(1970, 1, 1)).days) * 86_400
    faults.rows("lastmod-old", dates.read & (dates.seconds < first), trimmed, offsets)
    rows = np.flatnonzero(dates.read)
    if not len(rows):
        return None
    seconds = dates.seconds[rows]
    moment = int(now.timestamp())
    oldest, newest = rows[int(seconds.argmin())], rows[int(seconds.argmax())]
    near = (seconds > moment - CLOCKS) & (seconds <= moment + CLOCKS) & ~dates.daily[rows]
    return Lastmods(
        count=len(rows),
        oldest_text=trimmed[int(oldest)].as_py(),
        newest_text=trimmed[int(newest)].as_py(),
        newest=int(dates.seconds[newest]),
        newest_daily=bool(dates.daily[newest]),
        same=bool((seconds == seconds[0]).all()),
        now=bool(near.all()),
        at=int(offsets[rows[0]]),
        example=trimmed[int(rows[0])].as_py(),
    )


def in_future(dates: Dates, now: datetime) -> np.ndarray:
    """Where a date is later than `now`: an instant by more than clocks differ, a day by more than a day."""
    moment = int(now.timestamp())
    tomorrow = int((now.date() + timedelta(days=1) - date(1970, 1, 1)).days) * 86_400
    late: np.ndarray = np.where(dates.daily, dates.seconds > tomorrow, dates.seconds > moment + CLOCKS)
    return late


def _plausible(texts: Any, mask: np.ndarray) -> np.ndarray:
    """Of the rows of `mask` those whose month, day and hour exist."""
    good = np.zeros(len(texts), bool)
    for row in np.flatnonzero(mask).tolist():
        text = texts[row].as_py()
        day = (text + "-01-01")[:10] if len(text) in {4, 7} else text[:10]
        time = text[11:16] if "T" in text else "00:00"
        good[row] = _is_day(day) and (time < "24:00" or text[11:19] == "24:00:00") and time[3:5] < "60"
    return good


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _true(mask: Any) -> np.ndarray:
    """A boolean array; null is false."""
    found: np.ndarray = mask.fill_null(False).to_numpy(zero_copy_only=False).copy()
    return found
