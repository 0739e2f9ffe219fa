"""Find problems of URLs, in whole columns."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, mask_of, numbers_of, occurs, offsets_of, single
from sitemap_etl.check.bounds import HOSTS
from sitemap_etl.check.place import Place
from sitemap_etl.check.report import Faults
from sitemap_etl.hashes import hash64
from sitemap_etl.limits import LOC_LENGTH
from sitemap_etl.urls import canonical_urls, made_of_no_address, origin, suspected
from sitemap_etl.urls.parameters import names
from sitemap_etl.web import is_public

_ORIGIN: Final = r"^(?P<origin>[A-Za-z][A-Za-z0-9+.\-]*://[^/?#\\]*)"
_BEGIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^/?#\\]*/")
_EXAMPLE: Final = re.compile(r"://(?:[^/]*\.)?example\.(?:com|net|org)(?::\d+)?$")
"""Pattern of an origin on a reserved host (RFC 2606, section 3)."""
_BLOCK: Final = 1 << 16
_JUDGED_BYTES: Final = 1 << 22
"""Bytes of URLs that are judged at a time. Patterns and canonical forms take several times as much memory."""
_ORIGINS_KEPT: Final = 10_000
"""Origins in the cache."""
_BEYOND: Final = -2
_ORIGINS_GUESSED: Final = 8
"""Origins that are searched one by one. Nearly all files have fewer, and this is several times as fast."""
_ALLOWED: Final = r"[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%\x80-\x{10FFFF}]"
"""Characters that a URL can't have by RFC 3986 or, beyond ASCII, by RFC 3987."""
_PLAIN: Final = bytes(set(range(0x21, 256)) - {*b'"<>\\^`{|}', 0x7F})
"""Bytes that a URL can have. If a column has no others, its URLs are not searched one by one."""
_STRAY_PERCENT: Final = r"%([^0-9A-Fa-f]|[0-9A-Fa-f][^0-9A-Fa-f]|.?$)"
_SUSPECTED: Final = {
    "loc with a template": "loc-placeholder",
    "loc in scientific notation": "loc-scientific",
    "loc in a wrong encoding": "loc-mojibake",
    "loc percent-encoded twice": "loc-encoded-twice",
    "loc with an empty segment": "loc-empty-segment",
    "loc with the host in its path": "loc-host-in-path",
    "loc with an escaped backslash": "loc-backslash",
}
"""Codes for the notes of a run. `loc-escaped-twice` and raw backslashes are found with the characters."""
_LOCAL_NAMES: Final = re.compile(
    r"[^.]+|.*\.(?:localhost|local|localdomain|internal|intranet|lan|corp|home|home\.arpa|test|invalid)", re.IGNORECASE
)
"""Names without a dot, and names below domains that the public DNS does not have (RFC 2606, 6762, 8375, ICANN)."""
_PATH_SESSION: Final = r"(?i);jsessionid=|/\((?:[afx]\([a-z0-9_-]*\))*s\([a-z0-5]{24}\)"


@dataclass
class _Known:
    """Facts that the blocks of a file share.

    home: the expected origin of the URLs.
    numbers: the origins as written, and their numbers.
    judged: fault and canonical origin of each number.
    canonical: the first canonical form that differs, in words.
    """

    home: str
    numbers: dict[str, int] = field(default_factory=dict)
    judged: dict[int, tuple[str | None, str]] = field(default_factory=dict)
    canonical: str = ""


def check_locs(locs: Any, offsets: np.ndarray, faults: Faults, place: Place, *, scope: str = "out-of-scope") -> None:
    """Report mistakes in the URLs: `locs` as written (a string array, none blank), `offsets` their positions.

    `place` is filled in. `scope`: the code for URLs that are not below the file's folder, or "" if any folder is
    allowed.
    """
    if not len(locs):
        return
    known = _Known(_home(locs, place))
    ends = offsets_of(locs)[1:] - offsets_of(locs)[0]
    cuts = np.searchsorted(ends, np.arange(_JUDGED_BYTES, ends[-1], _JUDGED_BYTES), "right")
    for begin, end in pairwise(np.unique([0, *cuts, len(locs)]).tolist()):
        _check_block(locs[begin:end], offsets[begin:end], faults, place, known, scope)


