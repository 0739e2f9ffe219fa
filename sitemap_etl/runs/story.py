"""Result of a run for a scheduler: the lines of a task's log, and the counts that it stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from sitemap_etl.frames import Reason
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import COUNTED, Attempt, Summary

_REASONS: Final = 10
"""Reasons of one kind and section that a log shows, the most frequent first; the report has them all."""


def story(summary: Summary) -> Iterator[str]:
    """Yield the summary in a few lines of a log."""
    files = summary.files
    yield f"{summary.status}: {files.written:,} files written, {files.unchanged:,} unchanged"
    for name, counts in summary.sections.items():
        shown = ", ".join(f"{counts.of(what):,} {what}" for what in COUNTED if counts.of(what))
        yield f"section {name}: {shown or 'no rows'}"
    for name, kinds in summary.reasons.items():
        for kind, tally in kinds.items():
            for reason in tally.ordered()[:_REASONS]:
                said = reason.as_dropped() if kind == "notes" else f"{reason.count:,} {kind}: {reason.text}"
                yield f"section {name}: {said}{_such_as(reason)}"
    for reason in summary.clusters.notes.ordered():
        yield f"hreflang {reason.text} ({reason.count:,}){_such_as(reason)}"
    for name, run_id in summary.quiet.items():
        yield f"section {name} is unchanged since run {run_id}, and was not rendered again"
    for name, why in summary.kept.items():
        yield f"warning: section {name} stays as published: {why}"
    for warning in summary.warnings:
        yield f"warning: {warning}"
    if summary.error and summary.status == "dry_run":
        yield summary.error
    for address in summary.index:
        yield f"index: {address}"
    yield f"report: {summary.report}"


def _such_as(reason: Reason) -> str:
    return f", such as {reason.examples[0]}" if reason.examples else ""


def counts_of(ended: Attempt) -> dict[str, Any]:
    """Return the counts of a run, as a scheduler stores them: of many sections only those that fit."""
    counts: dict[str, Any] = {
        "run_id": ended.run_id,
        "status": ended.status,
        "files": encode(ended.files),
        "total": encode(ended.total),
        "sections": {},
    }
    size = len(json.dumps(counts))
    for name, section in ended.sections.items():
        shown = {name: encode(section)}
        size += len(json.dumps(shown))
        if size > _SHOWN_BYTES:
            break
        counts["sections"] |= shown
    return counts


_SHOWN_BYTES: Final = 3_500
"""What a scheduler stores of a publish: about twenty sections."""
