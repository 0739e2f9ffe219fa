"""Read and write objects with checksums: staged files of stages, and tables of reports.

The checksums are verified before any decoder sees the bytes. An object has one CRC-32 per block of `BLOCK` bytes, so
that parts can be read and verified. CRC-32 detects each flipped bit and each burst of up to 32 bits. It does not
protect against deliberate changes. ISA-L computes 13 GB/s on one core, a hundredth of the cost of compression.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

from isal import isal_zlib

from sitemap_etl.errors import DamagedState
from sitemap_etl.state.records import Checked
from sitemap_etl.storage import Storage

BLOCK: Final = 1 << 20
Data: TypeAlias = bytes | memoryview


def checksum(data: Data) -> int:
    """Return the CRC-32 of the bytes."""
    return int(isal_zlib.crc32(data))


def put_checked(storage: Storage, key: str, data: Data | Path) -> Checked:
    """Store an object and return the record that is needed to read it."""
    blocks = tuple(checksum(block) for block in _blocks(data))
    return Checked(key, storage.put(key, data).size, blocks)


def read_checked(storage: Storage, checked: Checked) -> bytes | None:
    """Return the object, or None if it no longer exists. Raise DamagedState if its bytes changed."""
    stored = storage.get(checked.key)
    if stored is None:
        return None
    if len(stored.data) != checked.bytes:
        raise spoiled(storage.url_of(checked.key))
    _verify(storage, checked, stored.data, 0)
    return stored.data


def open_checked(storage: Storage, checked: Checked) -> io.BufferedReader:
    """Return the object as a seekable file that reads a few blocks at a time.

    Reading raises DamagedState if the blocks changed.
    """
    return io.BufferedReader(_Object(storage, checked), BLOCK)


def _blocks(data: Data | Path) -> Iterator[Data]:
    if isinstance(data, Path):
        with data.open("rb", buffering=0) as file:
            while block := file.read(BLOCK):
                yield block
        return
    view = memoryview(data).cast("B")
    yield from (view[start : start + BLOCK] for start in range(0, len(view), BLOCK))


def _verify(storage: Storage, checked: Checked, data: Data, first: int) -> None:
    """Compare the checksums of the data, which starts at block `first`. Raise DamagedState."""
    blocks = tuple(checksum(block) for block in _blocks(data))
    if blocks != checked.blocks[first : first + len(blocks)]:
        raise spoiled(storage.url_of(checked.key))


def spoiled(where: str) -> DamagedState:
    """Return the error for an object of a run that is not what its stages wrote."""
    return DamagedState(
        f"{where} is damaged: its content is not what was written. It belongs to one run alone, so nothing has to be "
        "restored: start a new run. If this happens again, check the disk or the store"
    )


class _Object(io.RawIOBase):
    """Raw file under the buffer of `open_checked`."""

    def __init__(self, storage: Storage, checked: Checked) -> None:
        self._storage, self._checked, self._at = storage, checked, 0
        self._held: tuple[int, bytes] = (0, b"")  # start of the last read, and its bytes

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._checked.bytes}[whence]
        self._at = max(0, begin + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        length = max(0, min(len(buffer), self._checked.bytes - self._at))
        if length:
            start, data = self._around(self._at, self._at + length)
            buffer[:length] = memoryview(data)[self._at - start :][:length]
            self._at += length
        return length

    def _around(self, start: int, stop: int) -> tuple[int, bytes]:
        """Return the offset and the verified bytes of the blocks that contain these bytes."""
        begin, held = self._held
        if start < begin or stop > begin + len(held):
            begin = start // BLOCK * BLOCK
            stop = min(-(-stop // BLOCK) * BLOCK, self._checked.bytes)
            held = self._storage.read(self._checked.key, begin, stop - begin)
            _verify(self._storage, self._checked, held, begin // BLOCK)
            self._held = begin, held
        return begin, held
