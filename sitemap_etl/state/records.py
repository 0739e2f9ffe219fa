"""Everything that is stored, or handed from stage to stage, as typed records.

A *document* is a record that is an object of its own in the state or in a run's folder; it says its `format`.
Releases of one format work side by side, also in one run: what another one added is kept as it is read
(`Record.unknown`) and written back. `state.codec` has the JSON form, `state.layout` the keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias

from sitemap_etl.frames import Tally
from sitemap_etl.sources import Split

FORMAT: Final = 2
"""The format of the documents that this release writes. It reads earlier ones of the state, and runs of this one."""

Status: TypeAlias = Literal["published", "unchanged", "dry_run", "refused", "partial", "failed"]
AttemptStatus: TypeAlias = Status | Literal["running", "interrupted"]
GateStatus: TypeAlias = Literal["ok", "warned", "refused", "forced"]
ChangeKind: TypeAlias = Literal["added", "changed", "removed"]


@dataclass(frozen=True)
class Record:
    """What all records have: the keys that this release does not know."""

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)


@dataclass(frozen=True)
class Document(Record):
    """A record that is stored as an object of its own."""

    format: int = field(default=FORMAT, kw_only=True)

    title: ClassVar[str] = "object"  # what messages call it

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON of an earlier format with the names of this one."""
        return data


@dataclass(frozen=True)
class RunDocument(Document):
    """A document in the folder of a run: only releases of one format share a run."""


@dataclass(frozen=True)
class Summed(Record):
    """A record of whole numbers that can be added up."""

    def __add__(self, other: Self) -> Self:
        names = [entry.name for entry in fields(self) if entry.name != "unknown"]
        summed: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **summed)


# --- mirrors of sources ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MirrorFile(Record):
    """A Parquet file of a mirror, put once. `sha256` is that of its bytes."""

    key: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class MirrorBucket(Record):
    """The rows of a mirror whose keys share some bits of their hash: a base, and what changed since, oldest first."""

    base: MirrorFile | None = None
    deltas: tuple[MirrorFile, ...] = ()

    def files(self) -> list[MirrorFile]:
        """All of them."""
        return [*([] if self.base is None else [self.base]), *self.deltas]


@dataclass(frozen=True)
class Mirror(Document):
    """A section's rows as they were extracted, by key: one generation of them."""

    section: str
    run_id: str
    key: str  # the column that says what a row is
    select: str  # hash of the SELECT's text
    params: str  # what tells its params from others (see stages.parameters)
    schema: str  # base64 of an Arrow schema
    read_at: str  # ISO 8601: from here on the next run asks for what changed
    full_at: str  # `now` of the last run that read everything
    buckets: tuple[MirrorBucket, ...]
    deleted: str | None = None  # the column that says that a row is gone: such rows are not in it
    version: str | None = None  # of the table that it mirrors

    title: ClassVar[str] = "mirror"


@dataclass(frozen=True)
class Drift(Summed):
    """How a full read differed from the mirror where the watermark had shown nothing, in rows."""

    missing: int = 0  # in the source, not in the mirror
    stale: int = 0  # in both, and not the same
    gone: int = 0  # in the mirror, no longer in the source

    @property
    def total(self) -> int:
        return self.missing + self.stale + self.gone


@dataclass(frozen=True)
class KnownRobots(Record):
    """A site's robots.txt as it was last read. `key`: of its bytes in the state; None: the site has none."""

    at: str  # YYYY-MM-DDThh:mm:ssZ
    key: str | None = None


# --- a run: its plan, and what its stages leave ------------------------------------------------------


@dataclass(frozen=True)
class Options(Record):
    """What the person who starts a run asked for."""

    sections: tuple[str, ...] = ()  # none: all
    full: bool = False
    limit: int | None = None  # rows of each split
    dry_run: bool = False
    ping: bool = True
    force: tuple[str, ...] = ()
    reason: str | None = None
    adopt: bool = False
    moved: bool = False  # another place, or another site, is meant


@dataclass(frozen=True)
class Unit(Record):
    """One unit of extract: a split of a section's source."""

    section: str
    split: Split

    @property
    def label(self) -> str:
        """What the split is, in words."""
        return self.split.label


