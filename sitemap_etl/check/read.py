"""One file, from its bytes to its contents, its findings, and the facts that other files are compared with."""

from __future__ import annotations

import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of, single
from sitemap_etl.check.alternates import Links, check_alternates
from sitemap_etl.check.document import Document, Kind, kind_of, parsed
from sitemap_etl.check.feeds import check_feed
from sitemap_etl.check.fetch import Taken
from sitemap_etl.check.locs import check_locs, check_slashes
from sitemap_etl.check.place import Place
from sitemap_etl.check.report import Faults, FileStats, Finding, Touched, shown
from sitemap_etl.check.scan import Scan, TooDeep, scan
from sitemap_etl.check.schema import EXTENSIONS, check_attributes, check_names, check_places
from sitemap_etl.check.shapes import check_images, check_news, check_videos
from sitemap_etl.check.sources import Held, Source
from sitemap_etl.check.text import check_robots, check_text
from sitemap_etl.check.urlset import (
    Entries,
    Lastmods,
    check_hints,
    check_lastmods,
    check_namespace,
    entries,
    fits_both,
)
from sitemap_etl.dates import DATE, DAY
from sitemap_etl.dates import read as dated
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import hash64
from sitemap_etl.limits import INDEX_FILES, NS_NEWS, SITEMAP_BYTES, SITEMAP_ROWS
from sitemap_etl.robots import RobotsRules
from sitemap_etl.urls import origin
from sitemap_etl.web import GZIP, charset_of, inflated, undeflated

_XML_TYPES: Final = frozenset({"application/xml", "text/xml", "application/rss+xml", "application/atom+xml"})
_GZIP_TYPES: Final = frozenset({"application/gzip", "application/x-gzip", "application/octet-stream"})
ROWS: Final = pa.schema([("loc", pa.string()), ("lastmod", pa.string())])
"""The texts as written, without surrounding whitespace; a missing lastmod is null."""
_ENDLESS: Final = 1 << 16
"""Maximum length of a URL that is examined."""
_ASKED: Final = 10_000_000
"""URLs that match some rule of a robots.txt times its rules, as many as are asked: a few seconds."""
_JUDGED: Final = 20
"""Hosts in one file whose robots.txt is applied to its URLs."""
_TEXTUAL: Final = re.compile(r"\s*text/|[^;]*xml", re.IGNORECASE)
"""The types that have an encoding; of packed data it says nothing."""
RulesOf = Callable[[str, str], "RobotsRules | None"]
"""Origin, and the one that served the file which lists its URLs ("" if it did not come over HTTP) → the rules of
its robots.txt, None if it has none, or if it is not known."""


@dataclass(slots=True)  # an index can list very many
class Listed:
    """A file in a manifest. `hash`: the algorithm and its hexadecimal digits."""

    url: str
    line: int
    at: int = 0
    seconds: int | None = None
    daily: bool = False


class Drawn(Frozen):
    """A URL of the sample of a file. `dated`: first and last second of its lastmod, or None if it has none."""

    loc: str
    line: int
    dated: tuple[int, int] | None = None


@dataclass
class Reading:
    """Contents of one file. `at` and `hashes` are of its URLs, one a row."""

    stats: FileStats
    place: Place
    findings: list[Finding] = field(default_factory=list)
    status: str = ""
    """The code of the fault that kept it from being read; "" if it was read."""
    is_whole: bool = True
    """True if the whole file was read."""
    answered: int = 0
    """The status of its answer over HTTP."""
    served: str = ""
    """The origin that served it over HTTP, after redirects; "" for any other file."""
    hashes: np.ndarray = field(default_factory=lambda: np.empty(0, np.uint64))
    at: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    slashed: tuple[np.ndarray, np.ndarray] | None = None
    """Of its URLs with a slash at their end: hashes without it, and byte offsets."""
    links: Links | None = None
    lastmods: Lastmods | None = None
    news: int = 0
    touched: Touched = field(default_factory=dict)
    extensions: frozenset[str] = frozenset()
    """The namespaces of the extensions it has elements of, news left out."""
    listed: list[Listed] = field(default_factory=list)
    robots: bytes | None = None
    draw: Callable[[Any], np.ndarray] | None = None
    """Returns the rows that are drawn from its URLs."""
    drawn: list[Drawn] = field(default_factory=list)
    rows: pa.Table | None = None
    """The URLs it lists, if they were requested: see `ROWS`."""
    lines: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    """The line of each of the `rows`."""


