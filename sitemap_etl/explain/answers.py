"""The answer about one URL: facts as records, and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal, TypeAlias

from sitemap_etl.explain.reports import Asked, Report, Rows, SetAside
from sitemap_etl.explain.spellings import differences, in_words
from sitemap_etl.frozen import Frozen

_CALLED: Final = {"refused": "which was refused", "dry_run": "a dry run"}
_RULES: Final = {
    "where": "the section's `where`",
    "urls.exclude": "a pattern of `urls.exclude`",
    "robots.txt": "the site's robots.txt",
}

Kind: TypeAlias = Literal["listed", "excluded", "rejected", "duplicate", "absent"]


class NamedRun(Frozen):
    """Run in an answer. Unknown fields are None."""

    run_id: str | None
    at: str | None
    status: str | None = None
    rolled_back_to: str | None = None

    @classmethod
    def of(cls, report: Report) -> NamedRun:
        """Return the run of a report."""
        return cls(report.run_id, report.summary.now, report.status)

    def in_words(self, what: str = "run") -> str:
        """Return a phrase such as: run 20261101T020000Z-5f97 of 2026-11-01 02:00 UTC, which was refused,."""
        text = f"{what} {self.run_id}"
        if self.at:
            text += f" of {self.at[:10]} {self.at[11:16]} UTC"
        called = _CALLED.get(self.status or "")
        return f"{text}, {called}," if called else text


class Since(Frozen):
    """Start of a row's current content. `how`: added, changed, first publish, or added or changed if that is unknown.

    `before`: a time after the first publish, if its run is no longer kept.
    """

    at: str | None
    run_id: str | None
    how: str
    before: str | None = None

    @property
    def run(self) -> NamedRun:
        """Run that added or changed the row."""
        return NamedRun(self.run_id, self.at)


class Cluster(Frozen):
    """Hreflang group of a page, and its languages in the group."""

    group: str
    hreflang: tuple[str, ...]


class Link(Frozen):
    """Link to another language of a page."""

    hreflang: str
    href: str


class Listing(Frozen):
    """File and values of a listed URL. `file`: None if the run was not published. `priority`: 0.0 to 1.0."""

    section: str
    view: bool
    file: str | None = None
    number: int | None = None
    index: str | None = None
    lastmod: str | None = None
    changefreq: str | None = None
    priority: float | None = None
    images: int = 0
    alternates: tuple[Link, ...] = ()
    cluster: Cluster | None = None
    since: Since | None = None


class Near(Frozen):
    """A listed loc that is like the URL, and their difference."""

    loc: str
    differs: tuple[str, ...]

    @classmethod
    def of(cls, url: str, loc: str) -> Near:
        """Return the loc, compared with the URL."""
        return cls(loc, tuple(differences(url, loc)))


class Later(Frozen):
    """Outcome of a URL in the newest run, which was not published. `known`: what it would list is known.

    `without`: the section that lists the URL now, if the run's site file does not have it.
    """

    run: NamedRun
    listed: Listing | None
    nearest: tuple[Near, ...]
    known: bool
    rows: Rows
    without: str | None = None

    @property
    def kind(self) -> Kind:
        """Outcome of the URL in the run."""
        return kind_of(self.listed, self.rows)

    def lost(self) -> str:
        """Return the reason why this run would not list the URL, as a clause."""
        run = self.run.in_words()
        rows = [row for row in self.rows.shown if row.answer == self.kind]
        if rows:
            return f"{run} {_fate(rows[0])}"
        if not self.known:
            return f"{run} left nothing that tells whether its source had it"
        if self.without is not None:
            return f"its section {self.without} is not in the site file of {run.removesuffix(',')}"
        if self.nearest:
            near = self.nearest[0]
            return f"{run} would list {near.loc} instead, which differs only by {in_words(near.differs)}"
        return f"{run} did not have it in its source"


class Changes(Frozen):
    """Incremental read of a section. `full_at`: the time of its last full read."""

    run: NamedRun
    full_at: str


class Dropped(Frozen):
    """A section that the site file does not have any more, and the first run without it."""

    section: str
    run: NamedRun


@dataclass
class Explained:
    """All facts about a URL.

    `listed`, `views`: its published entries. `rows`: its source rows that are not listed. `last_listed`: the last
    release that listed it, if the current one does not. `later`: the result of the newest run, if it was not published.
    `nearest`: listed locs that differ only in spelling. `unreported`: True if the last run that read the sources left
    no report. `dropped`: the section that listed it, if the site file no longer has it. `changes`: the last read, if it
    was incremental and did not yield the URL.
    """

    asked: Asked
    reason: str | None  # why it can't be a loc
    published: NamedRun | None
    read_by: NamedRun | None
    not_read: Mapping[str, str]  # sections that this run kept as they were, and why
    rows: Rows = field(default_factory=Rows)
    listed: Listing | None = None
    views: list[Listing] = field(default_factory=list)
    last_listed: NamedRun | None = None
    later: Later | None = None
    nearest: list[Near] = field(default_factory=list)
    unreported: bool = False
    dropped: Dropped | None = None
    changes: Changes | None = None

    @property
    def kind(self) -> Kind:
        """Outcome of the URL in the run."""
        return kind_of(self.listed, self.rows)

    def sentence(self) -> str:
        """Return the answer in one sentence."""
        shown = self.asked.text
        if self.asked.canonical not in (None, shown):
            shown = f"{shown} ({self.asked.canonical})"
        return f"{shown} {self._listed(self.listed) if self.listed is not None else self._not_listed()}."

    def _listed(self, listed: Listing) -> str:
        later = self.later
        if later is not None and later.kind != "listed" and self.published is not None:
            return f"is listed ({self.published.in_words('published by run')}), but {later.lost()}"
        dated = f"lastmod {listed.lastmod}" if listed.lastmod else "without lastmod"
        return f"is listed in section {listed.section}: {listed.file}, {dated}"

    def _not_listed(self) -> str:
        later, kind = self.later, self.kind
        near = _near(self.nearest)
        head = "is not listed any more" if self.last_listed is not None else "is not listed"
        if later is not None and later.listed is not None:
            return f"{head}, but {later.run.in_words()} would list it in section {later.listed.section}"
        if kind != "absent":
            row = self.rows.of(kind)[0]
            also = near if kind == "rejected" else ""
            return f"{head}: {NamedRun(row.run_id, row.at).in_words()} {_fate(row)}{also}"
        if self.reason is not None:
            head = f"is not listed and can't be ({self.reason})"
        if later is not None and (later.kind != "absent" or self.read_by is None):
            return f"{head}: {later.lost()}{near}"
        return f"{head}: {self._absent()}{near}"

    def _absent(self) -> str:
        """Return the reason why no row of the URL is known."""
        back = self._rolled_back()
        if self.dropped is not None:
            return f"its section {self.dropped.section} is not in the site file of {self.dropped.run.in_words()}{back}"
        if self.read_by is None:
            return f"it is not in the release of {(self.published or NamedRun(None, None)).in_words()}"
        other = None if self.later is None else self.later.run.in_words().removesuffix(",")
        if self.unreported:
            also = "" if other is None else f", and was not in the source at {other}"
            return f"it is not in the release of {self.read_by.in_words()}, which left no report{also}"
        if self.changes is not None:
            also = "" if other is None else f", nor did {other}"
            full = f"{self.changes.full_at[:10]} {self.changes.full_at[11:16]} UTC"
            return (
                f"the incremental read of {self.changes.run.in_words()}{back} did not yield it{also} (all rows were "
                f"read last on {full}; a run with --full reads them again)"
            )
        also = "" if other is None else f", nor at {other}"
        return f"it was not in the source at {self.read_by.in_words()}{back}{also}"

    def _rolled_back(self) -> str:
        """Return a clause about the rollback, if it went back to a run before the page was listed."""
        if self.published is None or self.last_listed is None or self.published.rolled_back_to is None:
            return ""
        if (self.last_listed.run_id or "") <= self.published.rolled_back_to:
            return ""
        return f", to which {self.published.in_words('rollback').removesuffix(',')} went back"


def json_of(answer: Explained) -> dict[str, Any]:
    """Return the JSON that `explain --json` prints for one URL."""
    later = answer.later
    return {
        "url": answer.asked.text,
        "canonical": answer.asked.canonical,
        "reason": answer.reason,
        "answer": answer.kind,
        "sentence": answer.sentence(),
        "listed": None if answer.listed is None else _listing_json(answer.listed),
        "views": [_listing_json(view) for view in answer.views],
        "set_aside": _rows_json(answer.rows),
        "last_listed": _run_json(answer.last_listed, "run_id", "at"),
        "later": None
        if later is None
        else {
            **asdict(later.run),
            "answer": later.kind,
            "listed": None if later.listed is None else _listing_json(later.listed),
            "nearest": [asdict(near) for near in later.nearest],
            "known": later.known,
            "set_aside": _rows_json(later.rows),
        },
        "nearest": [asdict(near) for near in answer.nearest],
        "published": _run_json(answer.published, "run_id", "at", "rolled_back_to"),
        "read_by": _run_json(answer.read_by, "run_id", "at", "status"),
        "not_read": dict(answer.not_read),
    }


def _run_json(run: NamedRun | None, *names: str) -> dict[str, Any] | None:
    return None if run is None else {name: getattr(run, name) for name in names}


def _listing_json(listing: Listing) -> dict[str, Any]:
    """Return a listing as JSON, without the keys that its kind does not have."""
    shown = asdict(listing)
    if listing.since is None:
        del shown["since"]
    elif listing.since.before is None:
        del shown["since"]["before"]
    return shown


def _rows_json(rows: Rows) -> dict[str, Any]:
    """Return the number of rows of each kind, and some of the rows."""
    return {"counts": {kind: n for kind, n in rows.counts.items() if n}, "rows": [asdict(row) for row in rows.shown]}


def kind_of(listed: Listing | None, rows: Rows) -> Kind:
    """Return the outcome of a URL."""
    if listed is not None:
        return "listed"
    kinds: tuple[Kind, ...] = ("excluded", "rejected", "duplicate")
    return next((kind for kind in kinds if rows.counts.get(kind)), "absent")


def row_in_words(row: SetAside) -> str:
    """Return the reason and the origin of a row that was not listed."""
    reason = _RULES.get(row.reason, row.reason)
    if row.row is None and row.read_by is None:
        return f"{reason} (as it was published: section {row.section} was not read)"
    if row.row is None:
        which = f"key {row.key}" if row.key is not None else "a row without key"
        return f"{reason} ({which}, read by run {row.read_by})"
    return f"{reason} ({row.counted} {row.row:,} of {row.source})"


def _fate(row: SetAside) -> str:
    done = "had it as a duplicate only" if row.answer == "duplicate" else f"{row.answer} it"
    return f"{done}: {row_in_words(row)}"


def _near(nearest: list[Near]) -> str:
    if not nearest:
        return ""
    near = nearest[0]
    how = f", which differs only by {in_words(near.differs)}" if near.differs else ""
    return f"; {near.loc} is listed{how}"
