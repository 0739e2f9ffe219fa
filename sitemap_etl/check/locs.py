"""What can be wrong with URLs, looked for in whole columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, grouped, mask_of, numbers_of, occurs, single
from sitemap_etl.check.report import Faults
from sitemap_etl.limits import LOC_LENGTH
from sitemap_etl.urls import canonical_urls, origin
from sitemap_etl.urls.parameters import names

_ORIGIN: Final = r"^(?P<origin>[A-Za-z][A-Za-z0-9+.\-]*://[^/?#\\]*)"
_ALLOWED: Final = r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%\x80-\x{10FFFF}]"
"""What neither RFC 3986 nor, for the characters beyond ASCII, RFC 3987 allows in a URL."""
_STRAY_PERCENT: Final = r"%([^0-9A-Fa-f]|[0-9A-Fa-f][^0-9A-Fa-f]|.?$)"
_PATH_SESSION: Final = r"(?i);jsessionid=|/\((?:[afx]\([a-z0-9_-]*\))*s\([a-z0-5]{24}\)"


@dataclass
class Away:
    """URLs that a file may not list by its location alone; judged once all robots.txt files are known.

    `origin` is theirs; `at`, `line` and `example` are of the first.
    """

    code: str
    origin: str
    count: int
    at: int
    example: str
    line: int | None = None


@dataclass
class Place:
    """The location of a file and its URLs elsewhere. `address` is None if it is unknown."""

    address: str | None = None
    away: list[Away] = field(default_factory=list)
    origins: dict[str, int] = field(default_factory=dict)


def check_locs(locs: Any, offsets: np.ndarray, faults: Faults, place: Place, *, scope: bool = True) -> None:
    """Report what is wrong with the URLs: `locs` as written (a string array, none blank), `offsets` their positions.

    `place` is filled in. `scope`: whether they must be below the file's folder (feeds need not).
    """
    if not len(locs):
        return
    trimmed = pc.utf8_trim_whitespace(locs)
    faults.rows("loc-space", pc.not_equal(trimmed, locs), locs, offsets)
    _length(trimmed, offsets, faults)
    well = _origins(trimmed, offsets, faults, place)
    if scope and place.address is not None:
        _scope(trimmed, offsets, place)
    well = _characters(trimmed, well, offsets, faults)
    _parameters(trimmed, offsets, faults)
    _canonical(trimmed, well, offsets, faults)


def _length(locs: Any, offsets: np.ndarray, faults: Faults) -> None:
    long = pc.greater(pc.binary_length(locs), LOC_LENGTH)
    if pc.any(long).as_py():
        faults.rows("loc-length", pc.greater(pc.utf8_length(locs), LOC_LENGTH), locs, offsets)


def _origins(locs: Any, offsets: np.ndarray, faults: Faults, place: Place) -> np.ndarray:
    """Report URLs by their origin; the rows whose origin is fine (boolean)."""
    home = _home(locs, place)
    at_home: np.ndarray = mask_of(pc.starts_with(locs, home + "/"))
    well = at_home.copy()
    if n := int(at_home.sum()):
        place.origins[home] = n
    rest = np.flatnonzero(~at_home)
    if not len(rest):
        return well
    others = locs.take(pa.array(rest))
    found = pc.extract_regex(others, _ORIGIN)
    encoded = pc.struct_field(found, "origin").dictionary_encode()
    written = encoded.dictionary.to_pylist()
    order, cuts = grouped(numbers_of(encoded.indices, len(written)), len(written) + 1)
    for code, text in enumerate([*written, None]):
        rows = rest[order[cuts[code] : cuts[code + 1]]]
        if not len(rows):
            continue
        fault, where = _judged(text, locs[int(rows[0])].as_py(), home, known=place.address is not None)
        if where:
            place.origins[where] = place.origins.get(where, 0) + len(rows)
        first = locs[int(rows[0])].as_py()
        if fault is None:
            well[rows] = True
        elif fault == "foreign-host":
            well[rows] = True
            place.away.append(Away(fault, where, len(rows), int(offsets[rows[0]]), first))
        else:
            well[rows] = fault in {"foreign-scheme", "mixed-hosts"}
            detail = f"{where}, but most URLs are on {home}" if fault in {"foreign-scheme", "mixed-hosts"} else ""
            faults.rows(fault, rows, locs, offsets, detail=detail)
    return well


def _home(locs: Any, place: Place) -> str:
    """The origin that the URLs should have: the file's own, or that of the most."""
    if place.address is not None:
        return origin(place.address)
    sample = locs if len(locs) <= 1000 else locs.take(pa.array(np.linspace(0, len(locs) - 1, 1000).astype(np.int64)))
    found = pc.struct_field(pc.extract_regex(sample, _ORIGIN), "origin").drop_null()
    counts = sorted(pc.value_counts(found).to_pylist(), key=lambda c: (-c["counts"], c["values"]))
    for count in counts:
        if where := _origin(count["values"]):
            return where
    return "https://."


