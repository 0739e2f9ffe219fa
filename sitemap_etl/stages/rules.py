"""Build the rules of a section from its settings, the run's data and the person's own code."""

from __future__ import annotations

import importlib
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from sitemap_etl import extensions
from sitemap_etl.config import DatabaseSource, Section, Site
from sitemap_etl.errors import ConfigError
from sitemap_etl.extras import demand
from sitemap_etl.transform import Clock, Hook, Rules
from sitemap_etl.urls import UrlRules


def rules_of(site: Site, section: Section, now: datetime, robots: bytes | None) -> Rules:
    """Return the rules of a section. Raise ConfigError for a hook that can't be imported, or an unknown language."""
    if section.news is not None:
        try:
            extensions.language(section.news.language)
        except ValueError as error:
            raise ConfigError(f"sections.{section.name}.news.language: {error}") from error
    return Rules(
        settings=section,
        urls=UrlRules(site.site, site.urls.same_as, frozenset(site.urls.strip), site.urls.bare == "allow"),
        clock=Clock(now),
        deleted=section.source.deleted if isinstance(section.source, DatabaseSource) else None,
        hook=hook_of(section) if section.transform else None,
        exclude=site.urls.exclude,
        robots=robots,
    )


def hook_of(section: Section) -> Hook:
    """Return the function that a section's `transform:` names. It can be in the working folder, as for a script.

    Raise ConfigError if pandas is missing, or if the function can't be imported or is not one.
    """
    assert section.transform is not None
    demand("pandas", f"sections.{section.name}.transform")
    module, _, name = section.transform.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"sections.{section.name}.transform: {section.transform!r} can't be imported: {error}. "
            "Expected package.module:function, installed beside sitemap_etl or importable from this folder"
        ) from error
    if not callable(found):
        raise ConfigError(
            f"sections.{section.name}.transform: {section.transform!r} is not a function. Expected "
            "package.module:function, which takes a DataFrame and returns one"
        )
    hook: Hook = found
    return hook


def is_dated(section: Section, columns: set[str]) -> bool:
    """Return True if the section has a lastmod rule or a `lastmod` column."""
    kind = section.lastmod.kind
    return kind in ("column", "newest_of", "fingerprint") or (kind == "default" and "moment" in columns)
