"""Build hreflang clusters: all listed rows with the same group, in all sections of the same cluster.

It has two steps between partition and render. `collect_members` finds the listed rows, window by window, and writes
them to hash buckets of their group. `align` closes the clusters bucket by bucket, and routes the links to windows. So a
cluster can extend over splits, groups and sections, and memory holds one window or one bucket.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of, dealt
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import hash64, hash_rows
from sitemap_etl.partition import Routed, route
from sitemap_etl.partition.clusters import MEMBERS, close
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.spool import SpoolWriter, read_windows
from sitemap_etl.stages.window import Reader, unique_rows
from sitemap_etl.state import layout
from sitemap_etl.state.records import Aligned, Collected, Partition, Spool

LINKS: Final = 500_000
"""Planned links per bucket, about 60 MB."""
_LINKED: Final = pa.schema([("group", pa.string()), ("loc", pa.string()), ("links", pa.uint64())])
"""A page's published links, as a hash."""


def cluster_units(run: Run) -> list[int]:
    """Return the units of render whose sections have clusters."""
    units = run.partition().units
    return [n for n, (section, _) in enumerate(units) if run.site.sections[section].alternates is not None]


def _buckets(run: Run, planned: Partition) -> int:
    """Return the number of buckets: the possible links, divided by the links of one bucket."""
    links = 0
    for name, plan in planned.sections.items():
        if run.site.sections[name].alternates is not None:
            links += plan.rows * max(2, plan.tags)
    return int(np.clip(-(-links // LINKS), 1, 4_096))


def collect_members(run: Run, n: int) -> Collected:
    """Find the listed cluster members of render task `n`, and return the task result."""
    name = layout.collect(n)
    done = run.receipt(name, Collected)
    if done is not None:
        return done
    reader = Reader(run)
    planned = reader.planned
    section, group = planned.units[n]
    buckets = _buckets(run, planned)
    plan = planned.sections[section]
    first, past = plan.groups[group]
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        writer = SpoolWriter(Path(scratch) / "spool", MEMBERS, buckets)
        members = 0
        for low, high in plan.windows[first:past]:
            known = reader.published(section, low, high)
            found = _members(run, section, unique_rows(reader, section, low, high, known).rows)
            members += found.num_rows
            writer.write(_bucketed(found, buckets))
        spool = writer.put(run.staging, f"{run.attempt(name)}.spool")
    return run.leave(name, Collected(spool, members, buckets))


def _members(run: Run, section: str, rows: pa.Table) -> pa.Table:
    """Return a row for each language of each row that has a group."""
    rule = run.site.sections[section].alternates
    if rule is None:
        return MEMBERS.empty_table()
    rows = rows.filter(
        pc.and_(pc.is_valid(rows.column("cluster")), pc.is_valid(rows.column("hreflang")))
    ).combine_chunks()
    if not rows.num_rows:
        return MEMBERS.empty_table()
    tags = column_of(rows, "hreflang")
    owner = pc.list_parent_indices(tags)
    count = len(owner)
    named = pc.binary_join_element_wise(rule.cluster, column_of(rows, "cluster").take(owner), "\x1f")
    return pa.table(
        [
            named,
            column_of(rows, "loc").take(owner),
            pc.list_flatten(tags),
            pa.repeat(pa.scalar(list(run.site.sections).index(section), pa.int16()), count),
            pa.repeat(pa.scalar(rule.x_default, pa.string()), count),
        ],
        schema=MEMBERS,
    )


def _bucketed(members: pa.Table, buckets: int) -> Routed:
    """Return the members ordered by bucket."""
    order, starts = dealt(hash64(members.column("group")), buckets)
    return Routed(members.take(pa.array(order)).combine_chunks(), starts)


def align(run: Run) -> Aligned:
    """Close the clusters of all buckets, and return the task result."""
    done = run.receipt(layout.ALIGN, Aligned)
    if done is not None:
        return done
    planned = run.partition()
    receipts = [run.collected(n) for n in cluster_units(run)]
    if not receipts:
        return run.leave(layout.ALIGN, Aligned())
    buckets = receipts[0].buckets
    names = list(run.site.sections)
    notes = Tally()
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        outputs = _Outputs(run, planned, Path(scratch))
        stand_ins = _stand_ins(Reader(run), buckets, Path(scratch))
        spools = [receipt.spool for receipt in receipts] + [one.members for one in stand_ins]
        aligned = 0
        stale: dict[str, tuple[int, str]] = {}
        for bucket in range(buckets):
            tables = [table for spool in spools for table in read_windows(run.staging, spool, [bucket])]
            if not tables:
                continue
            closed = close(pa.concat_tables(tables))
            notes.merge(closed.notes)
            aligned += closed.pages
            for at in pc.unique(closed.rows.column("section")).to_pylist():
                rows = closed.rows.filter(pc.equal(closed.rows.column("section"), at)).select(["loc", "alternates"])
                outputs.write(names[at], rows)
            for one in stand_ins:
                own = closed.rows.filter(pc.equal(closed.rows.column("section"), names.index(one.section)))
                differ = _differing(run, one, bucket, own)
                if len(differ):
                    stale[one.section] = (stale.get(one.section, (0, ""))[0] + len(differ), differ[0].as_py())
        sections = outputs.put()
    return run.leave(layout.ALIGN, Aligned(sections, notes, aligned, stale))


class _StandIn(Frozen):
    """Published cluster members of a section that this run did not read."""

    section: str
    members: Spool
    linked: Spool


def _stand_ins(reader: Reader, buckets: int, scratch: Path) -> list[_StandIn]:
    """Return the sections that this run did not read and that share a cluster with one that it read.

    Pages that an earlier section lists now are not members any more.
    """
    run, planned = reader.run, reader.planned
    clusters = {rule.cluster for name in planned.sections if (rule := run.site.sections[name].alternates) is not None}
    found = []
    for name, section in run.site.sections.items():
        rule = section.alternates
        if run.base is None or name in planned.sections or rule is None or rule.cluster not in clusters:
            continue
        members = SpoolWriter(scratch / f"published-{name}", MEMBERS, buckets)
        linked = SpoolWriter(scratch / f"linked-{name}", _LINKED, buckets)
        for entry in run.base.of(name):
            rows = run.state.snapshot(entry.snapshot, ["loc", "cluster", "hreflang", "alternates"])
            if name in reader.unread and (taken := reader.taken(name, column_of(rows, "loc"))).any():
                rows = rows.filter(pa.array(~taken))
            own = _members(run, name, rows)
            members.write(_bucketed(own, buckets))
            groups = own.select(["group", "loc"]).group_by("loc", use_threads=False).aggregate([("group", "first")])
            at = pc.index_in(groups.column("loc"), rows.column("loc"))
            links = pa.array(_links(rows.column("alternates").take(at)))
            linked.write(
                _bucketed(pa.table([groups.column("group_first"), groups.column("loc"), links], _LINKED), buckets)
            )
        key = run.attempt(f"collect/{name}")
        put = members.put(run.staging, f"{key}.spool"), linked.put(run.staging, f"{key}-linked.spool")
        found.append(_StandIn(name, *put))
    return found


def _links(alternates: pa.ChunkedArray) -> np.ndarray:
    """Return a hash of each page's links, 0 without links."""
    none = pc.is_null(alternates).to_numpy() | (pc.fill_null(pc.list_value_length(alternates), 0).to_numpy() == 0)
    return np.where(none, np.uint64(0), hash_rows(pa.table({"alternates": alternates}), {}))


def _differing(run: Run, one: _StandIn, bucket: int, closed: pa.Table) -> pa.ChunkedArray:
    """Return the locs of a section that stays as published whose links are others by now. `closed`: its rows."""
    tables = [_LINKED.empty_table(), *read_windows(run.staging, one.linked, [bucket])]
    published = pa.concat_tables(tables)
    at = pc.index_in(published.column("loc"), closed.column("loc"))
    now = pa.array(_links(closed.column("alternates"))).take(at.combine_chunks())
    same = pc.equal(published.column("links"), pc.fill_null(now, 0))
    return published.column("loc").filter(pc.invert(same))


class _Outputs:
    """Writer of one shuffle file per section: loc and alternates, routed to the windows of render."""

    def __init__(self, run: Run, planned: Partition, scratch: Path) -> None:
        self.run = run
        self.planned = planned
        self.scratch = scratch
        self.writers: dict[str, SpoolWriter] = {}

    def write(self, section: str, rows: pa.Table) -> None:
        if section not in self.planned.sections:
            return  # it stays as published
        windows = self.planned.sections[section].windows
        if section not in self.writers:
            self.writers[section] = SpoolWriter(self.scratch / f"aligned-{section}", rows.schema, len(windows))
        self.writers[section].write(route(rows, [low for low, _ in windows][1:]))

    def put(self) -> dict[str, tuple[Spool, ...]]:
        """Store the shuffle files and return them by section."""
        return {
            section: (writer.put(self.run.staging, f"{self.run.attempt(f'align/{section}')}.spool"),)
            for section, writer in self.writers.items()
        }
