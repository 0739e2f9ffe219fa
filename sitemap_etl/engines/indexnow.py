"""IndexNow: send removed, added and changed URLs to Bing, Yandex, Naver, Seznam, Yep and Amazon at once.

https://www.indexnow.org/documentation
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, ClassVar, Final
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import settings
from sitemap_etl.engines.backlog import RUNS_WAITING, Recent, Waiting, advance, finish, left_of, mark_of, ordered
from sitemap_etl.engines.engine import HttpEngine
from sitemap_etl.engines.exchange import Exchange, Reply, Unanswered, at
from sitemap_etl.engines.ledger import Book, Ledger
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.hashes import hash64
from sitemap_etl.limits import INDEXNOW_COOLDOWN, INDEXNOW_URLS

WORDS: Final = {
    400: "the request could not be read",
    403: "the key is not valid; the key file was not found, or it contains another key",
    422: "some URLs are not on this host, or the key does not match",
}
"""Meanings of the statuses (indexnow.org, "Response format")."""
UNVERIFIED: Final = "SiteVerificationNotCompleted"
"""`errorCode` of a 403 while the engine has not read the key file yet, for minutes after a key is new."""


class IndexNow(HttpEngine[settings.IndexNow]):
    """`ping.indexnow`. The password of a `connection` is the key."""

    name: ClassVar[str] = "indexnow"

    def key_file(self) -> tuple[str, bytes] | None:
        """Return name and content of the key file, or None if `key_location` names an existing file."""
        return None if self.settings.key_location else (f"{self.key}.txt", self.key.encode())

    @classmethod
    def pending(cls, ledger: Ledger) -> tuple[str, ...]:
        return tuple(entry["run"] for entry in Book(cls.name, ledger).data.get("waiting", []))

    @property
    def key(self) -> str:
        """The key itself, for requests only."""
        return self.settings.key.text if self.settings.key else ""

    def notify(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        waiting = [Waiting.from_json(entry) for entry in book.data.get("waiting", [])]
        known = [entry.run for entry in waiting]
        new = [run for run in submission.pending_runs if run not in known and not book.knows(run)]
        if submission.run_id not in known and (submission.all or not book.knows(submission.run_id)):
            new.append(submission.run_id)
        tables = {run: table for run in new if (table := submission.changes_of(run)) is not None}
        because = submission.quiet_because
        if because and any(table.num_rows for run, table in tables.items() if run != submission.run_id):
            tables.pop(submission.run_id, None)  # what earlier runs changed is known
            because = None
        if new and (reason := self._quiet(submission, because, tables.values())):
            left = sum(entry.left for entry in waiting)
            return Answer(self.name, "skipped", 0, f"sent nothing: {reason}", {"requests": 0, "left": left})
        waiting += [Waiting(run) for run, table in tables.items() if table.num_rows]
        if not waiting:
            return Answer(self.name, "nothing", 0, "no URLs are pending", {"requests": 0, "left": 0})
        return _Work(self, book, exchange, submission, *_load(waiting, tables, submission)).carry_out()

    def _quiet(self, submission: Submission, because: str | None, tables: Collection[pa.Table]) -> str | None:
        """Return the reason why none of these changes are sent, or `because`. `tables`: one per run, oldest first."""
        if submission.all:
            return None
        listed, every = submission.listed, submission.by_hand(self.name, "--all")
        whole = f"To send all {listed:,} URLs of the site: {every}"
        if because:
            return f"{because}. {whole}"
        changed, removed = _urls(tables)
        site = max(listed + removed, changed)
        if changed > self.settings.max_share * site:
            if submission.before is not None:
                whole = f"To send them anyway: {submission.by_hand(self.name, '--since', submission.before)}. {whole}"
            return (
                f"{changed:,} of {site:,} URLs changed ({changed / site:.1%}, max_share is "
                f"{self.settings.max_share:.1%}), and search engines treat so many as spam. {whole}"
            )
        return None


@dataclass
class _Work:
    """Submission in progress, with its pending runs and their changes."""

    engine: IndexNow
    book: Book
    exchange: Exchange
    submission: Submission
    waiting: list[Waiting]
    tables: list[pa.Table]
    given_up: int
    requests: int = 0
    key_pending: bool = False
    unverified: bool = False

    def carry_out(self) -> Answer:
        """Send the URLs that can be sent now, and report the URLs that stay pending."""
        now = self.exchange.clock().timestamp()
        recent = Recent(self.book.data.get("recent", []), now=now, cooldown=INDEXNOW_COOLDOWN)
        self._save(recent)
        rows = left_of(self.waiting, self.tables, self._scope())
        cooling = recent.has(rows["loc"])
        held, ready = rows.filter(pa.array(cooling)), rows.filter(pa.array(~cooling))
        sending = ready.slice(0, max(0, self.engine.settings.daily_limit - self._sent_today()))
        if sending.num_rows:
            self._verify_key()
        for begin in range(0, sending.num_rows, INDEXNOW_URLS):
            self._send(sending.slice(begin, INDEXNOW_URLS), held, recent)
            if self.unverified:
                sending = sending.slice(0, begin)
                break
        if sending.num_rows == ready.num_rows:
            self.waiting = finish(self.waiting, held)
        while self.waiting and not self.waiting[0].left:
            self.book.enter(self.waiting.pop(0).run)
        self._save(recent)
        unknown = int(recent.has(held["loc"], unanswered=True).sum())
        if unknown:
            again = at(self.exchange.clock() + timedelta(seconds=recent.unanswered_at() + INDEXNOW_COOLDOWN - now))
            raise Unavailable(
                f"{unknown:,} URLs were sent a moment ago without a response; they may be sent again "
                f"after {again}. The next attempt or run sends them."
            )
        return self._answer(sending, ready.num_rows - sending.num_rows, held.num_rows)

    def _send(self, batch: pa.Table, held: pa.Table, recent: Recent) -> None:
        """Send one POST. The ledger records it first, so no URL is sent twice in ten minutes, even after a crash."""
        count, today = batch.num_rows, self._sent_today()
        recent.sending(batch["loc"], self.exchange.clock().timestamp())
        self._count(today + count)
        self._save(recent)
        try:
            reply = self._post(batch)
        except Unanswered as error:
            again = at(self.exchange.clock() + timedelta(seconds=INDEXNOW_COOLDOWN))
            message = f"{error} It may have accepted the {count:,} URLs, so they are not sent again before {again}."
            raise Unanswered(message) from error.__cause__
        except (Refused, Unavailable):
            recent.refused()
            self._count(today)
            self._save(recent)
            raise
        if reply.status == 403:
            self.unverified = True
            recent.refused()
            self._count(today)
            self._save(recent)
            return
        self.key_pending |= reply.status == 202
        recent.taken(self.exchange.clock().timestamp())
        self.waiting = advance(self.waiting, batch, held)
        self._save(recent)

    def _post(self, batch: pa.Table) -> Reply:
        """Return the response to a batch: 200, 202, or 403 if the engine has not read the key file yet.

        Raise `Refused` for any other response.
        """
        body: dict[str, Any] = {"host": urlsplit(self.submission.site).netloc, "key": self.engine.key}
        if self.engine.settings.key_location:
            body["keyLocation"] = self.engine.settings.key_location
        body["urlList"] = batch["loc"].to_pylist()
        reply = self.exchange.request(
            "POST",
            self.engine.settings.endpoint,
            f"submitting {batch.num_rows:,} {'URL' if batch.num_rows == 1 else 'URLs'}",
            once=True,
            content=json.dumps(body),
            headers={"Content-Type": "application/json; charset=utf-8"},
        )
        self.requests += 1
        if reply.status in (200, 202) or (reply.status == 403 and _error_code(reply) == UNVERIFIED):
            return reply
        raise Refused(
            f"{batch.num_rows:,} URLs were refused: {WORDS.get(reply.status, 'no known reason')} ({reply.said()}). "
            f"After fixing it: {self.submission.by_hand('indexnow')}"
        )

    def _verify_key(self) -> None:
        """Raise `Refused` unless the public key file contains the key. Otherwise every URL would be refused."""
        key = self.engine.key
        location = self._key_location()
        reply = self.exchange.request("GET", location, "reading the key file")
        shown = self.exchange.redact(location)
        if reply.status != 200:
            raise Refused(
                f"the response for the key file {shown} is {reply.said()}. It must be 200 with the key: "
                "check that publish.root is the folder or bucket that serves the root of the site."
            )
        if reply.body.strip() != key.encode():
            raise Refused(
                f"{shown} does not contain exactly the key. Nothing was sent. Check that the file holds the "
                "key and nothing else, and that no cache serves an earlier one."
            )

    def _key_location(self) -> str:
        return self.engine.settings.key_location or f"{self.submission.site.rstrip('/')}/{self.engine.key}.txt"

    def _scope(self) -> str:
        """Return the folder of the key file. Only URLs below it can be sent."""
        return self._key_location().rpartition("/")[0] + "/"

    def _sent_today(self) -> int:
        today = self.book.data.get("today", {})
        return int(today["sent"]) if today.get("day") == self.exchange.clock().date().isoformat() else 0

    def _count(self, sent: int) -> None:
        self.book.data["today"] = {"day": self.exchange.clock().date().isoformat(), "sent": sent}

    def _save(self, recent: Recent) -> None:
        self.book.data["waiting"] = [entry.to_json() for entry in self.waiting]
        self.book.data["recent"] = recent.to_json()
        self.book.save()

    def _answer(self, sent: pa.Table, over: int, held: int) -> Answer:
        kinds = {kind: pc.sum(pc.equal(sent["kind"], kind)).as_py() or 0 for kind in ("removed", "added", "changed")}
        out = sum(int(np.invert(pc.starts_with(t["loc"], self._scope()).to_numpy()).sum()) for t in self.tables)
        details = kinds | {
            "requests": self.requests,
            "left": over + held,
            "given_up": self.given_up,
            "out_of_scope": out,
        }
        waits = []
        if over:
            left = "1 URL is" if over == 1 else f"{over:,} URLs are"
            because = f"daily_limit is {self.engine.settings.daily_limit:,}"
            if self.unverified:
                because = "the engine has not read the key file yet, which is normal for a new key. "
                because += f"To send them in some minutes: {self.submission.by_hand('indexnow')}"
            waits.append(f"{left} left for a later run: {because}")
        if held:
            waits.append(
                f"{held:,} are left for a later run: they were sent less than {INDEXNOW_COOLDOWN // 60} minutes ago"
            )
        if self.given_up:
            waits.append(f"{self.given_up:,} URLs of earlier runs were given up after {RUNS_WAITING} runs")
        if out:
            waits.append(f"{out:,} are not under {self.exchange.redact(self._scope())} and are never sent")
        if not sent.num_rows:
            status = "skipped" if over or held else "nothing"
            return Answer("indexnow", status, 0, "; ".join(waits) or "no URLs are pending", details)  # type: ignore[arg-type] # one of the two above
        counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items() if count)
        message = (
            f"sent {sent.num_rows:,} URLs ({counts}) in {self.requests} request{'' if self.requests == 1 else 's'}"
        )
        message += "; the engine is still checking the key, which is normal for a new one" if self.key_pending else ""
        return Answer("indexnow", "accepted", sent.num_rows, "; ".join([message, *waits]), details)


def _error_code(reply: Reply) -> str:
    data = reply.json()
    return str(data.get("errorCode")) if isinstance(data, dict) else ""


def _urls(tables: Collection[pa.Table]) -> tuple[int, int]:
    """Return the number of distinct URLs in these runs, and the number whose newest change is a removal."""
    seen, removed = np.empty(0, np.uint64), 0
    for table in reversed(list(tables)):
        hashes = hash64(table["loc"])
        newest = ~np.isin(hashes, seen)
        removed += int((newest & pc.equal(table["kind"], "removed").to_numpy()).sum())
        seen = np.union1d(seen, hashes)
    return len(seen), removed


def _load(
    waiting: list[Waiting], tables: dict[str, pa.Table], submission: Submission
) -> tuple[list[Waiting], list[pa.Table], int]:
    """Return the runs that can still be sent, the ordered changes of each, and the number of rows that can't be sent.

    `tables`: changes that were read already, by run.
    """
    kept: list[Waiting] = []
    changes: list[pa.Table] = []
    given_up = sum(entry.left for entry in waiting[:-RUNS_WAITING])
    for entry in waiting[-RUNS_WAITING:]:
        found = tables[entry.run] if entry.run in tables else submission.changes_of(entry.run)
        table = None if found is None else ordered(found)
        mark = None if table is None else mark_of(table)
        if table is None or (entry.mark not in (None, mark) and entry.run != submission.run_id):
            given_up += entry.left
            continue
        # Of this very run other changes mean another submission, of the whole site for one: from its beginning.
        same = entry if entry.mark == mark else Waiting(entry.run)
        kept.append(replace(same, rows=table.num_rows, mark=mark))
        changes.append(table)
    return kept, changes, given_up
