"""Fence marks: make two writes of the same content different, so that a late request of a dead run fails.

An ETag identifies bytes, not a version. If the same bytes returned, a late request with the old ETag as its condition
would succeed again. So every public write has a mark that is unique for its claim. The mark is not part of the content,
and readers don't see it:

- gzip: the comment of the header (FCOMMENT, RFC 1952)
- XML: a comment after the root element
- text sitemap: a last line of spaces and tabs, because comments are not allowed
- robots.txt: in our block (`robots`)
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from typing import Final

_FLAGS: Final = 3
"""Offset of the byte in a gzip header that lists the optional fields after its first ten bytes."""
_HEADER: Final = 10
_COMMENT: Final = 0x10
_MARK: Final = rb"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}(?:-[0-9]+)?"
"""ID of a run, with the number of its claim from the second claim on."""
_XML: Final = re.compile(rb"<!-- " + _MARK + rb" -->\n\Z")
_BITS: Final = 64
_TEXT: Final = re.compile(rb"(?<=\n)[ \t]{%d}\n\Z" % _BITS)

FENCE_BYTES: Final = 48
"""Bytes of an uncompressed sitemap that are reserved for a mark."""


def fenced(key: str, data: bytes, mark: str) -> bytes:
    """Return a file with this mark, as it is stored under `key`. It replaces an existing mark."""
    if key.endswith(".gz"):
        body = data.index(b"\0", _HEADER) + 1 if data[_FLAGS] & _COMMENT else _HEADER
        header = data[:_FLAGS] + bytes([data[_FLAGS] | _COMMENT]) + data[_FLAGS + 1 : _HEADER]
        return b"".join([header, mark.encode("latin-1"), b"\0", memoryview(data)[body:]])
    data = _unmarked(key, data)
    if key.endswith(".txt"):
        number = int.from_bytes(hashlib.sha256(mark.encode()).digest()[: _BITS // 8])
        return data + f"{number:0{_BITS}b}\n".translate({ord("0"): " ", ord("1"): "\t"}).encode()
    return data + f"<!-- {mark} -->\n".encode()


def content(key: str, data: bytes) -> bytes | None:
    """Return the content of a stored file, uncompressed and without a mark, or None if it can't be decompressed."""
    if key.endswith(".gz"):
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
    return _unmarked(key, data)


def _unmarked(key: str, data: bytes) -> bytes:
    return without_blank_line(data) if key.endswith(".txt") else _XML.sub(b"", data)


def without_blank_line(data: bytes) -> bytes:
    """Return a text sitemap without the last line that is its mark."""
    return _TEXT.sub(b"", data)
