"""Unpacking gzip, however damaged, up to a bound."""

from __future__ import annotations

from typing import Final

from isal import isal_zlib

from sitemap_etl.check.report import Faults

MAGIC: Final = b"\x1f\x8b"
_GZIP: Final = 31
"""`wbits` for a gzip header and trailer."""
_STEP: Final = 1 << 20
"""Bytes unpacked at a time."""


def inflated(data: bytes, faults: Faults, limit: int) -> tuple[bytes, bool]:
    """The unpacked data, at most `limit` bytes of it, and whether the gzip data is whole.

    Several members one after the other are one file, and zeros after the last are padding (RFC 1952).
    """
    parts: list[bytes] = []
    size = 0
    rest = data
    while rest.startswith(MAGIC):
        member = isal_zlib.decompressobj(_GZIP)
        feed: bytes = rest
        try:
            while not member.eof and size < limit:
                part = member.decompress(feed, min(_STEP, limit - size))
                feed = member.unconsumed_tail
                parts.append(part)
                size += len(part)
                if not part and not feed and not member.eof:
                    faults.add("gzip-truncated", detail=f"{len(data):,} bytes unpack to {size:,} and then end")
                    return b"".join(parts), False
        except isal_zlib.error as error:  # type: ignore[misc]  # the stubs take it for a function
            faults.add("gzip-damaged", detail=f"after {size:,} unpacked bytes: {error}")
            return b"".join(parts), False
        if not member.eof:
            return b"".join(parts), True
        rest = member.unused_data
        if rest.strip(b"\0") == b"":
            rest = b""
    if rest:
        faults.add("gzip-trailing", detail=f"{len(rest):,} bytes")
    return b"".join(parts), True
