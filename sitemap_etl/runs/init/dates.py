"""Find the column of a sample with the dates of the last change, and the format of its dates.

Names decide first. Values decide between columns with neutral names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl import lastmod
from sitemap_etl.arrow import is_text
from sitemap_etl.errors import InvalidSource
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.lastmod import mongo
from sitemap_etl.runs.init.column import ENOUGH, MOST, Column
from sitemap_etl.runs.init.date_names import Meaning, meaning_of
from sitemap_etl.settings.date_format import EXCEL, MAIL, pattern

_NEAR: Final = 0.95
"""Share of the rows that counts as nearly all."""
_DATE_NAMES: Final = re.compile(r"date|datum|fecha|data|time|zeit|_at$|_on$|\bam\b|seit", re.IGNORECASE)
_FORMATS: Final = (
    *("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%d.%m.%y %H:%M", "%d.%m.%y"),
    *("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p"),
    *("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%d-%m-%Y %H:%M:%S", "%d-%m-%Y %H:%M", "%d-%m-%Y"),
    *("%m/%d/%y, %I:%M %p", "%m/%d/%y %I:%M %p", "%m/%d/%y %H:%M", "%m/%d/%y"),
    *("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y%m%d%H%M%S", "%Y%m%d"),
    *(
        "%a, %d %b %Y %H:%M:%S GMT",
        "%a, %d %b %Y %H:%M:%S UTC",
        *MAIL,
        "%a %b %d %H:%M:%S %Y",
        "%d %b %Y %H:%M",
        "%d %b %Y",
        "%b %d, %Y",
        "%b %d %Y",
    ),
)
"""Common date formats of exports. If two fit equally, the first one is used."""
_DAY: Final = len("2026-11-20")
_NUMBER: Final = r"[+-]?\d+(\.\d*)?$"
_MONGO: Final = re.compile(r'\{\s*"\$date".{4,60}')
_DATE_LIKE: Final = re.compile(r"(?=\D*\d).{4,48}")


class Dates(Frozen):
    """A column of dates. `rule`: what reading it needs, as the keys of `lastmod`.

    `doubtful`: day and month could be the other way round. `shown`: a value.
    """

    column: str
    rule: dict[str, str] = field(default_factory=dict)
    doubtful: bool = False
    shown: str = ""


class Dating(Frozen):
    """Settings for the lastmods of a section.

    `dated`: the section has a lastmod rule; without one, a change of an extension counts. `fingerprint`: dates come
    from fingerprints. `reset`: the published fingerprints have another definition. `first_seen`: later new pages are
    dated. `first_publish`: the section was never published. `back`: the release is from after `now`, by a fast clock.
    """

    changed: Dates | None = None
    begun: Dates | None = None
    same: str | None = None
    never: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


def find_dates(columns: Sequence[Column], now: datetime, folders: Collection[str]) -> Dating:
    """Find the date columns of a sample.

    `now`: later dates are not dates of changes. `folders`: partition columns.
    """
    dated = [one for column in columns if (one := _dated(column, now)) is not None]
    exported = {one.column.name for one in dated if one.column.is_same or one.column.name in folders}
    others = [one for one in dated if one.column.name not in exported]
    by_meaning: dict[Meaning | None, list[_Dated]] = {}
    for one in others:
        by_meaning.setdefault(meaning_of(one.column.name), []).append(one)
    changed = _latest(by_meaning.get("change", [])) or _latest(
        [one for one in by_meaning.get(None, []) if one.is_in_most_rows]
    )
    begun = by_meaning.get("begin", [])
    same = next((one.column.name for one in dated if one.column.name in exported), None)
    return Dating(
        changed=changed,
        begun=min(begun, key=lambda one: bool(one.dates.rule)).dates if begun and changed is None else None,
        same=same if changed is None else None,
        never=tuple(one.column.name for one in others if meaning_of(one.column.name) not in (None, "change")),
        names=tuple(one.column.name for one in dated),
    )


def is_called_a_change(name: str) -> bool:
    """Return True if a column is named like one with dates of changes."""
    return meaning_of(name) == "change"


class _Dated(Frozen):
    """A column of dates with the rule to read it, and its values read by that rule (lastmod as text)."""

    column: Column
    dates: Dates
    read: pa.Array

    @property
    def is_in_most_rows(self) -> bool:
        """True if at least half of the rows have a date."""
        return 2 * self.column.filled >= len(self.column.values)

    def is_no_earlier(self, other: _Dated) -> bool:
        """Return True if nearly all dates are at least as late as in another column."""
        both = [
            one[:_DAY] >= two[:_DAY]
            for one, two in zip(self.read.to_pylist(), other.read.to_pylist(), strict=True)
            if one is not None and two is not None
        ]
        return bool(sum(both) >= _NEAR * len(both))


def _dated(column: Column, now: datetime) -> _Dated | None:
    """Return the column as dates of the past, or None if its values aren't dates."""
    kind = column.values.type
    if not column.filled or pt.is_boolean(kind) or (pt.is_nested(kind) and not mongo.is_date(kind)):
        return None
    if is_text(kind) and column.share(_DATE_LIKE) < MOST and column.share(_MONGO) < MOST:
        return None
    fitting: list[tuple[float, dict[str, str], pa.Array]] = []
    some = column.texts[:ENOUGH] or [str(value) for value in column.values.drop_null()[:ENOUGH].to_pylist()]
    for rule in _rules(column):
        if not _may_fit(rule, some):
            continue  # most rules fit nothing, and a wide table has many columns
        found = _read(column, rule, now)
        share = 0.0 if found is None else (len(found) - found.null_count) / column.filled
        if found is not None and share >= MOST:
            fitting.append((share, rule, found))
            if share == 1 and not _is_doubtful(rule):
                break
    if not fitting:
        return None
    share, rule, found = max(fitting, key=lambda one: one[0])
    doubtful = _is_doubtful(rule) and any(one[0] == share and one[2] != found for one in fitting)
    return _Dated(column, Dates(column.name, rule, doubtful, str(column.values.drop_null()[0].as_py())), found)


