"""Who is at it: a state's owner, its current set, the publish under way, the lease."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from sitemap_etl.state.records.base import INTENT_FORMAT, Document, Record, renamed
from sitemap_etl.state.records.mirrors import KnownRobots
from sitemap_etl.state.records.published import Retired
from sitemap_etl.state.records.run import MadeFrom


class LastRun(Record):
    """The run that ended last."""

    run_id: str
    at: str
    status: str


class Place(Record):
    """A public folder or bucket. `real`: without links, with the bucket's store; `written`: a folder's path."""

    real: str
    written: str | None = None

    def is_also(self, other: Place) -> bool:
        """Whether both are one: a folder may be reached by another way, or be linked to elsewhere."""
        return self.real == other.real or (self.written is not None and self.written == other.written)

    def was(self, to: str) -> bool:
        """Whether it may be what a manifest names, which knows neither links nor stores."""
        return to in ("", self.real, self.written) or (to.startswith("s3://") and self.real.startswith(f"{to} at "))


class Owner(Record):
    """Where the site of a state publishes to. `site_file` and `host` are for messages."""

    to: Place
    root: Place | None = None
    site_file: str = ""
    host: str = ""

    def is_also(self, other: Owner) -> bool:
        """Whether both publish to one place. Without a root, one that is added is no other."""
        roots = self.root is None or other.root is None or self.root.is_also(other.root)
        return roots and self.to.is_also(other.to)

    def describe(self) -> str:
        """The place in words."""
        root = "" if self.root is None or self.root.is_also(self.to) else f", with robots.txt in {self.root.real}"
        return f"{self.to.real}{root}"


class Current(Document):
    """What is published now, and while a publish is under way, its intent. Replaced by compare-and-swap only."""

    name: str
    site: str
    manifest: str | None = None
    pending: str | None = None
    last_run: LastRun | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)  # section → key of its mirror's generation
    versions: Mapping[str, str] = field(default_factory=dict)  # section of a table → hash of what it was made from
    made_from: Mapping[str, MadeFrom] = field(default_factory=dict)  # section → what it was made from
    owner: Owner | None = None  # None: a release that did not record it
    robots: KnownRobots | None = None  # the rules that hold where robots.txt does not answer
    suspect: Mapping[str, int] = field(default_factory=dict)  # intent of an interrupted publish → since when
    serial: int = 0  # of its swaps: no two of its versions are the same bytes, so that no condition on one holds again
    committed: tuple[str, ...] | None = None  # runs whose changes engines may hear, in order; None: not recorded

    title: ClassVar[str] = "state"


class Intent(Document):
    """The keys that a publish is about to write and delete. `suspect`: keys of interrupted ones, to be put again.

    `unmanaged`: key → ETag of objects of others that it, or they, had leave to replace. `numbers`: section → the number
    of its next file, past every one that is named here. `claim`: its own, so that no two intents are the same bytes.
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
    title: ClassVar[str] = "intent"

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        writes = list(data.get("writes", ()))  # up to format 2, a mapping from keys to hashes
        return {**renamed(data, doubtful="suspect", foreign="unmanaged"), "writes": writes}

    @property
    def touched(self) -> set[str]:
        """Every key that it may have written or deleted."""
        return {*self.writes, *(item.key for item in self.deletes), *self.suspect}

    def describe(self) -> str:
        return f"run {self.run_id}, since {self.at} ({self.by})"


class Lease(Document):
    """Who is at a site, since when, until when (by the store's clock)."""

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
        """Whether this is the run's own lease, or that of an earlier try of it."""
        return self.run_id == run_id or (owner != "" and self.owner == owner)


class Notification(Document):
    """What the engines are to hear of a run besides its changes. Addresses are public ones."""

    indexes: tuple[str, ...]
    changed_indexes: tuple[str, ...]
    retired_indexes: tuple[str, ...]
    feeds: tuple[str, ...]
    listed: int
    quiet_because: str | None
    by_hand: bool = False  # a person asked for it: no share of the site is too much
    covers: tuple[str, ...] = ()  # runs whose changes are among these
    changes_sha256: str | None = None  # of the bytes of its changes; None: format 1

    title: ClassVar[str] = "notification"
