"""Compare the result of a dry run with a live sitemap: `run --dry-run --against URL`.

Both sides are partitioned into files on disk by the hash of their locs. Only one part of each side is in memory at a
time, whatever the size of the sitemaps.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of, dealt, mask_of, single
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.listing import Listing, listings
from sitemap_etl.check.options import Options
from sitemap_etl.dates import DATE, DAY, INSTANT, read
from sitemap_etl.errors import Refused
from sitemap_etl.hashes import hash64
from sitemap_etl.publish.proposal import Proposal
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Comparison, Difference, Example
from sitemap_etl.storage import open_storage
from sitemap_etl.urls import UrlRules, canonicalize
from sitemap_etl.web import shown_address

PARTS: Final = 64
_FIRST_SECONDS: Final = 60.0
"""Time limit in seconds for testing whether a sitemap can be read."""
EXAMPLES: Final = 3
_HERE: Final = pa.schema([("loc", pa.string()), ("lastmod", pa.string())])
_THERE: Final = pa.schema([*_HERE, ("written", pa.string())])


class _Totals:
    """Counts over all parts."""

    def __init__(self) -> None:
        self.here = self.urls = self.both = self.repeated = 0
        self.only_here = Difference()
        self.only_there = Difference()
        self.other_lastmod = Difference()
        self.respelled = Difference()


def _more(known: Difference, count: int, examples: Iterable[str | Example]) -> Difference:
    """Add URLs to a difference. The first examples stay."""
    return Difference(known.count + count, (*known.examples, *examples)[:EXAMPLES])


def check_target(url: str) -> None:
    """Read the first file behind `url`, so that a bad address fails before a long run.

    Raises the errors of `compare_with`, and Refused if it is a single file that is not a sitemap.
    """
    with closing(listings(url, Options(open_s3=open_storage, max_time=_FIRST_SECONDS))) as files:
        first = next(files, None)
        if first is None or first.rows.num_rows or not first.problem or first.within:
            return
        if next(files, None) is None:
            raise Refused(f"{first.name}: {first.problem}")


def compare_with(run: Run, proposal: Proposal, url: str, *, fetcher: Fetcher | None = None) -> Comparison:
    """Return counts and examples of URLs only here, only there, with another lastmod, or in another spelling.

    `url`: a sitemap, index, feed or robots.txt, also a path or `s3://` address. The site's rules make its locs
    canonical before the comparison. Views are left out, because they repeat other sections. Raises ConfigError if the
    address can't be read, Unavailable if it does not answer.
    """
    options = Options(now=run.now, open_s3=open_storage)
    totals = _Totals()
    files, problems = 0, []
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        there = _Dealt(Path(scratch), "there", _THERE)
        for listing in listings(url, options, fetcher=fetcher):
            files += 1
            if listing.problem:
                problems.append(f"{listing.name}: {listing.problem}")
            there.deal(_as_listed(listing, run))
            run.environment.advance("compare", files, 0)
        here = _Dealt(Path(scratch), "here", _HERE)
        for draft in proposal.drafts:
            state = proposal.sections.get(draft.entry.section)
            if draft.entry.snapshot and state is not None and not state.view:
                here.deal(run.state.snapshot(draft.entry.snapshot, ["loc", "lastmod"]))
        for mine, theirs in zip(here.parts(), there.parts(), strict=True):
            _compare(mine, theirs, totals)
    return Comparison(
        url=shown_address(url),
        files=files,
        urls=totals.urls,
        here=totals.here,
        both=totals.both,
        repeated=totals.repeated,
        problems=tuple(problems),
        only_here=totals.only_here,
        only_there=totals.only_there,
        other_lastmod=totals.other_lastmod,
        respelled=totals.respelled,
    )


class _Dealt:
    """Rows partitioned into files by the hash of their loc."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema) -> None:
        self.schema = schema
        self._paths = [folder / f"{name}-{part}.arrow" for part in range(PARTS)]
        self._writers = [pa.ipc.new_stream(str(path), schema) for path in self._paths]

    def deal(self, rows: pa.Table) -> None:
        """Append each row to the file of its part."""
        if not rows.num_rows:
            return
        order, borders = dealt(hash64(rows.column("loc")), PARTS)
        ordered = rows.cast(self.schema).take(pa.array(order)).combine_chunks()
        for at, writer in enumerate(self._writers):
            if borders[at + 1] > borders[at]:
                writer.write_table(ordered.slice(borders[at], borders[at + 1] - borders[at]))

    def parts(self) -> Iterator[pa.Table]:
        """Close the files and yield the rows of each part."""
        for writer in self._writers:
            writer.close()
        for path in self._paths:
            with pa.ipc.open_stream(str(path)) as reader:
                yield reader.read_all()


