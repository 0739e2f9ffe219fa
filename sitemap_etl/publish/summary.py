"""Finish a run: write its reports and its summary, add the answers of engines, and remove its staged files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl.advice import for_file
from sitemap_etl.arrow import column_of
from sitemap_etl.dates import instant
from sitemap_etl.errors import DamagedState, Refused, Unavailable
from sitemap_etl.frames import ASIDE, EXAMPLES
from sitemap_etl.publish.moves import locs_of
from sitemap_etl.publish.proposal import Proposal
from sitemap_etl.publish.publish import Published
from sitemap_etl.publish.reports import put_overview, put_report
from sitemap_etl.publish.retention import clean_up
from sitemap_etl.publish.shape import shapes
from sitemap_etl.stages.merge import readers_of
from sitemap_etl.stages.ping import engines_of
from sitemap_etl.stages.run import Run
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import put_attempt
from sitemap_etl.state.changes import answer_of
from sitemap_etl.state.checked import put_checked, read_checked
from sitemap_etl.state.records import (
    COUNTED,
    ROBOTS_TXT,
    Answered,
    Asked,
    Attempt,
    ChangeKind,
    Checked,
    Clusters,
    Entry,
    Files,
    Manifest,
    Partition,
    Splits,
    Summary,
)
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import PreconditionFailed, Storage

_TRIES: Final = 5
"""Attempts to update the manifest while other tasks update it."""


def finish_run(run: Run, published: Published, seconds: Mapping[str, float] | None = None) -> Summary:
    """Write the reports, remove old objects, and clear the staging of published runs. Return the summary."""
    _put_reports(run, published.proposal)
    summary = replace(_summary(run, published), seconds=dict(seconds or {}))
    put_summary(run, summary)
    if published.outcome is not None:
        remove_staging(run.staging)
        try:
            clean_up(run)
        except (DamagedState, Refused, Unavailable) as error:  # the release stays published
            why = for_file(f"old state was not cleaned up: {error}", run.plan.site_file)
            summary = replace(summary, warnings=(*summary.warnings, why))
            put_summary(run, summary)
    return summary


def _put_reports(run: Run, proposal: Proposal) -> None:
    """Put the rows that are not listed under `reports/<run>/`, and the splits that their row numbers speak of."""
    planned = run.partition()
    tables = {kind: _gather_aside(run, planned, kind, proposal.aside.get(kind, ())) for kind in layout.ASIDE}
    splits = Splits(
        splits=tuple(run.read_split(n) for n in range(len(run.plan.units))),
        readers=readers_of(run),
        read=tuple(planned.read),
        tables=tables,
        quiet=_rendered_by(planned),
        untouched={name: one.made_from.applied_by for name, one in planned.quiet.items() if one.counts is not None},
    )
    put_document(run.work, layout.splits(run.run_id), splits)


def _rendered_by(planned: Partition) -> dict[str, str]:
    """Return the run that last rendered each unchanged section."""
    return {name: one.made_from.run_id for name, one in planned.quiet.items()}


def put_summary(run: Run, summary: Summary) -> None:
    """Put the summary as JSON and as a page, and remember what became of the run."""
    ended = attempt_of(run, summary)
    put_document(run.work, layout.summary(run.run_id), summary)
    put_attempt(run.work, ended)  # from here on the run is over, and no other try of a task works on it
    runs = put_report(run.work, summary)
    put_overview(run.work, run.site.name, run.site.site, ended, among=runs)


_REASONS: Final = 20
"""Most frequent reasons of rejected rows in the history, per section."""
_WARNINGS: Final = 20
_WARNING: Final = 500
"""Warnings in the history, and characters of each."""


def attempt_of(run: Run, summary: Summary) -> Attempt:
    """Return the record of a run that has ended."""
    tallies = {name: kinds["rejected"].ordered() for name, kinds in summary.reasons.items() if "rejected" in kinds}
    return Attempt(
        run_id=run.run_id,
        now=run.plan.now,
        ended=instant(run.environment.clock()),
        status=summary.status,
        published=summary.published,
        kind=None if summary.error is None else Refused.kind,
        error=summary.error,
        owner=run.plan.owner,
        dry_run=summary.status == "dry_run",
        options=summary.options,
        base=summary.base,
        sections=summary.sections,
        views=summary.views,
        kept=summary.kept,
        rejected={name: {one.text: one.count for one in found[:_REASONS]} for name, found in tallies.items() if found},
        files=summary.files,
        bytes=summary.bytes,
        gates=tuple(gate for gate in summary.gates if gate.status != "ok"),
        reason=summary.reason,
        engines=summary.engines,
        warnings=tuple(text[:_WARNING] for text in summary.warnings[:_WARNINGS]),
        seconds=summary.seconds,
        report=summary.report,
    )


def read_summary(run: Run) -> Summary | None:
    """Return the summary that was put, or None."""
    found = read_document(run.work, layout.summary(run.run_id), Summary)
    return None if found is None else found[0]


def _gather_aside(run: Run, planned: Partition, kind: str, others: Iterable[pa.Table]) -> Checked:
    """Write one Parquet file of the rows of one kind, of all splits and groups, and of others."""
    staged = [part.aside.get(kind) for section in planned.read for part in run.parts(section)]
    if kind == "duplicates":
        staged += [receipt.duplicates for receipt in run.all_rendered()]
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        path = Path(scratch) / "rows.parquet"
        with pq.ParquetWriter(path, ASIDE, compression="zstd") as writer:
            for part in staged:
                stored = None if part is None else read_checked(run.staging, part)
                if stored is None:
                    continue
                for batch in pq.ParquetFile(pa.BufferReader(stored)).iter_batches():
                    writer.write_batch(batch)
            for table in others:
                writer.write_table(table)
        return put_checked(run.work, layout.aside(run.run_id, kind), path)


def _summary(run: Run, published: Published) -> Summary:
    proposal, outcome = published.proposal, published.outcome
    manifest = published.manifest
    publish = run.site.publish
    seen = published.preview
    partial = published.status in ("published", "unchanged") and proposal.held
    files = Files(
        written=outcome.written if outcome else 0,
        unchanged=outcome.unchanged if outcome else seen.unchanged if seen else 0,
        deleted=outcome.deleted if outcome else 0,
        robots_txt=outcome.robots_txt if outcome else ROBOTS_TXT in seen.write if seen else False,
        key_file=outcome.key_file if outcome else seen.key_file if seen else False,
        to_write=len(seen.files) if seen else None,
        to_delete=len(seen.delete) if seen else None,
    )
    planned = run.partition()
    aligned = run.aligned()
    made = manifest if manifest is not None and manifest.run_id == run.run_id else None
    return Summary(
        run_id=run.run_id,
        name=run.site.name,
        site=run.site.site,
        now=run.plan.now,
        status="partial" if partial else published.status,
        published=published.status == "published",
        base=run.plan.base,
        options=Asked(run.options.sections, run.options.full, run.options.limit),
        sections=proposal.counts,
        views=tuple(name for name in proposal.counts if proposal.sections[name].view),
        kept=proposal.held,
        reasons=proposal.reasons,
        clusters=planned.clusters or Clusters() if aligned is None else Clusters(aligned.aligned, aligned.notes),
        examples=_examples(run, proposal),
        files=files,
        plan=seen,
        bytes=outcome.bytes if outcome else 0,
        index=tuple(publish.at + index.file.key for index in manifest.indexes) if manifest else (),
        gates=tuple(proposal.gates),
        reason=None if made is None else made.reason,
        drift=proposal.drift,
        warnings=tuple(published.warnings),
        error=str(published.error) if published.error is not None else None,
        report=run.work.url_of(layout.report(run.run_id)),
        shape=shapes(run.site, _entries(proposal, manifest), run.plan.now),
        quiet=_rendered_by(planned),
        site_file=run.plan.site_file or None,
        rolled_back_to=None if made is None else made.rolled_back_to,
    )


def _entries(proposal: Proposal, manifest: Manifest | None) -> list[Entry]:
    """Return the shards of the release, published or proposed."""
    return [draft.entry for draft in proposal.drafts] if manifest is None else list(manifest.entries)


def _examples(run: Run, proposal: Proposal) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return a few locs of each kind of change, by section. Pages that only moved to another section are left out."""
    moved = column_of(proposal.moves.moved, "loc")
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for receipt in run.all_rendered():
        for kind, locs in receipt.examples.items():
            stayed = [loc for loc in locs if kind == "changed" or not pc.is_in(pa.scalar(loc), moved).as_py()]
            if stayed and kind in COUNTED and proposal.counts[receipt.section].of(kind):
                shown = found.setdefault(receipt.section, {})
                shown[kind] = (*shown.get(kind, ()), *stayed)[:EXAMPLES]
    kinds: tuple[ChangeKind, ...] = ("added", "changed", "removed")
    for name, counts in proposal.counts.items() if len(moved) else ():
        for kind in kinds:
            missing = bool(counts.of(kind)) and kind not in found.get(name, {})
            if missing and (more := _more_examples(run, proposal, name, kind)):
                found.setdefault(name, {})[kind] = more
    return found


