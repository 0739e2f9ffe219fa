"""The publish stage: from a proposal to public files, in the order in which no URL is ever unlisted.

new files → index of old and new → changed files, receivers before givers → final index → robots.txt →
manifest. Before the first public write the publish is claimed: `current.json` names its intent. A
process that dies on any line leaves a valid set, and the next run knows from the intent which keys it
must look at again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.errors import Refused
from sitemap_etl.manifest import Entry, File, Index, Manifest, Retired, SectionState, manifest_key, receivers_first
from sitemap_etl.pipeline.acknowledged import Told, put_changes
from sitemap_etl.pipeline.objects import Object, content_type, in_threads, look, survey
from sitemap_etl.pipeline.proposal import WEEK, Draft, file_of
from sitemap_etl.pipeline.rerender import rerender
from sitemap_etl.pipeline.robots_file import RobotsWrite, robots_write
from sitemap_etl.pipeline.run import Run, instant
from sitemap_etl.pipeline.state import CURRENT, GRACE, Current, dumps
from sitemap_etl.render import index as index_document
from sitemap_etl.storage import PreconditionFailed, Stat, put_verified


@dataclass(frozen=True)
class Target:
    """The set to publish. `gives`: published key → keys that take over some of its URLs."""

    drafts: Sequence[Draft]
    sections: Mapping[str, SectionState]
    counts: Mapping[str, Mapping[str, int]]
    gates: Sequence[Mapping[str, Any]]
    gives: Mapping[str, frozenset[str]]
    changes: pa.Table  # frames.CHANGES
    quiet_because: str | None = None
    extras: Sequence[Object] = ()
    forced: tuple[str, ...] = ()
    reason: str | None = None
    rolled_back_to: str | None = None


@dataclass
class Outcome:
    """What a publish did."""

    status: str  # published, unchanged
    manifest: Manifest | None
    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)
    changed_indexes: list[str] = field(default_factory=list)
    retired_indexes: list[str] = field(default_factory=list)
    changed_feeds: list[str] = field(default_factory=list)


RESERVED: Final = 10
"""Places of each index that shards leave free, for the files of recent changes."""
FEEDS: Final = (".rss.xml", ".atom.xml")


def publish_target(run: Run, target: Target, *, adopt: bool = False) -> Outcome:
    """Publish the target. Raises Refused where another run was first or an object is foreign."""
    current = run.state.current()
    if current.manifest == manifest_key(run.run_id):
        manifest = run.state.manifest(current.manifest)
        return Outcome("published", manifest, warnings=["this run was published already; nothing was done"])
    if current.manifest != run.plan.base:
        raise Refused(
            f"Overtaken: this run started from {run.plan.base or 'an empty state'}, and {current.manifest} was published "
            "since. Nothing public was touched; run again"
        )
    return _Publication(run, target, current).publish(adopt=adopt)


class _Publication:
    """One publish under way."""

    def __init__(self, run: Run, target: Target, current: Current) -> None:
        self.run = run
        self.target = target
        self.current = current
        self.public = run.public()
        self.base = run.base
        self.old = {file.key: file for file in self.base.files()} if self.base else {}
        self.doubtful = self._doubtful_keys()
        self.etags: dict[str, str | None] = {}
        self.intent = f"state/intent-{run.run_id}.json"
        self.outcome = Outcome("published", None)

    def _doubtful_keys(self) -> set[str]:
        """Keys of publishes that were broken off: whatever the manifest says of them, the object decides."""
        if self.current.pending is None:
            return set()
        stored = self.run.work.get(self.current.pending)
        if stored is None:
            raise Refused(
                f"{self.run.work.url_of(self.current.pending)} is gone, though {CURRENT} names it. Restore it from a backup"
            )
        intent = json.loads(stored.data)
        return {*intent["writes"], *intent["doubtful"]}

    def publish(self, *, adopt: bool) -> Outcome:
        entries, objects = self._entries()
        settled = self._settle(entries, objects)
        entries = settled
        indexes, index_objects = self._indexes(entries)
        retired, due = self._retired(entries, indexes)
        robots = robots_write(self.run, [self._address(index.file.key) for index in indexes])
        extras = [item for item in self.target.extras if self._must_write(item)]
        writes = [*objects.values(), *index_objects, *extras]
        self.outcome.warnings += robots.warnings
        manifest = self._manifest(entries, indexes, retired)
        if not (writes or due or robots.data is not None or self.current.pending or self._state_differs(manifest)):
            self.run.state.swap(self.current, last_run=self._last_run("unchanged"))
            self.outcome.status = "unchanged"
            self.outcome.manifest = self.base
            self.outcome.unchanged = len(self.old)
            return self.outcome
        adopted = survey(self.public, writes, self._ours(), adopt=adopt)
        self._keep_adopted(adopted)
        self._claim(writes, due, robots)
        self._write_all(entries, objects, indexes, index_objects, extras)
        self._write_robots(robots)
        for item in due:
            self._hold()
            self.outcome.deleted += self._delete(item)
        self._commit(manifest)
        return self.outcome

    # --- what to write ---------------------------------------------------------------------------

    def _address(self, key: str) -> str:
        return self.run.site.publish.at + key

    def _entries(self) -> tuple[list[Entry], dict[str, Object]]:
        """The entries with their index slots, and the shards' files that must be written, by key."""
        slots: dict[int, int] = {}
        for draft in self.target.drafts:
            if draft.entry.index:
                slots[draft.entry.index] = slots.get(draft.entry.index, 0) + 1
        entries: list[Entry] = []
        objects: dict[str, Object] = {}
        open_slot = 1
        for draft in self.target.drafts:
            entry = draft.entry
            if not entry.index:
                while slots.get(open_slot, 0) >= limits.INDEX_FILES - RESERVED:
                    open_slot += 1
                slots[open_slot] = slots.get(open_slot, 0) + 1
                entry = replace(entry, index=open_slot)
            entries.append(entry)
            if draft.staged is not None:
                objects[entry.file.key] = self._staged(entry.file, draft.staged)
            if draft.staged_text is not None and entry.text is not None:
                objects[entry.text.key] = self._staged(entry.text, draft.staged_text)
        return entries, objects

    def _staged(self, file: File, staged: Mapping[str, Any]) -> Object:
        key = staged["staged"]

        def data() -> bytes:
            stored = self.run.staging.get(key)
            if stored is None:
                raise Refused(
                    f"{self.run.staging.url_of(key)} is missing: the staging of run {self.run.run_id} was removed"
                )
            return stored.data

        return Object(file, data)

    def _settle(self, entries: list[Entry], objects: dict[str, Object]) -> list[Entry]:
        """Files that should be there already but may not be: after a broken-off publish, or under a new name.

        What is there as it should be is left; the rest is rendered again from its snapshot.
        """
        names = self.run.site.publish.names
        moved_house = self.base is not None and self.base.to != self.run.site.publish.to
        suspects: list[tuple[int, str]] = []
        for at, entry in enumerate(entries):
            if entry.file.key not in objects and entry.snapshot:
                name = names.file_name(entry.section, entry.number)
                if name != entry.file.key or moved_house or entry.file.key in self.doubtful:
                    suspects.append((at, "file"))
            if (
                entry.text is not None
                and entry.text.key not in objects
                and (moved_house or entry.text.key in self.doubtful)
            ):
                suspects.append((at, "text"))
        if not suspects:
            return entries
        there = look(self.public, (getattr(entries[at], kind).key for at, kind in suspects))
        for at, kind in suspects:
            entry = entries[at]
            file: File = getattr(entry, kind)
            stat = there.get(file.key)
            name = names.file_name(entry.section, entry.number) if kind == "file" else file.key
            if stat is not None and name == file.key and self._is(stat, file):
                entries[at] = replace(entry, **{kind: replace(file, etag=stat.etag)})
                continue
            made = rerender(self.run, entry, kind, name)
            entries[at] = replace(entry, **{kind: replace(made.file, lastmod=file.lastmod)})
            objects[made.file.key] = Object(entries[at].file if kind == "file" else entries[at].text, made.data)  # type: ignore[arg-type]  # set in the line above
        return entries

    def _is(self, stat: Stat, file: File) -> bool:
        """Whether the object is the file as it was published, by its bytes."""
        if stat.size != file.stored:
            return False
        stored = self.public.get(stat.key)
        import hashlib

        return stored is not None and hashlib.sha256(stored.data).hexdigest() == file.stored_sha256

    def _must_write(self, item: Object) -> bool:
        old = self.old.get(item.file.key)
        return old is None or old.sha256 != item.file.sha256 or item.file.key in self.doubtful

    def _indexes(self, entries: Sequence[Entry]) -> tuple[list[Index], list[Object]]:
        """The indexes and those among them that must be written."""
        indexes: list[Index] = []
        objects: list[Object] = []
        for number in sorted({entry.index for entry in entries}):
            data = index_document.document(
                [(self._address(e.file.key), e.file.lastmod) for e in entries if e.index == number]
            )
            key = self.run.site.publish.names.index_name(number)
            made = _plain_file(key, data, self.run.plan.now)
            old = self.old.get(key)
            if old is not None and old.sha256 == made.sha256 and key not in self.doubtful and not self._new_house():
                indexes.append(Index(number, old))
                continue
            indexes.append(Index(number, made))
            objects.append(Object(made, _constant(_as_stored(key, data))))
        return indexes, objects

    def _new_house(self) -> bool:
        return self.base is not None and self.base.to != self.run.site.publish.to

    def _retired(self, entries: Sequence[Entry], indexes: Sequence[Index]) -> tuple[list[Retired], list[Retired]]:
        """Files of ours that no one lists any more: those that wait, and those whose grace is over."""
        listed = {entry.file.key for entry in entries} | {entry.text.key for entry in entries if entry.text}
        listed |= {index.file.key for index in indexes} | {item.file.key for item in self.target.extras}
        waiting = [item for item in (self.base.retired if self.base else ()) if item.key not in listed]
        known = {item.key for item in waiting}
        waiting += [
            Retired(key, file.etag, self.run.epoch)
            for key, file in sorted(self.old.items())
            if key not in listed and key not in known
        ]
        known |= {item.key for item in waiting}
        lost = look(self.public, (key for key in self.doubtful if key not in listed and key not in known))
        waiting += [Retired(key, stat.etag, self.run.epoch) for key, stat in sorted(lost.items())]
        limit = self.run.epoch - GRACE.total_seconds()
        due = [item for item in waiting if item.at <= limit]
        return [item for item in waiting if item.at > limit], due

    def _ours(self) -> dict[str, set[str | None]]:
        """Key → ETags that an object of ours may have."""
        ours: dict[str, set[str | None]] = {key: {file.etag} for key, file in self.old.items()}
        for item in self.base.retired if self.base else ():
            ours.setdefault(item.key, set()).add(item.etag)
        for key in self.doubtful:
            ours.setdefault(key, set()).add(None)
        return ours

    def _manifest(self, entries: Sequence[Entry], indexes: Sequence[Index], retired: Sequence[Retired]) -> Manifest:
        run, target = self.run, self.target
        since = instant(run.now - WEEK)
        history = [entry for entry in (self.base.history if self.base else ()) if entry["at"] >= since]
        sections = {name: state.listed for name, state in target.sections.items()}
        manifest = Manifest(
            name=run.site.name,
            site=run.site.site,
            run_id=run.run_id,
            now=run.plan.now,
            to=run.site.publish.to,
            base=run.plan.base,
            sections=target.sections,
            entries=tuple(entries),
            indexes=tuple(indexes),
            extras=tuple(item.file for item in target.extras),
            retired=tuple(retired),
            counts=target.counts,
            gates=tuple(target.gates),
            forced=target.forced,
            reason=target.reason,
            rolled_back_to=target.rolled_back_to,
        )
        return replace(
            manifest, history=(*history, {"at": run.plan.now, "site": manifest.listed, "sections": sections})
        )

    def _state_differs(self, manifest: Manifest) -> bool:
        """Whether the state would change though no file does: new snapshots, a new rule, a rollback."""
        if self.base is None or self.target.rolled_back_to is not None:
            return True

        def essence(of: Manifest) -> Any:
            sections = {name: replace(state, read_at=None) for name, state in of.sections.items()}
            return sections, [(entry.section, entry.number, entry.low, entry.snapshot) for entry in of.entries]

        return bool(essence(self.base) != essence(manifest))

    # --- doing it --------------------------------------------------------------------------------

    def _keep_adopted(self, foreign: Sequence[Stat]) -> None:
        for stat in foreign:
            stored = self.public.get(stat.key)
            if stored is not None:
                self.run.work.put(f"state/adopted/{self.run.run_id}/{stat.key}", stored.data)

    def _claim(self, writes: Sequence[Object], due: Sequence[Retired], robots: RobotsWrite) -> None:
        """From here on no other run may publish, and the next one knows what this one may have touched."""
        intent = {
            "run_id": self.run.run_id,
            "base": self.run.plan.base,
            "writes": {
                item.file.key: {
                    "old_etag": None if not isinstance(item.expect, str) else item.expect,
                    "old_sha256": self.old[item.file.key].sha256 if item.file.key in self.old else None,
                    "new_sha256": item.file.sha256,
                }
                for item in writes
            },
            "deletes": [asdict(item) for item in due],
            "robots": robots.data is not None,
            "doubtful": sorted(self.doubtful),
        }
        self.run.work.put(self.intent, dumps(intent), content_type="application/json")
        try:
            self.current = self.run.state.swap(self.current, pending=self.intent)
        except PreconditionFailed as error:
            raise Refused(self._overtaken()) from error

    def _overtaken(self) -> str:
        now = self.run.state.current()
        who = now.pending or now.manifest
        return (
            f"Overtaken: {who} claimed this site's publish while run {self.run.run_id} was under way. This run wrote "
            "nothing after that; the other one decides what is published"
        )

    def _hold(self) -> None:
        """Stop where the claim is no longer ours."""
        if self.run.state.current().pending != self.intent:
            raise Refused(self._overtaken())

    def _write(self, item: Object) -> None:
        self._hold()
        publish = self.run.site.publish
        data = item.data()
        try:
            stat = put_verified(
                self.public,
                item.file.key,
                data,
                content_type=content_type(item.file.key),
                cache_control=publish.cache_control,
                expect=item.expect,
            )
        except PreconditionFailed as error:
            self._hold()
            raise Refused(
                f"{error} The publish stopped there; what is public is valid, and the next run goes on from it"
            ) from error
        item.expect = stat.etag
        self.etags[item.file.key] = stat.etag
        self.outcome.written += 1
        self.outcome.bytes += len(data)
        self.run.outside.advance("publish", self.outcome.written, self._total)

    def _write_all(
        self,
        entries: Sequence[Entry],
        objects: Mapping[str, Object],
        indexes: Sequence[Index],
        index_objects: Sequence[Object],
        extras: Sequence[Object],
    ) -> None:
        self._total = len(objects) + len(index_objects) + len(extras)
        before = set(self.old) if not self._new_house() else set()
        new = [item for key, item in objects.items() if key not in before]
        changed = {key: item for key, item in objects.items() if key in before}
        in_threads(self._write, new)
        if before and new and (changed or before - set(objects)):
            self._write_union(entries, [item.file.key for item in new], index_objects)
        ordered = receivers_first(changed, self.target.gives)
        givers = {key for key in ordered if self.target.gives.get(key, frozenset()) & set(ordered) - {key}}
        in_threads(self._write, [changed[key] for key in ordered if key not in givers])
        for key in ordered:
            if key in givers:
                self._write(changed[key])
        in_threads(self._write, list(index_objects))
        in_threads(self._write, list(extras))
        self.outcome.unchanged = len(self._all_keys(entries, indexes)) - self.outcome.written
        self.outcome.changed_indexes = [self._address(item.file.key) for item in index_objects]
        self.outcome.changed_feeds = [self._address(i.file.key) for i in extras if i.file.key.endswith(FEEDS)]
        now = {index.file.key for index in indexes}
        self.outcome.retired_indexes = [
            self._address(index.file.key)
            for index in (self.base.indexes if self.base else ())
            if index.file.key not in now
        ]

    def _all_keys(self, entries: Sequence[Entry], indexes: Sequence[Index]) -> set[str]:
        return {
            *(entry.file.key for entry in entries),
            *(entry.text.key for entry in entries if entry.text),
            *(index.file.key for index in indexes),
            *(item.file.key for item in self.target.extras),
        }

    def _write_union(self, entries: Sequence[Entry], new: Sequence[str], index_objects: Sequence[Object]) -> None:
        """Indexes that list the old files and the new ones, before any old file gives rows away."""
        assert self.base is not None
        fresh = set(new)
        by_key = {item.file.key: item for item in index_objects}
        for number in sorted({entry.index for entry in entries if entry.file.key in fresh}):
            key = self.run.site.publish.names.index_name(number)
            if key not in by_key or key not in self.old:
                continue
            listed = {entry.file.key: entry.file.lastmod for entry in self.base.entries if entry.index == number}
            listed |= {e.file.key: e.file.lastmod for e in entries if e.index == number and e.file.key in fresh}
            data = index_document.document([(self._address(name), lastmod) for name, lastmod in listed.items()])
            final = by_key[key]
            union = Object(
                _plain_file(key, data, self.run.plan.now), _constant(_as_stored(key, data)), expect=final.expect
            )
            self._write(union)
            self.outcome.written -= 1
            final.expect = union.expect

    def _write_robots(self, robots: RobotsWrite) -> None:
        for write in robots.writes():
            self._hold()
            put_verified(
                write.storage, write.key, write.data, content_type="text/plain; charset=utf-8", expect=write.expect
            )

    def _delete(self, item: Retired) -> bool:
        if item.etag is None:
            return False
        try:
            return self.public.delete(item.key, expect=item.etag)
        except PreconditionFailed:
            self.outcome.warnings.append(
                f"{self.public.url_of(item.key)} was retired and is now another object than ours: it was left there"
            )
            return False

    def _commit(self, manifest: Manifest) -> None:
        def fresh(file: File) -> File:
            return replace(file, etag=self.etags[file.key]) if file.key in self.etags else file

        manifest = replace(
            manifest,
            entries=tuple(
                replace(e, file=fresh(e.file), text=fresh(e.text) if e.text else None) for e in manifest.entries
            ),
            indexes=tuple(replace(index, file=fresh(index.file)) for index in manifest.indexes),
            extras=tuple(fresh(extra) for extra in manifest.extras),
        )
        self._hold()
        self._keep_changes(manifest)
        key = self.run.state.put_manifest(manifest)
        try:
            self.run.state.swap(self.current, manifest=key, pending=None, last_run=self._last_run("published"))
        except PreconditionFailed as error:
            raise Refused(self._overtaken()) from error
        self.outcome.manifest = manifest

    def _keep_changes(self, manifest: Manifest) -> None:
        """What the engines are to hear; kept before the commit, so that it can't be lost after."""
        told = Told(
            indexes=tuple(self._address(index.file.key) for index in manifest.indexes),
            changed_indexes=tuple(self.outcome.changed_indexes),
            retired_indexes=tuple(self.outcome.retired_indexes),
            feeds=tuple(self.outcome.changed_feeds),
            listed=manifest.listed,
            quiet_because=self.target.quiet_because,
        )
        put_changes(self.run.state, self.run.run_id, self.target.changes, told)

    def _last_run(self, status: str) -> dict[str, Any]:
        return {"run_id": self.run.run_id, "at": self.run.plan.now, "status": status}


def _plain_file(key: str, data: bytes, now: str) -> File:
    import hashlib

    stored = _as_stored(key, data)
    return file_of(
        key,
        {
            "bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
            "stored": len(stored),
            "stored_sha256": hashlib.sha256(stored).hexdigest(),
        },
        now,
    )


def _as_stored(key: str, data: bytes) -> bytes:
    from sitemap_etl.render import compress

    return compress.gzip([data]) if key.endswith(".gz") else data


def _constant(data: bytes) -> Any:
    return lambda: data
