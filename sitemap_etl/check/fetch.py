"""Fetching over HTTP, politely: who is asked how often, what is sent along, and what is tried again.

A host is asked by a few threads at a time, by half as many whenever it answers 429 or 503, and not again before its
Retry-After. A host that does not answer several times in a row is not asked any more. Headers and passwords that were
given go to the origins of the targets and to no other, whatever redirects to it.
"""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from sitemap_etl import __version__
from sitemap_etl.check.options import Options
from sitemap_etl.check.report import Faults
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls import origin
from sitemap_etl.web import (
    REDIRECTS,
    Fetched,
    InvalidAddress,
    Misled,
    PrivateAddress,
    Stopped,
    TooManyRedirects,
    Untrusted,
    WebError,
    shown_address,
)

if TYPE_CHECKING:
    from sitemap_etl.web import Client

AGENT: Final = f"sitemap_etl/{__version__} (check)"
"""The default User-Agent. It names the program; only the user knows an address at which to reach the user."""
PER_HOST: Final = 8
"""Requests to a host at a time, at most."""
_STEP: Final = 30.0
"""Seconds of silence after which a request is given up, where a file has more time than that."""
_TRIES: Final = 3
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses that are worth another try."""
_BUSY: Final = frozenset({429, 503})
"""Statuses by which a host says that it is asked too often."""
_LONGEST_WAIT: Final = 120.0
"""Seconds of a Retry-After that are waited; where more is asked for, the answer stands."""
_CALM: Final = 20
"""Answers in a row after which one more request at a time is tried again."""
_TRUST: Final = "to trust an authority of your own, name its file in SSL_CERT_FILE"
_SILENT: Final = 5
"""Files in a row without any answer after which a host is not asked any more."""
_MASK: Final = "•••"
_SECRET: Final = 4
"""Characters of the shortest value that can be a secret; a shorter one stands in many a message by chance."""


class _NotAsked(WebError):
    """A file that was not requested, because its host did not answer before."""


class Taken(Frozen):
    """The bytes of a file as stored or sent, up to the limit.

    `address` is the final one, after redirects. `status` is 0 if it is not HTTP; `data` is empty unless it is 200.
    `untold`: what says how it is compressed, the ending of its name or a header, is not known.
    """

    data: bytes
    address: str | None = None
    status: int = 0
    content_type: str = ""
    content_encoding: str = ""
    untold: bool = False


@dataclass
class _Host:
    """How a host is asked, and how it answered. `free_at`: the moment before which no request begins."""

    most: int = PER_HOST
    busy: int = 0
    free_at: float = 0.0
    calm: int = 0
    silent: int = 0


class Fetcher:
    """Fetches files. Safe for use by several threads.

    `timeout`: seconds for a whole file, headers, redirects and tries included, but no wait between them. `deadline`:
    the moment of `time.monotonic` after which nothing is asked any more. `delay`: seconds between two requests to a
    host. `headers`: sent to the origins that are `trust`ed. `client` asks, one of our own by default; `pause` waits.
    """

    def __init__(
        self,
        timeout: float,
        *,
        deadline: float | None = None,
        delay: float = 0.0,
        headers: tuple[tuple[str, str], ...] = (),
        agent: str = "",
        client: Client | None = None,
        pause: Callable[[float], None] | None = None,
    ) -> None:
        self.deadline = deadline
        self._timeout = timeout
        self._delay = delay
        self._headers = headers
        self._agent = agent or AGENT
        self._made = client
        self._pause = pause or self._sleep
        self._trusted: dict[str, Mapping[str, str]] = {}
        self._secrets = {value for _, value in headers if len(value) >= _SECRET}
        self._hosts: dict[str, _Host] = {}
        self._lock = threading.Condition()
        self._ended = False

    @classmethod
    def of(cls, options: Options) -> Fetcher:
        """One that keeps to the options of a check that begins now."""
        return cls(
            options.timeout,
            deadline=None if options.max_time is None else time.monotonic() + options.max_time,
            delay=options.delay,
            headers=options.headers,
            agent=options.user_agent or "",
        )

    @property
    def _client(self) -> Client:
        """Made when first asked for: a check of local files loads no HTTP library."""
        with self._lock:
            if self._made is None:
                from sitemap_etl.web import Client

                self._made = Client(step=min(_STEP, self._timeout), agent=self._agent)
            if self._ended:
                self._made.stop()
            return self._made

    def close(self) -> None:
        self.stop()
        if self._made is not None:
            self._made.close()

    def stop(self) -> None:
        """End the requests of other threads."""
        with self._lock:
            self._ended = True
            self._lock.notify_all()
        if self._made is not None:
            self._made.stop()

    def trust(self, url: str, credentials: tuple[str, str] | None = None) -> None:
        """Send the headers that were given, and a user name and password, to the origin of an address."""
        headers = dict(self._headers)
        if credentials is not None:
            user, password = credentials
            basic = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Basic {basic}"
            self._secrets |= {secret for secret in (basic, password) if len(secret) >= _SECRET}
        self._trusted[origin(url)] = headers

    def is_public(self, url: str) -> bool:
        """Whether the host of an address is on the public internet; True where that can't be known."""
        try:
            return self._client.is_public(url)
        except Stopped:
            raise
        except WebError:
            return True

    def get(self, url: str, limit: int, faults: Faults, *, guarded: bool) -> Taken | None:
        """The file, at most `limit` bytes of it; None where there is no answer, `faults` says why.

        `guarded`: only public addresses are asked. Raises `Stopped` where no time is left.
        """
        try:
            found = self._tried(url, limit, guarded=guarded)
        except Stopped:
            raise
        except WebError as error:
            _report(error, url, faults)
            return None
        here = shown_address(found.url)
        if found.status != 200:
            faults.add("http-status", example=here, detail=f"status {found.status}{self._why(url, found)}")
            return Taken(b"", found.url, found.status)
        if found.hops:
            faults.add("redirect", example=shown_address(url), detail=f"to {here}")
        headers = found.headers
        return Taken(
            found.body, found.url, found.status, headers.get("content-type", ""), headers.get("content-encoding", "")
        )

    def _why(self, url: str, found: Fetched) -> str:
        """What may explain an answer that is no success."""
        if found.status in _BUSY and (wait := found.retry_after(datetime.now(UTC))):
            return f", it asks to wait {wait:,.0f} seconds"
        if found.status in (401, 403) and self.sent(url) and not self.sent(found.url):
            return ", after a redirect to another origin, which is sent neither headers nor passwords"
        return ""

    def _tried(self, url: str, limit: int, *, guarded: bool) -> Fetched:
        """The answer of the last try that was needed. Raises `WebError`."""
        host = self._host(url)
        if host.silent >= _SILENT:
            words = f"was not asked: its host did not answer {_SILENT} times in a row"
            raise _NotAsked(shown_address(url), words)
        left = self._timeout
        for attempt in range(1, _TRIES + 1):
            begun = time.monotonic()
            try:
                with self._turn(host):
                    begun = time.monotonic()
                    found = self._client.request(
                        "GET",
                        url,
                        limit=limit,
                        seconds=self.within(left),
                        redirects=REDIRECTS,
                        guarded=guarded,
                        encoded=True,
                        redact=self.redacted,
                        hop=self._hops(),
                    )
            except (Stopped, InvalidAddress, PrivateAddress, TooManyRedirects, Untrusted):
                raise
            except WebError:
                self.within(left)
                left -= time.monotonic() - begun
                if attempt == _TRIES or left <= 0:
                    host.silent += 1
                    raise
                wait = 0.5 * 2**attempt
            else:
                left -= time.monotonic() - begun
                wait = self._heard(host, found) or 0.5 * 2**attempt
                if found.status not in _AGAIN or attempt == _TRIES or wait > _LONGEST_WAIT or left <= 0:
                    return found
            self._rest(wait)
        raise AssertionError("the last try returns or raises")

    def within(self, seconds: float) -> float:
        """As many seconds, or what is left of all. Raises `Stopped` where that is nothing."""
        left = seconds if self.deadline is None else min(seconds, self.deadline - time.monotonic())
        if left <= 0:
            raise Stopped("the check", "has no time left")
        return left

    def _host(self, url: str) -> _Host:
        with self._lock:
            return self._hosts.setdefault(_netloc(url), _Host())

    @contextmanager
    def _turn(self, host: _Host) -> Iterator[None]:
        """Wait until the host may be asked, and ask it."""
        with self._lock:
            while host.busy >= host.most and not self._ended:
                self._lock.wait()
            host.busy += 1
        try:
            self._wait_for(host)
            yield
        finally:
            with self._lock:
                host.busy -= 1
                self._lock.notify_all()

    def _wait_for(self, host: _Host) -> None:
        """Wait for the moment of the next request to a host."""
        with self._lock:
            now = time.monotonic()
            begin = max(now, host.free_at)
            host.free_at = begin + self._delay
        if begin > now:
            self._rest(begin - now)

    def _sleep(self, seconds: float) -> None:
        self._client.sleep(seconds)

    def _rest(self, seconds: float) -> None:
        """Wait. Raises `Stopped` where no time would be left."""
        self._pause(self.within(seconds))
        self.within(seconds)

    def _hops(self) -> Callable[[str], Mapping[str, str]]:
        """What is sent to each hop of a request; the hops after the first wait for their turn as well."""
        first = True

        def hop(url: str) -> Mapping[str, str]:
            nonlocal first
            if not first:
                self._wait_for(self._host(url))
            first = False
            return self.sent(url)

        return hop

    def sent(self, url: str) -> Mapping[str, str]:
        """The headers for an address."""
        try:
            return self._trusted.get(origin(url), {})
        except ValueError:
            return {}

    def _heard(self, host: _Host, found: Fetched) -> float | None:
        """Learn from an answer how often the host may be asked; the seconds that it asks to wait."""
        wait = found.retry_after(datetime.now(UTC)) if found.status in _AGAIN else None
        with self._lock:
            host.silent = 0
            if found.status in _BUSY:
                host.most, host.calm = max(1, host.most // 2), 0
                if wait is not None and wait <= _LONGEST_WAIT:
                    host.free_at = max(host.free_at, time.monotonic() + wait)
            else:
                host.calm += 1
                if host.calm >= _CALM and host.most < PER_HOST:
                    host.most, host.calm = host.most + 1, 0
        return wait

    def redacted(self, text: str) -> str:
        """A text without the secrets that were given."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _report(error: WebError, url: str, faults: Faults) -> None:
    """Report a request that got no response."""
    asked = shown_address(url)
    if isinstance(error, PrivateAddress):
        faults.add("private-address", example=error.url, detail=error.words)
    elif isinstance(error, TooManyRedirects):
        faults.add("redirect-limit", example=asked, detail=f"more than {REDIRECTS}, the last one to {error.url}")
    elif isinstance(error, Misled):
        faults.add("redirect-invalid", example=asked, detail=str(error)[:300])
    elif isinstance(error, InvalidAddress) and error.hops:
        faults.add(
            "redirect-invalid", example=asked, detail=f"it redirects to {error.url[:200]}, {_unasked(error.url)}"
        )
    elif isinstance(error, InvalidAddress):
        faults.add("loc-invalid", example=error.url, detail=str(error.__cause__ or error)[:200])
    elif isinstance(error, _NotAsked):
        faults.add("not-asked", detail=error.words)
    else:
        # The file is named by the address that was asked, so only another one is worth an example.
        example = "" if error.url == asked else error.url
        hint = f"; {_TRUST}" if isinstance(error, Untrusted) else ""
        faults.add("unreachable", example=example, detail=f"{error.words[:300]}{hint}")


def _unasked(address: str) -> str:
    """Why an address that a redirect names can't be asked."""
    try:
        parts = urlsplit(address)
    except ValueError:  # brackets that hold no address
        return "which is no valid address"
    if parts.scheme not in {"http", "https"}:
        return "which is neither http nor https"
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return "whose port is not a number from 1 to 65535"
    return "which is no valid address" if parts.hostname else "which has no host"
