"""Plain HTTP ping: GET of an address that contains the percent-encoded address of the index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final
from urllib.parse import quote

from sitemap_etl import settings
from sitemap_etl.connections import Connection
from sitemap_etl.engines.engine import HttpEngine, answer, one_by_one
from sitemap_etl.engines.exchange import Exchange, origin_of
from sitemap_etl.engines.ledger import Book, Pending
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import Refused

SITEMAP: Final = "{sitemap}"
LOGIN: Final = "{login}"
PASSWORD: Final = "{password}"  # noqa: S105 the name of a placeholder, not a secret


class HttpPing(HttpEngine[settings.HttpPing]):
    """`ping.http_ping`.

    `login` and `password`, which a `connection` can contain, replace `{login}` and `{password}`. Without these, they
    are sent as HTTP Basic.
    """

    name: ClassVar[str] = "http_ping"
    secret_paths: ClassVar[tuple[str, ...]] = ("url",)

    @classmethod
    def credentials(cls, connection: Connection) -> Mapping[str, str]:
        return {"login": connection.login, "password": connection.password}

    def notify(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        pending = Pending(book)
        # A whole address may be a secret: the ledger knows it by its host and its place in the list.
        places = {f"{number} {exchange.redact(origin_of(t))}": t for number, t in enumerate(self._templates(), 1)}
        pending.enter(submission.run_id, dict.fromkeys(places, submission.addresses()), again=submission.all)
        notified: list[str] = []
        refusals: list[Refused] = []
        faults = []
        for place, template in places.items():
            pending.retain(place, [index.address for index in submission.indexes])

            def ping(address: str, place: str = place, template: str = template) -> None:
                self._ping(exchange, template, address)
                pending.settle(place, address)

            taken, refused, fault = one_by_one(pending.of(place), ping)
            notified += taken
            refusals += refused
            faults += [fault] if fault else []
        if faults:
            raise faults[0]
        notified = list(dict.fromkeys(notified))
        return answer(
            self.name, notified, refusals, what="index", nothing="no index changed", details={"indexes": notified}
        )

    def _templates(self) -> list[str]:
        return [template.text for template in self.settings.url]

    def _ping(self, exchange: Exchange, template: str, address: str) -> None:
        login, password = self.settings.login or "", self.settings.password.text if self.settings.password else ""
        options: dict[str, Any] = {}
        if (login or password) and LOGIN not in template and PASSWORD not in template:
            options["auth"] = (login, password)
            exchange.redact.learn(f"{login}:{password}")  # as HTTP Basic writes it
        url = template
        for place, value in ((LOGIN, login), (PASSWORD, password), (SITEMAP, address)):
            url = url.replace(place, quote(value, safe=""))
        reply = exchange.request("GET", url, f"pinging for {address}", **options)
        if not reply.ok:
            raise Refused(
                f"{exchange.redact(origin_of(template))} refused the ping for {address} ({reply.said()}). "
                "If it no longer accepts pings, remove it from ping.http_ping."
            )
