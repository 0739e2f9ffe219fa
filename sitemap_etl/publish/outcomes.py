"""The numbers that gates check: rows, dates and new pages of a section."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.lastmod import Minutes
from sitemap_etl.state.records import Counts


class Dates(Frozen):
    """Date changes of a section's pages that were published with a lastmod and are still listed."""

    known: int = 0  # number of these pages
    lost: int = 0  # pages without a lastmod now
    same: Counter[str] = field(default_factory=Counter)  # new date → pages that had another one
    minutes: Minutes = field(default_factory=Minutes.none)  # these pages by minute of the new date, not by fingerprint

    def __add__(self, other: Dates) -> Dates:
        return Dates(
            self.known + other.known, self.lost + other.lost, self.same + other.same, self.minutes + other.minutes
        )

    @property
    def most(self) -> tuple[str, int]:
        """The most frequent new date and its number of pages."""
        return max(self.same.items(), key=lambda item: (item[1], item[0]), default=("", 0))


def _together(one: Tally, other: Tally) -> Tally:
    both = Tally()
    both.merge(one)
    both.merge(other)
    return both


class Visited(Frozen):
    """Results of visits to a sample of a section's new pages."""

    new: int = 0  # new pages
    drawn: int = 0  # pages in the sample
    judged: int = 0  # visited pages with a clear result
    bad: int = 0  # pages among them that must not be listed
    unknown: int = 0  # visited pages without a clear result
    skipped: int = 0  # pages that were not visited in time
    reasons: Tally = field(default_factory=Tally)  # reasons of the bad pages
    open: Tally = field(default_factory=Tally)  # reasons of the unknown pages

    def __add__(self, other: Visited) -> Visited:
        return Visited(
            self.new + other.new,
            self.drawn + other.drawn,
            self.judged + other.judged,
            self.bad + other.bad,
            self.unknown + other.unknown,
            self.skipped + other.skipped,
            _together(self.reasons, other.reasons),
            _together(self.open, other.open),
        )

    def all_reasons(self) -> Tally:
        """Return all reasons, for the summary."""
        unknown = Tally()
        for reason in self.open.ordered():
            unknown.add(f"could not be judged: {reason.text}", reason.count, reason.examples)
        return _together(self.reasons, unknown)


class Outcome(Frozen):
    """A section's rows in this run, as the gates see them."""

    counts: Counts = field(default_factory=Counts)
    rejected_read: int = 0  # rejected rows among those read in this run
    dates: Dates = field(default_factory=Dates)
    pages: Visited = field(default_factory=Visited)

    def __add__(self, other: Outcome) -> Outcome:
        return Outcome(
            self.counts + other.counts,
            self.rejected_read + other.rejected_read,
            self.dates + other.dates,
            self.pages + other.pages,
        )


class Scope(Frozen):
    """The numbers that the gates of one section, or of the site, compare."""

    published: int  # URLs in the last release
    largest: int  # URLs in the largest release of the last seven days
    listed: int  # URLs in this run
    added: int  # URLs
    removed: int  # published URLs that no section lists any more
    extracted: int  # rows
    rejected: int  # rows
    carried: int = 0  # rows reused from a mirror
    rejected_read: int = 0  # rejected rows among the extracted ones
    dates: Dates = field(default_factory=Dates)
    undated_by_rule: bool = False  # True for `lastmod: none`: pages lose their dates on purpose
    pages: Visited = field(default_factory=Visited)
