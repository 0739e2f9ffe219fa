"""The publish stage: from a target to public files, in the order in which no URL is ever unlisted.

new files → indexes of old and new → changed files, receivers before givers → final indexes → robots.txt →
late deletes → manifest. Before the first public write the publish is claimed: `current.json` names its
intent. A process that dies on any line leaves a valid set, and the next run knows from the intent which
keys it must look at again.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of
from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.publish.actual import Actual, Object, content_type, in_threads, survey
from sitemap_etl.publish.claim import Claim
from sitemap_etl.publish.plan import (
    Desired,
    Target,
    desired_set,
    index_object,
    made_manifest,
    retired_files,
    state_differs,
    with_etags,
)
from sitemap_etl.publish.retention import hold_snapshots
from sitemap_etl.publish.robots import Root, open_root
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.changes import put_changes
from sitemap_etl.state.conditions import demand_conditions
from sitemap_etl.state.records import Manifest, Notification, Retired, Write
from sitemap_etl.state.store import put_document
from sitemap_etl.storage import ABSENT, PreconditionFailed, Stat, put_verified

FEEDS: Final = (".rss.xml", ".atom.xml")


@dataclass
class Outcome:
    """What a publish did. `bytes`: as stored, of the files written."""

    status: Literal["published", "unchanged"]
    manifest: Manifest | None
    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)


def publish_target(run: Run, target: Target, *, adopt: bool = False) -> Outcome:
    """Publish the target. Raises Refused where another run was first or an object is unmanaged."""
    held = run.state.held()
    if held.current.manifest == layout.manifest(run.run_id):
        manifest = run.state.manifest(held.current.manifest)
        return Outcome("published", manifest, warnings=["this run was published already; nothing was done"])
    demand_conditions(run.work, run.public())
    claim = Claim(run, held)
    claim.settle()
    return _Publication(run, target, claim).publish(adopt=adopt)


class _Publication:
    """One publish under way."""

    def __init__(self, run: Run, target: Target, claim: Claim) -> None:
        self.run = run
        self.target = target
        self.claim = claim
        self.public = run.public()
        self.actual = Actual(run, self.public, claim.suspect)
        self.desired = desired_set(run, target.drafts, target.extras, self.actual)
        self.outcome = Outcome("published", None)
        self.etags: dict[str, str | None] = {}
        self._counting = threading.Lock()

    def publish(self, *, adopt: bool) -> Outcome:
        run, desired, outcome = self.run, self.desired, self.outcome
        retired, due = retired_files(run, desired, self.actual, self.claim.unmanaged)
        manifest = made_manifest(run, self.target, desired, retired)
        root = open_root(run, self._addresses(manifest), [self._address(key) for key in sorted(desired.keys())])
        outcome.warnings += root.warnings
        outcome.unchanged = len(desired.keys()) - len(desired.objects())
        says = root.writes(self._addresses(manifest))
        if not (desired.objects() or due or says or self.claim.took_over or state_differs(run, manifest)):
            self._keep_sources()
            self.claim.end("unchanged", self.target.mirrors)
            outcome.status, outcome.manifest = "unchanged", run.base
            return outcome
        hold_snapshots(run, manifest)
        self._keep_adopted(survey(self.public, desired.objects(), known_etags(run, self.actual), adopt=adopt))
        self.claim.take(self._intended(), due, robots=says)
        self._write_set(root)
        for item in due:
            self.claim.hold()
            outcome.deleted += self._delete(item)
        self._commit(manifest)
        return outcome

    def _address(self, key: str) -> str:
        return self.run.site.publish.at + key

    def _addresses(self, manifest: Manifest | None) -> list[str]:
        """The addresses of a set's indexes."""
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

    def _intended(self) -> dict[str, Write]:
        """Every key to write: its ETag and the hash of its inflated bytes now, and the new hash."""
        old = self.actual.files
        return {
            item.file.key: Write(
                old_etag=item.expect if isinstance(item.expect, str) else None,
                old_sha256=old[item.file.key].sha256 if item.file.key in old else None,
                new_sha256=item.file.sha256,
            )
            for item in self.desired.objects()
        }

    # --- the writes, in their order ------------------------------------------------------------------

    def _write_set(self, root: Root) -> None:
        desired = self.desired
        new = [item for item in desired.files.values() if item.expect is ABSENT]
        changed = {key: item for key, item in desired.files.items() if item.expect is not ABSENT}
        in_threads(self._write, new)
        indexes = dict(desired.index_objects)
        if changed or len(indexes) > 1:
            for key in self._list_old_and_new(root):
                del indexes[key]
        moves_to = with_actual_rows(self.run, self.target.moves_to, desired, changed, self.actual)
        ordered = receivers_first(changed, moves_to)
        givers = [key for key in ordered if moves_to.get(key, frozenset()) & set(ordered) - {key}]
        in_threads(self._write, [changed[key] for key in ordered if key not in givers])
        for key in givers:
            self._write(changed[key])
        in_threads(self._write, list(indexes.values()))
        in_threads(self._write, desired.extra_objects)
        self._name_in_robots(root, [self._address(index.file.key) for index in desired.indexes])
        if root.key_file is not None and root.key is not None:
            self.claim.hold()
            root.key_file.write(root.key)

    def _list_old_and_new(self, root: Root) -> list[str]:
        """Let the indexes list the old files and the new ones, before any old file gives rows away.

        Gives the keys of those that are final by that.
        """
        done = []
        for index in self.desired.indexes:
            item = self.desired.index_objects.get(index.file.key)
            if item is None:
                continue
            listed = self.actual.listed(index.file.key)
            final = {self._address(e.file.key): e.file.lastmod for e in self.desired.entries if e.index == index.number}
            if not final.keys() <= listed.keys():
                both = index_object(index.file.key, list({**final, **listed}.items()), self.run.plan.now)
                if both.file.sha256 == item.file.sha256:
                    self._write(item)
                    done.append(both.file.key)
                else:
                    self._put(both.file.key, both.data(), item)
        old = self._addresses(None if self.actual.relocated else self.run.base)
        new = [self._address(index.file.key) for index in self.desired.indexes]
        if not set(new) <= set(old):
            self._name_in_robots(root, [*old, *(address for address in new if address not in old)])
        return done

    def _name_in_robots(self, root: Root, addresses: Sequence[str]) -> None:
        data = root.naming(addresses)
        if data is not None and root.robots is not None:
            self.claim.hold()
            root.robots.write(data)

    def _write(self, item: Object) -> None:
        data = item.data()
        self._put(item.file.key, data, item)
        with self._counting:
            self.etags[item.file.key] = item.expect if isinstance(item.expect, str) else None
            self.outcome.written += 1
            self.outcome.bytes += len(data)
            written = self.outcome.written
        self.run.environment.advance("publish", written, len(self.desired.objects()))

    def _put(self, key: str, data: bytes, item: Object) -> None:
        """Write these bytes where `item` goes, on the condition it has, and renew the condition."""
        self.claim.hold()
        publish = self.run.site.publish
        kind = content_type(key)
        try:
            stat = put_verified(
                self.public, key, data, content_type=kind, cache_control=publish.cache_control, expect=item.expect
            )
        except Unavailable:
            self.claim.hold()  # other bytes than were put may be those of a run that took over
            raise
        except PreconditionFailed as error:
            self.claim.hold()
            raise Refused(
                f"{error} Publishing stopped there; the published files are valid, and the next run continues from them"
            ) from error
        item.expect = stat.etag

    def _delete(self, item: Retired) -> bool:
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
        manifest = with_etags(manifest, self.etags)
        self.claim.hold()
        # Kept before the commit, so that it can't be lost after.
        put_changes(self.run.state, self.run.run_id, self.target.changes, self._notification(manifest))
        self._keep_sources()
        self.claim.end("published", self.target.mirrors, self.run.state.put_manifest(manifest))
        self.outcome.manifest = manifest

    def _keep_sources(self) -> None:
        """Keep what later runs fall back on: robots.txt as it was read, and the mirrors of sources."""
        if self.run.plan.robots is not None:
            self.run.state.put_robots(self.run.plan.robots.encode("latin-1"))
        for section, mirror in self.target.generations.items():
            put_document(self.run.work, layout.mirror(section, self.run.run_id), mirror)

    def _notification(self, manifest: Manifest) -> Notification:
        """What the engines are to hear besides the changes."""
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
    """Key → ETags that an object of ours may have. Of an interrupted publish we only know the keys."""
    ours: dict[str, set[str | None]] = {}
    base = run.base
    if base is not None:
        for key, etag in [(f.key, f.etag) for f in base.files()] + [(r.key, r.etag) for r in base.retired]:
            ours.setdefault(key, set()).add(etag)
    return ours | {key: {None} for key in actual.touched}


