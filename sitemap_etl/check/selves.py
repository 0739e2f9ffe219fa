"""Find the entries of an index that name the index itself, if it is in a folder or a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from sitemap_etl.check.locs import canonical_origin
from sitemap_etl.urls import canonical_url


def roots_of(url: str, key: str) -> tuple[str, str]:
    """Return the folders of an address and of a relative path, without their common ending."""
    try:
        path = urlsplit(url).path
    except ValueError:  # brackets without an address
        path = ""
    folders, names = [unquote(part) for part in path.split("/") if part], key.split("/")
    while folders and names and folders[-1] == names[-1]:
        folders.pop()
        names.pop()
    return "/".join([canonical_origin(url), *folders]), "/".join(names)


def selves_among(urls: Sequence[str], address: str | None, key: str, roots: set[tuple[str, str]]) -> set[str]:
    """Return the addresses that belong to an index, of those that are not found beside it.

    `address` and `key`: the public address of the index, None if it is unknown, and its relative path. `roots`: those
    of the files that are found. If the address is unknown, the index has the same root as they have, or, if there
    are none, has the same path on its host as here.
    """
    # The name alone rules out nearly all of them, and is cheap to compare.
    name = _name(key if address is None else address)
    alike = {url for url in urls if _name(url) == name}
    if address is not None:
        own = _canonical(address)
        return {url for url in alike if _canonical(url) == own}
    return {url for url in alike if roots_of(url, key) in (roots or {(canonical_origin(url), "")})}


def _name(address: str) -> str:
    """Return the last part of an address or a relative path."""
    return unquote(address.partition("#")[0].partition("?")[0].rpartition("/")[2])


def _canonical(url: str) -> str:
    """Return the canonical form of an address, or the text itself if it is invalid."""
    try:
        return canonical_url(url)
    except ValueError:
        return url
