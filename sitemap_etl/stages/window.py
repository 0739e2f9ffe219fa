"""Load one window of a section: the run's rows in a loc range, compared with the published ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits, priority
from sitemap_etl.arrow import column_of, gathered, mask_of
from sitemap_etl.diff import Compared, Dating, compare, places
from sitemap_etl.frames import ASIDE, INVENTORY, SNAPSHOT, conform, with_column, without_fingerprints
from sitemap_etl.frozen import Frozen
from sitemap_etl.partition import dated, winners
from sitemap_etl.stages.decide import LISTED_ALREADY
from sitemap_etl.stages.partition import signals_of
from sitemap_etl.stages.published import (
    Following,
    first_of_each,
    overlapping,
    published_rows,
    published_with,
    remembered,
    same_definition,
)
from sitemap_etl.stages.rules import is_dated
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import Place, Row, index_rows, read_index, read_messages, read_windows
from sitemap_etl.state.records import Entry, SectionPlan, SectionState, Spool

TAKEN: Final = pa.schema(
    [
        ("loc", pa.string()),
        ("lastmod", pa.string()),
        ("fingerprint", pa.uint64()),
        ("section", pa.string()),
        ("shard", pa.int64()),  # its number
    ]
)
"""Pages of sections that were not read, as they are published, which an earlier section lists now."""
_EDGE_ROWS: Final = 200_000
"""Rows of messages at the edges of a stretch that are held until they are cut to it."""


class Reader:
    """Reader of loc ranges of a run's rows, and of the published rows."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.planned = run.partition()
        self._indexes: dict[tuple[str, int], pa.Table] = {}
        self._remembered: dict[str, pa.Table] = {}
        self._undone: dict[str, Following] = {}
        self._signals: dict[str, np.ndarray | None] = {}
        read = {*self.planned.sections, *self.planned.quiet}
        self.unread = {name for name in run.site.sections if name not in read}

    def gather(
        self, section: str, low: str, high: str | None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        """Yield the section's inventory rows in [low, high), in no order, a table a message."""
        plan = self.planned.sections[section]
        places: dict[int, dict[Place, bool]] = {}
        for window, spool, start, size, check, exact in self._messages(section, low, high):
            own = plan.windows[window] == (low, high)
            places.setdefault(spool, {})[(start, size, check)] = own and exact
        rows = 0
        edges: list[pa.Table] = []  # messages that may reach beyond the stretch: cut together, which is cheaper
        for number, found in places.items():
            key, schema = plan.spools[number]
            ordered = sorted(found)
            tables = read_messages(self.run.staging, Spool(key, plan.schemas[schema], ()), ordered, columns)
            for place, table in zip(ordered, tables, strict=True):
                if found[place]:
                    yield table
                    continue
                edges.append(table)
                rows += table.num_rows
                if rows >= _EDGE_ROWS:
                    yield _within(pa.concat_tables(edges, promote_options="default"), low, high)
                    edges, rows = [], 0
        if edges:
            yield _within(pa.concat_tables(edges, promote_options="default"), low, high)
        for key, _ in plan.spools:
            yield from self.run.resident.rows(key, low, high, columns)

    def _messages(self, section: str, low: str, high: str | None) -> Iterator[Row]:
        """Yield the rows of the index for the windows that have a part in [low, high)."""
        plan = self.planned.sections[section]
        if plan.index is None:
            return
        first = bisect_right(plan.windows, low, key=_low) - 1
        past = len(plan.windows) if high is None else bisect_left(plan.windows, high, key=_low)
        for group, (begin, end) in enumerate(plan.groups):
            if begin < past and end > first:
                table = self._index(section, group, plan.index)
                windows = table.column("window").to_numpy()
                start, stop = np.searchsorted(windows, [first, past]).tolist()
                yield from index_rows(table.slice(start, stop - start))

    def _index(self, section: str, group: int, index: Spool) -> pa.Table:
        key = (section, group)
        if key not in self._indexes:
            self._indexes[key] = read_index(self.run.staging, index, group)
        return self._indexes[key]

    def aligned(self, section: str, low: str, high: str | None) -> pa.Table | None:
        """Return the hreflang links of the section's rows in [low, high): loc and alternates, ordered by loc."""
        receipt = self.run.aligned()
        if receipt is None or section not in receipt.sections:
            return None
        window = self.planned.sections[section].windows.index((low, high))
        tables = [
            table for spool in receipt.sections[section] for table in read_windows(self.run.staging, spool, [window])
        ]
        if not tables:
            return None
        table = pa.concat_tables(tables).combine_chunks()
        return table.take(pc.sort_indices(table.column("loc"))).combine_chunks()

    def signals(self, section: str) -> np.ndarray | None:
        """Return the table from signal bin to priority (int8, tenths), or None if the section has no signal."""
        if section not in self._signals:
            self._signals[section] = signals_of(self.run, self.planned.sections[section])
        return self._signals[section]

    def others(self, section: str, low: str, high: str | None, rows: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        """Yield the locs in [low, high) that earlier sections list: (section, ordered distinct locs).

        Only locs that are in `rows` (ordered, distinct) count. Sections count if they precede this one in the site
        file. For an unread section its published pages count, and it is a view if it was published as one. A later
        section that was not read loses its pages instead (`taken`).
        """
        if not len(rows):
            return
        past = rows[-1].as_py() + "\0"
        low, high = max(low, rows[0].as_py()), past if high is None else min(high, past)
        base = self.run.base
        for name, section_ in self.run.site.sections.items():
            if name == section:
                break
            published = base.sections.get(name) if base is not None else None
            if section_.view if name in self.planned.sections or published is None else published.view:
                continue
            if name in self.planned.sections:
                ends = self.planned.sections[name].ends
                if ends is None or ends[1] < low or ends[0] >= high:
                    continue
                tables = self.gather(name, low, high, ["loc"])
            else:
                tables = self._published_locs(name, low, high)
            locs = _shared(tables, rows)
            if len(locs):
                yield name, locs

    def taken(self, section: str, locs: pa.Array) -> np.ndarray:
        """Return the mask of the published locs (ordered) of an unread section that an earlier section lists now."""
        found = np.zeros(len(locs), bool)
        published = self.run.base.sections.get(section) if self.run.base is not None else None
        if not len(locs) or published is None or published.view:
            return found
        low, high = locs[0].as_py(), locs[-1].as_py() + "\0"
        for name, earlier in self.run.site.sections.items():
            if name == section:
                break
            plan = self.planned.sections.get(name)
            if plan is None or earlier.view or plan.ends is None or plan.ends[1] < low or plan.ends[0] >= high:
                continue
            found |= places(locs, _shared(self.gather(name, low, high, ["loc"]), locs)) >= 0
        return found

    def published(self, section: str, low: str, high: str | None) -> pa.Table:
        """Return the section's published rows in [low, high): frames.SNAPSHOT, ordered."""
        base = self.run.base
        entries = [] if base is None else [entry for entry, _ in overlapping(base.of(section), low, high)]
        return published_rows(self.run, entries, low, high)

    def _published_locs(self, section: str, low: str, high: str) -> Iterator[pa.Table]:
        """Yield the locs of the section's published rows in [low, high), one table per shard."""
        for entry in self.run.base.of(section) if self.run.base is not None else ():
            if entry.last >= low and entry.first < high:
                yield published_rows(self.run, [entry], low, high, ["loc"])

    def moved(self, section: str, locs: pa.Array) -> tuple[pa.Table, pa.Table]:
        """Return the published rows of other sections for these locs (ordered, new in the section), and the taken ones.

        The first table is frames.SNAPSHOT with one row per loc. Fingerprints of other rules are null, and views don't
        count. The second table has the rows of unread sections: TAKEN.
        """
        base = self.run.base
        tables, taken = [SNAPSHOT.empty_table()], [TAKEN.empty_table()]
        if base is not None and len(locs) and not self.run.site.sections[section].view:
            for name, state in base.sections.items():
                if state.view or name == section:
                    continue
                same = same_definition(state, self.planned.sections[section])
                for entry, found in published_with(self.run, base.of(name), locs):
                    tables.append(found if same else without_fingerprints(found))
                    if name in self.unread:
                        taken.append(_taken(entry, found))
        return first_of_each(pa.concat_tables(tables)), pa.concat_tables(taken)

    def dated_elsewhere(
        self, section: str, low: str, high: str | None, moved: pa.Table, new: pa.Array
    ) -> pa.Table | None:
        """Return the dates that pages of the section have besides: those that moved had elsewhere, those that a
        rollback took back when they were read last, those that left lately when they left, this section or another.

        `new`: locs that the section did not list (ordered). Columns loc, lastmod, fingerprint (null if another rule
        made it), ordered by loc, each once.
        """
        columns = ["loc", "lastmod", "fingerprint"]
        tables = [moved.select(columns)]
        plan = self.planned.sections[section]
        states = self.run.base.sections if self.run.base is not None else {}
        own = states.get(section)
        if own is not None and own.undone is not None:
            if own.undone not in self._undone:
                self._undone[own.undone] = Following(self.run, own.undone)
            undone = remembered(self._undone[own.undone].between(low, high), self.run)
            tables.append(_comparable(undone, own, plan).select(columns))
        left = [SNAPSHOT.empty_table()]
        view = self.run.site.sections[section].view
        for name, state in states.items():
            if state.removed_lately is not None and (name == section or not (view or state.view)):
                rows = self._lately(state.removed_lately)
                at = places(new, column_of(rows, "loc"))
                left.append(_comparable(rows.take(pa.array(at[at >= 0])), state, plan))
        last_first = pa.concat_tables(left).sort_by([("since", "descending")])
        tables = [table for table in (*tables, last_first.select(columns)) if table.num_rows]
        return first_of_each(pa.concat_tables(tables)) if tables else None

    def _lately(self, key: str) -> pa.Table:
        """Return the rows of a snapshot whose dates are still valid, ordered by loc, with the last row of each loc."""
        if key not in self._remembered:
            self._remembered[key] = first_of_each(remembered(self.run.state.snapshot(key), self.run))
        return self._remembered[key]


class Unique(Frozen):
    """The rows of a range that a section lists, ordered by loc and distinct."""

    rows: pa.Table  # frames.INVENTORY, with a lastmod instead of the moment
    duplicates: pa.Table  # frames.ASIDE
    gathered: int  # rows read from the shuffle


class Window(Frozen):
    """One range, compared with the published rows and ready to be cut into shards."""

    compared: Compared
    known: pa.Table
    unique: Unique
    shown: bool
    blind: int
    taken: pa.Table

    @cached_property
    def added(self) -> np.ndarray:
        """Return a mask of the rows that the section did not list before."""
        return np.ones_like(self.compared.added) if self.shown else self.compared.added

    @cached_property
    def arrived(self) -> np.ndarray:
        """Return a mask of the added rows that another section or the view listed before."""
        return self.added & (self.compared.moved | (self.compared.at >= 0))

    @cached_property
    def removed(self) -> pa.Table:
        """Published rows that no longer exist."""
        return self.known.take(pa.array(self.compared.gone))


def read_window(reader: Reader, section: str, low: str, high: str | None) -> Window:
    """Read, order, deduplicate and compare the rows of a section in [low, high)."""
    run, plan = reader.run, reader.planned.sections[section]
    known = reader.published(section, low, high)
    unique = unique_rows(reader, section, low, high, known)
    rows = unique.rows
    aligned = reader.aligned(section, low, high)
    if aligned is not None:
        at = places(column_of(rows, "loc"), column_of(aligned, "loc"))
        taken = aligned.column("alternates").take(pa.array(at, pa.int64(), mask=at < 0))
        rows = with_column(rows, "alternates", taken)
    signals = reader.signals(section)
    if signals is not None and "signal" in rows.column_names:
        tenths = priority.apply_table(column_of(rows, "signal"), signals)
        rows = with_column(rows, "priority", tenths)
    site_section = run.site.sections[section]
    published = run.base.sections.get(section) if run.base is not None else None
    dating = Dating(
        now=run.plan.now,
        epoch=run.epoch,
        dated=is_dated(site_section, set(plan.columns)),
        fingerprint=site_section.lastmod.kind == "fingerprint",
        reset=published is not None and not same_definition(published, plan),
        first_seen=site_section.lastmod.first_seen,
        first_publish=published is None,
        back=run.goes_back,
    )
    locs = column_of(rows, "loc")
    at = places(locs, column_of(known, "loc"))
    shown = published is not None and published.view and not site_section.view
    new = locs if shown or (at < 0).all() else locs.filter(pa.array(at < 0))
    moved, taken = reader.moved(section, new)
    elsewhere = reader.dated_elsewhere(section, low, high, moved, new) if dating.fingerprint else None
    compared = compare(rows, known, at, dating, moved, elsewhere)
    blind = _blind(compared, known) if dating.fingerprint and not (dating.reset or shown) else 0
    return Window(compared, known, unique, shown, blind, taken)


def _taken(entry: Entry, rows: pa.Table) -> pa.Table:
    """Return rows of a published shard as TAKEN."""
    count = rows.num_rows
    section, shard = pa.scalar(entry.section), pa.scalar(entry.number, pa.int64())
    owned = rows.select(["loc", "lastmod", "fingerprint"])
    return owned.append_column("section", pa.repeat(section, count)).append_column("shard", pa.repeat(shard, count))


def _comparable(rows: pa.Table, made: SectionState, plan: SectionPlan) -> pa.Table:
    """Return published rows, without fingerprints if their rule differs from the section's."""
    return rows if same_definition(made, plan) else without_fingerprints(rows)


def _blind(compared: Compared, known: pa.Table) -> int:
    """Return the number of rows that have a fingerprint now but were published without one."""
    if not known.column("fingerprint").null_count:
        return 0
    old = known.column("fingerprint").take(pa.array(compared.at, pa.int64(), mask=compared.at < 0))
    there = mask_of(pc.and_(pc.is_null(old), pc.is_valid(compared.rows.column("fingerprint"))))
    return int((there & (compared.at >= 0)).sum())


def unique_rows(reader: Reader, section: str, low: str, high: str | None, known: pa.Table) -> Unique:
    """Return the rows of [low, high) that the section lists.

    A range with far more rows than locs is deduplicated while it is read, so that memory stays bounded.
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
            losers.append(_aside(won.losers, section, f"{LISTED_ALREADY}a row of this section"))
            pending, pending_rows = [won.rows], won.rows.num_rows
    rows = INVENTORY.empty_table()
    if pending:
        won = winners(pa.concat_tables(pending, promote_options="default"), known)
        losers.append(_aside(won.losers, section, f"{LISTED_ALREADY}a row of this section"))
        rows = won.rows
    if not reader.run.site.sections[section].view:
        for other, locs in reader.others(section, low, high, column_of(rows, "loc")):
            taken = places(column_of(rows, "loc"), locs) >= 0
            if taken.any():
                losers.append(_aside(rows.filter(pa.array(taken)), section, f"{LISTED_ALREADY}section {other}"))
                rows = rows.filter(pa.array(~taken)).combine_chunks()
    return Unique(dated(rows), pa.concat_tables(losers), gathered)


def _shared(tables: Iterable[pa.Table], locs: pa.Array) -> pa.Array:
    """Return the locs of the tables that are among `locs`: ordered, distinct.

    Memory holds these and one window's locs.
    """
    found = locs.slice(0, 0)
    for table in gathered(tables, limits.WINDOW_ROWS, limits.WINDOW_BYTES):
        theirs = table.column("loc")
        theirs = theirs.filter(pc.is_in(theirs, locs))
        if len(theirs):
            found = pc.unique(pa.chunked_array([found, *theirs.chunks]))
    return found.take(pc.sort_indices(found))


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
                "key": rows.column("key") if "key" in rows.column_names else pa.nulls(count, pa.string()),
            }
        ),
        ASIDE,
    )


def _within(table: pa.Table, low: str, high: str | None) -> pa.Table:
    loc = table.column("loc")
    mask = pc.greater_equal(loc, low)
    if high is not None:
        mask = pc.and_(mask, pc.less(loc, high))
    return table if pc.all(mask).as_py() else table.filter(mask)


def _low(window: tuple[str, str | None]) -> str:
    return window[0]