@dataclass(frozen=True)
class Reading(Record):
    """How a section that keeps a mirror is read: one whose SELECT names `:since`, or a table with a key.

    `mirror`: key of the generation into which what changed is merged; None: everything is read, `because` says why.
    `compared`: key of a generation that a full read is compared with. `select`, `params`: tell what was asked from
    other SELECTs and params.
    """

    key: str  # the column that says what a row is
    since: str  # ISO 8601
    read_at: str  # by the source's own clock, or `now` where that is earlier
    select: str
    params: str
    mirror: str | None = None
    because: str | None = None
    compared: str | None = None
    deleted: str | None = None  # the column that says that a row is gone
    version: str | None = None  # of the table that is read


@dataclass(frozen=True)
class SplitSums(Record):
    """The sums of a split's rows after the rules (see hashes.sums_of): of those of its first batch, and of all."""

    first: tuple[int, int]
    all: tuple[int, int]


@dataclass(frozen=True)
class MadeFrom(Record):
    """What a section was made from by the run that rendered it last (see stages.quiet)."""

    run_id: str
    rows: int  # of its inventory
    sums: tuple[int, int]  # of their hashes
    loc_sums: tuple[int, int]  # of those of their locs
    form: str  # hash of what its columns are
    others: str  # hash of what other sections decide about it
    made: str  # hash of its settings, and of what was made
    dated: int = 0  # listed pages with a lastmod
    splits: tuple[SplitSums, ...] = ()  # in the order of the plan's units; none where a mirror is kept
    expects: bool = False  # whether the next night is likely to find nothing that differs
    source: str | None = None  # hash of its mirror and the rules; None: no mirror, or it may change by itself
    applied_by: str = ""  # the run that applied the rules to that, and told what came of them


@dataclass(frozen=True)
class Plan(RunDocument):
    """What a run fixed when its first task started."""

    run_id: str
    now: str  # YYYY-MM-DDThh:mm:ssZ
    base: str | None  # key of the manifest it starts from
    site: Mapping[str, Any]  # config.Site.to_json(), secrets as references
    options: Options = Options()
    units: tuple[Unit, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)  # sections that stay as published, and why
    robots: str | None = None  # the site's robots.txt as it was, Latin-1
    known_robots: KnownRobots | None = None  # what the state is to remember of it; None: it is not asked for
    readings: Mapping[str, Reading] = field(default_factory=dict)  # of sections that keep a mirror
    params: Mapping[str, str] = field(default_factory=dict)  # of sections with secret ones (see stages.parameters)
    owner: str = ""  # what a scheduler calls this run
    site_file: str = ""  # for messages
    snapshots: tuple[str, ...] = ()  # connections of which one process reads all splits from one snapshot
    warnings: tuple[str, ...] = ()  # what was found when it was made
    given: bool = False  # whether a person said its time
    versions: Mapping[str, str] = field(default_factory=dict)  # of sections of tables: as in `Current`
    made_from: Mapping[str, MadeFrom] = field(default_factory=dict)  # of sections that are published: as in `Current`
    expected: tuple[str, ...] = ()  # sections in which nothing is likely to differ from that
    promised: Mapping[str, int] = field(default_factory=dict)  # rows of sections whose exports have a manifest of them

    title: ClassVar[str] = "plan of a run"


@dataclass(frozen=True)
class Checked(Record):
    """An object that is verified as it is read (see state.checked). `blocks`: the CRC-32 of each of its blocks."""

    key: str
    bytes: int
    blocks: tuple[int, ...]


@dataclass(frozen=True)
class Spool(Record):
    """A shuffle file: routed rows, one compressed Arrow message or several a window.

    `borders`: the first locs of windows 1, 2, …; `places`: for each window the (start, bytes, CRC-32) of its messages.
    """

    key: str
    schema: str  # base64 of an Arrow schema
    places: tuple[tuple[tuple[int, int, int], ...], ...]
    borders: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileLines(Record):
    """A file of a split whose rows are known by their line. `before`: the lines of the split's files before it."""

    path: str
    before: int = 0


