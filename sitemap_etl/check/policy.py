"""Choose which findings are reported, and how severe they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final, Literal

from sitemap_etl.check.codes import CODES, SEVERITIES, Severity
from sitemap_etl.check.report import Report
from sitemap_etl.errors import ConfigError, nearest
from sitemap_etl.frozen import Frozen

Level = Severity | Literal["off"]
LEVELS: Final[tuple[Level, ...]] = (*SEVERITIES, "off")


INCOMPLETE: Final = ("defect", "not-asked", "not-finished", "partly-read", "unreachable")
"""Codes of an incomplete check. Selecting other codes does not hide them."""


class Policy(Frozen):
    """Selection and severities of codes. A pattern is a code or the beginning of codes; the longest match decides.

    select: codes to report; empty means all. Codes of `INCOMPLETE` are always reported.
    ignore: codes to hide. A longer pattern of `select` wins, as in ruff.
    severity: pattern → severity, or "off" to hide.

    Raise ConfigError if a pattern matches no code.
    """

    select: Sequence[str] = ()
    ignore: Sequence[str] = ()
    severity: Mapping[str, Level] = field(default_factory=dict)

    def __post_init__(self) -> None:
        problems = [
            f"{option}: {_unmatched(pattern)}"
            for option, patterns in (("select", self.select), ("ignore", self.ignore), ("severity", self.severity))
            for pattern in patterns
            if not pattern or not any(code.startswith(pattern) for code in CODES)
        ]
        if problems:
            raise ConfigError(problems)

    def severity_of(self, code: str) -> Severity | None:
        """Return the severity of a code, or None if it is hidden."""
        selected = 0 if not self.select or code in INCOMPLETE else _longest(code, self.select)
        if selected < 0 or _longest(code, self.ignore) >= selected:
            return None
        length = _longest(code, self.severity)
        level = CODES[code].severity if length < 0 else self.severity[code[:length]]
        return None if level == "off" else level

    def apply(self, report: Report) -> None:
        """Hide findings, and set the severity of the others."""
        levels = {code: self.severity_of(code) for code in {finding.code for finding in report.findings}}
        kept = [
            replace(finding, level=levels[finding.code])
            for finding in report.findings
            if levels[finding.code] is not None
        ]
        report.left_out += len(report.findings) - len(kept)
        report.findings = kept
        report.sort()


def severities(texts: Sequence[str]) -> dict[str, Level]:
    """Parse `CODE=LEVEL` texts; the last one of each code wins. Raise ConfigError with each invalid text."""
    found: dict[str, Level] = {}
    problems = []
    for text in texts:
        code, mark, level = (part.strip() for part in text.partition("="))
        known = [one for one in LEVELS if one == level]
        if mark and known:
            found[code] = known[0]
        else:
            problems.append(f"severity: expected CODE=LEVEL, where LEVEL is {', '.join(LEVELS)}, got {text!r}")
    if problems:
        raise ConfigError(problems)
    return found


def _longest(code: str, patterns: Sequence[str] | Mapping[str, Level]) -> int:
    """Return the length of the longest pattern that matches, or -1."""
    return max((len(pattern) for pattern in patterns if code.startswith(pattern)), default=-1)


def _unmatched(pattern: str) -> str:
    near = nearest(pattern, list(CODES))
    meant = f"; did you mean {near}?" if near else f"; expected the code of a finding, such as {next(iter(CODES))}"
    return f"no code is called {pattern!r} or begins so{meant}"
