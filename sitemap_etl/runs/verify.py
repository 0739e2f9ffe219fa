"""Verify every object of a site's state, report the consequences of losses, and repair damage if possible.

Every record is verified by its checksum, every snapshot and mirror file by its hash. A repair restores snapshots from
published files that are unchanged, removes objects that a run recreates, and drops older releases whose rows are lost.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import cached_property
from itertools import islice
from typing import Final, TypeVar

import pyarrow as pa

from sitemap_etl.config import Site
from sitemap_etl.errors import DamagedState, Refused, SitemapEtlError
from sitemap_etl.publish.retention import snapshots_of
from sitemap_etl.render import fence, urlset
from sitemap_etl.render.parse import rows_of
from sitemap_etl.runs.naming import name_again
from sitemap_etl.stages.run import Environment, new_run_id, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.changes import changes_of_run
from sitemap_etl.state.checked import read_checked
from sitemap_etl.state.codec import decode, unseal
from sitemap_etl.state.lease import leased
from sitemap_etl.state.records import (
    Answered,
    Attempt,
    Current,
    Document,
    Entry,
    Intent,
    Lease,
    LedgerData,
    Manifest,
    Mirror,
    Notification,
    Record,
    Splits,
    Summary,
)
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import Storage
from sitemap_etl.storage.folder import exposed

_D = TypeVar("_D", bound=Document)
_EXPOSED: Final = 10
_UNEXPLAINED: Final = "explain has no answers about that run"


class Broken(Record):
    """A missing or damaged object of the state. `cost`: the loss. `repaired`: the repair that was made."""

    key: str
    problem: str
    cost: str
    repaired: str | None = None


class Verified(Record):
    """A reading of the whole state. `whole`: kind of object → how many are as they should be.

    `exposed`: up to ten files and folders that others can read, though `work_access` does not allow them to.
    """

    place: str
    whole: dict[str, int] = field(default_factory=dict)
    broken: tuple[Broken, ...] = ()
    exposed: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        """True if nothing is broken, or everything broken is repaired."""
        return all(found.repaired is not None for found in self.broken)


def verify_state(site: Site, environment: Environment, *, repair: bool = False) -> Verified:
    """Verify all objects of a site's state.

    Raise Refused if a newer version of sitemap-etl wrote an object, before any change, and if a repair meets a run in
    progress.
    """
    work = open_work(site, environment)
    if not repair:
        return _Reading(site, environment, work, repair=False).read()
    run_id = new_run_id(work.now(), work=work)
    with leased(work, run_id):
        found = _Reading(site, environment, work, repair=False).read()
        return found if found.sound else _Reading(site, environment, work, repair=True).read()


class _Reading:
    """One reading of a state."""

    def __init__(self, site: Site, environment: Environment, work: Storage, *, repair: bool) -> None:
        self.site = site
        self.environment = environment
        self.work = work
        self.state = state_of(site, environment, work)
        self.repair = repair
        self.whole: Counter[str] = Counter()
        self.broken: list[Broken] = []
        self.keys = {stat.key for stat in work.list()}

    def read(self) -> Verified:
        older = (key for key in self._keys(layout.MANIFESTS) if key != self.named)
        manifests = {key: found for key in older if (found := self._manifest(key))}
        current = self._current(manifests)
        published = self._published(current, manifests)
        with suppress(DamagedState):  # as it is after a repair
            current = self.state.current()
        self._snapshots(manifests, published)
        self._mirrors(current, manifests)
        self._changes()
        self._others(current)
        in_folder = not self.site.work.startswith("s3://")
        paths = exposed(self.work.place, self.site.work_access) if in_folder else iter(())
        readable = tuple(islice(paths, _EXPOSED))
        return Verified(self.work.url, dict(sorted(self.whole.items())), tuple(self.broken), readable)

    def _keys(self, prefix: str) -> Iterator[str]:
        return (key for key in sorted(self.keys) if key.startswith(prefix))

    def _tell(self, key: str, problem: str, cost: str, repair: Callable[[], str | None] | None = None) -> None:
        repaired = repair() if repair is not None and self.repair else None
        self.broken.append(Broken(self.work.url_of(key), problem, cost, repaired))

    def _document(
        self, key: str, kind: type[_D], name: str, cost: str, repair: Callable[[], str | None] | None = None
    ) -> _D | None:
        """Return a verified record, or None if it was reported as broken. Raise Refused if it is newer."""
        try:
            found = read_document(self.work, key, kind)
        except DamagedState as error:
            self._tell(key, _problem(error, self.work.url_of(key)), cost, repair)
            return None
        if found is None:
            self._tell(key, "it is gone", cost, repair)
            return None
        self.whole[name] += 1
        return found[0]

    def _remove(self, *keys: str, done: str = "removed") -> Callable[[], str]:
        def removing() -> str:
            for key in keys:
                self.work.delete(key)
            return done

        return removing

    def _unname_intent(self, key: str) -> Callable[[], str]:
        """Let `current.json` name an intent no more."""

        def unnaming() -> str:
            held = self.state.held()
            suspect = {one: since for one, since in held.current.suspect.items() if one != key}
            pending = None if held.current.pending == key else held.current.pending
            self.state.swap(held, replace(held.current, suspect=suspect, pending=pending))
            return "forgotten: the next run needs --full --adopt"

        return unnaming

    # --- what is published ---

    def _manifest(self, key: str) -> Manifest | None:
        """Return the manifest of an earlier release."""
        cost = f"no rollback to run {layout.run_of_manifest(key)}, and old state is not cleaned up"
        return self._document(key, Manifest, "manifests", cost, self._remove(key))

    def _published(self, current: Current, manifests: dict[str, Manifest]) -> Manifest | None:
        """Return the manifest of the current release, which is put among those of earlier ones."""
        named = self.named
        if named is None:
            return manifests.get(current.manifest or "")

        def gone_back() -> str | None:
            told = name_again(self.work, replace(current, made_from={}, versions={}), manifests, self._inflated)
            if told is not None:
                self.work.delete(named)
            return told

        found = self._document(named, Manifest, "manifests", self._lost_set, gone_back)
        if found is not None:
            manifests[named] = found
        elif self.broken[-1].repaired:
            found = manifests[self.state.current().manifest or ""]
        return found

    @cached_property
    def named(self) -> str | None:
        """Key of the manifest that `current.json` names."""
        with suppress(DamagedState, Refused):  # reported when the record itself is verified
            return self.state.current().manifest
        return None

    @property
    def _lost_set(self) -> str:
        """Consequence of losing the current release's manifest."""
        return (
            "no run can compare with what is published: none can start. Without a backup, --repair goes back to the "
            "release before if it is known. Pages that changed since then change once more. If it is not known, move "
            f"all of {self.work.url_of(layout.STATE)} away: the next run is then a first one, needs --adopt, and dates "
            "from "
            "fingerprints start again"
        )

    def _current(self, manifests: dict[str, Manifest]) -> Current:
        empty = Current(self.site.name, self.site.site)
        if layout.CURRENT not in self.keys and not manifests:
            return empty

        cost = "it is not known what is published: no run can start"
        found = self._document(
            layout.CURRENT,
            Current,
            "current.json",
            cost,
            lambda: name_again(self.work, empty, manifests, self._inflated),
        )
        if found is None and self.repair:
            stored = read_document(self.work, layout.CURRENT, Current) if self.broken[-1].repaired else None
            return stored[0] if stored is not None else empty
        return found or empty

    def _inflated(self, key: str, sha256: str) -> bytes | None:
        """Return a public file, uncompressed, if it has these bytes."""
        stored = self.environment.open_storage(self.site.publish.to, checksums=self.site.publish.checksums).get(key)
        if stored is None:
            return None
        data = fence.content(key, stored.data)
        return data if data is not None and hashlib.sha256(data).hexdigest() == sha256 else None

    # --- rows ---

    def _snapshots(self, manifests: dict[str, Manifest], published: Manifest | None) -> None:
        used: dict[str, list[Manifest]] = {}
        for manifest in manifests.values():
            for key in snapshots_of(manifest):
                used.setdefault(key, []).append(manifest)
        for key, users in sorted(used.items()):
            problem = self._snapshot_problem(key)
            if problem is None:
                self.whole["snapshots"] += 1
            elif published is not None and published in users:
                self._tell(key, problem, *self._lost_rows(key, published, users))
            else:
                runs = ", ".join(sorted(manifest.run_id for manifest in users))
                self._tell(key, problem, f"older sets can't be gone back to: {runs}")

    def _snapshot_problem(self, key: str) -> str | None:
        try:
            self.state.snapshot(key, ["loc"])
        except DamagedState as error:
            return _problem(error, self.work.url_of(key))
        return None

    def _lost_rows(
        self, key: str, published: Manifest, users: Sequence[Manifest]
    ) -> tuple[str, Callable[[], str | None]]:
        """Return the cost of a lost snapshot of the published release, and its repair."""
        entry = next((entry for entry in published.entries if entry.snapshot == key), None)
        keys = [layout.manifest(manifest.run_id) for manifest in users]
        if entry is None:
            section, state = next((name, state) for name, state in published.sections.items() if key in state.beside())
            costs = {
                state.top: f"the feeds of {section} start anew",
                state.undone: f"pages of {section} that a rollback took back count as changed if they come again",
                state.removed_lately: f"pages of {section} that left lately and come back have no date by fingerprint",
            }
            cost = costs[key]

            def forgotten() -> str:
                for manifest in keys:
                    self._replace(manifest, lambda found: _without(found, section, key))
                return "forgotten: the next run starts without it"

            return cost, forgotten
        kept: Entry = entry

        def remade() -> str | None:
            data = self._inflated(kept.file.key, kept.file.sha256)
            rows = None if data is None else _rows_of(data)
            if rows is None:
                return None
            again = self.state.put_snapshot(rows)  # when each page changed is not in its file
            for manifest in keys:
                self._replace(manifest, lambda found: _with_snapshot(found, key, again))
            return f"made again from {kept.file.key}; fingerprints of its {rows.num_rows:,} pages are reset"

        return f"runs that read section {kept.section} stop: {kept.file.key} can't be compared", remade

    def _replace(self, key: str, change: Callable[[Manifest], Manifest]) -> None:
        found = read_document(self.work, key, Manifest)
        assert found is not None
        put_document(self.work, key, change(found[0]), expect=found[1])

    # --- mirrors ---

    def _mirrors(self, current: Current, manifests: dict[str, Manifest]) -> None:
        generations = set(current.mirrors.values())
        for manifest in manifests.values():
            generations |= {state.mirror for state in manifest.sections.values() if state.mirror is not None}
        files: dict[str, tuple[str, set[str]]] = {}  # key → SHA-256, generations that it is part of
        for key in sorted(generations):
            mirror = self._document(key, Mirror, "mirrors", *self._lost_mirror({key}, current, manifests))
            for file in (file for bucket in (mirror.buckets if mirror else ()) for file in bucket.files()):
                files.setdefault(file.key, (file.sha256, set()))[1].add(key)
        for key, (sha256, users) in sorted(files.items()):
            stored = self.work.get(key)
            if stored is not None and stored.sha256 == sha256:
                self.whole["files of mirrors"] += 1
            else:
                problem = "it is gone" if stored is None else "its content is not what was written"
                self._tell(key, problem, *self._lost_mirror(users, current, manifests))

    def _lost_mirror(
        self, generations: set[str], current: Current, manifests: dict[str, Manifest]
    ) -> tuple[str, Callable[[], str]]:
        """Return the cost of these lost generations of a section's mirror, and their repair."""
        section = next(iter(generations)).removeprefix(layout.MIRRORS).split("/")[0]

        def dropped() -> str:
            held = self.state.held()
            mirrors = {name: key for name, key in held.current.mirrors.items() if key not in generations}
            if mirrors != held.current.mirrors:
                self.state.swap(held, replace(held.current, mirrors=mirrors))
            for key, manifest in manifests.items():
                state = manifest.sections.get(section)
                if state is not None and state.mirror in generations:
                    self._replace(key, lambda found: _without_mirror(found, section))
            return f"dropped: section {section} is read from the start"

        if current.mirrors.get(section) in generations:
            return f"section {section} can't be read incrementally: runs stop until one reads it with --full", dropped
        return f"section {section} is read from the start after a rollback to an older set", dropped

    # --- the rest ---

    def _changes(self) -> None:
        cost = "engines are not notified of its changes; sitemap-etl ping --all sends them everything"
        for key in self._keys(layout.CHANGES):
            run_id = layout.run_of_notification(key)
            if run_id is not None:
                found = self._document(key, Notification, "notifications", cost, self._remove(key))
                if found is not None:
                    self._changes_of(run_id, cost)
            elif layout.is_answer(key):
                cost_of_answer = "an engine may be notified of the run again"
                self._document(key, Answered, "answers of engines", cost_of_answer, self._remove(key))

    def _changes_of(self, run_id: str, cost: str) -> None:
        key = layout.changes(run_id)
        try:
            there = changes_of_run(self.state, run_id) is not None
        except DamagedState as error:
            both = self._remove(key, layout.notification(run_id))
            self._tell(key, _problem(error, self.work.url_of(key)), cost, both)
            return
        if there:
            self.whole["changes"] += 1
        else:
            self._tell(key, "it is gone", cost, self._remove(layout.notification(run_id)))

    def _others(self, current: Current) -> None:
        for key in self._keys(layout.LEDGERS):
            self._ledger(key, "the engine may be notified again of changes that it has received")
        named = {*current.suspect, *([] if current.pending is None else [current.pending])}
        for key in sorted({*self._keys(layout.INTENTS), *named}):
            cost = "files of a publish that did not end are taken for another program's" if key in named else "none"
            self._document(
                key, Intent, "intents", cost, self._unname_intent(key) if key in named else self._remove(key)
            )
        self._robots(current)
        if layout.LEASE in self.keys:
            cost = "none: it counts as ended"
            self._document(layout.LEASE, Lease, "leases", cost, self._remove(layout.LEASE))
        for key in self._keys(layout.ATTEMPTS):
            cost = "status and history do not show that run"
            self._document(key, Attempt, "records of runs", cost, self._remove(key))
        for key in self._keys(layout.REPORTS):
            run_id = layout.run_of(key)
            if key == layout.summary(run_id):
                self._document(key, Summary, "summaries", _UNEXPLAINED, self._remove(key))
            elif key == layout.splits(run_id):
                found = self._document(key, Splits, "lists of splits", _UNEXPLAINED, self._remove(key))
                self._tables(found)
        for key in self._keys(layout.RUNS):
            if key.endswith(".json"):
                self._sealed(key, "task results of runs", "that run can't be published")

    def _robots(self, current: Current) -> None:
        """Verify the copies of robots.txt. The named one is used if the site does not answer."""
        named = None if current.robots is None else current.robots.key
        for key in sorted({*self._keys(layout.ROBOTS), *([] if named is None else [named])}):
            try:
                self.state.robots(key)
                self.whole["copies of robots.txt"] += 1
            except DamagedState as error:
                problem = "it is gone" if key not in self.keys else _problem(error, self.work.url_of(key))
                if key == named:
                    self._tell(
                        key,
                        problem,
                        "runs end where the site's own robots.txt does not answer",
                        self._unname_robots(key),
                    )
                else:
                    self._tell(key, problem, "none: no run asks it", self._remove(key))

    def _unname_robots(self, key: str) -> Callable[[], str]:
        """Return a repair that removes the copy of robots.txt from `current.json`."""

        def unnaming() -> str:
            held = self.state.held()
            self.state.swap(held, replace(held.current, robots=None))
            self.work.delete(key)
            return "forgotten: the next run reads it from the site"

        return unnaming

    def _tables(self, splits: Splits | None) -> None:
        """Verify the rows that a run did not list."""
        for table in splits.tables.values() if splits is not None else ():
            try:
                there = table.key not in self.keys or read_checked(self.work, table) is not None
            except DamagedState as error:
                problem = _problem(error, self.work.url_of(table.key))
                self._tell(table.key, problem, _UNEXPLAINED, self._remove(table.key))
            else:
                self.whole["tables of reports"] += there

    def _sealed(self, key: str, name: str, cost: str) -> None:
        """Verify a record by its checksum."""
        stored = self.work.get(key)
        try:
            if stored is not None:
                unseal(stored.data, self.work.url_of(key))
                self.whole[name] += 1
        except SitemapEtlError as error:
            self._tell(key, _problem(error, self.work.url_of(key)), cost, self._remove(key))

    def _ledger(self, key: str, cost: str) -> None:
        stored = self.work.get(key)
        where = self.work.url_of(key)
        try:
            if stored is not None:
                decode(LedgerData, unseal(stored.data, where), where)
                self.whole["ledgers"] += 1
        except DamagedState as error:
            self._tell(key, _problem(error, where), cost, self._remove(key, done="removed: the engine starts again"))


