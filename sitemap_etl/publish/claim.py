"""The claim: whose publish is under way, and which keys those that were interrupted may have touched.

A publish first puts its intent, every key it will write or delete, and then swaps `current.json` to name
it. From then on it alone may write. A run that finds an intent there takes it over before it looks at
anything public; of the keys of an interrupted publish nothing is believed but the objects themselves. As its
process may only have been paused, that holds for two days: `state/interrupted/<run>.json` remembers them.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import replace

from sitemap_etl.dates import instant
from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.changes import committed_with
from sitemap_etl.state.records import Current, Intent, Interrupted, Retired, Write
from sitemap_etl.state.store import GRACE, Held, ended, put_document, read_document
from sitemap_etl.storage import PreconditionFailed


class Claim:
    """A run's right to publish. Raises Refused where another run was first or took over.

    `suspect`, `unmanaged`: as in an intent. `took_over`: an interrupted publish was under way.
    """

    def __init__(self, run: Run, held: Held) -> None:
        if held.current.manifest != run.plan.base:
            raise Refused(
                f"Overtaken: this run started from {run.plan.base or 'an empty state'}, and "
                f"{_last(held.current)} was published in the meantime. Nothing public was touched; run again"
            )
        self.run = run
        self.held = held
        self.suspect: set[str] = set()
        self.unmanaged: dict[str, str | None] = {}
        self.took_over = False
        self._number = 0
        self._interrupted: tuple[str, ...] = ()

    def settle(self) -> None:
        """Find out what interrupted publishes may have touched. One that is still under way is taken over."""
        self._recall()
        if self.held.current.pending is not None:
            self._take_over(self.held.current.pending)

    def _recall(self) -> None:
        """The keys of publishes that were taken over lately."""
        work = self.run.work
        young = work.now() - GRACE
        for stat in [stat for prefix in layout.INTERRUPTED for stat in work.list(prefix)]:
            found = read_document(work, stat.key, Interrupted) if stat.modified > young else None
            if found is not None:
                self.suspect |= set(found[0].keys)
                self.unmanaged |= found[0].unmanaged
                self._forget_changes(found[0].run_id)

    def _take_over(self, pending: str) -> None:
        """Make the claim ours, so that its run can write no more, and remember what it may have touched."""
        intent = read_intent(self.run, pending)
        if intent is None:
            raise DamagedState(
                f"{self.run.work.url_of(pending)} is missing, although {layout.CURRENT} refers to it. Restore it "
                f"from a backup of the state; without one, set `pending` in {layout.CURRENT} to null, remove its "
                "`checksum`, and run with --adopt"
            )
        self.run.environment.log(f"the publish of {intent.describe()}, was interrupted: this run continues from it")
        own = self.run.run_id
        if intent.run_id == own:
            self._number = intent.number
        self.suspect |= intent.touched
        self.unmanaged |= intent.unmanaged
        self._interrupted = tuple(sorted({*intent.interrupted, intent.run_id} - {own}))
        self.take()
        self.took_over = True
        for run_id in self._interrupted:
            record = Interrupted(run_id, tuple(sorted(intent.touched)), dict(intent.unmanaged), own)
            put_document(self.run.work, layout.interrupted(run_id), record)
            self._forget_changes(run_id)

    def _forget_changes(self, run_id: str) -> None:
        """No engine may hear of changes that were never published."""
        for stat in list(self.run.work.list(f"{layout.CHANGES}{run_id}/")):
            self.run.work.delete(stat.key)

    def take(
        self, writes: Mapping[str, Write] | None = None, deletes: Sequence[Retired] = (), *, robots: bool = False
    ) -> None:
        """Claim the publish for these keys. From here on no other run may write, and the next one knows of them."""
        work = self.run.work
        self._number += 1
        intent = Intent(
            self.run.run_id,
            self.run.plan.base,
            self.run.plan.owner or f"process {os.getpid()} on {socket.gethostname()}",
            instant(work.now()),
            writes or {},
            tuple(deletes),
            robots,
            tuple(sorted(self.suspect)),
            self.unmanaged,
            self._interrupted,
            self._number,
        )
        key = layout.intent(self.run.run_id, self._number)
        put_document(work, key, intent)
        self._swap(replace(self.held.current, pending=key))

    def hold(self) -> None:
        """Stop where the claim is no longer ours."""
        now = self.run.state.current()
        if now.pending != self.held.current.pending:
            raise Refused(self._overtaken(now))

    def end(self, status: str, mirrors: Mapping[str, str | None], manifest: str | None = None) -> None:
        """Swap `current.json` to what this run leaves: with `manifest`, a new set is committed.

        `mirrors`: section → key of its mirror's generation from now on; None: it has none. Others stay.
        """
        current = ended(self.held.current, self.run.run_id, self.run.plan.now, status)
        both = {**current.mirrors, **mirrors}
        kept = {name: key for name, key in both.items() if key is not None and name in self.run.site.sections}
        robots = self.run.plan.known_robots
        current = replace(current, mirrors=kept, robots=current.robots if robots is None else robots)
        if manifest is not None:
            committed = committed_with(self.run.state, current, self.run.run_id)
            current = replace(current, manifest=manifest, pending=None, committed=committed)
        self._swap(current)

    def _swap(self, new: Current) -> None:
        try:
            self.held = self.run.state.swap(self.held, self.run.state.owned(new))
        except PreconditionFailed as error:
            raise Refused(self._overtaken(self.run.state.current())) from error

    def _overtaken(self, now: Current) -> str:
        intent = None if now.pending is None else read_intent(self.run, now.pending)
        who = f"{_last(now)} was published" if intent is None else f"{intent.describe()}, claimed the publish"
        return (
            f"Overtaken: {who} while run {self.run.run_id} was in progress. This run wrote nothing public after that; "
            "the other run decides what is published"
        )


def read_intent(run: Run, key: str) -> Intent | None:
    """An intent by its key; None where it is gone."""
    found = read_document(run.work, key, Intent)
    return None if found is None else found[0]


def _last(current: Current) -> str:
    """The run that published last, in words."""
    last = current.last_run
    if last is not None and current.manifest == layout.manifest(last.run_id):
        return f"run {last.run_id}, of {last.at},"
    return f"{current.manifest}"
