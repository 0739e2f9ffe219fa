"""What can be wrong with the entries of a urlset or of an index: shape, order, dates and hints.

A lastmod is right in a form that both the W3C's note on dates and XSD take; one that only one of them takes is a
warning, and everything else an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of, numbers_of
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.dates import DATE, DAY, W3C, XSD, Written, read
from sitemap_etl.limits import (
    CHANGEFREQS,
    LASTMOD_FIRST_YEAR,
    NS_IMAGE,
    NS_MOBILE,
    NS_NEWS,
    NS_SITEMAP,
    NS_VIDEO,
    NS_XHTML,
)

ABSOLUTE: Final = r"^(?i)https?://[^/?#]"
"""Begins a full URL."""
EXTENSIONS: Final = {NS_IMAGE: "image", NS_VIDEO: "video", NS_NEWS: "news", NS_XHTML: "xhtml", NS_MOBILE: "mobile"}
_ALSO_KNOWN: Final = frozenset(
    {
        "http://www.google.com/schemas/sitemap-pagemap/1.0",
        "http://www.baidu.com/schemas/sitemap-mobile/1/",
        "http://www.w3.org/2001/XMLSchema-instance",
    }
)
_CHILDREN: Final = {"url": ("loc", "lastmod", "changefreq", "priority"), "sitemap": ("loc", "lastmod")}
BOTH: Final = W3C | XSD
CLOCKS: Final = 300
"""Seconds by which two machines' clocks may differ, and which a server may take to make a file."""


@dataclass
class Entries:
    """The entries of a urlset (`url`) or an index (`sitemap`), one row each.

    `elements` are their indexes in the scan; `loc` is a string array ("" where missing), `at` the byte offset
    of each loc (or of the entry), `columns` the other texts (null where missing) with their offsets.
    """

    elements: np.ndarray
    loc: Any
    at: np.ndarray
    columns: dict[str, tuple[Any, np.ndarray]]


def check_namespace(scan: Scan, faults: Faults) -> str:
    """Report a root in a wrong namespace; the namespace that its elements are in all the same."""
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


def check_names(scan: Scan, faults: Faults, ours: str) -> None:
    """Report prefixes without a namespace, misspelt and unknown extensions, text between elements."""
    used, first, counts = np.unique(scan.name, return_index=True, return_counts=True)
    for number, row, count in zip(used.tolist(), first.tolist(), counts.tolist(), strict=True):
        name = scan.names[number]
        if name.uri == ours:
            continue
        known = {"at": int(scan.start[row]), "count": count}
        if name.uri is None:
            faults.add("prefix-undeclared", **known, example=f"<{name.written}>", detail=name.written.partition(":")[0])
        elif name.uri not in EXTENSIONS and name.uri not in _ALSO_KNOWN:
            code = "extension-namespace" if _misspelt(name.uri) else "extension-unknown"
            faults.add(code, **known, example=f"<{name.written}>", detail=name.uri)
    for at, text in scan.strays:
        faults.add("text-stray", at=at, example=text)


def _misspelt(uri: str) -> bool:
    """Whether a namespace is meant to be one of the known, or the protocol's own in a place of an extension."""
    near = uri.lower()
    return any(
        word in near for word in ("sitemap-image", "sitemap-video", "sitemap-news", "1999/xhtml", "schemas/sitemap/")
    )


def entries(scan: Scan, faults: Faults, ours: str, kind: str) -> Entries:
    """The entries of the document, their shape checked. `kind` is `url` or `sitemap`."""
    known = _CHILDREN[kind]
    top = np.flatnonzero(scan.depth == 2)
    wanted = scan.ids(ours, kind)
    is_entry = np.isin(scan.name[top], wanted)
    check_strangers(scan, top[~is_entry & np.isin(scan.name[top], scan.ids(ours))], faults)
    elements = top[is_entry]
    below, owner = scan.children(elements)
    rank = np.full(len(scan.names), len(known), np.int64)
    for place, local in enumerate(known):
        rank[scan.ids(ours, local)] = place
    ranks = rank[scan.name[below]]
    check_order(scan, below, owner, ranks, faults, repeatable=(len(known),))
    _unknown(scan, below, ranks == len(known), faults, ours)
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
) -> None:
    """Report elements that stand after one they should precede, or a second time.

    `below` are elements, `owner` the entry of each, `ranks` the place that the schema gives it.
    """
    if len(below) < 2:
        return
    same = owner[1:] == owner[:-1]
    late = np.flatnonzero(same & (ranks[1:] < ranks[:-1])) + 1
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


def _unknown(scan: Scan, below: np.ndarray, others: np.ndarray, faults: Faults, ours: str) -> None:
    """Report elements of the protocol's namespace that are none of its elements, and elements inside of values."""
    strange = below[others & np.isin(scan.name[below], scan.ids(ours))]
    inside, _ = scan.children(below[~others])
    check_strangers(scan, np.concatenate((strange, inside)), faults)


def check_strangers(scan: Scan, elements: np.ndarray, faults: Faults) -> None:
    """Report elements that don't belong where they are."""
    if len(elements):
        first = int(elements.min())
        name = scan.names[scan.name[first]].written
        faults.add("element-unknown", at=int(scan.start[first]), example=f"<{name}>", count=len(elements))


def column(
    scan: Scan, elements: np.ndarray, below: np.ndarray, owner: np.ndarray, chosen: np.ndarray
) -> tuple[Any, np.ndarray]:
    """The text of each entry's first such child (null where it has none) and its place."""
    rows, first = np.unique(owner[chosen], return_index=True)
    found = below[chosen][first]
    at = scan.start[elements].copy()
    at[rows] = scan.start[found]
    if len(rows) == len(elements):
        return scan.text(found), at
    place = np.zeros(len(elements), np.int64)
    place[rows] = np.arange(len(rows))
    absent = np.ones(len(elements), bool)
    absent[rows] = False
    return scan.text(found).take(pa.array(place, mask=absent)), at


def check_hints(found: Entries, faults: Faults) -> None:
    """Report invalid changefreqs and priorities. Whitespace around a changefreq is invalid: the XSD preserves it."""
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
    """Whether the text is an xsd:decimal of 0.0 to 1.0; blanks around it are collapsed."""
    text = text.strip(" \t\r\n").removeprefix("+")
    digits = text.replace(".", "", 1)
    return digits.isascii() and digits.isdigit() and 0 <= float(text) <= 1


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
