"""Getting a file over HTTP: bounded in size, time and redirects, each hop judged."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urljoin, urlsplit, urlunsplit

import httpx

import sitemap_etl
from sitemap_etl.check.guard import GuardedTransport, PrivateAddress
from sitemap_etl.check.report import Faults

REDIRECTS: Final = 5
"""Hops that are followed; Google follows five for a robots.txt as well (RFC 9309 section 2.3.1.2)."""
_TRIES: Final = 3
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses that may be others a moment later."""


@dataclass(frozen=True)
class Taken:
    """The bytes of a file as they lie or were sent, at most the limit of them.

    `address` is where they were found in the end. `status` is 0 for what is no HTTP.
    """

    data: bytes
    address: str | None = None
    status: int = 0
    content_type: str = ""
    content_encoding: str = ""


def shown_address(url: str) -> str:
    """The address without user name and password."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Fetcher:
    """Fetches files. Safe for use by several threads.

    `pause` waits between tries; `timeout` in seconds for each step, ten times that for a whole file.
    """

    def __init__(
        self, timeout: float, *, transport: GuardedTransport | None = None, pause: Callable[[float], None] = time.sleep
    ) -> None:
        self._transport = transport or GuardedTransport()
        self._pause = pause
        self._longest = 10 * timeout
        self._client = httpx.Client(
            transport=self._transport,
            timeout=timeout,
            follow_redirects=False,
            trust_env=False,
            headers={
                "User-Agent": f"sitemap_etl/{sitemap_etl.__version__} (check)",
                "Accept": "*/*",
                "Accept-Encoding": "gzip",
            },
        )

    def close(self) -> None:
        self._client.close()

    def is_public(self, url: str) -> bool:
        """Whether the host of an address is on the public internet; True where that can't be known."""
        parts = urlsplit(url)
        try:
            return self._transport.is_public(
                parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
            )
        except (OSError, ValueError):
            return True

    def get(self, url: str, limit: int, faults: Faults, *, guarded: bool) -> Taken | None:
        """The file, at most `limit` bytes of it; None where there is none, `faults` says why.

        `guarded`: only public addresses are asked.
        """
        here = url
        for hop in range(REDIRECTS + 1):
            answer = self._tried(here, limit, faults, guarded=guarded)
            if answer is None:
                return None
            taken, location = answer
            if location is None:
                if taken.status != 200:
                    faults.add("http-status", example=shown_address(here), detail=f"status {taken.status}")
                    return None
                if hop:
                    faults.add("redirect", example=shown_address(url), detail=f"to {shown_address(here)}")
                return taken
            target = urljoin(here, location)
            if urlsplit(target).scheme not in {"http", "https"}:
                faults.add("redirect", example=shown_address(url), detail=f"to {target[:200]}, which is not http")
                return None
            here = target
        faults.add(
            "redirect-limit", example=shown_address(url), detail=f"more than {REDIRECTS}, last to {shown_address(here)}"
        )
        return None

    def _tried(self, url: str, limit: int, faults: Faults, *, guarded: bool) -> tuple[Taken, str | None] | None:
        problem = ""
        for attempt in range(_TRIES):
            if attempt:
                self._pause(0.5 * 2**attempt)
            try:
                taken, location = self._once(url, limit, guarded=guarded)
            except PrivateAddress as error:
                faults.add("private-address", example=shown_address(url), detail=str(error))
                return None
            except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError, ValueError) as error:
                faults.add("loc-invalid", example=shown_address(url), detail=str(error)[:200])
                return None
            except (httpx.HTTPError, OSError) as error:
                problem = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                continue
            if taken.status not in _AGAIN or attempt == _TRIES - 1:
                return taken, location
        faults.add("unreachable", example=shown_address(url), detail=problem[:300])
        return None

    def _once(self, url: str, limit: int, *, guarded: bool) -> tuple[Taken, str | None]:
        """One request. The body is read as it is sent: Content-Encoding is for the caller to undo."""
        begun = time.monotonic()
        with self._client.stream("GET", url, extensions={"guarded": guarded}) as response:
            location = response.headers.get("location") if response.is_redirect else None
            parts: list[bytes] = []
            size = 0
            if location is None and response.status_code == 200:
                for part in response.iter_raw(1 << 16):
                    parts.append(part)
                    size += len(part)
                    if size >= limit:
                        break
                    if time.monotonic() - begun > self._longest:
                        raise httpx.ReadTimeout(f"no end after {self._longest:.0f} seconds")
            return (
                Taken(
                    b"".join(parts)[:limit],
                    url,
                    response.status_code,
                    response.headers.get("content-type", ""),
                    response.headers.get("content-encoding", ""),
                ),
                location,
            )
