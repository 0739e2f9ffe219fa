"""Reports of runs: the sections that they read, and the rows that they did not list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from sitemap_etl.arrow import column_of
from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.frames import AS_PUBLISHED, ROW_BITS
from sitemap_etl.frozen import Frozen
from sitemap_etl.stages.decide import LISTED_ALREADY
from sitemap_etl.state import layout
from sitemap_etl.state.checked import open_checked
from sitemap_etl.state.records import Checked, ReadSplit, Splits, Summary
from sitemap_etl.state.store import read_document
from sitemap_etl.storage import Storage
from sitemap_etl.urls import UrlRules, canonical_urls, canonicalize

KINDS: Final = {"rejected": "rejected", "excluded": "excluded", "duplicates": "duplicate"}
"""Report table of rows that are not listed → their outcome."""
SHOWN: Final = 20
"""Maximum rows of one outcome in the answer about a URL. All are counted."""
_LOOKED_BACK: Final = 40
"""Maximum reports that are opened to find the run that last read a section."""


class Report(Frozen):
    """Files of one run: its summary, and the rows that it read."""

    run_id: str
    summary: Summary
    splits: Splits

    @property
    def status(self) -> str:
        """Status of the run."""
        return self.summary.status

    @property
    def read(self) -> frozenset[str]:
        """Sections that the run read."""
        return frozenset(self.splits.read)

    def left_out(self, section: str) -> bool:
        """Return True if the run excluded rows of a section, or counted duplicates, possibly without reading it."""
        counts = self.summary.sections.get(section)
        return counts is not None and counts.excluded + counts.duplicates > 0

    @property
    def public(self) -> bool:
        """True if the published files have the result of this run."""
        return self.status in ("published", "unchanged", "partial")


class SetAside(Frozen):
    """A source row that was not listed.

    `row` counts from 1 in `source`: the rows as they were read, or in CSV the lines (`counted`). In a section that
    keeps a mirror a row is known by its `key` and the run it was `read_by`. What is known of neither was published, and
    not read again.
    """

    answer: str  # rejected, excluded, duplicate
    run_id: str
    at: str  # when that run was, YYYY-MM-DDThh:mm:ssZ
    section: str
    loc: str | None  # as it was in the source
    reason: str
    source: str | None
    row: int | None
    counted: str | None = None  # line, row
    key: str | None = None
    read_by: str | None = None


@dataclass
class Rows:
    """Excluded, rejected and duplicate rows of one URL: a few of each kind, and their number."""

    shown: list[SetAside] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    def of(self, answer: str) -> list[SetAside]:
        """Return the shown rows of one kind."""
        return [row for row in self.shown if row.answer == answer]

    def merge(self, other: Rows) -> None:
        """Add the rows of another run."""
        self.shown += other.shown
        for answer, count in other.counts.items():
            self.counts[answer] = self.counts.get(answer, 0) + count


def reports(work: Storage) -> Iterator[Report]:
    """Yield the reports of runs, newest first. Reports that can't be read are skipped."""
    names = {run for stat in work.list(layout.REPORTS) if stat.key == layout.summary(run := layout.run_of(stat.key))}
    for run_id in sorted(names, reverse=True)[:_LOOKED_BACK]:
        report = report_of(work, run_id)
        if report is not None:
            yield report


def report_of(work: Storage, run_id: str) -> Report | None:
    """Return the report of a run, or None if it was removed or can't be read."""
    try:
        summary = read_document(work, layout.summary(run_id), Summary)
        splits = read_document(work, layout.splits(run_id), Splits)
    except (DamagedState, Refused):
        return None  # nothing rests on a report
    return None if summary is None else Report(run_id, summary[0], Splits() if splits is None else splits[0])


class Asked(Frozen):
    """A URL in the spellings by which a source may have had it."""

    text: str
    canonical: str | None  # on the site; None: it can't be listed
    anywhere: str | None  # its canonical form on any host

    def raw(self, rules: UrlRules) -> list[str]:
        """Return the texts that a source can have for this URL."""
        found = [self.text, self.text.strip(), self.canonical, self.anywhere]
        if self.canonical is not None:
            path = self.canonical.removeprefix(rules.site)
            found += [path, path.removeprefix("/")]
        return [text for text in dict.fromkeys(found) if text]

    def needle(self) -> str | None:
        """Return the longest part of path and query without special characters, or None.

        Every spelling of the URL has it, except with unnecessary escapes.
        """
        rest = re.sub(r"^https?://[^/?]*", "", self.canonical or self.anywhere or "")
        pieces = re.split(r"%[0-9A-F]{2}|[^A-Za-z0-9_-]+", rest)
        return max(pieces, key=len) or None


