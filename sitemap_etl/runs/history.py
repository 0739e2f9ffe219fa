"""List the releases that are stored."""

from __future__ import annotations

from sitemap_etl.config import Site
from sitemap_etl.publish.retention import kept_manifests
from sitemap_etl.stages.run import Environment, open_work
from sitemap_etl.state.records import KeptSet, Manifest
from sitemap_etl.state.store import State


def published_sets(site: Site, environment: Environment) -> list[KeptSet]:
    """Return the stored releases, newest first. Raise DamagedState if a manifest is damaged."""
    state = State(open_work(site, environment), site.name, site.site)
    current = state.current().manifest
    return [_entry(manifest, current=key == current) for key, manifest in kept_manifests(state, site.keep, whole=True)]


def _entry(manifest: Manifest, *, current: bool) -> KeptSet:
    return KeptSet(
        run_id=manifest.run_id,
        now=manifest.now,
        current=current,
        listed=manifest.listed,
        files=sum(1 for _ in manifest.files()),
        sections={name: state.listed for name, state in manifest.sections.items()},
        counts=manifest.counts,
        forced=manifest.forced,
        reason=manifest.reason,
        rolled_back_to=manifest.rolled_back_to,
        engines=manifest.indexing,
    )
