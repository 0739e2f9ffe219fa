"""Inputs and results of a run of the model: rows, pages, sections, releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
Links: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Spelled:
    """A loc as a source spells it, and the page it means: known by construction, so nothing is normalized here."""

    text: str
    page: str = ""  # canonical path and query
    origin: str = ""  # the other origin that it names; the page is listed only where `same_as` has it
    tracking: str = ""  # the parameters that `strip: [tracking]` takes off
    reason: str = ""  # why it is rejected, whatever the settings

    def path(self, urls: Mapping[str, Any]) -> tuple[str, str]:
        """Canonical path and query, and the reason to reject it (one of the two is empty)."""
        if self.reason:
            return "", self.reason
        if self.origin and self.origin not in urls.get("same_as", ()):
            return "", "foreign origin"
        if self.tracking and "tracking" not in urls.get("strip", ()):
            return f"{self.page}{'&' if '?' in self.page else '?'}{self.tracking}", ""
        return self.page, ""


@dataclass
class Source:
    """The source of a section in this run. `splits`: the rows in the parts in which they are read."""

    rows: list[Row]
    columns: set[str]
    broken: bool = False


# --- what comes out -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Version:
    """How a page may be listed. Priority and changefreq are those of its file if it is written now."""

    lastmod: str | None
    images: tuple[str, ...]
    priority: str | None
    changefreq: str | None
    title: str
    print: tuple[Any, ...] | None  # the content of the fingerprint's columns
    cluster: tuple[str, str, tuple[str, ...]] | None  # its name, the group, the hreflang tags of the page


@dataclass(frozen=True)
class Page:
    """A published page, and what the state knows of it; sets have values that can't be distinguished from outside."""

    lastmod: str | None
    images: tuple[str, ...]
    links: Links
    priority: str | None
    changefreq: str | None
    titles: frozenset[str]
    prints: frozenset[tuple[Any, ...] | None]
    since: frozenset[datetime | None]  # when it was added or last changed; None: with the first publish
    cluster: tuple[str, str, tuple[str, ...]] | None

    @property
    def core(self) -> tuple[Any, ...]:
        """Return the values whose change rewrites the file."""
        return self.lastmod, self.images, self.links


@dataclass
class Section:
    """A published section."""

    view: bool
    pages: dict[str, Page]
    files: dict[int, list[str]]  # number → its locs, in order
    lows: dict[int, str]  # number → where its range began when it was cut
    definition: tuple[str, ...] | None  # the columns of its fingerprints
    text: bool
    feeds: dict[str, tuple[str, int]]  # format → title, items
    dated: bool  # whether its rule gives dates at all


@dataclass
class Set:
    """A release, as a rollback restores it. `lastmods`: key → when the bytes of the file last changed."""

    run_id: str
    now: datetime
    sections: dict[str, Section]
    content: dict[str, bytes]
    lastmods: dict[str, set[datetime]]
    mirrors: dict[str, Mirror]
    counted_from: dict[str | None, datetime] = field(default_factory=dict)  # section → the week of the bleed begins

    def plain(self) -> dict[str, tuple[str, Page]]:
        """Return loc → section and page, of all that is listed outside views."""
        found = {}
        for name, section in self.sections.items():
            if not section.view:
                found.update({loc: (name, page) for loc, page in section.pages.items()})
        return found


@dataclass(frozen=True)
class Mirror:
    """The rows of an incremental section as read, by key."""

    rows: Mapping[Any, Row]
    read_at: datetime
    full_at: datetime
    select: str  # text, params and key: it holds for these alone


@dataclass
class Night:
    """What a run must make of the current sources."""

    now: datetime
    site: dict[str, Any]
    base: Set | None
    listed: dict[str, dict[str, list[Version]]] = field(default_factory=dict)  # of the sections that are read
    links: dict[tuple[str, str], Links | None] = field(default_factory=dict)  # by section and loc; None: left open
    stay: set[str] = field(default_factory=set)  # sections that stay as published
    held: set[str] = field(default_factory=set)  # those of them whose source is broken
    lost: dict[str, set[str]] = field(default_factory=dict)  # by section that stays: pages that earlier ones list now
    turned: set[str] = field(default_factory=set)  # that became views, or are none any more
    error: str = ""
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    changed: dict[str, tuple[int, int]] = field(default_factory=dict)  # at least, at most
    gates: dict[str, bool | None] = field(default_factory=dict)  # whether it refuses; None: left open
    batches: dict[str, bool | None] = field(default_factory=dict)  # section → whether it is warned of dates in an hour
    reasons: dict[str, Counter[str]] = field(default_factory=dict)
    mirrors: dict[str, Mirror] = field(default_factory=dict)
    drift: dict[str, dict[str, int]] = field(default_factory=dict)
    before: dict[str, dict[str, Page]] = field(default_factory=dict)  # section → its pages as they were, wherever

    def keys(self, name: str) -> dict[str, Any]:
        return dict(self.site["sections"][name])

    def left_of(self, name: str) -> dict[str, Page]:
        """Return the pages of a section that stays, without those that earlier sections list now."""
        pages = self.base.sections[name].pages if self.base else {}
        return {loc: page for loc, page in pages.items() if loc not in self.lost.get(name, ())}

    def links_of(self, name: str, loc: str) -> Links | None:
        """Return the links of a page in this section, or None if they are left open."""
        return self.links.get((name, loc), ()) if "alternates" in self.keys(name) else ()

    @property
    def refused(self) -> bool | None:
        """Return whether a gate refuses, or None if the documentation leaves it open."""
        answers = set(self.gates.values())
        return True if True in answers else None if None in answers else False
