"""Where a site's state lies when its site file does not say: beside the file, or where releases before put it."""

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
"""Beside the folder of the site file: what copies of a project shared."""


def with_work(site: Site, site_file: Path, environment: Environment) -> Site:
    """The site with the folder of its state, where its file does not say one.

    Raises ConfigError where the default can't be used, with the line to write; Refused where the state is in both
    places.
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
    """The mistake of a site file whose runs have no machine of their own, and which does not say `work`."""
    example = "s3://shop-private/sitemap" if site.publish.to.startswith("s3://") else "/srv/sitemap-etl"
    former = Path(site_file).parent / _FORMER / site.name if site_file else None
    if former is not None and former.exists():
        example = f"{_FORMER}    # where it has been until now"
    return ConfigError(
        f"{site_file or site.name}: work is missing. A DAG has no default for it: its tasks may run on several "
        f"machines, which must all reach the state. Write where it lies, for example\n  work: {example}"
    )


def _is_ours(site: Site, environment: Environment) -> bool:
    """Whether a set lies there that was published to where this site publishes."""
    work = open_work(site, environment)
    if work.stat(layout.CURRENT) is None:
        return False
    try:
        return state_of(site, replace(environment, site_file=""), work).current().manifest is not None
    except AnothersState:
        return False


def _can_lie_in(folder: Path) -> bool:
    """Whether the folder can be written, or made."""
    there = folder if os.path.lexists(folder) else folder.parent
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
