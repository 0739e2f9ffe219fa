"""One request to an engine: what is waited out, what is worth a retry, and what no text may show."""

from __future__ import annotations

import json
import logging
import re
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlsplit

import httpx

from sitemap_etl import __version__
from sitemap_etl.engines.credentials import Redactor
from sitemap_etl.errors import Refused, Unavailable

BACKOFF: Final = (1.0, 4.0, 10.0)
"""Seconds before the second, third and fourth try, where the other side names none."""
LONGEST_WAIT: Final = 86_400
"""Seconds of a Retry-After that are believed."""
ANSWER_BYTES: Final = 1 << 20
ANSWER_SECONDS: Final = 60.0
TIMEOUT: Final = 30.0
"""Seconds for connecting, and between two pieces of an answer."""

Clock = Callable[[], datetime]
Sleep = Callable[[float], None]


def open_client() -> httpx.Client:
    """A client for all engines: patient, honest about who asks, never redirected."""
    return httpx.Client(timeout=TIMEOUT, headers={"User-Agent": f"sitemap_etl/{__version__}"}, follow_redirects=False)


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def at(moment: datetime) -> str:
    """A moment in the words of a message."""
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def origin_of(url: str) -> str:
    """Scheme and host of an address: all of it that a message may show."""
    try:
        parts = urlsplit(url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    except ValueError:
        return "an address that is none"


class Later(Unavailable):
    """The other side names a time before which it wants no more: the ledger keeps it for the next attempt."""

    until: datetime | None = None


class Unanswered(Unavailable):
    """The request went out whole or in part, and no answer came: it may have been taken."""


@dataclass(frozen=True)
class Reply:
    """An answer that is one: any status that is not waited out. `words` is its text, short and without secrets."""

    status: int
    words: str
    moved: str = ""
    body: bytes = field(default=b"", repr=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The parsed body, None where it is no JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None

    def said(self) -> str:
        """The answer in the words of a message."""
        if 300 <= self.status < 400:
            return (
                f"{self.status}, a redirect to {self.moved or 'nowhere'} that is not followed: name the final address"
            )
        return f"{self.status}: {self.words}" if self.words else f"{self.status}"


@dataclass(frozen=True)
class _Fault:
    """A request without an answer."""

    words: str
    kind: type[Refused | Unavailable | Unanswered]
    cause: Exception


def _cause(error: Exception, redact: Redactor) -> Exception:
    """The error itself, or a stand-in where it or what it came from would print a secret."""
    link: BaseException | None = error
    while link is not None:
        if redact(str(link)) != str(link):
            return RuntimeError(f"{type(error).__name__}: {redact(str(error))}")
        link = link.__cause__ or link.__context__
    return error


def _distrusted(error: BaseException | None) -> bool:
    """Whether the other side showed a certificate that this machine doesn't trust."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _excerpt(response: httpx.Response, body: bytes, redact: Redactor) -> str:
    if "html" in response.headers.get("content-type", ""):
        return ""
    return re.sub(r"[\s\x00-\x1f\x7f]+", " ", redact(body[:4_096].decode("utf-8", "replace"))).strip()[:300]


class Exchange:
    """All requests of one submission to one engine.

    `patience`: seconds that all waiting of the submission may last together. `pace`: seconds from request to request.
    """

    def __init__(
        self,
        engine: str,
        client: httpx.Client,
        redact: Redactor,
        *,
        clock: Clock,
        sleep: Sleep,
        patience: float,
        pace: float = 0.0,
    ) -> None:
        self.engine = engine
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
        """The answer to a request; `what` names it in messages: "submitting https://…/sitemap.xml".

        429, 408, 5xx and what `busy` recognises are waited out, by Retry-After where it is sent. `once`: a request that
        may have arrived is not repeated here. Raises `Unavailable` (`Later`, `Unanswered`) and `Refused`.
        """
        place = f"{self.engine}: {self.redact(origin_of(url))}"
        for attempt in range(len(BACKOFF) + 1):
            reply, wait = self._once(method, url, options)
            if isinstance(reply, _Fault):
                message = f"{place} {reply.words}, {what}."
                if reply.kind is Refused:
                    raise Refused(message) from reply.cause
                if (
                    attempt == len(BACKOFF)
                    or (once and reply.kind is Unanswered)
                    or not self._may_wait(BACKOFF[attempt])
                ):
                    raise reply.kind(message) from reply.cause
                self._wait(BACKOFF[attempt])
            elif reply.status in (408, 425, 429) or reply.status >= 500 or (busy is not None and busy(reply)):
                if wait is not None and not self._may_wait(wait):
                    until = self.clock() + timedelta(seconds=wait)
                    later = Later(f"{place} answered {reply.said()} to {what} and wants no more before {at(until)}.")
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
        """Wait for a moment that an earlier attempt was told. Raises `Later` where that is too long."""
        wait = (moment - self.clock()).total_seconds()
        if wait > 0:
            if not self._may_wait(wait):
                later = Later(f"{self.engine} wants no more before {at(moment)}, as it said to an earlier attempt.")
                later.until = moment
                raise later
            self._wait(wait)

    def _may_wait(self, seconds: float) -> bool:
        return seconds <= self._patience

    def _wait(self, seconds: float) -> None:
        self._patience -= seconds
        self._sleep(seconds)

    def _once(self, method: str, url: str, options: dict[str, Any]) -> tuple[Reply | _Fault, float | None]:
        """One try: its answer and the seconds that Retry-After asks for."""
        if self._pace and self._last is not None:
            early = self._pace - (self.clock() - self._last).total_seconds()
            if early > 0:
                self._sleep(early)
        self._last = self.clock()
        try:
            with _hidden(self.redact), self._client.stream(method, url, follow_redirects=False, **options) as response:
                body = self._read(response)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            return _Fault("is no address that can be asked", Refused, _cause(error, self.redact)), None
        except httpx.TimeoutException as error:
            kind = Unavailable if isinstance(error, (httpx.ConnectTimeout, httpx.PoolTimeout)) else Unanswered
            return _Fault("did not answer in time", kind, _cause(error, self.redact)), None
        except httpx.HTTPError as error:
            text = self.redact(str(error)) or type(error).__name__
            if _distrusted(error):
                words = f"shows a certificate that this machine does not trust ({text})"
                return _Fault(words, Refused, _cause(error, self.redact)), None
            unsent = isinstance(error, (httpx.ConnectError, httpx.ProxyError))
            words = f"can't be reached ({text})" if unsent else f"broke off ({text})"
            return _Fault(words, Unavailable if unsent else Unanswered, _cause(error, self.redact)), None
        moved = self.redact(response.headers.get("location", "").partition("?")[0])[:200]
        reply = Reply(response.status_code, _excerpt(response, body, self.redact), moved, body)
        return reply, self._asked_to_wait(response.headers.get("retry-after"))

    def _read(self, response: httpx.Response) -> bytes:
        """The body, up to a size and a time: an answer that never ends is none."""
        begun, body = self.clock(), bytearray()
        for piece in response.iter_bytes():
            body += piece
            if len(body) > ANSWER_BYTES:
                break
            if (self.clock() - begun).total_seconds() > ANSWER_SECONDS:
                raise httpx.ReadTimeout("the answer does not end", request=response.request)
        return bytes(body[:ANSWER_BYTES])

    def _asked_to_wait(self, text: str | None) -> float | None:
        """Seconds that a Retry-After asks for (RFC 9110, 10.2.3: seconds or a date), None where it asks for none."""
        if not text:
            return None
        try:
            if text.strip().isdigit():
                wait = float(text)
            else:
                moment = parsedate_to_datetime(text)
                moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
                wait = (moment - self.clock()).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
        return min(wait, LONGEST_WAIT) if wait > 0 else None


class _Hide(logging.Filter):
    """Takes the secrets out of a record: httpx writes every address it asks, keys and all, at level INFO."""

    def __init__(self, redact: Redactor) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._redact(record.getMessage()), ()
        return True


@contextmanager
def _hidden(redact: Redactor) -> Iterator[None]:
    """While a request is under way, nothing that the HTTP libraries log shows a secret."""
    loggers = [
        logging.getLogger(name) for name in ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")
    ]
    hide = _Hide(redact)
    for logger in loggers:
        logger.addFilter(hide)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(hide)
