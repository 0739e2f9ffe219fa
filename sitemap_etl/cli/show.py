"""Print the outcome of a run and the history on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sitemap_etl import lastmod, priority
from sitemap_etl.advice import SITE_FILE, for_file
from sitemap_etl.cli.columns import in_columns
from sitemap_etl.cli.output import put, put_headline, put_text, width
from sitemap_etl.cli.plan import beside, comparison_lines, plan_lines
from sitemap_etl.frames import Reason
from sitemap_etl.report.paper import duration
from sitemap_etl.state.records import COUNTED, Attempt, KeptSet, Summary
from sitemap_etl.urls import NOTES

_HEADLINES: Final = {
    "published": "Published",
    "unchanged": "Nothing changed, nothing was written",
    "dry_run": "Dry run. Nothing was published",
    "refused": "Refused. Nothing was published",
    "partial": "Partly published",
    "failed": "Failed",
}
_MEANINGS: Final = {**lastmod.REASONS, **priority.REASONS, **NOTES}
_CHANGES: Final = ("added", "changed", "removed")
_MOST: Final = 3
"""Sections with the most changes that are named below a longer table."""
_KINDS: Final = ("rejected", "excluded", "duplicates", "notes", "pages")


def show_summary(summary: Summary, site_file: str, *, staged: bool = True) -> None:
    """Print a run's outcome: headline, counts, rejected and excluded rows with reasons, warnings, and the report."""
    put_headline(headline(summary), f"  run {summary.run_id}")
    for text in _lines(summary, site_file, width(), staged=staged):
        put_text(text)


def headline(summary: Summary) -> str:
    """Return how a run ended, in a few words."""
    if summary.status == "partial" and not summary.kept:
        failed = [name for name, answer in summary.engines.items() if answer.failed]
        engines = f"{len(summary.engines)} engine{'' if len(summary.engines) == 1 else 's'}"
        return f"Published. {len(failed)} of {engines} failed: {', '.join(failed)}"
    if summary.status == "partial" and not summary.published:
        return "Nothing changed, but not every section could be read"
    if summary.rolled_back_to is not None:
        return f"Rolled back to {summary.rolled_back_to}"
    return _HEADLINES[summary.status]


def troubles(summary: Summary) -> Iterator[str]:
    """Yield warnings, warned gates and failed engines, which are logged even with --quiet."""
    yield from summary.warnings
    yield from (gate.message for gate in summary.gates if gate.status == "warned")
    yield from (f"{engine}: {answer.message}" for engine, answer in summary.engines.items() if answer.failed)


def _lines(summary: Summary, site_file: str, width: int, *, staged: bool) -> Iterator[str]:
    yield from _counts(summary, width)
    files = summary.files
    if summary.plan is not None:
        yield from plan_lines(summary, summary.plan, width)
    else:
        size = f" ({summary.bytes:,} bytes)" if summary.bytes else ""
        rest = f"{files.unchanged:,} unchanged, {files.deleted:,} deleted"
        yield f"files: {files.written:,} written{size}, {rest}"
        yield from beside(summary, "written")
        for gate in summary.gates:
            if gate.status in ("warned", "forced"):
                yield f"{gate.status}: {gate.message}"
    yield from _reasons(summary)
    for warning in summary.warnings:
        yield f"warning: {warning}"
    for engine, answer in summary.engines.items():
        yield f"{engine}: {answer.status}: {answer.message}"
    for address in summary.index:
        yield f"index: {address}"
    yield f"report: {summary.report}"
    if summary.against is not None:
        yield from comparison_lines(summary.against)
    if staged and summary.status == "dry_run" and not summary.error and not summary.options.limit:
        yield for_file(f"to publish exactly this: sitemap-etl publish {SITE_FILE} {summary.run_id}", site_file)
    yield from _most_changed(summary)
    if "total" in summary.seconds:
        yield f"time: {duration(summary.seconds['total'])}"


