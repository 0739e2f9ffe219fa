"""Find the sitemaps of a site from its home page: first through robots.txt, then at the usual addresses."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import urlsplit

from sitemap_etl.check.document import sniffed
from sitemap_etl.check.fetch import Fetcher
from sitemap_etl.check.report import Faults, Finding
from sitemap_etl.check.sources import WebFile
from sitemap_etl.urls import origin

USUAL: Final = (
    "/sitemap.xml",
    "/sitemap_index.xml",
    "/sitemap-index.xml",
    "/sitemap.xml.gz",
    "/wp-sitemap.xml",
    "/sitemaps.xml",
    "/sitemap/sitemap.xml",
    "/sitemap.txt",
)
"""Addresses at which content management systems and shops publish a sitemap, the most frequent first."""
_BEGINNING: Final = 65_536
"""Bytes that are enough to recognize a sitemap."""
_ROBOTS: Final = 512_000
"""Bytes of a robots.txt that crawlers read (RFC 9309, section 2.5)."""
_SITEMAP: Final = re.compile(rb"^[ \t]*sitemap[ \t]*:[ \t]*\S", re.IGNORECASE | re.MULTILINE)


def is_home(url: str) -> bool:
    """Return True if an address is a home page: without a path, a query and a fragment."""
    parts = urlsplit(url)
    return parts.path in {"", "/"} and not parts.query and not parts.fragment


def sitemaps_of(url: str, fetcher: Fetcher, *, guarded: bool, robots: bool) -> tuple[list[WebFile], str, list[Finding]]:
    """Return the files to check for a site, a sentence about how they were found, and why the site did not answer.

    The file is robots.txt if it names sitemaps, otherwise the first of the usual addresses with a sitemap. If there is
    neither, the list is empty. There are findings only if no request was answered, of the first one. `robots`:
    robots.txt can be requested. Raise `Stopped`.
    """
    home = origin(url)
    before, first, answered = "", None, False
    for path in (*(["/robots.txt"] if robots else []), *USUAL):
        faults = Faults(home + path)
        taken = fetcher.get(home + path, _ROBOTS if path == "/robots.txt" else _BEGINNING, faults, guarded=guarded)
        first, answered = first or faults, answered or taken is not None
        file = WebFile(home + path, fetcher, guarded)
        if path == "/robots.txt":
            named = len(_SITEMAP.findall(taken.data)) if taken is not None else 0
            if named:
                return [file], f"{home}/robots.txt names {named:,} sitemap{'s' if named > 1 else ''}.", []
            before = f"{home}/robots.txt {'names no sitemap' if taken is not None else 'did not answer'}; "
        elif taken is not None and sniffed(taken.data, path) in {"urlset", "index", "text"}:
            return [file], f"{before}a sitemap was found at {home}{path}.", []
    found = [] if answered or first is None else list(first.findings())
    return [], f"{before}no sitemap was found at the usual addresses ({', '.join(USUAL)}).", found
