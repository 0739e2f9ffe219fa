"""Records of the outcome of a run: its summary, its entry in the history, its preview and its splits."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from functools import cached_property
from typing import ClassVar, Final, Literal, TypeAlias

from sitemap_etl.frames import Tally
from sitemap_etl.state.records.base import Document, Record
from sitemap_etl.state.records.mirrors import Drift
from sitemap_etl.state.records.published import Answered, Counts, Gate
from sitemap_etl.state.records.run import Checked, Clusters, FileLines

Status: TypeAlias = Literal["published", "unchanged", "dry_run", "refused", "partial", "failed"]
AttemptStatus: TypeAlias = Status | Literal["running", "interrupted"]


class Files(Record):
    """Numbers of files of a run."""

    written: int = 0  # files that were written
    unchanged: int = 0  # files of the release that were not written
    deleted: int = 0  # files that were deleted
    robots_txt: bool = False  # True if robots.txt was written, or would be
    key_file: bool = False  # True if the IndexNow key file was written, or would be
    to_write: int | None = None  # files that a dry or refused run would write; None for other runs
    to_delete: int | None = None  # files that it would delete


ROBOTS_TXT: Final = "robots.txt"


class Preview(Record):
    """The changes that publishing a dry or refused run would make. Files are named by key."""

    write: tuple[str, ...]
    delete: tuple[str, ...]
    retire: tuple[str, ...]
    unmanaged: tuple[str, ...]
    unchanged: int
    interrupted: bool
    key_file: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files to write, without robots.txt."""
        return tuple(key for key in self.write if key != ROBOTS_TXT)


class Example(Record):
    """A loc with different lastmods in the run and in the live sitemap."""

    loc: str  # URL of the page
    here: str | None  # lastmod in the run
    there: str | None  # lastmod in the live sitemap


class Difference(Record):
    """URLs that differ in one way."""

    count: int = 0  # number of URLs
    examples: tuple[str | Example, ...] = ()  # the first few


class Comparison(Record):
    """The differences between a live sitemap and the release that a run would publish (`--against`)."""

    url: str  # address of the live sitemap
    files: int  # files of the live sitemap
    urls: int  # URLs in the live sitemap
    here: int  # URLs in the run
    both: int  # URLs in both
    repeated: int  # entries of the live sitemap that repeat a URL
    problems: tuple[str, ...]  # files that can't be read, in words
    only_here: Difference  # URLs that only the run lists
    only_there: Difference  # URLs that only the live sitemap lists
    other_lastmod: Difference  # URLs in both with different lastmods
    respelled: Difference  # URLs in both with different spellings


class Shape(Record):
    """Fill and ages of a section's files, for the report."""

    files: int = 0  # number of files
    fill: tuple[int, ...] = ()  # files by tenths of the limits that they use, ten numbers
    undated: int = 0  # pages without a lastmod
    # Estimated pages by age of their lastmod: one number for each limit in `publish.shape.AGES`, and one for older.
    ages: tuple[int, ...] = ()
    unrecorded: int = 0  # pages of files from early versions, which recorded no ages


class Asked(Record):
    """The options of a run that its report shows."""

    sections: tuple[str, ...] = ()  # `--section`; empty means all
    full: bool = False  # `--full`
    limit: int | None = None  # rows of each split


def total(sections: Mapping[str, Counts], views: Collection[str]) -> Counts:
    """Return the sum of the sections' counts. Views don't count, because they repeat URLs of other sections."""
    return sum((counts for name, counts in sections.items() if name not in views), Counts())


class Summary(Document):
    """The outcome of a run. `--json` prints it, the report shows it, `reports/<run>/summary.json` stores it."""

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
    rolled_back_to: str | None = None  # the run whose release a rollback published again, or would

    title: ClassVar[str] = "summary"

    @cached_property
    def total(self) -> Counts:
        """The counts of the site, without views."""
        return total(self.sections, self.views)


class Attempt(Document):
    """The entry of one run in the history. `status`, `history`, the report and the metrics read it for a year.

    It contains no URLs of pages, except in the text of errors and warnings.
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
    alerted: str | None = None  # when the last message about its end was sent
    alerted_status: AttemptStatus | None = None  # and the changes that they received

    title: ClassVar[str] = "record of a run"

    @cached_property
    def total(self) -> Counts:
        """The counts of the site, without views."""
        return total(self.sections, self.views)

    @property
    def listed(self) -> int:
        """URLs that its release lists, or would list."""
        return self.total.listed

    @property
    def good(self) -> bool:
        """True if the run did everything that it was asked to do."""
        return self.status in ("published", "unchanged")

    @property
    def failed(self) -> bool:
        """True if a person should look at the run."""
        return self.status in ("failed", "refused", "partial", "interrupted")


class PastRun(Record):
    """A short entry of a run, for a page about many sites.

    The counts are URLs of the site, without views. They are 0 if the run ended before it counted.
    """

    run_id: str  # id of the run
    now: str  # the run's `now`
    status: AttemptStatus  # outcome
    ended: str = ""  # end by the machine's clock, YYYY-MM-DDThh:mm:ssZ
    owner: str = ""  # scheduler's run
    error: str = ""  # first line of the error
    listed: int = 0  # URLs listed
    added: int = 0  # URLs added
    changed: int = 0  # URLs changed
    removed: int = 0  # URLs removed


class PastRuns(Document):
    """`reports/runs.json`: the last runs of a site. The Airflow page about all sites reads it."""

    name: str
    site: str
    runs: tuple[PastRun, ...] = ()

    title: ClassVar[str] = "list of the last runs"


class KeptSet(Record):
    """A stored release, as `history` shows it."""

    run_id: str  # run that published it
    now: str  # the run's `now`
    current: bool  # True for the current release
    listed: int  # URLs of the site, without views
    files: int  # public files
    sections: Mapping[str, int]  # section → listed URLs
    counts: Mapping[str, Counts]  # section → its rows
    forced: tuple[str, ...]  # names of gates that a person overruled
    reason: str | None  # reason given with `--force` or `--now`
    rolled_back_to: str | None  # run whose release a rollback published again
    engines: Mapping[str, Answered]  # engine → its answer


class ReadSplit(Record):
    """A split that a run read. It translates row numbers of the report into places in the source."""

    section: str  # section of the split
    label: str  # name of the split in messages
    lines: tuple[FileLines, ...] = ()  # files whose rows are numbered by line, as in `Extracted`

    def place(self, position: int) -> tuple[str, int, str]:
        """Return the place of a row: `line` or `row`, its number from 1 on, and the file or the split's label."""
        file = next((file for file in reversed(self.lines) if file.before <= position), None)
        if file is None:
            return "row", position + 1, self.label
        return "line", position - file.before + 1, file.path


class Splits(Document):
    """`reports/<run>/splits.json`: the sections and splits that a run read. `explain` and `forget` read it."""

    splits: tuple[ReadSplit, ...] = ()
    readers: Mapping[str, ReadSplit] = field(default_factory=dict)
    read: tuple[str, ...] = ()
    tables: Mapping[str, Checked] = field(default_factory=dict)
    quiet: Mapping[str, str] = field(default_factory=dict)
    untouched: Mapping[str, str] = field(default_factory=dict)

    title: ClassVar[str] = "list of splits"