# --- from its bytes to its contents ---


@dataclass
class Opened:
    """File that was read. `document` is None if it can't be parsed; `whole` is False if only a part was read.

    taken: the answer without its data.
    size: bytes of the decompressed data.
    kind: its kind, only in an answer over HTTP.
    stored: bytes as stored or sent.
    is_gzip: True if the stored data is gzip.
    """

    taken: Taken | None = None
    data: bytes = b""
    document: Document | None = None
    whole: bool = True

    @property
    def is_there(self) -> bool:
        return self.taken is not None and self.taken.status in (0, 200)


def opened(source: Source, max_bytes: int, faults: Faults, held: Held | None = None) -> Opened:
    """Return at most `max_bytes` of the decompressed file. Problems go to `faults`. `held`: its memory."""
    if held is not None:
        held.take(min(source.size, max_bytes))
    found = Opened(source.take(max_bytes + 1, faults))
    if found.taken is not None and found.is_there:
        data = found.taken.data
        if held is not None:
            # The last four bytes of gzip data are the size unpacked, of one member that is whole (RFC 1952).
            meant = int.from_bytes(data[-4:], "little") if data.startswith(GZIP) else 0
            held.take(max(len(data), min(meant, max_bytes)))
        found.data, found.whole = _unpacked(found.taken, source.name, faults, max_bytes)
        if held is not None:
            held.grow(max(len(data), len(found.data)))
        sent_as = found.taken.content_type
        charset = charset_of(sent_as) if _TEXTUAL.match(sent_as) else ""
        found.document = parsed(
            found.data, source.name, faults, whole=found.whole, max_bytes=max_bytes, charset=charset
        )
    return found


def _unpacked(taken: Taken, name: str, faults: Faults, max_bytes: int) -> tuple[bytes, bool]:
    """Return the file's own bytes, at most `max_bytes`, and True if these are all its bytes."""
    data, whole = taken.data, True
    path = name.partition("?")[0].lower()
    encodings = [e.strip().lower() for e in taken.content_encoding.split(",") if e.strip() not in {"", "identity"}]
    for encoding in reversed(encodings):  # the one that was applied last comes off first (RFC 9110, section 8.4)
        data, whole = _without_encoding(data, encoding, path, faults, max_bytes + 1)
    if data.startswith(GZIP):
        if not path.endswith(".gz") and not encodings and not taken.untold:
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
    elif len(data) > max_bytes:
        faults.add("partly-read", detail=f"it has more than {max_bytes:,} bytes")
    return (data[:max_bytes], False) if len(data) > max_bytes else (data, whole)


def _without_encoding(data: bytes, encoding: str, path: str, faults: Faults, limit: int) -> tuple[bytes, bool]:
    """Return at most `limit` bytes of the data without a Content-Encoding, and whether it is complete."""
    name = {"x-gzip": "gzip"}.get(encoding, encoding)
    header = f"Content-Encoding: {encoding}"[:200]
    if name == "gzip" and data.startswith(GZIP):
        if path.endswith(".gz"):
            faults.add("gzip-encoded", detail=header)
        return _inflated(data, faults, limit)
    if name == "deflate" and (plain := undeflated(data, limit)) is not None:
        return plain, True
    if name == "br" and not data.lstrip().startswith(b"<"):
        faults.add("content-encoding-unread", detail=header)
        return b"", False
    if name in {"gzip", "deflate", "br"}:
        header += ", but what was sent is not compressed"
    faults.add("content-encoding", detail=header)
    return data, True


def _inflated(data: bytes, faults: Faults, limit: int) -> tuple[bytes, bool]:
    """Return at most `limit` bytes of the decompressed data, and whether the gzip data is complete."""
    unpacked = inflated(data, limit)
    if unpacked.fault:
        faults.add(f"gzip-{unpacked.fault}", detail=unpacked.detail)
    return unpacked.data, unpacked.fault in {"", "trailing"}