def set_aside(
    work: Storage, report: Report, asked: Sequence[Asked], rules: UrlRules, sections: frozenset[str]
) -> dict[str, Rows]:
    """Return the unlisted rows of these sections in a run, by the text of their URL.

    Of sections that it did not render, because nothing differed, the duplicates are those of the run that did; of
    sections that it left untouched, all rows are those of the run that applied the rules. A file is read piece by
    piece, its rows filtered as they are read. Raise DamagedState.
    """
    found = {one.text: Rows() for one in asked}
    if not asked:
        return found
    for name, run_id in report.splits.untouched.items():
        earlier = report_of(work, run_id) if name in sections else None
        if earlier is not None:
            for text, rows in set_aside(work, earlier, asked, rules, frozenset({name})).items():
                found[text].merge(rows)
    sections -= report.splits.untouched.keys()
    own = pc.field("section").isin(pa.array(sorted(sections), pa.string()))
    for kind, answer in KINDS.items():
        _look(work, report, kind, answer, asked, rules, own, found)
    rendered: dict[str, list[str]] = {}
    for section, run_id in report.splits.quiet.items():
        if section in sections:
            rendered.setdefault(run_id, []).append(section)
    for run_id, quiet in rendered.items():
        earlier = report_of(work, run_id)
        if earlier is not None:
            theirs = pc.field("section").isin(pa.array(quiet, pa.string())) & pc.starts_with(
                pc.field("reason"), LISTED_ALREADY
            )
            _look(work, earlier, "duplicates", KINDS["duplicates"], asked, rules, theirs, found)
    return found


def _look(
    work: Storage,
    report: Report,
    name: str,
    answer: str,
    asked: Sequence[Asked],
    rules: UrlRules,
    which: pc.Expression,
    found: dict[str, Rows],
) -> None:
    """Search one table of a run's report for the rows that `which` selects."""
    table = report.splits.tables.get(name)
    if table is None or work.stat(table.key) is None:
        return
    for batch in _scan(work, table, which & _condition(asked, rules)):
        _match(batch, report, answer, asked, rules, found)


def _condition(asked: Sequence[Asked], rules: UrlRules) -> pc.Expression:
    """Return a filter that finds every row that can be one of these URLs, and some others."""
    exact = pa.array([one.canonical for one in asked if one.canonical is not None], pa.string())
    condition = pc.field("canonical").isin(exact)
    raw = pa.array([text for one in asked for text in one.raw(rules)], pa.string())
    condition |= pc.field("loc").isin(raw)
    needles = [one.needle() for one in asked if one.canonical or one.anywhere]
    if not needles:
        return condition
    like = pc.is_null(pc.field("canonical"))
    if None not in needles:
        pattern = "|".join(sorted({re.escape(needle) for needle in needles if needle}))
        like &= pc.match_substring_regex(pc.field("loc"), f"(?:{pattern})")
    return condition | like


def _scan(work: Storage, table: Checked, condition: pc.Expression) -> Iterator[pa.Table]:
    file = pa.PythonFile(open_checked(work, table), mode="r")
    fragment = ds.ParquetFileFormat().make_fragment(file, file_size=table.bytes)
    for batch in fragment.to_batches(filter=condition, batch_readahead=2):
        if batch.num_rows:
            yield pa.Table.from_batches([batch])


def _match(
    batch: pa.Table,
    report: Report,
    answer: str,
    asked: Sequence[Asked],
    rules: UrlRules,
    found: dict[str, Rows],
) -> None:
    raw = column_of(batch, "loc")
    canonical = pc.coalesce(column_of(batch, "canonical"), canonicalize(raw, rules).loc)
    anywhere = pc.coalesce(canonical, canonical_urls(raw).loc)
    for one in asked:
        same = pc.is_in(raw, pa.array([one.text, one.text.strip()], pa.string()))
        for column, value in ((canonical, one.canonical), (anywhere, one.anywhere)):
            if value is not None:
                same = pc.or_(same, pc.fill_null(pc.equal(column, value), False))
        rows = found[one.text]
        matching = batch.filter(same)
        rows.counts[answer] = rows.counts.get(answer, 0) + matching.num_rows
        room = SHOWN - len(rows.of(answer))
        rows.shown += [_row(row, report, answer) for row in matching.slice(0, max(0, room)).to_pylist()]


def _row(row: dict[str, Any], report: Report, answer: str) -> SetAside:
    number, position = row["row"] >> ROW_BITS, row["row"] & ((1 << ROW_BITS) - 1)
    read = report.splits.splits
    reader = report.splits.readers.get(str(number))
    split = read[number] if 0 <= number < len(read) else ReadSplit(row["section"], "its split")
    counted, place, source = split.place(position)
    by_place = row["row"] != AS_PUBLISHED and reader is None
    return SetAside(
        answer=answer,
        run_id=report.run_id,
        at=report.summary.now or "",
        section=row["section"],
        loc=row["loc"],
        reason=row["reason"],
        source=source if by_place else None,
        row=place if by_place else None,
        counted=counted if by_place else None,
        key=row.get("key"),
        read_by=None if reader is None else reader.label,
    )
