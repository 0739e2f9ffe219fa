"""The site's origin, the address of the published files, and what the one may carry for the other."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

import ada_url

_QUOTES: Final = "“”„‟‘’‚‛«»\"' "


def canonical_origin(text: str) -> str:
    """`https://shop.example` of `HTTPS://Shop.example:443/`: lower case, IDNA, no default port, no slash.

    ValueError with what was expected where it is no origin of http or https.
    """
    url = _parse(text)
    if url.pathname not in ("", "/") or url.search or url.hash or "?" in text or "#" in text:
        raise ValueError("an origin without a path (scheme, host and port), such as https://shop.example")
    return f"{url.protocol}//{url.host}"


def canonical_address(text: str) -> str:
    """The address of a folder, canonical and with a slash at its end. ValueError with what was expected."""
    url = _parse(text)
    if url.search or url.hash or "?" in text or "#" in text:
        raise ValueError("the address of a folder, without ? and #")
    href: str = url.href
    return href if href.endswith("/") else href + "/"


def meant(text: str, canonical: Callable[[str], str]) -> str | None:
    """The address that was probably meant: without odd quotes, with a scheme, without what it may not have."""
    plain = text.strip(_QUOTES)
    whole = plain if "://" in plain else f"https://{plain}"
    if "@" in whole or not re.match(r"https?://([^/?#]+\.[^/?#]+|localhost)", whole, re.IGNORECASE):
        return None
    for candidate in (whole, re.sub(r"[?#].*", "", whole), "/".join(whole.split("/")[:3])):
        try:
            return canonical(candidate)
        except ValueError:
            continue
    return None


def scope_problem(site: str, at: str) -> Literal["covered", "same_host", "other_host"]:
    """How far sitemaps at an address cover the locs of a site by themselves (sitemaps.org: location).

    `covered`: they lie at the site's top. `same_host`: in a folder, or under another scheme or port, so
    that robots.txt or Search Console must vouch for them. `other_host`: only robots.txt of the site, or
    Search Console for both hosts, can.
    """
    if at == f"{site}/":
        return "covered"
    return "same_host" if ada_url.URL(site).hostname == ada_url.URL(at).hostname else "other_host"


def _parse(text: str) -> ada_url.URL:
    scheme, colon, rest = text.strip().partition("://")
    if not colon or scheme.lower() not in ("http", "https"):
        raise ValueError("an address that begins with https:// or http://")
    try:
        url = ada_url.URL(text.strip())
    except ValueError as error:
        raise ValueError("a valid address with a host, such as https://shop.example") from error
    if url.username or url.password or "@" in rest.partition("/")[0]:
        raise ValueError("an address without user name and password, because it is published")
    return url
