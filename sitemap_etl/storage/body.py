"""The bytes of a put, from bytes, buffers or a file."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sitemap_etl.errors import Denied
from sitemap_etl.storage.protocol import Data

_CHUNK = 1 << 20


class Body:
    """The bytes to put, with their size and hash. They can be read several times.

    Raise `Denied` if the data is a path that can't be read.
    """

    def __init__(self, data: Data) -> None:
        self.path = data if isinstance(data, Path) else None
        self._parts: tuple[memoryview, ...] = ()
        if isinstance(data, Path):
            try:
                self.size = data.stat().st_size
            except OSError as error:
                raise Denied(f"can't read {data} to store it: {error.strerror or error}") from error
        elif isinstance(data, bytes | bytearray | memoryview):
            self._parts = (memoryview(data).cast("B"),)
            self.size = self._parts[0].nbytes
        else:
            self._parts = tuple(memoryview(part).cast("B") for part in data)
            self.size = sum(part.nbytes for part in self._parts)

    def chunks(self) -> Iterator[memoryview]:
        """Yield all bytes in order. A file is read in pieces of at most 1 MiB."""
        if self.path is None:
            yield from self._parts
            return
        with self.path.open("rb", buffering=0) as file:
            # Not larger than the file: clearing a whole chunk costs several times as much as hashing a small file.
            buffer = memoryview(bytearray(min(_CHUNK, max(self.size, 1))))
            while count := file.readinto(buffer):
                yield buffer[:count]

    def sha256(self) -> str:
        """Return the SHA-256 of all bytes, as 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def open(self) -> BinaryIO | bytes:
        """Return the body for an HTTP client: the open file, or one bytes object. The caller closes the file."""
        if self.path is not None:
            return self.path.open("rb")
        if len(self._parts) == 1 and isinstance(self._parts[0].obj, bytes):
            whole = self._parts[0].obj
            if len(whole) == self.size:
                return whole
        return b"".join(self._parts)

    def equals(self, data: bytes) -> bool:
        """Return True if the data is the same, by length and SHA-256."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256()