@dataclass(frozen=True)
class Extracted(RunDocument):
    """What extract left of a split. `raw`: the staged rows; None: the export is read where it is.

    `spool`: the rows of a section that keeps a mirror, by slot of their key. `lines`: its files, where the number of
    a row in the split is that of its line; none where rows are counted.
    """

    rows: int = 0
    lines: tuple[FileLines, ...] = ()
    raw: Checked | None = None
    spool: Spool | None = None
    read_at: str = ""  # ISO 8601
    held: str | None = None  # why the section stays as published

    title: ClassVar[str] = "receipt of extract"


@dataclass(frozen=True)
class Transformed(RunDocument):
    """What transform left of a split, or of a bucket of a mirror.

    `rows` + `carried` = `inventory` + `duplicates` + `excluded` + `rejected`.
    """

    section: str = ""
    rows: int = 0  # that were read
    carried: int = 0  # that the mirror had
    inventory: int = 0
    duplicates: int = 0  # that were read twice
    excluded: int = 0
    rejected: int = 0
    rejected_read: int = 0  # of the rows that were read
    reasons: Mapping[str, Tally] = field(default_factory=dict)  # excluded, rejected, duplicates, notes
    elsewhere: Mapping[str, int] = field(default_factory=dict)  # other origins → rows, the most frequent
    aside: Mapping[str, Checked] = field(default_factory=dict)  # excluded, rejected, duplicates → the rows
    spool: Spool | None = None
    digest: tuple[int, int, int] | None = None  # the place of samples and histogram in the spool (stages.transform)
    ends: tuple[str, str] | None = None  # the lowest and the highest loc
    kinds: tuple[tuple[str, str], ...] | None = None  # of the fingerprint's columns
    tags: tuple[str, ...] = ()  # hreflang tags seen
    columns: tuple[str, ...] = ()
    sums: tuple[int, int] | None = None  # of the hashes of its inventory's rows (hashes.sums_of); None: not recorded
    loc_sums: tuple[int, int] | None = None  # of those of their locs alone
    first_sums: tuple[int, int] | None = None  # as `sums`, of the first batch
    spared: bool = False  # all as it was when the section was made: the rows were counted, and not kept
    held: str | None = None
    bucket: MirrorBucket | None = None  # what the mirror's bucket is from now on
    readers: tuple[str, ...] = ()  # runs that read its rows; numbers of rows begin with the place in this list
    drift: Drift | None = None

    title: ClassVar[str] = "receipt of transform"


@dataclass(frozen=True)
class MergePlan(Record):
    """Where the rows of each bucket of a section are. `index`, `spools`, `schemas`: as in `SectionPlan`.

    `seen`: keys that an incremental read yields now, to compare a full read with the mirror.
    """

    buckets: int
    schema: str  # base64 of the Arrow schema of the merged rows
    schemas: tuple[str, ...] = ()
    spools: tuple[tuple[str, int], ...] = ()
    index: Spool | None = None
    seen: Spool | None = None


