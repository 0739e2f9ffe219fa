"""Publish a target: write public files in an order in which no URL is ever missing.

1. New files.
2. Indexes with old and new files.
3. Changed files, receivers of URLs before the files that lose them.
4. Final indexes, and robots.txt.
5. The manifest.
6. Late deletes, under a separate claim.

Before the first public write, `current.json` names the intent of the publish. So a process that dies at any point
leaves a valid release, and the next run knows which keys to check.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from sitemap_etl.advice import SITE_FILE
from sitemap_etl.publish.actual import Actual, Object, in_threads, survey
from sitemap_etl.publish.claim import Claim, Overtaken, demand_own_lease
from sitemap_etl.publish.order import Order, receivers_first, with_actual_rows
from sitemap_etl.publish.plan import (
    Target,
    desired_set,
    index_object,
    made_manifest,
    retired_files,
    state_differs,
    with_former,
    with_written,
    without_deleted,
)
from sitemap_etl.publish.retention import hold_snapshots
from sitemap_etl.publish.robots import Root, named_by_others, open_root
from sitemap_etl.publish.writes import Writes, secure
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.changes import put_changes
from sitemap_etl.state.conditions import demand_conditions
from sitemap_etl.state.records import File, Manifest, Notification, Retired
from sitemap_etl.state.store import put_document
from sitemap_etl.storage import ABSENT, PreconditionFailed, Stat

FEEDS: Final = (".rss.xml", ".atom.xml")


@dataclass
class Outcome:
    """The result of a publish."""

    status: Literal["published", "unchanged"]
    manifest: Manifest | None
    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    bytes: int = 0
    robots_txt: bool = False  # whether it was written, as it names the indexes
    key_file: bool = False  # whether that of IndexNow was
    warnings: list[str] = field(default_factory=list)


def publish_target(run: Run, target: Target, *, adopt: bool = False) -> Outcome:
    """Publish the target. Raise Refused if another run was first or an object is unmanaged."""
    held = run.state.held()
    if held.current.manifest == layout.manifest(run.run_id):
        manifest = run.state.manifest(held.current.manifest)
        return Outcome("published", manifest, warnings=["this run was published already; nothing was done"])
    demand_own_lease(run)  # read after `held`: whoever took the lease over has replaced that since
    demand_conditions(run.work, run.public())
    claim = Claim(run, held)
    claim.find_interrupted()
    return _Publication(run, target, claim).publish(adopt=adopt)


class _Publication:
    """One publish in progress."""

    def __init__(self, run: Run, target: Target, claim: Claim) -> None:
        self.run = run
        self.target = target
        self.claim = claim
        self.public = run.public()
        self.outcome = Outcome("published", None)
        self.written: dict[str, File] = {}
        self._counting = threading.Lock()
        secured = secure(run, self.public, claim)
        for file in secured.values():
            self._count(file)
        self.actual = Actual(run, self.public, to_repeat=claim.to_repeat, watched=claim.watched, secured=secured)
        rolled_back = target.rolled_back_to is not None
        self.writes = Writes(run, self.public, claim, self.actual, rolled_back=rolled_back)
        self.desired = desired_set(run, target.drafts, target.extras, self.actual)

    def publish(self, *, adopt: bool) -> Outcome:
        run, desired, outcome = self.run, self.desired, self.outcome
        waiting, due = retired_files(run, desired, self.actual, self.claim.unmanaged)
        manifest = made_manifest(run, self.target, desired, [*waiting, *due], self.claim.numbers)
        root = open_root(run, self._addresses(manifest), [self._address(key) for key in sorted(desired.keys())])
        outcome.warnings += root.warnings
        changed = {item.file.key for item in desired.objects()}
        outcome.unchanged = len(desired.keys() - changed - self.actual.secured.keys())
        self.claim.unwatch(self._is_clean)
        says = self.claim.robots or root.writes(self._addresses(manifest))
        if desired.objects() or says or self.claim.took_over or state_differs(run, manifest):
            hold_snapshots(run, manifest)
            self._survey(adopt=adopt)
            order = self._order()
            keys = [item.file.key for item in desired.objects()]
            self.claim.take(keys, robots=says, numbers=_numbers(manifest))
            self._write_set(root, order)
            self._commit(manifest)
            self.claim.clear_repeated()
        elif not due:
            self._keep_sources()
            self._end("unchanged")
            outcome.status, outcome.manifest = "unchanged", run.base
            return outcome
        if due:
            self._delete(due, outcome.manifest or manifest)
        return outcome

    def _survey(self, *, adopt: bool) -> None:
        known = known_etags(self.run, self.actual)
        objects = self.desired.objects()
        self._keep_adopted(survey(self.public, objects, known, adopt=adopt, advice=self._advice))

    def _advice(self) -> str:
        """Return lines that say how objects in the way may have come there, and what to do."""
        if self.target.rolled_back_to is not None:
            return f"{self._other_state()}\n  move them elsewhere, and roll back again"
        return (
            f"{self._other_state()}\n  to replace them, keeping a copy in the state: sitemap-etl publish {SITE_FILE} "
            f"{self.run.run_id} --adopt"
        )

    def _other_state(self) -> str:
        """Return a line that says why another state can have written the objects, or an empty text."""
        addresses = [self._address(index.file.key) for index in self.desired.indexes]
        others = named_by_others(self.run, addresses)
        if others:
            return (
                f"\n  robots.txt says that {' and '.join(others)} published this sitemap: if the site file was "
                f"renamed, write `name: {others[0]}` in it, and its state is found again"
            )
        if self.run.base is None:
            return (
                f"\n  if this site was published before: {self.run.work.url} holds no state of it. Check `name:` and "
                "`work:` of the site file, which set the state folder"
            )
        return ""

    def _is_clean(self, key: str) -> bool:
        """Return True if no late request of an interrupted publish has changed the object under a key."""
        if key in self.actual.files:
            return self.actual.is_as_stored(self.actual.files[key])
        stat = self.actual.there.get(key)
        retired = self.run.base.retired if self.run.base is not None else ()
        return stat is None or any((item.key, item.etag) == (key, stat.etag) for item in retired)

    def _address(self, key: str) -> str:
        return self.run.site.publish.at + key

    def _addresses(self, manifest: Manifest | None) -> list[str]:
        """Return the public addresses of a release's indexes."""
        return [] if manifest is None else [self._address(index.file.key) for index in manifest.indexes]

    def _keep_adopted(self, unmanaged: Sequence[Stat]) -> None:
        if unmanaged and self.run.base is None:
            self.outcome.warnings.append(
                f"there was no state, and {len(unmanaged):,} existing files were replaced: pages have no dates by "
                "fingerprint yet, and engines are not notified of single URLs. If the state was lost, restore it "
                "from a backup"
            )
        for stat in unmanaged:
            stored = self.public.get(stat.key)
            if stored is not None:
                self.run.work.put(layout.adopted(self.run.run_id, stat.key), stored.data)
                self.claim.unmanaged[stat.key] = stat.etag

    # --- the writes, in their order ------------------------------------------------------------------

    def _order(self) -> Order:
        """Return the order in which the files that are there are written."""
        changed = self._changed()
        moves_to = with_actual_rows(self.run, self.target.moves_to, self.desired, changed, self.actual)
        return receivers_first(changed, moves_to)

    def _changed(self) -> dict[str, Object]:
        """Return the files to write that an index lists. Unlisted objects are written before, as new files, because a
        late delete can still reach them.
        """
        return {
            key: item
            for key, item in self.desired.files.items()
            if item.expect is not ABSENT and self._address(key) in self._listed
        }

    @cached_property
    def _listed(self) -> frozenset[str]:
        """The addresses that the indexes list before anything is written."""
        base = self.run.base.indexes if self.run.base is not None else ()
        keys = {index.file.key for index in (*base, *self.desired.indexes)}
        return frozenset(address for key in keys for address in self.actual.listed(key))

    def _write_set(self, root: Root, order: Order) -> None:
        desired = self.desired
        changed = self._changed()
        in_threads(self._write, [item for key, item in desired.files.items() if key not in changed])
        indexes = dict(desired.index_objects)
        if changed or len(indexes) > 1:
            for key in self._list_old_and_new(root):
                del indexes[key]
        in_threads(self._write, [changed[key] for key in order.keys if key not in order.givers])
        for key in order.keys:
            if key in order.givers:
                self._write(changed[key])
        in_threads(self._write, list(indexes.values()))
        in_threads(self._write, desired.extra_objects)
        self._name_in_robots(root, [self._address(index.file.key) for index in desired.indexes])
        if root.key_file is not None and root.key is not None:
            self.claim.hold()
            root.key_file.write(root.key)
            self.outcome.key_file = True

    def _list_old_and_new(self, root: Root) -> list[str]:
        """Let the indexes list the old files and the new ones, before any old file gives rows away.

        Return the keys that are final after that.
        """
        done = []
        now = self.run.plan.now
        for index in self.desired.indexes:
            item = self.desired.index_objects.get(index.file.key)
            if item is None:
                continue
            listed = self.actual.listed(index.file.key)
            final = {self._address(e.file.key): e.file.lastmod for e in self.desired.entries if e.index == index.number}
            if not final.keys() <= listed.keys():
                both = index_object(index.file.key, list({**final, **listed}.items()), now)
                if both.file.sha256 == item.file.sha256:
                    self._write(item)
                    done.append(both.file.key)
                else:
                    both.expect = item.expect
                    self.writes.put(both, fenced=True)
                    item.expect = both.expect
        old = self._addresses(None if self.actual.relocated else self.run.base)
        new = [self._address(index.file.key) for index in self.desired.indexes]
        if self.claim.robots or not set(new) <= set(old):
            self._name_in_robots(root, [*old, *(address for address in new if address not in old)])
        return done

    def _name_in_robots(self, root: Root, addresses: Sequence[str]) -> None:
        fenced = self.claim.robots or (self.target.rolled_back_to is not None and root.naming(addresses) is not None)
        if root.name_indexes(addresses, self.claim.mark if fenced else None, self.claim.hold):
            self.outcome.robots_txt = True

    def _write(self, item: Object) -> None:
        self.writes.put(item, fenced=self.writes.comes_back(item.file))
        self.written[item.file.key] = item.file
        self._count(item.file)
        self.run.environment.advance("publish", len(self.written), len(self.desired.objects()))
        key, size = item.file.key, item.file.stored
        self.run.environment.detail(f"publish: {key} written ({size:,} bytes)", file=key, bytes=size)

    def _count(self, file: File) -> None:
        with self._counting:
            self.outcome.written += 1
            self.outcome.bytes += file.stored

    # --- the deletes ---------------------------------------------------------------------------------

    def _delete(self, due: Sequence[Retired], manifest: Manifest) -> None:
        """Delete the files whose grace is over, under a claim of its own.

        If another run takes over after the set was committed, the rest is left to that run.
        """
        try:
            self.claim.take(deletes=due, numbers=_numbers(manifest))
            gone = [item for item in due if self._delete_one(item)]
            self._commit(without_deleted(manifest, due, int(self.run.work.now().timestamp())))
        except Overtaken:
            if self.outcome.manifest is None:
                raise
            return
        self.outcome.deleted = len(gone)

    def _delete_one(self, item: Retired) -> bool:
        self.claim.hold()
        try:
            return item.etag is not None and self.public.delete(item.key, expect=item.etag)
        except PreconditionFailed:
            self.outcome.warnings.append(
                f"{self.public.url_of(item.key)} was due for deletion, but another program has replaced it since: it "
                "was left in place"
            )
            return False

    # --- the commit ----------------------------------------------------------------------------------

    def _commit(self, manifest: Manifest) -> None:
        at = int(self.run.work.now().timestamp())
        if self.outcome.manifest is None:
            manifest = with_former(with_written(manifest, self.written), self.run.base, at)
        self.claim.hold()
        # Kept before the commit, so that it can't be lost after.
        if self.outcome.manifest is None:
            put_changes(self.run.state, self.run.run_id, self.target.changes, self._notification(manifest))
            self._keep_sources()
        self._end("published", self.run.state.put_manifest(manifest))
        self.outcome.manifest = manifest

    def _end(self, status: str, manifest: str | None = None) -> None:
        """Write the final `current.json` of this run. `manifest`: key of the release to commit."""
        target = self.target
        self.claim.end(status, target.mirrors, target.versions, target.made_from, manifest)

    def _keep_sources(self) -> None:
        """Keep what later runs fall back on: robots.txt as it was read, and the mirrors of sources."""
        if self.run.plan.robots is not None:
            self.run.state.put_robots(self.run.plan.robots.encode("latin-1"))
        for section, mirror in self.target.generations.items():
            put_document(self.run.work, layout.mirror(section, self.run.run_id), mirror)

    def _notification(self, manifest: Manifest) -> Notification:
        """Return the part of a submission that is not changes."""
        now = self._addresses(manifest)
        feeds = [item.file.key for item in self.desired.extra_objects if item.file.key.endswith(FEEDS)]
        return Notification(
            indexes=tuple(now),
            changed_indexes=tuple(self._address(key) for key in self.desired.index_objects),
            retired_indexes=tuple(address for address in self._addresses(self.run.base) if address not in now),
            feeds=tuple(self._address(key) for key in feeds),
            listed=manifest.listed,
            quiet_because=self.target.quiet_because,
        )


def known_etags(run: Run, actual: Actual) -> dict[str, set[str | None]]:
    """Return the ETags that our object under each key can have. Of an interrupted publish, only the keys are known."""
    ours: dict[str, set[str | None]] = {}
    base = run.base
    if base is not None:
        for key, etag in [(f.key, f.etag) for f in base.files()] + [(r.key, r.etag) for r in base.retired]:
            ours.setdefault(key, set()).add(etag)
    return ours | {key: {None} for key in actual.touched}


def _numbers(manifest: Manifest) -> dict[str, int]:
    """Return the next file number of each section, without views."""
    own = {name: state.next_number for name, state in manifest.sections.items() if not state.view}
    return {**manifest.numbers, **own}
