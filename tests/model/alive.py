"""What a visitor finds on the pages of these sites: decided by their addresses, so that the model knows it too."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence

from sitemap_etl.pages import Fault, Visit


def is_bad(loc: str) -> bool:
    """Every ninth page or so is gone."""
    return zlib.crc32(loc.encode()) % 9 == 0


def is_unknown(loc: str) -> bool:
    """As many don't answer."""
    return zlib.crc32(loc.encode()) % 9 == 1


def visits(urls: Sequence[str], _seconds: float) -> Iterator[Visit]:
    """The visits of an `Environment`, the last page first: they come in any order."""
    for loc in reversed(urls):
        if is_unknown(loc):
            yield Visit(loc, unknown="status 503")
        else:
            yield Visit(loc, (Fault("status", "status 404"),) if is_bad(loc) else ())
