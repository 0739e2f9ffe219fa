"""Render the sitemap index (https://www.sitemaps.org/protocol.html#index)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sitemap_etl import limits
from sitemap_etl.escape import escaped

_HEADER: Final = f'<?xml version="1.0" encoding="UTF-8"?>\n<sitemapindex xmlns="{limits.NS_SITEMAP}">\n'
_FOOTER: Final = "</sitemapindex>\n"


def document(entries: Sequence[tuple[str, str | None]]) -> bytes:
    """Return an index of `(address, lastmod)` pairs, in the given order.

    Raise ValueError if the index would be invalid: no entry or more than 50,000, more than 52,428,800 bytes, or an
    address with more than 2,047 characters.
    """
    if not entries:
        raise ValueError("an index must list at least one sitemap")
    if len(entries) > limits.SITEMAP_ROWS:
        raise ValueError(f"the index lists {len(entries):,} sitemaps, but at most {limits.SITEMAP_ROWS:,} are allowed")
    lines = [_HEADER]
    for address, lastmod in entries:
        if len(address) > limits.LOC_LENGTH:
            raise ValueError(
                f"the address of a sitemap has more than {limits.LOC_LENGTH:,} characters: {address[:100]}…"
            )
        date = f"<lastmod>{escaped(lastmod)}</lastmod>" if lastmod else ""
        lines.append(f"<sitemap><loc>{escaped(address)}</loc>{date}</sitemap>\n")
    lines.append(_FOOTER)
    data = "".join(lines).encode()
    if len(data) > limits.SITEMAP_BYTES:
        raise ValueError(f"the index has {len(data):,} bytes, but at most {limits.SITEMAP_BYTES:,} are allowed")
    return data
