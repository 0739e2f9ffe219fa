"""The findings of a check as one HTML file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal

from sitemap_etl import __version__
from sitemap_etl.check import FileStats, Finding, Report
from sitemap_etl.check.report import place_of
from sitemap_etl.dates import instant
from sitemap_etl.report.paper import duration, several, size, template
from sitemap_etl.web import shown_address

_EXAMPLES: Final = 5
"""Examples of one code that are shown, unless more were asked for."""
_MOST: Final = 1_000
"""Maximum number of examples of one code."""
_FILES: Final = 500
"""Maximum number of files, the worst first."""
_SEVERITIES: Final = {"error": "errors", "warning": "warnings", "info": "info"}
_FINDINGS: Final = 50
"""Maximum number of findings of one file."""
_GONE: Final = 200
"""Maximum number of entries that are gone from the baseline and shown."""


def render_check(
    report: Report,
    fail_on: Literal["error", "warning"] = "error",
    *,
    targets: Sequence[str] = (),
    at: datetime | None = None,
    examples: int | None = None,
) -> str:
    """Return the HTML page of a check.

    `targets`: as given on the command line. `at`: the time of the check, with a time zone. `examples`: number for each
    code (default: 5).
    """
    number = _EXAMPLES if examples is None else max(_EXAMPLES, min(examples, _MOST))
    totals = report.codes()
    files = _files(report)
    first = totals[0] if totals and totals[0].severity != "info" else None
    return template("check.html.jinja").render(
        title=f"{_headline(report)}: sitemap check",
        headline=_headline(report),
        tone="bad" if report.exit_code(fail_on) else "attention" if report.counts["warning"] else "good",
        lead=_lead(report),
        facts=[*_asked(targets, at), *_facts(report)],
        first=first,
        totals=[
            (total, _examples(total.findings, number), max(0, _shown(total.findings) - number)) for total in totals
        ],
        files=files[:_FILES],
        dated=any(row["newest"] for row in files),
        severities={one: name for one, name in _SEVERITIES.items() if any(row[one] for row in files)},
        more_files=max(0, len(files) - _FILES),
        gone=report.gone[:_GONE],
        more_gone=max(0, len(report.gone) - _GONE),
        version=__version__,
    )


def _headline(report: Report) -> str:
    parts = [several(report.occurrences[severity], severity) for severity in ("error", "warning")]
    bad = [part for part in parts if not part.startswith("0 ")]
    if bad:
        return ", ".join(bad)
    if not report.findings:
        return "No problems found"
    return "No errors or warnings" if len(report.new) == len(report.findings) else "No new errors or warnings"


def _lead(report: Report) -> str:
    """Return the number of affected URLs, and the number of files that this leaves out."""
    affected = report.affected()
    text = f"{several(report.urls, 'URL')} in {several(len(report.files), 'file')} were checked."
    if affected.urls:
        least = "at least " if affected.at_least else ""
        text = (
            f"{least}{affected.urls:,} of {several(report.urls, 'URL')} {'has' if affected.urls == 1 else 'have'} "
            "an error or a warning; a URL with several counts once."
        )
        text = text[:1].upper() + text[1:]
    if affected.unread:
        one = affected.unread == 1
        text += (
            f" {several(affected.unread, 'file')} could not be read; {'its' if one else 'their'} URLs are not counted."
        )
    return text


def _asked(targets: Sequence[str], at: datetime | None) -> Iterator[tuple[str, str]]:
    if targets:
        others = f" and {len(targets) - 1:,} more" if len(targets) > 1 else ""
        yield "Target", f"{shown_address(targets[0])}{others}"
    if at is not None:
        yield "Time", instant(at)
    yield "Version", f"sitemap-etl {__version__}"


def _facts(report: Report) -> Iterator[tuple[str, str]]:
    if report.notes:
        yield "Found", " ".join(report.notes)
    bytes_ = sum(stats.bytes for stats in report.files)
    yield "Checked", f"{several(len(report.files), 'file')}, {several(report.urls, 'URL')}, {size(bytes_)}"
    yield "Duration", duration(report.seconds)
    known = len(report.findings) - len(report.new)
    if known:
        yield "Baseline", f"{several(known, 'known finding')} not shown"
    if report.left_out:
        yield "Left out", f"{several(report.left_out, 'finding')}, by --select, --ignore or --severity"


def _shown(findings: Any) -> int:
    return sum(len(finding.examples) for finding in findings)


def _examples(findings: Any, number: int) -> list[tuple[str, str, str]]:
    """Return (place, detail, text) of some occurrences: of different files first."""
    first = [(finding, finding.examples[0]) for finding in findings[:number]]
    left = number - len(first)
    more = [(finding, example) for finding in findings for example in finding.examples[1 : left + 1]][:left]
    return [(place_of(finding.file, example), finding.detail, example.text) for finding, example in (*first, *more)]


def _files(report: Report) -> list[dict[str, Any]]:
    """Return the files with their findings, the worst first."""
    found: dict[str, list[Finding]] = {}
    for finding in report.new:
        found.setdefault(finding.file, []).append(finding)
    known = {stats.file: stats for stats in report.files}
    rows = [_file(file, known.get(file), found.get(file, [])) for file in dict.fromkeys([*known, *found])]
    return sorted(rows, key=lambda row: (-row["error"], -row["warning"], -row["info"]))


def _file(file: str, stats: FileStats | None, findings: list[Finding]) -> dict[str, Any]:
    counts = {
        severity: sum(finding.count for finding in findings if finding.severity == severity)
        for severity in ("error", "warning", "info")
    }
    return {
        "file": file,
        "kind": "" if stats is None or stats.kind == "unread" else stats.kind,
        "rows": stats.rows if stats is not None else 0,
        "bytes": stats.bytes if stats is not None else 0,
        "newest": (stats.lastmod_max if stats is not None else None) or "",
        "findings": findings[:_FINDINGS],
        "more": max(0, len(findings) - _FINDINGS),
        **counts,
    }