def with_actual_rows(
    run: Run, moves_to: Mapping[str, frozenset[str]], desired: Desired, changed: Mapping[str, Object], actual: Actual
) -> dict[str, frozenset[str]]:
    """`moves_to` (public key → keys of the files that list its URLs now), right also after an interrupted publish.

    It was found by comparing with the last manifest. Where a suspect object is about to be replaced (`changed`, by
    key), its rows count as they are there. Memory holds the rows that leave such objects.
    """
    result: dict[str, set[str]] = defaultdict(set, {key: set(receivers) for key, receivers in moves_to.items()})
    suspect = [key for key in changed if key in actual.suspect]
    if not suspect:
        return {key: frozenset(receivers) for key, receivers in result.items()}
    locs, keys = [], []
    for key in suspect:
        result.pop(key, None)
        found = actual.locs(key)
        locs.append(pa.array(found, pa.string()))
        keys.append(pa.repeat(pa.scalar(key), len(found)))
    rows = pa.table({"loc": pa.chunked_array(locs, pa.string()), "key": pa.chunked_array(keys, pa.string())})
    for entry in desired.entries:
        section = run.site.sections.get(entry.section)
        receiver = entry.file.key
        if receiver not in desired.files or section is None or section.view:
            continue
        arrived = column_of(run.state.snapshot(entry.snapshot, ["loc"]), "loc")
        taken = rows.filter(pc.is_in(rows.column("loc"), arrived))
        for giver in pc.unique(taken.column("key")).to_pylist():  # one a suspect file
            if giver != receiver:
                result[giver].add(receiver)
    return {key: frozenset(receivers) for key, receivers in result.items()}


