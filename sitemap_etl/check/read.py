"""One file, from its bytes to its findings and to what the other files are compared with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.check.alternates import Links, check_alternates
from sitemap_etl.check.dates import Lastmods, check_lastmods, fits_both
from sitemap_etl.check.document import Document, kind_of, opened
from sitemap_etl.check.feeds import check_feed
from sitemap_etl.check.fetch import Taken
from sitemap_etl.check.images import check_images
from sitemap_etl.check.locs import Place, check_locs
from sitemap_etl.check.news import check_news
from sitemap_etl.check.report import Faults, FileStats, Finding
from sitemap_etl.check.robots_file import check_robots
from sitemap_etl.check.scan import Scan, TooDeep, scan
from sitemap_etl.check.sources import Source
from sitemap_etl.check.textfile import check_text
from sitemap_etl.check.urlset import Entries, check_hints, check_names, check_namespace, entries
from sitemap_etl.check.videos import check_videos
from sitemap_etl.dates import DATE
from sitemap_etl.dates import read as dated
from sitemap_etl.hashes import hash64
from sitemap_etl.limits import INDEX_FILES, SITEMAP_BYTES, SITEMAP_ROWS
from sitemap_etl.robots import RobotsRules
from sitemap_etl.web import GZIP, inflated

_XML_TYPES: Final = frozenset({"application/xml", "text/xml", "application/rss+xml", "application/atom+xml"})
_GZIP_TYPES: Final = frozenset({"application/gzip", "application/x-gzip", "application/octet-stream"})
RulesOf = Callable[[str], "RobotsRules | None"]
"""Origin → the rules of its robots.txt, None where it has none or it is not known."""


@dataclass
class Listed:
    """A file that an index or a robots.txt names; `seconds` is its lastmod there, None where it has none."""

    url: str
    line: int
    at: int = 0
    seconds: int | None = None
    daily: bool = False


@dataclass
class Reading:
    """What was found in one file. `at` and `hashes` are of its URLs, one a row."""

    stats: FileStats
    place: Place
    findings: list[Finding] = field(default_factory=list)
    status: str = ""
    """The code of the fault for which it could not be had; "" where it was read."""
    hashes: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    at: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    links: Links | None = None
    lastmods: Lastmods | None = None
    news: int = 0
    listed: list[Listed] = field(default_factory=list)
    robots: bytes | None = None


def read(source: Source, *, max_bytes: int, now: datetime, rules_of: RulesOf) -> Reading:
    """Everything that one file says about itself."""
    faults = Faults(source.name)
    reading = Reading(FileStats(source.name, "unread"), Place(source.address))
    taken = source.take(max_bytes + 1, faults)
    if taken is None:
        reading.findings = list(faults.findings())
        reading.status = reading.findings[-1].code if reading.findings else "unreachable"
        return reading
    if taken.address is not None:
        reading.place.address = taken.address
    reading.stats.stored = len(taken.data)
    data, whole = unpacked(taken, source.name, faults, max_bytes)
    reading.stats.bytes = len(data)
    document = opened(data, source.name, faults, whole=whole)
    if taken.status:
        _content_type(taken, kind_of(data, source.name), faults)
    if document is not None:
        _document(document, reading, faults, now, rules_of)
        for away in reading.place.away:
            assert faults.lines is not None
            away.line = faults.lines.place(away.at)[0]
    reading.findings = list(faults.findings())
    return reading


def unpacked(taken: Taken, name: str, faults: Faults, max_bytes: int) -> tuple[bytes, bool]:
    """The file's own bytes, at most `max_bytes`, and whether they are all of it."""
    data, whole = taken.data, True
    path = name.partition("?")[0].lower()
    encodings = [e.strip().lower() for e in taken.content_encoding.split(",") if e.strip() not in {"", "identity"}]
    for encoding in encodings:
        if encoding in {"gzip", "x-gzip"} and data.startswith(GZIP):
            data, whole = _inflated(data, faults, max_bytes + 1)
            if path.endswith(".gz"):
                faults.add("gzip-encoded", detail="Content-Encoding: gzip")
        else:
            faults.add("content-encoding", detail=f"Content-Encoding: {encoding}"[:200])
    if data.startswith(GZIP):
        if not path.endswith(".gz") and not encodings:
            faults.add("gzip-unnamed")
        data, whole = _inflated(data, faults, max_bytes + 1)
        if data.startswith(GZIP):
            faults.add("gzip-in-gzip")
            data, whole = _inflated(data, faults, max_bytes + 1)
    elif path.endswith(".gz") and not encodings and data:
        faults.add("gzip-missing", example=data[:80].decode(errors="replace"))
    if len(data) > SITEMAP_BYTES:
        more = "more than " if len(data) > max_bytes else ""
        faults.add("too-many-bytes", detail=f"{more}{min(len(data), max_bytes):,} bytes")
    return (data[:max_bytes], False) if len(data) > max_bytes else (data, whole)


def _inflated(data: bytes, faults: Faults, limit: int) -> tuple[bytes, bool]:
    """The unpacked data, at most `limit` bytes of it, and whether the gzip data is whole."""
    unpacked = inflated(data, limit)
    if unpacked.fault:
        faults.add(f"gzip-{unpacked.fault}", detail=unpacked.detail)
    return unpacked.data, unpacked.fault in {"", "trailing"}


def _content_type(taken: Taken, kind: str, faults: Faults) -> None:
    """Report a content type that doesn't fit what was sent."""
    named = taken.content_type.partition(";")[0].strip().lower()
    if kind in {"html", "binary", "xml", "empty"}:
        return
    plain = frozenset({"text/plain"}) if kind in {"text", "robots"} else _XML_TYPES
    packed = taken.data.startswith(GZIP) and not taken.content_encoding
    if named not in (_GZIP_TYPES if packed else plain):
        wanted = "application/gzip" if packed else "text/plain" if kind in {"text", "robots"} else "application/xml"
        faults.add("content-type", example=taken.content_type or "none", detail=f"expected {wanted}")


