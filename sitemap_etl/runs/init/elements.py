"""Elements of a live sitemap beyond addresses and dates, which exports don't have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.options import Options
from sitemap_etl.check.read import opened
from sitemap_etl.check.report import Faults
from sitemap_etl.check.sources import Source, WebFile, given
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.web import shown_address

_ELEMENTS: Final = {
    "images": re.compile(rb"<[^\s<>:/]+:image[\s>]"),
    "videos": re.compile(rb"<[^\s<>:/]+:video[\s>]"),
    "news": re.compile(rb"<[^\s<>:/]+:news[\s>]"),
    "hreflang": re.compile(rb"<[^<>]*\shreflang\s*="),
    "changefreq": re.compile(rb"<(?:[^\s<>:/]+:)?changefreq[\s>]"),
    "priority": re.compile(rb"<(?:[^\s<>:/]+:)?priority[\s>]"),
}


def elements_in(name: str, target: str, options: Options, fetcher: Fetcher) -> list[str]:
    """Return the names of elements in a live sitemap's file beyond loc and lastmod, or none if it can't be read again.

    `target`: address of the sitemap. If it is public, private addresses are not accessed, as in the first read.
    """
    try:
        source = _source(name, target, options, fetcher)
        document = None if source is None else opened(source, options.max_bytes, Faults(name)).document
    except SitemapEtlError:  # mostly because the time limit is reached
        return []
    if document is None or document.kind != "urlset":
        return []
    return [what for what, pattern in _ELEMENTS.items() if pattern.search(document.data)]


def _source(name: str, target: str, options: Options, fetcher: Fetcher) -> Source | None:
    (found,) = given([name], options)
    if found.url:
        return WebFile(found.url, fetcher, guarded=fetcher.is_public(shown_address(target)))
    return None if found.shelf is None else found.shelf.find(found.key)


def in_words(names: Iterable[str]) -> str:
    """Return names as a list in a sentence."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
