"""What a check found: findings, what was read, and the exit code they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import mask_of
from sitemap_etl.check.codes import CODES, SEVERITIES, Severity

EXAMPLE_LENGTH: Final = 300
"""Maximum length of an example, in characters."""


@dataclass(frozen=True)
class Finding:
    """One fault in one file, however often it occurs there.

    `line` and `column` (from 1, column in bytes) are of the first occurrence, None where there is no position.
    `detail` says more than the code's title, `example` shows the text that is at fault.
    """

    code: str
    file: str
    line: int | None = None
    column: int | None = None
    example: str = ""
    count: int = 1
    detail: str = ""

    @property
    def severity(self) -> Severity:
        return CODES[self.code].severity

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
            "title": self.title,
            "detail": self.detail,
            "example": self.example,
            "mend": self.fix,
        }


@dataclass
class FileStats:
    """What was read of one file. `bytes` is the uncompressed size, `stored` the size as stored or sent."""

    file: str
    kind: str
    rows: int = 0
    bytes: int = 0
    stored: int = 0
    lastmod_min: str | None = None
    lastmod_max: str | None = None
    view: bool = False
    """Lists only URLs that other files list too (news, recent); left out of the search for duplicates."""


@dataclass
class Report:
    """All findings, worst first, and the files that were read, in their order."""

    findings: list[Finding] = field(default_factory=list)
    files: list[FileStats] = field(default_factory=list)
    seconds: float = 0.0

    def sort(self) -> None:
        """Worst first; then by file and line, so that the same input gives the same report."""
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
    def counts(self) -> dict[Severity, int]:
        """Findings of each severity."""
        found = Counter(f.severity for f in self.findings)
        return {severity: found[severity] for severity in SEVERITIES}

    @property
    def rows(self) -> int:
        """Entries of all files: URLs, and the files an index lists."""
        return sum(stats.rows for stats in self.files)

    def exit_code(self, fail_on: Literal["error", "warning"] = "error") -> int:
        """1 where a finding is as bad as `fail_on` or worse, else 0."""
        counts = self.counts
        return int(counts["error"] > 0 or (fail_on == "warning" and counts["warning"] > 0))

    def to_json(self, fail_on: Literal["error", "warning"] = "error") -> dict[str, Any]:
        """One object: status, totals, files, findings."""
        urls = sum(stats.rows for stats in self.files if stats.kind not in {"index", "robots"})
        return {
            "status": "faults" if self.exit_code(fail_on) else "fine",
            "totals": {
                "files": len(self.files),
                "urls": urls,
                "bytes": sum(stats.bytes for stats in self.files),
                **{f"{severity}s" if severity != "info" else severity: n for severity, n in self.counts.items()},
            },
            "files": [asdict(stats) for stats in self.files],
            "findings": [finding.to_json() for finding in self.findings],
            "seconds": round(self.seconds, 3),
        }


class Lines:
    """Line and column of a byte offset; the newlines are looked up when first asked for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._newlines: np.ndarray | None = None

    def place(self, offset: int) -> tuple[int, int]:
        """(line, column), both from 1; the column counts bytes."""
        if self._newlines is None:
            self._newlines = np.flatnonzero(np.frombuffer(self._data, np.uint8) == ord("\n"))
        line = int(np.searchsorted(self._newlines, offset))
        begin = int(self._newlines[line - 1]) + 1 if line else 0
        return line + 1, offset - begin + 1

    def offset(self, line: int, column: int) -> int:
        """The byte offset of a place, within the data."""
        self.place(0)
        assert self._newlines is not None
        line = min(line, len(self._newlines) + 1)
        begin = int(self._newlines[line - 2]) + 1 if line > 1 else 0
        return min(begin + column - 1, len(self._data))


class Faults:
    """Collects the findings of one file: one for each code and detail, counted, with the first place."""

    def __init__(self, file: str, lines: Lines | None = None) -> None:
        self.file = file
        self.lines = lines
        self._found: dict[tuple[str, str], list[Any]] = {}

    def add(
        self,
        code: str,
        *,
        at: int | None = None,
        line: int | None = None,
        example: str = "",
        count: int = 1,
        detail: str = "",
    ) -> None:
        """Count a fault. `at`: byte offset in the uncompressed file; else `line`, or no place."""
        assert code in CODES, code
        known = self._found.get((code, detail))
        if known is None:
            self._found[(code, detail)] = [count, at, line, example]
            return
        known[0] += count
        if at is not None and (known[1] is None or at < known[1]):
            known[1:] = [at, line, example]

    def rows(self, code: str, mask: Any, texts: Any, offsets: np.ndarray, *, detail: str = "") -> None:
        """Count the rows where `mask` (boolean, Arrow or numpy; null is false) holds; the first is the example."""
        if isinstance(mask, (pa.Array, pa.ChunkedArray)):
            mask = mask_of(mask)
        hits = np.flatnonzero(mask)
        if len(hits):
            first = int(hits[0])
            text = texts[first] if texts is not None else ""
            text = text.as_py() if hasattr(text, "as_py") else text
            self.add(code, at=int(offsets[first]), example=text or "", count=len(hits), detail=detail)

    def findings(self) -> Iterable[Finding]:
        for (code, detail), (count, at, line, example) in self._found.items():
            place: tuple[int | None, int | None] = (line, None)
            if at is not None and self.lines is not None:
                place = self.lines.place(at)
            yield Finding(code, self.file, place[0], place[1], shown(example), count, detail)


def shown(text: str) -> str:
    """An example as it is printed: shortened, with control characters escaped."""
    if len(text) > EXAMPLE_LENGTH:
        text = text[:EXAMPLE_LENGTH] + "…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