@dataclass(frozen=True)
class Merging(RunDocument):
    """What is to be merged: a plan for each section that keeps a mirror, and the units (section, bucket).

    `untouched`: sections of which no row was read, and whose rules are those of the night before; their units come
    last, and need not be done.
    """

    sections: Mapping[str, MergePlan] = field(default_factory=dict)
    units: tuple[tuple[str, int], ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    untouched: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """How many of the units have to be done."""
        return sum(section not in self.untouched for section, _ in self.units)

    title: ClassVar[str] = "plan of merge"


@dataclass(frozen=True)
class SectionPlan(Record):
    """How a section is rendered.

    `spools`: where its rows are, each a key and the place of its schema in `schemas`. `index`: a spool that says
    where each window's messages lie in them, one message of it a group.
    """

    windows: tuple[tuple[str, str | None], ...]
    groups: tuple[tuple[int, int], ...]  # first and past the last window
    rows: int
    schemas: tuple[str, ...] = ()
    spools: tuple[tuple[str, int], ...] = ()
    index: Spool | None = None
    ends: tuple[str, str] | None = None
    signals: Checked | None = None  # the table from signal bin to priority
    rule: str | None = None  # id of the fingerprint's definition
    kinds: tuple[tuple[str, str], ...] | None = None  # of its columns
    tags: int = 0  # languages of its cluster
    columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Quiet(Record):
    """A section of which nothing differs from what it was made from: it stays as published, and is not rendered.

    `duplicates`: rows that were listed already; `reasons`: theirs, as the run found them that rendered it last.
    `counts`: of a section that was left untouched, what the run counted that applied the rules last; its `reasons` are
    all that this run told.
    """

    made_from: MadeFrom
    duplicates: int = 0
    reasons: Mapping[str, Tally] = field(default_factory=dict)
    counts: Counts | None = None


@dataclass(frozen=True)
class Clusters(Record):
    """How many pages have hreflang links, and what was decided where a cluster was not whole."""

    aligned: int = 0
    notes: Tally = field(default_factory=Tally)


@dataclass(frozen=True)
class Settled(RunDocument):
    """Which of the sections that were read stay as published: `quiet` ones, `held` ones and why.

    `clusters`: of the quiet sections that have some. `again`: units of transform that have to be done once more, for
    they spared themselves keeping their rows, and the section is to be rendered after all. `merge`: units of merge that
    have to be done for the same reason, of sections that were left untouched.
    """

    quiet: Mapping[str, Quiet] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    clusters: Clusters | None = None
    again: tuple[int, ...] = ()
    merge: tuple[int, ...] = ()

    title: ClassVar[str] = "receipt of settle"


@dataclass(frozen=True)
class Partition(RunDocument):
    """What partition decided: a plan for each section that is rendered, and the units (section, group) of render.

    `quiet`, `clusters`: as in `Settled`.
    """

    sections: Mapping[str, SectionPlan] = field(default_factory=dict)
    units: tuple[tuple[str, int], ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    quiet: Mapping[str, Quiet] = field(default_factory=dict)
    clusters: Clusters | None = None

    @property
    def read(self) -> list[str]:
        """The sections that were read and are not held."""
        return [*self.sections, *self.quiet]

    title: ClassVar[str] = "receipt of partition"


@dataclass(frozen=True)
class Collected(RunDocument):
    """The members of hreflang clusters in one group, by bucket."""

    spool: Spool
    members: int
    buckets: int

    title: ClassVar[str] = "receipt of collect"


@dataclass(frozen=True)
class Aligned(RunDocument):
    """The links of closed clusters, as spools for each section's windows."""

    sections: Mapping[str, tuple[Spool, ...]] = field(default_factory=dict)
    notes: Tally = field(default_factory=Tally)
    aligned: int = 0  # pages that have links

    title: ClassVar[str] = "receipt of align"


@dataclass(frozen=True)
class StagedFile(Record):
    """A file that publish can put: `bytes` and `sha256` inflated, `stored*` of the object."""

    staged: str
    bytes: int
    sha256: str
    stored: int
    stored_sha256: str


@dataclass(frozen=True)
class StagedShard(Record):
    """A shard as render left it. `reused`: the published file stays, and `xml`, `text`, `body` say nothing."""

    low: str
    parent: int | None
    reused: bool
    rows: int
    first: str
    last: str
    since: int | None
    snapshot: str
    body: int = 0
    xml: StagedFile | None = None
    text: StagedFile | None = None
    undated: int | None = None  # as in `Entry`
    days: tuple[int, ...] | None = None


@dataclass(frozen=True)
class GroupCounts(Summed):
    """The rows of a group. `gathered`: came from the inventory. `dated`: pages that were published with a lastmod and
    are listed still; `undated`: those of them that have none now.
    """

    gathered: int = 0
    listed: int = 0
    duplicates: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    dated: int = 0
    undated: int = 0


@dataclass(frozen=True)
class Rendered(RunDocument):
    """What render left of a group."""

    section: str
    group: int
    shards: tuple[StagedShard, ...]
    counts: GroupCounts
    reasons: Tally  # of duplicates
    new_dates: Mapping[str, int]  # the most frequent lastmod of added and changed rows → rows
    dated: int  # such rows that have one
    examples: Mapping[str, tuple[str, ...]]  # added, changed, removed, undated → a few locs
    redated: Mapping[str, int] = field(default_factory=dict)  # new lastmod of pages that had another → pages; the top
    changes: Checked | None = None
    duplicates: Checked | None = None  # the duplicate rows
    top: Checked | None = None  # the rows that a feed could show
    notes: Tally = field(default_factory=Tally)  # what listed rows lost
    twice: tuple[int, tuple[str, ...]] = (0, ())  # pages listed with and without a slash at the end, a few of them
    new: tuple[str, ...] = ()  # a sample of the added locs, where the gate on new pages wants one

    title: ClassVar[str] = "receipt of render"


# --- what is published -------------------------------------------------------------------------------


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Gate(Record):
    """One gate's outcome. `value` and `limit` are shares, or URLs for `min_urls`."""

    name: str  # products.max_drop; without a section: of the site
    status: GateStatus
    value: float
    limit: float
    message: str


@dataclass(frozen=True)
class File(Record):
    """One published object: `bytes` and `sha256` of what a reader sees inflated, `stored*` of the object."""

    key: str
    bytes: int
    sha256: str
    stored: int
    stored_sha256: str
    etag: str | None
    lastmod: str  # when the inflated bytes last changed, YYYY-MM-DDThh:mm:ssZ


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Index(Record):
    """One published sitemap index."""

    number: int
    file: File


@dataclass(frozen=True)
class Retired(Record):
    """A file of ours that is no longer listed and is deleted after the grace: only with this ETag."""

    key: str
    etag: str | None
    at: int  # epoch seconds, by the clock of `work`


@dataclass(frozen=True)
class Former(Record):
    """Bytes that a key had until lately: should they come back, then with a fence (`render.fence`).

    `stored`: the first digits of their SHA-256 without a fence; empty where the key was deleted: whatever comes back.
    """

    key: str
    stored: str
    at: int  # epoch seconds, by the clock of `work`


@dataclass(frozen=True)
class SectionState(Record):
    """What a section carries from run to run."""

    next_number: int = 1
    rule: str | None = None  # id of its fingerprint's definition
    kinds: tuple[tuple[str, str], ...] | None = None  # of the fingerprint's columns; None: format 1, or no rule
    listed: int = 0
    view: bool = False
    dated: bool = True  # whether its rule gives lastmods; where it does not, a page changes with what else it shows
    removed_lately: str | None = None  # snapshot of rows that left in the last 30 days
    top: str | None = None  # snapshot of the rows its feeds show
    mirror: str | None = None  # key of the generation of its mirror that it was made from


@dataclass(frozen=True)
class SetSize(Record):
    """How much a set of the last seven days listed."""

    at: str
    site: int
    sections: Mapping[str, int]


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class LedgerRun(Record):
    """What an engine has yet to hear of a run (see engines.backlog.Waiting)."""

    run: str
    position: int
    held: str
    rows: int
    mark: int | None


@dataclass(frozen=True)
class LedgerRequest(Record):
    """What was sent in one request of the last minutes (see engines.backlog.Recent)."""

    at: float  # epoch seconds
    answered: bool
    hashes: str


@dataclass(frozen=True)
class LedgerDay(Record):
    """How many URLs were sent on a day."""

    day: str
    sent: int


@dataclass(frozen=True)
class LedgerData(Record):
    """What is remembered of an engine between runs. The engines read and write it (see engines.ledger)."""

    format: int = 1
    runs: tuple[str, ...] = ()
    waiting: tuple[LedgerRun, ...] = ()
    recent: tuple[LedgerRequest, ...] = ()
    today: LedgerDay | None = None
    owed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # addresses that are pending, by kind
    not_before: str | None = None


@dataclass(frozen=True)
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
    base: str | None = None
    sections: Mapping[str, SectionState] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)  # of sections that left: the number of their next file
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
        sections = {name: _renamed(state, departed="removed_lately") for name, state in data["sections"].items()}
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


# --- who is at it ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LastRun(Record):
    """The run that ended last."""

    run_id: str
    at: str
    status: str


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Write(Record):
    """What a publish is about to put under a key: the ETag and the hash of the inflated bytes now, the new hash."""

    old_etag: str | None
    old_sha256: str | None
    new_sha256: str | None


@dataclass(frozen=True)
class Intent(Document):
    """What a publish is about to do. `suspect`: keys of interrupted publishes that it has to put again.

    `unmanaged`: key → ETag of objects of others that it, or they, had leave to replace. `numbers`: section → the number
    of its next file, past every one that is named here. `claim`: its own, so that no two intents are the same bytes.
    """

    run_id: str
    base: str | None
    by: str  # who, for people
    at: str  # since when, by the store's clock
    writes: Mapping[str, Write] = field(default_factory=dict)
    deletes: tuple[Retired, ...] = ()
    robots: bool = False
    suspect: tuple[str, ...] = ()
    unmanaged: Mapping[str, str | None] = field(default_factory=dict)
    numbers: Mapping[str, int] = field(default_factory=dict)
    number: int = 1  # of its run's claims
    claim: str = ""

    title: ClassVar[str] = "intent"

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        return _renamed(data, doubtful="suspect", foreign="unmanaged")

    @property
    def touched(self) -> set[str]:
        """Every key that it may have written or deleted."""
        return {*self.writes, *(item.key for item in self.deletes), *self.suspect}

    def describe(self) -> str:
        return f"run {self.run_id}, since {self.at} ({self.by})"


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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


# --- what a run found --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Files(Record):
    """The files of a run's set. `to_write`, `to_delete`: of a dry or refused run.

    `robots_txt`, `key_file`: whether these were written besides, or would be.
    """

    written: int = 0
    unchanged: int = 0
    deleted: int = 0
    robots_txt: bool = False
    key_file: bool = False
    to_write: int | None = None
    to_delete: int | None = None


ROBOTS_TXT: Final = "robots.txt"


@dataclass(frozen=True)
class Preview(Record):
    """What publishing would do. `unmanaged`: objects in the way that we did not write; `retire`: no longer listed.

    `write`: the files, and robots.txt where it is to name them; `key_file`: that of IndexNow, whose name is a secret.
    `interrupted`: an earlier publish did not end, so that more files may be written than are named.
    """

    write: tuple[str, ...]
    delete: tuple[str, ...]
    retire: tuple[str, ...]
    unmanaged: tuple[str, ...]
    unchanged: int
    interrupted: bool
    key_file: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """What is written of the set itself."""
        return tuple(key for key in self.write if key != ROBOTS_TXT)


@dataclass(frozen=True)
class Example(Record):
    """A loc whose lastmod is another in a live sitemap."""

    loc: str
    here: str | None
    there: str | None


@dataclass(frozen=True)
class Difference(Record):
    """How many URLs differ in one way, with a few of them."""

    count: int = 0
    examples: tuple[str | Example, ...] = ()


@dataclass(frozen=True)
class Comparison(Record):
    """How a live sitemap differs from what a run would publish."""

    url: str
    files: int
    urls: int
    here: int
    both: int
    repeated: int
    problems: tuple[str, ...]
    only_here: Difference
    only_there: Difference
    other_lastmod: Difference
    respelled: Difference


@dataclass(frozen=True)
class Shape(Record):
    """What a section's files hold. `fill`: files by tenths of what one may hold. `undated`: pages without a lastmod.

    `ages`: pages by how old their lastmod is, one number for each of `publish.shape.AGES` and one for what is older; an
    estimate. `unrecorded`: pages of files that a release wrote which did not record it.
    """

    files: int = 0
    fill: tuple[int, ...] = ()
    undated: int = 0
    ages: tuple[int, ...] = ()
    unrecorded: int = 0


@dataclass(frozen=True)
class Asked(Record):
    """The options of a run that its report tells of."""

    sections: tuple[str, ...] = ()
    full: bool = False
    limit: int | None = None


@dataclass(frozen=True)
class Summary(Document):
    """What became of a run: what `--json` prints, the report shows and `reports/<run>/summary.json` keeps."""

    run_id: str | None = None
    name: str | None = None
    site: str | None = None
    now: str | None = None
    status: Status = "failed"
    published: bool = False  # whether this run put a new set in place
    base: str | None = None
    options: Asked = Asked()
    sections: Mapping[str, Counts] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)  # sections held as published, and why
    reasons: Mapping[str, Mapping[str, Tally]] = field(default_factory=dict)
    clusters: Clusters = Clusters()
    examples: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    files: Files = Files()
    plan: Preview | None = None
    bytes: int = 0
    index: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()
    reason: str | None = None
    engines: Mapping[str, Answered] = field(default_factory=dict)
    drift: Mapping[str, Drift] = field(default_factory=dict)  # of sections that were read in full over a mirror
    warnings: tuple[str, ...] = ()
    error: str | None = None
    report: str | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    against: Comparison | None = None
    shape: Mapping[str, Shape] = field(default_factory=dict)  # of the set as it is, or would be
    quiet: Mapping[str, str] = field(default_factory=dict)  # sections in which nothing differed → who rendered them
    site_file: str | None = None

    title: ClassVar[str] = "summary"


