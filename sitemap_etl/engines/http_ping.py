"""A plain HTTP ping for whoever still takes one: GET of an address with the index percent-encoded in it."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar, Final
from urllib.parse import quote, urlsplit

from pydantic import AfterValidator, BeforeValidator, SecretStr

from sitemap_etl.connections import Connection
from sitemap_etl.engines.engine import HttpEngine, answer, http_address, one_by_one
from sitemap_etl.engines.exchange import Exchange, origin_of
from sitemap_etl.engines.ledger import Book, Dues
from sitemap_etl.engines.submission import Answer, Submission
from sitemap_etl.errors import Refused

SITEMAP: Final = "{sitemap}"
LOGIN: Final = "{login}"
PASSWORD: Final = "{password}"  # noqa: S105 the name of a place, not what goes there


def dead_ping(url: str) -> str | None:
    """What to use instead of a ping address that no longer listens, None for any other address."""
    try:
        parts = urlsplit(url)
        host, path = (parts.hostname or "").removeprefix("www."), parts.path.lower()
    except ValueError:
        return None
    if re.fullmatch(r"google\.[a-z.]+", host) and re.match(r"/(ping|webmasters/(tools|sitemaps)/ping)\b", path):
        return (
            "Google's ping address is gone: deprecated on 2023-06-26, it answers 404. "
            "Use ping.search_console, and the Sitemap line of robots.txt"
        )
    if re.fullmatch(r"bing\.com", host) and re.match(r"/(ping|webmaster/ping\.aspx)\b", path):
        return (
            "Bing's ping address is gone: it has answered 410 since 2021-12. "
            "Use ping.indexnow or ping.bing, and the Sitemap line of robots.txt"
        )
    return None


def _template(value: SecretStr) -> SecretStr:
    template = value.get_secret_value()
    if (instead := dead_ping(template)) is not None:
        raise ValueError(instead)
    if SITEMAP not in template:
        raise ValueError(f"expected {SITEMAP} in it: the place of the index's address")
    http_address(template)
    return value


def _several(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


class HttpPing(HttpEngine):
    """`ping.http_ping`. `url`: one address or several, each with `{sitemap}` in it.

    `login` and `password`, which a `connection` may give, go where `{login}` and `{password}` stand; where neither
    does, as HTTP Basic.
    """

    name: ClassVar[str] = "http_ping"
    secret_paths: ClassVar[tuple[str, ...]] = ("url",)

    url: Annotated[tuple[Annotated[SecretStr, AfterValidator(_template)], ...], BeforeValidator(_several)]
    login: str | None = None
    password: SecretStr | None = None

    @classmethod
    def credentials(cls, connection: Connection) -> dict[str, Any]:
        return {"login": connection.login, "password": connection.password}

    def tell(self, submission: Submission, book: Book, exchange: Exchange) -> Answer:
        dues = Dues(book)
        # A whole address may be a secret: the ledger knows it by its host and its place in the list.
        places = {f"{number} {exchange.redact(origin_of(t))}": t for number, t in enumerate(self._templates(), 1)}
        dues.enter(submission.run_id, dict.fromkeys(places, submission.told()), again=submission.all)
        told: list[str] = []
        refusals: list[Refused] = []
        faults = []
        for place, template in places.items():
            dues.keep(place, [index.address for index in submission.indexes])

            def ping(address: str, place: str = place, template: str = template) -> None:
                self._ping(exchange, template, address)
                dues.settle(place, address)

            taken, refused, fault = one_by_one(dues.owed(place), ping)
            told += taken
            refusals += refused
            faults += [fault] if fault else []
        if faults:
            raise faults[0]
        told = list(dict.fromkeys(told))
        return answer(self.name, told, refusals, what="index", nothing="no index changed", details={"indexes": told})

    def _templates(self) -> list[str]:
        return [template.get_secret_value() for template in self.url]

    def _ping(self, exchange: Exchange, template: str, address: str) -> None:
        login, password = self.login or "", self.password.get_secret_value() if self.password else ""
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
                f"http_ping: {exchange.redact(origin_of(template))} refused the ping for {address} ({reply.said()}). "
                "If it takes pings no more, remove it from ping.http_ping."
            )
