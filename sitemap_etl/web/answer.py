"""What comes of a request: an answer, whatever its status, or why there is none. Loads no HTTP library.

WebError
├── InvalidAddress       (Refused)       no http or https address that can be asked
├── PrivateAddress       (Refused)       only public addresses were to be asked, and the host has another one
├── Untrusted            (Refused)       the host has a certificate that this machine does not trust
├── TooManyRedirects     (Refused)
├── TooLarge             (Refused)       more bytes than the caller can use any of
├── Unreachable          (Unavailable)   nothing was sent: no such name, nobody listens, no connection in time
├── Unanswered           (Unavailable)   it was sent, whole or in part, and no whole answer came
└── Stopped              (Unavailable)   the client was stopped meanwhile
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
"""Redirects that are followed where any are (RFC 9309, 2.3.1.2, asks for five of a robots.txt)."""
LONGEST_WAIT: Final = 86_400
"""Seconds of a Retry-After that are believed."""


class WebError(SitemapEtlError):
    """A request that got no answer. `words` follow the address in a message: "can't be reached (…)".

    `url`: the address that was asked when it happened, `hops` those that had redirected to it, all without passwords.
    `slow`: time ran out.
    """

    def __init__(self, url: str, words: str, *, hops: tuple[str, ...] = (), slow: bool = False) -> None:
        super().__init__(f"{url} {words}")
        self.url = url
        self.words = words
        self.hops = hops
        self.slow = slow


class InvalidAddress(WebError, Refused):
    """No http or https address that can be asked."""


class Misled(InvalidAddress):
    """The answer redirects to what is no address at all."""


class PrivateAddress(WebError, Refused):
    """The host is at an address that may not be asked."""


class Untrusted(WebError, Refused):
    """The host has a certificate that this machine does not trust."""


class TooManyRedirects(WebError, Refused):
    """More redirects than were to be followed."""


class TooLarge(WebError, Refused):
    """More bytes than the caller can use any of."""


class Unreachable(WebError, Unavailable):
    """Nothing was sent."""


class Unanswered(WebError, Unavailable):
    """The request went out, whole or in part, and no whole answer came: it may have been taken."""


class Stopped(WebError, Unavailable):
    """The client was stopped while it waited."""


class Fetched(Frozen):
    """An answer. `url` gave it, `hops` had redirected there; `shown_address` makes them fit to print.

    `headers`: names in lower case. `body`: at most `limit` bytes, `whole` False where it was cut there. `coding`: what
    could not be undone of its Content-Encoding, "" for nothing.
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
        """Where it redirects to, as it is written there; "" where it does not."""
        return self.headers.get("location", "") if self.status in (301, 302, 303, 307, 308) else ""

    def retry_after(self, now: datetime) -> float | None:
        """Seconds that a Retry-After asks for (RFC 9110, 10.2.3: seconds or a date), None where it asks for none."""
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
