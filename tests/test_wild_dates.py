"""300 real-world values of dates are read like by a plain implementation of the rules."""

from __future__ import annotations

import random
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from sitemap_etl import lastmod
from sitemap_etl.frames import Tally

READ_AT = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
FORM = re.compile(
    r"(?P<day>[0-9]{4}-[0-9]{2}-[0-9]{2})"
    r"(?:[Tt ](?P<hour>[0-9]{2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2})(?:[.,][0-9]+)?)?"
    r"(?:(?P<utc> ?(?:[Zz]|[Uu][Tt][Cc]|[Gg][Mm][Tt]))|"
    r" ?(?P<sign>[+-])(?P<hours>[0-9]{2})(?::?(?P<minutes>[0-9]{2}))?)?)?"
)
"""A date, or a date and a time of day, with an offset or in the time zone of the rule."""


def plainly(text: str) -> tuple[str | None, str | None]:  # noqa: PLR0911 - a reading from top to bottom
    """Return the lastmod of a cell, and why it has none."""
    text = text.strip(" \t\n\v\f\r")
    if not text:
        return None, None
    if re.fullmatch(r"[0-9]{4}(-(0[1-9]|1[0-2]))?", text) and text[:4] != "0000":
        return None, "lastmod without a day"
    found = FORM.fullmatch(text)
    if found is None or len(text) > 48:
        return None, "lastmod not a date"
    try:
        day = date.fromisoformat(found["day"])
        if found["hour"] is None:
            latest = READ_AT.date() + timedelta(days=1)
            return _possible(day.isoformat(), early=day.year < 1990, late=day > latest)
        hours, minutes = int(found["hours"] or 0), int(found["minutes"] or 0)
        if hours > 15 or minutes > 59:
            return None, "lastmod not a date"
        offset = timedelta(hours=hours, minutes=minutes) * (-1 if found["sign"] == "-" else 1)
        zone = timezone(offset) if found["sign"] else UTC if found["utc"] else BERLIN
        time = int(found["hour"]), int(found["minute"]), int(found["second"] or 0)
        moment = datetime(day.year, day.month, day.day, *time, tzinfo=zone)
    except ValueError:
        return None, "lastmod not a date"
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        return _possible("", early=day.year < 1990, late=day.year >= 1990)
    return _possible(f"{moment:%Y-%m-%dT%H:%M:%SZ}", early=moment.year < 1990, late=moment > READ_AT)


def _possible(text: str, *, early: bool, late: bool) -> tuple[str | None, str | None]:
    if early or late:
        return None, "lastmod before 1990" if early else "lastmod in the future"
    return text, None


DAYS = [
    "2026-10-01",
    "2024-02-29",
    "1990-01-01",
    "2026-11-21",
    "2023-02-29",
    "2026-13-01",
    "2026-00-10",
    "1989-12-31",
    "2026-11-21",
    "2026-11-22",
    "0000-00-00",
    "0001-01-01",
    "9999-12-31",
    "26-10-01",
    "2026-1-1",
    "2026",
    "2026-10",
    "2026/10/01",
    "01.10.2026",
    "20261001",
    "٢٠٢٦-١٠-٠١",
    "2026–10–01",
    "-2026-10-01",
]
TIMES = [
    "",
    "T02:00",
    "T23:59:59",
    " 00:00:00",
    "t01:02:03",
    "T24:00:00",
    "T12:60:00",
    "T12:00:60",
    "T1:02:03",
    "  10:00",
    "T10",
    "T10:00:00.5",
    "T10:00:00,123456789",
    "T10:00:00.",
    "_10:00:00",
    "T10.00.00",
    "T25:00",
    " 10:00:00 PM",
]
ZONES = [
    "",
    "Z",
    "z",
    " UTC",
    " gmt",
    "UTC",
    "+01",
    "+01:00",
    "-0530",
    " +02:00",
    "+15:59",
    "+16:00",
    "+1:00",
    "-00:60",
    " CET",
    "[Europe/Berlin]",
    " Europe/Berlin",
    "+01:00:00",
    "Z ",
]
MARKS = [" ", "\t", "\n", "\u00a0", "\ufeff", '"', "'", "x", "\0", ";"]
WORDS = [
    "NULL",
    "None",
    "n/a",
    "now()",
    "infinity",
    "-infinity",
    "today",
    "=NOW()",
    "NaT",
    "NaN",
    "1e9",
    "-1",
    "{}",
    "[]",
    "Invalid Date",
    "Thu, 01 Oct 2026 10:00:00 GMT",
    "2026-10-01T10:00:00+01:00/2026-10-02",
    "",
    " ",
    "\u3000",
]


def wild(seed: int) -> list[str]:
    """Return 300 cells of a seed: most are dates with a change, or a part in another format."""
    drawn = random.Random(seed)
    cells = []
    for _ in range(300):
        if drawn.random() < 0.1:
            cells.append(drawn.choice(WORDS))
            continue
        # Most parts are the plain ones that come first.
        day, time, zone = (drawn.choice(parts[: drawn.choice((4, 4, 4, len(parts)))]) for parts in (DAYS, TIMES, ZONES))
        before, behind = (drawn.choice(MARKS) if drawn.random() < 0.2 else "" for _ in range(2))
        cells.append(before + day + time + zone + behind)
    return cells


@pytest.mark.parametrize("seed", range(10))
def test_real_world_dates_are_read_like_a_plain_implementation(seed: int) -> None:
    cells = wild(seed)
    tally = Tally()
    found = lastmod.moments(pa.array(cells), name="updated", timezone="Europe/Berlin", read_at=READ_AT, tally=tally)
    expected = [plainly(cell) for cell in cells]
    read = lastmod.texts(found).to_pylist()
    assert [pair for pair in zip(cells, read, expected, strict=True) if pair[1] != pair[2][0]] == []
    assert tally.counts == Counter(reason for _, reason in expected if reason is not None)
    assert sum(text is not None for text in read) > 30
