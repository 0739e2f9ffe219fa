"""What can be wrong with the lastmods of a file.

A form that both the W3C's note on dates and XSD take is right; one that only one of them takes is a warning, and
everything else an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from sitemap_etl.check.report import Faults
from sitemap_etl.dates import DATE, DAY, W3C, XSD, Written, read
from sitemap_etl.limits import LASTMOD_FIRST_YEAR

BOTH: Final = W3C | XSD
CLOCKS: Final = 300
"""Seconds by which two machines' clocks may differ, and which a server may take to make a file."""


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


def check_lastmods(texts: Any, offsets: np.ndarray, faults: Faults, now: datetime) -> Lastmods | None:
    """Report what is wrong with lastmods (a string array, null: none); what they have in common."""
    present = texts.is_valid()
    if not pc.any(present).as_py():
        return None
    trimmed = pc.utf8_trim_whitespace(texts)
    faults.rows("loc-space", pc.not_equal(trimmed, texts), texts, offsets, detail="in lastmod")
    dates = read(trimmed, BOTH)
    right = fits_both(dates)
    bad = present.to_numpy(zero_copy_only=False) & ~right
    odd = bad & ((dates.forms & BOTH) != 0)
    faults.rows("lastmod-form", odd, trimmed, offsets)
    faults.rows("lastmod-invalid", bad & ~odd, trimmed, offsets)
    seconds = dates.seconds
    faults.rows("lastmod-future", right & in_future(dates, now), trimmed, offsets)
    first = int((date(LASTMOD_FIRST_YEAR, 1, 1) - date(1970, 1, 1)).days) * DAY
    faults.rows("lastmod-old", right & (seconds < first), trimmed, offsets)
    rows = np.flatnonzero(right)
    if not len(rows):
        return None
    seconds, daily = seconds[rows], dates.kind[rows] == DATE
    moment = int(now.timestamp())
    oldest, newest = int(seconds.argmin()), int(seconds.argmax())
    near = (seconds > moment - CLOCKS) & (seconds <= moment + CLOCKS) & ~daily
    return Lastmods(
        count=len(rows),
        oldest_text=trimmed[int(rows[oldest])].as_py(),
        newest_text=trimmed[int(rows[newest])].as_py(),
        newest=int(seconds[newest]),
        newest_daily=bool(daily[newest]),
        same=bool((seconds == seconds[0]).all()),
        now=bool(near.all()),
        at=int(offsets[rows[0]]),
        example=trimmed[int(rows[0])].as_py(),
    )


def fits_both(dates: Written) -> np.ndarray:
    """Where a text is a date by both standards."""
    right: np.ndarray = (dates.forms & BOTH) == BOTH
    return right


def in_future(dates: Written, now: datetime) -> np.ndarray:
    """Where a date is later than `now`: an instant by more than clocks differ, a day by more than a day."""
    moment = int(now.timestamp())
    tomorrow = int((now.date() + timedelta(days=1) - date(1970, 1, 1)).days) * DAY
    late: np.ndarray = np.where(dates.kind == DATE, dates.seconds > tomorrow, dates.seconds > moment + CLOCKS)
    return late
