"""Why a URL is listed, or not: from the state and the reports, without asking the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.config import Site
from sitemap_etl.errors import Refused
from sitemap_etl.explain.lookup import Found, ProposedSet, Provenance, PublishedSet, Shelf, proposed_set
from sitemap_etl.explain.reports import Asked, Record, Rows, records, set_aside
from sitemap_etl.explain.spellings import alike, differences, in_words, on_site, spellings
from sitemap_etl.publish.views import RECENT
from sitemap_etl.stages.run import Environment, open_run, open_work
from sitemap_etl.state.store import State
from sitemap_etl.urls import UrlRules, canonical_url, canonicalize

_TENTHS: Final = 10
_LINKS: Final = 100
"""Alternates of a page that are given."""


def explain(site: Site, urls: Sequence[str], environment: Environment) -> list[dict[str, Any]]:
    """One answer for each URL, as JSON values. Raises Refused where nothing was ever run.

    `answer`: listed, excluded, rejected, duplicate or absent: what is public now. `sentence`: all in one.
    `listed`, `views`: where and how. `set_aside`: source rows of it that are not listed. `last_listed`: the
    set before that listed it. `later`: what the newest run found, where that was not published. `nearest`:
    listed locs that differ in spelling only.
    """
    return [answer.to_json() for answer in _Explainer(site, urls, environment).answers()]


@dataclass(frozen=True)
class _Reading:
    """The report of a run, asked about these sections. `older`: a newer one read a part of them."""

    record: Record
    sections: frozenset[str]
    older: bool


class _Explainer:
    """The state of a site and the reports that speak of it, asked for some URLs."""

    def __init__(self, site: Site, urls: Sequence[str], environment: Environment) -> None:
        self.site = site
        self.rules = UrlRules(site.site, site.urls.same_as, frozenset(site.urls.strip))
        self.work = open_work(site, environment)
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
            self.proposed = proposed_set(
                lambda: open_run(staging.url, environment, staging=staging), self.set, self.shelf
            )

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


_CALLED: Final = {"refused": "which was refused", "dry_run": "a dry run"}
_RULES: Final = {
    "where": "the section's `where`",
    "urls.exclude": "a pattern of `urls.exclude`",
    "robots.txt": "the site's robots.txt",
}


@dataclass
class Answer:
    """Everything that is known of a URL. The keys of `to_json` are documented at `explanation.explain`."""

    asked: Asked
    reason: str | None  # why it can't be a loc
    published: dict[str, Any] | None  # {run_id, at, rolled_back_to}
    read_by: dict[str, Any] | None  # {run_id, at, status}
    not_read: dict[str, str]  # sections that run kept as they were, and why
    rows: Rows = field(default_factory=Rows)
    listed: dict[str, Any] | None = None
    views: list[dict[str, Any]] = field(default_factory=list)
    last_listed: dict[str, Any] | None = None  # {run_id, at}
    later: dict[str, Any] | None = None
    nearest: list[dict[str, Any]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return kind_of(self.listed, self.rows)

    def to_json(self) -> dict[str, Any]:
        return {
            "url": self.asked.text,
            "canonical": self.asked.canonical,
            "reason": self.reason,
            "answer": self.kind,
            "sentence": self.sentence(),
            "listed": self.listed,
            "views": self.views,
            "set_aside": rows_json(self.rows),
            "last_listed": self.last_listed,
            "later": self.later,
            "nearest": self.nearest,
            "published": self.published,
            "read_by": self.read_by,
            "not_read": self.not_read,
        }

    def sentence(self) -> str:
        """The answer in one sentence."""
        shown = self.asked.text
        if self.asked.canonical not in (None, shown):
            shown = f"{shown} ({self.asked.canonical})"
        return f"{shown} {self._listed() if self.listed is not None else self._not_listed()}."

    def _listed(self) -> str:
        assert self.listed is not None
        later = self.later
        if later is not None and later["answer"] != "listed":
            return f"is listed ({run_in_words(self.published, 'published by run')}), but {_lost(later)}"
        dated = f"lastmod {self.listed['lastmod']}" if self.listed["lastmod"] else "without lastmod"
        return f"is listed in section {self.listed['section']}: {self.listed['file']}, {dated}"

    def _not_listed(self) -> str:
        later, kind = self.later, self.kind
        near = _near(self.nearest)
        head = "is not listed any more" if self.last_listed is not None else "is not listed"
        if later is not None and later["listed"] is not None:
            return f"{head}, but {run_in_words(later)} would list it in section {later['listed']['section']}"
        if kind != "absent":
            row = asdict(self.rows.of(kind)[0])
            also = near if kind == "rejected" else ""
            return f"{head}: {run_in_words(row)} {_fate(row)}{also}"
        if self.reason is not None:
            head = f"is not listed and can't be ({self.reason})"
        if later is not None and (later["answer"] != "absent" or self.read_by is None):
            return f"{head}: {_lost(later)}{near}"
        if self.read_by is None:
            return f"{head}: it is not in the set of {run_in_words(self.published)}{near}"
        also = f", nor at {run_in_words(later).removesuffix(',')}" if later is not None else ""
        return f"{head}: it was not in the source at {run_in_words(self.read_by)}{also}{near}"


def kind_of(listed: dict[str, Any] | None, rows: Rows) -> str:
    """The word for what became of a URL: listed, excluded, rejected, duplicate, absent."""
    if listed is not None:
        return "listed"
    return next((kind for kind in ("excluded", "rejected", "duplicate") if rows.counts.get(kind)), "absent")


def rows_json(rows: Rows) -> dict[str, Any]:
    """Set-aside rows as JSON values: how many of each kind, and a few."""
    return {"counts": {kind: n for kind, n in rows.counts.items() if n}, "rows": [asdict(row) for row in rows.shown]}


def run_json(record: Record) -> dict[str, Any]:
    """A run as it is named in answers."""
    return {"run_id": record.run_id, "at": record.summary["now"], "status": record.status}


def near_json(url: str, loc: str) -> dict[str, Any]:
    """A listed loc that is like the URL."""
    return {"loc": loc, "differs": differences(url, loc)}


def run_in_words(run: Mapping[str, Any] | None, what: str = "run") -> str:
    """A run with its time, as: run 20261101T020000Z-5f97 of 2026-11-01 02:00 UTC, which was refused,."""
    run = run or {}
    text = f"{what} {run.get('run_id')}"
    if run.get("at"):
        text += f" of {run['at'][:10]} {run['at'][11:16]} UTC"
    called = _CALLED.get(run.get("status", ""))
    return f"{text}, {called}," if called else text


def row_in_words(row: Mapping[str, Any]) -> str:
    """A set-aside row: why, and where it came from."""
    reason = _RULES.get(row["reason"], row["reason"])
    return f"{reason} (row {row['row']:,} of {row['source'] or 'its split'})"


def _fate(row: dict[str, Any]) -> str:
    done = "had it as a duplicate only" if row["answer"] == "duplicate" else f"{row['answer']} it"
    return f"{done}: {row_in_words(row)}"


def _lost(later: dict[str, Any]) -> str:
    """What became of the URL at a run that would not list it."""
    run = run_in_words(later)
    rows = [row for row in later["set_aside"]["rows"] if row["answer"] == later["answer"]]
    if rows:
        return f"{run} {_fate(rows[0])}"
    if not later["known"]:
        return f"{run} left nothing that tells whether its source had it"
    if later["nearest"]:
        near = later["nearest"][0]
        return f"{run} would list {near['loc']} instead, which differs only by {in_words(near['differs'])}"
    return f"{run} did not have it in its source"


def _near(nearest: list[dict[str, Any]]) -> str:
    if not nearest:
        return ""
    near = nearest[0]
    how = f", which differs only by {in_words(near['differs'])}" if near["differs"] else ""
    return f"; {near['loc']} is listed{how}"
