"""From the site file's sections to the plain rules of the core."""

from __future__ import annotations

import importlib
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from sitemap_etl import extensions
from sitemap_etl.config import DatabaseSource, Section, Site
from sitemap_etl.errors import ConfigError
from sitemap_etl.partition import Limits
from sitemap_etl.transform import Hook, Rules
from sitemap_etl.urls import UrlRules


def rules_of(site: Site, section: Section, now: datetime, robots: bytes | None) -> Rules:
    """What transform does to the rows of a section. Raises ConfigError where its hook can't be imported."""
    lastmod, priority, changefreq = section.lastmod, section.priority, section.changefreq
    return Rules(
        section=section.name,
        urls=UrlRules(site.site, site.urls.same_as, frozenset(site.urls.strip)),
        now=now,
        columns=dict(section.columns),
        deleted=section.source.deleted if isinstance(section.source, DatabaseSource) else None,
        where=section.where,
        hook=hook_of(section) if section.transform else None,
        hook_name=section.transform or "",
        exclude=site.urls.exclude,
        robots=robots,
        lastmod=lastmod.kind,
        lastmod_columns=lastmod.columns,
        timezone=lastmod.timezone,
        unit=lastmod.unit,
        until_changed=lastmod.until_changed,
        priority=priority.kind,
        priority_value=priority.value,
        priority_column=priority.column,
        changefreq=changefreq.kind,
        changefreq_value=changefreq.value,
        changefreq_column=changefreq.column,
        cluster=section.alternates.group if section.alternates else None,
        hreflang=section.alternates.hreflang if section.alternates else None,
        news=news_of(section),
        titles=section.feed is not None,
    )


def news_of(section: Section) -> tuple[str, str] | None:
    """Publication and language of a news section. Raises ConfigError for a language that is none."""
    if section.news is None:
        return None
    try:
        return section.news.publication, extensions.language(section.news.language)
    except ValueError as error:
        raise ConfigError(f"sections.{section.name}.news.language: {error}") from error


def hook_of(section: Section) -> Hook:
    """The function a section's `transform:` names. The working folder is on the path, as for a script."""
    assert section.transform is not None
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
        raise ConfigError(f"sections.{section.name}.transform: {section.transform!r} is no function")
    hook: Hook = found
    return hook


def limits_of(section: Section) -> Limits:
    """How large the section's files may be."""
    if section.news:
        from sitemap_etl import limits

        return Limits(min(section.shards.rows, limits.NEWS_ROWS), section.shards.bytes, 1.0)
    return Limits(section.shards.rows, section.shards.bytes, section.shards.fill)


def is_dated(section: Section, columns: set[str]) -> bool:
    """Whether the section has a lastmod rule (or the column that stands for one)."""
    kind = section.lastmod.kind
    return kind in ("column", "newest_of", "fingerprint") or (kind == "default" and "lastmod" in columns)
