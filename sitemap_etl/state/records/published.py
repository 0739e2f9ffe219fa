"""Records of a release: its manifest, sections, files, gates, and the answers of engines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, Final, Literal, TypeAlias

from sitemap_etl.state.records.base import Document, Record, Summed

GateStatus: TypeAlias = Literal["ok", "warned", "refused", "forced"]
ChangeKind: TypeAlias = Literal["added", "changed", "removed"]


class Counts(Summed):
    """Numbers of a section's rows and URLs. `extracted + carried = listed + duplicates + excluded + rejected`."""

    extracted: int = 0  # rows read from the source
    carried: int = 0  # rows reused from a mirror or from the last release
    listed: int = 0  # URLs in the section's files
    duplicates: int = 0  # rows whose URL another row lists
    excluded: int = 0  # rows that a rule leaves out on purpose
    rejected: int = 0  # rows that can't be listed, such as invalid URLs
    added: int = 0  # listed URLs that no section listed before
    changed: int = 0  # listed URLs with a new lastmod, or other content if the section has no lastmod
    removed: int = 0  # URLs of the last release that no section lists now

    def of(self, name: str) -> int:
        """Return one of the counts by its name in `COUNTED`."""
        count: int = getattr(self, name)
        return count


COUNTED: Final = tuple(entry.name for entry in fields(Counts) if entry.name != "unknown")
"""The names of the counts, in the order in which they are shown."""


class Gate(Record):
    """The outcome of one gate."""

    name: str  # products.max_drop; without a section: of the site
    status: GateStatus
    value: float
    limit: float
    message: str


class File(Record):
    """One public object."""

    key: str  # key under `publish.to`
    bytes: int  # size, uncompressed
    sha256: str  # SHA-256 of the uncompressed content, without a fence
    stored: int  # size of the object as stored
    stored_sha256: str  # SHA-256 of the object as stored, with its fence
    etag: str | None  # ETag after the write; None before it
    lastmod: str  # time of the last change of the uncompressed content, YYYY-MM-DDThh:mm:ssZ


class Entry(Record):
    """One shard of a section and its files. It lists the locs from `low` up to the next shard's `low`."""

    section: str  # section, or `recent`
    number: int  # number in the file name; never used again for other files, except in views
    low: str  # first loc of the range; empty for the section's first shard
    first: str  # first listed loc
    last: str  # last listed loc
    rows: int  # listed URLs
    body: int  # bytes of the entries in the XML, without the wrapper
    index: int  # number of the sitemap index that lists it: 1 is sitemap.xml, 2 is sitemap-2.xml
    file: File  # sitemap file
    snapshot: str  # key of the published rows (`frames.SNAPSHOT`); empty for files of recent changes
    since: int | None = None  # newest `since` of the rows, epoch seconds; read for the files of recent changes
    text: File | None = None  # text sitemap, for `formats: [text]`
    undated: int | None = None  # rows without a lastmod; None if not recorded; shown in the report
    # Minimum, deciles and maximum of the lastmods in a sample, in days since 1970. The report shows ages from them.
    days: tuple[int, ...] | None = None


class Index(Record):
    """One published sitemap index."""

    number: int  # 1 is sitemap.xml, 2 is sitemap-2.xml
    file: File  # index file


class Retired(Record):
    """A file that no index lists any more. It is deleted two days later."""

    key: str  # key under `publish.to`
    etag: str | None  # the delete is conditional on this ETag; without one the file stays
    at: int  # time of its removal from the indexes, epoch seconds by the clock of the state's store


class Former(Record):
    """Bytes that a key had until recently. If they come back, they get a fence (`render.fence`).

    `stored`: the first digits of their SHA-256 without a fence; empty if the key was deleted, so any bytes get a fence.
    """

    key: str
    stored: str
    at: int  # epoch seconds, by the clock of `work`


class SectionState(Record):
    """The state of a section in a release. The next run reads it."""

    next_number: int = 1  # number of the next new file; it never goes down
    rule: str | None = None  # digest of the fingerprint's definition; a new one resets fingerprints
    kinds: tuple[tuple[str, str], ...] | None = None  # fingerprint's columns and types; None: no rule
    listed: int = 0  # listed URLs
    view: bool = False  # True if the section is a view
    dated: bool = True  # True if it has a lastmod rule; without one, other content counts as a change
    removed_lately: str | None = None  # key of rows removed in the last 30 days, whose dates return with them
    undone: str | None = None  # key of rows as read before a rollback; they date pages until the next read
    top: str | None = None  # key of the rows that its feeds show
    mirror: str | None = None  # key of the mirror version that it was made from; a rollback restores it

    def beside(self) -> tuple[str, ...]:
        """Return the keys of its snapshots except the snapshots of its shards."""
        return tuple(key for key in (self.removed_lately, self.undone, self.top) if key is not None)


class SetSize(Record):
    """The size of one release of the last seven days. Gates compare with the largest one."""

    at: str  # `now` of its run
    site: int  # listed URLs of the site, without views
    sections: Mapping[str, int]  # section → listed URLs


class Answered(Document):
    """The outcome of one submission to one engine (`engines.Answer`)."""

    engine: str
    status: Literal["accepted", "nothing", "skipped", "partial", "refused", "unavailable", "failed"]
    sent: int
    message: str
    details: Mapping[str, Any] = field(default_factory=dict)

    title: ClassVar[str] = "answer of an engine"

    @property
    def failed(self) -> bool:
        """True if something was refused, not answered or not sent."""
        return self.status in ("partial", "refused", "unavailable", "failed")

    @property
    def pending(self) -> bool:
        """True if the submission has to be tried again."""
        return self.status in ("unavailable", "failed")


class LedgerRun(Record):
    """Changes of a run that an engine has not received yet (see engines.backlog.Waiting)."""

    run: str
    position: int
    held: str
    rows: int
    mark: int | None


class LedgerRequest(Record):
    """Contents of one request of the last minutes (see engines.backlog.Recent)."""

    at: float  # epoch seconds
    answered: bool
    hashes: str


class LedgerDay(Record):
    """The number of URLs sent on one day, compared with the daily limit."""

    day: str  # YYYY-MM-DD, UTC
    sent: int  # URLs sent


class LedgerData(Record):
    """The record of one engine between runs, read and written by the engine (`engines.ledger`)."""

    format: int = 1  # format of the ledger
    runs: tuple[str, ...] = ()  # runs whose addresses were added, oldest first
    waiting: tuple[LedgerRun, ...] = ()  # runs with pending changes, oldest first
    recent: tuple[LedgerRequest, ...] = ()  # requests of the last minutes
    today: LedgerDay | None = None  # URLs sent on the last day
    owed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # kind → pending addresses
    not_before: str | None = None  # time before which the engine accepts no request, ISO 8601


class Manifest(Document):
    """The manifest of a release: all its files, with ranges, hashes and dates. A publish commits it last.

    The next run compares with it and with its snapshots. A rollback renders an older one again.
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
    indexing: Mapping[str, Answered] = field(default_factory=dict)  # answers of the engines, added after the commit
    distinct: bool = False  # whether it was made sure that no loc stands twice outside views

    title: ClassVar[str] = "manifest"

    def of(self, section: str) -> list[Entry]:
        """Return the section's shards in the order of their ranges."""
        return [entry for entry in self.entries if entry.section == section]

    def files(self) -> Iterator[File]:
        """Yield all public objects of the release."""
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
    """Return True if both manifests publish the same uncompressed bytes under the same names."""
    return {f.key: f.sha256 for f in one.files()} == {f.key: f.sha256 for f in other.files()}
