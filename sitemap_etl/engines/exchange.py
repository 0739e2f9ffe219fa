"""Requests to an engine: retries, waiting, and redaction of secrets."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from sitemap_etl import web
from sitemap_etl.engines.credentials import Redactor
from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.frozen import Frozen

BACKOFF: Final = (1.0, 4.0, 10.0)
"""Seconds before the second, third and fourth attempt, unless the engine sends Retry-After."""
ANSWER_BYTES: Final = 1 << 20
ANSWER_SECONDS: Final = 120.0
"""Maximum seconds of a request, from connecting to the last byte of the response."""

Clock = Callable[[], datetime]
Sleep = Callable[[float], None]


def open_client() -> web.Client:
    """Return a client for all engines."""
    return web.Client()


def utc_now() -> datetime:
    """Return the current time in UTC."""
    return datetime.now(UTC)


def at(moment: datetime) -> str:
    """Return a time as text for a message."""
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def origin_of(url: str) -> str:
    """Return scheme and host of an address, the only parts that a message can show."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return "an invalid address"


class Later(Unavailable):
    """The engine allows no request before a certain time, which the ledger keeps for the next attempt."""

    until: datetime | None = None


class Unanswered(Unavailable):
    """The request was sent, at least in part, without a complete answer. The server may have acted on it."""


class Reply(Frozen):
    """Response with a final status. `words`: its text, shortened and without secrets."""

    status: int
    words: str
    moved: str = ""
    body: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """Return the parsed body, or None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def said(self) -> str:
        """Return the response as it appears in a message."""
        if 300 <= self.status < 400:
            return (
                f"{self.status}, a redirect to {self.moved or 'no address'} that is not followed; use the final address"
            )
        return f"{self.status}: {self.words}" if self.words else f"{self.status}"


def _excerpt(fetched: web.Fetched, redact: Redactor) -> str:
    if "html" in fetched.headers.get("content-type", ""):
        return ""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", redact(fetched.body[:4_096].decode("utf-8", "replace"))).strip()[:300]


class Exchange:
    """Requests of one submission to one engine.

    `patience`: maximum seconds that the submission waits in total. `pace`: minimum seconds between two requests.
    """

    def __init__(
        self,
        client: web.Client,
        redact: Redactor,
        *,
        clock: Clock,
        sleep: Sleep,
        patience: float,
        pace: float = 0.0,
    ) -> None:
        self.redact = redact
        self.clock = clock
        self._client = client
        self._sleep = sleep
        self._patience = patience
        self._pace = pace
        self._last: datetime | None = None

    def request(
        self,
        method: str,
        url: str,
        what: str,
        *,
        busy: Callable[[Reply], bool] | None = None,
        once: bool = False,
        **options: Any,
    ) -> Reply:
        """Return the answer to a request; `what` names it in messages: "submitting https://…/sitemap.xml".

        429, 408, 5xx and what `busy` recognises are retried, after Retry-After if it is sent. `once`: a request that
        may have arrived is not repeated here. Raise `Unavailable` (`Later`, `Unanswered`) and `Refused`.
        """
        place = self.redact(origin_of(url))
        for attempt in range(len(BACKOFF) + 1):
            try:
                reply, wait = self._once(method, url, options)
            except web.WebError as fault:
                message = f"{place} {fault.words}, {what}."
                if isinstance(fault, Refused):
                    raise Refused(message) from fault
                unanswered = isinstance(fault, web.Unanswered)
                if attempt == len(BACKOFF) or (once and unanswered) or not self._may_wait(BACKOFF[attempt]):
                    raise (Unanswered if unanswered else Unavailable)(message) from fault
                self._wait(BACKOFF[attempt])
                continue
            if reply.status in (408, 425, 429) or reply.status >= 500 or (busy is not None and busy(reply)):
                if wait is not None and not self._may_wait(wait):
                    until = self.clock() + timedelta(seconds=wait)
                    later = Later(
                        f"{place} answered {reply.said()} to {what} and allows no further request before {at(until)}."
                    )
                    later.until = until
                    raise later
                wait = wait or BACKOFF[min(attempt, len(BACKOFF) - 1)]
                if attempt == len(BACKOFF) or not self._may_wait(wait):
                    raise Unavailable(f"{place} answered {reply.said()} to {what}, {attempt + 1} times in a row.")
                self._wait(wait)
            else:
                return reply
        raise AssertionError("the last attempt returns or raises")

    def until(self, moment: datetime) -> None:
        """Wait until a time that an earlier attempt was given. Raise `Later` if that is too long."""
        wait = (moment - self.clock()).total_seconds()
        if wait > 0:
            if not self._may_wait(wait):
                later = Later(f"the engine allows no further request before {at(moment)}, as its earlier answer said.")
                later.until = moment
                raise later
            self._wait(wait)

    def _may_wait(self, seconds: float) -> bool:
        return seconds <= self._patience

    def _wait(self, seconds: float) -> None:
        self._patience -= seconds
        self._sleep(seconds)

    def _once(self, method: str, url: str, options: dict[str, Any]) -> tuple[Reply, float | None]:
        """Return the response of one attempt, and the seconds of Retry-After. Raise `WebError`."""
        if self._pace and self._last is not None:
            early = self._pace - (self.clock() - self._last).total_seconds()
            if early > 0:
                self._sleep(early)
        self._last = self.clock()
        fetched = self._client.request(
            method, url, limit=ANSWER_BYTES, seconds=ANSWER_SECONDS, redact=self.redact, **options
        )
        moved = self.redact(fetched.moved.partition("?")[0])[:200]
        reply = Reply(fetched.status, _excerpt(fetched, self.redact), moved, fetched.body)
        return reply, fetched.retry_after(self.clock())
