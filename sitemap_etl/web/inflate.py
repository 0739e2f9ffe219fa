"""Decompress gzip and deflate data, even if damaged, up to a limit."""

from __future__ import annotations

from typing import Final, Literal

from isal import isal_zlib

from sitemap_etl.frozen import Frozen

GZIP: Final = b"\x1f\x8b"
"""First bytes of gzip data."""
MEMBERS: Final = 100_000
"""Maximum number of members. Tools that write many members put 64 KiB into each, so more are an attack."""
_WBITS: Final = 31
"""zlib's `wbits` for a gzip header and trailer."""
_ZLIB: Final = 15
"""zlib's `wbits` for its own header and trailer."""
_BARE: Final = -15
"""zlib's `wbits` for data without header and trailer."""
_STEP: Final = 1 << 20
"""Bytes that are decompressed at a time."""
_WINDOW: Final = 1 << 16
"""Bytes of input at a time. Unused input is copied, so it must be small."""


class Inflated(Frozen):
    """Decompressed data up to the limit, with the fault of the gzip data and its detail."""

    data: bytes
    fault: Literal["", "truncated", "damaged", "trailing"] = ""
    detail: str = ""


def inflated(data: bytes, limit: int) -> Inflated:
    """Decompress at most `limit` bytes of gzip data, and ignore the rest.

    Several members in a row are one file, and zeros after the last one are padding (RFC 1952).
    """
    parts: list[bytes] = []
    size = at = members = 0
    while data.startswith(GZIP, at):
        if members == MEMBERS:
            return Inflated(b"".join(parts), "damaged", f"more than {MEMBERS:,} gzip members")
        members += 1
        member = isal_zlib.decompressobj(_WBITS)
        feed = b""
        try:
            while not member.eof and size < limit:
                if not feed:
                    feed = data[at : at + _WINDOW]
                    at += len(feed)
                part = member.decompress(feed, min(_STEP, limit - size))
                feed = member.unconsumed_tail
                parts.append(part)
                size += len(part)
                if not part and not feed and at == len(data) and not member.eof:
                    detail = f"{len(data):,} bytes unpack to {size:,} and then end"
                    return Inflated(b"".join(parts), "truncated", detail)
        except isal_zlib.error as error:  # type: ignore[misc]  # the stubs take it for a function
            return Inflated(b"".join(parts), "damaged", f"after {size:,} unpacked bytes: {error}")
        if not member.eof:
            return Inflated(b"".join(parts))
        at -= len(member.unused_data)
    rest = len(data) - at
    if rest and data.count(b"\0", at) != rest:
        return Inflated(b"".join(parts), "trailing", f"{rest:,} bytes")
    return Inflated(b"".join(parts))


def undeflated(data: bytes, limit: int) -> bytes | None:
    """Decompress at most `limit` bytes of a body in `deflate`, or return None if it is in another encoding.

    The encoding means zlib's format (RFC 9110, section 8.4.1.2). Some servers send the bare data without its header.
    """
    for window in (_ZLIB, _BARE):
        member = isal_zlib.decompressobj(window)
        try:
            content = member.decompress(data, limit)
        except isal_zlib.error:  # type: ignore[misc]  # the stubs take it for a function
            continue
        if member.eof or len(content) >= limit:
            return bytes(content)
    return None
