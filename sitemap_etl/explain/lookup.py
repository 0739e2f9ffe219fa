"""Find the entries of a URL in a release, and their history. Each section needs the rows of one shard at most."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of
from sitemap_etl.dates import instant
from sitemap_etl.diff import places
from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.explain.answers import Dropped, NamedRun, Since
from sitemap_etl.frozen import Frozen
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.records import Entry, Manifest, StagedShard
from sitemap_etl.state.store import State

COLUMNS: Final = (
    "loc",
    "lastmod",
    "changefreq",
    "priority",
    "images",
    "alternates",
    "cluster",
    "hreflang",
    "since",
)
_HELD: Final = 16
"""Number of snapshots in memory, each with the rows of one file. URLs of one request are often in the same file."""
_FOLDERS: Final = 20
"""Maximum number of folders in which a page is looked for."""


class Shelf:
    """Reads snapshots, and keeps the last few."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._held: OrderedDict[str, pa.Table] = OrderedDict()

    def rows(self, snapshot: str) -> pa.Table:
        """Return the rows of a snapshot, ordered by loc, with the columns of `COLUMNS`."""
        if snapshot not in self._held:
            self._held[snapshot] = self.state.snapshot(snapshot, COLUMNS).combine_chunks()
            if len(self._held) > _HELD:
                self._held.popitem(last=False)
        self._held.move_to_end(snapshot)
        return self._held[snapshot]

    def row(self, snapshot: str, loc: str) -> dict[str, Any] | None:
        """Return the row of a loc, or None."""
        rows = self.rows(snapshot)
        at = int(places(pa.array([loc], pa.string()), column_of(rows, "loc"))[0])
        return None if at < 0 else dict(rows.slice(at, 1).to_pylist()[0])


class Found(Frozen):
    """One listing of a loc. `entry`: None if the file has no number yet, because the run was not published."""

    section: str
    view: bool
    row: dict[str, Any]
    entry: Entry | None


class PublishedSet:
    """A manifest, asked for single locs."""

    def __init__(self, manifest: Manifest, shelf: Shelf) -> None:
        self.manifest = manifest
        self.shelf = shelf
        self._entries: dict[str, list[Entry]] = {}
        for entry in manifest.entries:
            if entry.snapshot and entry.section in manifest.sections:
                self._entries.setdefault(entry.section, []).append(entry)
        for entries in self._entries.values():
            entries.sort(key=_first)

    def find(self, loc: str) -> list[Found]:
        """Return every listing of the loc, views last."""
        found = []
        for section, entries in self._entries.items():
            at = bisect_right(entries, loc, key=_first) - 1
            if at >= 0 and loc <= entries[at].last:
                row = self.shelf.row(entries[at].snapshot, loc)
                if row is not None:
                    found.append(Found(section, self.manifest.sections[section].view, row, entries[at]))
        return sorted(found, key=lambda one: one.view)

    def around(self, locs: Sequence[str]) -> Iterator[pa.Array]:
        """Yield the locs of the shards to which these URLs would belong, and of their neighbors, without views."""
        for section, entries in self._entries.items():
            if self.manifest.sections[section].view:
                continue
            wanted: set[int] = set()
            for loc in locs:
                at = bisect_right(entries, loc, key=_first) - 1
                wanted |= {at - 1, at, at + 1}
            for at in sorted(wanted):
                if 0 <= at < len(entries):
                    yield column_of(self.shelf.rows(entries[at].snapshot), "loc")

    def folders(self, loc: str) -> list[str]:
        """Return the folders of paths in the shards to which the loc would belong, the most frequent ones first."""
        counts: Counter[str] = Counter()
        for locs in self.around([loc]):
            for found in pc.value_counts(pc.replace_substring_regex(locs, "[^/]*$", "")).to_pylist():
                counts[found["values"]] += found["counts"]
        return [folder for folder, _ in counts.most_common(_FOLDERS)]


