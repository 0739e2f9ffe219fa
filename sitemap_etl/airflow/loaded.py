"""The sites whose DAGs this process has made. A task finds its site here by the name of its DAG."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import Site


class SiteFile(Frozen):
    """A site and the file that it was read from."""

    site: Site
    path: Path


_LOADED: Final[dict[str, SiteFile]] = {}


def remember(dag_id: str, found: SiteFile) -> None:
    """Keep the site of a DAG for its tasks and callbacks."""
    _LOADED[dag_id] = found


def site_of(dag_id: str) -> SiteFile:
    """Return the site of a DAG that this process has made."""
    return _LOADED[dag_id]
