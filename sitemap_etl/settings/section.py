"""A section: pages with one source and one set of rules."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, PrivateAttr, model_validator

from sitemap_etl import limits
from sitemap_etl.settings.kinds import (
    Column,
    Duration,
    Flag,
    Hreflang,
    Integer,
    Number,
    Settings,
    Several,
    Text,
    matching,
    once,
    unlike,
)
from sitemap_etl.settings.rules import (
    Changefreq,
    DefaultRule,
    Lastmod,
    Priority,
)
from sitemap_etl.settings.sources import DatabaseSource, Exported, Source, TableSource

Format = Literal["xml", "text"]
FeedFormat = Literal["rss", "atom"]


class Alternates(Settings):
    """hreflang links between the listed rows of one group."""

    group: Column = Field(
        description="Column with the ID of the cluster; rows with the same value belong together.",
        examples=["product_id"],
    )
    hreflang: Column = Field(
        description="Column with the language of the row, or a list of languages.", examples=["language"]
    )
    x_default: Hreflang | None = Field(
        default=None, description="Language whose page is also the `x-default`.", examples=["en"]
    )
    cluster: Text = Field(
        default="",
        description="Sections with the same cluster name share their groups. Default: the name of the section.",
    )


class News(Settings):
    """Settings of a news section: a view of the last 48 hours by `publication_date`, with 1,000 URLs per file."""

    publication: Text = Field(
        description="Name of the publication, exactly as on news.google.com.", examples=["The Times"]
    )
    language: Annotated[
        Text,
        matching(r"[A-Za-z]{2,3}([-_][A-Za-z0-9]{1,8})*", "a language such as en (ISO 639), zh-cn or zh-tw"),
    ] = Field(description="ISO 639 language code. A country is ignored, except for Chinese.", examples=["en", "zh-tw"])


class Feed(Settings):
    """Feeds of the section's newest pages, beside its sitemaps."""

    formats: Annotated[Several[FeedFormat], AfterValidator(once)] = Field(
        default=("rss", "atom"),
        min_length=1,
        description="`rss` is RSS 2.0 (with Media RSS for videos), `atom` is Atom 1.0.",
    )
    title: Text = Field(default="", description="Title of the feed. Default: the name of the section.")
    items: Integer = Field(
        default=100, ge=1, le=limits.SITEMAP_ROWS, description="Maximum number of pages, newest first."
    )


class Shards(Settings):
    """Size limits of a file."""

    rows: Integer = Field(
        default=limits.SITEMAP_ROWS,
        ge=1,
        le=limits.SITEMAP_ROWS,
        description=f"Maximum number of URLs per file. In a news section, maximum and default are {limits.NEWS_ROWS}.",
    )
    bytes: Integer = Field(
        default=limits.SITEMAP_BYTES,
        ge=1024,
        le=limits.SITEMAP_BYTES,
        description="Maximum uncompressed size of a file in bytes.",
    )
    fill: Number = Field(
        default=0.9,
        gt=0,
        le=1,
        description="New files are filled to this share of both limits, so that they can grow. Default in a news "
        "section: 1.",
    )

    def hold(self, rows: int, size: int) -> bool:
        """Return True if so many rows and uncompressed bytes fit into one file."""
        return rows <= self.rows and size <= self.bytes

    def inside(self, wrapper: int) -> Shards:
        """Return the limits for the entries of a file whose first and last lines take `wrapper` bytes."""
        return self.model_copy(update={"bytes": self.bytes - wrapper})


def _budget(value: timedelta) -> timedelta:
    if value > timedelta(minutes=15):  # the lease of a run lasts twenty
        raise unlike("15m or less")
    return value


class NewPages(Settings):
    """Settings for visits of new pages before they are listed."""

    sample: Integer = Field(
        default=200, ge=0, le=limits.PAGES_SAMPLE, description="Maximum number of new pages to visit; `0` visits none."
    )
    max_bad: Number = Field(
        default=0.02,
        ge=0,
        le=1,
        description="Maximum share of bad pages among those visited, such as errors, redirects and `noindex`.",
    )
    budget: Annotated[Duration, AfterValidator(_budget)] = Field(
        default=timedelta(minutes=1),
        description="Time for all visits of a run; the longest of all sections applies.",
    )


class Gates(Settings):
    """Limits beyond which nothing is published. Percentage gates apply from 20 URLs. Half of a limit is a warning."""

    max_drop: Number = Field(
        default=0.1, ge=0, le=1, description="Maximum share of published URLs that no section lists any more."
    )
    max_growth: Number = Field(default=1.0, ge=0, description="Maximum ratio of added URLs to published URLs.")
    max_rejected: Number = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Maximum share of rejected rows among all rows and, from 1,000 rows read, among the rows read.",
    )
    max_undated: Number = Field(
        default=0.05,
        ge=0,
        le=1,
        description="Maximum share of pages that lose their lastmod, among those that had one.",
    )
    max_same_date: Number = Field(
        default=0.5,
        ge=0,
        le=1,
        description="Maximum share of listed pages that get one and the same new lastmod. Applies from 1,000 "
        "such pages.",
    )
    max_same_hour: Number | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Maximum share of pages that get a new lastmod within the same hour, among those that had a "
        "lastmod. Applies from 1,000 such pages, and not to fingerprints. Default: more than half is a warning.",
    )
    min_urls: Integer = Field(default=1, ge=0, description="Minimum number of listed URLs.")
    pages: NewPages | None = Field(
        default=None, description="Visits a sample of the new pages. Default: no page is visited."
    )

    def over(self, below: Gates, **values: Any) -> Gates:
        """Return the gates of `below`, replaced by `values`, and both replaced by the gates that are set here."""
        written = {name: getattr(self, name) for name in self.model_fields_set}
        return below.model_copy(update={**values, **written})