class ProposedSet:
    """Rows that an unpublished run would list, from its staged files."""

    def __init__(self, run: Run, published: PublishedSet | None, shelf: Shelf) -> None:
        self.run = run
        self.published = published
        self.shelf = shelf
        self.planned = run.partition()

    def find(self, loc: str) -> list[Found]:
        """Return every listing of the loc, views last. Raise Refused if the staged files are gone."""
        found = []
        for section in self.run.site.sections:
            if section in self.planned.sections:
                row = self._row(section, loc)
                if row is not None:
                    found.append(Found(section, self.run.site.sections[section].view, row, None))
        if self.published is not None:  # sections that were not read stay as they are
            stay = set(self.run.site.sections) - set(self.planned.sections)
            found += [one for one in self.published.find(loc) if one.section in stay]
        return sorted(found, key=lambda one: one.view)

    def _row(self, section: str, loc: str) -> dict[str, Any] | None:
        plan = self.planned.sections[section]
        window = max(0, bisect_right(plan.windows, loc, key=_low) - 1)
        for group, (first, past) in enumerate(plan.groups):
            if first <= window < past:
                shards = self.run.rendered(self.planned.units.index((section, group))).shards
                at = bisect_right(shards, loc, key=_first_of) - 1
                if at >= 0 and loc <= shards[at].last:
                    return self.shelf.row(shards[at].snapshot, loc)
        return None


def proposed_set(open_it: Callable[[], Run], published: PublishedSet | None, shelf: Shelf) -> ProposedSet | None:
    """Return the release that a run would publish, or None if its staged files were removed or are damaged."""
    try:
        return ProposedSet(open_it(), published, shelf)
    except (Refused, DamagedState):
        return None


def _first(entry: Entry) -> str:
    return entry.first


def _first_of(shard: StagedShard) -> str:
    return shard.first


def _low(window: tuple[str, str | None]) -> str:
    return window[0]


class Provenance:
    """The manifests of a state, from one manifest back. Each is read once, and only if needed."""

    def __init__(self, state: State, manifest: Manifest, shelf: Shelf) -> None:
        self.state = state
        self.shelf = shelf
        self._chain = [manifest]
        self._sets: dict[str, PublishedSet] = {}

    def since(self, found: Found) -> Since:
        """Return since when the row has its present values."""
        if found.row["since"] is None:
            return self._first_publish(found.section)
        moment = instant(datetime.fromtimestamp(found.row["since"], UTC))
        for manifest in self._back():
            if manifest.now < moment:
                break
            if manifest.now == moment:
                return Since(moment, manifest.run_id, self._how(manifest, found))
        return Since(moment, None, "added or changed")

    def last_listed(self, loc: str) -> tuple[NamedRun, str] | None:
        """Return the newest earlier release that lists the loc, and the section. None if no kept release does."""
        for manifest in self._back():
            if manifest is self._chain[0]:
                continue
            try:
                found = self._set(manifest).find(loc)
            except DamagedState:
                return None  # its snapshots are no longer kept
            if found:
                return NamedRun(manifest.run_id, manifest.now), found[0].section
        return None

    def dropped(self, section: str) -> Dropped | None:
        """Return the run since which the site file lacks the section, or None if the release has it."""
        first: Manifest | None = None
        for manifest in self._back():
            back_to = manifest.rolled_back_to
            restored = None if back_to is None else self.state.kept_manifest(layout.manifest(back_to))
            made = restored or manifest  # a rollback keeps the sections that came later, without their pages
            if section in made.sections:
                break
            first = made
        return None if first is None else Dropped(section, NamedRun(first.run_id, first.now))

    def _set(self, manifest: Manifest) -> PublishedSet:
        if manifest.run_id not in self._sets:
            self._sets[manifest.run_id] = PublishedSet(manifest, self.shelf)
        return self._sets[manifest.run_id]

    def _first_publish(self, section: str) -> Since:
        oldest = self._chain[0]
        for manifest in self._back():
            if section not in manifest.sections:
                break
            oldest = manifest
        else:
            if oldest.base is not None:  # earlier manifests are no longer kept
                return Since(None, None, "first publish", before=oldest.now)
        return Since(oldest.now, oldest.run_id, "first publish")

    def _how(self, manifest: Manifest, found: Found) -> str:
        if manifest.base is None:
            return "added"
        base = self.state.kept_manifest(manifest.base)
        if base is None:
            return "added or changed"
        try:
            return "changed" if self._set(base).find(found.row["loc"]) else "added"
        except DamagedState:
            return "added or changed"  # its snapshots are no longer kept

    def _back(self) -> Iterator[Manifest]:
        at = 0
        while True:
            yield self._chain[at]
            at += 1
            if at == len(self._chain):
                base = self._chain[-1].base
                older = None if base is None else self.state.kept_manifest(base)
                if older is None:
                    return  # removed: only the last releases are kept
                self._chain.append(older)
