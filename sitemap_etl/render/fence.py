"""The fence: what tells two writes of the same content apart, so that a late request of a dead run fails.

An ETag stands for bytes, not for a version of them: a request on the condition of an ETag holds again once those
bytes are back. So content that comes back is put with a mark that its key never had. The mark is no part of the
content, and no reader sees it: in gzip it is the header's comment (FCOMMENT, RFC 1952), in XML a comment after the
root element. A text sitemap has no comments and may hold nothing but URLs; there it is a last line of spaces and tabs.
In robots.txt it stands in our block (`robots`).
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from typing import Final

_FLAGS: Final = 3
"""The byte of a gzip header that says which optional fields follow its first ten bytes."""
_HEADER: Final = 10
_COMMENT: Final = 0x10
_MARK: Final = rb"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}(?:-[0-9]+)?"
"""The id of a run, and the number of its claim from the second on."""
_XML: Final = re.compile(rb"<!-- " + _MARK + rb" -->\n\Z")
_BITS: Final = 64
_TEXT: Final = re.compile(rb"(?<=\n)[ \t]{%d}\n\Z" % _BITS)

FENCE_BYTES: Final = 48
"""So many bytes of an uncompressed sitemap are left free for a mark."""


def fenced(key: str, data: bytes, mark: str) -> bytes:
    """A file of ours, as it is stored under `key`, with this mark, instead of another where it has one."""
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
    """What a stored file says: uncompressed, and without a mark. None where it can't be unpacked."""
    if key.endswith(".gz"):
        try:
            return gzip.decompress(data)
        except (OSError, EOFError, zlib.error):
            return None
    return _unmarked(key, data)


def _unmarked(key: str, data: bytes) -> bytes:
    return without_blank_line(data) if key.endswith(".txt") else _XML.sub(b"", data)


def without_blank_line(data: bytes) -> bytes:
    """A text sitemap without the last line that is its mark."""
    return _TEXT.sub(b"", data)
