"""Read the shards of the last release as loc ranges, and their published rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of
from sitemap_etl.diff import places
from sitemap_etl.frames import SNAPSHOT, conform, filled, with_column
from sitemap_etl.partition import stretch
from sitemap_etl.partition.borders import Range
from sitemap_etl.render.shards import Published
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Entry, File, SectionPlan, SectionState

DATES: Final = pa.schema([SNAPSHOT.field(name) for name in ("loc", "lastmod", "fingerprint", "since")])
"""Columns of a snapshot that date a page."""
REMEMBERED: Final = timedelta(days=30)
"""Time for which dates of removed rows are stored, in case the rows return."""


def published_ranges(run: Run, section: str) -> list[Range]:
    """Return the section's ranges as it was last published; none on its first publish."""
    if run.base is None:
        return []
    return [Range(entry.low, entry.rows, entry.body) for entry in run.base.of(section)]


def same_definition(one: SectionState | SectionPlan, other: SectionState | SectionPlan) -> bool:
    """Return True if the fingerprints of both can be compared."""
    if one.kinds is None or other.kinds is None:
        return one.rule == other.rule
    return lastmod.comparable(one.kinds, other.kinds)


def remembered(removed: pa.Table, run: Run) -> pa.Table:
    """Return the removed rows (`since` is the time of removal) whose dates are kept in case they return."""
    late = pc.greater_equal(removed.column("since"), run.epoch - int(REMEMBERED.total_seconds()))
    return removed if pc.all(late, skip_nulls=False).as_py() else removed.filter(late)


class Following:
    """Reads the dates of a snapshot's rows in ranges that follow each other. Memory holds few of its batches."""

    def __init__(self, run: Run, key: str) -> None:
        self._run = run
        self._key = key
        self._begin()

    def _begin(self) -> None:
        self._read: str | None = ""
        self._batches = self._run.state.snapshot_batches(self._key, DATES.names)
        self._rest = DATES.empty_table()

    def between(self, low: str, high: str | None) -> pa.Table:
        """Return the rows in [low, high): DATES, ordered by loc. Rows that were read already are read from the start
        again.
        """
        if self._read is None or low < self._read:
            self._begin()
        parts = [DATES.empty_table()]
        part: pa.Table | None = self._rest
        while part is not None:
            rows = stretch(part, low, high)
            if rows.num_rows:  # a slice without rows would keep all of its batch in memory
                parts.append(rows)
            self._rest, self._read = part, high
            if high is not None and part.num_rows and part.column("loc")[-1].as_py() >= high:
                break
            part = next(self._batches, None)
        return pa.concat_tables(parts).combine_chunks()


def in_time(run: Run, entry: Entry) -> Entry:
    """Return a shard of another release without dates after the run, whose file is then rendered again."""
    key = rows_in_time(run, entry.snapshot)
    since = None if entry.since is None else min(entry.since, run.epoch)
    if key == entry.snapshot:
        return replace(entry, since=since)
    return replace(entry, snapshot=key, since=since, file=_unlike(entry.file))


def rows_in_time(run: Run, key: str) -> str:
    """Return the key of a snapshot's rows without dates after the run."""
    rows = run.state.snapshot(key)
    believed = until_now(run, rows)
    return key if believed.equals(rows) else run.state.put_snapshot(believed)


def until_now(run: Run, rows: pa.Table) -> pa.Table:
    """Return snapshot rows without dates after the run."""
    believed = with_column(rows, "lastmod", lastmod.until(rows.column("lastmod"), run.plan.now))
    late = pc.fill_null(pc.greater(rows.column("since"), run.epoch), False)
    return with_column(believed, "since", pc.if_else(late, pa.scalar(run.epoch, pa.int64()), rows.column("since")))


def _unlike(file: File) -> File:
    """Return a record of the file that no stored object matches, so that it is rendered again from its rows."""
    return replace(file, sha256="", stored_sha256="", etag=None)


def overlapping(entries: Sequence[Entry], low: str, high: str | None) -> list[tuple[Entry, str | None]]:
    """Return the shards that overlap [low, high), each with the start of the next one."""
    result = []
    for at, entry in enumerate(entries):
        end = entries[at + 1].low if at + 1 < len(entries) else None
        if (high is None or entry.low < high) and (end is None or end > low):
            result.append((entry, end))
    return result


def as_published(entries: Sequence[tuple[Entry, str | None]]) -> list[Published]:
    """Return the shards in the form that render compares with."""
    return [Published(entry.number, entry.low, end, entry.last, entry.rows, entry.body) for entry, end in entries]


def published_rows(
    run: Run, entries: Sequence[Entry], low: str, high: str | None, columns: Sequence[str] | None = None
) -> pa.Table:
    """Return the snapshot rows of these shards with locs in [low, high), ordered by loc."""
    schema = SNAPSHOT if columns is None else pa.schema([SNAPSHOT.field(name) for name in columns])
    tables = [run.state.snapshot(entry.snapshot, columns) for entry in entries]
    if not tables:
        return schema.empty_table()
    rows = pa.concat_tables(tables)
    return stretch(conform(rows.select(filled(rows)).combine_chunks(), schema), low, high)


def published_with(run: Run, entries: Sequence[Entry], locs: pa.Array) -> Iterator[tuple[Entry, pa.Table]]:
    """Yield the shards that have any of the locs (ordered), each with its snapshot rows of these locs.

    Only a shard with one of them between its ends is read: its locs first, and the other columns if it has one of them.
    """
    starts = pc.search_sorted(locs, pa.array([entry.first for entry in entries], locs.type), side="left")
    stops = pc.search_sorted(locs, pa.array([entry.last for entry in entries], locs.type), side="right")
    for entry, start, stop in zip(entries, starts.to_pylist(), stops.to_pylist(), strict=True):
        if start < stop:
            there = column_of(published_rows(run, [entry], "", None, ["loc"]), "loc")
            at = places(locs.slice(start, stop - start), there)
            if (at >= 0).any():
                yield entry, published_rows(run, [entry], "", None).take(pa.array(at[at >= 0]))


def first_of_each(table: pa.Table) -> pa.Table:
    """Return the rows ordered by loc, with the first row of each loc."""
    table = table.combine_chunks()
    if not table.num_rows or _ascends(column_of(table, "loc")):
        return table
    table = table.append_column("rank", pa.array(np.arange(table.num_rows)))
    table = table.take(pc.sort_indices(table, sort_keys=[("loc", "ascending"), ("rank", "ascending")]))
    ordered = column_of(table, "loc")
    repeated = np.concatenate(([False], pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy(False)))
    return table.filter(pa.array(~repeated)).drop_columns(["rank"]).combine_chunks()


def _ascends(locs: pa.Array) -> bool:
    """Return True if the locs are ordered and distinct."""
    return bool(pc.all(pc.less(locs.slice(0, len(locs) - 1), locs.slice(1))).as_py())
