"""The keys below `ping.<engine>`, as one writes them: what each takes, its default, its meaning."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from sitemap_etl import limits
from sitemap_etl.config.kinds import (
    Connection,
    Integer,
    IsSecret,
    Keys,
    Number,
    SecretText,
    Text,
    Texts,
    matching,
    unlike,
    wrong,
)

INDEXNOW: Final = "https://api.indexnow.org/indexnow"
"""Shared by all engines that take part (indexnow.org)."""
SEARCH_CONSOLE: Final = "https://www.googleapis.com/webmasters/v3"
BING: Final = "https://ssl.bing.com/webmaster/api.svc/json"
_HERE = frozenset({"localhost", "127.0.0.1", "::1"})


def _is_address(text: str) -> bool:
    """Whether it is an absolute http(s) address with a host."""
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


def _secure(value: str) -> str:
    parts = urlsplit(_address(value))
    if parts.scheme != "https" and parts.hostname not in _HERE:
        raise unlike("an https:// address, since a secret is sent there")
    return value


def _dead(template: str) -> str | None:
    """What to use instead of a ping address that no longer listens."""
    parts = urlsplit(template)
    host, path = (parts.hostname or "").removeprefix("www."), parts.path.lower()
    if re.fullmatch(r"google\.[a-z.]+", host) and re.match(r"/(ping|webmasters/(tools|sitemaps)/ping)\b", path):
        return "Google's ping address is gone: it answers 404 since 2024. Use ping.search_console"
    if host == "bing.com" and re.match(r"/(ping|webmaster/ping\.aspx)\b", path):
        return "Bing's ping address is gone: it answers 410 since 2021. Use ping.indexnow or ping.bing"
    return None


def _ping_addresses(values: list[str]) -> list[str]:
    """Checks templates as they stand; what a variable in them holds is not known yet."""
    for value in values:
        known = "${" not in value
        if known and "{sitemap}" not in value:
            raise wrong("lacks {sitemap}, which stands for the percent-encoded address of the index")
        if not value.startswith("${") and not _is_address(re.sub(r"\$?\{[^}]*\}", "x", value)):
            raise wrong("expected an absolute address, such as https://engine.example/ping?sitemap={sitemap}")
        if not value.startswith("${") and (instead := _dead(value)):
            raise wrong(instead)
    return values


def _indexnow_key(value: str) -> str:
    shortest, longest = limits.INDEXNOW_KEY
    if "${" not in value and not re.fullmatch(rf"[A-Za-z0-9-]{{{shortest},{longest}}}", value):
        raise wrong(f"expected {shortest} to {longest} letters, digits and dashes; openssl rand -hex 16 makes one")
    return value


Address = Annotated[Text, AfterValidator(_address)]
SecureAddress = Annotated[Text, AfterValidator(_secure)]


class _Engine(Keys):
    connection: Connection | None = Field(
        default=None, description="Airflow connection that holds the secret, in its place.", examples=["engines"]
    )
    patience: Number | None = Field(
        default=None, ge=0, le=3600, description="Seconds to wait at most where the engine asks for it. Default: 300."
    )

    def _needs(self, key: str, value: Any) -> None:
        if value is None and self.connection is None:
            raise wrong(f"lacks {key}, or a connection in its place", key, "connection")
        if value is not None and self.connection is not None:
            raise wrong(f"has both {key} and connection; keep one of the two")


class _KeyedEngine(_Engine):
    key: SecretText | None = None

    @model_validator(mode="after")
    def _has_key(self) -> Self:
        self._needs("key", self.key)
        return self


class IndexNowKeys(_KeyedEngine):
    """Sends added, changed and removed URLs to Bing, Yandex, Naver, Seznam, Yep and others."""

    key: Annotated[SecretText, AfterValidator(_indexnow_key)] | None = Field(
        default=None,
        description="The key; `<key>.txt` is published under `publish.root`.",
        examples=["${INDEXNOW_KEY}"],
    )
    key_location: Address | None = Field(
        default=None,
        description="Address of a key file that is there already; only URLs below its folder are sent. "
        "Default: `<key>.txt` at the top of the site.",
    )
    endpoint: SecureAddress = Field(default=INDEXNOW, description="Where the URLs are sent.")
    daily_limit: Integer = Field(
        default=limits.INDEXNOW_DAILY, ge=1, le=1_000_000, description="URLs a day (UTC); the rest goes later."
    )
    max_share: Number = Field(
        default=0.2, ge=0, le=1, description="More than this share of the site at once sends nothing and says so."
    )


class SearchConsoleKeys(_KeyedEngine):
    """Submits every index that changed to Google Search Console, and reads its errors back."""

    property: Annotated[
        Text,
        matching(
            r"sc-domain:[^\s/:]+|https?://[^\s/]+(/\S*)?",
            "a property as Search Console names it: sc-domain:shop.example or https://shop.example/",
        ),
    ] = Field(description="The property in Search Console.", examples=["sc-domain:shop.example"])
    key: SecretText | None = Field(
        default=None,
        description="A service account's key file: its path, or its JSON.",
        examples=["${GOOGLE_KEY_FILE}"],
    )
    endpoint: SecureAddress = Field(default=SEARCH_CONSOLE, description="Where the API is.")


class BingKeys(_KeyedEngine):
    """Submits the indexes to Bing Webmaster Tools."""

    key: SecretText | None = Field(default=None, description="The API key.", examples=["${BING_KEY}"])
    site: Address | None = Field(default=None, description="The site as Bing knows it. Default: `site` of the file.")
    endpoint: SecureAddress = Field(default=BING, description="Where the API is.")


class _LoginEngine(_Engine):
    login: Text | None = Field(default=None, description="User name, where one is asked for.")
    password: SecretText | None = Field(default=None, description="Its password.", examples=["${PING_PASSWORD}"])


class WebSubKeys(_LoginEngine):
    """Tells the hubs of the feeds that these changed."""

    hub: Annotated[Texts, AfterValidator(lambda hubs: [_address(hub) for hub in hubs])] = Field(
        description="Address of a hub, or a list of them; the feeds name them.",
        examples=["https://pubsubhubbub.appspot.com/"],
    )


class HttpPingKeys(_LoginEngine):
    """A plain GET for whoever still takes one."""

    url: Annotated[Texts, IsSecret(), AfterValidator(_ping_addresses)] = Field(
        description="Address, or a list of them, with `{sitemap}` for that of the index, percent-encoded. "
        "`{login}` and `{password}` are filled in too; without them these go as HTTP Basic.",
        examples=["https://engine.example/ping?sitemap={sitemap}"],
    )


class PingKeys(Keys):
    """The engines that are told what changed."""

    indexnow: IndexNowKeys | None = Field(default=None, description="Bing, Yandex, Naver, Seznam, Yep, at once.")
    search_console: SearchConsoleKeys | None = Field(default=None, description="Google.")
    bing: BingKeys | None = Field(default=None, description="Bing Webmaster Tools.")
    websub: WebSubKeys | None = Field(default=None, description="The hubs of the feeds.")
    http_ping: HttpPingKeys | None = Field(default=None, description="A plain GET.")
