"""The set to publish, and the manifest that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from sitemap_etl.manifest import File, Manifest, Retired, SectionState
from sitemap_etl.pipeline.gates import WEEK
from sitemap_etl.pipeline.objects import Object
from sitemap_etl.pipeline.proposal import Draft
from sitemap_etl.pipeline.run import Run, instant
from sitemap_etl.pipeline.wanted import Wanted


@dataclass(frozen=True)
class Target:
    """The set to publish. `gives`: published key → keys that take over some of its URLs."""

    drafts: Sequence[Draft]
    sections: Mapping[str, SectionState]
    counts: Mapping[str, Mapping[str, int]]
    gates: Sequence[Mapping[str, Any]]
    gives: Mapping[str, frozenset[str]]
    changes: pa.Table  # frames.CHANGES
    quiet_because: str | None = None
    extras: Sequence[Object] = ()
    forced: tuple[str, ...] = ()
    reason: str | None = None
    rolled_back_to: str | None = None


def made_manifest(run: Run, target: Target, wanted: Wanted, retired: Sequence[Retired]) -> Manifest:
    """The manifest of this publish; the ETags of what is yet to be written are not in it."""
    base = run.base
    since = instant(run.now - WEEK)
    # A drop that a person let through, or went back to, is no slow bleed: the week is counted from there.
    restarts = target.rolled_back_to is not None or any(gate.endswith("max_drop") for gate in target.forced)
    history = [entry for entry in (base.history if base and not restarts else ()) if entry["at"] >= since]
    sections = {name: state.listed for name, state in target.sections.items()}
    manifest = Manifest(
        name=run.site.name,
        site=run.site.site,
        run_id=run.run_id,
        now=run.plan.now,
        to=run.site.publish.to,
        base=run.plan.base,
        sections=target.sections,
        entries=tuple(wanted.entries),
        indexes=tuple(wanted.indexes),
        extras=tuple(wanted.extras),
        retired=tuple(retired),
        counts=target.counts,
        gates=tuple(target.gates),
        forced=target.forced,
        reason=target.reason,
        rolled_back_to=target.rolled_back_to,
    )
    entry = {"at": run.plan.now, "site": manifest.listed, "sections": sections}
    return replace(manifest, history=(*history, entry))


def with_etags(manifest: Manifest, etags: Mapping[str, str | None]) -> Manifest:
    """The manifest with the ETags of what was written, by key."""

    def fresh(file: File) -> File:
        return replace(file, etag=etags[file.key]) if file.key in etags else file

    return replace(
        manifest,
        entries=tuple(replace(e, file=fresh(e.file), text=fresh(e.text) if e.text else None) for e in manifest.entries),
        indexes=tuple(replace(index, file=fresh(index.file)) for index in manifest.indexes),
        extras=tuple(fresh(extra) for extra in manifest.extras),
    )


def state_differs(run: Run, manifest: Manifest) -> bool:
    """Whether the state would change though no file does: new snapshots, a new rule, a rollback, a new place."""
    if run.base is None or manifest.rolled_back_to is not None:
        return True

    def essence(of: Manifest) -> Any:
        sections = {name: replace(state, read_at=None) for name, state in of.sections.items()}
        entries = [(entry.section, entry.number, entry.low, entry.snapshot) for entry in of.entries]
        return of.to, sections, entries, {file.key: file.etag for file in of.files()}

    return bool(essence(run.base) != essence(manifest))
