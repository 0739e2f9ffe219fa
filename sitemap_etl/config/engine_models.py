"""The engines as a run uses them: their keys as they stand, secrets by reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sitemap_etl.config.secret import Secret
from sitemap_etl.config.value import Value


class Engine(Value):
    """What all engines have: a connection that may hold their secret, and how many seconds they may ask us to wait."""

    connection: str | None
    patience: float | None

    def settings(self, environ: Mapping[str, str]) -> dict[str, Any]:
        """The keys that are set, as `ping.engine` takes them, with the secrets themselves: for the ping stage only.

        ConfigError where a secret is not to be had.
        """
        found: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, tuple):
                found[name] = [item.reveal(environ) if isinstance(item, Secret) else item for item in value]
            elif value is not None:
                found[name] = value.reveal(environ) if isinstance(value, Secret) else value
        return found


class IndexNow(Engine):
    """One of `key` and `connection` is set."""

    key: Secret | None
    key_location: str | None
    endpoint: str
    daily_limit: int
    max_share: float


class SearchConsole(Engine):
    """One of `key` (a service account's key file, or its JSON) and `connection` is set."""

    property: str
    key: Secret | None
    endpoint: str


class Bing(Engine):
    """One of `key` and `connection` is set."""

    key: Secret | None
    site: str | None
    endpoint: str


class WebSub(Engine):
    """The hubs, which the feeds name too."""

    hub: tuple[str, ...]
    login: str | None
    password: Secret | None


class HttpPing(Engine):
    """The addresses hold `{sitemap}`."""

    url: tuple[Secret, ...]
    login: str | None
    password: Secret | None


class Ping(Value):
    """The engines that are told; None: not this one."""

    indexnow: IndexNow | None = None
    search_console: SearchConsole | None = None
    bing: Bing | None = None
    websub: WebSub | None = None
    http_ping: HttpPing | None = None

    def engines(self) -> dict[str, Engine]:
        """Those that are set, by name."""
        return {name: engine for name in Ping.model_fields if (engine := getattr(self, name)) is not None}