@dataclass
class Contents:
    """Entries of a document: `locs` as written, without blank ones, and their byte offsets.

    lastmods: the texts beside them, only in XML.
    scan, entries: only in XML that is not nested too deeply; they also have a row for an entry without a loc.
    """

    kind: Kind
    locs: Any
    at: np.ndarray
    lastmods: Any = None
    scan: Scan | None = None
    entries: Entries | None = None

    @property
    def starts(self) -> np.ndarray:
        """Return the position at which each entry begins."""
        if self.entries is None or self.scan is None:
            return self.at
        starts: np.ndarray = self.scan.start[self.entries.elements]
        return starts


def contents(document: Document, faults: Faults) -> Contents:
    """Return the entries of a sitemap, index, feed or robots.txt. Mistakes in its shape go to `faults`."""
    if document.kind in {"text", "robots", "rss", "atom", "rdf"}:
        if document.kind == "text":
            locs, at = check_text(document.data, faults)
        elif document.kind == "robots":
            locs, at = check_robots(document.data, faults)
        else:
            locs, at = check_feed(document.data, document.kind, faults)
        return Contents(document.kind, _clipped(locs), at)
    assert document.flat is not None
    nothing = Contents(document.kind, pa.array([], pa.string()), np.empty(0, np.int64))
    try:
        elements = scan(document.flat)
    except TooDeep as error:
        faults.add("xml-deep", detail=str(error))
        return nothing
    ours = check_namespace(elements, faults)
    check_names(elements, faults, ours)
    check_places(elements, faults, ours)
    check_attributes(elements, faults, ours)
    found = entries(elements, faults, ours, "url" if document.kind == "urlset" else "sitemap")
    found.loc = _clipped(found.loc)
    locs, at, lastmods = found.loc, found.at, found.columns["lastmod"][0]
    present = mask_of(pc.not_equal(pc.utf8_trim_whitespace(locs), ""))
    if not present.all():
        locs, at, lastmods = locs.filter(pa.array(present)), at[present], lastmods.filter(pa.array(present))
    return Contents(document.kind, locs, at, lastmods, elements, found)


def rows_of(found: Contents) -> pa.Table:
    """Return the entries of a sitemap or feed as a table of `ROWS`."""
    locs = _trimmed(found.locs)
    blank = pa.nulls(len(locs), pa.string())
    lastmods = blank if found.lastmods is None else pc.utf8_trim_whitespace(found.lastmods)
    return pa.table([locs, lastmods], schema=ROWS)


def _trimmed(texts: Any) -> Any:
    """Return the texts without surrounding whitespace: the same array, and no copy of it, if there is none."""
    trimmed = pc.utf8_trim_whitespace(texts)
    return texts if trimmed.equals(texts) else trimmed


def _clipped(locs: Any) -> Any:
    """Return the locs with endless ones cut. They are too long anyway, and hashing them would take long."""
    if pc.any(pc.greater(pc.binary_length(locs), _ENDLESS)).as_py():
        return pc.utf8_slice_codeunits(locs, 0, _ENDLESS)
    return locs


def listed_in(found: Contents, faults: Faults) -> list[Listed]:
    """Return the files that an index or a robots.txt names."""
    assert faults.lines is not None
    locs = _trimmed(found.locs).to_pylist()
    lines = faults.lines.numbers(found.at).tolist()
    if found.lastmods is None:
        return [Listed(url, line, int(at)) for url, line, at in zip(locs, lines, found.at, strict=True)]
    dates = dated(pc.utf8_trim_whitespace(found.lastmods))
    known, seconds, daily = fits_both(dates), dates.seconds, dates.kind == DATE
    return [
        Listed(url, lines[row], int(found.at[row]), int(seconds[row]) if known[row] else None, bool(daily[row]))
        for row, url in enumerate(locs)
    ]


# --- from its contents to its findings ---


def broken(source: Source, error: Exception) -> Reading:
    """Return the reading of a file that could not be dealt with: what happened is its one finding."""
    finding = failure(source.name, error)
    return Reading(FileStats(source.name, "unread"), Place(source.address), [finding], finding.code)


def failure(name: str, error: Exception) -> Finding:
    """Return the finding for an exception: no answer, not enough memory, or a defect of ours."""
    if isinstance(error, SitemapEtlError) and error.kind != SitemapEtlError.kind:
        return Finding("unreachable", name, detail=shown(str(error)))
    if isinstance(error, MemoryError):
        return Finding("unreachable", name, detail="there is not enough memory to check it")
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return Finding("defect", name, detail=shown(f"{type(error).__name__}: {error}") + where)


