"""The transform stage: a split's raw rows to an inventory, routed to windows, with a receipt."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import lastmod, urls
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError
from sitemap_etl.frames import ASIDE, ROW_BITS, Tally
from sitemap_etl.partition import route, routing_borders, samples
from sitemap_etl.stages.extract import named, read_raw
from sitemap_etl.stages.published import published_ranges
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import RunWriter, schema_text
from sitemap_etl.transform import Rules, Transformed, transform

FLUSH_BYTES: Final = 192 * 1024 * 1024
"""Routed rows gathered before messages are written: larger messages compress and read better."""
FLUSH_ROWS: Final = 1_000_000
ENTRY_BYTES: Final = 64
"""What a row's entry holds besides its loc: a guess that windows are planned with."""
_WEIGHTS: Final = {"images": 120, "videos": 1_500, "alternates": 160}
"""Bytes of memory of one element of a nested column, for the same purpose."""


def transform_split(run: Run, n: int, *, final: bool = True) -> dict[str, Any]:
    """Transform unit `n` of the plan; gives its receipt.

    A source that turns out broken keeps its section as published where the site file says so
    (`on_error: keep`), else the error is raised.
    """
    name = f"transform/{n}"
    done = run.receipt(name)
    if done is not None:
        return done
    unit = run.plan.units[n]
    section = run.site.sections[unit["section"]]
    extracted = [
        run.need(f"extract/{at}") for at, other in enumerate(run.plan.units) if other["section"] == section.name
    ]
    kept = next((receipt["kept"] for receipt in extracted if receipt.get("kept")), None)
    if kept:
        return run.leave(name, {"kept": kept})
    robots = run.plan.robots.encode("latin-1") if run.plan.robots is not None else None
    rules = rules_of(run.site, section, run.now, robots)
    borders = _borders(run, rules, extracted)
    try:
        with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
            receipt = _transform(run, n, rules, borders, Path(scratch))
    except SitemapEtlError as error:
        if section.on_error == "keep" and (final or isinstance(error, (InvalidSource, Refused))):
            return run.leave(name, {"kept": str(error)})
        if isinstance(error, InvalidSource):
            raise InvalidSource(named(section, error)) from error
        raise
    return run.leave(name, receipt)


def _borders(run: Run, rules: Rules, extracted: list[dict[str, Any]]) -> list[str]:
    """The routing borders of a section, the same for each of its splits."""
    ranges = published_ranges(run, rules.section)
    if ranges:
        return routing_borders(ranges, [], 0)
    guesses = [guess for receipt in extracted for guess in receipt["guesses"]]
    canonical = urls.canonicalize(pa.array(guesses, pa.string()), rules.urls).loc
    rows = sum(receipt["rows"] for receipt in extracted)
    return routing_borders([], pc.drop_null(canonical).to_pylist(), rows)  # a few thousand guesses


def _transform(run: Run, n: int, rules: Rules, borders: list[str], scratch: Path) -> dict[str, Any]:
    split = _Split(run.attempt(f"transform/{n}"), borders, scratch)
    first_row = n << ROW_BITS
    rows = 0
    limit = run.options.limit
    extract = run.need(f"extract/{n}")
    read_at = datetime.fromisoformat(extract["read_at"])
    names, batches = read_raw(run, n, rules.needs())
    rules = replace(rules, available=tuple(names))
    for batch in batches:
        raw = pa.Table.from_batches([batch])
        if limit is not None:
            raw = raw.slice(0, max(0, limit - rows))
            if rows >= limit:
                break
        split.add(transform(raw, rules, read_at=read_at, first_row=first_row + rows))
        rows += raw.num_rows
    if limit is None and rows != extract["rows"]:
        raise Refused(
            f"section {rules.section}: {extract['rows']:,} rows were extracted, {rows:,} came to transform "
            f"({run.plan.units[n]['label']}). Nothing was published; run again"
        )
    return {"rows": rows, "section": rules.section, **split.finish(run)}


