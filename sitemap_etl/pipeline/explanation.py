"""Why a URL is listed, or not: from the state and the reports, without asking the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.errors import Refused
from sitemap_etl.pipeline.answer import Answer, kind_of, near_json, rows_json, run_json
from sitemap_etl.pipeline.listing import Found, ProposedSet, PublishedSet, Shelf, proposed_set
from sitemap_etl.pipeline.nearest import alike, differences, on_site, spellings
from sitemap_etl.pipeline.provenance import Provenance
from sitemap_etl.pipeline.records import Asked, Record, Rows, records, set_aside
from sitemap_etl.pipeline.run import Outside, open_run, open_work
from sitemap_etl.pipeline.state import State
from sitemap_etl.pipeline.views import RECENT
from sitemap_etl.site import Site
from sitemap_etl.urls import UrlRules, canonical_url, canonicalize

_TENTHS: Final = 10
_LINKS: Final = 100
"""Alternates of a page that are given."""


def explain(site: Site, urls: Sequence[str], outside: Outside) -> list[dict[str, Any]]:
    """One answer for each URL, as JSON values. Raises Refused where nothing was ever run.

    `answer`: listed, excluded, rejected, duplicate or absent: what is public now. `sentence`: all in one.
    `listed`, `views`: where and how. `set_aside`: source rows of it that are not listed. `last_listed`: the
    set before that listed it. `later`: what the newest run found, where that was not published. `nearest`:
    listed locs that differ in spelling only.
    """
    return [answer.to_json() for answer in _Explainer(site, urls, outside).answers()]


@dataclass(frozen=True)
class _Reading:
    """The report of a run, asked about these sections. `older`: a newer one read a part of them."""

    record: Record
    sections: frozenset[str]
    older: bool


class _Explainer:
    """The state of a site and the reports that speak of it, asked for some URLs."""

    def __init__(self, site: Site, urls: Sequence[str], outside: Outside) -> None:
        self.site = site
        self.rules = UrlRules(site.site, site.urls.same_as, frozenset(site.urls.strip))
        self.work = open_work(site, outside)
        self.state = State(self.work, site.name, site.site)
        self.manifest = self.state.manifest(self.state.current().manifest)
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
                f"{site.name}: nothing is known of any URL: {self.work.url} has neither a published set nor a report. "
                "Run it first: sitemap-etl run SITE.yaml"
            )
        self.proposed: ProposedSet | None = None
        if self.unpublished is not None:
            staging = self.work.sub(f"runs/{self.unpublished.run_id}")
            self.proposed = proposed_set(lambda: open_run(staging.url, outside, staging=staging), self.set, self.shelf)

    def _asked(self, urls: Sequence[str]) -> tuple[list[Asked], list[str | None]]:
        done = canonicalize(pa.array(list(urls), pa.string()), self.rules)
        asked = [Asked(text, loc, _anywhere(text)) for text, loc in zip(urls, done.loc.to_pylist(), strict=True)]
        return asked, done.reason.to_pylist()

    def _reports(self) -> tuple[list[_Reading], Record | None, Record | None]:
        """What says which rows the public set left out, the newest run of it, and a later one.

        A section's rows are those of the last run that read it; where that read only what had changed, those
        of the runs before it speak of URLs that no newer one speaks of.
        """
        read: list[_Reading] = []
        last: Record | None = None
        unpublished: Record | None = None
        wanted = set(self.site.sections)
        seen: set[str] = set()
        base = self.manifest.run_id if self.manifest is not None else ""
        until = (self.manifest.rolled_back_to if self.manifest is not None else None) or base
        for record in records(self.work):
            if not record.public:
                limited = (record.summary.get("options") or {}).get("limit") is not None
                if last is None and unpublished is None and record.run_id > base and not limited:
                    unpublished = record
                continue
            if self.manifest is None or until < record.run_id < base:
                continue  # what a rollback took back
            if not record.read and not record.summary.get("kept"):
                continue  # a rollback reads nothing
            last = last or record
            for sections, older in ((record.read & wanted - seen, False), (record.read & wanted & seen, True)):
                if sections:
                    read.append(_Reading(record, frozenset(sections), older))
            seen |= record.read
            wanted -= record.read - record.in_part
            if not wanted:
                break
        return read, last, unpublished

    def answers(self) -> Iterator[Answer]:
        """The answers, in the order of the URLs."""
        aside = [(one, set_aside(self.work, one.record, self.asked, self.rules, one.sections)) for one in self.read]
        later: dict[str, Rows] = {}
        if self.unpublished is not None:
            later = set_aside(self.work, self.unpublished, self.asked, self.rules, self.unpublished.read)
        kept = dict((self.last.summary.get("kept") or {}) if self.last is not None else {})
        for asked, reason in zip(self.asked, self.reasons, strict=True):
            answer = Answer(asked, reason, self._published(), None if self.last is None else run_json(self.last), kept)
            self._place(answer)
            for reading, rows in aside:
                if not reading.older or answer.kind == "absent":
                    answer.rows.merge(rows[asked.text])
            if self.unpublished is not None:
                answer.later = self._later(asked, later[asked.text])
            if answer.listed is None:
                if self.provenance is not None and asked.canonical is not None:
                    answer.last_listed = self.provenance.last_listed(asked.canonical)
                answer.nearest = self._nearest(asked)
            yield answer

    def _published(self) -> dict[str, Any] | None:
        if self.manifest is None:
            return None
        return {
            "run_id": self.manifest.run_id,
            "at": self.manifest.now,
            "rolled_back_to": self.manifest.rolled_back_to,
        }

    # --- listed ----------------------------------------------------------------------------------

    def _place(self, answer: Answer) -> None:
        """Where the loc is listed, and in which views."""
        if self.set is None or self.provenance is None:
            return
        listings = [] if answer.asked.canonical is None else self.set.find(answer.asked.canonical)
        for found in listings:
            told = self._listing(found)
            if answer.listed is None and not found.view:
                answer.listed = {**told, "since": self.provenance.since(found)}
            else:
                answer.views.append(told)
        if answer.listed is None and answer.views:  # listed by views alone
            answer.listed = {**answer.views.pop(0), "since": self.provenance.since(listings[0])}
        if answer.listed is not None:
            answer.views += self._recent(listings[0])

    def _listing(self, found: Found) -> dict[str, Any]:
        row, entry = found.row, found.entry
        told: dict[str, Any] = {"section": found.section, "view": found.view}
        if entry is not None and self.manifest is not None:
            index = next((index.file.key for index in self.manifest.indexes if index.number == entry.index), None)
            at = self.site.publish.at
            told |= {
                "file": at + entry.file.key,
                "number": entry.number,
                "index": None if index is None else at + index,
            }
        told |= {
            "lastmod": row["lastmod"],
            "changefreq": row["changefreq"],
            "priority": None if row["priority"] is None else row["priority"] / _TENTHS,
            "images": len(row["images"] or ()),
            "alternates": (row["alternates"] or [])[:_LINKS],
            "cluster": None if row["cluster"] is None else {"group": row["cluster"], "hreflang": row["hreflang"]},
        }
        return told

    def _recent(self, found: Found) -> list[dict[str, Any]]:
        """The file of recent changes that shows the row again, where there is one."""
        assert self.manifest is not None
        if self.site.recent is None or found.row["since"] is None:
            return []
        begin = datetime.fromisoformat(self.manifest.now) - self.site.recent
        if found.row["since"] < begin.timestamp():
            return []
        loc = found.row["loc"]
        entries = [entry for entry in self.manifest.of(RECENT) if entry.first <= loc <= entry.last]
        return [
            {"section": RECENT, "view": True, "file": self.site.publish.at + entry.file.key, "number": entry.number}
            for entry in entries
        ]

    # --- not listed, or not any more -------------------------------------------------------------

    def _later(self, asked: Asked, rows: Rows) -> dict[str, Any]:
        """What the newest run, which was not published, found of the URL."""
        assert self.unpublished is not None
        told: dict[str, Any] = {**run_json(self.unpublished), "listed": None, "nearest": []}
        try:
            self._proposed(asked, told)
            told["known"] = self.proposed is not None
        except Refused:
            told["known"] = False  # its snapshots are no longer kept
        told["set_aside"] = rows_json(rows)
        told["answer"] = kind_of(told["listed"], rows)
        return told

    def _proposed(self, asked: Asked, told: dict[str, Any]) -> None:
        """Where the run would list the URL, or one that is spelled otherwise."""
        if self.proposed is None or asked.canonical is None:
            return
        found = self.proposed.find(asked.canonical)
        if found:
            told["listed"] = self._listing(found[0])
            return
        other = next((loc for loc in spellings(asked.canonical, self.rules) if self.proposed.find(loc)), None)
        told["nearest"] = [] if other is None else [near_json(asked.canonical, other)]

    def _nearest(self, asked: Asked) -> list[dict[str, Any]]:
        """Listed locs that are the URL but for their spelling: by name first, then among their neighbours."""
        url = asked.canonical or on_site(asked.text, self.rules)
        if self.set is None or url is None:
            return []
        shown = asked.canonical or asked.anywhere or asked.text
        tried = spellings(url, self.rules)
        for loc in tried if url == asked.canonical else [url, *tried]:
            if self.set.find(loc):
                return [near_json(shown, loc)]
        found: dict[str, None] = {}
        for locs in self.set.around([url, *tried]):
            found |= dict.fromkeys(alike(locs, url))
        ordered = sorted(found, key=lambda loc: (len(differences(shown, loc)), loc))
        return [near_json(shown, loc) for loc in ordered[:3]]


def _anywhere(text: str) -> str | None:
    try:
        return canonical_url(text)
    except ValueError:
        return None
