"""What a person sees: a run's outcome as a few lines, an error as one message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError, Unavailable

EMPTY_SUMMARY: Final[dict[str, Any]] = {
    "run_id": None,
    "status": "failed",
    "sections": {},
    "files": {"written": 0, "unchanged": 0, "deleted": 0},
    "bytes": 0,
    "index": [],
    "gates": [],
    "engines": {},
    "warnings": [],
    "error": None,
    "report": None,
    "seconds": {},
}
COLUMNS: Final = ("extracted", "carried", "listed", "duplicates", "excluded", "rejected", "added", "changed", "removed")
_HEADLINES: Final = {
    "published": "Published",
    "unchanged": "Nothing changed; nothing was written",
    "dry_run": "Dry run; nothing public was touched",
    "refused": "Refused; nothing public was touched",
    "partial": "Published in part",
    "failed": "Failed",
}


def message(error: SitemapEtlError) -> str:
    """An error as it is printed."""
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        return "\n".join([f"{len(error.problems)} mistakes:", *(f"  {problem}" for problem in error.problems)])
    if isinstance(error, Unavailable):
        return f"No answer: {error}"
    text = str(error)
    if isinstance(error, Refused) and not text.startswith(("Refused", "Overtaken", "Another run")):
        return f"Refused: {text}"
    return text


def show_summary(console: Console, summary: Mapping[str, Any], site_file: str) -> None:
    """A run's outcome: headline, counts, what was left out and why, warnings, where to look further."""
    files = summary["files"]
    headline = _HEADLINES[summary["status"]]
    if summary["status"] == "partial" and not summary.get("kept"):
        headline = "Published, but not every engine took it"
    console.print(f"[bold]{headline}[/bold]  run {summary['run_id']}", highlight=False)
    console.print(_counts(summary["sections"]))
    for line in _lines(summary, files):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if summary["error"]:
        console.print(summary["error"].replace("SITE.yaml", site_file), highlight=False, markup=False, soft_wrap=True)


def _counts(sections: Mapping[str, Mapping[str, int]]) -> Table:
    used = [name for name in COLUMNS if name in ("extracted", "listed") or any(c[name] for c in sections.values())]
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("section", style="bold")
    for name in used:
        table.add_column(name, justify="right")
    for name, counts in sections.items():
        table.add_row(name, *(f"{counts[column]:,}" for column in used))
    return table


def _lines(summary: Mapping[str, Any], files: Mapping[str, int]) -> Iterator[str]:
    if summary["status"] == "dry_run":
        yield f"files: {files['to_write']:,} to write, {files['unchanged']:,} unchanged"
        yield from _plan(summary)
    else:
        size = f" ({summary['bytes']:,} bytes)" if summary["bytes"] else ""
        rest = f"{files['unchanged']:,} unchanged, {files['deleted']:,} deleted"
        yield f"files: {files['written']:,} written{size}, {rest}"
    for name, kinds in summary["reasons"].items():
        for kind in ("rejected", "excluded", "duplicates", "notes"):
            for reason, entry in kinds.get(kind, {}).items():
                example = f"    e.g. {entry['examples'][0]}" if entry["examples"] else ""
                yield f"{name}: {entry['count']:,} {kind if kind != 'notes' else 'noted'}: {reason}{example}"
    for gate in summary["gates"]:
        if gate["status"] in ("warned", "forced"):
            yield f"{gate['status']}: {gate['message']}"
    for warning in summary["warnings"]:
        yield f"warning: {warning}"
    for engine, answer in summary["engines"].items():
        yield f"{engine}: {answer['status']}: {answer['message']}"
    for address in summary["index"]:
        yield f"index: {address}"
    yield f"report: {summary['report']}"


def _plan(summary: Mapping[str, Any]) -> Iterator[str]:
    for section, kinds in summary["examples"].items():
        for kind, examples in kinds.items():
            yield f"{section} {kind}: {', '.join(examples)}"
    for gate in summary["gates"]:
        value = f"{gate['value']:,.0f}" if gate["name"].endswith("min_urls") else f"{gate['value'] * 100:.2f} %"
        limit = f"{gate['limit']:,.0f}" if gate["name"].endswith("min_urls") else f"{gate['limit'] * 100:g} %"
        yield f"gate {gate['name']}: {value} (limit {limit}): {gate['status']}"


def show_history(console: Console, sets: Sequence[Mapping[str, Any]]) -> None:
    """The published sets, newest first."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name, justify in (
        ("run", "left"),
        ("published", "left"),
        ("URLs", "right"),
        ("files", "right"),
        ("note", "left"),
    ):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]  # the literals of the line above
    for entry in sets:
        notes = ["current"] if entry["current"] else []
        if entry["rolled_back_to"]:
            notes.append(f"rollback to {entry['rolled_back_to']}")
        if entry["forced"]:
            notes.append(f"forced {', '.join(entry['forced'])}")
        if entry["reason"]:
            notes.append(f"“{entry['reason']}”")
        table.add_row(entry["run_id"], entry["now"], f"{entry['listed']:,}", f"{entry['files']:,}", "; ".join(notes))
    console.print(table if sets else "Nothing was published yet.")
