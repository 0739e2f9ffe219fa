"""The responses of the pages of these sites. They depend on the URLs alone, so that the model knows them too."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from sitemap_etl.pages import Fault, Visit


def is_bad(loc: str) -> bool:
    """Return True for about every ninth page, which is missing."""
    return zlib.crc32(loc.encode()) % 9 == 0


def is_unknown(loc: str) -> bool:
    """Return True for about as many pages, which don't answer."""
    return zlib.crc32(loc.encode()) % 9 == 1


def visits(urls: Sequence[str], _seconds: float) -> Iterator[Visit]:
    """Return the visits for an `Environment`, the last page first: results can have any order."""
    for loc in reversed(urls):
        if is_unknown(loc):
            yield Visit(loc, unknown="status 503")
        else:
            yield Visit(loc, (Fault("status", "status 404"),) if is_bad(loc) else ())