def _problem(error: SitemapEtlError, where: str) -> str:
    """Return the damage in words, without the address and the next step, which are shown beside it."""
    text = str(error).removeprefix(f"{where} is damaged: ").removeprefix(f"{where} ")
    return text.partition(". ")[0]


def _rows_of(data: bytes) -> pa.Table | None:
    """Return the rows of a sitemap, or None unless they render to the same bytes."""
    try:
        rows = rows_of(data)
    except ValueError:
        return None
    if not rows.num_rows:
        return None
    again = b"".join(urlset.document(urlset.entries(rows), urlset.namespaces(rows)))
    return rows if again == data else None


def _with_snapshot(manifest: Manifest, old: str, new: str) -> Manifest:
    entries = tuple(replace(entry, snapshot=new) if entry.snapshot == old else entry for entry in manifest.entries)
    return replace(manifest, entries=entries)


def _without_mirror(manifest: Manifest, section: str) -> Manifest:
    state = replace(manifest.sections[section], mirror=None)
    return replace(manifest, sections={**manifest.sections, section: state})


def _without(manifest: Manifest, section: str, key: str) -> Manifest:
    state = manifest.sections[section]
    state = replace(
        state,
        removed_lately=None if state.removed_lately == key else state.removed_lately,
        undone=None if state.undone == key else state.undone,
        top=None if state.top == key else state.top,
    )
    return replace(manifest, sections={**manifest.sections, section: state})
