"""Build the desired release: its entries, its manifest, and the objects to write."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.errors import Refused
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.actual import Actual, Object, carried_by
from sitemap_etl.publish.drafts import Draft, file_of
from sitemap_etl.render import compress, text, urlset
from sitemap_etl.render import index as index_document
from sitemap_etl.stages.render import put_staged
from sitemap_etl.stages.run import Run
from sitemap_etl.state.checked import spoiled
from sitemap_etl.state.records import (
    Counts,
    Entry,
    File,
    Former,
    Gate,
    Index,
    MadeFrom,
    Manifest,
    Mirror,
    Retired,
    SectionState,
    SetSize,
    StagedFile,
)
from sitemap_etl.state.store import GRACE
from sitemap_etl.storage import ABSENT

Kind: TypeAlias = Literal["file", "text"]

FORMER_DIGITS: Final = 16
"""Digits of a hash by which bytes are known again that a key had before."""
RESERVED: Final = 10
"""Places that shards leave free in each index. In the first one they are for files of recent changes."""


@dataclass
class Desired:
    """The desired release, and its objects that have to be written."""

    entries: list[Entry]
    indexes: list[Index]
    extras: list[File]  # feeds
    files: dict[str, Object]  # key → sitemap or text sitemap to write
    index_objects: dict[str, Object]  # key → index to write
    extra_objects: list[Object]  # feeds to write

    def objects(self) -> list[Object]:
        return [*self.files.values(), *self.index_objects.values(), *self.extra_objects]

    def keys(self) -> set[str]:
        """Return all keys of the release."""
        shards = {entry.file.key for entry in self.entries} | {e.text.key for e in self.entries if e.text is not None}
        return shards | {index.file.key for index in self.indexes} | {file.key for file in self.extras}


def desired_set(run: Run, drafts: Sequence[Draft], extras: Sequence[Object], actual: Actual) -> Desired:
    """Compare the drafts, their indexes and the extras with what is there; what is as it should be is left."""
    desired = Desired(in_slots([draft.entry for draft in drafts]), [], [], {}, {}, [])
    _add_files(run, drafts, actual, desired)
    desired.entries = [_dated_until(run.plan.now, entry) for entry in desired.entries]
    made = [(number, _index(run, desired, number)) for number in sorted({entry.index for entry in desired.entries})]
    there = actual.unchanged([*(item.file for _, item in made), *(item.file for item in extras)])
    for number, item in made:
        desired.indexes.append(Index(number, _record_of(item, there, actual)))
        if item.file.key not in there:
            desired.index_objects[item.file.key] = item
    for item in extras:
        desired.extras.append(_record_of(item, there, actual))
        if item.file.key not in there:
            desired.extra_objects.append(item)
    return desired


def _dated_until(now: str, entry: Entry) -> Entry:
    """Return the entry without a file date after the run. A fast clock can have written it."""
    if entry.file.lastmod <= now:
        return entry
    return replace(entry, file=replace(entry.file, lastmod=now))


def _index(run: Run, desired: Desired, number: int) -> Object:
    """Return an index of the release, as it should be."""
    at = run.site.publish.at
    entries = [(at + e.file.key, e.file.lastmod) for e in desired.entries if e.index == number]
    return index_object(run.site.publish.names.index_name(number), entries, run.plan.now)


def in_slots(entries: Sequence[Entry]) -> list[Entry]:
    """Return the entries, each with an index: its earlier one, or one with room. The first index is never empty."""
    taken = Counter(entry.index for entry in entries)
    del taken[0]
    slot = 1
    placed = []
    for entry in entries:
        if not entry.index:
            while taken[slot] >= limits.INDEX_FILES - RESERVED:
                slot += 1
            taken[slot] += 1
            entry = replace(entry, index=slot)  # noqa: PLW2901 - the same entry, now with an index
        placed.append(entry)
    used = {entry.index for entry in placed}
    if used and 1 not in used:  # people and engines use the address of the first index
        placed = [replace(entry, index=1) if entry.index == max(used) else entry for entry in placed]
    return placed


def index_object(key: str, entries: Sequence[tuple[str, str | None]], now: str) -> Object:
    """Return an index of these addresses and lastmods."""
    data = index_document.document(entries)
    return plain_object(key, data, compress.gzip([data]) if key.endswith(".gz") else data, now)


def plain_object(key: str, content: bytes, stored: bytes, now: str) -> Object:
    """Return a new object. `stored`: the content as stored."""
    file = File(key, len(content), _sha256(content), len(stored), _sha256(stored), None, now)
    return Object(file, lambda: stored, ABSENT)


def _record_of(item: Object, there: Mapping[str, File], actual: Actual) -> File:
    """Return the record of a file of the release: as it is there, or as it will be written."""
    item.file = actual.dated(item.file)
    found = there.get(item.file.key)
    return item.file if found is None else actual.dated(found)


def _add_files(run: Run, drafts: Sequence[Draft], actual: Actual, desired: Desired) -> None:
    names = run.site.publish.names
    candidates: list[tuple[int, Kind, File, StagedFile | None, str]] = []
    for at, (draft, entry) in enumerate(zip(drafts, desired.entries, strict=True)):
        own = names.file_name(entry.section, entry.number)
        candidates.append((at, "file", entry.file, draft.staged, own))
        if entry.text is not None:
            own = names.text_name(entry.section, entry.number)
            candidates.append((at, "text", entry.text, draft.staged_text, own))
    there = actual.unchanged(file for _, _, file, staged, own in candidates if file.key == own or staged is not None)
    for at, kind, file, staged, own in candidates:
        found = there.get(file.key)
        if found is None:
            item = _staged(run, file, staged) if staged is not None else rerender(run, desired.entries[at], kind, own)
            # The new name of a file can already have the same bytes.
            found = actual.unchanged([item.file]).get(item.file.key) if staged is None else None
            if found is None:
                desired.files[item.file.key] = item
                found = item.file
        entry = desired.entries[at]
        desired.entries[at] = replace(entry, file=found) if kind == "file" else replace(entry, text=found)


def _staged(run: Run, file: File, staged: StagedFile) -> Object:
    return Object(file_of(file.key, staged, file.lastmod), lambda: _read_staged(run, staged))


def _read_staged(run: Run, staged: StagedFile) -> bytes:
    """Return the bytes of a staged file. Raise Refused if they are gone, DamagedState if they are others."""
    stored = run.staging.get(staged.staged)
    where = run.staging.url_of(staged.staged)
    if stored is None:
        raise Refused(f"{where} is missing: the staging of run {run.run_id} was removed. Run again")
    if stored.sha256 != staged.stored_sha256:
        raise spoiled(where)
    return stored.data


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Target(Frozen):
    """The release to publish."""

    drafts: Sequence[Draft]
    sections: Mapping[str, SectionState]
    counts: Mapping[str, Counts]
    gates: Sequence[Gate]
    moves_to: Mapping[str, frozenset[str]]
    changes: pa.Buffer  # frames.CHANGES, packed
    generations: Mapping[str, Mirror] = field(default_factory=dict)  # mirrors that this run made, to be kept
    mirrors: Mapping[str, str | None] = field(default_factory=dict)  # section → key of its mirror now; None: none
    versions: Mapping[str, str | None] = field(default_factory=dict)  # section → hash of its inputs, likewise
    made_from: Mapping[str, MadeFrom | None] = field(default_factory=dict)  # section → its inputs, likewise
    week: Sequence[SetSize] = ()  # sizes of the releases of the last seven days
    quiet_because: str | None = None
    extras: Sequence[Object] = ()
    forced: tuple[str, ...] = ()
    reason: str | None = None
    rolled_back_to: str | None = None


def made_manifest(
    run: Run, target: Target, desired: Desired, retired: Sequence[Retired], numbers: Mapping[str, int]
) -> Manifest:
    """Return the manifest of this publish; the ETags of what is yet to be written are not in it.

    `numbers`: section → number that no file has been given yet, whatever became of the publish that gave the last.
    """
    base = run.base
    # A drop that a person let through, or went back to, is not a slow loss: the seven days are counted from there.
    restarts = target.rolled_back_to is not None or any(gate.endswith("max_drop") for gate in target.forced)
    history = () if restarts else target.week
    sections = {name: state.listed for name, state in target.sections.items()}
    gone = dict(numbers)
    if base is not None:
        for name, number in [*base.numbers.items(), *((name, s.next_number) for name, s in base.sections.items())]:
            gone[name] = max(number, gone.get(name, 1))
    plain = {name for name, state in target.sections.items() if not state.view}
    manifest = Manifest(
        name=run.site.name,
        site=run.site.site,
        run_id=run.run_id,
        now=run.plan.now,
        to=run.site.publish.to,
        carry=carried_by(run.site.publish),
        base=run.plan.base,
        sections={name: _numbered(state, numbers.get(name, 1)) for name, state in target.sections.items()},
        numbers={name: number for name, number in gone.items() if name not in plain},
        entries=tuple(desired.entries),
        indexes=tuple(desired.indexes),
        extras=tuple(desired.extras),
        retired=tuple(retired),
        counts=target.counts,
        gates=tuple(target.gates),
        forced=target.forced,
        reason=target.reason,
        rolled_back_to=target.rolled_back_to,
        distinct=True,
    )
    return replace(manifest, history=(*history, SetSize(run.plan.now, manifest.listed, sections)))


def _numbered(state: SectionState, number: int) -> SectionState:
    """Return the section with at least this next number. Files of a view have the same names in each run."""
    return state if state.view else replace(state, next_number=max(state.next_number, number))


def with_written(manifest: Manifest, written: Mapping[str, File]) -> Manifest:
    """Return the manifest with the records of the files after their writes, by key."""

    def fresh(file: File) -> File:
        return written.get(file.key, file)

    return replace(
        manifest,
        entries=tuple(replace(e, file=fresh(e.file), text=fresh(e.text) if e.text else None) for e in manifest.entries),
        indexes=tuple(replace(index, file=fresh(index.file)) for index in manifest.indexes),
        extras=tuple(fresh(extra) for extra in manifest.extras),
    )


def with_former(manifest: Manifest, base: Manifest | None, at: int) -> Manifest:
    """Return the manifest, with the current and recent bytes of keys. `at`: now, by the clock of `work`."""
    if base is None:
        return manifest
    now = {file.key: file.stored_sha256 for file in manifest.files()}
    left = [
        Former(file.key, file.stored_sha256[:FORMER_DIGITS], at)
        for file in base.files()
        if now.get(file.key) != file.stored_sha256
    ]
    lately = [former for former in base.former if at - former.at < GRACE.total_seconds()]
    return replace(manifest, former=(*lately, *left))


def without_deleted(manifest: Manifest, deleted: Sequence[Retired], at: int) -> Manifest:
    """Return the manifest after these files were deleted, which it remembers."""
    gone = {item.key for item in deleted}
    return replace(
        manifest,
        retired=tuple(item for item in manifest.retired if item.key not in gone),
        former=(*manifest.former, *(Former(key, "", at) for key in sorted(gone))),
    )


def state_differs(run: Run, manifest: Manifest) -> bool:
    """Return True if the state would change although no file does: new snapshots, a new rule, a rollback, a new
    address, or a file that appeared without a run.
    """
    if run.base is None or manifest.rolled_back_to is not None:
        return True

    def essence(of: Manifest) -> object:
        sections = {name: replace(state, mirror=None, dated=True) for name, state in of.sections.items()}
        entries = [(entry.section, entry.number, entry.low, entry.snapshot) for entry in of.entries]
        retired = {(item.key, item.etag) for item in of.retired}
        return of.to, sections, entries, {file.key: file.etag for file in of.files()}, retired

    return essence(run.base) != essence(manifest)


def retired_files(
    run: Run, desired: Desired, actual: Actual, unmanaged: Mapping[str, str | None]
) -> tuple[list[Retired], list[Retired]]:
    """Return the files whose deletion waits, and those whose grace is over by the clock of `work`: indexes first.

    What an interrupted publish left is retired now, but not an object that was there before it (`unmanaged`: key →
    ETag). Where `publish.to` is another place than it was, objects in the old one are not deleted.
    """
    base = run.base if not actual.relocated else None
    now = int(run.work.now().timestamp())
    kept, touched = desired.keys(), actual.touched
    left = {key: file.etag for key, file in actual.files.items() if key not in touched}
    left |= {
        key: actual.there[key].etag
        for key in touched
        if key in actual.there and unmanaged.get(key, "") != actual.there[key].etag
    }
    waiting = [
        item
        for item in (base.retired if base is not None else ())
        if item.key not in kept and (item.key not in touched or left.get(item.key, "") == item.etag)
    ]
    known = {item.key for item in waiting}
    indexes = {index.file.key for index in base.indexes} if base is not None else set()
    waiting += [
        Retired(key, left[key], now)
        for key in sorted(left, key=lambda key: (key not in indexes, key))
        if key not in kept and key not in known
    ]
    limit = now - GRACE.total_seconds()
    return [item for item in waiting if item.at > limit], [item for item in waiting if item.at <= limit]


def rerender(run: Run, entry: Entry, kind: Kind, key: str) -> Object:
    """Return the sitemap (or text sitemap) of a published shard, staged again, to be stored under `key`.

    It keeps its lastmod if its bytes are unchanged. Raise Refused if the snapshot is gone.
    """
    rows = run.state.snapshot(entry.snapshot)
    if kind == "text":
        parts: Iterable[bytes | memoryview] = text.document(rows, 0, rows.num_rows)
    else:
        parts = urlset.document(urlset.entries(rows), urlset.namespaces(rows))
    staged = put_staged(run, f"again/{key}", parts, gzipped=key.endswith(".gz"))
    published = entry.file if kind == "file" else entry.text
    assert published is not None
    same = published.sha256 == staged.sha256
    return Object(file_of(key, staged, published.lastmod if same else run.plan.now), lambda: _read_staged(run, staged))
