"""One section's keys as written → the section as a run uses it."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import Protocol

from sitemap_etl import limits
from sitemap_etl.config.layers import Layers
from sitemap_etl.config.models import (
    Alternates,
    ChangefreqRule,
    CsvSource,
    DatabaseSource,
    Feed,
    Gates,
    LastmodRule,
    News,
    ParquetSource,
    PriorityRule,
    Section,
    Shards,
    Source,
    Split,
)
from sitemap_etl.config.reader import KeyPath
from sitemap_etl.config.rule_keys import (
    ChangefreqColumn,
    LastmodColumn,
    LastmodFingerprint,
    LastmodNewestOf,
    PriorityColumn,
    PriorityDepth,
    PriorityPercentile,
)
from sitemap_etl.config.section_keys import AlternatesKeys, FeedKeys, GatesKeys, SectionKeys, ShardsKeys
from sitemap_etl.config.source_keys import CsvKeys, DatabaseKeys, ParquetKeys


class Reads(Protocol):
    """What a section needs of its file: its SELECTs and paths."""

    layers: Layers

    def select(self, path: KeyPath, sql: str | None, query: str | None) -> tuple[str | None, str | None]: ...
    def source(self, path: KeyPath, text: str) -> str: ...


def section(name: str, keys: SectionKeys, site_gates: Gates, reads: Reads) -> Section:
    """The section of these keys; `site_gates` are the site's."""
    path: KeyPath = ("sections", name)
    news = News(publication=keys.news.publication, language=keys.news.language) if keys.news else None
    view = keys.view or news is not None
    return Section(
        name=name,
        source=_source(keys.source, (*path, "from"), reads),
        columns=keys.columns,
        where=keys.where,
        transform=keys.transform,
        lastmod=lastmod(keys.lastmod),
        priority=priority(keys.priority),
        changefreq=changefreq(keys.changefreq),
        alternates=_alternates(keys.alternates, name) if keys.alternates else None,
        news=news,
        feed=_feed(keys.feed, name) if keys.feed else None,
        view=view,
        formats=("xml", "text") if "text" in keys.formats else ("xml",),
        shards=_shards(keys.shards, (*path, "shards"), reads.layers, news=news is not None),
        gates=gates(keys.gates, site_gates, view=view),
        on_error=keys.on_error,
    )


def gates(keys: GatesKeys, below: Gates, *, view: bool = False) -> Gates:
    """Single values of `below` replaced by those of views, then by the section's own."""
    own = {name: value for name in Gates.model_fields if (value := getattr(keys, name)) is not None}
    views = {"max_drop": 1.0, "min_urls": 0} if view else {}
    return below.model_copy(update={**views, **own})


def lastmod(
    keys: str | LastmodColumn | LastmodNewestOf | LastmodFingerprint | None,
) -> LastmodRule:
    """The rule, whichever way it was written."""
    if keys is None:
        return LastmodRule(kind="default")
    if isinstance(keys, str):
        return LastmodRule(kind="none") if keys == "none" else LastmodRule(kind="column", columns=(keys,))
    if isinstance(keys, LastmodColumn):
        return LastmodRule(kind="column", columns=(keys.column,), timezone=keys.timezone, unit=keys.unit)
    if isinstance(keys, LastmodNewestOf):
        return LastmodRule(kind="newest_of", columns=tuple(keys.newest_of), timezone=keys.timezone, unit=keys.unit)
    return LastmodRule(
        kind="fingerprint",
        columns=tuple(keys.fingerprint),
        timezone=keys.timezone,
        unit=keys.unit,
        until_changed=keys.until_changed,
        first_seen=keys.first_seen,
    )


def priority(keys: float | str | PriorityPercentile | PriorityDepth | PriorityColumn | None) -> PriorityRule:
    """The rule, whichever way it was written; a number is rounded half up to tenths."""
    if keys is None:
        return PriorityRule(kind="default")
    if isinstance(keys, str):
        return PriorityRule(kind="none") if keys == "none" else PriorityRule(kind="column", column=keys)
    if isinstance(keys, PriorityPercentile):
        return PriorityRule(kind="percentile_of", column=keys.percentile_of)
    if isinstance(keys, PriorityDepth):
        return PriorityRule(kind="depth")
    if isinstance(keys, PriorityColumn):
        return PriorityRule(kind="column", column=keys.column)
    tenths = int((Decimal(repr(keys)) * 10).to_integral_value(ROUND_HALF_UP))
    return PriorityRule(kind="constant", value=tenths)


def changefreq(keys: str | ChangefreqColumn | None) -> ChangefreqRule:
    """The rule: a word of the protocol is a constant, any other text a column."""
    if keys is None:
        return ChangefreqRule(kind="default")
    if isinstance(keys, ChangefreqColumn):
        return ChangefreqRule(kind="column", column=keys.column)
    if keys == "none":
        return ChangefreqRule(kind="none")
    if keys in limits.CHANGEFREQS:
        return ChangefreqRule(kind="constant", value=keys)
    return ChangefreqRule(kind="column", column=keys)


def _source(keys: DatabaseKeys | CsvKeys | ParquetKeys, path: KeyPath, reads: Reads) -> Source:
    query, file = reads.select(path, keys.sql, keys.query)
    if isinstance(keys, DatabaseKeys):
        return DatabaseSource(
            database=keys.database,
            query=query or "",
            sql_path=file,
            params=dict(keys.params),
            split=Split(column=keys.split.column, parts=keys.split.parts) if keys.split else None,
            key=keys.key,
            deleted=keys.deleted,
            full_every=keys.full_every,
            overlap=keys.overlap,
        )
    if isinstance(keys, CsvKeys):
        return CsvSource(
            csv=_paths(keys.csv, (*path, "csv"), reads),
            query=query,
            sql_path=file,
            delimiter=keys.delimiter,
        )
    return ParquetSource(parquet=_paths(keys.parquet, (*path, "parquet"), reads), query=query, sql_path=file)


def _paths(texts: list[str], path: KeyPath, reads: Reads) -> tuple[str, ...]:
    return tuple(reads.source((*path, number), text) for number, text in enumerate(texts))


def _shards(keys: ShardsKeys, path: KeyPath, layers: Layers, *, news: bool) -> Shards:
    most = limits.NEWS_ROWS if news else limits.SITEMAP_ROWS
    if keys.rows is not None and keys.rows > most:
        layers.add((*path, "rows"), f"expected {most} or less, Google's limit for news, found {keys.rows}")
    return Shards(rows=keys.rows or most, bytes=keys.bytes, fill=keys.fill)


def _alternates(keys: AlternatesKeys, section: str) -> Alternates:
    return Alternates(
        group=keys.group, hreflang=keys.hreflang, x_default=keys.x_default, cluster=keys.cluster or section
    )


def _feed(keys: FeedKeys, section: str) -> Feed:
    return Feed(formats=tuple(dict.fromkeys(keys.formats)), title=keys.title or section, items=keys.items)
