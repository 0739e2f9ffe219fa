"""The engines' keys as written → the engines as a run uses them."""

from __future__ import annotations

from typing import Protocol

from sitemap_etl.config.engine_keys import (
    BingKeys,
    HttpPingKeys,
    IndexNowKeys,
    PingKeys,
    SearchConsoleKeys,
    WebSubKeys,
)
from sitemap_etl.config.engine_models import Bing, HttpPing, IndexNow, Ping, SearchConsole, WebSub
from sitemap_etl.config.reader import KeyPath
from sitemap_etl.config.secret import Secret


class Keeps(Protocol):
    """What engines need of their file: a secret by reference."""

    def secret(self, path: KeyPath, text: str) -> Secret: ...


def ping(keys: PingKeys, keeps: Keeps) -> Ping:
    """All engines that were named."""
    return Ping(
        indexnow=_indexnow(keys.indexnow, keeps) if keys.indexnow else None,
        search_console=_search_console(keys.search_console, keeps) if keys.search_console else None,
        bing=_bing(keys.bing, keeps) if keys.bing else None,
        websub=_websub(keys.websub, keeps) if keys.websub else None,
        http_ping=_http_ping(keys.http_ping, keeps) if keys.http_ping else None,
    )


def _indexnow(keys: IndexNowKeys, keeps: Keeps) -> IndexNow:
    return IndexNow(
        connection=keys.connection,
        patience=keys.patience,
        key=_secret("indexnow", "key", keys.key, keeps),
        key_location=keys.key_location,
        endpoint=keys.endpoint,
        daily_limit=keys.daily_limit,
        max_share=keys.max_share,
    )


def _search_console(keys: SearchConsoleKeys, keeps: Keeps) -> SearchConsole:
    return SearchConsole(
        connection=keys.connection,
        patience=keys.patience,
        property=keys.property,
        key=_secret("search_console", "key", keys.key, keeps),
        endpoint=keys.endpoint,
    )


def _bing(keys: BingKeys, keeps: Keeps) -> Bing:
    return Bing(
        connection=keys.connection,
        patience=keys.patience,
        key=_secret("bing", "key", keys.key, keeps),
        site=keys.site,
        endpoint=keys.endpoint,
    )


def _websub(keys: WebSubKeys, keeps: Keeps) -> WebSub:
    return WebSub(
        connection=keys.connection,
        patience=keys.patience,
        hub=tuple(keys.hub),
        login=keys.login,
        password=_secret("websub", "password", keys.password, keeps),
    )


def _http_ping(keys: HttpPingKeys, keeps: Keeps) -> HttpPing:
    return HttpPing(
        connection=keys.connection,
        patience=keys.patience,
        url=tuple(
            keeps.secret(("ping", "http_ping", "url", number), address) for number, address in enumerate(keys.url)
        ),
        login=keys.login,
        password=_secret("http_ping", "password", keys.password, keeps),
    )


def _secret(engine: str, key: str, text: str | None, keeps: Keeps) -> Secret | None:
    return keeps.secret(("ping", engine, key), text) if text is not None else None