def _more_examples(run: Run, proposal: Proposal, section: str, kind: ChangeKind) -> tuple[str, ...]:
    """Return a few locs of a kind of change whose first ones had only moved, or that changed while they moved."""
    moved = proposal.moves.moved
    if kind == "changed":
        here = pc.and_(pc.equal(moved.column("section"), section), moved.column("changed"))
        return tuple(moved.filter(here).column("loc").slice(0, EXAMPLES).to_pylist())
    locs = locs_of(run, proposal.moves, kind, section)
    return tuple(loc for each in locs for loc in each.slice(0, EXAMPLES).to_pylist())[:EXAMPLES]


def answers_of(run: Run) -> dict[str, Answered]:
    """Return the answers of the engines to the run."""
    answers = {}
    for engine in engines_of(run.site):
        with suppress(DamagedState):  # it was reported when the engine was to be notified
            if (answer := answer_of(run.state, run.run_id, engine)) is not None:
                answers[engine] = answer
    return answers


def add_answers(run: Run, summary: Summary, answers: Mapping[str, Answered]) -> Summary:
    """Return the summary with the engines' answers, which go into the manifest too."""
    answers = {engine: answers[engine] for engine in engines_of(run.site) if engine in answers}
    status, warnings = summary.status, summary.warnings
    if status in ("published", "unchanged", "partial"):
        whole = not summary.kept and not any(answer.failed for answer in answers.values())
        status = ("published" if summary.published else "unchanged") if whole else "partial"
    try:
        if answers and run.state.current().manifest == layout.manifest(run.run_id):
            _keep_answers(run, answers)
    except (DamagedState, Refused, Unavailable) as error:  # the engines have it
        warnings = (*warnings, f"what the engines answered was not added to the manifest: {error}")
    return replace(summary, engines=answers, status=status, warnings=warnings)


def _keep_answers(run: Run, answers: Mapping[str, Answered]) -> None:
    """Add the answers to the run's manifest, as it is now."""
    key = layout.manifest(run.run_id)
    for _ in range(_TRIES):
        found = read_document(run.work, key, Manifest)
        if found is None:
            return
        try:
            put_document(run.work, key, replace(found[0], indexing=answers), expect=found[1])
        except PreconditionFailed:
            continue  # another task has added to it meanwhile
        return


def remove_staging(staging: Storage) -> None:
    """Remove the staged files of a published run. Its plan, reports and changes stay."""
    for stat in list(staging.list()):
        if stat.key != layout.PLAN:
            staging.delete(stat.key)
