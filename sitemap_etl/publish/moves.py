"""Find rows that only moved between sections, compute the net changes of a run, and summarize them by path."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl.arrow import column_of
from sitemap_etl.errors import Refused
from sitemap_etl.frames import CHANGES, conform
from sitemap_etl.hashes import hash64
from sitemap_etl.stages import window
from sitemap_etl.stages.decide import LISTED_ALREADY
from sitemap_etl.stages.run import Run
from sitemap_etl.state.checked import read_checked
from sitemap_etl.state.records import ChangeKind, Checked, Entry, Rendered


@dataclass
class Moves:
    """The rows that moved between sections in this run."""

    moved: pa.Table
    into: Counter[str] = field(default_factory=Counter)
    out_of: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    placed: dict[tuple[str, int, int], str] = field(default_factory=dict)

    def net(self, section: str) -> int:
        """Return the rows that the section won minus the rows that it lost."""
        return self.into[section] - self.out_of[section]

    def moves_to(self, old_keys: dict[tuple[str, int], str]) -> dict[str, frozenset[str]]:
        """Return the keys of files that list URLs of each published file now. `old_keys`: (section, number) → published
        key.
        """
        edges: dict[str, set[str]] = defaultdict(set)
        columns = ["was_section", "was_number", "section", "group", "shard"]
        pairs = self.moved.select(columns).group_by(columns).aggregate([])
        for row in pairs.to_pylist():  # one a pair of files
            giver = old_keys[(row["was_section"], row["was_number"])]
            edges[giver].add(self.placed[(row["section"], row["group"], row["shard"])])
        return {key: frozenset(receivers) for key, receivers in edges.items()}


_MOVED = pa.schema(
    [
        ("loc", pa.string()),
        ("lastmod", pa.string()),
        ("was_section", pa.string()),
        ("was_number", pa.int64()),
        ("section", pa.string()),
        ("group", pa.int64()),
        ("shard", pa.int64()),
        ("changed", pa.bool_()),
    ]
)


TAKEN: Final = pa.schema([*window.TAKEN, ("reason", pa.string())])


def taken_pages(run: Run, rendered: Sequence[Rendered]) -> pa.Table:
    """Return the pages of sections that were not read which an earlier section lists now: TAKEN, ordered by loc."""
    tables = [TAKEN.empty_table()]
    for receipt in rendered:
        stored = None if receipt.taken is None else read_checked(run.staging, receipt.taken)
        if receipt.taken is not None and stored is None:
            raise _missing(run, receipt.taken)
        if stored is not None:
            rows = pq.read_table(pa.BufferReader(stored))
            reason = pa.repeat(f"{LISTED_ALREADY}section {receipt.section}", rows.num_rows)
            tables.append(rows.append_column("reason", reason))
    taken = pa.concat_tables(tables).combine_chunks()
    return taken.take(pc.sort_indices(taken.column("loc")))


def net_moves(run: Run, rendered: Sequence[Rendered], dropped: Sequence[Entry], taken: pa.Table) -> Moves:
    """Find the rows that one section lost and another won. Views take no part.

    A section that became a view gives its pages to the sections that list them now. It loses only pages that it no
    longer shows. `taken`: as `taken_pages`.
    """
    became = {name for name in turned(run) if run.site.sections[name].view}
    receipts = [receipt for receipt in rendered if not run.site.sections[receipt.section].view]
    moves = Moves(_MOVED.empty_table())
    gone = list(rows_of(run, dropped))
    unlisted = [*gone, *_removed(run, [receipt for receipt in rendered if receipt.section in became])]
    for table in unlisted:
        moves.dropped[table.column("section")[0].as_py()] += table.num_rows
    were = [] if run.base is None else [entry for entry in run.base.entries if entry.section in became]
    lost = [*_removed(run, receipts), *gone, *rows_of(run, were), taken]
    lost = [table for table in lost if table.num_rows]
    if not lost:
        return moves
    hashes = np.sort(np.concatenate([hash64(table.column("loc")) for table in lost]))
    won = [table for table in _won(run, receipts, hashes) if table.num_rows]
    if not won:
        return moves
    arrived = pa.concat_tables(won)
    left = pa.concat_tables([table.select(["loc", "section", "shard"]) for table in lost]).rename_columns(
        ["loc", "was_section", "was_number"]
    )
    moves.moved = arrived.join(left, "loc", join_type="inner").select(_MOVED.names).sort_by("loc").cast(_MOVED)
    for name, count in _counts(moves.moved, "section").items():
        moves.into[name] = count
    for name, count in _counts(moves.moved, "was_section").items():
        if name not in became:
            moves.out_of[name] = count
    for table in unlisted:
        listed = pc.sum(pc.is_in(table.column("loc"), column_of(moves.moved, "loc"))).as_py()
        moves.dropped[table.column("section")[0].as_py()] -= listed
    moves.changed.update(_counts(moves.moved.filter(moves.moved.column("changed")), "section"))
    return moves


def read_changes(run: Run, receipt: Rendered) -> Iterator[pa.Table]:
    """Yield a group's staged changes, one window at a time."""
    if receipt.changes is None:
        return
    stored = read_checked(run.staging, receipt.changes)
    if stored is None:
        raise _missing(run, receipt.changes)
    with pq.ParquetFile(pa.BufferReader(stored)) as file:
        for at in range(file.num_row_groups):
            yield file.read_row_group(at)


