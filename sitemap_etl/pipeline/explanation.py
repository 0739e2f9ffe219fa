"""Why a URL is listed, or not: from the state and the reports, without asking the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.errors import Refused
from sitemap_etl.manifest import Manifest
from sitemap_etl.pipeline.listing import Found, ProposedSet, PublishedSet, Shelf, proposed_set
from sitemap_etl.pipeline.nearest import alike, differences, in_words, on_site, spellings
from sitemap_etl.pipeline.records import Asked, Record, Rows, SetAside, records, set_aside
from sitemap_etl.pipeline.run import Outside, instant, open_run, open_work
from sitemap_etl.pipeline.state import State
from sitemap_etl.pipeline.views import RECENT
from sitemap_etl.site import Site
from sitemap_etl.urls import REASONS, UrlRules, canonical_url, canonicalize

_CALLED: Final = {"refused": "which was refused", "dry_run": "a dry run"}
_RULES: Final = {
    "where": "the section's `where`",
    "urls.exclude": "a pattern of `urls.exclude`",
    "robots.txt": "the site's robots.txt",
}
_TENTHS: Final = 10
_LINKS: Final = 100
"""Alternates of a page that are given."""


def explain(site: Site, urls: Sequence[str], outside: Outside) -> list[dict[str, Any]]:
    """One answer for each URL, as JSON values. Raises Refused where nothing was ever run.

    `answer`: listed, excluded, rejected, duplicate or absent: what is public now. `sentence`: all in one.
    `listed`, `views`: where and how. `set_aside`: source rows of it that are not listed. `later`: what the
    newest run found, where that was not published. `nearest`: listed locs that differ in spelling only.
    """
    return [answer.to_json() for answer in _Explainer(site, urls, outside).answers()]


@dataclass
class _Answer:
    asked: Asked
    reason: str | None  # why it can't be a loc
    published: dict[str, Any] | None
    read_by: dict[str, Any] | None
    found: list[Found] = field(default_factory=list)
    rows: Rows = field(default_factory=Rows)
    listed: dict[str, Any] | None = None
    views: list[dict[str, Any]] = field(default_factory=list)
    later: dict[str, Any] | None = None
    nearest: list[dict[str, Any]] = field(default_factory=list)
    unread: dict[str, str] = field(default_factory=dict)
    answer: str = "absent"
    sentence: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "url": self.asked.text,
            "canonical": self.asked.canonical,
            "reason": self.reason,
            "answer": self.answer,
            "sentence": self.sentence,
            "listed": self.listed,
            "views": self.views,
            "set_aside": _rows_json(self.rows),
            "later": self.later,
            "nearest": self.nearest,
            "published": self.published,
            "read_by": self.read_by,
            "not_read": self.unread,
        }


class _Explainer:
    """The state of a site and the reports that speak of it, asked for some URLs."""

    def __init__(self, site: Site, urls: Sequence[str], outside: Outside) -> None:
        self.site = site
        self.rules = UrlRules(site.site, site.urls.same_as, frozenset(site.urls.strip))
        self.work = open_work(site, outside)
        self.state = State(self.work, site.name, site.site)
        self.manifest = self.state.manifest(self.state.current().manifest)
        self.shelf = Shelf(self.state)
        self.set = None if self.manifest is None else PublishedSet(self.manifest, self.shelf)
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

    def _reports(self) -> tuple[list[tuple[Record, frozenset[str]]], Record | None, Record | None]:
        """What says which rows the public set left out, section by section; the newest run of it; a later one.

        A section's rows are those of the last run that read all of it, and of those since that read a part.
        """
        wanted = set(self.site.sections)
        read: list[tuple[Record, frozenset[str]]] = []
        last: Record | None = None
        unpublished: Record | None = None
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
            last = last or record
            sections = frozenset(record.read & wanted)
            if sections:
                read.append((record, sections))
            wanted -= sections - record.in_part
            if not wanted:
                break
        return read, last, unpublished

    def answers(self) -> Iterator[_Answer]:
        """The answers, in the order of the URLs."""
        aside = [set_aside(self.work, record, self.asked, self.rules, sections) for record, sections in self.read]
        later: dict[str, Rows] = {}
        if self.unpublished is not None:
            later = set_aside(self.work, self.unpublished, self.asked, self.rules, self.unpublished.read)
        unread = dict((self.last.summary.get("kept") or {}) if self.last is not None else {})
        for asked, reason in zip(self.asked, self.reasons, strict=True):
            answer = _Answer(asked, reason, self._published(), _run_json(self.last), unread=unread)
            for rows in aside:
                _merge(answer.rows, rows[asked.text])
            if self.set is not None and asked.canonical is not None:
                answer.found = self.set.find(asked.canonical)
            self._place(answer)
            if self.unpublished is not None:
                answer.later = self._later(asked, later[asked.text])
            if answer.listed is None:
                answer.nearest = self._nearest(asked)
            answer.answer = _answer(answer.listed, answer.rows)
            answer.sentence = _sentence(answer)
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

    def _place(self, answer: _Answer) -> None:
        """Where the loc is listed, and in which views."""
        for found in answer.found:
            told = self._listing(found)
            if answer.listed is None and not found.view:
                answer.listed = {**told, "since": self._since(found)}
            else:
                answer.views.append(told)
        if answer.listed is None and answer.views:  # listed by views alone
            answer.listed = {**answer.views.pop(0), "since": self._since(answer.found[0])}
        if answer.listed is not None and self.manifest is not None:
            answer.views += self._recent(answer.found[0])

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

    def _since(self, found: Found) -> dict[str, Any]:
        """Since when the row is as it is: the run that added or changed it, or the section's first publish."""
        since = found.row["since"]
        moment = None if since is None else instant(datetime.fromtimestamp(since, UTC))
        after: Manifest | None = None
        for manifest in self._chain():
            if since is None and after is not None and found.section not in manifest.sections:
                break
            if moment is not None and manifest.now < moment:
                break
            after = manifest
            if manifest.now == moment:
                return {"at": moment, "run_id": manifest.run_id, "how": self._how(manifest, found)}
            if manifest.base is None and since is None:
                break
        else:  # the runs before are no longer kept
            if since is None and after is not None:
                return {"at": None, "run_id": None, "how": "first publish", "before": after.now}
        if since is None and after is not None:
            return {"at": after.now, "run_id": after.run_id, "how": "first publish"}
        return {"at": moment, "run_id": None, "how": "added or changed"}

    def _how(self, manifest: Manifest, found: Found) -> str:
        base = None if manifest.base is None else self._kept(manifest.base)
        if base is None:
            return "added" if manifest.base is None else "added or changed"
        return "changed" if PublishedSet(base, self.shelf).find(found.row["loc"]) else "added"

    def _chain(self) -> Iterator[Manifest]:
        """The manifests that are kept, from the current one back."""
        manifest = self.manifest
        while manifest is not None:
            yield manifest
            manifest = None if manifest.base is None else self._kept(manifest.base)

    def _kept(self, key: str) -> Manifest | None:
        try:
            return self.state.manifest(key)
        except Refused:
            return None  # forgotten: only the last sets are kept

    # --- not listed, or not any more -------------------------------------------------------------

    def _later(self, asked: Asked, rows: Rows) -> dict[str, Any]:
        """What the newest run, which was not published, found of the URL."""
        assert self.unpublished is not None
        told: dict[str, Any] = {**(_run_json(self.unpublished) or {}), "listed": None, "nearest": []}
        told["staging_kept"] = self.proposed is not None
        if self.proposed is not None and asked.canonical is not None:
            found = self.proposed.find(asked.canonical)
            if found:
                told["listed"] = self._listing(found[0])
            else:
                others = [loc for loc in spellings(asked.canonical, self.rules) if self.proposed.find(loc)]
                told["nearest"] = [_near(asked.canonical, loc) for loc in others[:1]]
        told["set_aside"] = _rows_json(rows)
        told["answer"] = _answer(told["listed"], rows)
        return told

    def _nearest(self, asked: Asked) -> list[dict[str, Any]]:
        """Listed locs that are the URL but for their spelling: by name first, then among their neighbours."""
        url = asked.canonical or on_site(asked.text, self.rules)
        if self.set is None or url is None:
            return []
        shown = asked.canonical or asked.anywhere or asked.text
        tried = spellings(url, self.rules)
        for loc in tried if url == asked.canonical else [url, *tried]:
            if self.set.find(loc):
                return [_near(shown, loc)]
        found: dict[str, None] = {}
        for locs in self.set.around([url, *tried]):
            found |= dict.fromkeys(alike(locs, url))
        ordered = sorted(found, key=lambda loc: (len(differences(shown, loc)), loc))
        return [_near(shown, loc) for loc in ordered[:3]]


