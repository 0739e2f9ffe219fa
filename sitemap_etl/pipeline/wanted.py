"""The set as it should be: its entries in their indexes, and those of its files that must be written."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sitemap_etl import limits
from sitemap_etl.errors import Refused
from sitemap_etl.manifest import Entry, File, Index
from sitemap_etl.pipeline.objects import Object
from sitemap_etl.pipeline.proposal import Draft, file_of
from sitemap_etl.pipeline.rerender import Kind, rerender
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.standing import Standing
from sitemap_etl.render import compress
from sitemap_etl.render import index as index_document

RESERVED: Final = 10
"""Places of each index that shards leave free, for the files of recent changes."""


@dataclass
class Wanted:
    """The set, and what must be written of it: `files` (sitemaps and texts), `indexes`, `extras` by key."""

    entries: list[Entry]
    indexes: list[Index]
    extras: list[File]
    files: dict[str, Object]
    index_objects: dict[str, Object]
    extra_objects: list[Object]

    def objects(self) -> list[Object]:
        return [*self.files.values(), *self.index_objects.values(), *self.extra_objects]

    def keys(self) -> set[str]:
        """Every key of the set."""
        shards = {entry.file.key for entry in self.entries} | {e.text.key for e in self.entries if e.text is not None}
        return shards | {index.file.key for index in self.indexes} | {file.key for file in self.extras}


def wanted_set(run: Run, drafts: Sequence[Draft], extras: Sequence[Object], standing: Standing) -> Wanted:
    """Compare the drafts, their indexes and the extras with what stands; what is there as it should be is left."""
    wanted = Wanted(in_slots([draft.entry for draft in drafts]), [], [], {}, {}, [])
    _add_files(run, drafts, standing, wanted)
    at = run.site.publish.at
    made = []
    for number in sorted({entry.index for entry in wanted.entries}):
        entries = [(at + e.file.key, e.file.lastmod) for e in wanted.entries if e.index == number]
        made.append((number, index_object(run.site.publish.names.index_name(number), entries, run.plan.now)))
    there = standing.unchanged([*(item.file for _, item in made), *(item.file for item in extras)])
    for number, item in made:
        wanted.indexes.append(Index(number, _settled(item, there, standing)))
        if item.file.key not in there:
            wanted.index_objects[item.file.key] = item
    for item in extras:
        wanted.extras.append(_settled(item, there, standing))
        if item.file.key not in there:
            wanted.extra_objects.append(item)
    return wanted


def in_slots(entries: Sequence[Entry]) -> list[Entry]:
    """The entries, each with an index: the one it has had, or the first with room. The first index is never empty."""
    taken = Counter(entry.index for entry in entries)
    del taken[0]
    slot = 1
    placed = []
    for entry in entries:
        if not entry.index:
            while taken[slot] >= limits.INDEX_FILES - RESERVED:
                slot += 1
            taken[slot] += 1
            entry = replace(entry, index=slot)  # noqa: PLW2901 - the same entry, now with a place
        placed.append(entry)
    used = {entry.index for entry in placed}
    if used and 1 not in used:  # its address is the one that people and engines know
        placed = [replace(entry, index=1) if entry.index == max(used) else entry for entry in placed]
    return placed


def index_object(key: str, entries: Sequence[tuple[str, str | None]], now: str) -> Object:
    """An index of these addresses and lastmods."""
    data = index_document.document(entries)
    stored = compress.gzip([data]) if key.endswith(".gz") else data
    return Object(File(key, len(data), _sha256(data), len(stored), _sha256(stored), None, now), lambda: stored)


def _settled(item: Object, there: Mapping[str, File], standing: Standing) -> File:
    """The record of a file of the set: as it stands, or as it will be written."""
    item.file = standing.dated(item.file)
    found = there.get(item.file.key)
    return item.file if found is None else standing.dated(found)


def _add_files(run: Run, drafts: Sequence[Draft], standing: Standing, wanted: Wanted) -> None:
    names = run.site.publish.names
    candidates: list[tuple[int, Kind, File, Mapping[str, Any] | None, str]] = []
    for at, (draft, entry) in enumerate(zip(drafts, wanted.entries, strict=True)):
        own = names.file_name(entry.section, entry.number)
        candidates.append((at, "file", entry.file, draft.staged, own))
        if entry.text is not None:
            own = names.text_name(entry.section, entry.number)
            candidates.append((at, "text", entry.text, draft.staged_text, own))
    there = standing.unchanged(file for _, _, file, staged, own in candidates if file.key == own or staged is not None)
    for at, kind, file, staged, own in candidates:
        found = there.get(file.key)
        if found is None:
            item = _staged(run, file, staged) if staged is not None else rerender(run, wanted.entries[at], kind, own)
            wanted.files[item.file.key] = item
            found = item.file
        entry = wanted.entries[at]
        wanted.entries[at] = replace(entry, file=found) if kind == "file" else replace(entry, text=found)


def _staged(run: Run, file: File, staged: Mapping[str, Any]) -> Object:
    def data() -> bytes:
        stored = run.staging.get(staged["staged"])
        if stored is None:
            where = run.staging.url_of(staged["staged"])
            raise Refused(f"{where} is missing: the staging of run {run.run_id} was removed. Run again")
        return stored.data

    return Object(file_of(file.key, staged, file.lastmod), data)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
