"""The partition stage: receipts of all splits to windows, groups, signal tables and known overlaps."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import lastmod, priority, urls
from sitemap_etl.partition import Sample, groups, windows
from sitemap_etl.partition.borders import distinct
from sitemap_etl.stages.published import published_ranges
from sitemap_etl.stages.rules import rules_of
from sitemap_etl.stages.run import Run

NAME: Final = "partition"
_HREFLANG: Final = 40
"""Bytes of memory an alternate takes besides its address."""


def partition(run: Run) -> dict[str, Any]:
    """Plan the windows and groups of every section that was read; gives the receipt.

    `{sections: {name: plan}, units: [[section, group], …], kept: {name: why}}`.
    """
    done = run.receipt(NAME)
    if done is not None:
        return done
    receipts = transform_receipts(run)
    kept = dict(run.plan.kept)
    for section, parts in receipts.items():
        why = next((part["kept"] for part in parts if part.get("kept")), None)
        if why:
            kept[section] = why
    sections = {
        section: _section(run, section, parts, receipts) for section, parts in receipts.items() if section not in kept
    }
    units = [[section, at] for section, plan in sections.items() for at in range(len(plan["groups"]))]
    return run.leave(NAME, {"sections": sections, "units": units, "kept": kept})


def transform_receipts(run: Run) -> dict[str, list[dict[str, Any]]]:
    """The transform receipts of every section that was read, in the order of the site file and of their splits."""
    found: dict[str, list[dict[str, Any]]] = {
        name: [] for name in run.site.sections if any(unit["section"] == name for unit in run.plan.units)
    }
    for n, unit in enumerate(run.plan.units):
        found[unit["section"]].append(run.need(f"transform/{n}"))
    return found


def _section(
    run: Run, name: str, parts: list[dict[str, Any]], receipts: dict[str, list[dict[str, Any]]]
) -> dict[str, Any]:
    section = run.site.sections[name]
    extra = 0
    if section.alternates is not None:
        cluster = section.alternates.cluster
        tags = {
            tag
            for other, found in receipts.items()
            if (rule := run.site.sections[other].alternates) is not None and rule.cluster == cluster
            for part in found
            for tag in part.get("tags", ())
        }
        extra = len(tags)
    sampled = distinct(
        Sample(loc, size + extra * (len(loc) + _HREFLANG)) for part in parts for loc, size in part["samples"]
    )
    ranges = [] if section.view else published_ranges(run, name)
    planned = windows(ranges, sampled)
    joined = [(0, len(planned))] if section.view else groups(planned)
    table = None
    histograms = [part["histogram"] for part in parts if part["histogram"]]
    if histograms:
        counts = np.zeros(1 << 16, np.int64)
        for histogram in histograms:
            counts[np.array([int(at) for at in histogram])] += np.array(list(histogram.values()))
        table = priority.percentile_table(counts).tolist()
    ends = [part["ends"] for part in parts if part["ends"]]
    kinds = [[(name, kind) for name, kind in part["kinds"]] for part in parts if part["kinds"]]
    return {
        "windows": [[window.low, window.high] for window in planned],
        "groups": joined,
        "rows": sum(part["inventory"] for part in parts),
        "ends": [min(low for low, _ in ends), max(high for _, high in ends)] if ends else None,
        "table": table,
        "rule": lastmod.rule_id(lastmod.agreed(kinds)) if kinds else None,
        "tags": extra,
        **_carrying(run, name, parts),
        "columns": sorted({column for part in parts for column in part["columns"]}),
    }


def _carrying(run: Run, name: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Whether the source yields only what changed, and the locs that its rules took away this time."""
    if name not in run.plan.carries:
        return {"carries": False, "tombstones": None}
    rules = rules_of(run.site, run.site.sections[name], run.now, None)
    locs = [pa.array([], pa.string())]
    for part in parts:
        for key in part["aside"].values():
            stored = run.staging.get(key)
            assert stored is not None
            raw = pq.read_table(pa.BufferReader(stored.data), columns=["loc"]).column("loc").combine_chunks()
            locs.append(urls.canonicalize(raw, rules.urls).loc.drop_null())
    gone = pc.unique(pa.concat_arrays(locs))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"loc": gone.take(pc.sort_indices(gone))}), sink)
    key = f"{run.attempt(f'partition-{name}')}.parquet"
    run.staging.put(key, memoryview(sink.getvalue()))
    return {"carries": True, "tombstones": key}
