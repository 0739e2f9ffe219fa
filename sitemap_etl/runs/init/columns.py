"""Detect the columns of a sample that hold addresses, dates, images and titles.

Values decide, and names if columns are alike. For dates, names decide first (`dates`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import field
from datetime import datetime
from typing import Final

import pyarrow as pa

from sitemap_etl.arrow import column_of, is_text
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.column import MOST, Column
from sitemap_etl.runs.init.dates import Dates, find_dates, is_called_a_change
from sitemap_etl.urls import origin

_NEAR: Final = 0.95
"""Ratio of scores above which columns are alike."""
_URL: Final = re.compile(r"https?://[^\s/]\S*", re.IGNORECASE)
_PATH: Final = re.compile(r"/(?!/)\S*")
_BARE: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}/\S*", re.IGNORECASE)
_SLUG: Final = re.compile(r"(?=.*[^\W\d_])(?:\.?/)?[\w.~%-]+(?:/[\w.~%-]+)*/?")
_ADDRESS_NAMES: Final = re.compile(
    r"loc|url|uri|link|permalink|canonical|href|address|adresse|page|path|pfad|slug|handle", re.IGNORECASE
)
_OTHER_ADDRESSES: Final = re.compile(r"amp|mobile|api|admin|edit|image|img|bild|thumb|brand|parent", re.IGNORECASE)
_WORDS: Final = re.compile(r"(?=.*[^\W\d_]{2})[^\n{}<>]{2,150}")
_WRITTEN_DATE: Final = re.compile(
    r"(?:[a-z]+\.?,? )?(?:\d{1,2}\.? (?:MONTH)[a-z]*\.?|(?:MONTH)[a-z]*\.? \d{1,2}\b),? \d.*".replace(
        "MONTH", "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
    ),
    re.IGNORECASE,
)
"""Dates in words. They are not titles, even if they are not dates of changes."""
_TITLE_NAMES: Final = re.compile(r"title|titel|titre|titulo|headline|name", re.IGNORECASE)
_CONTENT_NAMES: Final = re.compile(
    r"(?:^|[\W_])(?:name|title|titel|titre|titulo|headline|h1|description|descr|desc|body|content|html|text|summary|excerpt|price|hash|checksum|sha\d*|md5|etag|version"
    r"|beschreibung|inhalt|preis|contenu|prix|descripcion|contenido|precio|descricao|conteudo|preco|descrizione"
    r"|contenuto|prezzo|omschrijving|inhoud|prijs|beskrivning|pris|opis|cena)(?:$|[\W_])|(?<=[a-z])(?:Body|Html|Price|Hash)$",
    re.IGNORECASE,
)
"""Names of columns whose values are shown on the page, or represent them."""


class Address(Frozen):
    """The column with the addresses of pages. `form`: how they are written."""

    column: str
    form: str  # url, path, bare (a host without https://), slug
    origins: Counter[str] = field(default_factory=Counter)  # how often each stands there, of URLs and bare addresses


class Found(Frozen):
    """Columns that were detected in a sample. `same_date`: a column with the date of the export, in all rows or in a
    folder.

    `never`: date columns that are not about changes, by their names. `begun`: the date since which the page exists.
    `contents`: columns for a fingerprint. `unread`: a column that is named like a modification date but has no dates.
    `flags`: columns that can exclude rows. `keys`: columns with a different value in every row.
    """

    address: Address | None = None
    dates: Dates | None = None
    same_date: str | None = None
    never: tuple[str, ...] = ()
    begun: Dates | None = None
    contents: tuple[str, ...] = ()
    unread: str | None = None
    images: str | None = None
    title: str | None = None
    keys: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


def find(rows: pa.Table, now: datetime, site: str | None = None, folders: Collection[str] = ()) -> Found:
    """Detect the columns of a sample.

    `now`: later dates are not dates of changes. `site`: the origin of pages. `folders`: partition columns, whose dates
    are dates of exports.
    """
    if not rows.num_rows:
        return Found(address=Address("loc", "path") if "loc" in rows.column_names else None)
    columns = [Column(name, column_of(rows.combine_chunks(), name)) for name in rows.column_names]
    images = [column for column in columns if column.images >= MOST]
    address = _address([column for column in columns if column not in images], site)
    dating = find_dates(columns, now, folders)
    taken = {None if address is None else address.column, *dating.names, *(column.name for column in images)}
    left = [column for column in columns if column.name not in taken]
    called = [column.name for column in left if is_called_a_change(column.name)] if dating.changed is None else []
    title = _title(left)
    return Found(
        address=address,
        dates=dating.changed,
        same_date=dating.same,
        never=dating.never,
        begun=dating.begun,
        contents=tuple(column.name for column in left if _is_content(column, title)),
        unread=called[0] if called else None,
        images=images[0].name if images else None,
        title=title,
        keys=tuple(column.name for column in left if column.is_key),
        flags=tuple(column.name for column in columns if column.is_flag),
    )


# --- addresses ---


def _address(columns: Sequence[Column], site: str | None) -> Address | None:
    """Return the column that most likely has the addresses of pages."""
    scored = sorted(_scored(columns, site), key=lambda one: -one[0])
    if not scored:
        return None
    best = scored[0][0]
    alike = [address for score, address in scored if score >= best * _NEAR]
    return min(alike, key=lambda one: _unlikely(one.column, one.form))


def _scored(columns: Sequence[Column], site: str | None) -> Iterator[tuple[float, Address]]:
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
    """Count the origins of URLs. `begin`: the scheme, if the texts lack it."""
    found: Counter[str] = Counter()
    for text in texts:
        try:
            found[origin(begin + text)] += 1
        except ValueError:
            continue
    return found


# --- titles ---


def _title(columns: Sequence[Column]) -> str | None:
    """Return the column that most likely has the titles of pages: words that differ in most rows."""
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


def _is_content(column: Column, title: str | None) -> bool:
    """Return True if a column has shown content by its name: a title, a text, a price, or their hash."""
    return column.name == title or (bool(column.filled) and _CONTENT_NAMES.search(column.name) is not None)
