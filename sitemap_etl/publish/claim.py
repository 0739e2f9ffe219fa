"""The claim: a run's exclusive right to publish, and the keys that interrupted publishes can have touched.

A publish first stores its intent, with all keys that it will write or delete. Then it swaps `current.json` to name the
intent. From then on no other run can write. A run that finds an intent takes it over before it reads anything public.

Late requests of the interrupted publish can still arrive, and their conditions match if old bytes return. So the new
run writes all listed keys of that intent again, with a fence (`render.fence`). `current.json` remembers the intent.
Each run checks its keys until one run, at least two days later, has found all of them correct.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sitemap_etl.advice import SITE_FILE
from sitemap_etl.dates import instant
from sitemap_etl.errors import DamagedState, Refused, Unavailable
from sitemap_etl.publish.retention import kept_manifests
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import read_attempt
from sitemap_etl.state.changes import committed_with
from sitemap_etl.state.lease import holder
from sitemap_etl.state.records import Current, Intent, MadeFrom, Retired
from sitemap_etl.state.store import GRACE, Held, ended, put_document, read_document
from sitemap_etl.storage import ABSENT, PreconditionFailed

_REFUSALS: Final = 10
"""Intents that a store can refuse although they don't exist, for example while a request of an earlier try is in
progress.
"""


class Overtaken(Refused):
    """Another run was first, or has taken over."""


class Claim:
    """A run's right to publish. Methods raise Overtaken if another run was first or has taken over."""

    def __init__(self, run: Run, held: Held) -> None:
        demand_base(run, held.current)
        self.run = run
        self.held = held
        self.to_repeat: set[str] = set()
        self.watched: set[str] = set()
        self.robots = False
        self.unmanaged: dict[str, str | None] = {}
        self.numbers: dict[str, int] = {}
        self.took_over = False
        self._etag: str | None = None  # the ETag of `current.json` when it was last known to name our claim
        self._number = 0
        self._watched: dict[str, frozenset[str]] = {}  # intent → its keys

    @property
    def mark(self) -> str:
        """Text for the fence of this claim's writes, unique among all claims."""
        return f"{self.run.run_id}-{self._number}"

    def find_interrupted(self) -> None:
        """Find the keys that interrupted publishes can have touched. A publish in progress is taken over."""
        grace = int(self.run.work.now().timestamp()) - GRACE.total_seconds()
        for key, since in self.held.current.suspect.items():
            if since <= grace and self.run.work.stat(key) is None:
                continue  # an earlier version without this field has removed it
            intent = self._intent(key)
            self._watched[key] = frozenset(intent.touched)
            self.watched |= intent.touched
            self._recall(intent)
            self._forget_changes(intent)
        if self.held.current.pending is not None:
            self._take_over(self.held.current.pending)

    def _take_over(self, pending: str) -> None:
        """Claim the publish, so that the other run can't write any more, and remember the keys that it can have
        touched.
        """
        intent = self._intent(pending)
        self.run.environment.log(f"the publish of {intent.describe()}, was interrupted: this run continues from it")
        if intent.run_id == self.run.run_id:
            self._number = intent.number
        self.to_repeat |= intent.touched
        self.robots = intent.robots
        self._recall(intent)
        since = int(self.run.work.now().timestamp())
        self.held = replace(
            self.held,
            current=replace(self.held.current, suspect={**self.held.current.suspect, pending: since}),
        )
        self.take()
        self.took_over = True
        self._forget_changes(intent)

    def _intent(self, key: str) -> Intent:
        intent = read_intent(self.run, key)
        if intent is None:
            raise DamagedState(
                f"{self.run.work.url_of(key)} is missing, although {layout.CURRENT} refers to it. Restore it from a "
                f"backup of the state. Without one, run sitemap-etl state verify {SITE_FILE} --repair, which forgets "
                "it, and then run with --full --adopt"
            )
        return intent

    def _recall(self, intent: Intent) -> None:
        """Add the unmanaged objects and file numbers of an interrupted publish."""
        self.unmanaged |= intent.unmanaged
        for name, number in intent.numbers.items():
            self.numbers[name] = max(number, self.numbers.get(name, 1))

    def _forget_changes(self, intent: Intent) -> None:
        """Delete the changes of a run that never published them, so that no engine is notified."""
        run = self.run
        if intent.run_id == run.run_id:
            return
        changes = list(run.work.list(f"{layout.CHANGES}{intent.run_id}/"))
        if changes and not self._was_committed(intent):
            for stat in changes:
                run.work.delete(stat.key)

    def _was_committed(self, intent: Intent) -> bool:
        """Return True if the run published its release, even if it died before it reported so."""
        committed = self.held.current.committed
        if committed is not None:
            return intent.run_id in committed
        own = layout.manifest(intent.run_id)
        return any(key == own for key, _ in kept_manifests(self.run.state, self.run.site.keep))

    def take(
        self,
        writes: Sequence[str] = (),
        deletes: Sequence[Retired] = (),
        *,
        robots: bool = False,
        numbers: Mapping[str, int] | None = None,
    ) -> None:
        """Claim the publish for these keys. From here on no other run may write, and the next one finds them.

        `numbers`: as in an intent, of what is written.
        """
        work = self.run.work
        intent = Intent(
            run_id=self.run.run_id,
            base=self.run.plan.base,
            by=self.run.plan.owner or f"process {os.getpid()} on {socket.gethostname()}",
            at=instant(work.now()),
            writes=tuple(writes),
            deletes=tuple(deletes),
            robots=robots or self.robots,
            suspect=tuple(sorted(self.to_repeat)),
            unmanaged=self.unmanaged,
            numbers={**self.numbers, **(numbers or {})},
            claim=secrets.token_hex(8),
        )
        refusals = 0
        while True:
            self._number += 1
            key = layout.intent(self.run.run_id, self._number)
            try:
                put_document(work, key, replace(intent, number=self._number), expect=ABSENT)
            except PreconditionFailed as error:  # of an earlier try of this run, or on its way from one
                refusals += error.found is None
                if refusals < _REFUSALS:
                    continue
                raise Unavailable(
                    f"{work.url} refuses objects that do not exist yet, {key} and {refusals - 1} before it. Nothing "
                    "was published; run again. If that does not help, the store's conditional writes are broken"
                ) from error
            break
        self._swap(replace(self.held.current, pending=key))

    def clear_repeated(self) -> None:
        """Record that everything to write again has been committed."""
        self.to_repeat, self.robots = set(), False

    def unwatch(self, is_clean: Callable[[str], bool]) -> None:
        """Stop checking interrupted publishes that are at least two days old and whose keys are all correct."""
        now = int(self.run.work.now().timestamp())
        suspect = {
            key: since
            for key, since in self.held.current.suspect.items()
            if now - since < GRACE.total_seconds() or not all(map(is_clean, self._watched.get(key, ())))
        }
        self.held = replace(self.held, current=replace(self.held.current, suspect=suspect))

    def hold(self) -> None:
        """Raise Overtaken if the claim is no longer ours. `current.json` is read only if its ETag differs."""
        stat = self.run.work.stat(layout.CURRENT)
        if stat is not None and stat.etag == self._etag and not _is_weak(stat.etag):
            return
        now = self.run.state.held()
        if now.current.pending != self.held.current.pending:
            raise Overtaken(self._overtaken(now.current))
        self._etag = now.etag

    def end(
        self,
        status: str,
        mirrors: Mapping[str, str | None],
        versions: Mapping[str, str | None],
        made_from: Mapping[str, MadeFrom | None],
        manifest: str | None = None,
    ) -> None:
        """Swap `current.json` to the result of this run. `manifest`: key of the release to commit.

        `mirrors`: section → key of its mirror version, or None for no mirror. `versions`: section → digest of its table
        version and rules (`stages.tables`), or None. `made_from`: section → its digests (`stages.decide`), or
        None. Other sections keep their values.
        """
        current = ended(self.held.current, self.run.run_id, self.run.plan.now, status)
        sections = self.run.site.sections
        both = {**current.mirrors, **mirrors}
        kept = {name: key for name, key in both.items() if key is not None and name in sections}
        of_tables = {**current.versions, **versions}
        rows = {**current.made_from, **made_from}
        robots = self.run.plan.known_robots
        current = replace(
            current,
            mirrors=kept,
            versions={name: one for name, one in of_tables.items() if one is not None and name in sections},
            made_from={name: one for name, one in rows.items() if one is not None and name in sections},
            robots=current.robots if robots is None else robots,
        )
        if manifest is not None:
            committed = committed_with(self.run.state, current, self.run.run_id)
            current = replace(current, manifest=manifest, pending=None, committed=committed)
        self._swap(current)

    def _swap(self, new: Current) -> None:
        try:
            self.held = self.run.state.swap(self.held, self.run.state.owned(new))
            self._etag = self.held.etag
        except PreconditionFailed as error:
            raise Overtaken(self._overtaken(self.run.state.current())) from error

    def _overtaken(self, now: Current) -> str:
        intent = None if now.pending is None else read_intent(self.run, now.pending)
        if intent is not None and intent.run_id != self.run.run_id:
            who = f"{intent.describe()}, claimed the publish"
        elif now.manifest != self.run.plan.base:
            who = f"{_last(now)} was published"
        else:
            who = "another run took over"
        return (
            f"Overtaken: {who} while run {self.run.run_id} was in progress. This run wrote nothing public after that; "
            "the other run decides what is published"
        )


