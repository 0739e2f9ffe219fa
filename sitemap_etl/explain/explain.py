"""Explain why URLs are listed or not, from the state and the reports. No source is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Final

import pyarrow as pa

from sitemap_etl.advice import SITE_FILE
from sitemap_etl.config import Site
from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.explain.answers import Changes, Cluster, Explained, Later, Link, Listing, NamedRun, Near
from sitemap_etl.explain.lookup import Found, ProposedSet, Provenance, PublishedSet, Shelf, proposed_set
from sitemap_etl.explain.reports import Asked, Report, Rows, reports, set_aside
from sitemap_etl.explain.spellings import alike, differences, on_site, spellings
from sitemap_etl.frozen import Frozen
from sitemap_etl.publish.views import RECENT
from sitemap_etl.stages.rules import url_rules
from sitemap_etl.stages.run import Environment, open_run, open_work
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import read_attempt
from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.store import State
from sitemap_etl.urls import canonical_url, canonicalize

_TENTHS: Final = 10
_LINKS: Final = 100
"""Maximum alternates of a page in an answer."""


def explain(site: Site, urls: Sequence[str], environment: Environment) -> list[Explained]:
    """Return one answer for each URL. Raise Refused if the site has neither a release nor a report."""
    return list(_Explainer(site, urls, environment).answers())


class _Reading(Frozen):
    """Report of a run about the sections that no later run has read."""

    report: Report
    sections: frozenset[str]


class _Explainer:
    """State and reports of a site, and the requested URLs."""

    def __init__(self, site: Site, urls: Sequence[str], environment: Environment) -> None:
        self.site = site
        self.rules = url_rules(site)
        self.work = open_work(site, environment)
        self.state = State(self.work, site.name, site.site)
        self.current = self.state.current()
        self.manifest = self.state.manifest(self.current.manifest)
        self.shelf = Shelf(self.state)
        self.set: PublishedSet | None = None
        self.provenance: Provenance | None = None
        if self.manifest is not None:
            self.set = PublishedSet(self.manifest, self.shelf)
            self.provenance = Provenance(self.state, self.manifest, self.shelf)
        self.asked, self.reasons = self._asked(urls)
        self.read, self.last, self.unpublished = self._reports()
        if self.manifest is None and self.unpublished is None:
            raise Refused(
                f"{site.name}: {self.work.url} has neither a release nor a report, so there is nothing "
                "to explain. "
                f"Run the site first: sitemap-etl run {SITE_FILE}"
            )
        self.proposed: ProposedSet | None = None
        if self.unpublished is not None:
            staging = self.work.sub(layout.run_folder(self.unpublished.run_id))
            self.proposed = proposed_set(
                lambda: open_run(staging.url, environment, staging=staging), self.set, self.shelf
            )

    def _asked(self, urls: Sequence[str]) -> tuple[list[Asked], list[str | None]]:
        done = canonicalize(pa.array(list(urls), pa.string()), self.rules)
        asked = [Asked(text, loc, _anywhere(text)) for text, loc in zip(urls, done.loc.to_pylist(), strict=True)]
        return asked, done.reason.to_pylist()

    def _reports(self) -> tuple[list[_Reading], Report | None, Report | None]:
        """Return the reports about rows that the release does not list, its newest report, and a later unpublished one.

        Rows of a section are in the report of the last run that read it. Later reports have rows that left it by age.
        """
        read: list[_Reading] = []
        last: Report | None = None
        unpublished: Report | None = None
        wanted = set(self.site.sections)
        base = self.manifest.run_id if self.manifest is not None else ""
        until = (self.manifest.rolled_back_to if self.manifest is not None else None) or base
        for report in reports(self.work):
            if not report.public:
                limited = report.summary.options.limit is not None
                if last is None and unpublished is None and report.run_id > base and not limited:
                    unpublished = report
                continue
            if self.manifest is None or until < report.run_id < base:
                continue  # rows that a rollback took back
            if not report.read and not report.summary.kept:
                continue  # a rollback reads nothing
            last = last or report
            told = {name for name in wanted if name in report.read or report.left_out(name)}
            if told:
                read.append(_Reading(report, frozenset(told)))
            wanted -= report.read
            if not wanted:
                break
        return read, last, unpublished

    def _unreported(self) -> bool:
        """Return True if the run that published the release read last, and ended before it wrote its report."""
        manifest = self.manifest
        if manifest is None or manifest.rolled_back_to is not None:
            return False
        if self.last is not None and self.last.run_id >= manifest.run_id:
            return False
        return read_attempt(self.work, manifest.run_id) is not None  # `state forget` makes a release without a run

    @cached_property
    def _changes(self) -> dict[str, Changes]:
        """Section → its last read, if that was incremental."""
        found = {}
        for reading in self.read:
            now = reading.report.summary.now
            for section in sorted(reading.sections & self.current.mirrors.keys()):
                mirror = read_mirror(self.work, self.current.mirrors[section])
                whole = now is None or datetime.fromisoformat(mirror.full_at) == datetime.fromisoformat(now)
                if mirror.version is None and mirror.run_id == reading.report.run_id and not whole:
                    found[section] = Changes(NamedRun.of(reading.report), mirror.full_at)
        return found

    def answers(self) -> Iterator[Explained]:
        """Yield the answers, in the order of the URLs."""
        aside = [set_aside(self.work, one.report, self.asked, self.rules, one.sections) for one in self.read]
        later: dict[str, Rows] = {}
        if self.unpublished is not None:
            later = set_aside(self.work, self.unpublished, self.asked, self.rules, self.unpublished.read)
        unreported = self._unreported()
        read_by = None if self.last is None else NamedRun.of(self.last)
        kept = {} if self.last is None or unreported else self.last.summary.kept
        if self.manifest is not None and unreported:
            read_by = NamedRun(self.manifest.run_id, self.manifest.now, "published")
        for asked, reason in zip(self.asked, self.reasons, strict=True):
            answer = Explained(asked, reason, self._published(), read_by, kept, unreported=unreported)
            self._place(answer)
            for rows in aside:
                answer.rows.merge(rows[asked.text])
            if self.unpublished is not None:
                answer.later = self._later(self.unpublished, answer, later[asked.text])
            if answer.listed is None:
                self._left(answer)
                answer.nearest = self._nearest(asked)
            yield answer

    def _published(self) -> NamedRun | None:
        if self.manifest is None:
            return None
        return NamedRun(self.manifest.run_id, self.manifest.now, rolled_back_to=self.manifest.rolled_back_to)

    # --- listed ----------------------------------------------------------------------------------

    def _place(self, answer: Explained) -> None:
        """Set the published entries of the loc."""
        if self.set is None or self.provenance is None:
            return
        listings = [] if answer.asked.canonical is None else self.set.find(answer.asked.canonical)
        for found in listings:
            listing = self._listing(found)
            if answer.listed is None and not found.view:
                answer.listed = replace(listing, since=self.provenance.since(found))
            else:
                answer.views.append(listing)
        if answer.listed is None and answer.views:  # listed by views alone
            answer.listed = replace(answer.views.pop(0), since=self.provenance.since(listings[0]))
        if answer.listed is not None:
            answer.views += self._recent(listings[0])

    def _listing(self, found: Found) -> Listing:
        row, entry = found.row, found.entry
        listing = Listing(
            section=found.section,
            view=found.view,
            lastmod=row["lastmod"],
            changefreq=row["changefreq"],
            priority=None if row["priority"] is None else row["priority"] / _TENTHS,
            images=len(row["images"] or ()),
            alternates=tuple(Link(**link) for link in (row["alternates"] or [])[:_LINKS]),
            cluster=None if row["cluster"] is None else Cluster(row["cluster"], tuple(row["hreflang"] or ())),
        )
        if entry is None or self.manifest is None:
            return listing
        at = self.site.publish.at
        index = next((index.file.key for index in self.manifest.indexes if index.number == entry.index), None)
        return replace(
            listing, file=at + entry.file.key, number=entry.number, index=None if index is None else at + index
        )

    def _recent(self, found: Found) -> list[Listing]:
        """Return the entry in the file of recent changes, if it has the row."""
        assert self.manifest is not None
        if self.site.recent is None or found.row["since"] is None:
            return []
        begin = datetime.fromisoformat(self.manifest.now) - self.site.recent
        if found.row["since"] < begin.timestamp():
            return []
        loc = found.row["loc"]
        entries = [entry for entry in self.manifest.of(RECENT) if entry.first <= loc <= entry.last]
        at = self.site.publish.at
        return [Listing(RECENT, view=True, file=at + entry.file.key, number=entry.number) for entry in entries]

    # --- not listed, or not any more -------------------------------------------------------------

    def _left(self, answer: Explained) -> None:
        """Set the facts about a URL that is not listed: its last release, its section, and incremental reads."""
        loc = answer.asked.canonical
        last = None if self.provenance is None or loc is None else self.provenance.last_listed(loc)
        if self.provenance is None or last is None:
            answer.changes = next(iter(self._changes.values()), None)
            return
        answer.last_listed, section = last
        answer.dropped = self.provenance.dropped(section)
        answer.changes = self._changes.get(section)

    def _later(self, unpublished: Report, answer: Explained, rows: Rows) -> Later:
        """Return the result of the newest run, which was not published."""
        asked = answer.asked
        later = Later(NamedRun.of(unpublished), None, (), self.proposed is not None, rows)
        if self.proposed is None or asked.canonical is None:
            return later
        try:
            found = self.proposed.find(asked.canonical)
            if found:
                return replace(later, listed=self._listing(found[0]))
            other = next((loc for loc in spellings(asked.canonical, self.rules) if self.proposed.find(loc)), None)
        except (Refused, DamagedState):
            return replace(later, known=False)  # its snapshots are no longer kept
        if answer.listed is not None and answer.listed.section not in self.proposed.run.site.sections:
            later = replace(later, without=answer.listed.section)
        return later if other is None else replace(later, nearest=(Near.of(asked.canonical, other),))

    def _nearest(self, asked: Asked) -> list[Near]:
        """Return listed locs like this one: common spellings, similar neighbors, or the same name in a folder."""
        url = asked.canonical or on_site(asked.text, self.rules)
        if self.set is None or url is None:
            return []
        shown = asked.canonical or asked.anywhere or asked.text
        tried = spellings(url, self.rules)
        for loc in tried if url == asked.canonical else [url, *tried]:
            if self.set.find(loc):
                return [Near.of(shown, loc)]
        found: dict[str, None] = {}
        for locs in self.set.around([url, *tried]):
            found |= dict.fromkeys(alike(locs, url))
        ordered = sorted(found, key=lambda loc: (len(differences(shown, loc)), loc))
        if not found and (name := url.split("/", 3)[3]):
            inside = (f"{folder}{name}" for folder in self.set.folders(url))
            ordered = [loc for loc in inside if self.set.find(loc)]
        return [Near.of(shown, loc) for loc in ordered[:3]]


def _anywhere(text: str) -> str | None:
    try:
        return canonical_url(text)
    except ValueError:
        return None
