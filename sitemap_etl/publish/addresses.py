"""Warnings about addresses: published ones that are rejected now, a few without a leading slash, and IDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import urls
from sitemap_etl.frames import EXAMPLES, Tally
from sitemap_etl.publish.moves import read_changes
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Run
from sitemap_etl.state.checked import read_checked
from sitemap_etl.state.records import Counts, Rendered, Transformed

BARE: Final = "loc without a leading slash"
_BARE_SHARE: Final = 0.01


def note_bare(parts: Iterable[Transformed], notes: Tally) -> None:
    """Count the addresses without a leading slash in the notes of a section, if they are less than 1 % of all."""
    parts = list(parts)
    count, addresses = sum(part.bare[0] for part in parts), sum(part.inventory for part in parts)
    if 0 < count < _BARE_SHARE * addresses:
        notes.add(BARE, count, [part.bare[1] for part in parts if part.bare[0]])


def warn_of_bare(run: Run, name: str, notes: Tally, counts: Counts) -> Iterable[str]:
    """Yield a warning if a few of a section's addresses have no leading slash."""
    if BARE in notes.counts:
        example = notes.examples[BARE][0]
        yield (
            f"{name}: {notes.counts[BARE]:,} of {counts.listed:,} addresses have no leading slash, such as "
            f"{example!r}, listed as {run.site.site}/{example}. If they are not pages, write urls: {{bare: reject}}"
        )


def warn_of_numbers(name: str, parts: Sequence[Transformed], site: str) -> Iterator[str]:
    """Yield a warning if a section's addresses look like IDs: none has a leading slash, and examples are numbers.

    `parts`: of all splits. `site`: the origin that addresses are joined to.
    """
    bare = [part.bare[1] for part in parts if part.bare[0]]
    if bare and all(map(str.isdecimal, bare)) and all(part.bare[0] == part.inventory for part in parts):
        yield (
            f"{name}: its addresses are numbers such as {bare[0]}, which is {site}/{bare[0]}. If they are IDs, build "
            "the paths in a SELECT: '/p/' || id AS loc, in MySQL concat('/p/', id) AS loc"
        )


def warn_of_rejected(run: Run, name: str, rejected: Tally, receipts: Iterable[Rendered]) -> Iterable[str]:
    """Yield a warning if values that are not addresses were listed until now: their number and three examples."""
    if run.base is None or not urls.NO_ADDRESSES.intersection(rejected.counts):
        return
    rules = rules_of(run.site, run.site.sections[name], run.now, None).urls
    removed = [
        changes.filter(pc.equal(changes.column("kind"), "removed")).column("loc")
        for receipt in receipts
        for changes in read_changes(run, receipt)
    ]
    gone = pa.chunked_array([chunk for each in removed for chunk in each.chunks], pa.string())
    if not len(gone):
        return
    found: set[str] = set()
    for part in run.parts(name):
        stored = part.aside.get("rejected")
        data = None if stored is None else read_checked(run.staging, stored)
        for batch in () if data is None else pq.ParquetFile(pa.BufferReader(data)).iter_batches():
            ours = pc.is_in(batch.column("reason"), pa.array(sorted(urls.NO_ADDRESSES)))
            listed = urls.as_joined(batch.column("loc").filter(ours), rules)
            found |= set(listed.filter(pc.is_in(listed, gone).fill_null(False)).to_pylist())
    if found:
        were, are = ("address that was", "is") if len(found) == 1 else ("addresses that were", "are")
        yield (
            f"{name}: {len(found):,} {were} listed until now {are} rejected, because the value in the source is not "
            f"an address: {', '.join(sorted(found)[:EXAMPLES])}"
        )
