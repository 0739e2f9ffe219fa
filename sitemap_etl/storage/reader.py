"""A stored object as a file that is read in pieces, for readers that seek: Parquet, above all."""

from __future__ import annotations

import io
from typing import Any

from sitemap_etl.storage.protocol import Storage

_READ_AHEAD = 1 << 20


def open_object(storage: Storage, key: str, size: int) -> io.BufferedReader:
    """The object under `key`, of `size` bytes, to be read and sought in. Memory holds a megabyte of it."""
    return io.BufferedReader(_Object(storage, key, size), _READ_AHEAD)


class _Object(io.RawIOBase):
    """The raw file below the buffer."""

    def __init__(self, storage: Storage, key: str, size: int) -> None:
        self._storage, self._key, self._size, self._at = storage, key, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._size - self._at))
        if length:
            buffer[:length] = self._storage.read(self._key, self._at, length)
            self._at += length
        return length
