"""What can be wrong with a robots.txt, as far as sitemaps go."""

from __future__ import annotations

import re
from typing import Final

from sitemap_etl.check.report import Faults
from sitemap_etl.limits import ROBOTS_BYTES

_FIELD: Final = re.compile(r"\s*([A-Za-z][A-Za-z-]*)\s*:")
_SITEMAP: Final = re.compile(r"\s*sitemap\s*:\s*([^#\r\n]*)", re.IGNORECASE)
_ABSOLUTE: Final = re.compile(r"https?://[^/?#\s]", re.IGNORECASE)


def check_robots(data: bytes, faults: Faults) -> list[tuple[str, int]]:
    """The sitemaps that a robots.txt names, absolute ones only, each with its line; faults are reported."""
    if len(data) > ROBOTS_BYTES:
        faults.add("robots-large", at=ROBOTS_BYTES, detail=f"{len(data):,} bytes")
    found: list[tuple[str, int]] = []
    fields = others = 0
    example = ""
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        bare = line.partition("#")[0].strip("\ufeff \t")
        if not bare:
            continue
        if _FIELD.match(bare) is None:
            others += 1
            example = example or line
            continue
        fields += 1
        named = _SITEMAP.match(line.lstrip("\ufeff"))
        if named is None:
            continue
        url = named[1].strip()
        if _ABSOLUTE.match(url):
            found.append((url, number))
        else:
            faults.add("robots-sitemap-relative", line=number, example=line.strip())
    if others and not fields:
        faults.add("robots-not-text", line=1, example=example)
    return found
