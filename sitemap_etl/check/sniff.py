"""What a file is, from its first bytes: indexes are read before the files they list."""

from __future__ import annotations

from typing import Final

from sitemap_etl.check.document import Kind, kind_of
from sitemap_etl.check.report import Faults
from sitemap_etl.check.sources import Source, WebFile
from sitemap_etl.web import GZIP, inflated

_SNIFF: Final = 65_536
"""Bytes of a file that tell what it is."""


def sniffed(source: Source) -> Kind | None:
    """What a file that costs nothing to look at seems to be; None for one on the net, or broken."""
    if isinstance(source, WebFile):
        return None
    taken = source.take(_SNIFF, Faults(source.name))
    if taken is None:
        return None
    data = taken.data
    if data.startswith(GZIP):
        unpacked = inflated(data, _SNIFF)  # of a large file the beginning is here, so it does end too early
        if unpacked.fault == "damaged":
            return None
        data = unpacked.data
    return kind_of(data, source.name)


def is_meant(source: Source, key: str) -> bool:
    """Whether a file that was come across in a folder is a sitemap, or wants to be."""
    base = key.rpartition("/")[2].lower()
    if "sitemap" in base or base == "robots.txt":
        return True
    kind = sniffed(source)
    if kind == "text":
        taken = source.take(_SNIFF, Faults(key))
        return taken is not None and (
            base.endswith(".gz") or taken.data.lstrip(b"\xef\xbb\xbf\r\n ").startswith(b"http")
        )
    return kind in {"urlset", "index", "rss", "atom"}
