"""Bing Webmaster Tools: submits every changed index as a feed.

https://learn.microsoft.com/dotnet/api/microsoft.bing.webmaster.api.interfaces.iwebmasterapi.submitfeed
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

from sitemap_etl import settings
from sitemap_etl.engines.engine import HttpEngine, answer, one_by_one
from sitemap_etl.engines.exchange import Exchange, Reply
from sitemap_etl.engines.ledger import Book, Pending
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import Refused, Unavailable

ALREADY: Final = 12
BUSY: Final = (1, 4, 5)
"""Error codes for which a later try may succeed: InternalError, ThrottleUser, ThrottleHost."""
WORDS: Final = {
    3: "the API key is not valid; see Bing Webmaster Tools, Settings, API access",
    6: "the user of the API key is blocked",
    7: "the address is not a valid URL",
    8: "a parameter is not valid",
    10: "the user of the API key is unknown",
    11: "the site is not in Bing Webmaster Tools; add and verify it there, or set site: to its name there",
    13: "the user of the API key may not do this",
    14: "the user of the API key has no access to this site; verify it in Bing Webmaster Tools",
    16: "this API is no longer available",
}
"""Meanings of the error codes (ApiErrorCode in the same documentation)."""


class Bing(HttpEngine[settings.Bing]):
    """`ping.bing`. The password of a `connection` is the API key."""

    name: ClassVar[str] = "bing"

    def notify(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        pending = Pending(book)
        pending.enter(submission.run_id, {"submit": submission.addresses()}, again=submission.all)
        pending.retain("submit", [index.address for index in submission.indexes])

        def submit(address: str) -> None:
            self._submit(exchange, self.settings.site or submission.site, address)
            pending.settle("submit", address)

        notified, refusals, fault = one_by_one(pending.of("submit"), submit)
        if fault is not None:
            raise fault
        return answer(
            self.name, notified, refusals, what="index", nothing="no index changed", details={"indexes": notified}
        )

    def _submit(self, exchange: Exchange, site: str, address: str) -> None:
        reply = exchange.request(
            "POST",
            f"{self.settings.endpoint.rstrip('/')}/SubmitFeed",
            f"submitting {address}",
            busy=lambda reply: _code(reply) in BUSY,
            params={"apikey": self.settings.key.text if self.settings.key else ""},
            json={"siteUrl": site, "feedUrl": address},
        )
        code = _code(reply)
        if code == ALREADY or (reply.ok and not code and (not reply.body.strip() or reply.json() is not None)):
            return
        if reply.ok and not code:
            raise Unavailable(f"the response to submitting {address} was {reply.status}, but not JSON.")
        words = WORDS.get(code, "the reason is not documented")
        raise Refused(f"submitting {address} was refused: {words} ({reply.said()}).")


def _code(reply: Reply) -> int:
    """Return Bing's error code, or 0."""
    data: Any = reply.json()
    code = data.get("ErrorCode") if isinstance(data, dict) else None
    return code if isinstance(code, int) else 0
