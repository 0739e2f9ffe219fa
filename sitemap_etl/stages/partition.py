"""The partition stage: plan windows, groups and signal tables from the results of transform."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod, priority
from sitemap_etl.arrow import column_of
from sitemap_etl.partition import Window, distinct, groups, windows
from sitemap_etl.stages.decide import decide_sections
from sitemap_etl.stages.published import published_ranges
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import Row, put_index
from sitemap_etl.stages.transform import read_digest
from sitemap_etl.state import layout
from sitemap_etl.state.checked import put_checked, read_checked
from sitemap_etl.state.records import Checked, Partition, SectionPlan, Spool, Transformed

_HREFLANG: Final = 40
"""Bytes of memory of an alternate besides its address."""


def partition(run: Run, *, jobs: int = 1) -> Partition:
    """Plan the windows and groups of every section that was read and has changed. Return the task result.

    `jobs`: how many groups are rendered at a time. Groups affect speed, never bytes.
    """
    done = run.receipt(layout.PARTITION, Partition)
    if done is not None:
        return done
    decided = decide_sections(run)
    receipts = {name: run.parts(name) for name in run.read_sections()}
    sections = {
        section: _section(run, section, parts, receipts, jobs)
        for section, parts in receipts.items()
        if section not in decided.held and section not in decided.quiet
    }
    units = tuple((section, at) for section, plan in sections.items() for at in range(len(plan.groups)))
    return run.leave(layout.PARTITION, Partition(sections, units, decided.held, decided.quiet, decided.clusters))


def _section(
    run: Run, name: str, parts: Sequence[Transformed], receipts: Mapping[str, Sequence[Transformed]], jobs: int
) -> SectionPlan:
    section = run.site.sections[name]
    extra = _languages(run, name, receipts)
    sampled: list[pa.Table] = []
    histogram: np.ndarray | None = None
    for part in parts:
        found, counted = read_digest(run.staging, part)
        sampled.append(found)
        if counted is not None:
            histogram = counted if histogram is None else histogram + counted
    planned = windows([] if section.view else published_ranges(run, name), _with_links(distinct(sampled), extra))
    joined = [(0, len(planned))] if section.view else groups(planned, jobs)
    ends = [part.ends for part in parts if part.ends]
    rule, kinds = _definition(run, name, [part.kinds for part in parts if part.kinds])
    key = run.attempt(f"{layout.PARTITION}/{name}")
    spools = [part.spool for part in parts if part.spool is not None]
    schemas = tuple(dict.fromkeys(spool.schema for spool in spools))
    rows = [row for number, spool in enumerate(spools) for row in places_of(number, spool, planned)]
    return SectionPlan(
        windows=tuple((window.low, window.high) for window in planned),
        groups=tuple(joined),
        rows=sum(part.inventory for part in parts),
        schemas=schemas,
        spools=tuple((spool.key, schemas.index(spool.schema)) for spool in spools),
        index=put_index(run.staging, f"{key}.index", rows, joined),
        ends=(min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
        signals=None if histogram is None else _put_signals(run, f"{key}.signals", histogram),
        rule=rule,
        kinds=kinds,
        tags=extra,
        columns=tuple(sorted({column for part in parts for column in part.columns})),
    )


def _with_links(sampled: pa.Table, languages: int) -> pa.Table:
    """Return the samples with the estimated bytes of hreflang links added. `languages`: links per page."""
    if not languages:
        return sampled
    links = (pc.binary_length(column_of(sampled, "loc")).to_numpy() + _HREFLANG) * languages
    return sampled.set_column(1, "bytes", pa.array(column_of(sampled, "bytes").to_numpy() + links))


def _definition(
    run: Run, name: str, found: Sequence[lastmod.Kinds]
) -> tuple[str | None, tuple[tuple[str, str], ...] | None]:
    """Return the id of the fingerprint's definition and the kinds of its columns, as they are now.

    What this run can't tell (no row was read, a column holds nothing but nulls) is as it was published.
    """
    published = run.base.sections.get(name) if run.base is not None else None
    if not found:
        return (None, None) if published is None else (published.rule, published.kinds)
    kinds = lastmod.agreed(found)
    if published is not None and published.kinds is not None and lastmod.comparable(published.kinds, kinds):
        kinds = lastmod.agreed([kinds, published.kinds])
    return lastmod.rule_id(kinds), tuple(kinds)


def _languages(run: Run, name: str, receipts: Mapping[str, Sequence[Transformed]]) -> int:
    """Return the number of languages of the section's hreflang cluster, in all its sections."""
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


def _put_signals(run: Run, key: str, histogram: np.ndarray) -> Checked:
    """Stage the table from signal bin to priority (int8, tenths)."""
    return put_checked(run.staging, key, priority.percentile_table(histogram).astype(np.int8).tobytes())


def signals_of(run: Run, plan: SectionPlan) -> np.ndarray | None:
    """Return the table from signal bin to priority (int8, tenths), or None if the section has no signal."""
    stored = None if plan.signals is None else read_checked(run.staging, plan.signals)
    return None if stored is None else np.frombuffer(stored, np.int8)


def places_of(number: int, spool: Spool, planned: Sequence[Window]) -> Iterator[Row]:
    """Yield the rows of the index for one shuffle file."""
    borders = spool.borders
    known = frozenset(borders)
    for window, stretch in enumerate(planned):
        low, high = stretch.low, stretch.high
        first = bisect_right(borders, low) if low else 0
        final = len(borders) if high is None else bisect_left(borders, high)
        for at in range(first, final + 1):
            # A message at the edge may reach beyond the window.
            exact = (at > first or not low or low in known) and (at < final or high is None or high in known)
            for place in spool.places[at]:
                yield window, number, *place, exact
