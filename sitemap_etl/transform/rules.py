"""What one section does to its rows, as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from sitemap_etl import urls

if TYPE_CHECKING:
    import pandas as pd

Hook = Callable[["pd.DataFrame"], "pd.DataFrame"]

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
"""The columns that mean something in every source; any other is a signal for rules."""


@dataclass(frozen=True)
class Rules:
    """What one section does to its rows. Kinds are those of the site file; "default": a column of the
    rule's name is used where there is one.
    """

    section: str
    urls: urls.UrlRules
    now: datetime
    columns: Mapping[str, str] = field(default_factory=dict)
    deleted: str | None = None
    where: str | None = None
    hook: Hook | None = None
    hook_name: str = ""
    exclude: tuple[str, ...] = ()
    robots: bytes | None = None
    lastmod: str = "default"
    lastmod_columns: tuple[str, ...] = ()
    timezone: str | None = None
    unit: str | None = None
    until_changed: str | None = None
    priority: str = "default"
    priority_value: int | None = None
    priority_column: str | None = None
    changefreq: str = "default"
    changefreq_value: str | None = None
    changefreq_column: str | None = None
    cluster: str | None = None
    hreflang: str | None = None
    news: tuple[str, str] | None = None  # publication, language
    titles: bool = False  # a feed wants them
    available: tuple[str, ...] = ()  # columns of the source, for messages: not all of them are read

    def needs(self) -> list[str] | None:
        """Source columns that the rules read; None where a hook or a predicate may read any."""
        if self.where or self.hook:
            return None
        named = {*CONTRACT, *self.lastmod_columns}
        named |= {
            name
            for name in (self.until_changed, self.priority_column, self.changefreq_column, self.cluster, self.hreflang)
            if name
        }
        deleted = {self.deleted} if self.deleted else set()
        return sorted({self.columns.get(name, name) for name in named} | deleted)