def demand_base(run: Run, current: Current) -> None:
    """Raise Overtaken if the published release is no longer the one that the run was compared with."""
    if current.manifest != run.plan.base:
        raise Overtaken(
            f"Overtaken: this run started from {run.plan.base or 'an empty state'}, and {_last(current)} was published "
            "in the meantime. Nothing public was touched; run again"
        )


def demand_newest(run: Run) -> None:
    """Raise `Overtaken` if another run has since read some of the same sections and found no changes. Its data is
    newer.
    """
    current, before = run.state.current(), run.plan.before
    last = current.last_run
    if before is None or last is None or current.manifest != run.plan.base or last.run_id in (before, run.run_id):
        return
    ended = read_attempt(run.work, last.run_id)
    asked = () if ended is None else ended.options.sections
    if asked and set(asked).isdisjoint(run.read_sections()):
        return
    raise Overtaken(
        f"Overtaken: run {last.run_id}, of {last.at}, has read the sources since run {run.run_id} did, and found that "
        "nothing had changed. Nothing public was touched; run again"
    )


def demand_own_lease(run: Run) -> None:
    """Raise `Overtaken` if another run has taken over the lease. This run then counts as ended."""
    other = holder(run.work)
    if other is not None and other.run_id != run.run_id:
        raise Overtaken(
            f"Overtaken: {other.describe()}, took over while run {run.run_id} was in progress. Nothing public was "
            "touched; that run decides what is published"
        )


def read_intent(run: Run, key: str) -> Intent | None:
    """Return an intent by its key, or None if it is gone."""
    found = read_document(run.work, key, Intent)
    return None if found is None else found[0]


def _is_weak(etag: str | None) -> bool:
    """Return whether other bytes can have this ETag too."""
    return etag is None or etag.startswith("W/")


def _last(current: Current) -> str:
    """Return the name of the run that published last."""
    last = current.last_run
    if last is not None and current.manifest == layout.manifest(last.run_id):
        return f"run {last.run_id}, of {last.at},"
    return f"{current.manifest}"
