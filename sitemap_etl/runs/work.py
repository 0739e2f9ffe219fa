"""Site files without `work`: the command has a default for the state folder, a DAG has none."""

from __future__ import annotations

import os
from pathlib import Path

from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError


def demand_default(site: Site, site_file: Path) -> None:
    """Raise ConfigError with the line to add if the file has no `work` and the default folder can't be used."""
    if not site.says_work and not (Path(site.work) / site.name).exists() and not _can_lie_in(Path(site.work)):
        raise ConfigError(
            f"{site_file}: work is missing, and {site.work} can't be written, the default place of the state. Write a "
            f"folder that can, such as\n  work: /var/lib/sitemap-etl"
        )


def dag_lacks_work(site: Site) -> str | None:
    """Return the problem of a DAG whose site file has no `work`, with the line to add, or None."""
    if site.says_work:
        return None
    example = "s3://shop-private/sitemaps" if site.publish.to.startswith("s3://") else "/srv/sitemap-etl"
    return (
        "work is missing. A DAG has no default for it: its tasks may run on several machines, which must all reach "
        f"the state. Write its place, for example\n  work: {example}"
    )


def _can_lie_in(folder: Path) -> bool:
    """Return True if the folder is writable or can be created."""
    there = folder if os.path.lexists(folder) else folder.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
