"""The report on a terminal: one block per file, the worst first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sitemap_etl.check.codes import SEVERITIES, Severity
from sitemap_etl.check.report import FileStats, Finding, Report

_STYLES: Final[dict[Severity, str]] = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_MARKS: Final[dict[Severity, str]] = {"error": "✗", "warning": "!", "info": "i"}
_FILES: Final = 20
"""Files shown one by one; of the others only the codes are counted."""
_ALIKE: Final = 3
"""Files with the very same codes that are shown; more of them are counted."""


def render_table(report: Report, console: Console) -> None:
    """Write the report for a person to read."""
    blocks = _blocks(report)
    shown = _chosen(blocks)
    stats = {one.file: one for one in report.files}
    lines = [f for file in shown for f in blocks[file]]
    widths = max((len(f.code) for f in lines), default=0), max((len(_place(f)) for f in lines), default=0)
    for file in shown:
        console.print(_heading(file, stats.get(file)))
        console.print(Padding(_table(blocks[file], *widths), (0, 0, 1, 2)))
    _rest(blocks, shown, console)
    _summary(report, console)


def _blocks(report: Report) -> dict[str, list[Finding]]:
    """The findings of each file; files in the order of their worst, then by how much there is of it."""
    blocks: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.findings:
        blocks[finding.file].append(finding)

    def weight(file: str) -> tuple[int, ...]:
        return tuple(-sum(f.severity == severity for f in blocks[file]) for severity in SEVERITIES)

    return {file: blocks[file] for file in sorted(blocks, key=weight)}


def _chosen(blocks: dict[str, list[Finding]]) -> list[str]:
    """The files to show: of files with the same codes only a few."""
    alike: dict[tuple[str, ...], int] = defaultdict(int)
    chosen: list[str] = []
    for file, findings in blocks.items():
        codes = tuple(sorted({f.code for f in findings}))
        alike[codes] += 1
        if alike[codes] <= _ALIKE and len(chosen) < _FILES:
            chosen.append(file)
    return chosen


def _heading(file: str, stats: FileStats | None) -> Text:
    line = Text(file, style="bold", overflow="fold")
    if stats is not None and stats.kind != "unread":
        what = [stats.kind, f"{stats.rows:,} {_entries(stats)}", size(stats.bytes)]
        if stats.lastmod_max:
            span = (
                stats.lastmod_max
                if stats.lastmod_min == stats.lastmod_max
                else f"{stats.lastmod_min} … {stats.lastmod_max}"
            )
            what.append(f"lastmod {span}")
        line.append("  " + " · ".join(what), style="dim")
    return line


def _entries(stats: FileStats) -> str:
    one = stats.rows == 1
    if stats.kind in {"index", "robots"}:
        return "file" if one else "files"
    return "URL" if one else "URLs"


def _place(finding: Finding) -> str:
    return f"line {finding.line:,}" if finding.line else ""


def _table(findings: list[Finding], codes: int, places: int) -> Table:
    """One file's findings; `codes` and `places` are the columns' widths, the same for all files."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(width=1, no_wrap=True)
    table.add_column(no_wrap=True, min_width=codes)
    table.add_column(justify="right", no_wrap=True, min_width=places, style="dim")
    table.add_column(overflow="fold")
    for f in findings:
        style = _STYLES[f.severity]
        said = Text(f.title)
        if f.count > 1:
            said.append(f" ({f.count:,}×)", style="bold")
        if f.detail:
            said.append(f": {f.detail}", style="dim")
        table.add_row(Text(_MARKS[f.severity], style=style), Text(f.code, style=style), _place(f), said)
        if f.example:
            table.add_row("", "", "", Text(f.example, style="cyan", no_wrap=True, overflow="ellipsis"))
        table.add_row("", "", "", Text(f"→ {f.fix}", style="green"))
    return table


def _rest(blocks: dict[str, list[Finding]], shown: Iterable[str], console: Console) -> None:
    """Count the codes of the files that were not shown."""
    left = {file: findings for file, findings in blocks.items() if file not in set(shown)}
    if not left:
        return
    codes: dict[str, int] = defaultdict(int)
    severities: dict[str, Severity] = {}
    for findings in left.values():
        for f in findings:
            codes[f.code] += 1
            severities[f.code] = f.severity
    console.print(f"[bold]and {_many(len(left), 'more file')}[/bold]", highlight=False)
    ordered = sorted(codes, key=lambda code: (SEVERITIES.index(severities[code]), -codes[code], code))
    for code in ordered:
        mark, style = _MARKS[severities[code]], _STYLES[severities[code]]
        console.print(
            f"  [{style}]{mark} {escape(code)}[/{style}] [dim]in {_many(codes[code], 'file')}[/dim]", highlight=False
        )
    console.print()


def _summary(report: Report, console: Console) -> None:
    counts = report.counts
    urls = sum(stats.rows for stats in report.files if stats.kind not in {"index", "robots"})
    bytes_ = sum(stats.bytes for stats in report.files)
    read = f"{_many(len(report.files), 'file')}, {_many(urls, 'URL')}, {size(bytes_)} in {report.seconds:.1f} s"
    if not report.findings:
        console.print(f"[bold green]✓ no problems found[/bold green]  [dim]{read}[/dim]", highlight=False)
        return
    parts = [
        f"[{_STYLES[severity]}]{_many(n, severity) if severity != 'info' else f'{n:,} info'}[/{_STYLES[severity]}]"
        for severity, n in counts.items()
        if n
    ]
    console.print(f"{', '.join(parts)}  [dim]{read}[/dim]", highlight=False)


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(bytes_: int) -> str:
    """Bytes as a person reads them: 512 B, 3.4 kB, 12.1 MB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if bytes_ >= factor:
            return f"{bytes_ / factor:,.1f} {unit}"
    return f"{bytes_} B"
