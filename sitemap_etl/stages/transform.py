"""The transform stage: apply the rules to a split's raw rows, and route the result to windows."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of, gathered, single
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError
from sitemap_etl.frames import ASIDE, EXAMPLES, INVENTORY, PROVENANCE, ROW_BITS, Tally, conform
from sitemap_etl.hashes import added, hash64, hash_rows, sums_of
from sitemap_etl.limits import GATHERED_BYTES, GATHERED_ROWS, WINDOW_ROWS
from sitemap_etl.partition import SAMPLES, distinct, route, routing_borders, samples
from sitemap_etl.settings import Section
from sitemap_etl.sources import LINES
from sitemap_etl.stages.extract import holds, read_raw, with_section, without_section
from sitemap_etl.stages.published import published_ranges
from sitemap_etl.stages.raw import RawRows, find_unchanged
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import SpoolWriter, read_places
from sitemap_etl.state import layout
from sitemap_etl.state.checked import put_checked
from sitemap_etl.state.records import Transformed
from sitemap_etl.storage import Storage
from sitemap_etl.transform import Outcome, Rules, transform

KINDS: Final = ("excluded", "rejected", "duplicates", "notes")
"""Kinds of reasons in a result."""
_FLUSH_ROWS: Final = (125_000, 1_000_000)
"""Routed rows that are gathered before messages are written, for small sections and for large ones."""
_RESIDENT_ROWS: Final = 131_072
"""Rows that are sorted together in memory: small batches are joined, and large ones are cut to fit the caches.
"""
_FLUSH_ROW_BYTES: Final = 192
"""Bytes of a row up to which as many are gathered."""
ENTRY_BYTES: Final = 64
"""Estimated bytes of a sitemap entry besides its loc, for planning windows."""
_WEIGHTS: Final = {"images": 120, "videos": 1_500, "alternates": 160}
"""Bytes of memory of one element of a nested column, for the same purpose."""
_GUESSES: Final = 2_000
_GUESSES_EACH: Final = 50
"""Locs from which the borders of a first run are guessed: at most, and for each message."""
_MESSAGE_ROWS: Final = 2_000
"""Rows of the smallest messages that a first run makes."""
_TAGS: Final = 200
"""Distinct hreflang tags after which no more are collected."""
_DIGEST: Final = pa.schema(
    [
        ("samples", pa.list_(pa.struct(list(SAMPLES)))),
        ("bins", pa.list_(pa.uint16())),  # of the signal's histogram, those that are filled
        ("rows", pa.list_(pa.int64())),
    ]
)


def transform_split(run: Run, n: int, *, final: bool = True) -> Transformed:
    """Transform split `n` of the plan and return its result. An unchanged split stores nothing.

    Sections with a mirror are left to merge. If the source is broken, the section is kept if it has `on_error: keep`,
    else the error is raised.
    """
    name = layout.transform(n)
    done = run.receipt(name, Transformed)
    if done is not None:
        return done
    section = run.site.sections[run.plan.units[n].section]
    if section.name in run.plan.readings:
        return run.leave(name, Transformed(section.name))
    kept_because = run.extracted(n).held
    if kept_because:
        return run.leave(name, Transformed(section.name, held=kept_because))
    try:
        rules = _rules(run, section)
        receipt = find_unchanged(run, n, rules.needs()) or _transform(run, n, rules, name)
    except SitemapEtlError as error:
        if holds(section, error, final=final):
            return run.leave(name, Transformed(section.name, held=without_section(section.name, error)))
        if isinstance(error, InvalidSource):
            raise InvalidSource(with_section(section.name, str(error))) from error
        raise
    return run.leave(name, receipt)


def retransform_split(run: Run, n: int) -> Transformed:
    """Transform an unchanged split `n` after all, because its section has changed. Return the second result.

    Raise Refused if the source has changed since the first read, on which decisions about other sections are based.
    """
    name = layout.again(n)
    done = run.receipt(name, Transformed)
    if done is not None:
        return done
    unit, first = run.plan.units[n], run.transformed(n)
    found = _transform(run, n, _rules(run, run.site.sections[unit.section]), name)
    if (found.raw, found.inventory, found.loc_sums) != (first.raw, first.inventory, first.loc_sums):
        raise Refused(
            f"section {unit.section}: {unit.label} was changed while it was read. Nothing was published; run again"
        )
    return run.leave(name, found)


def _rules(run: Run, section: Section) -> Rules:
    robots = run.plan.robots.encode("latin-1") if run.plan.robots is not None else None
    return rules_of(run.site, section, run.now, robots)


def _transform(run: Run, n: int, rules: Rules, name: str) -> Transformed:
    """Apply the rules to split `n`, store the rows, and return the result, which will have this name."""
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        return _pass(run, n, rules, Path(scratch), run.attempt(name))


def _pass(run: Run, n: int, rules: Rules, scratch: Path, key: str) -> Transformed:
    """Return the rows of unit `n` through the rules, into files whose keys begin with `key`."""
    first_row = n << ROW_BITS
    rows = 0
    limit = run.options.limit
    extracted = run.extracted(n)
    needed = rules.needs()
    raw_rows = RawRows(compared=needed is not None)
    split = Inventory(run, key, _expected(run, n, extracted.rows), rules.section, scratch)
    read_at = datetime.fromisoformat(extracted.read_at)
    names, batches = read_raw(run, n, needed)
    rules = replace(rules, available=tuple(names))
    loc = rules.settings.columns.get("loc", "loc")
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    for table in gathered(tables, GATHERED_ROWS if limit is None else 1, GATHERED_BYTES):
        raw = table
        if limit is not None:
            if rows >= limit:
                break
            raw = raw.slice(0, limit - rows)
        row = np.arange(first_row + rows, first_row + rows + raw.num_rows)
        if LINES in raw.column_names:
            if extracted.lines:
                row += raw.column(LINES).to_numpy()
            raw = raw.drop_columns(LINES)
        rows += raw.num_rows
        outcome = transform(raw, rules, read_at=read_at, row=pa.array(row))
        raw_rows.add_ruled(raw, loc, outcome, split.add(outcome))
    if limit is None and rows != extracted.rows:
        raise Refused(
            f"section {rules.section}: {extracted.rows:,} rows were extracted, {rows:,} came to transform "
            f"({run.plan.units[n].label}). Nothing was published; run again"
        )
    return replace(split.finish(), rows=rows, raw=raw_rows.digest())


def _expected(run: Run, n: int, rows: int) -> int:
    """Return an estimate of the section's rows from the rows of one split."""
    return rows * run.splits[run.plan.units[n].section]


