"""What the state may forget: nothing that a kept manifest, an intent or an unheard engine refers to."""

from __future__ import annotations

import json
from typing import Any

from sitemap_etl import ping
from sitemap_etl.manifest import Manifest, same_set
from sitemap_etl.pipeline.acknowledged import FOLDER, answer_of, runs_with_changes
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.state import GRACE, State
from sitemap_etl.pipeline.submission import StoredLedger, engines_of


def kept_manifests(state: State, keep: int) -> list[str]:
    """Keys of the manifests to keep: the current one, and back from it until `keep` distinct sets are held."""
    current = state.current()
    keys: list[str] = []
    distinct: list[Manifest] = []
    key = current.manifest
    while key is not None:
        stored = state.storage.get(key)
        if stored is None:
            break
        manifest = Manifest.from_json(json.loads(stored.data))
        if not any(same_set(manifest, other) for other in distinct):
            if len(distinct) >= keep:
                break
            distinct.append(manifest)
        keys.append(key)
        key = manifest.base
    return keys


def forget(run: Run) -> int:
    """Remove state that nothing refers to and that is older than the grace; gives how many objects."""
    state, storage = run.state, run.work
    kept = kept_manifests(state, run.site.keep)
    referenced: set[str] = {*kept, "state/current.json", "state/lease.json"}
    for key in kept:
        manifest = state.manifest(key)
        assert manifest is not None
        referenced |= snapshots_of(manifest)
    pending = state.current().pending
    if pending is not None:
        referenced.add(pending)
        referenced |= _base_of_intent(state, pending)
    old = storage.now() - GRACE
    unheard = _unheard(run)
    removed = 0
    for stat in list(storage.list("state/")):
        key = stat.key
        if key in referenced or stat.modified > old or key.startswith(("state/ledger/", "state/adopted/")):
            continue
        if key.startswith(f"{FOLDER}/") and key.removeprefix(f"{FOLDER}/").split("/")[0] in unheard:
            continue
        removed += storage.delete(key)
    keep_reports = {key.removeprefix("state/manifest-").removesuffix(".json") for key in kept}
    for prefix in ("reports/", "runs/"):
        for stat in list(storage.list(prefix)):
            owner = stat.key.split("/")[1]
            if owner not in keep_reports and owner != run.run_id and stat.modified <= old - 5 * GRACE:
                removed += storage.delete(stat.key)
    return removed


def snapshots_of(manifest: Manifest) -> set[str]:
    """Keys of the snapshots that a manifest refers to."""
    found = {entry.snapshot for entry in manifest.entries if entry.snapshot}
    return found | {state.departed for state in manifest.sections.values() if state.departed is not None}


def _base_of_intent(state: State, intent: str) -> set[str]:
    stored = state.storage.get(intent)
    data: dict[str, Any] = {} if stored is None else json.loads(stored.data)
    return {data["base"]} if data.get("base") else set()


def _unheard(run: Run) -> set[str]:
    """Runs whose changes some engine has yet to hear, or is half way through."""
    waiting: set[str] = set()
    runs = runs_with_changes(run.state)
    for name in engines_of(run.site):
        ledger = StoredLedger(run.state, name)
        pending = ping.ENGINES[name].model_construct().pending(ledger)
        waiting |= set(pending)
        for run_id in runs:
            answer = answer_of(run.state, run_id, name)
            if answer is None or answer["status"] == "unavailable":
                waiting.add(run_id)
    return waiting | {run.run_id}
