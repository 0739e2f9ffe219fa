"""Records of the current release, of publishes in progress, of the state's owner and of the lease."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from sitemap_etl.state.records.base import FORMAT, INTENT_FORMAT, Document, Record
from sitemap_etl.state.records.mirrors import KnownRobots
from sitemap_etl.state.records.published import Retired
from sitemap_etl.state.records.run import MadeFrom


class LastRun(Record):
    """The run that ended last. Read by `publish.claim` to name it in messages and to detect newer reads."""

    run_id: str  # id of the run
    at: str  # the run's `now`
    status: str  # published or unchanged


class Place(Record):
    """A public folder or bucket."""

    real: str
    written: str | None = None

    def is_also(self, other: Place) -> bool:
        """Return True if both are the same place: their resolved or their written paths are equal."""
        return self.real == other.real or (self.written is not None and self.written == other.written)

    def was(self, to: str) -> bool:
        """Return True if `to` of a manifest can mean this place. Manifests have no resolved paths and no endpoints."""
        return to in ("", self.real, self.written) or (to.startswith("s3://") and self.real.startswith(f"{to} at "))


class Owner(Record):
    """The places that the site of a state publishes to. Another site or place is refused (`State.held`)."""

    to: Place  # `publish.to`
    root: Place | None = None  # `publish.root`, if there is one
    site_file: str = ""  # path of the site file, for messages
    host: str = ""  # name of the machine that wrote it, for messages

    def is_also(self, other: Owner) -> bool:
        """Return True if both publish to the same place. A root counts only if both have one."""
        roots = self.root is None or other.root is None or self.root.is_also(other.root)
        return roots and self.to.is_also(other.to)

    def describe(self) -> str:
        """Return the place for messages."""
        root = "" if self.root is None or self.root.is_also(self.to) else f", with robots.txt in {self.root.real}"
        return f"{self.to.real}{root}"


class Current(Document):
    """`state/current.json`: the current release and the publish in progress. Written by compare-and-swap only."""

    name: str
    site: str
    manifest: str | None = None
    pending: str | None = None
    last_run: LastRun | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)  # section → key of its mirror's generation
    versions: Mapping[str, str] = field(default_factory=dict)  # section of a table → hash of its inputs
    made_from: Mapping[str, MadeFrom] = field(default_factory=dict)  # section → its inputs
    owner: Owner | None = None  # None: a state that was repaired
    robots: KnownRobots | None = None  # the rules that hold where robots.txt does not answer
    suspect: Mapping[str, int] = field(default_factory=dict)  # intent of an interrupted publish → since when
    serial: int = 0  # of its swaps: no two of its versions are the same bytes, so that no condition on one holds again
    committed: tuple[str, ...] | None = None  # runs whose changes can be sent to engines, in order; None: not recorded

    title: ClassVar[str] = "state"


class Intent(Document):
    """The keys that a publish is going to write and delete. It is stored before the first public write.

    A run that takes over an interrupted publish reads it (`publish.claim`).
    """

    run_id: str
    base: str | None
    by: str  # who, for people
    at: str  # since when, by the store's clock
    writes: tuple[str, ...] = ()
    deletes: tuple[Retired, ...] = ()
    robots: bool = False
    suspect: tuple[str, ...] = ()
    unmanaged: Mapping[str, str | None] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    number: int = 1  # of its run's claims
    claim: str = ""
    format: int = field(default=INTENT_FORMAT, kw_only=True)

    newest: ClassVar[int] = INTENT_FORMAT
    oldest: ClassVar[int] = FORMAT
    title: ClassVar[str] = "intent"

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**data, "writes": list(data.get("writes", ()))}  # up to format 2, a mapping from keys to hashes

    @property
    def touched(self) -> set[str]:
        """The keys that the publish can have written or deleted."""
        return {*self.writes, *(item.key for item in self.deletes), *self.suspect}

    def describe(self) -> str:
        return f"run {self.run_id}, since {self.at} ({self.by})"


class Lease(Document):
    """`state/lease.json`: the run that works on the site. All times are by the store's clock."""

    run_id: str
    since: str
    until: str
    host: str
    pid: int
    owner: str = ""

    title: ClassVar[str] = "lease"

    def describe(self) -> str:
        who = self.owner or f"process {self.pid} on {self.host}"
        return f"run {self.run_id}, since {self.since} ({who})"

    def is_of(self, run_id: str, owner: str) -> bool:
        """Return True if the run holds this lease, or an earlier try of the run does."""
        return self.run_id == run_id or (owner != "" and self.owner == owner)


class Notification(Document):
    """The part of a submission to engines that is not changes. All addresses are public URLs."""

    indexes: tuple[str, ...]
    changed_indexes: tuple[str, ...]
    retired_indexes: tuple[str, ...]
    feeds: tuple[str, ...]
    listed: int
    quiet_because: str | None
    by_hand: bool = False  # a person asked for it: no share of the site is too much
    covers: tuple[str, ...] = ()  # runs whose changes are among these
    changes_sha256: str | None = None  # of the bytes of its changes

    title: ClassVar[str] = "notification"