class Inventory:
    """Collector of the rows of a split or of a mirror bucket after the rules: rows for the shuffle, counts for the
    result.

    `key`: unique for this try. `expected`: estimated rows of the section.
    """

    def __init__(self, run: Run, key: str, expected: int, section: str, scratch: Path) -> None:
        self.run = run
        self.key = key
        self.spool_key = f"{key}.spool"
        self.section = section
        self.scratch = scratch
        self.expected = expected
        # Of a section of many windows, few rows would make small messages, which compress and read badly.
        lowest, highest = _FLUSH_ROWS
        self.flush_rows = min(max(lowest, expected // WINDOW_ROWS * 2 * _MESSAGE_ROWS), highest)
        ranges = published_ranges(run, section)
        self.borders = routing_borders(ranges) if ranges else None
        self.pending: list[pa.Table] = []
        self.pending_bytes = self.pending_rows = 0
        self.writer: SpoolWriter | None = None
        self.schema: pa.Schema | None = None
        # A hook may make columns of some batches and not of others; a spool has one schema.
        self.any_columns = run.site.sections[section].transform is not None
        self.is_resident: bool | None = None  # known from the first rows on
        self.aside: dict[str, pq.ParquetWriter] = {}
        self.tallies = {kind: Tally() for kind in KINDS}
        self.rejected_read = 0
        self.elsewhere: Counter[str] = Counter()
        self.samples: list[pa.Table] = []
        self.histogram: np.ndarray | None = None
        self.listed = 0
        self.sums = self.loc_sums = (0, 0)
        self.lowest: str | None = None
        self.highest: str | None = None
        self.kinds: list[tuple[tuple[str, str], ...]] = []
        self.tags: set[str] = set()
        self.columns: set[str] = set()
        self.repeatable = True
        self.bare: tuple[int, str] = (0, "")

    def add(self, batch: Outcome, *, read: bool = True) -> np.ndarray:
        """Add rows after the rules and return the hashes of their locs. `read`: False if they come from a mirror."""
        for kind, table in (("excluded", batch.excluded), ("rejected", batch.rejected)):
            self.set_aside(kind, table, read=read)
        self.repeatable &= batch.repeatable
        self.tallies["notes"].merge(batch.notes)
        self.elsewhere.update(batch.foreign)
        self.bare = (self.bare[0] + batch.bare[0], self.bare[1] or batch.bare[1])
        if batch.kinds:
            self.kinds.append(batch.kinds)
        inventory = batch.inventory
        self.columns |= set(inventory.column_names)
        self.listed += inventory.num_rows
        if not inventory.num_rows:
            return np.empty(0, np.uint64)
        locs = column_of(inventory, "loc")
        hashes = hash64(locs)
        self._sum(inventory, hashes)
        self._keep(inventory, locs, hashes)
        return hashes

    def _reach(self, locs: pa.Array | pa.ChunkedArray) -> None:
        """Note how far the locs reach; the first and the last are enough."""
        ends = pc.min_max(locs).as_py()
        self.lowest = ends["min"] if self.lowest is None else min(self.lowest, ends["min"])
        self.highest = max(self.highest or "", ends["max"])

    def _sum(self, inventory: pa.Table, hashes: np.ndarray) -> None:
        """Add rows to the digest. `hashes`: hashes of their locs."""
        columns = [name for name in inventory.column_names if name not in PROVENANCE]
        sums = sums_of(hash_rows(inventory.select(columns), {"loc": hashes}))
        self.sums, self.loc_sums = added(self.sums, sums), added(self.loc_sums, sums_of(hashes))

    def _keep(self, inventory: pa.Table, locs: pa.Array, hashes: np.ndarray) -> None:
        """Write rows to the shuffle file, with the statistics that partition needs."""
        self.samples.append(samples(locs, hashes, _weights(inventory)))
        if "signal" in inventory.column_names:
            signal = pc.drop_null(inventory.column("signal")).to_numpy()
            counts = np.bincount(signal, minlength=1 << 16)
            self.histogram = counts if self.histogram is None else self.histogram + counts
        if "hreflang" in inventory.column_names and len(self.tags) < _TAGS:
            self.tags |= set(pc.unique(pc.list_flatten(inventory.column("hreflang"))).drop_null().to_pylist())
        self.pending.append(inventory)
        self.pending_rows += inventory.num_rows
        self.pending_bytes += inventory.nbytes
        if self.is_resident is None:
            size = inventory.nbytes * max(self.expected, inventory.num_rows) // inventory.num_rows
            self.is_resident = self.run.resident.admits(self.section, size)
        full = self.pending_rows >= self.flush_rows or self.pending_bytes >= self.flush_rows * _FLUSH_ROW_BYTES
        if full or (self.is_resident and self.pending_rows >= _RESIDENT_ROWS):
            self._flush()

    def set_aside(self, kind: str, table: pa.Table, *, read: bool) -> None:
        """Add rows that are not listed: `frames.ASIDE`."""
        if not table.num_rows:
            return
        if read and kind == "rejected":
            self.rejected_read += table.num_rows
        if kind not in self.aside:
            self.aside[kind] = pq.ParquetWriter(self.scratch / f"{kind}.parquet", ASIDE, compression="zstd")
        self.aside[kind].write_table(table)
        count_reasons(table, self.tallies[kind], self.run)

    def _flush(self) -> None:
        if not self.pending:
            return
        table = pa.concat_tables(self.pending, promote_options="default")
        self.pending, self.pending_rows, self.pending_bytes = [], 0, 0
        if self.any_columns:
            table = conform(table, INVENTORY)
        self.schema = self.schema or table.schema
        if self.is_resident:
            starts = range(0, table.num_rows, _RESIDENT_ROWS)
            left = [part for part in (table.slice(start, _RESIDENT_ROWS) for start in starts) if not self._stays(part)]
            if not left:
                return
            table = pa.concat_tables(left)
        self._reach(table.column("loc"))
        if self.borders is None:
            self.borders = self._guessed(table.column("loc"))
        self._writer().write(route(table, self.borders))

    def _stays(self, rows: pa.Table) -> bool:
        """Return True if rows stay in memory."""
        ends = self.run.resident.keep(self.spool_key, rows)
        if ends is not None:
            self._reach(pa.array(ends))
        return ends is not None

    def _writer(self) -> SpoolWriter:
        """Return the writer of the shuffle file, started with its first rows, or with the known facts of all rows."""
        if self.writer is None:
            self.writer = SpoolWriter(self.scratch / "spool", self.schema, len(self.borders or ()) + 1)
        return self.writer

    def _guessed(self, locs: pa.ChunkedArray) -> list[str]:
        """Return borders that are estimated from some of the locs. A message has at least a few thousand rows."""
        most = min(_GUESSES, len(locs) // _MESSAGE_ROWS * _GUESSES_EACH)
        at = np.unique(np.linspace(0, len(locs) - 1, most).astype(np.int64))
        return routing_borders([], locs.take(pa.array(at)).to_pylist(), self.expected, len(locs) // _MESSAGE_ROWS)

    def finish(self) -> Transformed:
        """Put the files of this attempt. Return their part of the task result."""
        self._flush()
        aside = {}
        for kind, writer in self.aside.items():
            writer.close()
            path = self.scratch / f"{kind}.parquet"
            aside[kind] = put_checked(self.run.staging, f"{self.key}-{kind}.parquet", path)
        ends = None if self.lowest is None or self.highest is None else (self.lowest, self.highest)
        spool, digest = None, None
        if self.schema is not None:
            digest = self._writer().append(self._digest())
            spool = self._writer().put(self.run.staging, self.spool_key, self.borders or ())
        return Transformed(
            section=self.section,
            inventory=self.listed,
            duplicates=self.tallies["duplicates"].total,
            excluded=self.tallies["excluded"].total,
            rejected=self.tallies["rejected"].total,
            rejected_read=self.rejected_read,
            reasons=self.tallies,
            elsewhere=dict(self.elsewhere.most_common(3)),
            aside=aside,
            spool=spool,
            digest=digest,
            ends=ends,
            kinds=tuple(lastmod.agreed(self.kinds)) if self.kinds else None,
            tags=tuple(sorted(self.tags)),
            columns=tuple(sorted(self.columns)),
            bare=self.bare,
            sums=self.sums,
            loc_sums=self.loc_sums,
            repeatable=self.repeatable,
        )

    def _digest(self) -> pa.Buffer:
        """Return the samples and the histogram, which are too large for the task result."""
        sampled = distinct(self.samples)  # one in 256 rows
        histogram = np.zeros(1, np.int64) if self.histogram is None else self.histogram
        bins = np.flatnonzero(histogram)
        columns = (
            single(sampled.to_struct_array()),
            pa.array(bins, pa.uint16()),
            pa.array(histogram[bins], pa.int64()),
        )
        row = [pa.ListArray.from_arrays([0, len(column)], column) for column in columns]
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, _DIGEST) as writer:
            writer.write_batch(pa.RecordBatch.from_arrays(row, schema=_DIGEST))
        return sink.getvalue()


def read_digest(staging: Storage, receipt: Transformed) -> tuple[pa.Table, np.ndarray | None]:
    """Return the samples of a split (SAMPLES) and the histogram of its signal (int64 per bin), or None without a
    signal.
    """
    if receipt.spool is None or receipt.digest is None:
        return SAMPLES.empty_table(), None
    (data,) = read_places(staging, receipt.spool.key, [receipt.digest])
    table = pa.ipc.open_stream(pa.py_buffer(data)).read_all()
    sampled, bins, rows = (column_of(table, name).flatten() for name in _DIGEST.names)
    histogram = None
    if len(bins):
        histogram = np.zeros(1 << 16, np.int64)
        histogram[bins.to_numpy()] = rows.to_numpy()
    return pa.table(sampled.flatten(), schema=SAMPLES), histogram


def count_reasons(table: pa.Table, tally: Tally, run: Run) -> None:
    """Count the reasons of dropped rows, with the first few locs of each; of a row without a loc, which row it is."""
    reasons = table.column("reason")
    for entry in pc.value_counts(single(reasons)).to_pylist():  # one a reason
        some = table.filter(pc.equal(reasons, entry["values"])).slice(0, EXAMPLES)
        tally.add(entry["values"], entry["counts"], [_called(row, run) for row in some.to_pylist()])


def _called(row: dict[str, Any], run: Run) -> str:
    """Return the name of a set-aside row for people: its loc, else its key or its number."""
    if row["loc"] is not None and row["loc"].strip():
        return str(row["loc"])
    if row["key"] is not None:
        return f"the row with key {row['key']}"
    unit = row["row"] >> ROW_BITS
    if unit >= len(run.plan.units):
        return "a row without key"
    which, number, where = run.read_split(unit).place(row["row"] & ((1 << ROW_BITS) - 1))
    return f"{which} {number:,} of {where}"


def _weights(inventory: pa.Table) -> np.ndarray:
    """Return an estimate of the memory that each row takes in a window, in bytes."""
    sizes: np.ndarray = pc.binary_length(inventory.column("loc")).to_numpy().astype(np.int64) + ENTRY_BYTES
    for name, weight in _WEIGHTS.items():
        if name in inventory.column_names:
            lengths = pc.fill_null(pc.list_value_length(inventory.column(name)), 0).to_numpy()
            sizes = sizes + lengths * weight
    if "title" in inventory.column_names:
        sizes = sizes + pc.fill_null(pc.binary_length(inventory.column("title")), 0).to_numpy()
    return sizes
