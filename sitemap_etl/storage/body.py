"""The bytes of a put, from whatever they come in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from sitemap_etl.errors import Refused
from sitemap_etl.storage.protocol import Data

_CHUNK = 1 << 20


class Body:
    """The bytes to put: their size, their hash and the ways to go through them. Can be read several times.

    Raises `Refused` where the data is a path that can't be read.
    """

    def __init__(self, data: Data) -> None:
        self.path = data if isinstance(data, Path) else None
        self._parts: tuple[memoryview, ...] = ()
        if isinstance(data, Path):
            try:
                self.size = data.stat().st_size
            except OSError as error:
                raise Refused(f"can't read {data} to store it: {error.strerror or error}") from error
        elif isinstance(data, bytes | bytearray | memoryview):
            self._parts = (memoryview(data).cast("B"),)
            self.size = self._parts[0].nbytes
        else:
            self._parts = tuple(memoryview(part).cast("B") for part in data)
            self.size = sum(part.nbytes for part in self._parts)

    def chunks(self) -> Iterator[memoryview]:
        """All bytes in order; a file's in pieces of 1 MiB at most."""
        if self.path is None:
            yield from self._parts
            return
        with self.path.open("rb", buffering=0) as file:
            # No larger than the file: clearing a whole chunk costs several times what hashing a small file does.
            buffer = memoryview(bytearray(min(_CHUNK, max(self.size, 1))))
            while count := file.readinto(buffer):
                yield buffer[:count]

    def sha256(self) -> str:
        """The SHA-256 of all bytes, as 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for chunk in self.chunks():
            digest.update(chunk)
        return digest.hexdigest()

    def open(self) -> BinaryIO | bytes:
        """What an HTTP client sends: the open file, or one bytes object. The caller closes a file."""
        if self.path is not None:
            return self.path.open("rb")
        if len(self._parts) == 1 and isinstance(self._parts[0].obj, bytes):
            whole = self._parts[0].obj
            if len(whole) == self.size:
                return whole
        return b"".join(self._parts)

    def equals(self, data: bytes) -> bool:
        """Whether these are the same bytes, by length and SHA-256."""
        return len(data) == self.size and hashlib.sha256(data).hexdigest() == self.sha256()
