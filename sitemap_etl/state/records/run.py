"""Records of a run in progress: its plan, and the task results that its stages exchange."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, ClassVar

from sitemap_etl.frames import Tally
from sitemap_etl.sources import Split
from sitemap_etl.state.records.base import Record, RunDocument, Summed
from sitemap_etl.state.records.mirrors import Drift, KnownRobots, MirrorBucket
from sitemap_etl.state.records.published import Counts


class Options(Record):
    """The options that a run was started with."""

    sections: tuple[str, ...] = ()  # `--section`; empty means all
    full: bool = False  # read everything and verify every published file
    limit: int | None = None  # rows to read of each split
    dry_run: bool = False  # show the changes and publish nothing
    ping: bool = True  # notify search engines
    force: tuple[str, ...] = ()  # names of gates to overrule
    reason: str | None = None  # reason given with `--force` or `--now`
    adopt: bool = False  # replace existing objects that this state does not manage
    moved: bool = False  # take over a state whose site or place differs from the site file


class Unit(Record):
    """One unit of extract: a split of a section's source."""

    section: str
    split: Split

    @property
    def label(self) -> str:
        """Name of the split in messages."""
        return self.split.label


class Reading(Record):
    """The plan for reading a section that has a mirror: its SELECT uses `:since`, or it is a table with a key."""

    key: str  # source column that identifies a row
    since: str  # value of `:since`, ISO 8601
    read_at: str  # start of the read by the source's clock, or `now` if that is earlier; ISO 8601
    select: str  # digest of the SELECT; another one makes the mirror unusable
    params: str  # digest of the SELECT's parameters; likewise
    mirror: str | None = None  # key of the mirror version that takes the changes; None if everything is read
    because: str | None = None  # reason for reading everything, for the log
    compared: str | None = None  # key of the mirror version that a full read is compared with, to count drift
    deleted: str | None = None  # source column that marks a row as deleted
    version: str | None = None  # version of the table to read
    table: str | None = None  # identity of the table; it differs if a table was dropped and created again


class RawDigest(Record):
    """Digest of a split's rows as they were read. `first` and `all` are sums of their hashes (hashes.sums_of)."""

    form: str  # hash of the names and types of the columns; empty if nothing was read
    rows: int
    first: tuple[int, int]  # of the first rows, which show early that others differ
    all: tuple[int, int]


class SplitDigest(Record):
    """Digest of a split's raw rows, and the result of the rules. The rest is as in `Transformed`.

    Other sections depend on it: they list no page that this one lists.
    """

    raw: RawDigest
    inventory: int
    loc_sums: tuple[int, int]
    ends: tuple[str, str] | None = None


class MadeFrom(Record):
    """Digests of the rows, settings and files of a section when it was last rendered.

    `stages.decide` compares them with the current run. If they are equal, the section is not rendered. `current.json`
    has them for each section, so its size does not depend on the number of splits.
    """

    run_id: str
    rows: int  # of its inventory
    sums: tuple[int, int]  # of their hashes
    loc_sums: tuple[int, int]  # of those of their locs
    form: str  # hash of what its columns are
    others: str  # hash of the decisions of other sections about it
    made: str  # hash of its settings, and of the result
    ends: tuple[str, str] | None = None  # the lowest and the highest loc of its inventory
    dated: int = 0  # listed pages with a lastmod
    digests: tuple[SplitDigest, ...] = ()  # in the order of the plan's units; empty if a split has to be transformed
    expects: bool = False  # True if the next run is likely to find it unchanged
    source: str | None = None  # hash of the rules, and of its mirror if it has one; None: the rules must be applied
    applied_by: str = ""  # the run that applied the rules, and reported the result


