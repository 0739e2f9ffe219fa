"""List the URLs and dates of sitemaps, file by file, without judging them, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from sitemap_etl.check.crawl import Crawl
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.options import Options
from sitemap_etl.check.place import Place
from sitemap_etl.check.read import ROWS, Reading, contents, listed_in, opened, rows_of
from sitemap_etl.check.report import Faults, FileStats, Finding
from sitemap_etl.check.sources import Held, Source, given
from sitemap_etl.errors import Refused, Unavailable

_UNWANTED: Final = "unwanted"
"""Kind of a file that was not wanted."""
_NO_ADDRESS: Final = "it was not read: its address does not begin with http:// or https://"


@dataclass
class Listing:
    """One file. `problem` says why it could not be read completely; "" if it was.

    `within`: the index or the robots.txt that names it, "" if none does. `read`: it was wanted.
    """

    name: str
    rows: pa.Table = field(default_factory=ROWS.empty_table)
    problem: str = ""
    within: str = ""
    read: bool = True


def _all(_name: str) -> bool:
    return True


def listings(
    target: str, options: Options, *, fetcher: Fetcher | None = None, wanted: Callable[[str], bool] = _all
) -> Generator[Listing]:
    """Yield the sitemaps of a sitemap, index, feed, robots.txt, folder or bucket, each once, one at a time.

    Indexes and robots.txt are followed. `wanted` decides by the name of a file, in any thread, if it is read. Other
    files are yielded without their rows.

    Raise `ConfigError` if the target can't be read, `Unavailable` if an address does not answer, and `Refused` if its
    answer is not a sitemap.
    """
    own = fetcher or Fetcher.of(options)
    crawl = Crawl(options, own, lambda source, held: _skimmed(source, options.max_bytes, held, wanted), deep=True)
    try:
        found = given([target], options)
        with closing(crawl.visits(found)) as visits:
            for visit in visits:
                reading, rows = visit.reading, visit.reading.rows
                parent = visit.work.parent
                within = "" if parent is None else crawl.files[parent].file
                read = reading.stats.kind != _UNWANTED
                listing = Listing(reading.stats.file, rows or ROWS.empty_table(), _problem(reading), within, read)
                if listing.problem and not listing.rows.num_rows and found[0].url and visit.number == 0:
                    kind = Unavailable if reading.status == "unreachable" else Refused
                    raise kind(f"{listing.name}: {listing.problem}")
                if not reading.listed:
                    yield listing
        for number, listed in crawl.absent.items():
            within = crawl.files[number].file
            yield from (Listing(one.url, problem="the file does not exist", within=within) for one in listed)
        for number, listed in crawl.unasked.items():
            within = crawl.files[number].file
            yield from (Listing(one.url, problem=_NO_ADDRESS, within=within) for one in listed)
        for finding in crawl.findings:
            yield Listing(finding.file, problem=_said(finding))
    finally:
        if fetcher is None:
            own.close()


def _skimmed(source: Source, max_bytes: int, held: Held, wanted: Callable[[str], bool]) -> Reading:
    """Read the entries of a file, without faults of single rows."""
    if not wanted(source.name):
        return Reading(FileStats(source.name, _UNWANTED), Place(source.address))
    faults = Faults(source.name)
    reading = Reading(FileStats(source.name, "unread"), Place(source.address))
    found = opened(source, max_bytes, faults, held)
    reading.answered = found.taken.status if found.taken is not None else 0
    if found.document is not None:
        listed = contents(found.document, faults)
        reading.stats.kind = listed.kind
        if listed.kind in {"index", "robots"}:
            reading.listed = listed_in(listed, faults)
        else:
            reading.rows = rows_of(listed)
    if found.document is None or not found.whole or "partly-read" in {finding.code for finding in faults.findings()}:
        reading.findings = [finding for finding in faults.findings() if finding.severity == "error"]
        reading.status = reading.findings[-1].code if reading.findings else "cut"
    return reading


def _problem(reading: Reading) -> str:
    """Return why a file could not be read completely, or ""."""
    if not reading.status:
        return ""
    return _said(reading.findings[-1]) if reading.findings else "only the first part was read"


def _said(finding: Finding) -> str:
    return f"{finding.title} ({finding.detail})" if finding.detail else finding.title
