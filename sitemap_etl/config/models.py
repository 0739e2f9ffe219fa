"""The site as a run uses it: every default filled in, every path absolute, every SELECT read.

Frozen, and made of plain values, so that a run can store it (`to_json`) and its later stages read
exactly what it started with (`from_json`). How a person writes these things is in `keys`; `resolve`
makes the one from the other.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Literal

from pydantic import Discriminator, field_serializer

from sitemap_etl.config.engine_models import Ping
from sitemap_etl.config.value import Value

Strip = Literal["tracking", "sessions"]
Format = Literal["xml", "text"]
FeedFormat = Literal["rss", "atom"]
Unit = Literal["s", "ms", "us", "ns"]
Scalar = bool | int | float | str


class Schedule(Value):
    """When the DAG runs: five cron fields or a preset such as @daily, in an IANA time zone."""

    cron: str
    timezone: str = "UTC"


class Names(Value):
    """What the published files are called, below `publish.to` and `publish.at`."""

    index: str = "sitemap.xml"
    file: str = "sitemap-{section}-{number:05}.xml.gz"

    def index_name(self, slot: int = 1) -> str:
        """The key of an index: slot 1 has the plain name, the others a number before the ending."""
        if slot == 1:
            return self.index
        stem, ending = _split_ending(self.index)
        return f"{stem}-{slot}{ending}"

    def file_name(self, section: str, number: int) -> str:
        """The key of a section's sitemap with this number."""
        return self.file.format(section=section, number=number)

    def text_name(self, section: str, number: int) -> str:
        """The key of the text sitemap beside `file_name`."""
        stem, ending = _split_ending(self.file_name(section, number))
        return stem + ending.replace(".xml", ".txt")

    def feed_name(self, section: str, format_: FeedFormat) -> str:
        """The key of a section's feed."""
        return f"{section}.{format_}.xml"


def _split_ending(name: str) -> tuple[str, str]:
    ending = ".xml.gz" if name.endswith(".xml.gz") else ".xml"
    return name.removesuffix(ending), ending


class Publish(Value):
    """Where the files go, and under which address they are read."""

    to: str  # absolute folder or s3://bucket/prefix
    at: str  # the public address of `to`; ends in "/"
    root: str | None  # what serves site/: an absolute folder or s3://bucket/prefix; None: nothing we may write
    names: Names
    cache_control: str | None
    sse: str | None
    checksums: Literal["when_supported", "when_required"]
    conditional_writes: bool
    cross_submit: bool


class Urls(Value):
    """What is done to URLs, and which are left out."""

    same_as: tuple[str, ...]  # canonical origins
    strip: frozenset[Strip]
    exclude: tuple[str, ...]
    respect_robots: bool

    @field_serializer("strip")
    def _in_order(self, strip: frozenset[Strip]) -> list[str]:
        return sorted(strip)


class Split(Value):
    """How a SELECT is read in parallel: by ranges of a column."""

    column: str
    parts: int


class DatabaseSource(Value):
    """A SELECT over a database, named by its connection id."""

    kind: Literal["database"] = "database"
    database: str
    query: str
    sql_path: str | None  # where the query was read from; None: it stood in the site file
    params: dict[str, Scalar]
    split: Split | None
    key: str | None = None  # the column that says what a row is; needed where the SELECT names :since
    deleted: str | None = None  # the column that says that a row is gone
    full_every: timedelta = timedelta(days=7)
    overlap: timedelta = timedelta(hours=1)


class CsvSource(Value):
    """CSV exports in UTF-8: absolute paths, globs, or s3:// addresses."""

    kind: Literal["csv"] = "csv"
    csv: tuple[str, ...]
    query: str | None
    sql_path: str | None
    delimiter: str


class ParquetSource(Value):
    """Parquet exports: absolute files, folders, globs, or s3:// addresses."""

    kind: Literal["parquet"] = "parquet"
    parquet: tuple[str, ...]
    query: str | None
    sql_path: str | None


Source = Annotated[DatabaseSource | CsvSource | ParquetSource, Discriminator("kind")]


class LastmodRule(Value):
    """Where lastmod comes from. `default`: no rule was given, a column called lastmod is used if there is one."""

    kind: Literal["column", "newest_of", "fingerprint", "none", "default"]
    columns: tuple[str, ...] = ()  # one for column, the two or more of newest_of, those of fingerprint
    timezone: str | None = None
    unit: Unit | None = None
    until_changed: str | None = None
    first_seen: bool = False


class PriorityRule(Value):
    """Where priority comes from. `value` is in tenths, 0 to 10."""

    kind: Literal["constant", "column", "percentile_of", "depth", "none", "default"]
    value: int | None = None
    column: str | None = None


class ChangefreqRule(Value):
    """Where changefreq comes from. `value` is a word of the protocol."""

    kind: Literal["constant", "column", "none", "default"]
    value: str | None = None
    column: str | None = None


class Alternates(Value):
    """The hreflang cluster: rows with the same `group`, in any section of the same `cluster`."""

    group: str
    hreflang: str
    x_default: str | None
    cluster: str


class News(Value):
    """What makes a section a news section."""

    publication: str
    language: str


class Feed(Value):
    """The feeds of a section, newest first."""

    formats: tuple[FeedFormat, ...]
    title: str
    items: int


class Shards(Value):
    """How large a file may be; it is aimed at `fill` times both."""

    rows: int
    bytes: int  # uncompressed
    fill: float


class Gates(Value):
    """What refuses a publish; shares of 0 to 1, or more for growth."""

    max_drop: float = 0.1
    max_growth: float = 1.0
    max_rejected: float = 0.05
    min_urls: int = 1


class Section(Value):
    """A family of pages with one source and one set of rules."""

    name: str
    source: Source
    columns: dict[str, str]  # contract column: source column
    where: str | None
    transform: str | None  # package.module:function
    lastmod: LastmodRule
    priority: PriorityRule
    changefreq: ChangefreqRule
    alternates: Alternates | None
    news: News | None
    feed: Feed | None
    view: bool  # shows again what others list; a news section always is one
    formats: tuple[Format, ...]  # xml always, first
    shards: Shards
    gates: Gates
    on_error: Literal["fail", "keep"]

    @property
    def keyed(self) -> bool:
        """Whether its source says what identifies a row, so that it may be read incrementally."""
        return isinstance(self.source, DatabaseSource) and self.source.key is not None


class Site(Value):
    """One site file: one site, one state, one DAG."""

    name: str
    site: str  # the canonical origin, without a slash at its end
    schedule: Schedule | None
    work: str  # absolute folder or s3://bucket/prefix
    publish: Publish
    urls: Urls
    sections: dict[str, Section]  # in the order of the file: across sections, the first to list a loc wins
    ping: Ping
    gates: Gates
    recent: timedelta | None
    keep: int

    def to_json(self) -> dict[str, Any]:
        """What a run stores: merged and resolved, the SQL in it, secrets as references. JSON values only."""
        return self.model_dump(mode="json")
