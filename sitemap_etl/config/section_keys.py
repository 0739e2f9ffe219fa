"""The keys below `sections.<name>`, as one writes them: what each takes, its default, its meaning."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sitemap_etl import limits
from sitemap_etl.config.kinds import Flag, Hreflang, Integer, Keys, Number, Text, matching
from sitemap_etl.config.models import Gates
from sitemap_etl.config.rule_keys import ChangefreqKeys, LastmodKeys, PriorityKeys
from sitemap_etl.config.source_keys import FromKeys

_GATES = Gates()


class AlternatesKeys(Keys):
    """The hreflang cluster of a row: all listed rows with the same group."""

    group: Text = Field(description="Column whose equal values make a cluster.", examples=["product_id"])
    hreflang: Text = Field(description="Column of the row's language, or list of languages.", examples=["language"])
    x_default: Hreflang | None = Field(
        default=None, description="Language whose page is also `x-default`.", examples=["en"]
    )
    cluster: Text | None = Field(
        default=None, description="Sections with the same cluster share their groups. Default: the section's name."
    )


class NewsKeys(Keys):
    """Makes a news section: a view of the last 48 hours by `publication_date`, 1,000 URLs a file."""

    publication: Text = Field(description="Name, exactly as on news.google.com.", examples=["The Times"])
    language: Annotated[
        Text,
        matching(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", "a language such as en (ISO 639), zh-cn or zh-tw"),
    ] = Field(description="ISO 639 code; a country is left off, of Chinese it decides.", examples=["en", "zh-tw"])


class FeedKeys(Keys):
    """Feeds of the section's newest pages, beside its sitemaps."""

    formats: list[Literal["rss", "atom"]] = Field(
        default=["rss", "atom"], min_length=1, description="RSS 2.0 (with media RSS for videos), Atom 1.0."
    )
    title: Text | None = Field(default=None, description="Title of the feed. Default: the section's name.")
    items: Integer = Field(default=100, ge=1, le=limits.SITEMAP_ROWS, description="How many pages, newest first.")


class ShardsKeys(Keys):
    """How large one file may be."""

    rows: Integer | None = Field(
        default=None, ge=1, le=limits.SITEMAP_ROWS, description="URLs a file. Default: 50000; 1000 in a news section."
    )
    bytes: Integer = Field(
        default=limits.SITEMAP_BYTES, ge=1024, le=limits.SITEMAP_BYTES, description="Uncompressed bytes a file."
    )
    fill: Number = Field(
        default=0.9, gt=0, le=1, description="Files are cut to this share of both, so that they can grow."
    )


class GatesKeys(Keys):
    """What refuses a publish. A share counts from 20 URLs on; half of a limit warns."""

    max_drop: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        description=f"Share of the published URLs that no section lists any more. Default: {_GATES.max_drop}.",
    )
    max_growth: Number | None = Field(
        default=None, ge=0, description=f"Added URLs over published ones. Default: {_GATES.max_growth}."
    )
    max_rejected: Number | None = Field(
        default=None, ge=0, le=1, description=f"Rejected over extracted rows. Default: {_GATES.max_rejected}."
    )
    min_urls: Integer | None = Field(
        default=None, ge=0, description=f"Least number of listed URLs. Default: {_GATES.min_urls}."
    )


class SectionKeys(Keys):
    """A family of pages with one source and one set of rules."""

    source: FromKeys = Field(
        alias="from", description="Where the rows come from.", examples=["{database: catalog, sql: ../sql/pages.sql}"]
    )
    columns: dict[Text, Text] = Field(
        default_factory=dict, description="Renames: contract column to source column.", examples=[{"loc": "permalink"}]
    )
    where: Text | None = Field(
        default=None, description="DuckDB SQL condition over the renamed columns; rows it drops are excluded."
    )
    transform: (
        Annotated[
            Text,
            matching(
                r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "package.module:function, such as shop.hooks:only_live"
            ),
        ]
        | None
    ) = Field(default=None, description="`package.module:function`, DataFrame to DataFrame; may change and drop rows.")
    lastmod: LastmodKeys | None = Field(
        default=None, description="When the page really changed. Default: the column `lastmod`, if there is one."
    )
    priority: PriorityKeys | None = Field(default=None, description="Default: the column `priority`, if there is one.")
    changefreq: ChangefreqKeys | None = Field(
        default=None, description="Default: the column `changefreq`, if there is one."
    )
    alternates: AlternatesKeys | None = Field(
        default=None, description="hreflang clusters from rows of the same group."
    )
    news: NewsKeys | None = Field(default=None, description="Makes a news section.")
    feed: FeedKeys | None = Field(default=None, description="Adds feeds.")
    view: Flag = Field(default=False, description="Shows again what other sections list; takes no part in the dedupe.")
    formats: list[Literal["xml", "text"]] = Field(
        default=["xml"],
        min_length=1,
        description="`text` adds a text sitemap beside each XML one; XML is always written.",
    )
    shards: ShardsKeys = Field(default=ShardsKeys(), description="How large one file may be.")
    gates: GatesKeys = Field(default=GatesKeys(), description="Replaces single gates of the site for this section.")
    on_error: Literal["fail", "keep"] = Field(
        default="fail", description="`keep`: a late or broken source keeps the section as published; the others go on."
    )
