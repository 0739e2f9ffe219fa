"""Rows that left a section lately: should they come back unchanged, so does their date."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.frames import SNAPSHOT, conform
from sitemap_etl.manifest import SectionState
from sitemap_etl.pipeline.borders import NAME as PARTITION
from sitemap_etl.pipeline.moves import read_changes
from sitemap_etl.pipeline.proposal import Proposal
from sitemap_etl.pipeline.run import Run

REMEMBERED: Final = timedelta(days=30)


def with_departed(run: Run, proposal: Proposal) -> dict[str, SectionState]:
    """The sections' states with the rows that left, of those sections that date by fingerprint.

    `since` of a departed row is when it left. Rows that left longer ago, or came back, are forgotten.
    """
    sections = dict(proposal.sections)
    planned = run.need(PARTITION)
    for name in planned["sections"]:
        if run.site.sections[name].lastmod.kind == "fingerprint" and run.base is not None:
            sections[name] = _section(run, name, sections[name], planned)
    return sections


def _section(run: Run, name: str, state: SectionState, planned: dict[str, object]) -> SectionState:
    units = planned["units"]
    assert isinstance(units, list)
    removed, added = [], []
    for n, (section, _) in enumerate(units):
        if section != name:
            continue
        changes = read_changes(run, run.need(f"render/{n}"))
        if changes is not None:
            removed.append(changes.filter(pc.equal(changes.column("kind"), "removed")))
            added.append(changes.filter(pc.equal(changes.column("kind"), "added")).select(["loc"]))
    gone = pa.concat_tables(removed) if removed else None
    if state.departed is None and (gone is None or not gone.num_rows):
        return state
    parts = []
    if gone is not None and gone.num_rows:
        count = gone.num_rows
        since = pa.repeat(pa.scalar(run.epoch, pa.int64()), count)
        parts.append(conform(gone.select(["loc", "lastmod", "fingerprint"]).append_column("since", since), SNAPSHOT))
    if state.departed is not None:
        old = run.state.snapshot(state.departed)
        fresh = pc.greater_equal(old.column("since"), run.epoch - int(REMEMBERED.total_seconds()))
        parts.append(old.filter(fresh))
    table = pa.concat_tables(parts)
    if added:
        back = pa.concat_tables(added).column("loc").combine_chunks()
        table = table.filter(pc.invert(pc.is_in(table.column("loc"), back)))
    table = table.take(pc.sort_indices(table, sort_keys=[("loc", "ascending"), ("since", "descending")]))
    return replace(state, departed=run.state.put_snapshot(table) if table.num_rows else None)