def _check_block(locs: Any, offsets: np.ndarray, faults: Faults, place: Place, known: _Known, scope: str) -> None:
    trimmed = pc.utf8_trim_whitespace(locs)
    faults.rows("loc-space", pc.not_equal(trimmed, locs), locs, offsets)
    _length(trimmed, offsets, faults)
    well = _origins(trimmed, offsets, faults, place, known)
    if scope and place.address is not None:
        _scope(trimmed, offsets, place, scope)
    well = _characters(trimmed, well, offsets, faults)
    _suspected(single(trimmed), offsets, faults, known.home)
    _parameters(trimmed, offsets, faults)
    _canonical(trimmed, well, offsets, faults, known)


def check_addresses(
    code: str, urls: Any, offsets: np.ndarray, faults: Faults, *, unlikely: str = ""
) -> tuple[list[str], np.ndarray]:
    """Report absolute URLs that are not pages (images, alternates) if their form is wrong.

    Return the origins as written, and each URL's number of them, as `_numbered` does. `unlikely`: code of URLs that
    are most likely not as they were meant.
    """
    if pc.any(pc.greater(pc.binary_length(urls), LOC_LENGTH)).as_py():
        long = pc.greater(pc.utf8_length(urls), LOC_LENGTH)
        faults.rows(code, long, urls, offsets, detail=f"longer than {LOC_LENGTH:,} characters")
    faults.rows(code, _bad_characters(urls), urls, offsets, detail="characters that must be escaped")
    if unlikely:
        for note, mask in suspected(single(urls), None):
            faults.rows(unlikely, mask, urls, offsets, detail=note.removeprefix("loc "))
    numbers: dict[str, int] = {}
    codes = _numbered(urls, offsets, faults, numbers)
    written = list(numbers)
    users = [number for number, text in enumerate(written) if "@" in text]
    invalid = [number for number, text in enumerate(written) if "@" not in text and not canonical_origin(text)]
    for wrong, detail in ((users, "a user name or password"), (invalid, "the host is invalid")):
        if wrong:
            faults.rows(code, np.isin(codes, wrong), urls, offsets, detail=detail)
    return written, codes


def check_slashes(locs: Any, hashes: np.ndarray, offsets: np.ndarray, faults: Faults) -> tuple[np.ndarray, np.ndarray]:
    """Report URLs that are also listed with a slash at their end; `hashes` are those of `locs`, which are trimmed.

    Return the URLs with such a slash, for the comparison with other files: hashes without it, and byte offsets.
    """
    with_slash = mask_of(pc.ends_with(locs, "/"))
    if not with_slash.any():
        return hashes[:0], offsets[:0]
    without = hash64(pc.utf8_rtrim(locs.filter(pa.array(with_slash)), "/"))
    if not with_slash.all():
        faults.rows("loc-slash", np.isin(hashes, without), locs, offsets)
    return without, offsets[with_slash]


def _length(locs: Any, offsets: np.ndarray, faults: Faults) -> None:
    long = pc.greater(pc.binary_length(locs), LOC_LENGTH)
    if pc.any(long).as_py():
        faults.rows("loc-length", pc.greater(pc.utf8_length(locs), LOC_LENGTH), locs, offsets)


def _origins(locs: Any, offsets: np.ndarray, faults: Faults, place: Place, known: _Known) -> np.ndarray:
    """Report URLs by their origin; the rows whose origin is fine (boolean)."""
    home, has_address = known.home, place.address is not None
    at_home: np.ndarray = mask_of(pc.starts_with(locs, home + "/"))
    if not has_address and is_local(home):
        faults.rows("loc-private", at_home, locs, offsets)
    if not has_address and _EXAMPLE.search(home):
        faults.rows("loc-example", at_home, locs, offsets)
    well = at_home.copy()
    if n := int(at_home.sum()):
        place.origins = {home: 0} | place.origins
        place.origins[home] += n
    rest = np.flatnonzero(~at_home)
    if not len(rest):
        return well
    codes = _numbered(locs.take(pa.array(rest)), offsets[rest], faults, known.numbers)
    written = list(known.numbers)
    order = np.argsort(codes, kind="stable")
    present, starts = np.unique(codes[order], return_index=True)
    for code, places in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        if code == len(written):
            continue
        rows = rest[places]
        if code not in known.judged:
            text = written[code] if code >= 0 else None
            known.judged[code] = _judged(text, locs[int(rows[0])].as_py(), home, known=has_address)
        fault, where = known.judged[code]
        if where:
            place.origins[where] = place.origins.get(where, 0) + len(rows)
        if fault is None:
            well[rows] = True
        elif fault == "foreign-host":
            well[rows] = True
            place.add(fault, where, rows, locs, offsets)
        else:
            well[rows] = fault in {"foreign-scheme", "mixed-hosts", "loc-private", "loc-example"}
            detail = f"{where}, but most URLs are on {home}" if fault in {"foreign-scheme", "mixed-hosts"} else ""
            faults.rows(fault, rows, locs, offsets, detail=detail)
    return well


