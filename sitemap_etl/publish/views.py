"""Make files that repeat URLs of sections: recently changed URLs, and feeds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl.frames import SNAPSHOT, conform
from sitemap_etl.partition import cut
from sitemap_etl.publish.actual import Object
from sitemap_etl.publish.drafts import Draft, draft_of
from sitemap_etl.publish.plan import RESERVED
from sitemap_etl.render import feeds, urlset
from sitemap_etl.render.shards import Shard
from sitemap_etl.settings import Shards
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.staging import stage_shard
from sitemap_etl.state.checked import read_checked
from sitemap_etl.state.records import Entry, File, SectionState

RECENT: Final = "recent"
"""Section name of the files of recent changes in manifest and file names. No other section can use it."""
_AT_ONCE: Final = 4
"""Files of recent changes to cut together. More give more even files but need more memory."""


def recent_drafts(run: Run, drafts: Sequence[Draft], sections: Mapping[str, SectionState]) -> list[Draft]:
    """Return the files of the URLs that were added or changed within `recent:`, of all sections that are not views.

    `sections`: of the set, also those that the site file no longer has, which a rollback brings back. Rows of a
    section's first publish do not count.
    """
    if run.site.recent is None:
        return []
    since = run.epoch - int(run.site.recent.total_seconds())
    entries = (draft.entry for draft in drafts)
    changed = [e for e in entries if not sections[e.section].view and e.since is not None and e.since >= since]
    files = _files(_recent_rows(run, changed, since))
    return [_recent(run, rows, rendered, number) for number, (rows, rendered) in enumerate(files, 1)]


def _recent_rows(run: Run, entries: Sequence[Entry], since: int) -> Iterator[pa.Table]:
    """Yield the rows of these shards that changed since then, sorted by loc over all sections: SNAPSHOT tables.

    Memory holds as many shards as sections have side by side.
    """
    waiting = SNAPSHOT.empty_table()
    for entry in sorted(entries, key=lambda entry: entry.first):
        ready = pc.sum(pc.less(waiting.column("loc"), entry.first)).as_py() or 0  # none that comes sorts before it
        yield waiting.slice(0, ready)
        rows = run.state.snapshot(entry.snapshot)
        rows = rows.filter(pc.greater_equal(rows.column("since"), since))
        if ready < waiting.num_rows:
            rows = pa.concat_tables([waiting.slice(ready), rows])
            rows = rows.take(pc.sort_indices(rows.column("loc")))
        waiting = rows
    yield waiting


def _files(batches: Iterable[pa.Table]) -> Iterator[tuple[pa.Table, urlset.Entries]]:
    """Yield the rows of each file, with their rendered entries. Memory holds a few files."""
    bounds = Shards().inside(urlset.WRAPPER_BYTES)
    waiting = SNAPSHOT.empty_table()
    for rows in batches:
        waiting = pa.concat_tables([waiting, rows])
        if waiting.num_rows >= _AT_ONCE * bounds.rows or waiting.nbytes >= _AT_ONCE * bounds.bytes:
            *full, (waiting, _) = _cut(waiting, bounds)
            yield from full
    if waiting.num_rows:
        yield from _cut(waiting, bounds)


def _cut(rows: pa.Table, bounds: Shards) -> list[tuple[pa.Table, urlset.Entries]]:
    rows = rows.combine_chunks()
    rendered = urlset.entries(rows)
    starts = cut(rendered.sizes, bounds)
    return [
        (rows.slice(start, stop - start), rendered.slice(start, stop))
        for start, stop in zip(starts, [*starts[1:], rows.num_rows], strict=True)
    ]


def _recent(run: Run, rows: pa.Table, rendered: urlset.Entries, number: int) -> Draft:
    low = rows.column("loc")[0].as_py()
    shard = Shard(low, None, 0, rows, reused=False, entries=rendered)
    staged = stage_shard(run, f"views/{number}", shard, snapshot="")
    return draft_of(run, RECENT, number, staged, None, low=low, index=1 if number <= RESERVED else 0)


def with_tops(run: Run, sections: dict[str, SectionState], drafts: Sequence[Draft]) -> dict[str, SectionState]:
    """Return the sections' states with the rows that their feeds show. `drafts`: of all sections."""
    planned = run.partition()
    result = dict(sections)
    for name, state in sections.items():
        section = run.site.sections[name]
        if section.feed is None:
            result[name] = replace(state, top=None)
            continue
        if name not in planned.sections:
            own = [draft.entry for draft in drafts if draft.entry.section == name]
            result[name] = with_top(run, name, state, own)
            continue
        tables = [SNAPSHOT.empty_table()]
        for receipt in run.all_rendered():
            top = receipt.top if receipt.section == name else None
            stored = None if top is None else read_checked(run.staging, top)
            if stored is not None:
                tables.append(pq.read_table(pa.BufferReader(stored), schema=SNAPSHOT))
        rows = conform(feeds.newest(pa.concat_tables(tables), section.feed.items), SNAPSHOT)
        result[name] = replace(state, top=run.state.put_snapshot(rows) if rows.num_rows else None)
    return result


def with_top(run: Run, name: str, state: SectionState, entries: Sequence[Entry]) -> SectionState:
    """Return the section, which is published in these shards, with the rows that its feeds show: it may have been
    rendered before it had any.
    """
    section = run.site.sections.get(name)
    if section is None or section.feed is None or state.top is not None:
        return state
    top = SNAPSHOT.empty_table()
    for entry in entries:
        rows = pa.concat_tables([top, run.state.snapshot(entry.snapshot)])
        top = conform(feeds.newest(rows, section.feed.items), SNAPSHOT)
    return replace(state, top=run.state.put_snapshot(top) if top.num_rows else None)


def feed_objects(run: Run, sections: dict[str, SectionState]) -> list[Object]:
    """Return the feeds of every section that has some, as they should be."""
    publish = run.site.publish
    hubs = run.site.ping.websub.hub if run.site.ping.websub is not None else ()
    found = []
    for name, state in sections.items():
        section = run.site.sections.get(name)
        if section is None or section.feed is None:
            continue
        rows = run.state.snapshot(state.top) if state.top is not None else SNAPSHOT.empty_table()
        for form in section.feed.formats:
            key = publish.names.feed_name(name, form)
            feed = feeds.Feed(
                title=section.feed.title,
                address=publish.at + key,
                site=f"{run.site.site}/",
                hubs=tuple(hubs),
                items=section.feed.items,
            )
            data = feeds.rss(feed, rows) if form == "rss" else feeds.atom(feed, rows)
            found.append(_object(run, key, data))
    return found


def _object(run: Run, key: str, data: bytes) -> Object:
    digest = hashlib.sha256(data).hexdigest()
    old = next((file for file in run.base.extras if file.key == key), None) if run.base is not None else None
    since = old.lastmod if old is not None and old.sha256 == digest else run.plan.now
    return Object(File(key, len(data), digest, len(data), digest, None, since), lambda: data)
