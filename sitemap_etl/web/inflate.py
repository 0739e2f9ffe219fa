"""Unpacking gzip, however damaged, up to a bound."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from isal import isal_zlib

GZIP: Final = b"\x1f\x8b"
"""How gzip data begins."""
_WBITS: Final = 31
"""zlib's word for a gzip header and trailer."""
_STEP: Final = 1 << 20
"""Bytes unpacked at a time."""


@dataclass(frozen=True)
class Inflated:
    """Unpacked data, at most the limit of it; `fault` and `detail` say what is wrong with the gzip data."""

    data: bytes
    fault: Literal["", "truncated", "damaged", "trailing"] = ""
    detail: str = ""


def inflated(data: bytes, limit: int) -> Inflated:
    """Gzip data unpacked, at most `limit` bytes of it; what lies behind them is not looked at.

    Several members one after the other are one file, and zeros after the last are padding (RFC 1952).
    """
    parts: list[bytes] = []
    size = 0
    rest = data
    while rest.startswith(GZIP):
        member = isal_zlib.decompressobj(_WBITS)
        feed: bytes = rest
        try:
            while not member.eof and size < limit:
                part = member.decompress(feed, min(_STEP, limit - size))
                feed = member.unconsumed_tail
                parts.append(part)
                size += len(part)
                if not part and not feed and not member.eof:
                    detail = f"{len(data):,} bytes unpack to {size:,} and then end"
                    return Inflated(b"".join(parts), "truncated", detail)
        except isal_zlib.error as error:  # type: ignore[misc]  # the stubs take it for a function
            return Inflated(b"".join(parts), "damaged", f"after {size:,} unpacked bytes: {error}")
        if not member.eof:
            return Inflated(b"".join(parts))
        rest = member.unused_data
        if rest.strip(b"\0") == b"":
            rest = b""
    return Inflated(b"".join(parts), "trailing", f"{len(rest):,} bytes") if rest else Inflated(b"".join(parts))