def _anywhere(text: str) -> str | None:
    try:
        return canonical_url(text)
    except ValueError:
        return None


def _merge(rows: Rows, more: Rows) -> None:
    rows.shown += more.shown
    for answer, count in more.counts.items():
        rows.counts[answer] = rows.counts.get(answer, 0) + count


def _near(url: str, loc: str) -> dict[str, Any]:
    return {"loc": loc, "differs": differences(url, loc)}


def _rows_json(rows: Rows) -> dict[str, Any]:
    return {"counts": {k: n for k, n in rows.counts.items() if n}, "rows": [row.__dict__ for row in rows.shown]}


def _run_json(record: Record | None) -> dict[str, Any] | None:
    if record is None:
        return None
    return {"run_id": record.run_id, "at": record.summary["now"], "status": record.status}


def _answer(listed: dict[str, Any] | None, rows: Rows) -> str:
    if listed is not None:
        return "listed"
    return next((kind for kind in ("excluded", "rejected", "duplicate") if rows.counts.get(kind)), "absent")


# --- the sentence --------------------------------------------------------------------------------


def _sentence(answer: _Answer) -> str:
    """The answer in one sentence."""
    shown = answer.asked.text
    if answer.asked.canonical not in (None, answer.asked.text):
        shown = f"{answer.asked.text} ({answer.asked.canonical})"
    later = answer.later
    if answer.listed is not None:
        if later is not None and later["answer"] != "listed":
            assert answer.published is not None
            return (
                f"{shown} is listed ({_run(answer.published, 'published by run')}), but {_run(later)} {_lost(later)}."
            )
        dated = f", lastmod {answer.listed['lastmod']}" if answer.listed["lastmod"] else ", without lastmod"
        return f"{shown} is listed in section {answer.listed['section']}: {answer.listed['file']}{dated}."
    can_not = f" and can't be ({answer.reason})" if answer.reason is not None and answer.answer == "absent" else ""
    if later is not None and later["listed"] is not None:
        return f"{shown} is not listed yet: {_run(later)} would list it in section {later['listed']['section']}."
    if answer.answer != "absent":
        return f"{shown} is not listed: {_by_row(answer.rows.of(answer.answer)[0], answer)}."
    near = _near_words(answer.nearest)
    if later is not None and later["answer"] != "absent":
        return f"{shown} is not listed{can_not}: {_run(later)} {_lost(later)}{near}."
    if later is not None and answer.published is None:
        return f"{shown} is not listed{can_not}: nothing is published yet, and {_run(later)} {_lost(later)}."
    if answer.read_by is None:
        return f"{shown} is not listed{can_not}: it is not in the set of {_run(answer.published or {})}{near}."
    also = f", nor at {_run(later)}" if later is not None else ""
    return f"{shown} is not listed{can_not}: it was not in the source at {_run(answer.read_by)}{also}{near}."


