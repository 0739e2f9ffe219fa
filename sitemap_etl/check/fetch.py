"""Getting a file over HTTP, three times if need be; why it can't be had is a finding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from sitemap_etl.check.report import Faults
from sitemap_etl.web import (
    REDIRECTS,
    Client,
    Fetched,
    InvalidAddress,
    PrivateAddress,
    Stopped,
    TooManyRedirects,
    Untrusted,
    WebError,
    shown_address,
)

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


class Fetcher:
    """Fetches files. Safe for use by several threads.

    `timeout` in seconds for each step, ten times that for a whole file, redirects included. `client` asks, one of our
    own by default; `pause` waits between tries.
    """

    def __init__(
        self, timeout: float, *, client: Client | None = None, pause: Callable[[float], None] | None = None
    ) -> None:
        self._client = client or Client(step=timeout, purpose="check")
        self._pause = pause or self._client.sleep
        self._longest = 10 * timeout

    def close(self) -> None:
        self._client.close()

    def stop(self) -> None:
        """End what is under way in other threads."""
        self._client.stop()

    def is_public(self, url: str) -> bool:
        """Whether the host of an address is on the public internet; True where that can't be known."""
        try:
            return self._client.is_public(url)
        except WebError:
            return True

    def get(self, url: str, limit: int, faults: Faults, *, guarded: bool) -> Taken | None:
        """The file, at most `limit` bytes of it; None where there is none, `faults` says why.

        `guarded`: only public addresses are asked.
        """
        try:
            found = self._tried(url, limit, guarded=guarded)
        except Stopped:
            raise
        except WebError as error:
            _tell(error, url, faults)
            return None
        here = shown_address(found.url)
        if found.status != 200:
            faults.add("http-status", example=here, detail=f"status {found.status}")
            return None
        if found.hops:
            faults.add("redirect", example=shown_address(url), detail=f"to {here}")
        headers = found.headers
        return Taken(
            found.body, found.url, found.status, headers.get("content-type", ""), headers.get("content-encoding", "")
        )

    def _tried(self, url: str, limit: int, *, guarded: bool) -> Fetched:
        """The answer of the last try that was needed. Raises `WebError`."""
        for attempt in range(1, _TRIES + 1):
            try:
                found = self._client.request(
                    "GET",
                    url,
                    limit=limit,
                    seconds=self._longest,
                    redirects=REDIRECTS,
                    guarded=guarded,
                    encoded=True,
                )
            except (Stopped, InvalidAddress, PrivateAddress, TooManyRedirects, Untrusted):
                raise
            except WebError:
                if attempt == _TRIES:
                    raise
            else:
                if found.status not in _AGAIN or attempt == _TRIES:
                    return found
            self._pause(0.5 * 2**attempt)
        raise AssertionError("the last try returns or raises")


def _tell(error: WebError, url: str, faults: Faults) -> None:
    """The finding that a request without an answer is."""
    asked = shown_address(url)
    if isinstance(error, PrivateAddress):
        faults.add("private-address", example=error.url, detail=error.words)
    elif isinstance(error, TooManyRedirects):
        faults.add("redirect-limit", example=asked, detail=f"more than {REDIRECTS}, last to {error.url}")
    elif isinstance(error, InvalidAddress) and error.hops and urlsplit(error.url).scheme not in {"http", "https"}:
        faults.add("redirect", example=asked, detail=f"to {error.url[:200]}, which is not http")
    elif isinstance(error, InvalidAddress):
        faults.add("loc-invalid", example=error.url, detail=str(error.__cause__ or error)[:200])
    else:
        faults.add("unreachable", example=error.url, detail=error.words[:300])
