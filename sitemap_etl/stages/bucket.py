"""Process one bucket of a mirror: merge new rows with stored ones, and apply the rules to both.

A new row replaces the stored row with the same key. A row that is marked as deleted removes it. New rows are appended
to the bucket as a delta, or folded with it into one new file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod, limits
from sitemap_etl.arrow import column_of, gathered
from sitemap_etl.errors import DamagedState, InvalidSource
from sitemap_etl.frames import ASIDE, ROW_BITS, conform
from sitemap_etl.hashes import combine, hash64
from sitemap_etl.instants import in_calendar, spelled
from sitemap_etl.sources import GONE, ORDER, unpack_schema
from sitemap_etl.stages.generation import joins
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import (
    Place,
    index_rows,
    read_index,
    read_messages,
    read_windows,
)
from sitemap_etl.stages.transform import Inventory
from sitemap_etl.state import layout
from sitemap_etl.state.mirror import (
    DELTAS,
    FOLD,
    KEY,
    OWN,
    RUN,
    MirrorWriter,
    read_mirror,
    slots,
    slots_of,
    stored_rows,
)
from sitemap_etl.state.records import (
    Drift,
    MirrorBucket,
    Spool,
    Transformed,
)
from sitemap_etl.transform import DELETED, Rules, dates_of, says_deleted, transform

NO_KEY: Final = "no key"
READ_TWICE: Final = "read twice with the same key"
REPLACED: Final = "replaced by a later change of its row"
"""Reasons for not listing a row before any rule is applied."""
BEFORE_RULES: Final = (NO_KEY, READ_TWICE, REPLACED, DELETED)
"""All reasons for which a row is left out before the rules. Such rows are not stored in the mirror."""
READERS: Final = 4_096
"""Row number prefixes of a bucket, one for each run that read some of its rows."""
_ROWS: Final = 250_000
"""Rows that go through the rules together."""
_SHOWN: Final = 300
"""Characters of a row in a message."""


@dataclass
class _Fresh:
    """New rows of a bucket, in read order."""

    keys: pa.Array  # key of each row as text; null without a key
    gone: np.ndarray  # mask of rows marked as deleted
    outdated: np.ndarray  # mask of rows that lose to another row with their key
    replaced: np.ndarray  # mask of rows among them that lose to a later change


class Bucket:
    """One bucket of a mirror. `merge` does the work and returns the task result."""

    def __init__(self, run: Run, n: int, section: str, bucket: int, scratch: Path) -> None:
        self.run = run
        self.reading = run.plan.readings[section]
        self.plan = run.merging().sections[section]
        self.section = run.site.sections[section]
        self.deleted = self.reading.deleted
        self.bucket = bucket
        self.slots = slots_of(bucket, self.plan.buckets)
        self.scratch = scratch
        self.name = run.attempt(layout.merge(n))
        self.numbers = len(run.plan.units) + n * READERS
        self.readers: list[str] = []
        self.schema = unpack_schema(self.plan.schema)
        robots = run.plan.robots.encode("latin-1") if run.plan.robots is not None else None
        rules = rules_of(run.site, self.section, run.now, robots)
        self.rules: Rules = replace(rules, available=tuple(self.schema.names), deleted=None)
        read_at = (run.extracted(unit).read_at for unit, one in enumerate(run.plan.units) if one.section == section)
        self.read_at = max(map(datetime.fromisoformat, read_at), default=run.now)
        self.old = MirrorBucket()
        if self.reading.mirror is not None:
            self.old = read_mirror(run.work, self.reading.mirror).buckets[bucket]
        self.position = 0
        self.carried = self.rows = 0

    def merge(self) -> Transformed:
        fresh = self._fresh()
        self.rows = len(fresh.keys)
        expected = self.rows + sum(file.rows for file in self.old.files())
        self.inventory = Inventory(self.run, self.name, expected * self.plan.buckets, self.section.name, self.scratch)
        writer = self._writer(fresh)
        for table in self._read(fresh, writer):
            self._apply(table, read=True)
        later = [fresh.keys.drop_null()]
        folding = writer is not None and self._folds(fresh)
        columns = None if folding else self._columns()
        for table in gathered(stored_rows(self.run.work, [self.old], later, columns), _ROWS, limits.BATCH_BYTES):
            rows = self._conformed(table)
            if folding and writer is not None:
                writer.write(rows)
            self.carried += rows.num_rows
            self._apply(rows, read=False)
        receipt = self.inventory.finish()
        return replace(
            receipt,
            rows=self.rows,
            carried=self.carried,
            bucket=self._put(writer, folding=folding),
            readers=tuple(self.readers),
            drift=self._drift(fresh),
        )

    # --- rows that were read ---------------------------------------------------------------------------

    def _fresh(self) -> _Fresh:
        """Return the keys of the rows that were read, and the row that is used for each key."""
        columns = [KEY, GONE, ORDER]
        if self.deleted is not None:
            says_deleted(self.schema.empty_table(), self.deleted)  # a column that is not there is reported with all
            columns.append(self.deleted)
        keys, gone, orders, splits = [], [], [], []
        for split, table in self._tables(columns):
            keys.append(column_of(table, KEY))
            gone.append(self._says_deleted(table))
            orders.append(
                column_of(table, ORDER).to_numpy()
                if ORDER in table.column_names
                else np.zeros(table.num_rows, np.int64)
            )
            splits.append(np.full(table.num_rows, split))
        joined = pa.concat_arrays(keys) if keys else pa.array([], pa.string())
        found = _Fresh(joined, _stacked(gone, bool), np.zeros(len(joined), bool), np.zeros(len(joined), bool))
        hashes = hash64(joined)
        order = np.argsort(hashes, kind="stable")
        same = hashes[order][1:] == hashes[order][:-1]
        if same.any():
            twice = np.zeros(len(joined), bool)
            twice[order[1:][same]] = twice[order[:-1][same]] = True
            twice &= pc.is_valid(joined).to_numpy(zero_copy_only=False)
            found.replaced = twice & ~_latest(joined, twice, _stacked(orders, np.int64))
            found.outdated |= found.replaced
            twice = _shared_keys(joined, twice & ~found.replaced)
            if twice.any():
                self._choose_among_rivals(found, twice, _stacked(splits, np.int64))
        return found

    def _says_deleted(self, table: pa.Table) -> np.ndarray:
        if GONE in table.column_names:
            gone: np.ndarray = column_of(table, GONE).to_numpy(zero_copy_only=False)
            return gone
        return np.zeros(table.num_rows, bool) if self.deleted is None else says_deleted(table, self.deleted)

    def _choose_among_rivals(self, found: _Fresh, twice: np.ndarray, splits: np.ndarray) -> None:
        """Choose one row per key. Raise InvalidSource if one SELECT returns different rows with the same key."""
        places = np.flatnonzero(twice)
        tables, at = [], 0
        for _, table in self._tables(None):
            mine = places[(places >= at) & (places < at + table.num_rows)] - at
            tables.append(self._conformed(table.take(pa.array(mine))))
            at += table.num_rows
        rows = pa.concat_tables(tables)
        content = _content(rows, self.schema.names)
        by_key: dict[str, list[int]] = {}
        for place, key in enumerate(rows.column(KEY).to_pylist()):  # the few that come twice
            by_key.setdefault(key, []).append(place)
        dates = dates_of(rows, self.rules, read_at=self.read_at)
        differing = 0
        for key, rivals in by_key.items():
            if len({content[rival] for rival in rivals}) > 1:
                split = [splits[places[rival]] for rival in rivals]
                if len(set(split)) < len(split):
                    raise InvalidSource(_two_rows(self.section.name, self.reading.key, key, rows, rivals))
                differing += 1
            taken = min(rivals, key=lambda rival: (_newest_first(dates[rival]), int(content[rival]), rival))
            for rival in rivals:
                found.outdated[places[rival]] = rival != taken
        if differing:
            self.run.environment.log(
                f"warning: section {self.section.name}: {differing:,} keys came from two splits with different rows: "
                "the table changed while it was read. The newer one is taken"
            )

    def _tables(self, columns: Sequence[str] | None) -> Iterator[tuple[int, pa.Table]]:
        """Yield the new rows of this bucket with the number of their split, always in the same order."""
        if self.plan.index is None:
            return
        places: dict[int, list[Place]] = {}
        for _, split, start, size, check, _ in index_rows(read_index(self.run.staging, self.plan.index, self.bucket)):
            places.setdefault(split, []).append((start, size, check))
        for split in sorted(places):
            key, schema = self.plan.spools[split]
            spool = Spool(key, self.plan.schemas[schema], ())
            for table in read_messages(self.run.staging, spool, places[split], columns):
                yield split, self._own(table)

    def _own(self, table: pa.Table) -> pa.Table:
        """Return the rows in this bucket's slots. Rows without a key are in slot 0."""
        slot = slots(pc.fill_null(table.column(KEY), ""))
        slot[pc.is_null(table.column(KEY)).to_numpy()] = 0
        mine = (slot >= self.slots[0]) & (slot < self.slots[1])
        return table if mine.all() else table.filter(pa.array(mine))

    def _read(self, fresh: _Fresh, writer: MirrorWriter | None) -> Iterator[pa.Table]:
        """Yield the new rows that pass, and write them to the mirror. Other rows are counted and dropped."""
        at = 0
        lacking = pc.is_null(fresh.keys).to_numpy(zero_copy_only=False)
        for _, read in self._tables(None):
            here = slice(at, at + read.num_rows)
            at += read.num_rows
            table = read.drop_columns([name for name in (GONE, ORDER) if name in read.column_names])
            rows = self._conformed(table.append_column(RUN, pa.repeat(pa.scalar(self.run.run_id), table.num_rows)))
            no_key, outdated, replaced = lacking[here], fresh.outdated[here], fresh.replaced[here]
            gone = fresh.gone[here] & ~no_key & ~outdated
            self._drop("rejected", NO_KEY, rows, no_key)
            self._drop("duplicates", READ_TWICE, rows, outdated & ~replaced & ~no_key)
            self._drop("duplicates", REPLACED, rows, replaced & ~no_key)
            self._drop("excluded", DELETED, rows, gone)
            kept = rows.filter(pa.array(~(no_key | outdated | gone)))
            if writer is not None:
                writer.write(_with_gone(kept, writer.schema, gone=False))
                if GONE in writer.schema.names:
                    writer.write(_with_gone(rows.filter(pa.array(gone)), writer.schema, gone=True))
            yield kept

    def _drop(self, kind: str, reason: str, rows: pa.Table, mask: np.ndarray) -> None:
        if not mask.any():
            return
        out = rows.filter(pa.array(mask))
        loc = self.rules.settings.columns.get("loc", "loc")
        count = out.num_rows
        locs = out.column(loc).cast(pa.string()) if loc in out.column_names else pa.nulls(count, pa.string())
        table = pa.table(
            {
                "section": pa.repeat(pa.scalar(self.section.name), count),
                "loc": locs,
                "reason": pa.repeat(pa.scalar(reason), count),
                "row": self._numbers(out),
                "key": out.column(KEY),
            }
        )
        self.inventory.set_aside(kind, conform(table, ASIDE), read=True)

    # --- results --------------------------------------------------------------------------

    def _apply(self, table: pa.Table, *, read: bool) -> None:
        """Apply the rules to merged rows."""
        if not table.num_rows:
            return
        needed = self._columns()
        names = [name for name in table.column_names if name not in OWN and (needed is None or name in needed)]
        row, key = self._numbers(table), column_of(table, KEY)
        for start in range(0, table.num_rows, _ROWS):
            part = table.select(names).slice(start, _ROWS)
            outcome = transform(
                part, self.rules, read_at=self.read_at, row=row.slice(start, _ROWS), key=key.slice(start, _ROWS)
            )
            self.inventory.add(outcome, read=read)

    def _columns(self) -> list[str] | None:
        """Return the source columns that the rules read, at least one. None means all."""
        needs = self.rules.needs()
        if needs is None:
            return None
        return [name for name in self.schema.names if name in needs] or self.schema.names[:1]

    def _numbers(self, rows: pa.Table) -> pa.Array:
        """Return the number of each row: the run that read it in the bits above `ROW_BITS`, its position below."""
        readers = column_of(rows, RUN).dictionary_encode()
        for reader in readers.dictionary.to_pylist():  # one entry per run
            if reader not in self.readers:
                self.readers.append(reader)
        known = np.array(
            [min(self.readers.index(one), READERS - 1) for one in readers.dictionary.to_pylist()], np.int64
        )
        at = np.arange(self.position, self.position + rows.num_rows)
        self.position += rows.num_rows
        return pa.array(((self.numbers + known[readers.indices.to_numpy()]) << ROW_BITS) + at)

    def _conformed(self, table: pa.Table) -> pa.Table:
        """Return the table with the merged columns in their types, and the reserved columns. Missing columns are left
        out.
        """
        return _cast(table, self.schema)

    # --- the mirror ------------------------------------------------------------------------------

    def _folds(self, fresh: _Fresh) -> bool:
        """Return True if this run writes the whole bucket again."""
        deltas = sum(file.rows for file in self.old.deltas) + len(fresh.keys)
        base = 0 if self.old.base is None else self.old.base.rows
        return self.reading.mirror is None or len(self.old.deltas) >= DELTAS or deltas * FOLD >= base

    def _writer(self, fresh: _Fresh) -> MirrorWriter | None:
        """Return the writer for the new rows, or None if there are none and the bucket stays."""
        if self.reading.mirror is not None and not len(fresh.keys):
            return None
        own = [(KEY, pa.string()), (RUN, pa.string())]
        if not self._folds(fresh):
            own.append((GONE, pa.bool_()))
        return MirrorWriter(self.scratch / "mirror.parquet", pa.schema([*self.schema, *own]))

    def _put(self, writer: MirrorWriter | None, *, folding: bool) -> MirrorBucket:
        if writer is None:
            return self.old
        name = self.name.rpartition("/")[2]
        file = writer.put(self.run.work, layout.mirror_file(self.section.name, self.run.run_id, name))
        return MirrorBucket(file) if folding else replace(self.old, deltas=(*self.old.deltas, file))

    def _drift(self, fresh: _Fresh) -> Drift | None:
        """Return the differences between a full read and the mirror that incremental reads missed.

        Return None without a readable mirror to compare with, because a full read works without one.
        """
        if self.reading.compared is None or self.plan.seen is None:
            return None
        try:
            return self._compared(fresh, self.reading.compared, self.plan.seen)
        except (DamagedState, InvalidSource) as error:
            log = self.run.environment.log
            log(f"warning: section {self.section.name} was read in full and can't be compared with its mirror: {error}")
            return None

    def _compared(self, fresh: _Fresh, compared: str, seen_keys: Spool) -> Drift | None:
        mirror = read_mirror(self.run.work, compared)
        known = unpack_schema(mirror.schema)
        key = self.reading.key
        if self.schema.field(key).type != known.field(key).type:
            return None  # 5 and 5.00 are two keys
        old = [
            bucket
            for number, bucket in enumerate(mirror.buckets)
            if slots_of(number, len(mirror.buckets))[0] < self.slots[1]
            and slots_of(number, len(mirror.buckets))[1] > self.slots[0]
        ]
        seen_tables = read_windows(self.run.staging, seen_keys, range(*self.slots))
        seen = np.unique(_stacked([hash64(table.column(KEY)) for table in seen_tables], np.uint64))
        stays = ~(fresh.outdated | fresh.gone) & pc.is_valid(fresh.keys).to_numpy(zero_copy_only=False)
        shared = _shared(self.schema, known)
        names = shared.names
        now = _stacked([_content(_cast(table, shared), names) for _, table in self._tables(None)], np.uint64)
        ours, ours_content = _without(hash64(fresh.keys)[stays], now[stays], seen)
        theirs_parts = [self._own(table) for table in stored_rows(self.run.work, old, [], names)]
        theirs, theirs_content = _without(
            _stacked([hash64(table.column(KEY)) for table in theirs_parts], np.uint64),
            _stacked([_content(_cast(table, shared), names) for table in theirs_parts], np.uint64),
            seen,
        )
        both, at, other = np.intersect1d(ours, theirs, return_indices=True)
        return Drift(
            missing=len(ours) - len(both),
            stale=int((ours_content[at] != theirs_content[other]).sum()),
            gone=len(theirs) - len(both),
        )


