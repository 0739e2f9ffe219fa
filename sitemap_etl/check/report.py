"""The result of a check: findings, the files that were read, and the exit code."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import mask_of
from sitemap_etl.check.codes import CODES, EFFECTS, GROUPS, SEVERITIES, Severity
from sitemap_etl.check.lines import Lines
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.frozen import Frozen
from sitemap_etl.visible import visible

FORMAT: Final = 1
"""The version of the JSON form. It rises when a key goes or changes its meaning; keys may be added at any time."""
STDIN: Final = "<stdin>"
"""What a report calls standard input."""
EXAMPLE_LENGTH: Final = 300
"""Maximum length of an example, in characters."""
DETAILS: Final = 10
"""Findings of one code in one file that differ in their detail. Any more are counted as one finding."""
_OF_ENTRIES: Final = frozenset(code for group in ("URLs", "Dates and hints") for code in GROUPS[group])
"""Codes that occur at most once in an entry."""
_COMBINATIONS: Final = 256
"""Sets of codes by which the entries of one file are counted."""
_WAITING: Final = 64
"""Examples that wait until the first of them are chosen."""
Touched = Mapping[tuple[str, ...], int]
"""How many entries of a file have exactly these codes; entries without any are left out."""


class Example(Frozen):
    """One occurrence of a fault. `line` and `column` (in bytes) count from 1, and are None without a position."""

    line: int | None
    column: int | None
    text: str


class Finding(Frozen):
    """One fault in one file, with all its occurrences.

    `line` and `column` (in bytes): position of the first occurrence, from 1, or None without a position. `detail`: adds
    to the title of the code. `example`: the faulty text. `more`: further occurrences, up to the requested number.
    `level`: replaces the severity of the code. `known`: number of occurrences in the baseline.
    """

    code: str
    file: str
    line: int | None = None
    column: int | None = None
    example: str = ""
    count: int = 1
    detail: str = ""
    more: tuple[Example, ...] = ()
    level: Severity | None = None
    known: int = 0

    @property
    def severity(self) -> Severity:
        return self.level or CODES[self.code].severity

    @property
    def is_known(self) -> bool:
        """True if the baseline has all occurrences. Such a finding does not affect the exit code."""
        return self.known >= self.count

    @property
    def examples(self) -> tuple[Example, ...]:
        """Occurrences to show, the first one first."""
        return (Example(self.line, self.column, self.example), *self.more)

    @property
    def title(self) -> str:
        return CODES[self.code].title

    @property
    def fix(self) -> str:
        return CODES[self.code].fix

    def to_json(self) -> dict[str, Any]:
        return {
            "code": self.code,
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "count": self.count,
            "known": self.known,
            "title": self.title,
            "detail": self.detail,
            "example": self.example,
            "examples": [asdict(example) for example in self.examples],
            "mend": self.fix,
        }


@dataclass
class FileStats:
    """Facts about one file. `bytes`: uncompressed size. `stored`: size as stored or sent."""

    file: str
    kind: str
    rows: int = 0
    bytes: int = 0
    stored: int = 0
    lastmod_min: str | None = None
    lastmod_max: str | None = None
    view: bool = False
    """Lists only URLs that other files list too (news, recent); left out of the search for duplicates."""

    @property
    def lists_urls(self) -> bool:
        """True if the entries are URLs of pages, not of files."""
        return self.kind not in {"index", "robots"}


class Gone(Frozen):
    """An entry of the baseline that the check did not find. `checked`: True if the file was read."""

    code: str
    file: str
    detail: str
    count: int
    checked: bool


class Total(Frozen):
    """One code over all files: its findings, without known ones, the most frequent first."""

    code: str
    severity: Severity
    findings: Sequence[Finding]

    @property
    def title(self) -> str:
        return CODES[self.code].title

    @property
    def fix(self) -> str:
        return CODES[self.code].fix

    @property
    def occurrences(self) -> int:
        return sum(finding.count for finding in self.findings)

    @property
    def files(self) -> int:
        return len({finding.file for finding in self.findings})

    def to_json(self) -> dict[str, Any]:
        first = self.findings[0]
        return {
            "code": self.code,
            "severity": self.severity,
            "title": self.title,
            "findings": len(self.findings),
            "occurrences": self.occurrences,
            "files": self.files,
            "file": first.file,
            "line": first.line,
            "example": first.example,
            "mend": self.fix,
        }


class Affected(Frozen):
    """URLs with an error or a warning of their own; a URL in two files counts twice, one with two faults once.

    `at_least`: there are faults whose URLs are not all known, so there may be more. `unread`: files that could not be
    read; their URLs are not counted.
    """

    urls: int
    at_least: bool
    unread: int


class Visited(Frozen):
    """Counts of sampled pages: all, judged, unknown, and skipped because time ran out."""

    sampled: int = 0
    judged: int = 0
    unknown: int = 0
    skipped: int = 0


@dataclass
class Report:
    """All findings, worst first, and the files that were read, in their order.

    `touched`: by file, how many of its entries have which codes. `left_out`: findings of codes that are not selected.
    `gone`: what the baseline has and was not found. `pages`: those that were visited.
    `ended`: why it ended before all files were read, "" if it did not; `interrupted`: by Ctrl-C or a signal.
    """

    findings: list[Finding] = field(default_factory=list)
    files: list[FileStats] = field(default_factory=list)
    seconds: float = 0.0
    touched: dict[str, Touched] = field(default_factory=dict)
    left_out: int = 0
    gone: list[Gone] = field(default_factory=list)
    pages: Visited = field(default_factory=Visited)
    notes: list[str] = field(default_factory=list)
    """Sentences on the way from a home page to its sitemaps."""
    ended: str = ""
    interrupted: bool = False

    def sort(self) -> None:
        """Sort the findings: worst first, then by file and line. The same input gives the same report."""
        place = {stats.file: number for number, stats in enumerate(self.files)}
        rank = {severity: number for number, severity in enumerate(SEVERITIES)}
        order = {code: number for number, code in enumerate(CODES)}
        self.findings.sort(
            key=lambda f: (
                rank[f.severity],
                place.get(f.file, len(place)),
                f.file,
                f.line or 0,
                order[f.code],
                f.detail,
            )
        )

    @property
    def new(self) -> list[Finding]:
        """The findings that are not known."""
        return [finding for finding in self.findings if not finding.is_known]

    @property
    def counts(self) -> dict[Severity, int]:
        """Number of findings of each severity, without known ones."""
        found = Counter(f.severity for f in self.new)
        return {severity: found[severity] for severity in SEVERITIES}

    @property
    def occurrences(self) -> dict[Severity, int]:
        """Number of occurrences of each severity, without known findings."""
        found: Counter[str] = Counter()
        for finding in self.new:
            found[finding.severity] += finding.count
        return {severity: found[severity] for severity in SEVERITIES}

    @property
    def rows(self) -> int:
        """Entries of all files: URLs, and the files an index lists."""
        return sum(stats.rows for stats in self.files)

    @property
    def urls(self) -> int:
        """Listed URLs; one that two files list counts twice."""
        return sum(stats.rows for stats in self.files if stats.lists_urls)

    def codes(self) -> list[Total]:
        """Return the new findings by code, in the order in which to fix them.

        The worst severity comes first. Within it, faults that lose files come before faults that lose URLs, and these
        before values that engines ignore; then the most frequent.
        """
        by_code: dict[str, list[Finding]] = {}
        for finding in self.new:
            by_code.setdefault(finding.code, []).append(finding)
        totals = [
            Total(code, found[0].severity, sorted(found, key=lambda f: -f.count)) for code, found in by_code.items()
        ]
        return sorted(
            totals,
            key=lambda t: (
                SEVERITIES.index(t.severity),
                EFFECTS.index(CODES[t.code].effect),
                -t.occurrences,
                t.code,
            ),
        )

    def affected(self) -> Affected:
        """Return the number of URLs with an error or a warning that the baseline does not have."""
        of_file: dict[str, list[Finding]] = {}
        for finding in self.new:
            if finding.severity != "info":
                of_file.setdefault(finding.file, []).append(finding)
        urls, at_least = 0, False
        for stats in self.files:
            found = of_file.get(stats.file)
            if not found or not stats.lists_urls:
                continue
            touched = self.touched.get(stats.file, {})
            codes = {finding.code for finding in found}
            placed = {code: sum(n for among, n in touched.items() if code in among) for code in codes}
            counted = [min(finding.count, stats.rows) for finding in found if finding.code in _OF_ENTRIES]
            here = max([sum(n for among, n in touched.items() if not codes.isdisjoint(among)), *counted])
            at_least |= any(f.count > max(1, placed[f.code]) for f in found) and here < stats.rows
            urls += here
        return Affected(urls, at_least, sum(stats.kind == "unread" for stats in self.files))

    def exit_code(self, fail_on: Literal["error", "warning"] = "error") -> int:
        """Return 130 if the check was interrupted, 70 after a defect, 1 for a new finding of at least `fail_on`, else
        0.
        """
        if self.interrupted:
            return 130
        if any(finding.code == "defect" for finding in self.new):
            return SitemapEtlError.exit_code
        counts = self.counts
        return int(counts["error"] > 0 or (fail_on == "warning" and counts["warning"] > 0))

    def to_json(self, fail_on: Literal["error", "warning"] = "error") -> dict[str, Any]:
        """Return a JSON object: status, totals, codes, files, findings. `report.schema.json` describes it."""
        return {
            "format": FORMAT,
            "status": "faults" if self.exit_code(fail_on) else "fine",
            "totals": {
                "files": len(self.files),
                "urls": self.urls,
                "bytes": sum(stats.bytes for stats in self.files),
                **{f"{severity}s" if severity != "info" else severity: n for severity, n in self.counts.items()},
                "occurrences": self.occurrences,
                "affected": asdict(self.affected()),
                "known": len(self.findings) - len(self.new),
                "left_out": self.left_out,
            },
            "codes": [total.to_json() for total in self.codes()],
            "files": [asdict(stats) for stats in self.files],
            "findings": [finding.to_json() for finding in self.findings],
            "gone": [asdict(gone) for gone in self.gone],
            "pages": asdict(self.pages),
            "notes": self.notes,
            "ended": self.ended,
            "seconds": round(self.seconds, 3),
        }


@dataclass
class _Found:
    """Occurrences of one code and detail: their number, the first ones, and all known positions."""

    count: int = 0
    shown: list[tuple[int | None, int | None, str]] = field(default_factory=list)
    points: list[int] = field(default_factory=list)
    places: list[np.ndarray] = field(default_factory=list)

    def first(self, number: int) -> list[tuple[int | None, int | None, str]]:
        """Return the first occurrences. Occurrences without a position come last."""
        self.shown.sort(key=lambda one: math.inf if one[0] is None else one[0])
        del self.shown[number:]
        return self.shown

    def all_places(self) -> np.ndarray:
        """Return the byte offset of each occurrence that has one."""
        return np.concatenate([np.array(self.points, np.int64), *self.places])


class Faults:
    """Collects the findings of one file: one for each code and detail, counted, with the first place.

    `examples`: how many occurrences of a finding are shown. However many details a file brings, there are at most
    `DETAILS` findings of a code, and one for the others.
    """

    def __init__(self, file: str, lines: Lines | None = None, *, examples: int = 1) -> None:
        self.file = file
        self.lines = lines
        self._examples = examples
        self._found: dict[tuple[str, str], _Found] = {}
        self._details: Counter[str] = Counter()

    def add(
        self,
        code: str,
        *,
        at: int | None = None,
        line: int | None = None,
        example: str = "",
        count: int = 1,
        detail: str = "",
        places: Any = None,
    ) -> None:
        """Count a fault. `at`: byte offset in the uncompressed file. Without it, `line` gives the position, if any.

        `places`: offsets of all occurrences (int64), if known.
        """
        found = self._counted(code, detail, count, [(at, line, example)])
        if places is not None:
            found.places.append(places)
        elif at is not None:
            found.points.append(at)

    def rows(self, code: str, mask: Any, texts: Any, offsets: np.ndarray, *, detail: str = "") -> None:
        """Count the rows where `mask` (boolean, Arrow or numpy; null is false) holds; the first is the example.

        Integers are the rows themselves, ascending. `placed`: False if the rows are not entries, so that all their
        positions need not be kept.
        """
        if isinstance(mask, (pa.Array, pa.ChunkedArray)):
            mask = mask_of(mask)
        hits = mask if mask.dtype.kind == "i" else np.flatnonzero(mask)
        if len(hits):
            first = [
                (int(offsets[row]), None, "" if texts is None else _text(texts[int(row)]))
                for row in hits[: self._examples]
            ]
            self._counted(code, detail, len(hits), first).places.append(offsets[hits])

    def _counted(
        self, code: str, detail: str, count: int, first: Sequence[tuple[int | None, int | None, str]]
    ) -> _Found:
        """Add occurrences of a finding. `first`: the ones that can be shown."""
        assert code in CODES, code
        if (code, detail) not in self._found:
            if self._details[code] >= DETAILS:
                detail = "others"
            self._details[code] += 1
        found = self._found.setdefault((code, detail), _Found())
        found.count += count
        found.shown += first
        if len(found.shown) > 2 * self._examples + _WAITING:
            found.first(self._examples)
        return found

    def findings(self) -> Iterable[Finding]:
        for (code, detail), found in self._found.items():
            first, *more = (self._example(*one) for one in found.first(self._examples))
            yield Finding(code, self.file, first.line, first.column, first.text, found.count, detail, tuple(more))

    def _example(self, at: int | None, line: int | None, text: str) -> Example:
        place: tuple[int | None, int | None] = (line, None)
        if at is not None and self.lines is not None:
            place = self.lines.place(at)
        return Example(*place, shown(text))

    def touched(self, starts: np.ndarray, *, within: bool) -> Touched:
        """Return the number of entries that have each code. `starts`: where each entry begins, in bytes, ascending.

        `within`: all up to the next one belongs to an entry; else only what begins where it does.
        """
        codes = list(dict.fromkeys(code for (code, _), found in self._found.items() if found.places or found.points))
        if not len(starts) or not codes:
            return {}
        hit = np.zeros((len(codes), len(starts)), bool)
        for (code, _), found in self._found.items():
            if found.places or found.points:
                places = found.all_places()
                entry = np.searchsorted(starts, places, "right") - 1
                hit[codes.index(code), entry[(entry >= 0) & (within | (starts[entry] == places))]] = True
        packed = np.packbits(hit[:, hit.any(axis=0)], axis=0)
        sets, numbers = np.unique(packed, axis=1, return_counts=True)
        touched: Counter[tuple[str, ...]] = Counter()
        for place in np.argsort(-numbers, kind="stable"):
            among = tuple(code for code, bit in zip(codes, np.unpackbits(sets[:, place]), strict=False) if bit)
            # What has too many combinations to count is rare, and counted under its first code.
            touched[among if len(touched) < _COMBINATIONS else among[:1]] += int(numbers[place])
        return touched


def _text(value: Any) -> str:
    """Return a value of an Arrow or numpy array as text, or empty text for null."""
    text = value.as_py() if hasattr(value, "as_py") else value
    return text or ""


def shown(text: str) -> str:
    """Return an example for output: shortened, with control characters escaped."""
    return visible(text if len(text) <= EXAMPLE_LENGTH else text[:EXAMPLE_LENGTH] + "…")


def place_of(file: str, at: Finding | Example) -> str:
    """Return a place as compilers print it: file, line and column, as far as they are known."""
    return ":".join([visible(file), *(str(number) for number in (at.line, at.column) if number)])