def _missing(run: Run, staged: Checked) -> Refused:
    where = run.staging.url_of(staged.key)
    return Refused(f"{where} is missing: the staging of run {run.run_id} was removed. Run again")


def net_changes(run: Run, rendered: Sequence[Rendered], dropped: Sequence[Entry], moves: Moves) -> Iterator[pa.Table]:
    """Yield the run's changes with moves netted out, as CHANGES: a moved row is changed, or nothing.

    `dropped`: shards of sections that the site file no longer has; their rows are removed.
    """
    moved, anew = column_of(moves.moved, "loc"), turned(run)
    for table in rows_of(run, dropped):
        gone = table.filter(pc.invert(pc.is_in(table.column("loc"), moved)))
        kind = pa.repeat(pa.scalar("removed"), gone.num_rows)
        yield conform(gone.append_column("kind", kind), CHANGES)
    for receipt in rendered:
        view, became_or_ceased = run.site.sections[receipt.section].view, receipt.section in anew
        for table in read_changes(run, receipt) if became_or_ceased or not view else ():
            changes = table
            if became_or_ceased:  # a section has lost the pages that it no longer shows; a view had nothing to lose
                removed = pc.equal(changes.column("kind"), "removed")
                changes = changes.filter(removed if view else pc.invert(removed))
            if len(moved):
                known = pc.is_in(changes.column("loc"), moved)
                crossing = pc.and_(known, pc.not_equal(changes.column("kind"), "changed"))
                changes = changes.filter(pc.invert(crossing))
            yield conform(changes, CHANGES)
    arrived = moves.moved.filter(moves.moved.column("changed"))
    yield conform(arrived.append_column("kind", pa.repeat(pa.scalar("changed"), arrived.num_rows)), CHANGES)


def is_view(run: Run, section: str) -> bool:
    """Return True if the section is a view in the new release. A section that is not rendered stays as it was."""
    published = run.base.sections.get(section) if run.base is not None else None
    if published is None or section in run.partition().sections:
        return run.site.sections[section].view
    return published.view


def turned(run: Run) -> set[str]:
    """Return the sections that become views or cease to be views. Their earlier pages are not compared."""
    base = run.base.sections if run.base is not None else {}
    return {name for name, state in base.items() if name in run.site.sections and is_view(run, name) != state.view}


