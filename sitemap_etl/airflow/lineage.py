"""What a run reads and writes, for those who gather lineage from Airflow, such as OpenLineage.

Airflow collects it only where a provider asks for it; otherwise nothing is done, and no provider is loaded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sitemap_etl.airflow.compat import get_hook_lineage_collector
from sitemap_etl.settings import DatabaseSource, Site


def note_sources(task: Any, site: Site) -> None:
    """Note the exports that a site is made of as what a task reads. A SELECT does not say which tables it reads."""
    collector = get_hook_lineage_collector()
    for address in exports_of(site):
        collector.add_input_asset(task, uri=address)


def note_published(task: Any, site: Site) -> None:
    """Note where a site is published as what a task writes."""
    get_hook_lineage_collector().add_output_asset(task, uri=_address(site.publish.to))


def exports_of(site: Site) -> Iterator[str]:
    """The addresses of a site's exports: files, and of a pattern the folder that it is in."""
    for section in site.sections.values():
        source = section.source
        if not isinstance(source, DatabaseSource):
            places = getattr(source, source.kind)
            for place in [places] if isinstance(places, str) else places:
                yield _address(re.split(r"[^/]*[*?\[]", place, maxsplit=1)[0].rstrip("/"))


def _address(place: str) -> str:
    return place if "://" in place else f"file://{place}"