def _latest(keys: pa.Array, among: np.ndarray, orders: np.ndarray) -> np.ndarray:
    """Return the mask of rows with the highest order of their key. `among`: mask of rows whose keys can repeat."""
    places = np.flatnonzero(among)
    codes = keys.take(pa.array(places)).dictionary_encode().indices.to_numpy()
    highest = np.full(codes.max(initial=-1) + 1, np.iinfo(np.int64).min)
    np.maximum.at(highest, codes, orders[places])
    found = np.zeros(len(keys), bool)
    found[places] = orders[places] == highest[codes]
    return found


def _shared_keys(keys: pa.Array, among: np.ndarray) -> np.ndarray:
    """Return the mask of the rows of `among` that share their key with another row of `among`."""
    places = np.flatnonzero(among)
    codes = keys.take(pa.array(places)).dictionary_encode().indices.to_numpy()
    found = np.zeros(len(keys), bool)
    found[places] = np.bincount(codes)[codes] > 1 if len(codes) else False
    return found


def _cast(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table with the schema's columns in its types, and the reserved columns."""
    names = [name for name in schema.names if name in table.column_names]
    columns = []
    for name in names:
        try:
            columns.append(table.column(name).cast(schema.field(name).type))
        except pa.ArrowInvalid as error:
            raise InvalidSource(
                f"the column {name} is {table.column(name).type} in one part and {schema.field(name).type} in another, "
                f"which can't hold a value of it ({error}). Cast it to one type in the SELECT"
            ) from error
    own = [name for name in OWN if name in table.column_names]
    return pa.table([*columns, *(table.column(name) for name in own)], names=[*names, *own])


def _shared(one: pa.Schema, other: pa.Schema) -> pa.Schema:
    """Return the columns that both schemas have and that can be compared, in a type that holds the values of both."""
    pairs = [
        [pa.schema([schema.field(name)]) for schema in (one, other)]
        for name in one.names
        if name in other.names and joins(one.field(name).type, other.field(name).type)
    ]
    return pa.schema([pa.unify_schemas(pair, promote_options="permissive").field(0) for pair in pairs])


def _without(keys: np.ndarray, content: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    stay = ~np.isin(keys, seen)
    return keys[stay], content[stay]


def _with_gone(rows: pa.Table, schema: pa.Schema, *, gone: bool) -> pa.Table:
    """Return the rows with the columns of a mirror's file."""
    if GONE not in schema.names:
        return rows
    return rows.append_column(GONE, pa.repeat(pa.scalar(gone), rows.num_rows))


def _content(rows: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return a hash of each row's values in these columns: uint64. Columns of types without a hash are left out."""
    parts = []
    for name in sorted(set(names)):
        try:
            parts.append(lastmod.fingerprint(rows, [name]).to_numpy())
        except InvalidSource:
            continue
    return combine(parts) if parts else np.zeros(rows.num_rows, np.uint64)


def _newest_first(date: str | None) -> tuple[int, ...]:
    """Return a key that sorts the newest date first and rows without a date last."""
    return (1,) if date is None else (0, *(-ord(character) for character in date))


def _value(column: pa.Array) -> Any:
    """Return the first value of a column. A date that Python can't represent is returned as text."""
    return (column if in_calendar(column) is column else spelled(column))[0].as_py()


def _two_rows(section: str, column: str, key: str, rows: pa.Table, rivals: Sequence[int]) -> str:
    shown = []
    for rival in rivals[:2]:
        row = rows.slice(rival, 1).drop_columns([name for name in OWN if name in rows.column_names])
        text = ", ".join(f"{name}: {_value(column_of(row, name))}" for name in row.column_names)
        shown.append(f"  {text[:_SHOWN]}")
    return (
        f"section {section}: the SELECT yields the {column} {key} more than once, with different rows:\n"
        + "\n".join(shown)
        + f"\nA key identifies one row. Name a column that does, or make the SELECT yield each {column} once "
        "(DISTINCT ON, GROUP BY)"
    )


def _stacked(parts: Sequence[np.ndarray], dtype: type) -> np.ndarray:
    return np.concatenate(parts) if len(parts) else np.zeros(0, dtype)
