"""Publish sections that a run did not read, without the pages and dates that are no longer valid.

A section is not read for three reasons: the run was asked for others (`--section`), its source failed (`on_error:
keep`), or it is a table whose version is published. In all cases articles that are no longer news leave, and dates
after the run are dropped. A page that an earlier section lists now leaves too. Only files with such pages are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import extensions
from sitemap_etl.arrow import column_of
from sitemap_etl.config import Section
from sitemap_etl.frames import AS_PUBLISHED, ASIDE, EXAMPLES, Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.drafts import Draft, draft_of
from sitemap_etl.render import urlset
from sitemap_etl.render.shards import Shard
from sitemap_etl.stages.about import here
from sitemap_etl.stages.published import until_now
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.staging import stage_shard
from sitemap_etl.state.records import Counts, Entry, SectionState

_AT_ONCE: Final = 4
"""Files to render in parallel. Each needs memory for its rows."""


class Carried(Frozen):
    """A section that was not read, as the run publishes it."""

    drafts: list[Draft]
    state: SectionState
    counts: Counts
    aside: dict[str, pa.Table]  # `excluded`, `duplicates` → pages that left: frames.ASIDE
    reasons: dict[str, Tally]  # `excluded`, `duplicates` → reasons
    linked: int  # pages that left and had hreflang links


def carry(run: Run, section: Section, state: SectionState, entries: Sequence[Entry], taken: pa.Table) -> Carried:
    """Return a section that was not read, without the pages and dates that time and other sections take from it.

    `state`, `entries`: as published. `taken`: loc and reason of the pages that earlier sections list now, ordered by
    loc, each once.
    """
    anywhere = section.news is not None or run.goes_back
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        work = [
            pool.submit(here(_shard), run, section, entry, mine) if anywhere or mine.num_rows else None
            for entry in entries
            for mine in [_between(taken, entry.first, entry.last)]
        ]
        shards = [
            _Shard(Draft(entry), {}) if future is None else future.result()
            for entry, future in zip(entries, work, strict=True)
        ]
    drafts = [shard.draft for shard in shards if shard.draft is not None]
    if drafts and drafts[0].entry.low:
        drafts[0] = replace(drafts[0], entry=replace(drafts[0].entry, low=""))
    aside = {
        kind: pa.concat_tables([ASIDE.empty_table(), *(shard.aside[kind] for shard in shards if kind in shard.aside)])
        for kind in ("excluded", "duplicates")
    }
    left = {kind: rows.num_rows for kind, rows in aside.items()}
    listed = state.listed - sum(left.values())
    return Carried(
        drafts,
        replace(state, listed=listed, top=_top(run, state, aside)),
        Counts(carried=state.listed, listed=listed, **left),
        aside,
        {kind: _tally(rows) for kind, rows in aside.items() if rows.num_rows},
        sum(shard.linked for shard in shards),
    )


class _Shard(Frozen):
    """One file of an unread section."""

    draft: Draft | None  # None if no page is left
    aside: dict[str, pa.Table]  # `excluded`, `duplicates` → pages that left: frames.ASIDE
    linked: int = 0  # pages that left and had hreflang links


def _shard(run: Run, section: Section, entry: Entry, taken: pa.Table) -> _Shard:
    published = run.state.snapshot(entry.snapshot)
    rows = until_now(run, published) if run.goes_back else published
    aside = {}
    gone = pc.is_in(rows.column("loc"), column_of(taken, "loc"))
    if pc.any(gone).as_py():
        locs = column_of(rows, "loc").filter(gone.combine_chunks())
        at = pc.index_in(locs, column_of(taken, "loc"))
        aside["duplicates"] = _aside(section.name, locs, column_of(taken, "reason").take(at))
        rows = rows.filter(pc.invert(gone))
    if section.news is not None:
        still = extensions.still_news(column_of(rows, "news"), run.now, section.lastmod.timezone)
        if not still.all():
            locs = column_of(rows, "loc").filter(pa.array(~still))
            aside["excluded"] = _aside(section.name, locs, pa.repeat(extensions.NOT_NEWS, len(locs)))
            rows = rows.filter(pa.array(still))
    linked = _linked(published) - _linked(rows)
    if not rows.num_rows:
        return _Shard(None, aside, linked)
    same = rows.equals(published)
    return _Shard(Draft(entry) if same else _rendered(run, entry, rows.combine_chunks()), aside, linked)


def _linked(rows: pa.Table) -> int:
    """Count the rows with hreflang links."""
    lengths = pc.list_value_length(rows.column("alternates"))
    return pc.sum(pc.greater(lengths, 0)).as_py() or 0


def _rendered(run: Run, entry: Entry, rows: pa.Table) -> Draft:
    """Return a published shard with these rows in place of its own; a file whose bytes stay the same is kept."""
    shard = Shard(entry.low, entry.number, 0, rows, reused=False, entries=urlset.entries(rows))
    with_text = entry.text is not None and rows.num_rows != entry.rows
    staged = stage_shard(run, f"unread/{entry.section}-{entry.number}", shard, with_text=with_text)
    return draft_of(run, entry.section, entry.number, staged, entry, low=entry.low)


def _between(taken: pa.Table, first: str, last: str) -> pa.Table:
    """Return the rows with locs from `first` to `last`."""
    locs = column_of(taken, "loc")
    if not len(locs):
        return taken
    start = pc.search_sorted(locs, pa.scalar(first, locs.type), side="left").as_py()
    stop = pc.search_sorted(locs, pa.scalar(last, locs.type), side="right").as_py()
    return taken.slice(start, stop - start)


def _aside(section: str, locs: pa.Array, reasons: pa.Array) -> pa.Table:
    count = len(locs)
    columns = {
        "section": pa.repeat(section, count),
        "loc": locs,
        "reason": reasons,
        "row": pa.repeat(pa.scalar(AS_PUBLISHED, pa.int64()), count),
        "canonical": locs,
        "key": pa.nulls(count, pa.string()),
    }
    return pa.table(columns, ASIDE)


def _tally(rows: pa.Table) -> Tally:
    """Return the reasons of pages that left, with examples."""
    found = Tally()
    reasons = column_of(rows, "reason")
    for reason in np.unique(reasons.to_numpy(zero_copy_only=False)).tolist():
        locs = column_of(rows, "loc").filter(pc.equal(reasons, reason))
        found.add(reason, len(locs), locs.slice(0, EXAMPLES).to_pylist())
    return found


def _top(run: Run, state: SectionState, aside: dict[str, pa.Table]) -> str | None:
    """Return the key of the rows that the section's feeds show; None if they have to be chosen again."""
    if state.top is None or run.goes_back:
        return None
    left = pa.chunked_array([rows.column("loc").combine_chunks() for rows in aside.values()], pa.string())
    shown = run.state.snapshot(state.top, ["loc"]).column("loc") if len(left) else left
    return None if len(left) and pc.any(pc.is_in(shown, left)).as_py() else state.top
