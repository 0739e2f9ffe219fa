"""The claim: whose publish is under way, and which keys those that were broken off may have touched.

A publish first puts its intent, every key it will write or delete, and then swaps `current.json` to name
it. From then on it alone may write. A run that finds an intent there takes it over before it looks at
anything public; of the keys of a broken-off intent nothing is believed but the objects themselves. As its
process may only have been paused, that holds for two days: `state/broken-off/<run>.json` remembers them.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sitemap_etl.dates import instant
from sitemap_etl.errors import Refused
from sitemap_etl.manifest import manifest_key
from sitemap_etl.stages.run import Run
from sitemap_etl.state.changes import FOLDER as CHANGES
from sitemap_etl.state.store import CURRENT, GRACE, Current, dumps
from sitemap_etl.storage import PreconditionFailed

BROKEN_OFF: Final = "state/broken-off"


@dataclass(frozen=True)
class Intent:
    """What a publish is about to do. `doubtful`: keys that broken-off publishes before it may have touched.

    `foreign`: key → ETag of objects of others that it, or they, had leave to replace.
    """

    run_id: str
    base: str | None
    by: str  # who, for people
    at: str  # since when, by the store's clock
    writes: Mapping[str, Mapping[str, str | None]] = field(default_factory=dict)
    deletes: Sequence[Mapping[str, Any]] = ()
    robots: bool = False
    doubtful: Sequence[str] = ()
    foreign: Mapping[str, str | None] = field(default_factory=dict)
    broken_off: Sequence[str] = ()  # runs whose keys `doubtful` has
    number: int = 1  # of its run's claims

    @property
    def touched(self) -> set[str]:
        return {*self.writes, *(item["key"] for item in self.deletes), *self.doubtful}

    def describe(self) -> str:
        return f"run {self.run_id}, since {self.at} ({self.by})"


class Claim:
    """A run's right to publish. Raises Refused where another run was first or took over.

    `doubtful`, `foreign`: as in an intent. `took_over`: a publish stood open.
    """

    def __init__(self, run: Run, current: Current) -> None:
        if current.manifest != run.plan.base:
            raise Refused(
                f"Overtaken: this run started from {run.plan.base or 'an empty state'}, and "
                f"{_last(current)} was published meanwhile. Nothing public was touched; run again"
            )
        self.run = run
        self.current = current
        self.doubtful: set[str] = set()
        self.foreign: dict[str, str | None] = {}
        self.took_over = False
        self._number = 0
        self._broken_off: list[str] = []

    def settle(self) -> None:
        """Find out what broken-off publishes may have touched. One that stands open is taken over."""
        self._recall()
        if self.current.pending is not None:
            self._take_over(self.current.pending)

    def _recall(self) -> None:
        """The keys of publishes that were taken over lately."""
        work = self.run.work
        young = work.now() - GRACE
        for stat in work.list(f"{BROKEN_OFF}/"):
            stored = work.get(stat.key) if stat.modified > young else None
            if stored is not None:
                told = json.loads(stored.data)
                self.doubtful |= set(told["keys"])
                self.foreign |= told["foreign"]
                self._unsay(told["run_id"])

    def _take_over(self, pending: str) -> None:
        """Make the claim ours, so that its run can write no more, and remember what it may have touched."""
        intent = read_intent(self.run, pending)
        if intent is None:
            raise Refused(
                f"{self.run.work.url_of(pending)} is gone, though {CURRENT} names it. Restore it from a backup of the "
                f"state; without one, set `pending` in {CURRENT} to null and run with --adopt"
            )
        self.run.environment.log(f"the publish of {intent.describe()}, was broken off: this run goes on from it")
        own = self.run.run_id
        if intent.run_id == own:
            self._number = intent.number
        self.doubtful |= intent.touched
        self.foreign |= intent.foreign
        self._broken_off = sorted({*intent.broken_off, intent.run_id} - {own})
        self.take()
        self.took_over = True
        for run_id in self._broken_off:
            told = {
                "run_id": run_id,
                "keys": sorted(intent.touched),
                "foreign": dict(intent.foreign),
                "taken_over_by": own,
            }
            self.run.work.put(f"{BROKEN_OFF}/{run_id}.json", dumps(told), content_type="application/json")
            self._unsay(run_id)

    def _unsay(self, run_id: str) -> None:
        """No engine may hear of changes that were never published."""
        for stat in list(self.run.work.list(f"{CHANGES}/{run_id}/")):
            self.run.work.delete(stat.key)

    def take(
        self,
        writes: Mapping[str, Mapping[str, str | None]] | None = None,
        deletes: Sequence[Mapping[str, Any]] = (),
        *,
        robots: bool = False,
    ) -> None:
        """Claim the publish for these keys. From here on no other run may write, and the next one knows of them."""
        work = self.run.work
        self._number += 1
        # A number of its own for each claim: an earlier try of this very run must not take this claim for its own.
        key = f"state/intent-{self.run.run_id}{'' if self._number == 1 else f'-{self._number}'}.json"
        intent = Intent(
            self.run.run_id,
            self.run.plan.base,
            self.run.plan.owner or f"process {os.getpid()} on {socket.gethostname()}",
            instant(work.now()),
            writes or {},
            deletes,
            robots,
            sorted(self.doubtful),
            self.foreign,
            self._broken_off,
            self._number,
        )
        work.put(key, dumps(asdict(intent)), content_type="application/json")
        self._swap(pending=key)

    def hold(self) -> None:
        """Stop where the claim is no longer ours."""
        now = self.run.state.current()
        if now.pending != self.current.pending:
            raise Refused(self._overtaken(now))

    def commit(self, status: str, **changes: Any) -> None:
        """Swap `current.json` to what this run leaves."""
        self._swap(**changes, last_run={"run_id": self.run.run_id, "at": self.run.plan.now, "status": status})

    def _swap(self, **changes: Any) -> None:
        try:
            self.current = self.run.state.swap(self.current, **changes)
        except PreconditionFailed as error:
            raise Refused(self._overtaken(self.run.state.current())) from error

    def _overtaken(self, now: Current) -> str:
        intent = None if now.pending is None else read_intent(self.run, now.pending)
        who = f"{_last(now)} was published" if intent is None else f"{intent.describe()}, claimed the publish"
        return (
            f"Overtaken: {who} while run {self.run.run_id} was under way. This run wrote nothing public after that; "
            "the other one decides what is published"
        )


def read_intent(run: Run, key: str) -> Intent | None:
    """An intent by its key; None where it is gone."""
    stored = run.work.get(key)
    return None if stored is None else Intent(**json.loads(stored.data))


def _last(current: Current) -> str:
    """The run that published last, in words."""
    last = current.last_run
    if last is not None and current.manifest == manifest_key(last["run_id"]):
        return f"run {last['run_id']}, of {last['at']},"
    return f"{current.manifest}"
