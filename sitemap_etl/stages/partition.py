"""The partition stage: receipts of all splits to windows, groups, signal tables and known overlaps."""

from __future__ import annotations

import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import lastmod, priority, urls
from sitemap_etl.arrow import column_of
from sitemap_etl.partition import Routed, Sample, Window, groups, windows
from sitemap_etl.partition.borders import distinct
from sitemap_etl.stages.published import published_ranges
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import SpoolWriter
from sitemap_etl.stages.transform import read_digest
from sitemap_etl.state import layout
from sitemap_etl.state.records import Partition, SectionPlan, Spool, Transformed

INDEX: Final = pa.schema(
    [
        ("window", pa.int32()),
        ("spool", pa.int32()),
        ("start", pa.int64()),
        ("bytes", pa.int64()),
        ("exact", pa.bool_()),  # all rows of the message are in the window
    ]
)
"""Where each window's messages lie: one row a window and message, ordered by window."""
_HREFLANG: Final = 40
"""Bytes of memory an alternate takes besides its address."""


def partition(run: Run) -> Partition:
    """Plan the windows and groups of every section that was read; gives the receipt."""
    done = run.receipt(layout.PARTITION, Partition)
    if done is not None:
        return done
    receipts = _transformed(run)
    held = dict(run.plan.held)
    for section, parts in receipts.items():
        why = next((part.held for part in parts if part.held), None)
        if why:
            held[section] = why
    sections = {
        section: _section(run, section, parts, receipts) for section, parts in receipts.items() if section not in held
    }
    units = tuple((section, at) for section, plan in sections.items() for at in range(len(plan.groups)))
    return run.leave(layout.PARTITION, Partition(sections, units, held))


def _transformed(run: Run) -> dict[str, list[Transformed]]:
    """The transform receipts of every section that was read, in the order of the site file and of their splits."""
    found: dict[str, list[Transformed]] = {
        name: [] for name in run.site.sections if any(unit.section == name for unit in run.plan.units)
    }
    for n, unit in enumerate(run.plan.units):
        found[unit.section].append(run.transformed(n))
    return found


def _section(
    run: Run, name: str, parts: Sequence[Transformed], receipts: Mapping[str, Sequence[Transformed]]
) -> SectionPlan:
    section = run.site.sections[name]
    extra = _languages(run, name, receipts)
    sampled: list[Sample] = []
    histogram: np.ndarray | None = None
    for part in parts:
        found, counted = read_digest(run.staging, part)
        sampled += found
        if counted is not None:
            histogram = counted if histogram is None else histogram + counted
    weighed = distinct(Sample(one.loc, one.bytes + extra * (len(one.loc) + _HREFLANG)) for one in sampled)
    planned = windows([] if section.view else published_ranges(run, name), weighed)
    joined = [(0, len(planned))] if section.view else groups(planned)
    ends = [part.ends for part in parts if part.ends]
    kinds = [part.kinds for part in parts if part.kinds]
    key = run.attempt(f"{layout.PARTITION}/{name}")
    spools = [part.spool for part in parts if part.spool is not None]
    schemas = tuple(dict.fromkeys(spool.schema for spool in spools))
    carries, excluded_locs = _carrying(run, name, parts)
    return SectionPlan(
        windows=tuple((window.low, window.high) for window in planned),
        groups=tuple(joined),
        rows=sum(part.inventory for part in parts),
        schemas=schemas,
        spools=tuple((spool.key, schemas.index(spool.schema)) for spool in spools),
        index=_put_index(run, f"{key}.index", spools, planned, joined),
        ends=(min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
        signals=None if histogram is None else _put_signals(run, f"{key}.signals", histogram),
        rule=lastmod.rule_id(lastmod.agreed(kinds)) if kinds else None,
        tags=extra,
        columns=tuple(sorted({column for part in parts for column in part.columns})),
        carries=carries,
        excluded_locs=excluded_locs,
    )


def _languages(run: Run, name: str, receipts: Mapping[str, Sequence[Transformed]]) -> int:
    """How many languages the section's hreflang cluster has, in all its sections."""
    rule = run.site.sections[name].alternates
    if rule is None:
        return 0
    tags = {
        tag
        for other, parts in receipts.items()
        if (theirs := run.site.sections[other].alternates) is not None and theirs.cluster == rule.cluster
        for part in parts
        for tag in part.tags
    }
    return len(tags)


def _put_signals(run: Run, key: str, histogram: np.ndarray) -> str:
    """Stage the table from signal bin to priority (int8, tenths)."""
    run.staging.put(key, priority.percentile_table(histogram).astype(np.int8).tobytes())
    return key


def signals_of(run: Run, plan: SectionPlan) -> np.ndarray | None:
    """The table from signal bin to priority (int8, tenths); None where the section has no signal."""
    stored = None if plan.signals is None else run.staging.get(plan.signals)
    return None if stored is None else np.frombuffer(stored.data, np.int8)


def _put_index(
    run: Run, key: str, spools: Sequence[Spool], planned: Sequence[Window], joined: Sequence[tuple[int, int]]
) -> Spool:
    """Stage where each window's messages lie, a message of `INDEX` rows for each group."""
    rows = [row for number, spool in enumerate(spools) for row in _places(number, spool, planned)]
    rows.sort()
    table = pa.table(
        [pa.array(column, entry.type) for column, entry in zip(zip(*rows, strict=True), INDEX, strict=True)]
        if rows
        else [pa.array([], entry.type) for entry in INDEX],
        schema=INDEX,
    )
    bounds = [first for first, _ in joined] + [len(planned)]
    starts = np.searchsorted(table.column("window").to_numpy(), bounds, side="left")
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        writer = SpoolWriter(Path(scratch) / "index", INDEX, len(joined))
        writer.write(Routed(table, starts))
        return writer.put(run.staging, key)


def _places(number: int, spool: Spool, planned: Sequence[Window]) -> Iterator[tuple[int, int, int, int, bool]]:
    """The rows of the index for one spool."""
    borders = spool.borders
    known = frozenset(borders)
    for window, stretch in enumerate(planned):
        low, high = stretch.low, stretch.high
        first = bisect_right(borders, low) if low else 0
        final = len(borders) if high is None else bisect_left(borders, high)
        for at in range(first, final + 1):
            # A message at the edge may reach beyond the window.
            exact = (at > first or not low or low in known) and (at < final or high is None or high in known)
            for start, size in spool.places[at]:
                yield window, number, start, size, exact


def _carrying(run: Run, name: str, parts: Sequence[Transformed]) -> tuple[bool, str | None]:
    """Whether the source yields only what changed, and the key of the locs that its rules took away this time."""
    if name not in run.plan.carries:
        return False, None
    rules = rules_of(run.site, run.site.sections[name], run.now, None)
    locs = [pa.array([], pa.string())]
    for part in parts:
        for key in part.aside.values():
            stored = run.staging.get(key)
            assert stored is not None
            raw = column_of(pq.read_table(pa.BufferReader(stored.data), columns=["loc"]), "loc")
            locs.append(urls.canonicalize(raw, rules.urls).loc.drop_null())
    gone = pc.unique(pa.concat_arrays(locs))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"loc": gone.take(pc.sort_indices(gone))}), sink)
    key = f"{run.attempt(f'partition-{name}')}.parquet"
    run.staging.put(key, memoryview(sink.getvalue()))
    return True, key
