"""What a live sitemap says of its pages beside their addresses and dates, which exports do not have."""

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
    """What a file of a live sitemap says beside loc and lastmod, in words; nothing where it can't be read again.

    `target`: where the sitemap is. Of a public one no private address is asked, as when it was read.
    """
    try:
        source = _source(name, target, options, fetcher)
        document = None if source is None else opened(source, options.max_bytes, Faults(name)).document
    except SitemapEtlError:  # above all: no time is left
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
    """A list as a sentence has it."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
