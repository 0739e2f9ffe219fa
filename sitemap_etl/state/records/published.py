"""What is published: the set, and what the engines heard of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, Final, Literal, TypeAlias

from sitemap_etl.state.records.base import Document, Record, Summed, renamed

GateStatus: TypeAlias = Literal["ok", "warned", "refused", "forced"]
ChangeKind: TypeAlias = Literal["added", "changed", "removed"]


class Counts(Summed):
    """A section's rows. `extracted + carried = listed + duplicates + excluded + rejected`."""

    extracted: int = 0
    carried: int = 0
    listed: int = 0
    duplicates: int = 0
    excluded: int = 0
    rejected: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0

    def of(self, name: str) -> int:
        """One of the counts by its name in `COUNTED`."""
        count: int = getattr(self, name)
        return count


COUNTED: Final = tuple(entry.name for entry in fields(Counts) if entry.name != "unknown")
"""The names of the counts, in the order in which they are shown."""


class Gate(Record):
    """One gate's outcome. `value` and `limit` are shares, or URLs for `min_urls`."""

    name: str  # products.max_drop; without a section: of the site
    status: GateStatus
    value: float
    limit: float
    message: str


class File(Record):
    """One published object: `bytes` and `sha256` of what a reader sees inflated, `stored*` of the object."""

    key: str
    bytes: int
    sha256: str
    stored: int
    stored_sha256: str
    etag: str | None
    lastmod: str  # when the inflated bytes last changed, YYYY-MM-DDThh:mm:ssZ


class Entry(Record):
    """One shard: the locs from `low` up to the next shard's, in `file` (and `text`)."""

    section: str
    number: int
    low: str
    first: str
    last: str
    rows: int
    body: int  # bytes of its entries, without the wrapper
    index: int  # 1 is sitemap.xml, 2 is sitemap-2.xml
    file: File
    snapshot: str
    since: int | None = None  # newest `since` of its rows, epoch seconds
    text: File | None = None
    undated: int | None = None  # rows without a lastmod; None: not recorded
    days: tuple[int, ...] | None = None  # least, deciles and greatest of the lastmods, in days since 1970, of a sample


class Index(Record):
    """One published sitemap index."""

    number: int
    file: File


class Retired(Record):
    """A file of ours that is no longer listed and is deleted after the grace: only with this ETag."""

    key: str
    etag: str | None
    at: int  # epoch seconds, by the clock of `work`


class Former(Record):
    """Bytes that a key had until lately: should they come back, then with a fence (`render.fence`).

    `stored`: the first digits of their SHA-256 without a fence; empty where the key was deleted: whatever comes back.
    """

    key: str
    stored: str
    at: int  # epoch seconds, by the clock of `work`


class SectionState(Record):
    """What a section carries from run to run."""

    next_number: int = 1
    rule: str | None = None  # id of its fingerprint's definition
    kinds: tuple[tuple[str, str], ...] | None = None  # of the fingerprint's columns; None: format 1, or no rule
    listed: int = 0
    view: bool = False
    dated: bool = True  # whether its rule gives lastmods; where it does not, a page changes with what else it shows
    removed_lately: str | None = None  # snapshot of rows that left in the last 30 days
    undone: str | None = None  # after a rollback: snapshot of listed rows as they were read last; until they are again
    top: str | None = None  # snapshot of the rows its feeds show
    mirror: str | None = None  # key of the generation of its mirror that it was made from

    def beside(self) -> tuple[str, ...]:
        """The keys of its snapshots, but for those of its files."""
        return tuple(key for key in (self.removed_lately, self.undone, self.top) if key is not None)


class SetSize(Record):
    """How much a set of the last seven days listed."""

    at: str
    site: int
    sections: Mapping[str, int]


class Answered(Document):
    """What an engine answered to a submission (see engines.Answer), or `failed`: it could not even be asked."""

    engine: str
    status: Literal["accepted", "nothing", "skipped", "partial", "refused", "unavailable", "failed"]
    sent: int
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    title: ClassVar[str] = "answer of an engine"

    @property
    def failed(self) -> bool:
        """Whether something was refused, unanswered or not even asked."""
        return self.status in ("partial", "refused", "unavailable", "failed")

    @property
    def pending(self) -> bool:
        """Whether the engine has yet to hear of it."""
        return self.status in ("unavailable", "failed")


class LedgerRun(Record):
    """What an engine has yet to hear of a run (see engines.backlog.Waiting)."""

    run: str
    position: int
    held: str
    rows: int
    mark: int | None


class LedgerRequest(Record):
    """What was sent in one request of the last minutes (see engines.backlog.Recent)."""

    at: float  # epoch seconds
    answered: bool
    hashes: str


class LedgerDay(Record):
    """How many URLs were sent on a day."""

    day: str
    sent: int


class LedgerData(Record):
    """What is remembered of an engine between runs. The engines read and write it (see engines.ledger)."""

    format: int = 1
    runs: tuple[str, ...] = ()
    waiting: tuple[LedgerRun, ...] = ()
    recent: tuple[LedgerRequest, ...] = ()
    today: LedgerDay | None = None
    owed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # addresses that are pending, by kind
    not_before: str | None = None


class Manifest(Document):
    """A published set: written last, it is what a publish commits.

    Every file of the public set has its place here: what is in it, by which name, since when its bytes are as they
    are. The next run compares against it and against the snapshots it names; a rollback renders an older one anew.
    """

    name: str
    site: str
    run_id: str
    now: str
    to: str = ""  # where the files are
    carry: str = ""  # what objects in a bucket carry besides their bytes: encryption and caching; empty: not known
    base: str | None = None
    sections: Mapping[str, SectionState] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)  # of sections that left or are views: of their next file
    entries: tuple[Entry, ...] = ()
    indexes: tuple[Index, ...] = ()
    extras: tuple[File, ...] = ()  # feeds: published, but in no index
    retired: tuple[Retired, ...] = ()
    former: tuple[Former, ...] = ()
    counts: Mapping[str, Counts] = field(default_factory=dict)
    history: tuple[SetSize, ...] = ()  # of the last seven days
    gates: tuple[Gate, ...] = ()
    forced: tuple[str, ...] = ()
    reason: str | None = None
    rolled_back_to: str | None = None
    indexing: Mapping[str, Answered] = field(default_factory=dict)  # what the engines answered, added after the commit
    distinct: bool = False  # whether it was made sure that no loc stands twice outside views

    title: ClassVar[str] = "manifest"

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        sections = {name: renamed(state, departed="removed_lately") for name, state in data["sections"].items()}
        return {**data, "sections": sections}

    def of(self, section: str) -> list[Entry]:
        """The section's shards in the order of their ranges."""
        return [entry for entry in self.entries if entry.section == section]

    def files(self) -> Iterator[File]:
        """Every public object of the set."""
        for entry in self.entries:
            yield entry.file
            if entry.text is not None:
                yield entry.text
        for index in self.indexes:
            yield index.file
        yield from self.extras

    @property
    def listed(self) -> int:
        return sum(state.listed for state in self.sections.values() if not state.view)


def same_set(one: Manifest, other: Manifest) -> bool:
    """Whether two manifests publish the same inflated bytes under the same names."""
    return {f.key: f.sha256 for f in one.files()} == {f.key: f.sha256 for f in other.files()}