def _home(locs: Any, place: Place) -> str:
    """Return the expected origin of the URLs: the file's own, or the most frequent one."""
    if place.address is not None:
        return origin(place.address)
    sample = locs if len(locs) <= 1000 else locs.take(pa.array(np.linspace(0, len(locs) - 1, 1000).astype(np.int64)))
    found = pc.struct_field(pc.extract_regex(pc.utf8_trim_whitespace(sample), _ORIGIN), "origin").drop_null()
    counts = sorted(pc.value_counts(found).to_pylist(), key=lambda c: (-c["counts"], c["values"]))
    origins = [where for count in counts if (where := canonical_origin(count["values"]))]
    if origins:
        return min(origins, key=is_local)  # the first that is public, else the first
    return "https://."


def _judged(text: str | None, whole: str, home: str, *, known: bool) -> tuple[str | None, str]:
    """Return the fault of URLs with this scheme and authority, and their canonical origin, or ""."""
    scheme, colon, _ = (text or whole).partition(":")
    where = canonical_origin(text) if text is not None else ""
    fault: str | None
    if colon and scheme.isalnum() and scheme[0].isalpha() and scheme.lower() not in {"http", "https"}:
        fault = "loc-scheme"
    elif text is None:
        fault = "loc-relative"
    elif "@" in text:
        fault = "loc-user"
    elif not where:
        fault = "loc-invalid"
    elif _EXAMPLE.search(where) and not (known and _EXAMPLE.search(home)):
        fault = "loc-example"
    elif where == home:
        fault = "loc-private" if not known and is_local(home) else None
    elif is_local(where) and not (known and is_local(home)):
        fault = "loc-private"
    elif where.partition("://")[2] == home.partition("://")[2]:
        fault = "foreign-scheme"
    else:
        fault = "foreign-host" if known else "mixed-hosts"
    return fault, where


def _numbered(urls: Any, offsets: np.ndarray, faults: Faults, numbers: dict[str, int]) -> np.ndarray:
    """Return the number of each URL's origin: -1 without an origin. New origins get the next numbers in `numbers`.

    If there are more than `HOSTS` and a few, URLs with any other origin have the number of origins, and are reported.
    """
    codes = np.full(len(urls), -1, np.int32)
    rest = np.arange(len(urls))
    for _ in range(_ORIGINS_GUESSED):
        guess = _BEGIN.match(urls[int(rest[0])].as_py()) if len(rest) else None
        if guess is None or _number(numbers, guess[0][:-1]) == _BEYOND:
            break
        here = mask_of(pc.starts_with(urls, guess[0]))[rest]
        codes[rest[here]] = numbers[guess[0][:-1]]
        rest = rest[~here]
    for at in range(0, len(rest), _BLOCK):
        rows = rest[at : at + _BLOCK]
        found = pc.struct_field(pc.extract_regex(urls.take(pa.array(rows)), _ORIGIN), "origin").dictionary_encode()
        of_texts = np.array([*(_number(numbers, text) for text in found.dictionary.to_pylist()), -1], np.int32)
        codes[rows] = of_texts[numbers_of(found.indices, len(of_texts) - 1)]
    beyond = codes == _BEYOND
    if beyond.any():
        codes[beyond] = len(numbers)
        faults.rows("partly-read", beyond, urls, offsets, detail=f"it has URLs on more than {HOSTS:,} hosts")
    return codes


def _number(numbers: dict[str, int], text: str) -> int:
    """Return the number of an origin, which may be a new one, or `_BEYOND` if there are too many."""
    if len(numbers) < HOSTS + _ORIGINS_GUESSED:
        return numbers.setdefault(text, len(numbers))
    return numbers.get(text, _BEYOND)


@lru_cache(_ORIGINS_KEPT)
def is_local(where: str) -> bool:
    """Return True if an origin is on a host that only its own network or machine can reach."""
    host = urlsplit(where).hostname or ""
    try:
        return not is_public(host)
    except ValueError:
        return _LOCAL_NAMES.fullmatch(host.rstrip(".")) is not None