def _as_listed(listing: Listing, run: Run) -> pa.Table:
    """Return the rows of a file there: canonical locs, or the written ones if they can't be made canonical."""
    written = column_of(listing.rows, "loc")
    urls = run.site.urls
    canonical = canonicalize(written, UrlRules(run.site.site, urls.same_as, frozenset(urls.strip))).loc
    loc = pc.coalesce(single(canonical), written)
    return pa.table([loc, listing.rows.column("lastmod"), written], schema=_THERE)


def _compare(mine: pa.Table, theirs: pa.Table, totals: _Totals) -> None:
    """Add one part of each side to the totals."""
    newest = theirs.group_by("loc").aggregate([("lastmod", "max"), ("written", "min")])
    newest = newest.rename_columns(["loc", "there", "written"]).sort_by("loc")
    totals.here += mine.num_rows
    totals.urls += newest.num_rows
    totals.repeated += theirs.num_rows - newest.num_rows
    mine = mine.sort_by("loc")
    only_here = mine.join(newest.select(["loc"]), "loc", join_type="left anti").sort_by("loc")
    only_there = newest.join(mine.select(["loc"]), "loc", join_type="left anti").sort_by("loc")
    totals.only_here = _more(totals.only_here, only_here.num_rows, _first(only_here.column("loc")))
    totals.only_there = _more(totals.only_there, only_there.num_rows, _first(only_there.column("written")))
    both = mine.rename_columns(["loc", "here"]).join(newest, "loc", join_type="inner").sort_by("loc").combine_chunks()
    totals.both += both.num_rows
    differs = both.filter(pa.array(_other_dates(both.column("here"), both.column("there"))))
    shown = [Example(**row) for row in differs.select(["loc", "here", "there"]).slice(0, EXAMPLES).to_pylist()]
    totals.other_lastmod = _more(totals.other_lastmod, differs.num_rows, shown)
    respelled = both.filter(pc.not_equal(both.column("loc"), both.column("written"))).column("written")
    totals.respelled = _more(totals.respelled, len(respelled), _first(respelled))


def _first(locs: pa.ChunkedArray) -> list[str]:
    found: list[str] = locs.slice(0, EXAMPLES).to_pylist()
    return found


def _other_dates(here: pa.ChunkedArray, there: pa.ChunkedArray) -> np.ndarray:
    """Return a mask of lastmods that contradict each other. A date without time matches any time of that day (UTC)."""
    here, there = single(here), single(there)
    if not len(here):
        return np.zeros(0, bool)
    one, other = read(here), read(there)
    daily = (one.kind == DATE) | (other.kind == DATE)
    same = np.where(daily, one.seconds // DAY == other.seconds // DAY, one.seconds == other.seconds)
    known, known_there = (np.isin(side.kind, (DATE, INSTANT)) for side in (one, other))
    same &= known & known_there
    none = mask_of(pc.is_null(here)) & mask_of(pc.is_null(there))
    odd = ~known & ~known_there & mask_of(pc.equal(pc.fill_null(here, ""), pc.fill_null(there, "")))
    result: np.ndarray = ~(same | none | odd)
    return result
