"""WebSub: the hubs of the feeds are told which feeds changed.

https://www.w3.org/TR/websub/ leaves publishing to the hub; all public hubs take `hub.mode=publish` with `hub.url`s.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, SecretStr

from sitemap_etl.connections import Connection
from sitemap_etl.engines.engine import HttpAddress, HttpEngine, answer
from sitemap_etl.engines.exchange import Exchange, origin_of
from sitemap_etl.engines.ledger import Book, Dues
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import Refused, Unavailable


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class WebSub(HttpEngine):
    """`ping.websub`. `hub`: one address or several.

    A hub that wants to know who publishes gets `login` and `password`, which a `connection` may give.
    """

    name: ClassVar[str] = "websub"
    secret_paths: ClassVar[tuple[str, ...]] = ("hub",)

    hub: Annotated[tuple[HttpAddress, ...], BeforeValidator(_several)]
    login: str | None = None
    password: SecretStr | None = None

    @classmethod
    def credentials(cls, connection: Connection) -> dict[str, Any]:
        return {"login": connection.login, "password": connection.password}

    def tell(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        dues = Dues(book)
        # A whole address may be a secret: the ledger knows it by its host and its place in the list.
        hubs = {f"{number} {exchange.redact(origin_of(hub))}": hub for number, hub in enumerate(self.hub, 1)}
        dues.enter(submission.run_id, {hub: list(submission.feeds) for hub in hubs}, again=submission.all)
        told: list[str] = []
        refusals: list[Refused] = []
        fault: Unavailable | None = None
        for shown, hub in hubs.items():
            feeds = dues.owed(shown)
            try:
                if feeds:
                    self._publish(exchange, hub, feeds)
                    dues.settle(shown, *feeds)
                    told += feeds
            except Refused as refused:
                refusals.append(refused)
            except Unavailable as unavailable:
                fault = unavailable
        if fault is not None:
            raise fault
        details = {"feeds": told, "hubs": [exchange.redact(origin_of(hub)) for hub in self.hub]}
        return answer(
            self.name, list(dict.fromkeys(told)), refusals, what="feed", nothing="no feed changed", details=details
        )

    def _publish(self, exchange: Exchange, hub: str, feeds: tuple[str, ...]) -> None:
        options: dict[str, Any] = {"data": {"hub.mode": "publish", "hub.url": list(feeds)}}
        if self.login or self.password:
            options["auth"] = (self.login or "", self.password.get_secret_value() if self.password else "")
            exchange.redact.learn(":".join(options["auth"]))  # as HTTP Basic writes it
        what = f"publishing {feeds[0]}" + (f" and {len(feeds) - 1} more" if len(feeds) > 1 else "")
        reply = exchange.request("POST", hub, what, **options)
        if not reply.ok:
            raise Refused(
                f"websub: the hub {exchange.redact(origin_of(hub))} refused {what} ({reply.said()}). "
                "Check that the feeds name this hub and that it takes publishers."
            )
