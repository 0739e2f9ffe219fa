"""What render holds in memory: the rows of one stretch of the order, of this run and as published."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import limits, priority
from sitemap_etl.frames import ASIDE, INVENTORY, conform
from sitemap_etl.manifest import Compared, Dating, compare
from sitemap_etl.manifest.diff import places
from sitemap_etl.partition import winners
from sitemap_etl.stages.published import overlapping, published_rows
from sitemap_etl.stages.rules import is_dated
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import read_messages


class Reader:
    """Reads stretches of a run's inventories. Receipts are read once and kept."""

    def __init__(self, run: Run, planned: dict[str, Any]) -> None:
        self.run = run
        self.planned = planned
        self._receipts: dict[str, list[dict[str, Any]]] = {}
        self._departed: dict[str, pa.Table] = {}
        self._tombstones: dict[str, pa.Array] = {}

    def receipts(self, section: str) -> list[dict[str, Any]]:
        """The section's transform receipts."""
        if section not in self._receipts:
            self._receipts[section] = [
                self.run.need(f"transform/{n}")
                for n, unit in enumerate(self.run.plan.units)
                if unit["section"] == section
            ]
        return self._receipts[section]

    def gather(
        self, section: str, low: str, high: str | None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """The section's inventory rows in [low, high), in no order, a table a message."""
        for receipt in self.receipts(section):
            if receipt["run"] is None:
                continue
            borders = receipt["borders"]
            exact = (not low or low in borders) and (high is None or high in borders)
            for table in read_messages(self.run.staging, receipt, _windows(borders, low, high), columns):
                yield table if exact else _within(table, low, high)

    def aligned(self, section: str, low: str, high: str | None) -> pa.Table | None:
        """The hreflang alternates of the section's rows in [low, high): loc, alternates, ordered by loc."""
        receipt = self.run.receipt("align")
        if receipt is None or section not in receipt["sections"]:
            return None
        tables = [
            _within(table, low, high)
            for bucket in receipt["sections"][section]
            for table in read_messages(self.run.staging, bucket, _windows(bucket["borders"], low, high))
        ]
        if not tables:
            return None
        table = pa.concat_tables(tables).combine_chunks()
        return table.take(pc.sort_indices(table.column("loc"))).combine_chunks()

    def tombstones(self, section: str) -> pa.Array:
        """Locs that this run's rules took away, ordered, each once."""
        if section not in self._tombstones:
            stored = self.run.staging.get(self.planned["sections"][section]["tombstones"])
            assert stored is not None
            self._tombstones[section] = pq.read_table(pa.BufferReader(stored.data)).column("loc").combine_chunks()
        return self._tombstones[section]

    def others(self, section: str, low: str, high: str | None) -> list[tuple[str, pa.Array]]:
        """Locs in [low, high) that another section lists before this one: (section, ordered locs, each once).

        Sections before it in the site file; of those that were not read this time, wherever they stand,
        what they have published.
        """
        found = []
        before = True
        for name, section_ in self.run.site.sections.items():
            if name == section:
                before = False
                continue
            if section_.view:
                continue
            if name in self.planned["sections"]:
                ends = self.planned["sections"][name]["ends"]
                if not before or ends is None or ends[1] < low or (high is not None and ends[0] >= high):
                    continue
                tables = list(self.gather(name, low, high, ["loc"]))
                locs = pc.unique(pa.concat_tables(tables).column("loc").combine_chunks()) if tables else None
                if locs is not None and len(locs):
                    found.append((name, locs.take(pc.sort_indices(locs))))
            else:
                locs = self._published(name, low, high, ["loc"]).column("loc").combine_chunks()
                if len(locs):
                    found.append((name, locs))
        return found

    def published(self, section: str, low: str, high: str | None) -> pa.Table:
        """The section's published rows in [low, high): frames.SNAPSHOT, ordered."""
        return self._published(section, low, high, None)

    def _published(self, section: str, low: str, high: str | None, columns: Sequence[str] | None) -> pa.Table:
        base = self.run.base
        entries = [] if base is None else [entry for entry, _ in overlapping(base.of(section), low, high)]
        return published_rows(self.run, entries, low, high, columns)

    def elsewhere(self, section: str, locs: pa.Array, rule: str | None) -> pa.Table | None:
        """How these locs, new in the section, are published in other sections, and what this one published lately.

        Columns loc, lastmod, fingerprint (null where another rule made it), ordered by loc, each once.
        """
        base = self.run.base
        if base is None:
            return None
        columns = ["loc", "lastmod", "fingerprint"]
        tables = []
        for name, state in base.sections.items():
            if state.view:
                continue
            if name != section and len(locs):
                lowest, highest = locs[0].as_py(), locs[-1].as_py()
                entries = [e for e in base.of(name) if e.last >= lowest and e.first <= highest]
                found = published_rows(self.run, entries, lowest, None, columns)
                tables.append(_comparable(found, comparable=state.rule == rule))
        state_ = base.sections.get(section)
        if state_ is not None and state_.departed is not None:
            if section not in self._departed:
                self._departed[section] = self.run.state.snapshot(state_.departed)
            found = self._departed[section].select(columns)
            tables.append(_comparable(found, comparable=state_.rule == rule))
        table = pa.concat_tables(tables).combine_chunks() if tables else None
        if table is None or not table.num_rows:
            return None
        table = table.append_column("rank", pa.array(np.arange(table.num_rows)))
        table = table.take(pc.sort_indices(table, sort_keys=[("loc", "ascending"), ("rank", "ascending")]))
        ordered = table.column("loc").combine_chunks()
        again = np.concatenate(
            ([False], pc.equal(ordered.slice(1), ordered.slice(0, len(ordered) - 1)).to_numpy(False))
        )
        return table.filter(pa.array(~again)).drop_columns(["rank"]).combine_chunks()


@dataclass(frozen=True)
class Unique:
    """The rows of a stretch that a section lists, ordered by loc, each once.

    `gathered`: rows that came from this run's inventory; `carried`: from the last set, where the source
    yields only what changed. `duplicates`: frames.ASIDE.
    """

    rows: pa.Table
    duplicates: pa.Table
    gathered: int
    carried: int


@dataclass(frozen=True)
class Window:
    """One stretch, ready to be cut: this run's rows against the published ones, and where they came from."""

    compared: Compared
    known: pa.Table
    unique: Unique

    @cached_property
    def removed(self) -> pa.Table:
        """Published rows that are no longer there."""
        return self.known.take(pa.array(self.compared.gone))


def read_window(reader: Reader, section: str, low: str, high: str | None) -> Window:
    """Gather, order, dedupe, and compare the rows of a section in [low, high)."""
    run, plan = reader.run, reader.planned["sections"][section]
    known = reader.published(section, low, high)
    unique = unique_rows(reader, section, low, high, known)
    rows = unique.rows
    aligned = reader.aligned(section, low, high)
    if aligned is not None:
        at = places(rows.column("loc").combine_chunks(), aligned.column("loc").combine_chunks())
        taken = aligned.column("alternates").take(pa.array(at, pa.int64(), mask=at < 0))
        rows = rows.append_column("alternates", taken)
    if plan["table"] is not None and "signal" in rows.column_names:
        table = np.array(plan["table"], np.int8)
        rows = rows.append_column("priority", priority.apply_table(rows.column("signal").combine_chunks(), table))
    site_section = run.site.sections[section]
    published = run.base.sections.get(section) if run.base is not None else None
    dating = Dating(
        now=run.plan.now,
        epoch=run.epoch,
        dated=is_dated(site_section, set(plan["columns"])),
        fingerprint=site_section.lastmod.kind == "fingerprint",
        rebased=published is not None and published.rule != plan["rule"],
        first_seen=site_section.lastmod.first_seen,
        first_publish=published is None,
    )
    elsewhere = None
    if dating.fingerprint and run.base is not None:
        locs = rows.column("loc").combine_chunks()
        unknown = places(locs, known.column("loc").combine_chunks()) < 0
        elsewhere = reader.elsewhere(section, locs.filter(pa.array(unknown)), plan["rule"])
    return Window(compare(rows, known, dating, elsewhere), known, unique)


def unique_rows(reader: Reader, section: str, low: str, high: str | None, known: pa.Table) -> Unique:
    """The rows of [low, high) that the section lists.

    Where a stretch has far more rows than locs it is deduped as it is read, so that memory holds.
    """
    pending: list[pa.Table] = []
    pending_rows = gathered = 0
    losers: list[pa.Table] = [ASIDE.empty_table()]
    for table in reader.gather(section, low, high):
        pending.append(table)
        pending_rows += table.num_rows
        gathered += table.num_rows
        if pending_rows > 2 * limits.WINDOW_ROWS:
            won = winners(pa.concat_tables(pending, promote_options="default"), known)
            losers.append(_aside(won.losers, section, "listed already by a row of this section"))
            pending, pending_rows = [won.rows], won.rows.num_rows
    rows = INVENTORY.empty_table()
    if pending:
        won = winners(pa.concat_tables(pending, promote_options="default"), known)
        losers.append(_aside(won.losers, section, "listed already by a row of this section"))
        rows = won.rows
    carried = 0
    if reader.planned["sections"][section]["carries"]:
        rows, carried = _with_carried(rows, known, reader.tombstones(section))
    if not reader.run.site.sections[section].view:
        for other, locs in reader.others(section, low, high):
            mine = rows.column("loc").combine_chunks()
            taken = places(mine, locs) >= 0
            if taken.any():
                losers.append(_aside(rows.filter(pa.array(taken)), section, f"listed already by section {other}"))
                rows = rows.filter(pa.array(~taken)).combine_chunks()
    return Unique(rows, pa.concat_tables(losers), gathered, carried)


def _with_carried(rows: pa.Table, known: pa.Table, gone: pa.Array) -> tuple[pa.Table, int]:
    """The rows and, as they are published, those that this run did not read and no rule took away."""
    published = known.column("loc").combine_chunks()
    stays = (places(published, rows.column("loc").combine_chunks()) < 0) & (places(published, gone) < 0)
    carried = conform(known.filter(pa.array(stays)).drop_columns(["since"]), INVENTORY)
    table = pa.concat_tables([conform(rows, INVENTORY), carried]).combine_chunks()
    return table.take(pc.sort_indices(table.column("loc"))).combine_chunks(), carried.num_rows


def _aside(rows: pa.Table, section: str, reason: str) -> pa.Table:
    count = rows.num_rows
    return conform(
        pa.table(
            {
                "section": pa.repeat(pa.scalar(section), count),
                "loc": rows.column("loc"),
                "reason": pa.repeat(pa.scalar(reason), count),
                "row": rows.column("row"),
                "canonical": rows.column("loc"),
            }
        ),
        ASIDE,
    )


def _comparable(rows: pa.Table, *, comparable: bool) -> pa.Table:
    """The rows; without their fingerprints where another rule made them."""
    if comparable:
        return rows
    return rows.set_column(2, "fingerprint", pa.nulls(rows.num_rows, pa.uint64()))


def _within(table: pa.Table, low: str, high: str | None) -> pa.Table:
    loc = table.column("loc")
    mask = pc.greater_equal(loc, low)
    if high is not None:
        mask = pc.and_(mask, pc.less(loc, high))
    return table if pc.all(mask).as_py() else table.filter(mask)


def _windows(borders: Sequence[str], low: str, high: str | None) -> range:
    first = bisect_right(borders, low) if low else 0
    final = len(borders) if high is None else bisect_left(borders, high)
    return range(first, final + 1)