def _document(document: Document, reading: Reading, faults: Faults, now: datetime, rules_of: RulesOf) -> None:
    reading.stats.kind = document.kind
    data = document.data
    if document.kind in {"urlset", "index"}:
        _xml(document, reading, faults, now, rules_of)
    elif document.kind == "robots":
        reading.robots = data
        reading.listed = [Listed(url, line) for url, line in check_robots(data, faults)]
        reading.stats.rows = len(reading.listed)
    else:
        is_text = document.kind == "text"
        locs, at = check_text(data, faults) if is_text else check_feed(data, document.kind, faults)
        reading.stats.rows = len(locs)
        broken = any(
            f.code in {"not-a-sitemap", "feed-version", "feed-obsolete", "xml-malformed"} for f in faults.findings()
        )
        if not len(locs) and not broken:
            faults.add("sitemap-empty")
        if is_text:
            _too_many(len(locs), at, faults)
        check_locs(locs, at, faults, reading.place, scope=is_text)
        _urls(pc.utf8_trim_whitespace(locs), at, reading, faults, rules_of)


def _xml(document: Document, reading: Reading, faults: Faults, now: datetime, rules_of: RulesOf) -> None:
    assert document.flat is not None
    try:
        document_scan = scan(document.flat)
    except TooDeep as error:
        faults.add("xml-deep", detail=str(error))
        return
    ours = check_namespace(document_scan, faults)
    check_names(document_scan, faults, ours)
    kind = "url" if document.kind == "urlset" else "sitemap"
    found = entries(document_scan, faults, ours, kind)
    rows = len(found.elements)
    reading.stats.rows = rows
    if not rows:
        faults.add("sitemap-empty" if kind == "url" else "index-empty", at=int(document_scan.start[0]))
        return
    texts, at = found.columns["lastmod"]
    reading.lastmods = check_lastmods(texts, at, faults, now)
    if reading.lastmods is not None:
        reading.stats.lastmod_min = reading.lastmods.oldest_text
        reading.stats.lastmod_max = reading.lastmods.newest_text
    present = pc.not_equal(pc.utf8_trim_whitespace(found.loc), "").to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(present)
    check_locs(found.loc.take(pa.array(kept)), found.at[kept], faults, reading.place, scope=kind == "url")
    if kind == "sitemap":
        _index(found, reading, faults)
        return
    _too_many(rows, found.at, faults)
    check_hints(found, faults)
    _extensions(document_scan, found, reading, faults, now)
    _urls(pc.utf8_trim_whitespace(found.loc).take(pa.array(kept)), found.at[kept], reading, faults, rules_of)


def _extensions(document_scan: Scan, found: Entries, reading: Reading, faults: Faults, now: datetime) -> None:
    check_images(document_scan, found, faults)
    check_videos(document_scan, found, faults)
    reading.news = check_news(document_scan, found, faults, now)
    reading.links = check_alternates(document_scan, found, pc.utf8_trim_whitespace(found.loc), faults)


def _too_many(rows: int, at: np.ndarray, faults: Faults) -> None:
    if rows > SITEMAP_ROWS:
        faults.add("too-many-urls", at=int(at[SITEMAP_ROWS]), detail=f"{rows:,} URLs")


def _index(found: Entries, reading: Reading, faults: Faults) -> None:
    rows = len(found.elements)
    if rows > SITEMAP_ROWS:
        faults.add("too-many-files", at=int(found.at[SITEMAP_ROWS]), detail=f"{rows:,} files")
    elif rows > INDEX_FILES:
        faults.add("index-large", at=int(found.at[INDEX_FILES]), detail=f"{rows:,} files")
    locs = pc.utf8_trim_whitespace(found.loc)
    _repeated("index-duplicate", locs, hash64(locs), found.at, faults)
    dates = dated(pc.utf8_trim_whitespace(found.columns["lastmod"][0]))
    known, seconds, daily = fits_both(dates), dates.seconds, dates.kind == DATE
    assert faults.lines is not None
    for row, url in enumerate(locs.to_pylist()):
        at = int(found.at[row])
        when = int(seconds[row]) if known[row] else None
        if url:
            reading.listed.append(Listed(url, faults.lines.place(at)[0], at, when, bool(daily[row])))


def _urls(locs: Any, at: np.ndarray, reading: Reading, faults: Faults, rules_of: RulesOf) -> None:
    """Report what is listed twice here or disallowed; keep the hashes for the comparison with other files."""
    reading.hashes, reading.at = hash64(locs), at
    _repeated("duplicate", locs, reading.hashes, at, faults)
    for origin in reading.place.origins:
        rules = rules_of(origin)
        if rules is not None:
            here = pc.starts_with(locs, origin + "/")
            faults.rows("loc-disallowed", pc.and_(here, rules.disallowed(locs)), locs, at)


def _repeated(code: str, locs: Any, hashes: np.ndarray, at: np.ndarray, faults: Faults) -> None:
    """Report rows whose URL stood before. Equal hashes are candidates, equal text is the proof."""
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if not len(same):
        return
    again, before = order[same + 1], order[same]
    equal = pc.equal(locs.take(pa.array(again)), locs.take(pa.array(before))).to_numpy(zero_copy_only=False)
    mask = np.zeros(len(locs), bool)
    mask[again[equal]] = True
    faults.rows(code, mask, locs, at)
