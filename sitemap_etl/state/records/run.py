"""A run: its plan, and what its stages leave."""

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


class Unit(Record):
    """One unit of extract: a split of a section's source."""

    section: str
    split: Split

    @property
    def label(self) -> str:
        """What the split is, in words."""
        return self.split.label


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
    table: str | None = None  # tells it from another table at its address


class RawSums(Record):
    """The sums of a split's rows as they were read (see hashes.sums_of): of those of its first batch, and of all.

    Only of a split of which the rules listed every row, and of which they had nothing to tell.
    """

    form: str  # hash of the names and types of their columns
    rows: int
    first: tuple[int, int]
    all: tuple[int, int]


class SplitSums(Record):
    """What tells whether a split is as it was: the sums of its rows after the rules, of the first batch and of all.

    `raw`: likewise before the rules, which need not be applied where they are the same.
    """

    first: tuple[int, int]
    all: tuple[int, int]
    locs: tuple[int, int]  # of their locs alone
    ends: tuple[str, str] | None = None  # the lowest and the highest of these
    raw: RawSums | None = None
    bare: tuple[int, str] = (0, "")  # as in `Transformed`


class Agreed(Record):
    """What the receipts of a section's splits have in common: each as in `Transformed`, `tags` of all."""

    columns: tuple[str, ...]
    kinds: tuple[tuple[str, str], ...] | None
    tags: tuple[str, ...]


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
    agreed: Agreed | None = None  # of those splits, where they have something in common
    expects: bool = False  # whether the next night is likely to find nothing that differs
    source: str | None = None  # hash of the rules, and of its mirror if it has one; None: it may change by itself
    applied_by: str = ""  # the run that applied the rules to that, and told what came of them


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
    before: str | None = None  # the run that had ended well last; None: none had, or an older release made the plan

    title: ClassVar[str] = "plan of a run"


class Checked(Record):
    """An object that is verified as it is read (see state.checked). `blocks`: the CRC-32 of each of its blocks."""

    key: str
    bytes: int
    blocks: tuple[int, ...]


class Spool(Record):
    """A shuffle file: routed rows, one compressed Arrow message or several a window.

    `borders`: the first locs of windows 1, 2, …; `places`: for each window the (start, bytes, CRC-32) of its messages.
    """

    key: str
    schema: str  # base64 of an Arrow schema
    places: tuple[tuple[tuple[int, int, int], ...], ...]
    borders: tuple[str, ...] = ()


class FileLines(Record):
    """A file of a split whose rows are known by their line. `before`: the lines of the split's files before it."""

    path: str
    before: int = 0


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
    raw: RawSums | None = None
    spared: bool = False  # all as it was when the section was made: the rows were counted, and not kept
    as_read: bool = False  # that was seen before the rules, which were not applied
    bare: tuple[int, str] = (0, "")  # addresses without a leading slash, and one of them
    held: str | None = None
    bucket: MirrorBucket | None = None  # what the mirror's bucket is from now on
    readers: tuple[str, ...] = ()  # runs that read its rows; numbers of rows begin with the place in this list
    drift: Drift | None = None

    title: ClassVar[str] = "receipt of transform"


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


class Clusters(Record):
    """How many pages have hreflang links, and what was decided where a cluster was not whole."""

    aligned: int = 0
    notes: Tally = field(default_factory=Tally)


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


class Collected(RunDocument):
    """The members of hreflang clusters in one group, by bucket."""

    spool: Spool
    members: int
    buckets: int

    title: ClassVar[str] = "receipt of collect"


class Aligned(RunDocument):
    """The links of closed clusters, as spools for each section's windows."""

    sections: Mapping[str, tuple[Spool, ...]] = field(default_factory=dict)
    notes: Tally = field(default_factory=Tally)
    aligned: int = 0  # pages that have links
    stale: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    """Section that was not read → pages whose published links are no longer those of their cluster, and one of them."""

    title: ClassVar[str] = "receipt of align"


class StagedFile(Record):
    """A file that publish can put: `bytes` and `sha256` inflated, `stored*` of the object."""

    staged: str
    bytes: int
    sha256: str
    stored: int
    stored_sha256: str


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


class GroupCounts(Summed):
    """The rows of a group. `gathered`: came from the inventory. `dated`: pages that were published with a lastmod and
    are listed still; `undated`: those of them that have none now. `blind`: pages of which nothing says whether they
    have changed.
    """

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
    minutes: Mapping[str, int] = field(default_factory=dict)  # the same by minute (lastmod.Minutes); the fullest ones
    changes: Checked | None = None
    duplicates: Checked | None = None  # the duplicate rows
    taken: Checked | None = None  # pages of sections that were not read, which the group lists now (stages.window)
    top: Checked | None = None  # the rows that a feed could show
    notes: Tally = field(default_factory=Tally)  # what listed rows lost
    twice: tuple[int, tuple[str, ...]] = (0, ())  # pages listed with and without a slash at the end, a few of them
    new: tuple[str, ...] = ()  # a sample of the added locs, where the gate on new pages wants one

    title: ClassVar[str] = "receipt of render"