def _is_doubtful(rule: dict[str, str]) -> bool:
    """Return True if day and month of the format can be swapped."""
    return rule.get("format", "").startswith(("%d/%m", "%m/%d"))


def _rules(column: Column) -> Iterator[dict[str, str]]:
    """Yield possible rules for a column, simplest first."""
    kind = column.values.type
    yield {}
    if pt.is_timestamp(kind) or is_text(kind):
        yield {"timezone": "UTC"}
    if is_text(kind) or pt.is_integer(kind):
        for form in _FORMATS:
            if is_text(kind) or form.startswith("%Y%m%d"):
                local = ("%H" in form or "%I" in form) and "%z" not in form
                yield {"format": form, "timezone": "UTC"} if local else {"format": form}
    if is_text(kind) or pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind):
        yield {"unit": "s"}
        yield {"unit": "ms"}
        yield {"unit": "us"}
        if _DATE_NAMES.search(column.name) or meaning_of(column.name) is not None:  # else any number could be one
            yield {"unit": "ns"}
            yield {"format": EXCEL, "timezone": "UTC"}


def _may_fit(rule: dict[str, str], texts: Sequence[str]) -> bool:
    """Return True if at least half of the example texts have the form that a rule needs."""
    form = rule.get("format")
    expected = _NUMBER if form == EXCEL or "unit" in rule else "" if form is None else pattern(form)
    return 2 * sum(re.match(expected, text) is not None for text in texts) >= len(texts)


def _read(column: Column, rule: dict[str, str], now: datetime) -> pa.Array | None:
    """Return the dates of a column by a rule, null for invalid ones. Return None if the rule doesn't apply."""
    try:
        found = lastmod.moments(
            column.values,
            name=column.name,
            timezone=rule.get("timezone"),
            unit=rule.get("unit"),
            form=rule.get("format"),
            read_at=now,
            tally=Tally(),
        )
    except InvalidSource:
        return None
    return lastmod.texts(found)


def _latest(dated: Sequence[_Dated]) -> Dates | None:
    """Return the column whose dates are, row by row, no earlier than the others."""

    def rank(one: _Dated) -> tuple[bool, bool, int]:
        later = sum(one.is_no_earlier(other) for other in dated)
        return one.column.name == "lastmod", one.is_in_most_rows, later

    return max(dated, key=rank).dates if dated else None