def read(
    source: Source,
    *,
    max_bytes: int,
    now: datetime,
    rules_of: RulesOf,
    held: Held | None = None,
    examples: int = 1,
    rows: bool = False,
    draw: Callable[[Any], np.ndarray] | None = None,
) -> Reading:
    """Read one file and return its findings and facts.

    `held`: the room that it takes. `examples`: how many occurrences of a fault are shown. `rows`: the URLs are wanted
    too. `draw`: gives the rows of a sample.
    """
    faults = Faults(source.name, examples=examples)
    reading = Reading(FileStats(source.name, "unread"), Place(source.address), draw=draw)
    reading.rows = ROWS.empty_table() if rows else None
    found = opened(source, max_bytes, faults, held)
    reading.answered = found.taken.status if found.taken is not None else 0
    if found.taken is None or not found.is_there:
        reading.findings = list(faults.findings())
        reading.status = reading.findings[-1].code if reading.findings else "unreachable"
        return reading
    if found.taken.address is not None:
        reading.place.address = found.taken.address
        reading.served = origin(found.taken.address)
    reading.stats.stored, reading.stats.bytes = len(found.taken.data), len(found.data)
    if found.taken.status:
        _content_type(found.taken, kind_of(found.data, source.name), faults)
    found.taken, found.data = None, b""  # the document is a copy
    reading.is_whole = found.whole and found.document is not None
    if found.document is not None:
        _judge(found.document, reading, faults, now, rules_of)
        assert faults.lines is not None
        lines = faults.lines.numbers(np.array([away.at for away in reading.place.away.values()], np.int64)).tolist()
        for away, line in zip(reading.place.away.values(), lines, strict=True):
            away.line = line
    reading.findings = list(faults.findings())
    reading.is_whole &= not {"xml-malformed", "partly-read"} & {finding.code for finding in reading.findings}
    return reading


def _content_type(taken: Taken, kind: str, faults: Faults) -> None:
    """Report a content type that doesn't fit the content."""
    named = taken.content_type.partition(";")[0].strip().lower()
    if kind in {"html", "binary", "xml", "empty"}:
        return
    plain = frozenset({"text/plain"}) if kind in {"text", "robots"} else _XML_TYPES
    packed = taken.data.startswith(GZIP) and not taken.content_encoding
    if taken.content_encoding and named in _GZIP_TYPES:
        return  # gzip-encoded or content-encoding says what to change
    if named not in (_GZIP_TYPES if packed else plain):
        wanted = "application/gzip" if packed else "text/plain" if kind in {"text", "robots"} else "application/xml"
        faults.add("content-type", example=taken.content_type or "none", detail=f"expected {wanted}")


def _judge(document: Document, reading: Reading, faults: Faults, now: datetime, rules_of: RulesOf) -> None:
    """Report the mistakes in a document, and complete its reading."""
    found = contents(document, faults)
    reading.stats.kind = found.kind
    reading.stats.rows = len(found.locs if found.entries is None else found.entries.elements)
    if found.kind == "robots":
        reading.robots = document.data
        reading.listed = listed_in(found, faults)
    elif found.kind in {"urlset", "index"}:
        if found.entries is not None and found.scan is not None:
            _judge_entries(found, found.scan, found.entries, reading, faults, now, rules_of)
    else:
        broken = {"not-a-sitemap", "feed-version", "feed-obsolete", "xml-malformed"}
        if not len(found.locs) and not broken.intersection(f.code for f in faults.findings()):
            faults.add("sitemap-empty")
        is_text = found.kind == "text"
        if is_text:
            _too_many(found.at, faults)
        check_locs(found.locs, found.at, faults, reading.place, scope="out-of-scope" if is_text else "")
        _urls(found, reading, faults, rules_of)


