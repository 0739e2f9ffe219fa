"""What a run found, for those who ask later."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, ClassVar, Final, Literal, TypeAlias

from sitemap_etl.frames import Tally
from sitemap_etl.state.records.base import Document, Record, renamed
from sitemap_etl.state.records.mirrors import Drift
from sitemap_etl.state.records.published import Answered, Counts, Gate
from sitemap_etl.state.records.run import Checked, Clusters, FileLines

Status: TypeAlias = Literal["published", "unchanged", "dry_run", "refused", "partial", "failed"]
AttemptStatus: TypeAlias = Status | Literal["running", "interrupted"]


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


class Example(Record):
    """A loc whose lastmod is another in a live sitemap."""

    loc: str
    here: str | None
    there: str | None


class Difference(Record):
    """How many URLs differ in one way, with a few of them."""

    count: int = 0
    examples: tuple[str | Example, ...] = ()


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


class Asked(Record):
    """The options of a run that its report tells of."""

    sections: tuple[str, ...] = ()
    full: bool = False
    limit: int | None = None


def total(sections: Mapping[str, Counts], views: Collection[str]) -> Counts:
    """The counts of a site: those of its sections without views, which repeat URLs of others."""
    return sum((counts for name, counts in sections.items() if name not in views), Counts())


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
    clusters: Clusters = field(default_factory=Clusters)
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

    @property
    def total(self) -> Counts:
        """The counts of the site."""
        return total(self.sections, self.views)

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        plan = data.get("plan")
        return data if plan is None else {**data, "plan": renamed(plan, broken_off="interrupted", foreign="unmanaged")}


class Attempt(Document):
    """What became of one run: what `status`, `history`, the report and the metrics tell of it for a year.

    It names no page but in the words of an error or a warning. `owner`: the scheduler's run. `rejected`: section →
    reason → rows.
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
    alerted: str | None = None  # when people were told last of how it ended
    alerted_status: AttemptStatus | None = None  # and what they were told

    title: ClassVar[str] = "record of a run"

    @property
    def total(self) -> Counts:
        """The counts of the site."""
        return total(self.sections, self.views)

    @property
    def listed(self) -> int:
        """URLs that its set lists, or would list."""
        return self.total.listed

    @property
    def good(self) -> bool:
        """Whether everything that it was to do is done."""
        return self.status in ("published", "unchanged")

    @property
    def failed(self) -> bool:
        """Whether somebody should look."""
        return self.status in ("failed", "refused", "partial", "interrupted")


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


class PastRuns(Document):
    """The last runs of a site, oldest first, dry ones left out: all that a page of many sites reads of it."""

    name: str
    site: str
    runs: tuple[PastRun, ...] = ()

    title: ClassVar[str] = "list of the last runs"


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
