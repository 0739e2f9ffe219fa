"""Origin of a site, address of its published files, and whether files at that address can list the site's URLs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, Literal

import ada_url

_QUOTES: Final = "“”„‟‘’‚‛«»\"' "


def canonical_origin(text: str) -> str:
    """Return `https://shop.example` for `HTTPS://Shop.example:443/`: lower case, IDNA, no default port, no slash.

    Raise ValueError with the expected form if the text is not an origin with http or https.
    """
    url = _parse(text)
    if url.pathname not in ("", "/") or url.search or url.hash or "?" in text or "#" in text:
        raise ValueError("an origin without a path (scheme, host and port), such as https://shop.example")
    return f"{url.protocol}//{url.host}"


def canonical_address(text: str) -> str:
    """Return the canonical address of a folder, with a slash at its end. Raise ValueError with the expected form."""
    url = _parse(text)
    if url.search or url.hash or "?" in text or "#" in text:
        raise ValueError("the address of a folder, without ? and #")
    href: str = url.href
    return href if href.endswith("/") else href + "/"


def meant(text: str, canonical: Callable[[str], str]) -> str | None:
    """Return the address that was probably meant, or None: without odd quotes, with a scheme, without extra parts."""
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
    """Return True if sitemaps at an address can list the URLs of a site (sitemaps.org: location).

    `covered`: they are at the root of the site. `same_host`: they are in a folder, or under another scheme or port, so
    robots.txt must name them or the site must be verified in Search Console. `other_host`: the site's robots.txt must
    name them, or both hosts must be verified in Search Console.
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
