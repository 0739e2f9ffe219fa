"""Find a site's state folder if the site file has no `work`: beside the file, or in the earlier default."""

from __future__ import annotations

import os
import posixpath
from dataclasses import replace
from pathlib import Path
from typing import Final

from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.settings.site import STATE_FOLDER
from sitemap_etl.stages.run import Environment, open_work, state_of
from sitemap_etl.state import layout
from sitemap_etl.state.store import AnothersState

_FORMER: Final = "../work"
"""Earlier default, beside the site file's folder and shared by copies of a project."""


def with_work(site: Site, site_file: Path, environment: Environment) -> Site:
    """Return the site with its state folder set, if the file has no `work`.

    Raises ConfigError with the line to add if the default folder can't be used, Refused if both defaults have state.
    """
    if site.says_work:
        return site
    folder = Path(os.path.abspath(site_file)).parent  # noqa: PTH100 - resolve() would follow links
    former = site.model_copy(update={"work": posixpath.normpath(f"{folder}/{_FORMER}")})
    has_former = _is_ours(former, environment)
    exists = (Path(site.work) / site.name).exists()
    if has_former and exists:
        raise Refused(
            f"{site_file} does not say where its state lies, and there are two: {site.work}/{site.name}, and "
            f"{former.work}/{site.name}, where releases before put it. Nothing was written. Write the one to go on "
            f"with, and move the other away:\n  work: {STATE_FOLDER}\n  work: {_FORMER}"
        )
    if has_former:
        return former
    if not exists and not _can_lie_in(Path(site.work)):
        raise ConfigError(
            f"{site_file}: work is missing, and {site.work} can't be written, where state lies by default. Write a "
            f"folder that can, such as\n  work: /var/lib/sitemap-etl"
        )
    return site


def missing_work(site: Site, site_file: str) -> ConfigError:
    """Return the error for a DAG whose site file has no `work`."""
    example = "s3://shop-private/sitemap" if site.publish.to.startswith("s3://") else "/srv/sitemap-etl"
    former = Path(site_file).parent / _FORMER / site.name if site_file else None
    if former is not None and former.exists():
        example = f"{_FORMER}    # where it has been until now"
    return ConfigError(
        f"{site_file or site.name}: work is missing. A DAG has no default for it: its tasks may run on several "
        f"machines, which must all reach the state. Write where it lies, for example\n  work: {example}"
    )


def _is_ours(site: Site, environment: Environment) -> bool:
    """Return True if the folder has a release that was published to the site's location."""
    work = open_work(site, environment)
    if work.stat(layout.CURRENT) is None:
        return False
    try:
        return state_of(site, replace(environment, site_file=""), work).current().manifest is not None
    except AnothersState:
        return False


def _can_lie_in(folder: Path) -> bool:
    """Return True if the folder is writable or can be created."""
    there = folder if os.path.lexists(folder) else folder.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
