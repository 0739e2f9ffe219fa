"""WebSub: notify hubs of changed feeds.

https://www.w3.org/TR/websub/ does not define publishing. All public hubs accept `hub.mode=publish` with `hub.url`s.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from sitemap_etl import settings
from sitemap_etl.connections import Connection
from sitemap_etl.engines.engine import HttpEngine, answer
from sitemap_etl.engines.exchange import Exchange, origin_of
from sitemap_etl.engines.ledger import Book, Pending
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import Refused, Unavailable


class WebSub(HttpEngine[settings.WebSub]):
    """`ping.websub`.

    A hub that requires a login gets `login` and `password`, which a `connection` may hold.
    """

    name: ClassVar[str] = "websub"
    secret_paths: ClassVar[tuple[str, ...]] = ("hub",)

    @classmethod
    def credentials(cls, connection: Connection) -> Mapping[str, str]:
        return {"login": connection.login, "password": connection.password}

    def notify(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        pending = Pending(book)
        # A whole address may be a secret: the ledger knows it by its host and its place in the list.
        hubs = {f"{number} {exchange.redact(origin_of(hub))}": hub for number, hub in enumerate(self.settings.hub, 1)}
        pending.enter(submission.run_id, {hub: list(submission.feeds) for hub in hubs}, again=submission.all)
        notified: list[str] = []
        refusals: list[Refused] = []
        fault: Unavailable | None = None
        for shown, hub in hubs.items():
            feeds = pending.of(shown)
            try:
                if feeds:
                    self._publish(exchange, hub, feeds)
                    pending.settle(shown, *feeds)
                    notified += feeds
            except Refused as refused:
                refusals.append(refused)
            except Unavailable as unavailable:
                fault = unavailable
        if fault is not None:
            raise fault
        details = {"feeds": notified, "hubs": [exchange.redact(origin_of(hub)) for hub in self.settings.hub]}
        return answer(
            self.name, list(dict.fromkeys(notified)), refusals, what="feed", nothing="no feed changed", details=details
        )

    def _publish(self, exchange: Exchange, hub: str, feeds: tuple[str, ...]) -> None:
        options: dict[str, Any] = {"data": {"hub.mode": "publish", "hub.url": list(feeds)}}
        login, password = self.settings.login or "", self.settings.password.text if self.settings.password else ""
        if login or password:
            options["auth"] = (login, password)
            exchange.redact.learn(":".join(options["auth"]))  # as HTTP Basic writes it
        what = f"publishing {feeds[0]}" + (f" and {len(feeds) - 1} more" if len(feeds) > 1 else "")
        reply = exchange.request("POST", hub, what, **options)
        if not reply.ok:
            raise Refused(
                f"the hub {exchange.redact(origin_of(hub))} refused {what} ({reply.said()}). "
                "Check that the feeds name this hub and that it accepts publishers."
            )
