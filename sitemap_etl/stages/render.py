"""The render stage: turn a group's windows, one after the other, into staged files, snapshots and changes."""

from __future__ import annotations

import tempfile
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of, mask_of, nulls_in, single
from sitemap_etl.frames import ASIDE, EXAMPLES, SNAPSHOT, Tally, conform
from sitemap_etl.render import feeds
from sitemap_etl.render.shards import Shard, shards
from sitemap_etl.stages.about import here
from sitemap_etl.stages.published import as_published, overlapping
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.staging import stage_shard
from sitemap_etl.stages.transform import count_reasons
from sitemap_etl.stages.window import TAKEN, Reader, Window, read_window
from sitemap_etl.state import layout
from sitemap_etl.state.checked import put_checked
from sitemap_etl.state.records import Checked, Entry, GroupCounts, Rendered, StagedShard

TOP: Final = 100
"""Distinct new dates that are counted per window."""
_STAGERS: Final = 2
"""Shards of a group to compress and stage in parallel."""
_AHEAD: Final = 4
"""Largest number of shards of a group in memory."""
STAGED_CHANGES: Final = pa.schema(
    [
        ("loc", pa.string()),
        ("kind", pa.string()),  # added, changed, removed
        ("lastmod", pa.string()),
        ("section", pa.string()),
        ("shard", pa.int64()),  # added, changed: the shard's place in its group; removed: its old number
        ("fingerprint", pa.uint64()),  # of removed rows
        ("changed", pa.bool_()),  # of added rows that stood in another section
    ]
)


def render_group(run: Run, n: int) -> Rendered:
    """Render task `n` of the partition's plan and return its result."""
    name = layout.render(n)
    done = run.receipt(name, Rendered)
    if done is not None:
        return done
    section, group = run.partition().units[n]
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        return run.leave(name, _Group(run, section, run.attempt(name), Path(scratch)).render(group))