def _judge_entries(
    found: Contents,
    elements: Scan,
    rows: Entries,
    reading: Reading,
    faults: Faults,
    now: datetime,
    rules_of: RulesOf,
) -> None:
    is_urlset = found.kind == "urlset"
    if not len(rows.elements):
        faults.add("sitemap-empty" if is_urlset else "index-empty", at=int(elements.start[0]))
        return
    reading.lastmods = check_lastmods(*rows.columns["lastmod"], faults, now)
    if reading.lastmods is not None:
        reading.stats.lastmod_min = reading.lastmods.oldest_text
        reading.stats.lastmod_max = reading.lastmods.newest_text
    check_locs(found.locs, found.at, faults, reading.place, scope="out-of-scope" if is_urlset else "index-out-of-scope")
    if not is_urlset:
        _index(found, rows, reading, faults)
        return
    _too_many(rows.at, faults)
    check_hints(rows, faults)
    check_images(elements, rows, faults)
    check_videos(elements, rows, faults, now)
    reading.news = check_news(elements, rows, faults, now)
    reading.extensions = frozenset(name.uri for name in elements.names if name.uri in EXTENSIONS) - {NS_NEWS}
    reading.links = check_alternates(elements, rows, _trimmed(rows.loc), faults)
    _urls(found, reading, faults, rules_of)


def _too_many(at: np.ndarray, faults: Faults) -> None:
    if len(at) > SITEMAP_ROWS:
        faults.add("too-many-urls", at=int(at[SITEMAP_ROWS]), detail=f"{len(at):,} URLs")


def _index(found: Contents, rows: Entries, reading: Reading, faults: Faults) -> None:
    count = len(rows.elements)
    if count > SITEMAP_ROWS:
        faults.add("too-many-files", at=int(rows.at[SITEMAP_ROWS]), detail=f"{count:,} files")
    elif count > INDEX_FILES:
        faults.add("index-large", at=int(rows.at[INDEX_FILES]), detail=f"{count:,} files")
    locs = _trimmed(found.locs)
    _repeated("index-duplicate", locs, hash64(locs), found.at, faults)
    reading.listed = listed_in(found, faults)


def _urls(found: Contents, reading: Reading, faults: Faults, rules_of: RulesOf) -> None:
    """Report URLs that are listed twice here or disallowed. Keep the hashes for the comparison with other files."""
    locs = _trimmed(found.locs)
    reading.hashes, reading.at = hash64(locs), found.at
    if reading.draw is not None:
        reading.drawn = _drawn(found, locs, reading.draw(locs), faults)
    _repeated("duplicate", locs, reading.hashes, found.at, faults)
    reading.slashed = check_slashes(locs, reading.hashes, found.at, faults)
    asked = ((where, rules_of(where, reading.served)) for where in reading.place.origins)
    for where, rules in [(where, rules) for where, rules in asked if rules is not None][:_JUDGED]:
        # Only those that begin so are URLs: a relative one has no origin that rules could hold for.
        here = np.flatnonzero(mask_of(pc.starts_with(locs, where + "/")))
        mine = locs.take(pa.array(here))
        faults.rows("loc-disallowed", rules.disallowed(mine, most=_ASKED), mine, found.at[here])
    if reading.rows is not None:
        assert faults.lines is not None
        reading.rows, reading.lines = rows_of(found), faults.lines.numbers(found.at)
    reading.touched = faults.touched(found.starts, within=found.entries is not None)


def _drawn(found: Contents, locs: Any, rows: np.ndarray, faults: Faults) -> list[Drawn]:
    """Return these rows of a file's entries."""
    assert faults.lines is not None
    lines = faults.lines.numbers(found.at[rows]).tolist()
    drawn = locs.take(pa.array(rows)).to_pylist()
    if found.lastmods is None:
        return [Drawn(loc, line) for loc, line in zip(drawn, lines, strict=True)]
    dates = dated(single(pc.utf8_trim_whitespace(found.lastmods.take(pa.array(rows)))))
    # A day is one in any zone.
    begin = np.where(dates.kind == DATE, dates.seconds - DAY // 2, dates.seconds)
    end = np.where(dates.kind == DATE, dates.seconds + DAY + DAY // 2, dates.seconds)
    known = fits_both(dates)
    return [
        Drawn(loc, lines[row], (int(begin[row]), int(end[row])) if known[row] else None)
        for row, loc in enumerate(drawn)
    ]


def _repeated(code: str, locs: Any, hashes: np.ndarray, at: np.ndarray, faults: Faults) -> None:
    """Report rows whose URL was listed before. Equal hashes are candidates; the text decides."""
    order = np.argsort(hashes, kind="stable")
    same = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if not len(same):
        return
    again, before = order[same + 1], order[same]
    equal = mask_of(pc.equal(locs.take(pa.array(again)), locs.take(pa.array(before))))
    mask = np.zeros(len(locs), bool)
    mask[again[equal]] = True
    faults.rows(code, mask, locs, at)