class _Split:
    """What is gathered of one split: rows on their way to messages, counts on theirs to the receipt."""

    def __init__(self, key: str, borders: list[str], scratch: Path) -> None:
        self.key = key
        self.borders = borders
        self.scratch = scratch
        self.pending: list[pa.Table] = []
        self.pending_bytes = self.pending_rows = 0
        self.writer: RunWriter | None = None
        self.aside: dict[str, pq.ParquetWriter] = {}
        self.tallies = {"excluded": Tally(), "rejected": Tally(), "notes": Tally()}
        self.foreign: Counter[str] = Counter()
        self.samples: dict[str, int] = {}
        self.histogram: np.ndarray | None = None
        self.listed = 0
        self.lowest: str | None = None
        self.highest: str | None = None
        self.kinds: list[tuple[tuple[str, str], ...]] = []
        self.tags: set[str] = set()
        self.columns: set[str] = set()

    def add(self, batch: Transformed) -> None:
        for kind, table in (("excluded", batch.excluded), ("rejected", batch.rejected)):
            self._set_aside(kind, table)
        self.tallies["notes"].merge(batch.notes)
        self.foreign.update(batch.foreign)
        if batch.kinds:
            self.kinds.append(batch.kinds)
        inventory = batch.inventory
        self.columns |= set(inventory.column_names)
        self.listed += inventory.num_rows
        if not inventory.num_rows:
            return
        locs = inventory.column("loc").combine_chunks()
        for sample in samples(locs, _weights(inventory)):
            self.samples[sample.loc] = max(sample.bytes, self.samples.get(sample.loc, 0))
        ends = pc.min_max(locs).as_py()
        self.lowest = min(self.lowest or ends["min"], ends["min"])
        self.highest = max(self.highest or "", ends["max"])
        if "signal" in inventory.column_names:
            signal = pc.drop_null(inventory.column("signal")).to_numpy()
            counts = np.bincount(signal, minlength=1 << 16)
            self.histogram = counts if self.histogram is None else self.histogram + counts
        if "hreflang" in inventory.column_names and len(self.tags) < 200:
            self.tags |= set(pc.unique(pc.list_flatten(inventory.column("hreflang"))).drop_null().to_pylist())
        self.pending.append(inventory)
        self.pending_rows += inventory.num_rows
        self.pending_bytes += inventory.nbytes
        if self.pending_bytes >= FLUSH_BYTES or self.pending_rows >= FLUSH_ROWS:
            self._flush()

    def _set_aside(self, kind: str, table: pa.Table) -> None:
        if not table.num_rows:
            return
        if kind not in self.aside:
            self.aside[kind] = pq.ParquetWriter(self.scratch / f"{kind}.parquet", ASIDE, compression="zstd")
        self.aside[kind].write_table(table)
        count_reasons(table, self.tallies[kind])

    def _flush(self) -> None:
        if not self.pending:
            return
        table = pa.concat_tables(self.pending, promote_options="default")
        self.pending, self.pending_rows, self.pending_bytes = [], 0, 0
        if self.writer is None:
            self.writer = RunWriter(self.scratch / "run", table.schema, len(self.borders) + 1)
        self.writer.write(route(table, self.borders))

    def finish(self, run: Run) -> dict[str, Any]:
        """Put the files of this attempt; gives what the receipt says of them."""
        self._flush()
        key = None
        if self.writer is not None:
            self.writer.close()
            key = f"{self.key}.run"
            run.staging.put(key, self.scratch / "run")
        aside = {}
        for kind, writer in self.aside.items():
            writer.close()
            aside[kind] = f"{self.key}-{kind}.parquet"
            run.staging.put(aside[kind], self.scratch / f"{kind}.parquet")
        histogram = {}
        if self.histogram is not None:
            bins = np.flatnonzero(self.histogram)
            histogram = {int(at): int(self.histogram[at]) for at in bins}
        return {
            "inventory": self.listed,
            "excluded": self.tallies["excluded"].total,
            "rejected": self.tallies["rejected"].total,
            "reasons": {kind: tally.to_json() for kind, tally in self.tallies.items()},
            "foreign": dict(self.foreign.most_common(3)),
            "aside": aside,
            "run": key,
            "schema": schema_text(self.writer.schema) if self.writer else None,
            "borders": self.borders,
            "places": self.writer.places if self.writer else [],
            "samples": sorted(self.samples.items()),
            "ends": [self.lowest, self.highest] if self.listed else None,
            "histogram": histogram,
            "kinds": lastmod.agreed(self.kinds) if self.kinds else None,
            "tags": sorted(self.tags),
            "columns": sorted(self.columns),
        }


def count_reasons(table: pa.Table, tally: Tally) -> None:
    """Count the reasons of rows set aside, with the first few locs of each."""
    reasons = table.column("reason")
    for entry in pc.value_counts(reasons.combine_chunks()).to_pylist():  # one a reason
        locs = table.filter(pc.equal(reasons, entry["values"])).column("loc").drop_null().slice(0, 3)
        tally.add(entry["values"], entry["counts"], locs.to_pylist())


def _weights(inventory: pa.Table) -> np.ndarray:
    """Bytes of memory a row takes in a window, guessed from nothing but the row."""
    sizes: np.ndarray = pc.binary_length(inventory.column("loc")).to_numpy().astype(np.int64) + ENTRY_BYTES
    for name, weight in _WEIGHTS.items():
        if name in inventory.column_names:
            lengths = pc.fill_null(pc.list_value_length(inventory.column(name)), 0).to_numpy()
            sizes = sizes + lengths * weight
    if "title" in inventory.column_names:
        sizes = sizes + pc.fill_null(pc.binary_length(inventory.column("title")), 0).to_numpy()
    return sizes


def merge_tallies(parts: Iterable[dict[str, Any]]) -> Tally:
    """One tally of many receipts' JSON."""
    total = Tally()
    for part in parts:
        total.merge(Tally.from_json(part))
    return total