def _most_changed(summary: Summary) -> Iterator[str]:
    """Yield the three sections with the most changes, if there are more sections than that."""
    changes = {
        name: [f"{counts.of(kind):,} {kind}" for kind in _CHANGES if counts.of(kind)]
        for name, counts in sorted(
            summary.sections.items(), key=lambda each: sum(map(each[1].of, _CHANGES)), reverse=True
        )
    }
    most = [f"{name} ({', '.join(kinds)})" for name, kinds in changes.items() if kinds][:_MOST]
    if most and len(summary.sections) > _MOST:
        yield f"most changes: {', '.join(most)}"


def _reasons(summary: Summary) -> Iterator[str]:
    """Yield a line for each reason of rejected, excluded and altered rows, and of hreflang clusters."""
    for name, kinds in summary.reasons.items():
        for kind in _KINDS:
            for reason in kinds[kind].ordered() if kind in kinds else ():
                said = reason.as_dropped() if kind == "notes" else f"{reason.count:,} {kind}: {reason.text}"
                yield f"{name}: {said}{_example(reason, kind)}"
                meaning = reason.advice or _MEANINGS.get(reason.text)
                if meaning:
                    yield f"  {meaning}"
    for reason in summary.clusters.notes.ordered():
        yield f"hreflang {reason.text} ({reason.count:,}){_example(reason, 'notes')}"


def _example(reason: Reason, kind: str) -> str:
    """Return a visible example. A missing loc has none, so the text names the file with its rows."""
    example = next((text for text in reason.examples if text.strip()), "")
    if example:
        return f"    e.g. {example}"
    return "" if kind == "notes" else f"    the rows are in {kind}.parquet beside the report"


def _counts(summary: Summary, width: int) -> Iterator[str]:
    sections, total = summary.sections, summary.total
    shown = [*sections.values(), total]
    used = [name for name in COUNTED if name in ("extracted", "listed") or any(counts.of(name) for counts in shown)]
    rows = [[name, *(f"{counts.of(column):,}" for column in used)] for name, counts in sections.items()]
    if len(rows) > 1:
        rows.append(["all", *(f"{total.of(column):,}" for column in used)])
    yield from in_columns(["section", *used], rows, width)


def show_history(sets: Sequence[KeptSet], attempts: Sequence[Attempt]) -> None:
    """Print the runs, newest first, with the releases that are stored.

    A release can lack the record of its run: the run was killed after its commit, or an earlier version wrote it. Such
    a release is shown above the one that it replaced.
    """
    kept = {entry.run_id: entry for entry in sets}
    known = {attempt.run_id for attempt in attempts}
    rows = [_past_run(attempt, kept.get(attempt.run_id)) for attempt in attempts]
    at = len(rows)
    for entry in reversed(sets):
        if entry.run_id in known:
            at = next(n for n, row in enumerate(rows) if row[0] == entry.run_id)
        else:
            rows.insert(at, _past_set(entry))
    if not rows:
        put("Nothing has been published yet.")
        return
    head = ["run", "status", "URLs", "files", "note"]
    widths = [max(len(row[at]) for row in [head, *rows]) for at in range(4)]
    for row in [head, *rows]:
        cells = [row[0].ljust(widths[0]), row[1].ljust(widths[1])]
        cells += [row[2].rjust(widths[2]), row[3].rjust(widths[3]), row[4]]
        put("  ".join(cells).rstrip())


def _past_set(entry: KeptSet) -> list[str]:
    return [entry.run_id, "published", f"{entry.listed:,}", f"{entry.files:,}", "; ".join(_notes(entry))]


def _past_run(attempt: Attempt, entry: KeptSet | None) -> list[str]:
    status = attempt.status.replace("_", " ")
    listed = f"{attempt.listed:,}" if attempt.sections else ""
    if entry is not None:
        return [attempt.run_id, status, f"{entry.listed:,}", f"{entry.files:,}", "; ".join(_notes(entry))]
    why = (attempt.error or "").partition("\n")[0].removeprefix("Refused: ")
    return [attempt.run_id, status, listed, "", why]


def _notes(entry: KeptSet) -> list[str]:
    notes = ["current"] if entry.current else ["kept"]
    if entry.rolled_back_to:
        notes.append(f"rollback to {entry.rolled_back_to}")
    if entry.forced:
        notes.append(f"forced {', '.join(entry.forced)}")
    if entry.reason:
        notes.append(f"“{entry.reason}”")
    return notes
