"""The facts that gates look at: what became of the rows, dates and new pages of a section."""

from __future__ import annotations

from collections import Counter
from dataclasses import field

from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen
from sitemap_etl.lastmod import Minutes
from sitemap_etl.state.records import Counts


class Dates(Frozen):
    """What became of the dates of a section's pages that were published with one and are listed still.

    `known`: such pages. `lost`: those that have none now. `same`: new date → pages that had another. `minutes`: these
    pages by the minute of their new date, but for fingerprints.
    """

    known: int = 0
    lost: int = 0
    same: Counter[str] = field(default_factory=Counter)
    minutes: Minutes = field(default_factory=Minutes.none)

    def __add__(self, other: Dates) -> Dates:
        return Dates(
            self.known + other.known, self.lost + other.lost, self.same + other.same, self.minutes + other.minutes
        )

    @property
    def most(self) -> tuple[str, int]:
        """The most frequent new date, and its pages."""
        return max(self.same.items(), key=lambda item: (item[1], item[0]), default=("", 0))


def _together(one: Tally, other: Tally) -> Tally:
    both = Tally()
    both.merge(one)
    both.merge(other)
    return both


class Visited(Frozen):
    """What became of a sample of a section's new pages.

    `new`: such pages; `drawn` of them were to be visited. Of these there was no time for the `skipped`, nothing can be
    said of the `unknown` for the reasons in `open`, and the `bad` among the `judged` may not be listed, for `reasons`.
    """

    new: int = 0
    drawn: int = 0
    judged: int = 0
    bad: int = 0
    unknown: int = 0
    skipped: int = 0
    reasons: Tally = field(default_factory=Tally)
    open: Tally = field(default_factory=Tally)

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

    def told(self) -> Tally:
        """All reasons, as the summary has them."""
        unknown = Tally()
        for reason in self.open.ordered():
            unknown.add(f"could not be judged: {reason.text}", reason.count, reason.examples)
        return _together(self.reasons, unknown)


class Outcome(Frozen):
    """A section's rows of this run, as the gates look at them."""

    counts: Counts = field(default_factory=Counts)
    rejected_read: int = 0  # among the rows that were read, not carried
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
    """What a gate looks at, of one section or of the site (URLs, rows)."""

    published: int  # listed by the last manifest
    largest: int  # most listed by any set of the last seven days
    listed: int
    added: int
    removed: int  # published URLs that no section lists any more
    extracted: int
    rejected: int
    carried: int = 0
    rejected_read: int = 0  # among the extracted ones
    dates: Dates = field(default_factory=Dates)
    undated_by_rule: bool = False  # the section is to have no lastmod: losing it is meant
    pages: Visited = field(default_factory=Visited)
