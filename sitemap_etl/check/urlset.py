"""Check the entries of a urlset or an index: structure, order, dates and hints.

A lastmod is valid if both the W3C note on dates and XSD allow its format. If only one of them does, it is a warning;
otherwise an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of, numbers_of
from sitemap_etl.check.bounds import ROWS
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.dates import DATE, DAY, W3C, XSD, Written, read
from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import (
    CHANGEFREQS,
    LASTMOD_FIRST_YEAR,
    NS_SITEMAP,
)

ABSOLUTE: Final = r"^(?i)https?://[^/?#]"
"""Beginning of a full URL."""
_CHILDREN: Final = {"url": ("loc", "lastmod", "changefreq", "priority"), "sitemap": ("loc", "lastmod")}
BOTH: Final = W3C | XSD
CLOCKS: Final = 300
"""Tolerance in seconds for the clocks of two machines, and for the time to generate a file."""


@dataclass
class Entries:
    """Entries of a urlset (`url`) or an index (`sitemap`), with one row for each.

    elements: indexes in the scan.
    loc: a string array ("" if missing).
    at: byte offset of each loc, or of the entry.
    columns: the other texts (null if missing) with their offsets.
    """

    elements: np.ndarray
    loc: Any
    at: np.ndarray
    columns: dict[str, tuple[Any, np.ndarray]]


def check_namespace(scan: Scan, faults: Faults) -> str:
    """Report a root in a wrong namespace, and return the namespace of the protocol's elements in this document."""
    uri = scan.root.uri
    if uri == NS_SITEMAP:
        return NS_SITEMAP
    at = int(scan.start[0])
    if uri is None:
        faults.add("prefix-undeclared", at=at, example=scan.root.written)
    elif uri:
        faults.add("namespace-wrong", at=at, example=uri)
    else:
        faults.add("namespace-missing", at=at, example=f"<{scan.root.written}>")
    return uri or ""


def entries(scan: Scan, faults: Faults, ours: str, kind: str) -> Entries:
    """Return the entries of the document, and check their structure. `kind` is `url` or `sitemap`."""
    known = _CHILDREN[kind]
    top = np.flatnonzero(scan.depth == 2)
    elements = top[np.isin(scan.name[top], scan.ids(ours, kind))]
    if len(elements) > ROWS:
        faults.add("partly-read", at=int(scan.start[elements[ROWS]]), detail=f"it has more than {ROWS:,} entries")
        elements = elements[:ROWS]
    below, owner = scan.children(elements)
    rank = np.full(len(scan.names), len(known), np.int64)
    rank[scan.ids(ours)] = -1  # of the protocol, but not allowed here
    for place, local in enumerate(known):
        rank[scan.ids(ours, local)] = place
    ranks = rank[scan.name[below]]
    if (ranks < 0).any():
        below, owner, ranks = (column[ranks >= 0] for column in (below, owner, ranks))
    check_order(scan, below, owner, ranks, faults, repeatable=(len(known),))
    columns = {local: column(scan, elements, below, owner, ranks == place) for place, local in enumerate(known)}
    loc, at = columns.pop("loc")
    loc = pc.fill_null(loc, "")
    faults.rows("loc-missing", pc.equal(pc.utf8_trim_whitespace(loc), ""), None, at)
    return Entries(elements, loc, at, columns)


def check_order(
    scan: Scan,
    below: np.ndarray,
    owner: np.ndarray,
    ranks: np.ndarray,
    faults: Faults,
    *,
    repeatable: tuple[int, ...] = (),
    other: np.ndarray | None = None,
) -> None:
    """Report repeated elements, and elements after one that they should precede.

    below: elements.
    owner: the entry of each element.
    ranks: the position of each element in the schema.
    other: positions in an alternative order.
    """
    if len(below) < 2:
        return
    same = owner[1:] == owner[:-1]
    late = np.flatnonzero(same & (ranks[1:] < ranks[:-1])) + 1
    if other is not None and len(late):
        late = late[np.isin(owner[late], owner[1:][same & (other[1:] < other[:-1])])]
    if len(late):
        name, before = (scan.names[scan.name[below[late[0] - back]]].written for back in (0, 1))
        places = scan.start[below[late]]
        example = f"<{name}> after <{before}>"
        faults.add("element-order", at=int(places[0]), example=example, count=len(late), places=places)
    key = owner * (int(ranks.max()) + 1) + ranks
    once = np.flatnonzero(~np.isin(ranks, repeatable))
    order = once[np.argsort(key[once], kind="stable")]
    again = np.sort(order[1:][key[order][1:] == key[order][:-1]])
    if len(again):
        name = scan.names[scan.name[below[again[0]]]].written
        places = scan.start[below[again]]
        faults.add("element-repeated", at=int(places[0]), example=f"<{name}>", count=len(again), places=places)