def receivers_first(changed: Iterable[str], moves_to: Mapping[str, frozenset[str]]) -> list[str]:
    """Changed files in the order to write them: those that give no row away, then receivers before givers.

    `moves_to`: key → keys of the files that now list URLs it listed. Files that exchange rows both ways, or in a
    circle, have no such order; among them, and them alone, a URL may be missing between two writes.
    """
    keys = sorted(changed)
    inside = {key: moves_to.get(key, frozenset()) & frozenset(keys) - {key} for key in keys}
    done: list[str] = []
    written: set[str] = set()
    waiting = dict(inside)
    while waiting:
        ready = [key for key, receivers in waiting.items() if receivers <= written]
        if not ready:
            circle = _circle({key: receivers - written for key, receivers in waiting.items()})
            ready = [min(circle, key=lambda key: (len(waiting[key] - written), key))]
        for key in ready:
            done.append(key)
            written.add(key)
            del waiting[key]
    return done


def _circle(gives: Mapping[str, frozenset[str]]) -> set[str]:
    """Files that give rows to each other and to no others, where every file gives some."""
    takes: dict[str, set[str]] = defaultdict(set)
    for giver, receivers in gives.items():
        for receiver in receivers:
            takes[receiver].add(giver)
    key = min(gives)
    while True:
        ahead, behind = _reached(key, gives), _reached(key, takes)
        if ahead <= behind:
            return ahead
        key = min(ahead - behind)


def _reached(key: str, edges: Mapping[str, Set[str]]) -> set[str]:
    """The keys that edges lead to from a key."""
    found: set[str] = set()
    waiting = [key]
    while waiting:
        new = edges.get(waiting.pop(), frozenset()) - found
        found |= new
        waiting += new
    return found
