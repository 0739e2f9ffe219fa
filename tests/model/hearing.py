"""What an engine must be sent: every page that was added, changed or removed, once, sooner or later."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from typing import Any

from tests.model.records import Set
from tests.model.rules import changed

AGAIN = timedelta(minutes=10)
"""A URL is not sent twice within so long."""


class Hearing:
    """IndexNow, as documented."""

    def __init__(self) -> None:
        self.must: dict[str, Any] = {}  # url → how the page was when the engine last knew it
        self.may: set[str] = set()  # where the documents leave it open
        self.sent: dict[str, datetime] = {}

    def published(self, before: Set | None, after: Set, *, quiet: bool, without: Collection[str] = ()) -> None:
        """Note a published release.

        `quiet`: documented to send nothing (a first release, another fingerprint). `without`: sections that are
        left open.
        """
        if before is None:
            return
        old, new = before.plain(), after.plain()
        for loc in old.keys() | new.keys():
            if {names[loc][0] for names in (old, new) if loc in names} & set(without):
                self.may.add(loc)
                continue
            was = old[loc][1] if loc in old else None
            now = new[loc][1] if loc in new else None
            if was is not None and now is not None:
                dated = after.sections[new[loc][0]].dated
                if not changed(was, now.lastmod, now.images, now.links, dated=dated):
                    continue
            self.must.setdefault(loc, was.core if was else None)
        for name in without:
            for each in (before, after):
                self.may |= each.sections[name].pages.keys() if name in each.sections else set()
        if quiet:
            self._leave_open()
        shown = {loc: page.core for loc, (_, page) in new.items()}
        for loc in [loc for loc, was in self.must.items() if shown.get(loc) == was]:
            self.may.add(loc)  # there and back again
            del self.must[loc]

    def asked(self, posted: Iterable[str], now: datetime, *, up: bool) -> list[str]:
        """Return what is wrong with the submissions of this run."""
        posted = list(posted)
        if not up:
            return [f"the engine is down and was told {posted}"] if posted else []
        problems = []
        if len(posted) != len(set(posted)):
            problems.append(f"the engine was told twice of {sorted({loc for loc in posted if posted.count(loc) > 1})}")
        if too := sorted(set(posted) - self.must.keys() - self.may):
            problems.append(f"the engine was told of {too}, which did not change")
        if early := sorted(loc for loc in posted if loc in self.sent and now - self.sent[loc] < AGAIN):
            problems.append(f"the engine was told again of {early} within ten minutes")
        due = {loc for loc in self.must if loc not in self.sent or now - self.sent[loc] >= AGAIN}
        if silent := sorted(due - set(posted)):
            problems.append(f"the engine was not told of {silent}")
        for loc in posted:
            self.must.pop(loc, None)
            self.may.discard(loc)
            self.sent[loc] = now
        return problems

    def interrupted(self, posted: Iterable[str], now: datetime) -> None:
        """Note pages submitted by an incomplete run: whether they are sent again is left open."""
        for loc in posted:
            if loc in self.must:
                del self.must[loc]
                self.may.add(loc)
            self.sent[loc] = now

    def lost(self, urls: Iterable[str]) -> None:
        """Note damage to the ledger: these and all pending pages may be sent or not, even again at once."""
        self.may |= set(urls)
        self._leave_open()
        self.sent.clear()

    def _leave_open(self) -> None:
        """Return whether it is open if pending pages are sent."""
        self.may |= self.must.keys()
        self.must.clear()