@dataclass(frozen=True)
class Attempt(Document):
    """What became of one run: what `status`, `history`, the report and the metrics tell of it for a year.

    It names no page but in the words of an error. `owner`: the scheduler's run. `rejected`: section → reason → rows.
    """

    run_id: str
    now: str  # the time of the run
    ended: str = ""  # by the clock; empty while it is under way
    status: AttemptStatus = "running"
    published: bool = False
    kind: str | None = None  # of the error
    error: str | None = None
    owner: str = ""
    dry_run: bool = False
    options: Asked = Asked()
    base: str | None = None
    sections: Mapping[str, Counts] = field(default_factory=dict)
    views: tuple[str, ...] = ()
    kept: Mapping[str, str] = field(default_factory=dict)
    rejected: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    files: Files = Files()
    bytes: int = 0
    gates: tuple[Gate, ...] = ()
    reason: str | None = None
    engines: Mapping[str, Answered] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    report: str | None = None
    alerted: str | None = None  # when people were told of it

    title: ClassVar[str] = "record of a run"

    @property
    def listed(self) -> int:
        """URLs that its set lists, or would list."""
        return sum(counts.listed for name, counts in self.sections.items() if name not in self.views)

    @property
    def good(self) -> bool:
        """Whether everything that it was to do is done."""
        return self.status in ("published", "unchanged")

    @property
    def failed(self) -> bool:
        """Whether somebody should look."""
        return self.status in ("failed", "refused", "partial", "interrupted")