def _near_words(nearest: list[dict[str, Any]]) -> str:
    if not nearest:
        return ""
    near = nearest[0]
    how = f", which differs only by {in_words(near['differs'])}" if near["differs"] else ""
    return f"; listed is {near['loc']}{how}"


def _by_row(row: SetAside, answer: _Answer) -> str:
    run = answer.read_by or {}
    named = _run(run) if run.get("run_id") == row.run_id else f"run {row.run_id}"
    if row.answer == "duplicate":
        return f"{named} had it as a duplicate only, {row.reason} ({place_of(row.__dict__)})"
    return f"{named} {row.answer} it: {reason_of(row.__dict__)} ({place_of(row.__dict__)})"


def _lost(later: dict[str, Any]) -> str:
    """What became of the URL at a run that would not list it."""
    rows = [row for row in later["set_aside"]["rows"] if row["answer"] == later["answer"]]
    if rows:
        return f"{later['answer']} it: {reason_of(rows[0])} ({place_of(rows[0])})"
    if later["nearest"]:
        near = later["nearest"][0]
        return f"would list {near['loc']} instead, which differs only by {in_words(near['differs'])}"
    return "did not have it in its source"


def _run(run: dict[str, Any], what: str = "run") -> str:
    """run 20261101T020000Z-5f97 of 2026-11-01 02:00 UTC, which was refused."""
    text = f"{what} {run.get('run_id')}"
    if run.get("at"):
        text += f" of {run['at'][:10]} {run['at'][11:16]} UTC"
    called = _CALLED.get(run.get("status", ""))
    return f"{text}, {called}," if called else text


def reason_of(row: dict[str, Any]) -> str:
    """A reason as it reads in a sentence."""
    return str(_RULES.get(row["reason"], row["reason"]))


def place_of(row: dict[str, Any]) -> str:
    """Where a set-aside row came from."""
    return f"row {row['row']:,} of {row['source'] or 'its split'}"


def meaning_of(reason: str) -> str:
    """What a rejection's reason means, or nothing."""
    return REASONS.get(reason, "")