class Plan(RunDocument):
    """The plan of a run: everything that is fixed when its first task starts. All tasks read it."""

    run_id: str
    now: str  # YYYY-MM-DDThh:mm:ssZ
    base: str | None  # key of the manifest it starts from
    site: Mapping[str, Any]  # config.Site.to_json(), secrets as references
    options: Options = Options()
    units: tuple[Unit, ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)  # sections that stay as published, and why
    robots: str | None = None  # the site's robots.txt as it was, Latin-1
    known_robots: KnownRobots | None = None  # its record in the state; None: not needed
    readings: Mapping[str, Reading] = field(default_factory=dict)  # of sections that keep a mirror
    params: Mapping[str, str] = field(default_factory=dict)  # of sections with secret ones (see stages.parameters)
    owner: str = ""  # a scheduler's name of this run
    site_file: str = ""  # for messages
    snapshots: tuple[str, ...] = ()  # connections of which one process reads all splits from one snapshot
    warnings: tuple[str, ...] = ()  # findings at the time of its creation
    given: bool = False  # whether a person said its time
    versions: Mapping[str, str] = field(default_factory=dict)  # of sections of tables: as in `Current`
    made_from: Mapping[str, MadeFrom] = field(default_factory=dict)  # of sections that are published: as in `Current`
    expected: tuple[str, ...] = ()  # sections that are likely unchanged since then
    promised: Mapping[str, int] = field(default_factory=dict)  # rows of sections whose exports have a manifest of them
    before: str | None = None  # the run that had ended well last; None: none had, or an older version made the plan

    title: ClassVar[str] = "plan of a run"


class Checked(Record):
    """An object with checksums that are verified on each read (`state.checked`)."""

    key: str  # key in the run's folder, or in the state for reports
    bytes: int  # size
    blocks: tuple[int, ...]  # CRC-32 of each block of 1 MiB


class Spool(Record):
    """A shuffle file: routed rows, one compressed Arrow message or several a window.

    `borders`: the first locs of windows 1, 2, …; `places`: for each window the (start, bytes, CRC-32) of its messages.
    """

    key: str
    schema: str  # base64 of an Arrow schema
    places: tuple[tuple[tuple[int, int, int], ...], ...]
    borders: tuple[str, ...] = ()


class FileLines(Record):
    """A file of a split whose rows are numbered by line."""

    path: str  # path of the file
    before: int = 0  # lines of the files before it in the split


class Extracted(RunDocument):
    """The task result of extract for one split. Transform reads it, or merge if the section has a mirror."""

    rows: int = 0
    lines: tuple[FileLines, ...] = ()
    raw: Checked | None = None
    spool: Spool | None = None
    read_at: str = ""  # ISO 8601
    held: str | None = None  # why the section stays as published
    notices: Tally = field(default_factory=Tally)

    title: ClassVar[str] = "task result of extract"


class Transformed(RunDocument):
    """The task result of transform for one split, or of merge for one mirror bucket. Partition and publish read it.

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
    raw: RawDigest | None = None  # of the rows as they were read; None if they can't be compared
    unchanged: bool = False  # raw rows and rules are those of an earlier run: no rule was applied, nothing is stored
    repeatable: bool = False  # the rules make the same of the same rows on a later run
    bare: tuple[int, str] = (0, "")  # addresses without a leading slash, and one of them
    held: str | None = None
    bucket: MirrorBucket | None = None  # the new bucket of the mirror
    readers: tuple[str, ...] = ()  # runs that read its rows; numbers of rows begin with the place in this list
    drift: Drift | None = None

    title: ClassVar[str] = "task result of transform"


class MergePlan(Record):
    """The plan for merging one section into its mirror. Each merge task reads it."""

    buckets: int
    schema: str  # base64 of the Arrow schema of the merged rows
    schemas: tuple[str, ...] = ()
    spools: tuple[tuple[str, int], ...] = ()
    index: Spool | None = None
    seen: Spool | None = None


class Merging(RunDocument):
    """The plan of merge for all sections with a mirror."""

    sections: Mapping[str, MergePlan] = field(default_factory=dict)
    units: tuple[tuple[str, int], ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    untouched: tuple[str, ...] = ()

    @property
    def needed(self) -> int:
        """Number of tasks that have to run."""
        return sum(section not in self.untouched for section, _ in self.units)

    title: ClassVar[str] = "plan of merge"


class SectionPlan(Record):
    """The plan for rendering one section. Render and align read it."""

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


class UnchangedSection(Record):
    """An unchanged section: its digests are as in the last render, so it is not rendered. Publish reads it."""

    made_from: MadeFrom
    duplicates: int = 0
    reasons: Mapping[str, Tally] = field(default_factory=dict)
    counts: Counts | None = None


class Clusters(Record):
    """Numbers about hreflang clusters, for the summary."""

    aligned: int = 0  # pages with hreflang links
    notes: Tally = field(default_factory=Tally)  # decisions about incomplete clusters


class Decided(RunDocument):
    """The task result of decide: the sections that are not rendered, and the tasks that retransform runs."""

    quiet: Mapping[str, UnchangedSection] = field(default_factory=dict)
    held: Mapping[str, str] = field(default_factory=dict)
    clusters: Clusters | None = None
    again: tuple[int, ...] = ()
    merge: tuple[int, ...] = ()

    title: ClassVar[str] = "task result of decide"


class Partition(RunDocument):
    """The task result of partition: the plan of render."""

    sections: Mapping[str, SectionPlan] = field(default_factory=dict)
    units: tuple[tuple[str, int], ...] = ()
    held: Mapping[str, str] = field(default_factory=dict)
    quiet: Mapping[str, UnchangedSection] = field(default_factory=dict)
    clusters: Clusters | None = None

    @property
    def read(self) -> list[str]:
        """The sections that were read, rendered or unchanged, without the kept ones."""
        return [*self.sections, *self.quiet]

    title: ClassVar[str] = "task result of partition"


class Collected(RunDocument):
    """The task result of collect: the hreflang cluster members of one render task. Align reads it."""

    spool: Spool
    members: int
    buckets: int

    title: ClassVar[str] = "task result of collect"


class Aligned(RunDocument):
    """The task result of align: the hreflang links of all clusters. Render reads it."""

    sections: Mapping[str, tuple[Spool, ...]] = field(default_factory=dict)
    notes: Tally = field(default_factory=Tally)
    aligned: int = 0  # pages that have links
    stale: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Section that was not read → pages whose published links are no longer those of their cluster, and one of them."""

    title: ClassVar[str] = "task result of align"