def _judged(text: str | None, whole: str, home: str, *, known: bool) -> tuple[str | None, str]:
    """The fault of URLs whose scheme and authority are `text`, and their canonical origin where there is one."""
    scheme, colon, _ = (text or whole).partition(":")
    where = _origin(text) if text is not None else ""
    fault: str | None
    if colon and scheme.isalnum() and scheme[0].isalpha() and scheme.lower() not in {"http", "https"}:
        fault = "loc-scheme"
    elif text is None:
        fault = "loc-relative"
    elif "@" in text:
        fault = "loc-user"
    elif not where:
        fault = "loc-invalid"
    elif where == home:
        fault = None
    elif where.partition("://")[2] == home.partition("://")[2]:
        fault = "foreign-scheme"
    else:
        fault = "foreign-host" if known else "mixed-hosts"
    return fault, where


@cache
def _origin(text: str) -> str:
    try:
        return origin(text)
    except ValueError:
        return ""


def _scope(locs: Any, offsets: np.ndarray, place: Place) -> None:
    """Collect the URLs of the file's origin that are not below its folder."""
    assert place.address is not None
    home = origin(place.address)
    path = "/" + place.address.partition("://")[2].partition("/")[2]
    folder = home + path.partition("?")[0].rpartition("/")[0] + "/"
    if folder == home + "/":
        return
    outside = mask_of(pc.and_not(pc.starts_with(locs, home + "/"), pc.starts_with(locs, folder)))
    rows = np.flatnonzero(outside)
    if len(rows):
        first = int(rows[0])
        place.away.append(Away("out-of-scope", home, len(rows), int(offsets[first]), locs[first].as_py()))


def _characters(locs: Any, well: np.ndarray, offsets: np.ndarray, faults: Faults) -> np.ndarray:
    """Report invalid characters; returns the rows still to be compared with their canonical form."""
    data = bytes_of(locs)
    bad = mask_of(pc.match_substring_regex(locs, _ALLOWED))
    if occurs(data, ord("%")):
        bad |= mask_of(pc.match_substring_regex(locs, _STRAY_PERCENT))
    bad &= well
    faults.rows("loc-characters", bad, locs, offsets)
    ascii_ = mask_of(pc.string_is_ascii(locs))
    faults.rows("loc-not-ascii", ~ascii_ & ~bad, locs, offsets)
    well = well & ~bad & ascii_
    if occurs(data, ord("#")):
        fragment = mask_of(pc.match_substring(locs, "#"))
        faults.rows("loc-fragment", fragment, locs, offsets)
        well &= ~fragment
    if occurs(data, ord("&")):
        twice = mask_of(pc.match_substring(locs, "&amp;"))
        faults.rows("loc-escaped-twice", twice, locs, offsets)
    return well


def _parameters(locs: Any, offsets: np.ndarray, faults: Faults) -> None:
    """Report session ids and tracking parameters."""
    asked = pc.match_substring_regex(locs, "[?;(]")
    if not pc.any(asked).as_py():
        return
    for code, list_ in (("loc-session", "sessions"), ("loc-tracking", "tracking")):
        faults.rows(code, pc.match_substring_regex(locs, _pattern(list_)), locs, offsets)


@cache
def _pattern(list_: str) -> str:
    """A pattern for a parameter of the list in a query, and for sessions in a path."""
    exact, families = names(frozenset({list_}))
    either = "|".join([*(re.escape(n) for n in sorted(exact)), *(f"{re.escape(f)}[^=&#]*" for f in families)])
    query = rf"(?i)[?&](?:{either})(?:=|&|#|$)"
    return f"{query}|{_PATH_SESSION}" if list_ == "sessions" else query


def _canonical(locs: Any, well: np.ndarray, offsets: np.ndarray, faults: Faults) -> None:
    """Report URLs that can't be read, and those that RFC 3986 would write differently."""
    rows = np.flatnonzero(well)
    if not len(rows):
        return
    chosen = locs if len(rows) == len(locs) else locs.take(pa.array(rows))
    result = canonical_urls(chosen)
    canonical = pc.fill_null(single(result.loc), "")
    reasons = single(result.reason)
    for reason in pc.unique(reasons.drop_null()).to_pylist():
        if reason not in {"too long", "missing loc"}:
            faults.rows("loc-invalid", pc.equal(reasons, reason), chosen, offsets[rows], detail=reason)
    differs = mask_of(pc.and_(pc.not_equal(canonical, chosen), pc.is_null(reasons)))
    if differs.any():
        first = int(np.flatnonzero(differs)[0])
        faults.rows(
            "loc-not-canonical",
            differs,
            chosen,
            offsets[rows],
            detail=f"the canonical form is {canonical[first].as_py()}",
        )
