"""Compressed text with wrong checksums, because of a faulty writer: decompressed without verification.

Only used with `verify: false`. gzip: https://www.rfc-editor.org/rfc/rfc1952.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Final

_READ: Final = 256 * 1024
_MAGIC: Final = b"\x1f\x8b\x08"
_HEAD: Final = 10
_TAIL: Final = 8
"""Bytes of checksum and size after a member."""
_HEADER_SUM, _EXTRA, _NAME, _COMMENT = 2, 4, 8, 16

Read = Callable[[int], bytes]


def gunzip(read: Read) -> Read:
    """Return a reader of the text of all members. Reading raises EOFError or zlib.error if one is damaged."""
    pieces = _members(_Bytes(read))

    def text(_size: int) -> bytes:
        return next(pieces, b"")

    return text


def without_sum(member: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """Return the member of an archive without its checksum, so that `zipfile` doesn't compare it."""
    del member.CRC
    return member


class _Bytes:
    """Bytes of a reader that are taken in pieces of any size."""

    def __init__(self, read: Read) -> None:
        self._read = read
        self.held = b""

    def fill(self, count: int) -> bool:
        """Buffer at least `count` bytes. Return False if the reader ends before."""
        while len(self.held) < count:
            more = self._read(_READ)
            if not more:
                return False
            self.held += more
        return True

    def take(self, count: int) -> bytes:
        if not self.fill(count):
            raise EOFError("the file ends within a member of gzip")
        taken, self.held = self.held[:count], self.held[count:]
        return taken

    def take_text(self) -> None:
        """Skip a text and its terminating zero."""
        while self.take(1) != b"\0":
            pass


def _members(source: _Bytes) -> Iterator[bytes]:
    while source.fill(1):
        if not source.held.strip(b"\0"):  # padding
            source.held = b""
            continue
        _skip_header(source)
        inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        while not inflate.eof:
            if not source.fill(1):
                raise EOFError("the file ends within a member of gzip")
            text = inflate.decompress(source.held, _READ * 8)
            source.held = inflate.unused_data if inflate.eof else inflate.unconsumed_tail
            if text:
                yield text
        source.take(_TAIL)


def _skip_header(source: _Bytes) -> None:
    head = source.take(_HEAD)
    if not head.startswith(_MAGIC):
        raise zlib.error("a member of gzip has another header")
    flags = head[3]
    if flags & _EXTRA:
        source.take(int.from_bytes(source.take(2), "little"))
    for named in (_NAME, _COMMENT):
        if flags & named:
            source.take_text()
    if flags & _HEADER_SUM:
        source.take(2)
