"""Remove old state that nothing refers to: no kept manifest, intent, staged run or pending engine."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Set
from datetime import timedelta
from typing import Final, TypeVar

from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.stages.ping import engines_of, pending_runs
from sitemap_etl.stages.run import Run
from sitemap_etl.state import attempts, layout
from sitemap_etl.state.records import Document, Manifest, Mirror, Plan, Rendered, Transformed
from sitemap_etl.state.store import GRACE, State, read_document
from sitemap_etl.storage import Storage

_D = TypeVar("_D", bound=Document)
STAGING_KEPT: Final = timedelta(days=14)
"""Age up to which a dry or refused run can be published, and up to which reports of removed releases can be read."""
_FRESH: Final = timedelta(days=1)
"""Age of a run up to which its snapshots are safe: none is removed before `GRACE`."""
_NEVER: Final = (layout.LEDGERS, layout.ADOPTED, layout.ATTEMPTS)


def kept_manifests(state: State, keep: int, *, whole: bool = False) -> list[tuple[str, Manifest]]:
    """Return the manifests to keep, with their keys: from the current one back to `keep` distinct releases.

    `whole`: as in `_chain`.
    """
    found: list[tuple[str, Manifest]] = []
    distinct: set[str] = set()
    for key, manifest in _chain(state, whole=whole):
        distinct.add(_set_id(manifest))
        if len(distinct) > keep:
            break
        found.append((key, manifest))
    return found


def _chain(state: State, *, whole: bool = False) -> Iterator[tuple[str, Manifest]]:
    """Yield the manifests from the current one back, with their keys.

    If one is missing or damaged, the next older one continues the chain. Raise DamagedState if the current one is
    damaged. With `whole` it is raised for any damaged one.
    """
    read = state.kept_manifest if whole else state.readable_manifest
    key = before = state.current().manifest
    manifest = state.manifest(key)
    while key is not None and before is not None:
        before = min(key, before)
        if manifest is not None:
            yield key, manifest
            key = manifest.base
        else:
            older = (stat.key for stat in state.storage.list(layout.MANIFESTS))
            key = max((one for one in older if one < before), default=None)
        manifest = None if key is None else read(key)


def _remaining(state: State, keep: int, removable: Set[str]) -> list[tuple[str, Manifest]]:
    """Return the manifests that remain after all `removable` keys are removed that are not kept.

    A younger manifest that is not kept stays with its snapshots, because a larger `keep` brings it back.
    """
    found: list[tuple[str, Manifest]] = []
    distinct: set[str] = set()
    for key, manifest in _chain(state, whole=True):
        distinct.add(_set_id(manifest))
        if len(distinct) > keep and key in removable:
            break
        found.append((key, manifest))
    return found


def _set_id(manifest: Manifest) -> str:
    """Return a digest that is equal for manifests with the same uncompressed bytes under the same names."""
    files = sorted((file.key, file.sha256) for file in manifest.files())
    return hashlib.sha256(json.dumps(files).encode()).hexdigest()


def clean_up(run: Run) -> int:
    """Remove state that nothing refers to and that is older than the grace. Return the number of objects."""
    state, storage = run.state, run.work
    now = storage.now()
    # Listed before the references are known, so the list lacks later objects.
    found = [stat for stat in storage.list(layout.STATE) if stat.modified <= now - GRACE]
    kept = _remaining(state, run.site.keep, {stat.key for stat in found})
    staged = _staged(storage)
    referenced = {*(key for key, _ in kept), layout.CURRENT, layout.LEASE} | _staged_snapshots(storage, staged)
    for _, manifest in kept:
        referenced |= snapshots_of(manifest)
    current = state.current()
    referenced |= {*current.suspect, *([] if current.pending is None else [current.pending])}
    if current.robots is not None and current.robots.key is not None:
        referenced.add(current.robots.key)
    mirrors = set(current.mirrors.values())
    for _, manifest in kept:
        mirrors |= {one.mirror for one in manifest.sections.values() if one.mirror is not None}
    referenced |= _mirror_files(storage, mirrors | _mirrors_of_staged(storage, staged))
    referenced |= _staged_mirror_files(storage, staged)
    pending = _pending(run)
    removed = 0
    for stat in found:
        key = stat.key
        if key in referenced or key.startswith(_NEVER):
            continue
        if key.startswith(layout.CHANGES) and layout.run_of(key) in pending:
            continue
        removed += storage.delete(key)
    for stat in list(storage.list(layout.ATTEMPTS)):
        if stat.modified <= now - attempts.KEPT:
            removed += storage.delete(stat.key)
    keep_reports = {layout.run_of_manifest(key) for key, _ in kept} | {run.run_id}
    for one in current.made_from.values():  # findings of these are sent again
        keep_reports |= {one.run_id, one.applied_by}
    for prefix in (layout.REPORTS, layout.RUNS):
        for stat in list(storage.list(prefix)):
            if layout.run_of(stat.key) not in keep_reports and stat.modified <= now - STAGING_KEPT:
                removed += storage.delete(stat.key)
    return removed


def snapshots_of(manifest: Manifest) -> set[str]:
    """Return the keys of the snapshots that a manifest refers to."""
    found = {entry.snapshot for entry in manifest.entries if entry.snapshot}
    for state in manifest.sections.values():
        found |= set(state.beside())
    return found


def _mirror_files(storage: Storage, mirrors: Set[str]) -> set[str]:
    """Return the keys of these mirror versions and of their files."""
    found = set(mirrors)
    for key in mirrors:
        mirror = read_document(storage, key, Mirror)
        if mirror is not None:
            found |= {file.key for bucket in mirror[0].buckets for file in bucket.files()}
    return found


def _staged(storage: Storage) -> dict[str, set[str]]:
    """Return the staged objects of runs that can still be published: folder → names. A published run has only its plan
    left.
    """
    found: dict[str, set[str]] = {}
    for stat in storage.list(layout.RUNS):
        run_id, _, name = stat.key.removeprefix(layout.RUNS).partition("/")
        found.setdefault(layout.run_folder(run_id), set()).add(name)
    return {folder: names for folder, names in found.items() if names != {layout.PLAN}}


def _receipts(staged: Mapping[str, set[str]], stage: str) -> Iterator[str]:
    """Yield the keys of a stage's task results."""
    for folder, names in staged.items():
        yield from (f"{folder}/{name}" for name in names if re.fullmatch(rf"{stage}[0-9]+\.json", name))


