"""Settings of the engines: the keys below `ping.<engine>`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, ClassVar, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from sitemap_etl import limits
from sitemap_etl.settings.kinds import (
    ConnectionId,
    Integer,
    Number,
    OneOrMore,
    Settings,
    Text,
    unlike,
    wrong,
)
from sitemap_etl.settings.secret import Form, Secret, Secretive, SecretText

_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def _is_address(text: str) -> bool:
    """Return True if the text is an absolute http(s) address with a host."""
    try:
        parts = urlsplit(text)
        found = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return found and not any(ord(character) <= 32 for character in text)


def _address(value: str) -> str:
    if not _is_address(value):
        raise unlike("an absolute address (https://…)")
    return value


def is_secure(address: str) -> bool:
    """Return True if a secret can be sent to the address: https, or this machine."""
    if not _is_address(address):
        return False
    parts = urlsplit(address)
    return parts.scheme == "https" or parts.hostname in _HERE


def _secure(value: str) -> str:
    if not is_secure(_address(value)):
        raise unlike("an https:// address, because a secret is sent to it")
    return value


def _dead(template: str) -> str | None:
    """Return advice for a ping address that no longer works, or None."""
    try:
        parts = urlsplit(template)
        host, path = (parts.hostname or "").removeprefix("www."), parts.path.lower()
    except ValueError:
        return None
    if re.fullmatch(r"google\.[a-z.]+", host) and re.match(r"/(ping|webmasters/(tools|sitemaps)/ping)\b", path):
        return (
            "Google no longer accepts pings: the address was deprecated on 2023-06-26 and returns 404. "
            "Use ping.search_console and the Sitemap line of robots.txt"
        )
    if host == "bing.com" and re.match(r"/(ping|webmaster/ping\.aspx)\b", path):
        return (
            "Bing no longer accepts pings: the address has returned 410 since 2021-12. "
            "Use ping.indexnow or ping.bing and the Sitemap line of robots.txt"
        )
    return None


def _ping_address(text: str) -> None:
    """Raise if the template is invalid. Variables in it are checked later, when it is read."""
    if "{sitemap}" not in text and "${" not in text:
        raise wrong("must contain {sitemap}, which is replaced by the percent-encoded address of the index")
    if text.startswith("${"):
        return
    if not _is_address(re.sub(r"\$?\{[^}]*\}", "x", text)):
        raise wrong("expected an absolute address, such as https://engine.example/ping?sitemap={sitemap}")
    if (instead := _dead(text)) is not None:
        raise wrong(instead)


def _indexnow_key(text: str) -> None:
    shortest, longest = limits.INDEXNOW_KEY
    if "${" not in text and not re.fullmatch(rf"[A-Za-z0-9-]{{{shortest},{longest}}}", text):
        raise wrong(
            f"expected {shortest} to {longest} letters, digits and dashes; create a key with openssl rand -hex 16"
        )


def _property(value: str) -> str:
    if re.fullmatch(r"sc-domain:[^\s/:]+", value):
        return value.lower()
    if not _is_address(value):
        raise unlike("a property as Search Console shows it, such as sc-domain:shop.example or https://shop.example/")
    return value.rstrip("/") + "/"


Address = Annotated[Text, AfterValidator(_address)]
SecureAddress = Annotated[Text, AfterValidator(_secure)]


class Engine(Secretive):
    """Base of all engines. `needs`: secrets that the site file or the connection must contain."""

    needs: ClassVar[tuple[str, ...]] = ()

    connection: ConnectionId | None = Field(
        default=None,
        description="Airflow connection that holds the secret, instead of the secret itself.",
        examples=["engines"],
    )
    patience: Number = Field(
        default=300,
        ge=0,
        le=3600,
        description="Total seconds to wait per submission if the engine asks to retry later.",
    )

    @model_validator(mode="after")
    def _has_secrets(self) -> Self:
        for key in self.needs:
            value = getattr(self, key)
            if value is None and self.connection is None:
                raise wrong(f"needs `{key}:` or `connection:`", key, "connection")
            if value is not None and self.connection is not None:
                raise wrong(f"has both `{key}:` and `connection:`; use one of them")
        return self

    def filled(self, given: Mapping[str, str]) -> Self:
        """Return the settings with the values of a connection for keys that are not set. Raise as `with_secrets`."""
        missing = {key: text for key, text in given.items() if text and getattr(self, key) is None}
        secrets = {key for key in missing if Secret.within(type(self).model_fields[key].annotation)}
        plain = self.model_copy(update={key: text for key, text in missing.items() if key not in secrets})
        return plain.with_secrets({key: (Secret.read(missing[key]),) for key in secrets})


class IndexNow(Engine):
    """Settings of IndexNow, which sends added, changed and removed URLs to Bing, Yandex, Naver and others."""

    needs: ClassVar[tuple[str, ...]] = ("key",)

    key: Annotated[SecretText, Form(_indexnow_key)] | None = Field(
        default=None,
        description="The key; `<key>.txt` is published under `publish.root`.",
        examples=["${INDEXNOW_KEY}"],
    )
    key_location: Address | None = Field(
        default=None,
        description="Address of an existing key file; only URLs below its folder are sent. "
        "Default: `<key>.txt` at the root of the site.",
    )
    endpoint: SecureAddress = Field(
        default="https://api.indexnow.org/indexnow",
        description="Address that the URLs are sent to; each participant notifies the others.",
    )
    daily_limit: Integer = Field(  # the protocol only says "too many" after the fact
        default=100_000,
        ge=1,
        le=1_000_000,
        description="Maximum number of URLs per day (UTC). Removed URLs are sent first, then added ones, then changed "
        "ones, newest lastmod first. The rest stays pending for up to seven runs.",
    )
    max_share: Number = Field(
        default=0.2,
        ge=0,
        le=1,
        description="If more than this share of the site, with the URLs that were removed, changes in one run, nothing "
        "is sent and the run says so.",
    )


class SearchConsole(Engine):
    """Settings of Google Search Console, which gets every changed index and reports its errors."""

    needs: ClassVar[tuple[str, ...]] = ("key",)

    property: Annotated[Text, AfterValidator(_property)] = Field(
        description="The property in Search Console.", examples=["sc-domain:shop.example"]
    )
    key: SecretText | None = Field(
        default=None,
        description="Key file of a service account: its path or its JSON content.",
        examples=["${GOOGLE_KEY_FILE}"],
    )
    endpoint: SecureAddress = Field(
        default="https://www.googleapis.com/webmasters/v3", description="Address of the API."
    )


class Bing(Engine):
    """Settings of Bing Webmaster Tools, which gets every changed index."""

    needs: ClassVar[tuple[str, ...]] = ("key",)

    key: SecretText | None = Field(default=None, description="The API key.", examples=["${BING_KEY}"])
    site: Address | None = Field(
        default=None, description="Address of the site in Bing Webmaster Tools. Default: `site` of the file."
    )
    endpoint: SecureAddress = Field(
        default="https://ssl.bing.com/webmaster/api.svc/json", description="Address of the API."
    )


class _LoginEngine(Engine):
    login: Text | None = Field(default=None, description="User name for HTTP Basic authentication.")
    password: SecretText | None = Field(
        default=None, description="Password for HTTP Basic authentication.", examples=["${PING_PASSWORD}"]
    )


class WebSub(_LoginEngine):
    """Settings of WebSub, which notifies hubs of changed feeds."""

    hub: OneOrMore[Address] = Field(
        description="Address of a hub, or a list of addresses. The feeds name these hubs.",
        examples=["https://pubsubhubbub.appspot.com/"],
    )


class HttpPing(_LoginEngine):
    """Settings of plain GET requests, for engines that accept them."""

    url: OneOrMore[Annotated[SecretText, Form(_ping_address)]] = Field(
        description="Address, or a list of addresses. `{sitemap}` is replaced by the percent-encoded address of the "
        "index, `{login}` and `{password}` by the credentials. Without these two, credentials are sent as HTTP Basic "
        "authentication.",
        examples=["https://engine.example/ping?sitemap={sitemap}"],
    )


class Ping(Settings):
    """Search engines to notify. Each key is the name of an engine, and of its module in `engines`."""

    indexnow: IndexNow | None = Field(
        default=None, description="IndexNow: Bing, Yandex, Naver, Seznam, Yep and Amazon."
    )
    search_console: SearchConsole | None = Field(default=None, description="Google.")
    bing: Bing | None = Field(default=None, description="Bing Webmaster Tools.")
    websub: WebSub | None = Field(default=None, description="WebSub hubs of the feeds.")
    http_ping: HttpPing | None = Field(default=None, description="A GET request to any address.")

    def engines(self) -> dict[str, Engine]:
        """Return the engines that are set, by name."""
        return {name: engine for name in type(self).model_fields if (engine := getattr(self, name)) is not None}
