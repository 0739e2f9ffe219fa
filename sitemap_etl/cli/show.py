"""What a person sees: a run's outcome as a few lines, an error as one message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Console

from sitemap_etl.cli.columns import in_columns
from sitemap_etl.cli.plan import comparison_lines, plan_lines
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
_REASONS: Final = {"rejected": "rejected", "excluded": "excluded", "duplicates": "duplicates", "notes": "noted"}


def message(error: SitemapEtlError) -> str:
    """An error as it is printed."""
    if isinstance(error, ConfigError) and len(error.problems) > 1:
        return "\n".join([f"{len(error.problems)} mistakes:", *(f"  {problem}" for problem in error.problems)])
    text = str(error)
    if isinstance(error, Unavailable):
        return f"No answer: {text}"
    if isinstance(error, Refused) and not text.startswith(("Refused", "Overtaken", "Another run")):
        return f"Refused: {text}"
    return text


def named(text: str, site_file: str | None, run_id: str | None) -> str:
    """A message with the commands it shows made complete."""
    if site_file is not None:
        text = text.replace("SITE.yaml", site_file)
    return text if run_id is None else text.replace("RUN_ID", run_id)


def show_summary(console: Console, summary: Mapping[str, Any], site_file: str, *, error: bool = True) -> None:
    """A run's outcome: headline, counts, what was left out and why, warnings, where to look further.

    `error`: False where the caller tells of it elsewhere.
    """
    headline = _HEADLINES[summary["status"]]
    if summary["status"] == "partial" and not summary.get("kept"):
        headline = "Published, but not every engine took it"
    elif summary["status"] == "partial" and not summary.get("published", True):
        headline = "Nothing changed, but not every section could be read"
    console.print(f"[bold]{headline}[/bold]  run {summary['run_id']}", highlight=False, soft_wrap=True)
    for line in _lines(summary, site_file, console.width):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    if summary["error"] and error:
        console.print(
            named(summary["error"], site_file, summary["run_id"]), highlight=False, markup=False, soft_wrap=True
        )


def _lines(summary: Mapping[str, Any], site_file: str, width: int) -> Iterator[str]:
    yield from _counts(summary["sections"], width)
    files = summary["files"]
    if summary["status"] in ("dry_run", "refused"):
        yield from plan_lines(summary, width)
    else:
        size = f" ({summary['bytes']:,} bytes)" if summary["bytes"] else ""
        rest = f"{files['unchanged']:,} unchanged, {files['deleted']:,} deleted"
        yield f"files: {files['written']:,} written{size}, {rest}"
        for gate in summary["gates"]:
            if gate["status"] in ("warned", "forced"):
                yield f"{gate['status']}: {gate['message']}"
    yield from _reasons(summary)
    for warning in summary["warnings"]:
        yield f"warning: {warning}"
    for engine, answer in summary["engines"].items():
        yield f"{engine}: {answer['status']}: {answer['message']}"
    for address in summary["index"]:
        yield f"index: {address}"
    yield f"report: {summary['report']}"
    if summary.get("against"):
        yield from comparison_lines(summary["against"])
    if summary["status"] == "dry_run" and not summary["error"] and not summary["options"]["limit"]:
        yield f"publish exactly this: sitemap-etl publish {site_file} {summary['run_id']}"


def _reasons(summary: Mapping[str, Any]) -> Iterator[str]:
    """What is not listed as it came, and what was decided of hreflang clusters: reason by reason."""
    for name, kinds in summary["reasons"].items():
        for kind, word in _REASONS.items():
            for reason, entry in kinds.get(kind, {}).items():
                yield f"{name}: {entry['count']:,} {word}: {reason}{_example(entry)}"
    for reason, entry in summary["clusters"]["notes"].items():
        yield f"{entry['count']:,} noted: {reason}{_example(entry)}"


def _example(entry: Mapping[str, Any]) -> str:
    return f"    e.g. {entry['examples'][0]}" if entry["examples"] else ""


def _counts(sections: Mapping[str, Mapping[str, int]], width: int) -> Iterator[str]:
    used = [name for name in COLUMNS if name in ("extracted", "listed") or any(c[name] for c in sections.values())]
    rows = [[name, *(f"{counts[column]:,}" for column in used)] for name, counts in sections.items()]
    if len(rows) > 1:
        rows.append(["all", *(f"{sum(counts[column] for counts in sections.values()):,}" for column in used)])
    yield from in_columns(["section", *used], rows, width)


def show_history(console: Console, sets: Sequence[Mapping[str, Any]]) -> None:
    """The published sets, newest first."""
    rows = []
    for entry in sets:
        notes = ["current"] if entry["current"] else []
        if entry["rolled_back_to"]:
            notes.append(f"rollback to {entry['rolled_back_to']}")
        if entry["forced"]:
            notes.append(f"forced {', '.join(entry['forced'])}")
        if entry["reason"]:
            notes.append(f"“{entry['reason']}”")
        rows.append([entry["run_id"], f"{entry['listed']:,}", f"{entry['files']:,}", "; ".join(notes)])
    if not rows:
        console.print("Nothing was published yet.")
        return
    head = ["run", "URLs", "files", "note"]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(3)]
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]), row[3]]
        console.print("  ".join(cells).rstrip(), highlight=False, markup=False, soft_wrap=True)