@dataclass(frozen=True)
class PastRun(Record):
    """A run in a few words, for a page of many sites. `owner`: the scheduler's run; `error`: its first line.

    The counts are those of the site, without views; nothing where the run did not get that far.
    """

    run_id: str
    now: str
    status: AttemptStatus
    ended: str = ""
    owner: str = ""
    error: str = ""
    listed: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0


@dataclass(frozen=True)
class PastRuns(Document):
    """The last runs of a site, oldest first, dry ones left out: all that a page of many sites reads of it."""

    name: str
    site: str
    runs: tuple[PastRun, ...] = ()

    title: ClassVar[str] = "list of the last runs"


@dataclass(frozen=True)
class KeptSet(Record):
    """A set that is kept, as `history` tells of it."""

    run_id: str
    now: str
    current: bool
    listed: int
    files: int
    sections: Mapping[str, int]
    counts: Mapping[str, Counts]
    forced: tuple[str, ...]
    reason: str | None
    rolled_back_to: str | None
    engines: Mapping[str, Answered]


@dataclass(frozen=True)
class ReadSplit(Record):
    """A split that a run read: what row numbers in its reports speak of. `lines`: as in `Extracted`."""

    section: str
    label: str
    lines: tuple[FileLines, ...] = ()

    def place(self, position: int) -> tuple[str, int, str]:
        """Where a row stands, for a person: `line` or `row`, which one from 1, and of what."""
        file = next((file for file in reversed(self.lines) if file.before <= position), None)
        if file is None:
            return "row", position + 1, self.label
        return "line", position - file.before + 1, file.path


@dataclass(frozen=True)
class Splits(Document):
    """What a run read: the sections, and what the numbers of rows in its reports speak of.

    `splits`: by number. `readers`: by number, of sections that keep a mirror, the runs that read the rows. `tables`:
    the rows that were not listed, by kind. `quiet`: sections that were not rendered → the run that was the last to do
    so, whose report has the rows that were listed already. `untouched`: sections to which no rule was applied → the run
    whose report has all rows that were not listed.
    """

    splits: tuple[ReadSplit, ...] = ()
    readers: Mapping[str, ReadSplit] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    tables: Mapping[str, Checked] = field(default_factory=dict)
    quiet: Mapping[str, str] = field(default_factory=dict)
    untouched: Mapping[str, str] = field(default_factory=dict)

    title: ClassVar[str] = "list of splits"


def _renamed(data: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The object with the keys of an earlier format under their names of today."""
    return {names.get(key, key): value for key, value in data.items()}