def _removed(run: Run, receipts: Sequence[Rendered]) -> Iterator[pa.Table]:
    """Yield the rows that left their section, with loc, lastmod, section and shard."""
    for receipt in receipts:
        for table in read_changes(run, receipt) if receipt.counts.removed else ():
            found = table.filter(pc.equal(table.column("kind"), "removed"))
            if found.num_rows:
                yield found


def rows_of(run: Run, entries: Sequence[Entry]) -> Iterator[pa.Table]:
    """Yield the rows of published shards, with loc, lastmod, section and shard."""
    for entry in entries:
        rows = run.state.snapshot(entry.snapshot, ["loc", "lastmod"])
        count = rows.num_rows
        yield rows.append_column("section", pa.repeat(pa.scalar(entry.section), count)).append_column(
            "shard", pa.repeat(pa.scalar(entry.number, pa.int64()), count)
        )


def _won(run: Run, receipts: Sequence[Rendered], lost: np.ndarray) -> Iterator[pa.Table]:
    """Yield the added rows whose hash is among the lost ones (ascending)."""
    for receipt in receipts:
        for table in read_changes(run, receipt) if receipt.counts.added else ():
            added = table.filter(pc.equal(table.column("kind"), "added"))
            hashes = hash64(added.column("loc"))
            at = np.minimum(np.searchsorted(lost, hashes), len(lost) - 1)
            found = added.filter(pa.array(lost[at] == hashes))
            yield (
                found.select(["loc", "lastmod", "section", "shard", "changed"]).append_column(
                    "group", pa.repeat(pa.scalar(receipt.group, pa.int64()), found.num_rows)
                )
            )


def _counts(table: pa.Table, column: str) -> dict[str, int]:
    counted = table.group_by(column).aggregate([([], "count_all")])
    return dict(zip(counted.column(column).to_pylist(), counted.column("count_all").to_pylist(), strict=True))


def dropped_entries(run: Run) -> list[Entry]:
    """Return the published shards of sections that the site file no longer has, without views."""
    if run.base is None:
        return []
    gone = {name for name, state in run.base.sections.items() if name not in run.site.sections and not state.view}
    return [entry for entry in run.base.entries if entry.section in gone]


# --- where most of the changes lie -------------------------------------------------------------------


def most_of(run: Run, moves: Moves, kind: ChangeKind, section: str | None) -> tuple[str, int, str] | None:
    """Return the path prefix (two segments) that most changed rows of a kind share: (prefix, rows, an example)."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for loc in locs_of(run, moves, kind, section):
        prefix = pc.struct_field(pc.extract_regex(loc, r"^https?://[^/]+(?P<p>/[^/?]*/[^/?]*/|/[^/?]*/|/)"), "p")
        counted = (
            pa.table({"prefix": prefix, "loc": loc}).group_by("prefix").aggregate([("loc", "min"), ([], "count_all")])
        )
        for row in counted.to_pylist():  # one a prefix
            counts[row["prefix"]] += row["count_all"]
            examples.setdefault(row["prefix"], row["loc_min"])
    if not counts:
        return None
    prefix, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    return prefix, count, examples[prefix]


def locs_of(run: Run, moves: Moves, kind: ChangeKind, section: str | None) -> Iterator[pa.Array]:
    """Yield the pages that were added, removed or changed, in one section or in all. Pages that only moved are left
    out.
    """
    moved = column_of(moves.moved, "loc")
    tables = [rows_of(run, [entry]) for entry in dropped_entries(run)] if section is None and kind == "removed" else []
    for table in itertools.chain(_changes_of(run, kind, section), *tables):
        locs = column_of(table, "loc")
        yield locs.filter(pc.invert(pc.is_in(locs, moved)))


def _changes_of(run: Run, kind: ChangeKind, section: str | None) -> Iterator[pa.Table]:
    for receipt in run.all_rendered():
        for table in read_changes(run, receipt) if section is None or receipt.section == section else ():
            yield table.filter(pc.equal(table.column("kind"), kind))