def _mirrors_of_staged(storage: Storage, staged: Mapping[str, set[str]]) -> set[str]:
    """Return the keys of the mirror versions that staged runs started with."""
    found: set[str] = set()
    for folder in staged:
        plan = _readable(storage, f"{folder}/{layout.PLAN}", Plan)
        readings = plan.readings.values() if plan is not None else ()
        found |= {key for one in readings for key in (one.mirror, one.compared) if key is not None}
    return found


def _staged_mirror_files(storage: Storage, staged: Mapping[str, set[str]]) -> set[str]:
    """Return the keys of the mirror files that staged runs have written."""
    found: set[str] = set()
    for key in _receipts(staged, f"{layout.MERGE}/"):
        merged = _readable(storage, key, Transformed)
        if merged is not None and merged.bucket is not None:
            found |= {file.key for file in merged.bucket.files()}
    return found


def _readable(storage: Storage, key: str, kind: type[_D]) -> _D | None:
    """Return a document of a staged run, or None if this version could not publish the run."""
    try:
        found = read_document(storage, key, kind)
    except (Refused, DamagedState):
        return None
    return None if found is None else found[0]


def hold_snapshots(run: Run, manifest: Manifest) -> None:
    """Make sure that the objects that a new manifest refers to exist and stay.

    A run can be published days after it was rendered. Raise Refused if a snapshot was forgotten meanwhile.
    """
    storage = run.work
    begun = run.staging.stat(layout.PLAN)
    if begun is not None and run.staging.now() - begun.modified < _FRESH:
        return
    known = snapshots_of(run.base) if run.base is not None else set()
    for key in sorted(snapshots_of(manifest) - known):
        stored = storage.get(key)
        if stored is None:
            raise Refused(
                f"{storage.url_of(key)} is gone, which run {run.run_id} rendered. Nothing public was touched; run again"
            )
        if storage.now() - stored.stat.modified >= _FRESH:
            storage.put(key, stored.data)


def _staged_snapshots(storage: Storage, staged: Mapping[str, set[str]]) -> set[str]:
    """Return the keys of the snapshots of staged runs."""
    found: set[str] = set()
    for key in _receipts(staged, layout.RENDER):
        receipt = _readable(storage, key, Rendered)
        if receipt is not None:
            found |= {shard.snapshot for shard in receipt.shards}
    return found


def _pending(run: Run) -> set[str]:
    """Return the runs whose changes are pending for an engine, also partly."""
    waiting = {pending for name in engines_of(run.site) for pending in pending_runs(run.state, name)}
    return waiting | {run.run_id}
