"""Rules of one section."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Final

from sitemap_etl import urls
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import CONTRACT, Section

if TYPE_CHECKING:
    import pandas as pd

Hook = Callable[["pd.DataFrame"], "pd.DataFrame"]

RULES: Final = 6
"""Number of the rules: raise it with every change of what they make of a row.

It is in the digests that tell whether rows can skip the rules. Under a new number the next run applies the rules to
all rows that it reads or has in a mirror. `tests/data/rules` has rows with their results, which fail without one.
"""


class Clock:
    """The time as rules get it. It notes that a rule asked, because then the next run can make something else of a row.

    Whatever else is neither in the row nor in the digest of the rules (page visits, the environment) belongs here too.
    """

    def __init__(self, now: datetime, read_at: datetime | None = None) -> None:
        self._now = now
        self.unnoted = read_at or now
        """When the rows were read. Its user has to note what it changes, as `lastmod` does with dates in the future."""
        self.asked = False

    def now(self) -> datetime:
        """Return the time of the run, with its zone."""
        self.asked = True
        return self._now

    def at(self, read_at: datetime) -> Clock:
        """Return a clock of the same run for rows that were read at this time, which nobody has asked."""
        return Clock(self._now, read_at)


class Rules(Frozen):
    """Rules of one section: its settings, and the additions of the site and the run."""

    settings: Section
    urls: urls.UrlRules
    clock: Clock
    deleted: str | None = None  # column of the source that says that a row is gone; None: none, or already read
    hook: Hook | None = None  # what `transform:` names
    exclude: tuple[str, ...] = ()  # patterns of paths, of the site
    robots: bytes | None = None
    available: tuple[str, ...] = ()  # columns of the source, for messages: not all of them are read

    @property
    def now(self) -> datetime:
        """The time of the run. The clock notes that a rule asked for it."""
        return self.clock.now()

    @property
    def section(self) -> str:
        """The section's name."""
        return self.settings.name

    def needs(self) -> list[str] | None:
        """Return the source columns that the rules read, or None if a hook or a predicate can read any."""
        return None if self.settings.where or self.hook else sorted(self._named(CONTRACT))

    def names(self) -> list[str]:
        """Return the source columns that have a meaning in this section, by a rule or by their name."""
        feed, news = bool(self.settings.feed), self.settings.news is not None
        used = {"title": feed or news, "publication_date": news}
        return sorted(self._named(name for name in CONTRACT if used.get(name, True)))

    def _named(self, contract: Iterable[str]) -> set[str]:
        section = self.settings
        named = {*contract, *section.rule_columns}
        deleted = {self.deleted} if self.deleted else set()
        return {section.columns.get(name, name) for name in named} | deleted