class StagedFile(Record):
    """A rendered file in the run's folder, ready to publish."""

    staged: str  # key in the run's folder
    bytes: int  # size, uncompressed
    sha256: str  # SHA-256 of the uncompressed content
    stored: int  # size as stored
    stored_sha256: str  # SHA-256 as stored


class StagedShard(Record):
    """One rendered shard. Publish turns it into an `Entry`."""

    low: str  # first loc of the range
    parent: int | None  # number of the published shard that it continues; None for a new number
    reused: bool  # True if the published file stays; then `xml` and `body` are not set
    rows: int  # listed URLs
    first: str  # first listed loc
    last: str  # last listed loc
    since: int | None  # newest `since` of the rows, epoch seconds
    snapshot: str  # key of the rows in the state
    body: int = 0  # bytes of the entries in the XML, without the wrapper
    xml: StagedFile | None = None  # sitemap file
    text: StagedFile | None = None  # text sitemap, if the section has one and it has to be written
    undated: int | None = None  # rows without a lastmod
    days: tuple[int, ...] | None = None  # minimum, deciles and maximum of the lastmods, as in `Entry`


class GroupCounts(Summed):
    """Numbers of rows of one render task. Publish adds them up and checks that no row is lost."""

    gathered: int = 0
    listed: int = 0
    duplicates: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    dated: int = 0
    undated: int = 0
    blind: int = 0


class Rendered(RunDocument):
    """The task result of render for one group of windows. Publish reads it."""

    section: str
    group: int
    shards: tuple[StagedShard, ...]
    counts: GroupCounts
    reasons: Tally  # of duplicates
    new_dates: Mapping[str, int]  # the most frequent lastmod of added and changed rows → rows
    dated: int  # such rows that have one
    examples: Mapping[str, tuple[str, ...]]  # added, changed, removed, undated → a few locs
    redated: Mapping[str, int] = field(default_factory=dict)  # new lastmod of pages that had another → pages; the top
    minutes: Mapping[str, int] = field(default_factory=dict)  # the same by minute (lastmod.Minutes); the fullest ones
    changes: Checked | None = None
    duplicates: Checked | None = None  # the duplicate rows
    taken: Checked | None = None  # pages of sections that were not read, which the group lists now (stages.window)
    top: Checked | None = None  # the rows that a feed could show
    notes: Tally = field(default_factory=Tally)  # what listed rows lost
    new: tuple[str, ...] = ()  # a sample of the added locs, if the gate on new pages needs one

    title: ClassVar[str] = "task result of render"
