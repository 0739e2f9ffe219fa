"""The end of a run: its reports, its summary, what the engines said; then its staging goes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl.frames import ASIDE, EXAMPLES
from sitemap_etl.publish.publish import Published
from sitemap_etl.publish.retention import forget
from sitemap_etl.stages.clusters import NAME as ALIGN
from sitemap_etl.stages.partition import NAME as PARTITION
from sitemap_etl.stages.ping import engines_of
from sitemap_etl.stages.run import PLAN, Run
from sitemap_etl.state.changes import answer_of
from sitemap_etl.state.store import dumps

ASIDE_KINDS: Final = ("rejected", "excluded", "duplicates")


def write_reports(run: Run) -> None:
    """Put the rows that are not listed under `reports/<run>/`, and the splits that their row numbers speak of."""
    planned = run.need(PARTITION)
    for kind in ASIDE_KINDS:
        _gather_aside(run, planned, kind)
    splits = {
        "splits": [{"section": unit["section"], "label": unit["label"]} for unit in run.plan.units],
        "read": list(planned["sections"]),
        "in_part": [name for name, plan in planned["sections"].items() if plan["carries"]],
    }
    run.work.put(f"reports/{run.run_id}/splits.json", dumps(splits), content_type="application/json")


def finish_run(run: Run, published: Published, seconds: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Write the reports, forget what is old, and clear the staging of what was published; gives the summary."""
    write_reports(run)
    summary = {**summarize(run, published), "seconds": dict(seconds or {})}
    put_summary(run, summary)
    if published.outcome is not None:
        remove_staging(run)
        forget(run)
    return summary


def put_summary(run: Run, summary: dict[str, Any]) -> None:
    """Put the summary as JSON and as a page."""
    from sitemap_etl import report  # a DAG file is parsed without it

    folder = f"reports/{run.run_id}"
    run.work.put(f"{folder}/report.html", report.render(summary).encode(), content_type="text/html; charset=utf-8")
    run.work.put(f"{folder}/summary.json", dumps(summary), content_type="application/json")


def _gather_aside(run: Run, planned: dict[str, Any], kind: str) -> None:
    """One Parquet file of what all splits and groups set aside."""
    keys = []
    if kind == "duplicates":
        keys = [run.need(f"render/{n}")["staged"].get(kind) for n in range(len(planned["units"]))]
    else:
        for n, unit in enumerate(run.plan.units):
            if unit["section"] in planned["sections"]:
                keys.append(run.need(f"transform/{n}")["aside"].get(kind))
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        path = Path(scratch) / "rows.parquet"
        with pq.ParquetWriter(path, ASIDE, compression="zstd") as writer:
            for key in keys:
                stored = None if key is None else run.staging.get(key)
                if stored is None:
                    continue
                for batch in pq.ParquetFile(pa.BufferReader(stored.data)).iter_batches():
                    writer.write_batch(batch)
        run.work.put(f"reports/{run.run_id}/{kind}.parquet", path)


def summarize(run: Run, published: Published) -> dict[str, Any]:
    """What `--json` prints and the report shows: every case has every key."""
    proposal, outcome = published.proposal, published.outcome
    manifest = published.manifest
    publish = run.site.publish
    seen = published.preview
    status = published.status
    if status in ("published", "unchanged") and proposal.kept:
        status = "partial"
    return {
        "run_id": run.run_id,
        "name": run.site.name,
        "site": run.site.site,
        "now": run.plan.now,
        "status": status,
        "published": published.status == "published",
        "base": run.plan.base,
        "options": {name: getattr(run.options, name) for name in ("sections", "full", "limit")},
        "sections": {name: dict(counts) for name, counts in proposal.counts.items()},
        "views": [name for name in proposal.counts if run.site.sections[name].view],
        "kept": dict(proposal.kept),
        "reasons": {
            name: {kind: tally.to_json() for kind, tally in kinds.items()} for name, kinds in proposal.reasons.items()
        },
        "clusters": _clusters(run),
        "examples": _examples(run, run.need(PARTITION)),
        "files": {
            "written": outcome.written if outcome else 0,
            "unchanged": outcome.unchanged if outcome else seen.unchanged if seen else 0,
            "deleted": outcome.deleted if outcome else 0,
            **({"to_write": len(seen.write), "to_delete": len(seen.delete)} if seen else {}),
        },
        "plan": seen.to_json() if seen else None,
        "bytes": outcome.bytes if outcome else 0,
        "index": [publish.at + index.file.key for index in manifest.indexes] if manifest else [],
        "gates": [gate.to_json() for gate in proposal.gates],
        "reason": manifest.reason if manifest is not None and manifest.run_id == run.run_id else None,
        "engines": {},
        "warnings": list(published.warnings),
        "error": str(published.error) if published.error is not None else None,
        "report": run.work.url_of(f"reports/{run.run_id}/report.html"),
        "seconds": {},
    }


def _clusters(run: Run) -> dict[str, Any]:
    """How many pages have hreflang links, and what was decided where a cluster was not whole."""
    receipt = run.receipt(ALIGN)
    return {"aligned": 0, "notes": {}} if receipt is None else {name: receipt[name] for name in ("aligned", "notes")}


def _examples(run: Run, planned: dict[str, Any]) -> dict[str, dict[str, list[str]]]:
    """A few locs of each kind of change, by section."""
    found: dict[str, dict[str, list[str]]] = {}
    for n, (section, _) in enumerate(planned["units"]):
        for kind, locs in run.need(f"render/{n}")["examples"].items():
            if locs:
                kept = found.setdefault(section, {}).setdefault(kind, [])
                kept += locs[: EXAMPLES - len(kept)]
    return found


def add_answers(run: Run, summary: dict[str, Any]) -> dict[str, Any]:
    """The summary with what the engines answered, which goes into the manifest too."""
    answers = {}
    for engine in engines_of(run.site):
        answer = answer_of(run.state, run.run_id, engine)
        if answer is not None:
            answers[engine] = answer
    failed = [a for a in answers.values() if a["status"] in ("partial", "refused", "unavailable")]
    status = "partial" if failed and summary["status"] in ("published", "unchanged") else summary["status"]
    summary = {**summary, "engines": answers, "status": status}
    current = run.state.current().manifest
    if answers and current is not None and current == f"state/manifest-{run.run_id}.json":
        manifest = run.state.manifest(current)
        if manifest is not None:
            run.work.put(current, dumps(replace(manifest, indexing=answers).to_json()), content_type="application/json")
    return summary


def remove_staging(run: Run) -> None:
    """Remove what a published run staged; its plan, its reports and its changes stay."""
    for stat in list(run.staging.list()):
        if stat.key != PLAN:
            run.staging.delete(stat.key)


def read_summary(run: Run) -> dict[str, Any] | None:
    """The summary that was put, or None."""
    stored = run.work.get(f"reports/{run.run_id}/summary.json")
    return None if stored is None else json.loads(stored.data)
