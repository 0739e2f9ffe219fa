"""What is said of one URL that a person asked for: the facts as JSON values, and one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from sitemap_etl.pipeline.nearest import differences, in_words
from sitemap_etl.pipeline.records import Asked, Record, Rows

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
