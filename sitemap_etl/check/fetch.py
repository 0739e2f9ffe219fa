"""Fetch files over HTTP politely: limit requests to a host, send headers to trusted origins, and retry.

A host gets a few parallel requests, and half as many after each 429 or 503. It gets none before the end of its
Retry-After. A host that does not answer several times in a row is left alone. Given headers and passwords go only to
the origins of the targets, whatever redirects there.
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
"""Default User-Agent. It names the program. Only users know an address where they can be reached."""
PER_HOST: Final = 8
"""Maximum parallel requests to a host."""
_STEP: Final = 30.0
"""Seconds of silence after which a request fails, if the file has more time."""
_TRIES: Final = 3
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses that are retried."""
_BUSY: Final = frozenset({429, 503})
"""Statuses of a host that gets too many requests."""
_LONGEST_WAIT: Final = 120.0
"""Longest Retry-After that is waited for, in seconds. After a longer one, the answer is final."""
_CALM: Final = 20
"""Answers in a row after which one more parallel request is allowed."""
_TRUST: Final = "to trust an authority of your own, name its file in SSL_CERT_FILE"
_SILENT: Final = 5
"""Files in a row without any answer after which a host is left alone."""
_MASK: Final = "•••"
_SECRET: Final = 4
"""Characters of the shortest secret. A shorter value is in many messages by chance."""


class _NotAsked(WebError):
    """A file was not requested, because its host did not answer before."""


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
    """State of a host.

    most: maximum parallel requests.
    busy: requests in progress.
    free_at: time of the next possible request.
    calm: answers in a row without 429 or 503.
    silent: files in a row without an answer.
    """

    most: int = PER_HOST
    busy: int = 0
    free_at: float = 0.0
    calm: int = 0
    silent: int = 0


class Fetcher:
    """Fetcher of files, for several threads.

    timeout: seconds for a whole file, with headers, redirects and retries, but without the waits between them.
    deadline: the moment of `time.monotonic` after which no request starts.
    delay: seconds between two requests to a host.
    headers: sent to origins after `trust`.
    client: sends the requests; by default, a client of its own.
    pause: waits.
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
        """Return a fetcher with the options of a check that begins now."""
        return cls(
            options.timeout,
            deadline=None if options.max_time is None else time.monotonic() + options.max_time,
            delay=options.delay,
            headers=options.headers,
            agent=options.user_agent or "",
        )

    @property
    def _client(self) -> Client:
        """HTTP client, created on first use: a check of local files loads no HTTP library."""
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
        """Send the given headers, and a user name and password, to the origin of an address."""
        headers = dict(self._headers)
        if credentials is not None:
            user, password = credentials
            basic = base64.b64encode(f"{user}:{password}".encode()).decode()
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
            headers["Authorization"] = f"Basic {basic}"
            self._secrets |= {secret for secret in (basic, password) if len(secret) >= _SECRET}
        self._trusted[origin(url)] = headers

    def is_public(self, url: str) -> bool:
        """Return True if the host of an address is on the public internet, or True if that is unknown."""
        try:
            return self._client.is_public(url)
        except Stopped:
            raise
        except WebError:
            return True

    def get(self, url: str, limit: int, faults: Faults, *, guarded: bool) -> Taken | None:
        """Return at most `limit` bytes of the file, or None if there is no answer. `faults` then has the reason.

        guarded: request only public addresses.

        Raise `Stopped` if no time is left.
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
        """Return a possible cause of an error status."""
        if found.status in _BUSY and (wait := found.retry_after(datetime.now(UTC))):
            return f", it asks to wait {wait:,.0f} seconds"
        if found.status in (401, 403) and self.sent(url) and not self.sent(found.url):
            return ", after a redirect to another origin, which is sent neither headers nor passwords"
        return ""

    def _tried(self, url: str, limit: int, *, guarded: bool) -> Fetched:
        """Return the answer of the last attempt. Raise `WebError`."""
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
        """Return `seconds`, or the time that is left if it is shorter. Raise `Stopped` if no time is left."""
        left = seconds if self.deadline is None else min(seconds, self.deadline - time.monotonic())
        if left <= 0:
            raise Stopped("the check", "has no time left")
        return left

    def _host(self, url: str) -> _Host:
        with self._lock:
            return self._hosts.setdefault(_netloc(url), _Host())

    @contextmanager
    def _turn(self, host: _Host) -> Iterator[None]:
        """Wait until the host can get a request, and count it as busy."""
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
        """Wait. Raise `Stopped` if no time would be left."""
        self._pause(self.within(seconds))
        self.within(seconds)

    def _hops(self) -> Callable[[str], Mapping[str, str]]:
        """Return a function for the headers of each hop. Hops after the first wait for their turn too."""
        first = True

        def hop(url: str) -> Mapping[str, str]:
            nonlocal first
            if not first:
                self._wait_for(self._host(url))
            first = False
            return self.sent(url)

        return hop

    def sent(self, url: str) -> Mapping[str, str]:
        """Return the headers for an address."""
        try:
            return self._trusted.get(origin(url), {})
        except ValueError:
            return {}

    def _heard(self, host: _Host, found: Fetched) -> float | None:
        """Adapt the pace of a host to its answer. Return the seconds that it asks to wait, or None."""
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
        """Return a text without the given secrets."""
        for secret in self._secrets:
            text = text.replace(secret, _MASK)
        return text


def _netloc(url: str) -> str:
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def _report(error: WebError, url: str, faults: Faults) -> None:
    """Report a request without an answer."""
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
        # The name of the file is the requested address, so only a different one is an example.
        example = "" if error.url == asked else error.url
        hint = f"; {_TRUST}" if isinstance(error, Untrusted) else ""
        faults.add("unreachable", example=example, detail=f"{error.words[:300]}{hint}")


def _unasked(address: str) -> str:
    """Return why the target of a redirect can't be requested."""
    try:
        parts = urlsplit(address)
    except ValueError:  # brackets without an address
        return "which is not a valid address"
    if parts.scheme not in {"http", "https"}:
        return "which is neither http nor https"
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        return "whose port is not a number from 1 to 65535"
    return "which is not a valid address" if parts.hostname else "which has no host"
