"""Lineage: the exports that a run reads and the address that it publishes to.

Airflow collects lineage only if a provider, such as OpenLineage, requests it. Otherwise nothing happens, and no
provider is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sitemap_etl.airflow.compat import get_hook_lineage_collector
from sitemap_etl.settings import DatabaseSource, Site


def note_sources(task: Any, site: Site) -> None:
    """Record the exports of a site as inputs of a task. Databases are omitted: a SELECT does not declare its tables."""
    collector = get_hook_lineage_collector()
    for address in exports_of(site):
        collector.add_input_asset(task, uri=address)


def note_published(task: Any, site: Site) -> None:
    """Record the address that a site is published to as an output of a task."""
    get_hook_lineage_collector().add_output_asset(task, uri=_address(site.publish.to))


def exports_of(site: Site) -> Iterator[str]:
    """Yield the addresses of a site's exports: files, and the folders of patterns."""
    for section in site.sections.values():
        source = section.source
        if not isinstance(source, DatabaseSource):
            places = getattr(source, source.kind)
            for place in [places] if isinstance(places, str) else places:
                yield _address(re.split(r"[^/]*[*?\[]", place, maxsplit=1)[0].rstrip("/"))


def _address(place: str) -> str:
    return place if "://" in place else f"file://{place}"