def column(
    scan: Scan, elements: np.ndarray, below: np.ndarray, owner: np.ndarray, chosen: np.ndarray
) -> tuple[Any, np.ndarray]:
    """Return the text of each entry's first such child (null if it has none) and its offset."""
    rows, first = np.unique(owner[chosen], return_index=True)
    found = below[chosen][first]
    at = scan.start[elements].astype(np.int64)
    at[rows] = scan.start[found]
    if len(rows) == len(elements):
        return scan.text(found), at
    place = np.zeros(len(elements), np.int64)
    place[rows] = np.arange(len(rows))
    absent = np.ones(len(elements), bool)
    absent[rows] = False
    return scan.text(found).take(pa.array(place, mask=absent)), at


def check_hints(found: Entries, faults: Faults) -> None:
    """Report invalid changefreqs and priorities. Whitespace around a changefreq is invalid, because the XSD preserves
    it.
    """
    words, at = found.columns["changefreq"]
    if words.null_count < len(words):
        odd = pc.invert(pc.is_in(words, pa.array(CHANGEFREQS)))
        faults.rows("changefreq-invalid", pc.and_(odd, words.is_valid()), words, at)
    numbers, at = found.columns["priority"]
    if numbers.null_count < len(numbers):
        distinct = numbers.dictionary_encode()
        wrong = np.array(
            [t is not None and not _is_priority(t) for t in distinct.dictionary.to_pylist()] + [False], bool
        )
        codes = numbers_of(distinct.indices, len(wrong) - 1)
        faults.rows("priority-invalid", wrong[codes], numbers, at)


def _is_priority(text: str) -> bool:
    """Return True if the text is an xsd:decimal from 0.0 to 1.0. Surrounding whitespace is ignored."""
    text = text.strip(" \t\r\n").removeprefix("+")
    digits = text.replace(".", "", 1)
    return digits.isascii() and digits.isdigit() and 0 <= float(text) <= 1


class Lastmods(Frozen):
    """Summary of a file's lastmods.

    oldest, newest: in seconds since 1970.
    same: True if all are equal.
    now: True if all are the time of reading.
    at, example: of the first one.
    """

    count: int
    oldest_text: str
    newest_text: str
    oldest: int
    newest: int
    newest_daily: bool
    same: bool
    now: bool
    at: int
    example: str


def check_lastmods(texts: Any, offsets: np.ndarray, faults: Faults, now: datetime) -> Lastmods | None:
    """Report problems of lastmods (a string array, null: none), and return their summary."""
    present = texts.is_valid()
    if not pc.any(present).as_py():
        return None
    trimmed = pc.utf8_trim_whitespace(texts)
    faults.rows("loc-space", pc.not_equal(trimmed, texts), texts, offsets, detail="in lastmod")
    dates = read(trimmed, BOTH)
    right = fits_both(dates)
    bad = mask_of(present) & ~right
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
        oldest=int(seconds[oldest]),
        newest=int(seconds[newest]),
        newest_daily=bool(daily[newest]),
        same=bool((seconds == seconds[0]).all()),
        now=bool(near.all()),
        at=int(offsets[rows[0]]),
        example=trimmed[int(rows[0])].as_py(),
    )


def fits_both(dates: Written) -> np.ndarray:
    """Return which texts are dates by both standards (boolean)."""
    right: np.ndarray = (dates.forms & BOTH) == BOTH
    return right


def in_future(dates: Written, now: datetime) -> np.ndarray:
    """Return which dates are in the future (boolean): times by more than `CLOCKS`, days by more than a day."""
    moment = int(now.timestamp())
    tomorrow = int((now.date() + timedelta(days=1) - date(1970, 1, 1)).days) * DAY
    late: np.ndarray = np.where(dates.kind == DATE, dates.seconds > tomorrow, dates.seconds > moment + CLOCKS)
    return late
