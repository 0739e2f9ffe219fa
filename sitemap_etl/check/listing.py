"""What sitemaps list, without a judgement: their URLs and dates, file by file, in bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.check.document import Document, opened
from sitemap_etl.check.feeds import check_feed
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.options import Options
from sitemap_etl.check.read import unpacked
from sitemap_etl.check.report import Faults
from sitemap_etl.check.robots_file import check_robots
from sitemap_etl.check.scan import TooDeep, scan
from sitemap_etl.check.sources import Given, Shelf, Source, WebFile, given, keys_of
from sitemap_etl.check.textfile import check_text
from sitemap_etl.check.urlset import check_namespace, entries
from sitemap_etl.errors import Refused, Unavailable

ROWS: Final = pa.schema([("loc", pa.string()), ("lastmod", pa.string())])
"""The texts as they stand, blanks around them removed; a lastmod that is missing is null."""


@dataclass
class Listing:
    """One file. `problem` says why it could not be read (whole), "" where it could; `code` is the finding's."""

    name: str
    rows: pa.Table = field(default_factory=ROWS.empty_table)
    children: list[str] = field(default_factory=list)
    problem: str = ""
    code: str = ""


@dataclass
class _Place:
    source: Source
    shelf: Shelf | None
    key: str


def listings(target: str, options: Options, *, fetcher: Fetcher | None = None) -> Iterator[Listing]:
    """The sitemaps behind a sitemap, index, feed, robots.txt, folder or bucket, each once, one at a time.

    An index and a robots.txt are followed. Raises `ConfigError` where the target is nothing that can be
    read, `Unavailable` where it is an address that does not answer, `Refused` where what answers is no sitemap.
    """
    own = fetcher or Fetcher(options.timeout)
    try:
        (found,) = given([target], options)
        first = list(_first(found, own, allow_private=options.allow_private))
        queue = deque(first)
        known = {place.source.name for place in queue}
        while queue:
            place = queue.popleft()
            listing = _read(place.source, options.max_bytes)
            if listing.problem and not listing.rows.num_rows and found.url and place is first[0]:
                raise (Unavailable if listing.code == "unreachable" else Refused)(f"{listing.name}: {listing.problem}")
            for url in listing.children:
                child = _child(place, url, own)
                if child is None:
                    yield Listing(url, problem="it is not there")
                elif child.source.name not in known and len(known) < options.max_files:
                    known.add(child.source.name)
                    queue.append(child)
            if not listing.children:
                yield listing
    finally:
        if fetcher is None:
            own.close()


def _first(found: Given, fetcher: Fetcher, *, allow_private: bool) -> Iterator[_Place]:
    if found.url:
        yield _Place(WebFile(found.url, fetcher, not allow_private and fetcher.is_public(found.url)), None, "")
        return
    shelf = found.shelf
    assert shelf is not None
    if shelf.whole:
        yield from (_Place(source, shelf, key) for key, source in shelf.walk())
        return
    source = shelf.find(found.key)
    assert source is not None
    yield _Place(source, shelf, found.key)


def _child(parent: _Place, url: str, fetcher: Fetcher) -> _Place | None:
    """The file behind an address that another file names."""
    if parent.shelf is None:
        return _Place(WebFile(url, fetcher, getattr(parent.source, "guarded", False)), None, "")
    for key in keys_of(url, parent.key):
        source = parent.shelf.find(key)
        if source is not None and source.name != parent.source.name:
            return _Place(source, parent.shelf, key)
    return None


def _read(source: Source, max_bytes: int) -> Listing:
    faults = Faults(source.name)
    listing = Listing(source.name)
    taken = source.take(max_bytes + 1, faults)
    if taken is not None:
        data, whole = unpacked(taken, source.name, faults, max_bytes)
        document = opened(data, source.name, faults, whole=whole)
        if document is not None:
            _fill(document, listing, faults)
            if whole:
                return listing
    told = [finding for finding in faults.findings() if finding.severity == "error"]
    if told:
        listing.code = told[-1].code
        detail = f" ({told[-1].detail})" if told[-1].detail else ""
        listing.problem = f"{told[-1].title}{detail}"
    else:
        listing.problem = "only its beginning was read"
    return listing


def _fill(document: Document, listing: Listing, faults: Faults) -> None:
    """Read the document's rows or children; what is wrong with single ones is no matter here."""
    if document.kind == "robots":
        listing.children = [url for url, _ in check_robots(document.data, faults)]
        return
    if document.kind in {"urlset", "index"}:
        assert document.flat is not None
        try:
            found = scan(document.flat)
        except TooDeep as error:
            listing.problem = str(error)
            return
        kind = "url" if document.kind == "urlset" else "sitemap"
        table = entries(found, faults, check_namespace(found, faults), kind)
        locs, lastmods = pc.utf8_trim_whitespace(table.loc), pc.utf8_trim_whitespace(table.columns["lastmod"][0])
        if kind == "sitemap":
            listing.children = [url for url in locs.to_pylist() if url]
            return
    else:
        texts, _ = (
            check_text(document.data, faults)
            if document.kind == "text"
            else check_feed(document.data, document.kind, faults)
        )
        locs = pc.utf8_trim_whitespace(texts)
        lastmods = pa.nulls(len(locs), pa.string())
    rows = pa.table([locs, lastmods], schema=ROWS)
    listing.rows = rows.filter(pc.not_equal(rows.column("loc"), ""))