class _Group:
    """Renderer of one group."""

    def __init__(self, run: Run, section: str, key: str, scratch: Path) -> None:
        self.run = run
        self.reader = Reader(run)
        self.plan = self.reader.planned.sections[section]
        self.section = run.site.sections[section]
        self.entries = run.base.of(section) if run.base is not None else []
        self.key = key
        self.scratch = scratch
        self.pool = ThreadPoolExecutor(_STAGERS)
        self.shards: list[Future[StagedShard]] = []
        self.counts = GroupCounts()
        self.reasons = Tally()
        self.notes = Tally()
        self.new: pa.Array = pa.array([], pa.string())
        self.new_dates: Counter[str] = Counter()
        self.redated: Counter[str] = Counter()
        self.minutes = lastmod.Minutes.none()
        self.dated = 0
        self.examples: dict[str, list[str]] = {"added": [], "changed": [], "removed": [], "undated": []}
        self.tables: dict[str, pq.ParquetWriter] = {}
        self.top: pa.Table = SNAPSHOT.empty_table()

    def render(self, group: int) -> Rendered:
        """Render all windows of a group. Files of one window are staged while the next one is read and rendered."""
        first, past = self.plan.groups[group]
        with self.pool:
            try:
                for low, high in self.plan.windows[first:past]:
                    self._window(low, high)
                shards = tuple(shard.result() for shard in self.shards)
            except BaseException:
                self.pool.shutdown(cancel_futures=True)
                raise
        staged = {}
        for kind, writer in self.tables.items():
            writer.close()
            path = self.scratch / f"{kind}.parquet"
            staged[kind] = put_checked(self.run.staging, f"{self.key}-{kind}.parquet", path)
        return Rendered(
            section=self.section.name,
            group=group,
            shards=shards,
            counts=self.counts,
            reasons=self.reasons,
            new_dates=dict(self.new_dates),
            redated=dict(self.redated),
            minutes=self.minutes.to_store(),
            dated=self.dated,
            examples={kind: tuple(locs) for kind, locs in self.examples.items()},
            changes=staged.get("changes"),
            duplicates=staged.get("duplicates"),
            taken=staged.get("taken"),
            top=self._put_top(),
            notes=self.notes,
            new=tuple(self.new.to_pylist()),
        )

    def _window(self, low: str, high: str | None) -> None:
        window = read_window(self.reader, self.section.name, low, high)
        compared = window.compared
        around = overlapping(self.entries, low, high)
        made, stripped = shards(
            compared,
            window.known,
            as_published(around),
            low=low,
            high=high,
            bounds=self.section.shards,
            view=self.section.view,
        )
        if stripped:
            self.notes.add("extensions over the byte limit of a file", len(stripped), stripped)
        by_number = {entry.number: entry for entry, _ in around}
        place = np.empty(compared.rows.num_rows, np.int64)
        for shard in made:
            place[shard.place : shard.place + shard.rows.num_rows] = len(self.shards)
            old = by_number[shard.parent] if shard.reused and shard.parent else None
            if len(self.shards) >= _AHEAD:
                self.shards[-_AHEAD].result()
            self.shards.append(self.pool.submit(here(self._stage), len(self.shards), shard, old))
        self._count(window, place, [entry.number for entry, _ in around], [entry.low for entry, _ in around])
        if self.section.feed:
            self._keep_newest(compared.rows)

    def _stage(self, number: int, shard: Shard, old: Entry | None) -> StagedShard:
        """Stage the files and the snapshot of a shard. `old`: the published shard, if it is reused."""
        return stage_shard(
            self.run,
            f"{self.key}/{number}",
            shard,
            with_text="text" in self.section.formats and (old is None or old.text is None),
            snapshot=None if old is None or shard.renewed else old.snapshot,
        )

    def _count(self, window: Window, place: np.ndarray, numbers: list[int], lows: list[str]) -> None:
        compared = window.compared
        rows = compared.rows
        added, changed = pa.array(window.added), pa.array(compared.changed & ~window.added)
        removed = window.removed
        self.counts += GroupCounts(
            gathered=window.unique.gathered,
            listed=rows.num_rows,
            duplicates=window.unique.duplicates.num_rows,
            added=int(window.added.sum()),
            changed=int((compared.changed & ~window.added).sum()),
            removed=0 if window.shown else removed.num_rows,
            blind=window.blind,
        )
        self._count_dates(window)
        self._sample(window)
        for kind, mask in (("added", added), ("changed", changed)):
            picked = rows if pc.all(mask).as_py() else rows.filter(mask)
            since_moved = pa.array(compared.changed, mask=~window.arrived).filter(mask)
            self._write_changes(kind, picked, place[mask_of(mask)], since_moved)
            if self.section.lastmod.kind != "fingerprint" and picked.num_rows:
                self.new_dates.update(_most_frequent(picked.column("lastmod")))
                self.dated += picked.num_rows - picked.column("lastmod").null_count
        if removed.num_rows:
            at = pc.search_sorted(pa.array(lows), column_of(removed, "loc"), side="right").to_numpy()
            old = np.array(numbers, np.int64)[np.maximum(at.astype(np.int64) - 1, 0)]
            self._write_changes("removed", removed, old, pa.nulls(removed.num_rows, pa.bool_()))
        if window.taken.num_rows:
            self._write("taken", window.taken, TAKEN)
        duplicates = window.unique.duplicates
        if duplicates.num_rows:
            self._write("duplicates", duplicates, ASIDE)
            count_reasons(duplicates, self.reasons, self.run)

    def _sample(self, window: Window) -> None:
        """Sample the new pages that the gate `pages` visits before they are listed."""
        gate = self.section.gates.pages
        if gate is None or not gate.sample or self.section.view:
            return
        added = window.compared.rows.filter(pa.array(window.added & ~window.compared.moved))
        if not added.num_rows:
            return
        from sitemap_etl.pages import sampled  # brings the HTTP client along, which no other gate needs

        locs = pa.concat_arrays([self.new, single(added.column("loc"))])
        self.new = locs.take(pa.array(sampled(locs, gate.sample)))

    def _count_dates(self, window: Window) -> None:
        """Count the changes of dates for pages that had one, in this section or another."""
        rows, had = window.compared.rows, window.compared.dated
        undated = had & nulls_in(column_of(rows, "lastmod"))
        self.counts += GroupCounts(dated=int(had.sum()), undated=int(undated.sum()))
        if undated.any():
            shown = self.examples["undated"]
            few = np.flatnonzero(undated)[: EXAMPLES - len(shown)]
            shown += rows.column("loc").take(pa.array(few)).to_pylist()
        redated = had & ~undated & window.compared.changed
        if redated.any():
            dates = rows.column("lastmod").filter(pa.array(redated))
            for entry in _top(dates):
                self.redated[entry["values"]] += entry["counts"]
            if self.section.lastmod.kind != "fingerprint":  # fingerprints date all changes with the run's time
                self.minutes += lastmod.Minutes.of(single(dates))

    def _write_changes(self, kind: str, rows: pa.Table, place: np.ndarray, since_moved: pa.Array) -> None:
        if not rows.num_rows:
            return
        shown = self.examples[kind]
        shown += rows.column("loc").slice(0, EXAMPLES - len(shown)).to_pylist()
        if self.run.base is None:
            return  # everything is new; nobody is notified
        count = rows.num_rows
        table = pa.table(
            {
                "loc": rows.column("loc"),
                "kind": pa.repeat(pa.scalar(kind), count),
                "lastmod": rows.column("lastmod"),
                "section": pa.repeat(pa.scalar(self.section.name), count),
                "shard": pa.array(place, pa.int64()),
                "fingerprint": rows.column("fingerprint") if kind == "removed" else pa.nulls(count, pa.uint64()),
                "changed": since_moved,
            },
            schema=STAGED_CHANGES,
        )
        self._write("changes", table, STAGED_CHANGES)

    def _write(self, kind: str, table: pa.Table, schema: pa.Schema) -> None:
        if kind not in self.tables:
            self.tables[kind] = pq.ParquetWriter(self.scratch / f"{kind}.parquet", schema, compression="zstd")
        self.tables[kind].write_table(table)

    def _keep_newest(self, rows: pa.Table) -> None:
        """Keep the rows that a feed can show: the newest by lastmod, then by loc."""
        assert self.section.feed
        self.top = conform(feeds.newest(pa.concat_tables([self.top, rows]), self.section.feed.items), SNAPSHOT)

    def _put_top(self) -> Checked | None:
        if not self.section.feed or not self.top.num_rows:
            return None
        sink = pa.BufferOutputStream()
        pq.write_table(self.top, sink)
        return put_checked(self.run.staging, f"{self.key}-top.parquet", memoryview(sink.getvalue()))


def _top(dates: pa.ChunkedArray) -> list[dict[str, Any]]:
    """Return the most frequent values with their counts. A value with a large share of a section is in most windows'
    results.
    """
    counted = pc.value_counts(single(dates))
    order = pc.select_k_unstable(counted.field("counts"), TOP, sort_keys=[("", "descending")])
    found: list[dict[str, Any]] = counted.take(order).to_pylist()
    return found


def _most_frequent(dates: pa.ChunkedArray) -> dict[str, int]:
    """Return the value that could be nine tenths of the column, and its count. Nulls don't count.

    Such a value is the most frequent of any sample too, so the column is only scanned for that one.
    """
    dates = dates.drop_null() if dates.null_count else dates
    if not len(dates):
        return {}
    sample = dates.take(pa.array(np.unique(np.linspace(0, len(dates) - 1, 1_000).astype(np.int64))))
    encoded = single(sample).dictionary_encode()
    candidate = encoded.dictionary[pc.mode(encoded.indices)[0]["mode"].as_py()]
    return {candidate.as_py(): pc.sum(pc.equal(dates, candidate)).as_py()}