def _formats(formats: tuple[Format, ...]) -> tuple[Format, ...]:
    """Return the formats with XML, which is always written, first."""
    return ("xml", "text") if "text" in formats else ("xml",)


CONTRACT: Final = (
    "loc",
    "lastmod",
    "changefreq",
    "priority",
    "exclude",
    "images",
    "videos",
    "title",
    "publication_date",
    "alternates",
    "mobile",
)
"""The columns that have a meaning in every source. Others are read by the rules that name them."""


class Section(Settings):
    """Pages with one source and one set of rules."""

    _name: str = PrivateAttr(default="")

    source: Source = Field(
        alias="from", description="Source of the rows.", examples=["{database: catalog, sql: ../sql/pages.sql}"]
    )
    columns: dict[Text, Column] = Field(
        default_factory=dict,
        description="Column names: the name that sitemap_etl uses, then the name in the source.",
        examples=[{"loc": "permalink"}],
    )
    where: Text | None = Field(
        default=None, description="SQL condition (DuckDB) on the renamed columns. Rows that don't match are excluded."
    )
    transform: (
        Annotated[
            Text,
            matching(
                r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "package.module:function, such as shop.hooks:only_live"
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="`package.module:function`, called with a DataFrame; returns one with rows changed or dropped. "
        "Needs the extra `pandas`.",
    )
    lastmod: Lastmod = Field(
        default=DefaultRule.standard(),
        description="When the page last changed. Default: the column `lastmod`, if it exists.",
    )
    priority: Priority = Field(
        default=DefaultRule.standard(),
        description="Priority of the page. Default: the column `priority`, if it exists.",
    )
    changefreq: Changefreq = Field(
        default=DefaultRule.standard(),
        description="Change frequency of the page. Default: the column `changefreq`, if it exists.",
    )
    alternates: Alternates | None = Field(default=None, description="hreflang links between rows of the same group.")
    news: News | None = Field(default=None, description="Makes this a news section.")
    feed: Feed | None = Field(default=None, description="Adds RSS and Atom feeds.")
    view: Flag = Field(
        default=False,
        description="Lists URLs that other sections list too, so it is not deduplicated against them. A news "
        "section is always a view.",
    )
    formats: Annotated[Several[Format], AfterValidator(_formats)] = Field(
        default=("xml",),
        min_length=1,
        description="`text` adds a text sitemap for each XML sitemap. XML is always written.",
    )
    shards: Shards = Field(default=Shards.standard(), description="Size limits of a file.")
    gates: Gates = Field(default=Gates.standard(), description="Gates of this section that differ from the site's.")
    on_error: Literal["fail", "keep"] = Field(
        default="fail",
        description="`keep`: if the source fails, the section stays as published and the others are still updated.",
    )

    @property
    def name(self) -> str:
        """Key of the section in the site file."""
        return self._name

    @property
    def place(self) -> str:
        """The source in messages, with its first file or address if it is an export."""
        files = self.source.paths if isinstance(self.source, Exported) else ()
        return f"the source ({files[0]})" if files else "the source"

    @property
    def dates(self) -> tuple[str, ...]:
        """Columns whose dates are published, by their names after `columns`."""
        names = ("lastmod",) if self.lastmod.kind == "default" else self.lastmod.dates
        return (*names, "publication_date") if self.news else names

    @property
    def rule_columns(self) -> set[str]:
        """Columns that `lastmod`, `priority`, `changefreq` and `alternates` name, by their names after `columns`."""
        named = {*self.lastmod.columns, *self.priority.columns, *self.changefreq.columns}
        if self.lastmod.until_changed:
            named.add(self.lastmod.until_changed)
        if self.alternates:
            named |= {self.alternates.group, self.alternates.hreflang}
        return named

    @property
    def unread_columns(self) -> list[str]:
        """Names in `columns` that no rule reads. `where` and `transform` can read any."""
        if self.where or self.transform:
            return []
        return sorted(self.columns.keys() - self.rule_columns - {*CONTRACT})

    @property
    def waits(self) -> bool:
        """True if a run can wait for the source."""
        return self.source.expect is not None and bool(self.source.expect.wait)

    @property
    def keyed(self) -> bool:
        """True if the source names the column that identifies a row. Such a source can be read incrementally."""
        return isinstance(self.source, DatabaseSource | TableSource) and self.source.key is not None

    @model_validator(mode="after")
    def _of_news(self) -> Self:
        """Make a news section a view with small files, which need no room to grow."""
        if self.news is not None:
            written = {name: getattr(self.shards, name) for name in self.shards.model_fields_set}
            shards = self.shards.model_copy(update={"rows": limits.NEWS_ROWS, "fill": 1.0, **written})
            self._settle(view=True, shards=shards)
        return self

    def named(self, name: str, gates: Gates) -> Section:
        """Return the section with its name and with the values that depend on the name and the site's gates."""
        views: dict[str, Any] = {"max_drop": 1.0, "min_urls": 0} if self.view else {}
        values: dict[str, Any] = {"gates": self.gates.over(gates, **views)}
        if self.alternates is not None and not self.alternates.cluster:
            values["alternates"] = self.alternates.model_copy(update={"cluster": name})
        if self.feed is not None and not self.feed.title:
            values["feed"] = self.feed.model_copy(update={"title": name})
        made = self.model_copy(update=values)
        made._name = name
        return made