@lru_cache(_ORIGINS_KEPT)
def canonical_origin(text: str) -> str:
    """Return the canonical origin of a URL or of its beginning, or ""."""
    try:
        return origin(text)
    except ValueError:
        return ""


def _scope(locs: Any, offsets: np.ndarray, place: Place, code: str) -> None:
    """Collect the URLs of the file's origin that are not below its folder."""
    assert place.address is not None
    home = origin(place.address)
    path = "/" + place.address.partition("://")[2].partition("/")[2]
    folder = home + path.partition("?")[0].rpartition("/")[0] + "/"
    if folder == home + "/":
        return
    rows = np.flatnonzero(mask_of(pc.and_not(pc.starts_with(locs, home + "/"), pc.starts_with(locs, folder))))
    if len(rows):
        place.add(code, home, rows, locs, offsets)


def _characters(locs: Any, well: np.ndarray, offsets: np.ndarray, faults: Faults) -> np.ndarray:
    """Report invalid characters, and return the rows to compare with their canonical form."""
    data = bytes_of(locs)
    bad = _bad_characters(locs) & well
    if occurs(data, ord("\\")):
        slashed = mask_of(pc.match_substring_regex(locs, r"^[^?#]*\\")) & well
        faults.rows("loc-backslash", slashed, locs, offsets)
        faults.rows("loc-characters", bad & ~slashed, locs, offsets)
    else:
        faults.rows("loc-characters", bad, locs, offsets)
    ascii_ = mask_of(pc.string_is_ascii(locs))
    faults.rows("loc-not-ascii", ~ascii_ & ~bad, locs, offsets)
    well = well & ~bad & ascii_
    if occurs(data, ord("#")):
        fragment = mask_of(pc.match_substring(locs, "#"))
        faults.rows("loc-fragment", fragment, locs, offsets)
        well &= ~fragment
    if occurs(data, ord("&")):
        twice = mask_of(pc.match_substring(locs, "&amp;", ignore_case=True))
        faults.rows("loc-escaped-twice", twice, locs, offsets)
    return well


def _bad_characters(urls: Any) -> np.ndarray:
    """Return the URLs with a character that must be escaped, or with a percent sign outside an escape (boolean)."""
    data = bytes_of(urls)
    bad = np.zeros(len(urls), bool)
    if any(data[at : at + _BLOCK].tobytes().translate(None, _PLAIN) for at in range(0, len(data), _BLOCK)):
        bad |= mask_of(pc.match_substring_regex(urls, _ALLOWED))
    if occurs(data, ord("%")):
        bad |= mask_of(pc.match_substring_regex(urls, _STRAY_PERCENT))
    return bad


def _suspected(locs: Any, offsets: np.ndarray, faults: Faults, home: str) -> None:
    """Report URLs that are probably mistakes, like the notes of a run."""
    wrong = made_of_no_address(locs, home)
    faults.rows("loc-no-address", wrong, locs, offsets)
    for note, mask in suspected(locs, home):
        if note in _SUSPECTED:
            faults.rows(_SUSPECTED[note], mask & ~wrong, locs, offsets)


def _parameters(locs: Any, offsets: np.ndarray, faults: Faults) -> None:
    """Report session IDs and tracking parameters."""
    data = bytes_of(locs)
    if not any(occurs(data, ord(character)) for character in "?;("):
        return
    for code, list_ in (("loc-session", "sessions"), ("loc-tracking", "tracking")):
        faults.rows(code, pc.match_substring_regex(locs, _pattern(list_)), locs, offsets)


@cache
def _pattern(list_: str) -> str:
    """Return a pattern for a parameter of the list in a query, and for sessions in a path."""
    exact, families = names(frozenset({list_}))
    either = "|".join([*(re.escape(n) for n in sorted(exact)), *(f"{re.escape(f)}[^=&#]*" for f in families)])
    query = rf"(?i)[?&](?:{either})(?:=|&|#|$)"
    return f"{query}|{_PATH_SESSION}" if list_ == "sessions" else query


def _canonical(locs: Any, well: np.ndarray, offsets: np.ndarray, faults: Faults, known: _Known) -> None:
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
        first = canonical[int(np.flatnonzero(differs)[0])]
        known.canonical = known.canonical or f"the canonical form is {first.as_py()}"
        faults.rows("loc-not-canonical", differs, chosen, offsets[rows], detail=known.canonical)
