"""Recover a lost `current.json` from manifests, intents and public files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias

from sitemap_etl.errors import DamagedState
from sitemap_etl.state import layout
from sitemap_etl.state.records import Current, Intent, Manifest
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import Storage

Inflated: TypeAlias = Callable[[str, str], bytes | None]
"""Function that returns a public file by its key, uncompressed, or None if its SHA-256 differs."""


def name_again(work: Storage, current: Current, manifests: Mapping[str, Manifest], inflated: Inflated) -> str | None:
    """Put `current.json` with the newest of these releases that is known to be public. Return its description.

    Return None if none is. `current`: its other fields.
    """
    intents = _intents(work)
    last = max(intents, key=lambda key: (intents[key].at, intents[key].number), default=None)
    if last is not None and layout.manifest(intents[last].run_id) in manifests:
        last = None  # its set was put, so it had written all that it meant to
    key = _public_one(manifests, None if last is None else intents[last], inflated)
    if key is None:
        return None
    found = manifests[key]
    # Any of the others may have been interrupted, too, so the keys that they touched are watched.
    began = {key: int(datetime.fromisoformat(intent.at).timestamp()) for key, intent in intents.items()}
    current = replace(
        current,
        manifest=key,
        mirrors={name: state.mirror for name, state in found.sections.items() if state.mirror is not None},
        pending=last,
        suspect={**current.suspect, **{key: at for key, at in began.items() if key != last}},
        # Past all serials that it may have had: a run takes less than a handful.
        serial=max(current.serial + 1, int(work.now().timestamp())),
    )
    put_document(work, layout.CURRENT, current)
    told = f"made again: it names the release of run {found.run_id}, the last one known to be public"
    if last is None:
        return told
    return f"{told}, and the publish of run {intents[last].run_id}, which the next run finishes"


def _intents(work: Storage) -> dict[str, Intent]:
    """Return the intents of recent publishes by key. A damaged one is skipped; verify reports it."""
    intents: dict[str, Intent] = {}
    for stat in work.list(layout.INTENTS):
        with suppress(DamagedState):
            found = read_document(work, stat.key, Intent)
            if found is not None:
                intents[stat.key] = found[0]
    return intents


def _public_one(manifests: Mapping[str, Manifest], interrupted: Intent | None, inflated: Inflated) -> str | None:
    """Return the key of the newest manifest whose files are all public.

    Otherwise, return the base of the interrupted publish if only files that it was going to write or delete differ.
    """
    for key, manifest in sorted(manifests.items(), reverse=True):
        if _is_public(manifest, frozenset(), inflated):
            return key
    base = None if interrupted is None else interrupted.base
    if interrupted is None or base is None or base not in manifests:
        return None
    return base if _is_public(manifests[base], interrupted.touched, inflated) else None


def _is_public(manifest: Manifest, but: Collection[str], inflated: Inflated) -> bool:
    """Return True if all files of a manifest, except `but`, are public with the same content."""
    return all(inflated(file.key, file.sha256) is not None for file in manifest.files() if file.key not in but)
