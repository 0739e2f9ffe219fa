"""Results of a request: an answer with any status, or an error. Loads no HTTP library.

WebError
├── InvalidAddress       (Refused)       not a valid http or https address
├── PrivateAddress       (Refused)       only public addresses were allowed, and the host has a private one
├── Untrusted            (Refused)       the host has a certificate that this machine does not trust
├── TooManyRedirects     (Refused)
├── TooLarge             (Refused)       more bytes than the caller can use
├── Unreachable          (Unavailable)   nothing was sent: unknown name, refused or late connection
├── Unanswered           (Unavailable)   it was sent, at least in part, without a complete answer
└── Stopped              (Unavailable)   the client was stopped
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from sitemap_etl.errors import Refused, SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen

REDIRECTS: Final = 5
"""Redirects that are followed (RFC 9309, 2.3.1.2, requires five for a robots.txt)."""
LONGEST_WAIT: Final = 86_400
"""Longest Retry-After that counts, in seconds."""


class WebError(SitemapEtlError):
    """A request without an answer.

    words: the text after the address in a message: "can't be reached (…)".
    url: the address of the failed request.
    hops: the addresses that redirected to it. All addresses are without passwords.
    slow: True if time ran out.
    """

    def __init__(self, url: str, words: str, *, hops: tuple[str, ...] = (), slow: bool = False) -> None:
        super().__init__(f"{url} {words}")
        self.url = url
        self.words = words
        self.hops = hops
        self.slow = slow


class InvalidAddress(WebError, Refused):
    """The address is not a valid http or https address."""


class Misled(InvalidAddress):
    """The answer redirects to an invalid address."""


class PrivateAddress(WebError, Refused):
    """The host has an address that can't be requested."""


class Untrusted(WebError, Refused):
    """The host has a certificate that this machine does not trust."""


class TooManyRedirects(WebError, Refused):
    """There are more redirects than the limit."""


class TooLarge(WebError, Refused):
    """The answer has more bytes than the caller can use."""


class Unreachable(WebError, Unavailable):
    """Nothing was sent."""


class Unanswered(WebError, Unavailable):
    """The request was sent, at least in part, without a complete answer. The server may have acted on it."""


class Stopped(WebError, Unavailable):
    """The client was stopped while it waited."""


class Fetched(Frozen):
    """Answer of `url`, after the redirects of `hops`. Use `shown_address` to print them.

    headers: names in lower case.
    body: at most `limit` bytes.
    whole: False if the body was cut at the limit.
    coding: the part of its Content-Encoding that could not be decoded, or "".
    """

    url: str
    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    whole: bool = True
    coding: str = ""
    hops: tuple[str, ...] = ()

    @property
    def moved(self) -> str:
        """The target of a redirect, as written in the header, or ""."""
        return self.headers.get("location", "") if self.status in (301, 302, 303, 307, 308) else ""

    def retry_after(self, now: datetime) -> float | None:
        """Return the seconds of a Retry-After (RFC 9110, 10.2.3: seconds or a date), or None."""
        text = self.headers.get("retry-after", "").strip()
        try:
            if text.isdigit():
                wait = float(text)
            else:
                moment = parsedate_to_datetime(text)
                wait = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return None
        return min(wait, LONGEST_WAIT) if wait > 0 else None
