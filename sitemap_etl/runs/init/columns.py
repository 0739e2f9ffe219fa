"""What the columns of a sample hold, judged by their values; names only decide between columns that are alike.

A sample is a thousand rows at most, so values are looked at one by one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of, is_list, is_text
from sitemap_etl.errors import InvalidSource
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings.date_format import EXCEL, pattern
from sitemap_etl.urls import origin

MOST: Final = 0.8
"""Share of the values from which on a column is what they are."""
_NEAR: Final = 0.95
"""Columns whose scores differ less are alike."""
_URL: Final = re.compile(r"https?://[^\s/]\S*", re.IGNORECASE)
_PATH: Final = re.compile(r"/(?!/)\S*")
_BARE: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}/\S*", re.IGNORECASE)
_SLUG: Final = re.compile(r"(?=.*[^\W\d_])[\w.~%-]+(?:/[\w.~%-]+)*/?")
_IMAGE: Final = re.compile(
    r"(?:https?://|/(?!/))[^\s\"]+\.(?:jpe?g|png|gif|webp|avif|svg|bmp|tiff?)(?:[?#][^\s\"]*)?", re.IGNORECASE
)
_ADDRESS_NAMES: Final = re.compile(
    r"loc|url|uri|link|permalink|canonical|href|address|adresse|page|path|pfad|slug|handle", re.IGNORECASE
)
_OTHER_ADDRESSES: Final = re.compile(r"amp|mobile|api|admin|edit|image|img|bild|thumb|brand|parent", re.IGNORECASE)
_CHANGE_NAMES: Final = re.compile(
    r"lastmod|updat|modif|chang|edit|revis|änder|aender|aktual|actual|maj(?![a-z])|mis.?.?jour", re.IGNORECASE
)
_DATE_NAMES: Final = re.compile(r"date|datum|fecha|data|time|zeit|_at$|_on$|\bam\b|seit", re.IGNORECASE)
_CODE: Final = re.compile(r"\S{1,64}")
_WORDS: Final = re.compile(r"(?=.*[^\W\d_]{2})[^\n{}<>]{2,150}")
_WRITTEN_DATE: Final = re.compile(
    r"(?:[a-z]+\.?,? )?(?:\d{1,2}\.? (?:MONTH)[a-z]*\.?|(?:MONTH)[a-z]*\.? \d{1,2}\b),? \d.*".replace(
        "MONTH", "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
    ),
    re.IGNORECASE,
)
"""Dates in words: they are no titles, though they may be no dates of changes either."""
_TITLE_NAMES: Final = re.compile(r"title|titel|titre|titulo|headline|name", re.IGNORECASE)
_FLAG_WORDS: Final = frozenset(
    [
        "0",
        "1",
        "true",
        "false",
        "t",
        "f",
        "yes",
        "no",
        "y",
        "n",
        "ja",
        "nein",
        "j",
        "oui",
        "non",
        "si",
        "active",
        "inactive",
        "aktiv",
        "inaktiv",
        "published",
        "draft",
        "live",
        "hidden",
        "visible",
        "deleted",
        "online",
        "offline",
        "archived",
        "enabled",
        "disabled",
    ]
)
_FLAG_VALUES: Final = 8
_FORMATS: Final = (
    *("%d.%m.%Y %H:%M:%S", "%d.%m.%Y %H:%M", "%d.%m.%Y", "%d.%m.%y %H:%M", "%d.%m.%y"),
    *("%d/%m/%Y %H:%M:%S", "%d/%m/%Y %H:%M", "%d/%m/%Y", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p"),
    *("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %H:%M", "%m/%d/%Y", "%d-%m-%Y %H:%M:%S", "%d-%m-%Y %H:%M", "%d-%m-%Y"),
    *("%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%Y/%m/%d", "%Y%m%d%H%M%S", "%Y%m%d"),
    *(
        "%a, %d %b %Y %H:%M:%S %z",
        "%a, %d %b %Y %H:%M:%S GMT",
        "%a, %d %b %Y %H:%M:%S UTC",
        "%a %b %d %H:%M:%S %Y",
        "%d %b %Y %H:%M",
        "%d %b %Y",
        "%b %d, %Y",
        "%b %d %Y",
    ),
)
"""Forms that dates are often exported in; of two that fit alike the first one is taken."""
_DAY: Final = len("2026-11-20")
_LONGEST: Final = 10_000
"""Characters of a text that are looked at: more than any address, or list of images, that is of use."""
_NUMBER: Final = r"[+-]?\d+(\.\d*)?$"
_DATE_LIKE: Final = re.compile(r"(?=\D*\d).{4,48}")
_ENOUGH: Final = 20
"""Rows from which on one and the same date in all of them is no chance."""


class Address(Frozen):
    """The column with the addresses of pages. `form`: how they are written."""

    column: str
    form: str  # url, path, bare (a host without https://), slug
    origins: Counter[str] = field(default_factory=Counter)  # how often each stands there, of URLs and bare addresses


class Dates(Frozen):
    """The column with the date of the last change. `rule`: what reading it needs, as the keys of `lastmod`.

    `doubtful`: day and month could be the other way round. `shown`: a value.
    """

    column: str
    rule: dict[str, str] = field(default_factory=dict)
    doubtful: bool = False
    shown: str = ""


class Found(Frozen):
    """What a sample holds. `same_date`: a column whose dates are those of exports: one in all rows, or in a folder.

    `unread`: a column that is called like a date of changes and holds none. `flags`: columns that may say which
    rows are no pages. `keys`: columns with another value in every row.
    """

    address: Address | None = None
    dates: Dates | None = None
    same_date: str | None = None
    unread: str | None = None
    images: str | None = None
    title: str | None = None
    keys: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def find(rows: pa.Table, now: datetime, site: str | None = None, folders: Collection[str] = ()) -> Found:
    """What the columns of a sample hold.

    `now`: later dates are no changes. `site`: the origin that pages are on. `folders`: columns that are the names of
    folders: their dates are those of exports.
    """
    if not rows.num_rows:
        return Found(address=Address("loc", "path") if "loc" in rows.column_names else None)
    columns = [_Column(name, column_of(rows.combine_chunks(), name)) for name in rows.column_names]
    images = [column for column in columns if column.images >= MOST]
    address = _address([column for column in columns if column not in images], site)
    dated = [one for column in columns if (one := _dated(column, now)) is not None]
    exported = {one.column.name for one in dated if one.column.is_same or one.column.name in folders}
    changed = _changed([one for one in dated if one.column.name not in exported])
    taken = {None if address is None else address.column}
    taken |= {column.name for column in (*images, *(one.column for one in dated))}
    left = [column for column in columns if column.name not in taken]
    same = next((one.column.name for one in dated if one.column.name in exported), None)
    called = [column.name for column in left if _CHANGE_NAMES.search(column.name)] if changed is None else []
    return Found(
        address=address,
        dates=changed,
        same_date=same if changed is None else None,
        unread=called[0] if called else None,
        images=images[0].name if images else None,
        title=_title(left),
        keys=tuple(column.name for column in left if column.is_key),
        flags=tuple(column.name for column in columns if column.is_flag),
    )


def address_in_place_of_a_name(rows: pa.Table) -> str | None:
    """The name of a column that is an address, as the values below it are: a page, and no name; None where none is."""
    name: str
    for name in rows.column_names:
        form = next((one for one in (_URL, _PATH, _BARE) if one.fullmatch(name.strip())), None)
        texts = [] if form is None else _texts(column_of(rows.combine_chunks(), name))
        if form is not None and sum(form.fullmatch(text) is not None for text in texts) >= MOST * len(texts):
            return name
    return None


class _Column:
    """The values of a column, and what they look like."""

    def __init__(self, name: str, values: pa.Array) -> None:
        self.name = name
        self.values = values
        self.texts = _texts(values)
        self.filled = len(self.texts) if is_text(values.type) else len(values) - values.null_count
        self.distinct = len(set(self.texts)) / max(len(self.texts), 1)

    @property
    def is_same(self) -> bool:
        """Whether all rows have one value, and that is no chance."""
        return len(self.values) >= _ENOUGH and len(self.values.drop_null().unique()) == 1

    def share(self, pattern: re.Pattern[str]) -> float:
        """The share of the texts that are wholly of this form."""
        return sum(pattern.fullmatch(text) is not None for text in self.texts) / max(len(self.texts), 1)

    @property
    def images(self) -> float:
        """The share of values that are URLs of images, or lists of such."""
        lists = [_elements(text) for text in self.texts]
        good = sum(bool(urls) and all(_IMAGE.fullmatch(url) for url in urls) for urls in lists)
        return good / max(len(lists), 1)

    @property
    def is_key(self) -> bool:
        """Whether it has another value in every row: a whole number, or a text without blanks."""
        kind = self.values.type
        plain = pt.is_integer(kind) or (pt.is_string(kind) and self.share(_CODE) == 1)
        return plain and not self.values.null_count and len(self.values.unique()) == len(self.values) > 1

    @property
    def is_flag(self) -> bool:
        """Whether it may say which rows are pages: true or false, or few words of which one is such."""
        kind = self.values.type
        if pt.is_boolean(kind):
            return True
        if not (is_text(kind) or pt.is_integer(kind)):
            return False
        distinct = self.values.drop_null().unique()
        if not 1 <= len(distinct) <= _FLAG_VALUES:
            return False
        words = {str(value).strip().lower() for value in distinct.to_pylist()}
        return len(words) * 2 <= len(self.values) and (words <= {"0", "1"} or bool(words & (_FLAG_WORDS - {"0", "1"})))


def _texts(values: pa.Array) -> list[str]:
    """The texts of a column that are not blank; of lists of text each as JSON, of other types none."""
    kind = values.type
    if is_list(kind):
        return [json.dumps(value, default=str) for value in values.drop_null().to_pylist() if value]
    if not is_text(kind):
        return []
    found = (v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in values.drop_null().to_pylist())
    return [text.strip()[:_LONGEST] for text in found if text.strip()]


def _elements(text: str) -> list[str]:
    """The texts of a JSON list; of other text itself."""
    if not text.startswith("["):
        return [text]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return [one.get("loc", "") if isinstance(one, dict) else str(one) for one in found]


# --- addresses ---


def _address(columns: Sequence[_Column], site: str | None) -> Address | None:
    """The column that most likely has the addresses of pages."""
    scored = sorted(_scored(columns, site), key=lambda one: -one[0])
    if not scored:
        return None
    best = scored[0][0]
    alike = [address for score, address in scored if score >= best * _NEAR]
    return min(alike, key=lambda one: _unlikely(one.column, one.form))


def _scored(columns: Sequence[_Column], site: str | None) -> Iterator[tuple[float, Address]]:
    for column in columns:
        if not column.texts or not is_text(column.values.type):
            continue
        for form, expected in (("url", _URL), ("path", _PATH), ("bare", _BARE)):
            share = column.share(expected)
            if share >= MOST:
                begin = {"url": "", "bare": "https://"}.get(form)
                origins = Counter[str]() if begin is None else _origins(column.texts, begin)
                score = share * column.distinct * column.filled / len(column.values)
                if origins:  # pages are on one host, and suppliers on many
                    wanted = origins[site] if site is not None and site in origins else max(origins.values())
                    score *= wanted / origins.total()
                yield score, Address(column.name, form, origins)
                break
        else:
            named = _ADDRESS_NAMES.search(column.name) is not None
            slug = column.share(_SLUG) >= MOST and column.filled == len(column.values) and column.distinct == 1
            dashed = sum("-" in text for text in column.texts) * 2 > len(column.texts)
            if slug and (named or dashed):
                yield 0.1 if named else 0.05, Address(column.name, "slug")


def _unlikely(name: str, form: str) -> tuple[bool, bool, bool, bool]:
    return (
        name != "loc",
        _OTHER_ADDRESSES.search(name) is not None,
        _ADDRESS_NAMES.search(name) is None,
        form != "url",
    )


def _origins(texts: Sequence[str], begin: str = "") -> Counter[str]:
    """How often each origin stands in URLs. `begin`: what they lack."""
    found: Counter[str] = Counter()
    for text in texts:
        try:
            found[origin(begin + text)] += 1
        except ValueError:
            continue
    return found


# --- dates ---


class _Dated(Frozen):
    """A column of dates: how it is read, and what that gives (lastmod as text)."""

    column: _Column
    dates: Dates
    read: pa.Array

    def is_no_earlier(self, other: _Dated) -> bool:
        """Whether the dates of nearly all rows are as late as those of another column, or later."""
        both = [
            one[:_DAY] >= two[:_DAY]
            for one, two in zip(self.read.to_pylist(), other.read.to_pylist(), strict=True)
            if one is not None and two is not None
        ]
        return bool(sum(both) >= _NEAR * len(both))


def _dated(column: _Column, now: datetime) -> _Dated | None:
    """How to read a column as dates of the past; None where its values are none."""
    kind = column.values.type
    if not column.filled or pt.is_boolean(kind) or pt.is_nested(kind):
        return None
    if is_text(kind) and column.share(_DATE_LIKE) < MOST:
        return None
    fitting: list[tuple[float, dict[str, str], pa.Array]] = []
    some = column.texts[:_ENOUGH] or [str(value) for value in column.values.drop_null()[:_ENOUGH].to_pylist()]
    for rule in _rules(column):
        if not _may_fit(rule, some):
            continue  # most rules fit nothing, and a wide table has many columns
        found = _read(column, rule, now)
        share = 0.0 if found is None else (len(found) - found.null_count) / column.filled
        if found is not None and share >= MOST:
            fitting.append((share, rule, found))
            if not _is_doubtful(rule):
                break
    if not fitting:
        return None
    share, rule, found = max(fitting, key=lambda one: one[0])
    doubtful = _is_doubtful(rule) and any(one[0] == share and one[2] != found for one in fitting)
    return _Dated(column, Dates(column.name, rule, doubtful, str(column.values.drop_null()[0].as_py())), found)


def _is_doubtful(rule: dict[str, str]) -> bool:
    """Whether another order of day and month may fit as well."""
    return rule.get("format", "").startswith(("%d/%m", "%m/%d"))


def _rules(column: _Column) -> Iterator[dict[str, str]]:
    """What reading a column may need, the plainest first."""
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
        if _DATE_NAMES.search(column.name) or _CHANGE_NAMES.search(column.name):  # else any number could be one
            yield {"unit": "ns"}
            yield {"format": EXCEL, "timezone": "UTC"}


def _may_fit(rule: dict[str, str], texts: Sequence[str]) -> bool:
    """Whether half of some values are of the form that a rule is about."""
    form = rule.get("format")
    expected = _NUMBER if form == EXCEL or "unit" in rule else "" if form is None else pattern(form)
    return 2 * sum(re.match(expected, text) is not None for text in texts) >= len(texts)


def _read(column: _Column, rule: dict[str, str], now: datetime) -> pa.Array | None:
    """The dates of a column by a rule, null where they can't be; None where the rule is of no use for it."""
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


def _changed(dated: Sequence[_Dated]) -> Dates | None:
    """The dates of the last change: those that are, row by row, no earlier than the others."""
    half = [one for one in dated if 2 * one.column.filled >= len(one.column.values)]

    def rank(one: _Dated) -> tuple[bool, int, bool]:
        later = sum(one.is_no_earlier(other) for other in half)
        return one.column.name == "lastmod", later, _CHANGE_NAMES.search(one.column.name) is not None

    return max(half, key=rank).dates if half else None


# --- titles ---


def _title(columns: Sequence[_Column]) -> str | None:
    """The column that most likely has the titles of pages: words, others in most rows."""
    words = [
        column
        for column in columns
        if column.name != "exclude"
        and column.distinct > 0.5
        and column.share(_WORDS) >= MOST
        and column.share(_WRITTEN_DATE) < MOST
    ]
    named = [column for column in words if _TITLE_NAMES.search(column.name)]
    several = [column for column in words if 2 * sum(" " in text for text in column.texts) > len(column.texts)]
    return next((column.name for column in (*named, *several)), None)
