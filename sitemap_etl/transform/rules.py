"""What one section does to its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from sitemap_etl import urls
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import Section

if TYPE_CHECKING:
    import pandas as pd

Hook = Callable[["pd.DataFrame"], "pd.DataFrame"]

RULES: Final = 4
"""Number of the rules: raise it with every change of what they make of a row.

It is in the digests that tell whether rows can skip the rules. Under a new number the next run applies the rules to
all rows that it reads or has in a mirror. `tests/data/rules` has rows with their results, which fail without one.
"""

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


class Rules(Frozen):
    """What one section does to its rows: its settings, and what the site and the run add to them."""

    settings: Section
    urls: urls.UrlRules
    now: datetime
    deleted: str | None = None  # column of the source that says that a row is gone; None: none, or already read
    hook: Hook | None = None  # what `transform:` names
    exclude: tuple[str, ...] = ()  # patterns of paths, of the site
    robots: bytes | None = None
    available: tuple[str, ...] = ()  # columns of the source, for messages: not all of them are read

    @property
    def section(self) -> str:
        """The section's name."""
        return self.settings.name

    def needs(self) -> list[str] | None:
        """Source columns that the rules read; None where a hook or a predicate may read any."""
        return None if self.settings.where or self.hook else sorted(self._named(CONTRACT))

    def names(self) -> list[str]:
        """Return the source columns that have a meaning in this section, by a rule or by their name."""
        feed, news = bool(self.settings.feed), self.settings.news is not None
        used = {"title": feed or news, "publication_date": news}
        return sorted(self._named(name for name in CONTRACT if used.get(name, True)))

    def _named(self, contract: Iterable[str]) -> set[str]:
        section = self.settings
        named = {*contract, *section.lastmod.columns, *section.priority.columns, *section.changefreq.columns}
        if section.lastmod.until_changed:
            named.add(section.lastmod.until_changed)
        if section.alternates:
            named |= {section.alternates.group, section.alternates.hreflang}
        deleted = {self.deleted} if self.deleted else set()
        return {section.columns.get(name, name) for name in named} | deleted
