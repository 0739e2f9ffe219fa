"""The report on a terminal: the verdict, a table by code and, if asked for, file by file, and what to do first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sitemap_etl.check.codes import SEVERITIES, Severity
from sitemap_etl.check.report import Example, FileStats, Finding, Report, Total, Visited, place_of
from sitemap_etl.visible import visible

_STYLES: Final[dict[Severity, str]] = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_MARKS: Final[dict[Severity, str]] = {"error": "✗", "warning": "!", "info": "i"}
_WIDTH: Final = 80
"""Maximum columns of sentences, because long lines are hard to read. Addresses and examples can be longer."""
_CODES: Final = 30
"""Maximum number of codes that are explained. Further codes have only their row."""
_FILES: Final = 20
"""Maximum number of files that are shown. For further files, only the codes are counted."""
_ALIKE: Final = 3
"""Maximum number of files with the same codes that are shown. Further ones are counted."""
_SHOWN: Final = 1_000
"""Maximum number of examples of one code. JSON has all of them."""


def render_table(report: Report, console: Console, *, by_file: bool = False, examples: int | None = 1) -> None:
    """Write the report for a person to read. `by_file`: also file by file. `examples` of each code; None is all."""
    width = min(console.width, _WIDTH)
    totals = report.codes()
    _site(totals, console, width, _SHOWN if examples is None else min(examples, _SHOWN))
    if by_file:
        _by_file(report, console, width)
    _end(report, totals, console, width)


# --- the whole set ---


def _site(totals: list[Total], console: Console, width: int, examples: int) -> None:
    """Write a row for each code. Below it: the title, the position, an example, and the fix."""
    if not totals:
        return
    counts = [f"{total.occurrences:,}" for total in totals], [f"{total.files:,}" for total in totals]
    found, files = (
        max(len(title), *map(len, cells)) for title, cells in zip(("occurrences", "files"), counts, strict=True)
    )
    code = width - found - files - 6
    head = Text(" " * 2 + "code".ljust(code) + "  " + "occurrences".rjust(found) + "  " + "files".rjust(files))
    head.stylize("dim")
    _put(console, head)
    for number, total in enumerate(totals):
        style = _STYLES[total.severity]
        line = Text.assemble((f"{_MARKS[total.severity]} {total.code.ljust(code)}", style))
        line.append(f"  {total.occurrences:>{found},}  {total.files:>{files},}", style="bold")
        _put(console, line)
        if number >= _CODES:
            continue
        _wrapped(console, total.title, 2, width)
        for finding, example in _examples(total, examples):
            _example(console, finding, example, width)
        _wrapped(console, f"→ {total.fix}", 2, width, style="green", hang=2)
        console.print()
    if len(totals) > _CODES:
        _put(console, Text(f"Explained with --html or --json: the last {_many(len(totals) - _CODES, 'code')}.\n"))


def _examples(total: Total, number: int) -> Iterable[tuple[Finding, Example]]:
    """Return up to `number` occurrences. Occurrences in different files come first."""
    first = [(finding, finding.examples[0]) for finding in total.findings[:number]]
    more = [(finding, example) for finding in total.findings for example in finding.examples[1:]]
    return [*first, *more[: number - len(first)]]


def _example(console: Console, finding: Finding, example: Example, width: int) -> None:
    """Write the position of an occurrence, and its text."""
    place = place_of(finding.file, example)
    detail = visible(finding.detail)
    if detail and len(place) + len(detail) + 6 <= width:
        place, detail = f"{place}  {detail}", ""
    for text, style in ((place, "dim"), (visible(example.text), "cyan"), (detail, "dim")):
        _folded(console, text, style)


# --- file by file ---


def _by_file(report: Report, console: Console, width: int) -> None:
    """Write a block for each file, the worst first."""
    blocks = _blocks(report)
    chosen = _chosen(blocks)
    stats = {one.file: one for one in report.files}
    for file in chosen:
        console.print(_heading(file, stats.get(file)), highlight=False)
        console.print(Padding(_table(blocks[file]), (0, 0, 1, 2)), width=width)
    _rest(blocks, chosen, console)


def _blocks(report: Report) -> dict[str, list[Finding]]:
    """Return the findings of each file. Files with the worst severities, and most of them, come first."""
    blocks: dict[str, list[Finding]] = defaultdict(list)
    for finding in report.new:
        blocks[finding.file].append(finding)

    def weight(file: str) -> tuple[int, ...]:
        return tuple(-sum(f.severity == severity for f in blocks[file]) for severity in SEVERITIES)

    return {file: blocks[file] for file in sorted(blocks, key=weight)}


def _chosen(blocks: dict[str, list[Finding]]) -> list[str]:
    """Return the files to show. Of files with the same codes, only a few are shown."""
    alike: dict[tuple[str, ...], int] = defaultdict(int)
    chosen: list[str] = []
    for file, findings in blocks.items():
        codes = tuple(sorted({f.code for f in findings}))
        alike[codes] += 1
        if alike[codes] <= _ALIKE and len(chosen) < _FILES:
            chosen.append(file)
    return chosen


def _heading(file: str, stats: FileStats | None) -> Text:
    line = Text(visible(file), style="bold", overflow="fold")
    if stats is not None and stats.kind != "unread":
        what = [stats.kind, f"{stats.rows:,} {_entries(stats)}", size(stats.bytes)]
        if stats.lastmod_max:
            same = stats.lastmod_min == stats.lastmod_max
            what.append(f"lastmod {stats.lastmod_max if same else f'{stats.lastmod_min} … {stats.lastmod_max}'}")
        line.append("\n  " + visible(" · ".join(what)), style="dim")
    return line


def _entries(stats: FileStats) -> str:
    one = stats.rows == 1
    if not stats.lists_urls:
        return "file" if one else "files"
    return "URL" if one else "URLs"


def _table(findings: list[Finding]) -> Table:
    """Return the table of one file. The fixes are in the table by code."""
    table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), expand=False)
    table.add_column(width=1, no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    for f in findings:
        style = _STYLES[f.severity]
        place = [f"line {f.line:,}"] if f.line else []
        said = Text(", ".join([*place, *([visible(f.detail)] if f.detail else [])]))
        times = f"{f.count:,}×" if f.count > 1 else ""
        table.add_row(Text(_MARKS[f.severity], style=style), Text(f.code, style=style), times, said)
        if f.example:
            table.add_row("", "", "", Text(visible(f.example), style="cyan", no_wrap=True, overflow="ellipsis"))
    return table


def _rest(blocks: dict[str, list[Finding]], chosen: Iterable[str], console: Console) -> None:
    """Write how many files were not shown, and how many of them have each code."""
    left = {file: findings for file, findings in blocks.items() if file not in set(chosen)}
    if not left:
        return
    files: dict[str, int] = defaultdict(int)
    severities: dict[str, Severity] = {}
    for findings in left.values():
        for f in {f.code: f for f in findings}.values():
            files[f.code] += 1
            severities[f.code] = f.severity
    _put(console, Text(f"and {_many(len(left), 'more file')}", style="bold"))
    for code in sorted(files, key=lambda code: (SEVERITIES.index(severities[code]), -files[code], code)):
        line = Text.assemble("  ", (f"{_MARKS[severities[code]]} {code}", _STYLES[severities[code]]))
        _put(console, line.append(f" in {_many(files[code], 'file')}", style="dim"))
    console.print()


def _visited(pages: Visited) -> str:
    """Return the sentence about the pages of the sample."""
    parts = [f"{pages.judged:,} judged"]
    parts += [f"{pages.unknown:,} unknown"] if pages.unknown else []
    parts += [f"{pages.skipped:,} not visited"] if pages.skipped else []
    return f"{_many(pages.sampled, 'sampled page')}: {', '.join(parts)}."


# --- the end ---


def _end(report: Report, totals: list[Total], console: Console, width: int) -> None:
    """Print the files that were read, the verdict, and what to do first."""
    read = (
        f"{_many(len(report.files), 'file')}, {_many(report.urls, 'URL')}, "
        f"{size(sum(stats.bytes for stats in report.files))} in {report.seconds:.1f} s"
    )
    if not totals:
        none = "no problems found" if not report.findings else "no new problems found"
        _put(console, Text.assemble((f"✓ {none}", "bold green"), "  ", (read, "dim")))
    else:
        parts = [
            (f"{_many(n, severity) if severity != 'info' else f'{n:,} info'}", _STYLES[severity])
            for severity, n in report.occurrences.items()
            if n
        ]
        line = Text(", ").join(Text(text, style=style) for text, style in parts)
        _put(console, line.append(f"  {read}", style="not bold dim"))
    for text in _notes(report, totals):
        _wrapped(console, text, 0, width)


def _notes(report: Report, totals: list[Total]) -> Iterable[str]:
    """Yield the sentences below the summary."""
    yield from map(visible, report.notes)
    affected = report.affected()
    if affected.urls:
        least = "At least " if affected.at_least else ""
        yield (
            f"{least}{affected.urls:,} of {_many(report.urls, 'URL')} {'has' if affected.urls == 1 else 'have'} "
            "an error or a warning; one with several counts once."
        )
    if affected.unread:
        one = affected.unread == 1
        yield f"{_many(affected.unread, 'file')} could not be read; {'its' if one else 'their'} URLs are not counted."
    if report.pages.sampled:
        yield _visited(report.pages)
    known = len(report.findings) - len(report.new)
    if known:
        yield f"{_many(known, 'known finding')} of the baseline {'is' if known == 1 else 'are'} not shown."
    yield from _gone(report)
    if report.left_out:
        yield f"{_many(report.left_out, 'finding')} left out by --select, --ignore or --severity."
    if totals and totals[0].severity != "info":
        first = totals[0]
        yield f"Start with {first.code}: {first.fix}"


def _gone(report: Report) -> Iterable[str]:
    fixed = [gone for gone in report.gone if gone.checked]
    if fixed:
        shown = ", ".join(f"{visible(gone.code)} in {visible(gone.file)}" for gone in fixed[:3])
        rest = f" and {len(fixed) - 3:,} more" if len(fixed) > 3 else ""
        yield f"Gone from the baseline: {shown}{rest}. Update it with --write-baseline."
    other = len(report.gone) - len(fixed)
    if other:
        yield f"{_many(other, 'entry', 'entries')} of the baseline belong to files that were not checked."


def _put(console: Console, line: Text) -> None:
    """Print text that is not wrapped."""
    console.print(line, soft_wrap=True, highlight=False)


def _folded(console: Console, text: str, style: str) -> None:
    """Print what may be copied: over two lines at most, as wide as the terminal is."""
    room = max(20, console.width - 4)
    if len(text) > 2 * room:
        text = text[: 2 * room - 1] + "…"
    for begin in range(0, len(text), room):
        _put(console, Text(f"    {text[begin : begin + room]}", style=style))


def _wrapped(console: Console, text: str, indent: int, width: int, *, style: str = "", hang: int = 0) -> None:
    """Print a sentence within the width; further lines are indented by `hang` more."""
    body = Text(text, style=style)
    for number, line in enumerate(body.wrap(console, max(20, width - indent - hang))):
        line.rstrip()
        _put(console, Text(" " * (indent + (hang if number else 0))).append_text(line))


def _many(number: int, noun: str, nouns: str = "") -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {nouns or f'{noun}s'}"


def size(bytes_: int) -> str:
    """Return a number of bytes with a unit: 512 B, 3.4 kB, 12.1 MB."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if bytes_ >= factor:
            return f"{bytes_ / factor:,.1f} {unit}"
    return f"{bytes_} B"
