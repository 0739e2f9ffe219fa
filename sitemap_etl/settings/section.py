"""A section: a family of pages with one source and one set of rules."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from sitemap_etl import limits
from sitemap_etl.settings.kinds import (
    Flag,
    Hreflang,
    Integer,
    Number,
    Settings,
    Several,
    Text,
    matching,
    once,
)
from sitemap_etl.settings.rules import (
    Changefreq,
    DefaultRule,
    Lastmod,
    Priority,
)
from sitemap_etl.settings.sources import DatabaseSource, Source

Format = Literal["xml", "text"]
FeedFormat = Literal["rss", "atom"]


class Alternates(Settings):
    """The hreflang cluster of a row: all listed rows with the same group."""

    group: Text = Field(description="Column whose equal values make a cluster.", examples=["product_id"])
    hreflang: Text = Field(description="Column of the row's language, or list of languages.", examples=["language"])
    x_default: Hreflang | None = Field(
        default=None, description="Language whose page is also `x-default`.", examples=["en"]
    )
    cluster: Text = Field(
        default="", description="Sections with the same cluster share their groups. Default: the section's name."
    )


class News(Settings):
    """Makes a news section: a view of the last 48 hours by `publication_date`, 1,000 URLs a file."""

    publication: Text = Field(description="Name, exactly as on news.google.com.", examples=["The Times"])
    language: Annotated[
        Text,
        matching(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", "a language such as en (ISO 639), zh-cn or zh-tw"),
    ] = Field(description="ISO 639 code; a country is left off, of Chinese it decides.", examples=["en", "zh-tw"])


class Feed(Settings):
    """Feeds of the section's newest pages, beside its sitemaps."""

    formats: Annotated[Several[FeedFormat], AfterValidator(once)] = Field(
        default=("rss", "atom"), min_length=1, description="RSS 2.0 (with media RSS for videos), Atom 1.0."
    )
    title: Text = Field(default="", description="Title of the feed. Default: the section's name.")
    items: Integer = Field(default=100, ge=1, le=limits.SITEMAP_ROWS, description="How many pages, newest first.")


class Shards(Settings):
    """How large one file may be."""

    rows: Integer = Field(
        default=limits.SITEMAP_ROWS,
        ge=1,
        le=limits.SITEMAP_ROWS,
        description=f"URLs a file; in a news section {limits.NEWS_ROWS} at most, which is its default.",
    )
    bytes: Integer = Field(
        default=limits.SITEMAP_BYTES, ge=1024, le=limits.SITEMAP_BYTES, description="Uncompressed bytes a file."
    )
    fill: Number = Field(
        default=0.9,
        gt=0,
        le=1,
        description="Files are cut to this share of both, so that they can grow. Default in a news section: 1.",
    )

    def hold(self, rows: int, size: int) -> bool:
        """Whether one file may hold so many rows and uncompressed bytes."""
        return rows <= self.rows and size <= self.bytes

    def inside(self, wrapper: int) -> Shards:
        """The same limits for what stands inside of so many bytes of wrapper."""
        return self.model_copy(update={"bytes": self.bytes - wrapper})


class Gates(Settings):
    """What refuses a publish. Percentage gates apply from 20 URLs; half of a limit warns."""

    max_drop: Number = Field(
        default=0.1, ge=0, le=1, description="Share of the published URLs that no section lists any more."
    )
    max_growth: Number = Field(default=1.0, ge=0, description="Added URLs over published ones.")
    max_rejected: Number = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Rejected rows over all; from 1,000 rows read, also those among them.",
    )
    max_undated: Number = Field(
        default=0.05, ge=0, le=1, description="Pages that lose their lastmod, over those that had one."
    )
    max_same_date: Number = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Pages whose lastmod becomes one and the same, over the listed ones; from 1,000 such pages.",
    )
    min_urls: Integer = Field(default=1, ge=0, description="Least number of listed URLs.")

    def over(self, below: Gates, **values: float) -> Gates:
        """Those of `below`, with these values in their place, and what was written here in place of both."""
        written = {name: getattr(self, name) for name in self.model_fields_set}
        return below.model_copy(update={**values, **written})


def _formats(formats: tuple[Format, ...]) -> tuple[Format, ...]:
    """XML is always written, and first."""
    return ("xml", "text") if "text" in formats else ("xml",)


class Section(Settings):
    """A family of pages with one source and one set of rules."""

    _name: str = PrivateAttr(default="")

    source: Source = Field(
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
    lastmod: Lastmod = Field(
        default=DefaultRule(),
        description="When the page really changed. Default: the column `lastmod`, if there is one.",
    )
    priority: Priority = Field(default=DefaultRule(), description="Default: the column `priority`, if there is one.")
    changefreq: Changefreq = Field(
        default=DefaultRule(), description="Default: the column `changefreq`, if there is one."
    )
    alternates: Alternates | None = Field(default=None, description="hreflang clusters from rows of the same group.")
    news: News | None = Field(default=None, description="Makes a news section.")
    feed: Feed | None = Field(default=None, description="Adds feeds.")
    view: Flag = Field(
        default=False,
        description="Shows again what other sections list; takes no part in the dedupe. A news section always is one.",
    )
    formats: Annotated[Several[Format], AfterValidator(_formats)] = Field(
        default=("xml",),
        min_length=1,
        description="`text` adds a text sitemap beside each XML one; XML is always written.",
    )
    shards: Shards = Field(default=Shards(), description="How large one file may be.")
    gates: Gates = Field(default=Gates(), description="Replaces single gates of the site for this section.")
    on_error: Literal["fail", "keep"] = Field(
        default="fail", description="`keep`: a late or broken source keeps the section as published; the others go on."
    )

    @property
    def name(self) -> str:
        """The key under which the section stands."""
        return self._name

    @property
    def keyed(self) -> bool:
        """Whether its source says what identifies a row, so that it may be read incrementally."""
        return isinstance(self.source, DatabaseSource) and self.source.key is not None

    @model_validator(mode="after")
    def _of_news(self) -> Self:
        """A news section is a view, of small files that need no room to grow."""
        if self.news is not None:
            written = {name: getattr(self.shards, name) for name in self.shards.model_fields_set}
            shards = self.shards.model_copy(update={"rows": limits.NEWS_ROWS, "fill": 1.0, **written})
            self._settle(view=True, shards=shards)
        return self

    def named(self, name: str, gates: Gates) -> Section:
        """The section under its name, in a site with these gates: what follows from both is filled in."""
        views: dict[str, Any] = {"max_drop": 1.0, "min_urls": 0} if self.view else {}
        values: dict[str, Any] = {"gates": self.gates.over(gates, **views)}
        if self.alternates is not None and not self.alternates.cluster:
            values["alternates"] = self.alternates.model_copy(update={"cluster": name})
        if self.feed is not None and not self.feed.title:
            values["feed"] = self.feed.model_copy(update={"title": name})
        made = self.model_copy(update=values)
        made._name = name
        return made
