"""Schedule of the DAG: cron expressions and time zones, checked before they reach Airflow."""

from __future__ import annotations

import difflib
import re
import zoneinfo
from typing import Annotated, Final

from pydantic import AfterValidator, Field, Tag

from sitemap_etl.settings.date_format import SHORT_MONTHS
from sitemap_etl.settings.kinds import OneOrMore, Settings, Text, matching, one_of, short_for, unlike, wrong

PRESETS: Final = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
"""Presets that Airflow accepts."""

_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_LAST: Final = 0
"""Number that stands for `L`, the last day of a month."""
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[str, int, int, dict[str, int]], ...]] = (
    ("a minute of", 0, 59, {}),
    ("an hour of", 0, 23, {}),
    ("a day of the month of", 1, 31, {}),
    ("a month of", 1, 12, {name: number for number, name in enumerate(SHORT_MONTHS, 1)}),
    ("a day of the week of", 0, 7, {name: number for number, name in enumerate(_DAYS)}),
)


def _cron(text: str) -> str:
    """Return the expression with single spaces. Raise an error that names the invalid field."""
    if text.startswith("@"):
        if text not in PRESETS:
            raise unlike(f"five cron fields or one of {', '.join(PRESETS)}")
        return text
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise unlike(f"five cron fields (minute hour day month weekday), such as 0 2 * * *; this has {len(parts)}")
    meant: list[set[int]] = []
    for part, (name, low, high, words) in zip(parts, _FIELDS, strict=True):
        meant.append(set())
        for item in part.split(","):
            values = _values(item, low, high, words)
            if values is None:
                raise wrong(f'expected {name} {low} to {high} (or *, lists, ranges, steps), got "{item}"')
            meant[-1] |= values
    numbers = {int(item.partition("#")[2] or 0) for item in parts[4].split(",")}
    if 0 in numbers and len(numbers) > 1:
        raise wrong(f'expected days of the week that all have a number, as in mon#1,tue#1, or none, got "{parts[4]}"')
    numbers -= {0}
    # Without numbers, days of the month or of the week are enough, if the week's are not just a star.
    if (numbers or parts[4] == "*") and _never(meant[2], meant[3], numbers):
        raise wrong("the cron expression never matches: none of its months has such a day")
    return " ".join(parts)


def _never(days: set[int], months: set[int], numbers: set[int]) -> bool:
    """Return True if none of the months has one of the days, as in `31 2`.

    `numbers`: numbers of weekdays, such as 2 in `mon#2`. With them, days of the month and of the week must both match.
    """
    for month in months:
        length = _LENGTHS[month - 1]
        lasts = {28, 29} if month == 2 else {length}
        there = {day for day in days - {_LAST} if day <= length} | (lasts if _LAST in days else set())
        if any(not numbers or (day + 6) // 7 in numbers for day in there):
            return False
    return True


def _values(item: str, low: int, high: int, words: dict[str, int]) -> set[int] | None:
    """Return the values of `*`, `5`, `mon`, `1-5` or `22-2`, with or without a step. Return None for other text."""
    if high == 31 and item.upper() == "L":
        return {_LAST}
    if words and low == 0 and (nth := re.fullmatch(r"(\w+)#[1-5]", item)):  # the month's second Monday: mon#2
        item = nth[1]
    span, slash, step = item.partition("/")
    if slash and not (step.isdecimal() and step.isascii() and 0 < int(step) <= high):
        return None
    first, dash, last = (str(low), "-", str(high)) if span == "*" else span.partition("-")
    begin = _number(first, words)
    end = _number(last, words) if dash else high if slash else begin
    if begin is None or end is None or not (low <= begin <= high and low <= end <= high):
        return None
    spanned = [*range(begin, end + 1)] if begin <= end else [*range(begin, high + 1), *range(low, end + 1)]
    return set(spanned[:: int(step or 1)])


def _number(text: str, words: dict[str, int]) -> int | None:
    if text.isdecimal() and text.isascii():
        return int(text)
    return words.get(text.lower())


def _timezone(text: str) -> str:
    """Return the IANA name. Raise an error that suggests the nearest name."""
    if text == "UTC":
        return text
    try:
        zoneinfo.ZoneInfo(text)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = difflib.get_close_matches(text, sorted(zoneinfo.available_timezones()), n=1)
        raise unlike("an IANA time zone such as Europe/Berlin or UTC", near=next(iter(near), None)) from error
    return text


def time_of_day(cron: str) -> str | None:
    """Return the time of day at which the expression matches, such as 02:30, or None if it has no single one."""
    if cron.startswith("@"):
        return None if cron == "@hourly" else "00:00"
    minute, hour, *_ = cron.split()
    plain = minute.isdecimal() and hour.isdecimal()
    return f"{int(hour):02}:{int(minute):02}" if plain else None


AssetName = Annotated[
    Text,
    matching(
        r"[\x21-\x7e]([\x20-\x7e]{0,1498}[\x21-\x7e])?", "a name or URI of an asset: at most 1,500 characters of ASCII"
    ),
]
Cron = Annotated[Text, AfterValidator(_cron)]
Timezone = Annotated[Text, AfterValidator(_timezone)]


class Schedule(Settings):
    """Schedule by the clock."""

    cron: Cron = Field(description="Five cron fields, or a preset such as `@daily`.", examples=["0 2 * * *"])
    timezone: Timezone = Field(default="UTC", description="IANA time zone of the cron expression.")


class AssetSchedule(Settings):
    """Schedule by updates of Airflow's assets, optionally by the clock too."""

    assets: OneOrMore[AssetName] = Field(
        description="Name or URI of an asset, or a list of them. The DAG runs when each of them has been updated "
        "since its last such run.",
        examples=[["s3://exports/products"]],
    )
    or_cron: Cron | None = Field(
        default=None, description="Cron expression of runs that need no update.", examples=["0 4 * * *"]
    )
    timezone: Timezone = Field(default="UTC", description="IANA time zone of the cron expression.")

    @property
    def cron(self) -> str | None:
        """Cron expression, if one is set."""
        return self.or_cron


ScheduleKey = Annotated[
    Annotated[Schedule, short_for("cron", Cron), Tag("<text>")]
    | Annotated[Schedule, Tag("<cron>")]
    | Annotated[AssetSchedule, Tag("<assets>")],
    one_of("a cron expression, {cron: …, timezone: …} or {assets: […], or_cron: …}", "cron", "assets"),
]
