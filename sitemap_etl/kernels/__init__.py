"""C functions for loops over the bytes of columns. They are optional: numpy and Arrow give the same results.

A wheel for a platform contains the library beside this file. `python -m sitemap_etl.kernels` compiles `kernels.c` with
the machine's C compiler into the environment of this Python. The name of a library contains the hashes of its source
and its bytes. So no version loads another version's library, and a damaged library, which could crash the process, is
not loaded.

`compiled` has the functions, or None. A function with a kernel calls it first. Its Python code defines the result, and
tests compare both.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sitemap_etl.kernels import library

Text: TypeAlias = tuple[np.ndarray, np.ndarray]
"""Text column: row offsets (int32, one more than rows) and bytes (uint8)."""
Part: TypeAlias = bytes | tuple[Text, np.ndarray | None]
"""Constant bytes for all rows, a column, or a column of words with the word's number for each row (int32)."""


PLATFORM: Final = library.prefix(sysconfig.get_platform())
"""Beginning of the names of libraries for this machine."""


def folder() -> Path:
    """Return the folder of libraries that were compiled on this machine."""
    return Path(sys.prefix, "lib", "sitemap_etl")


def name_of(data: bytes) -> str:
    """Return the name of a library for this machine."""
    return library.name_of(sysconfig.get_platform(), data)


class _Part(ctypes.Structure):
    _fields_ = (
        ("offsets", ctypes.c_void_p),
        ("data", ctypes.c_void_p),
        ("length", ctypes.c_int64),
        ("words", ctypes.c_void_p),
    )


_MOST: Final = 2**31 - 1
"""Largest number of bytes that the offsets of a string array can address."""
_POINTER: Final = ctypes.c_void_p
_COUNT: Final = ctypes.c_int64
_FUNCTIONS: Final = {
    "mix": ((_POINTER, _COUNT), None),
    "add_mixed": ((_POINTER, _POINTER, ctypes.c_uint64, _COUNT), None),
    "hash64": ((_POINTER, _POINTER, _COUNT, _COUNT, _POINTER), None),
    "mark": ((_POINTER, _COUNT, ctypes.c_int, _POINTER, _POINTER), ctypes.c_int),
    "places": ((_POINTER, _POINTER, _COUNT, _POINTER, _POINTER, _COUNT, _POINTER), None),
    "occurs": ((_POINTER, _COUNT, ctypes.c_int), ctypes.c_int),
    "count_after": ((_POINTER, _COUNT, ctypes.c_int, _POINTER, _POINTER, _COUNT, _POINTER), None),
    "in_order": ((_POINTER, _POINTER, _COUNT, _POINTER), ctypes.c_int),
    "places_among": ((_POINTER, _POINTER, _COUNT, _POINTER, _POINTER, _COUNT, _POINTER, _POINTER), None),
    "addressed": ((_POINTER, _POINTER, _COUNT, _POINTER, _POINTER), None),
    "taken_offsets": ((_POINTER, _POINTER, _COUNT, _POINTER), ctypes.c_int64),
    "taken_bytes": ((_POINTER, _POINTER, _POINTER, _COUNT, _POINTER), None),
    "joined": ((ctypes.POINTER(_Part), _COUNT, _COUNT, _COUNT, _POINTER), _POINTER),
}


class Texts(NamedTuple):
    """Text rows in several buffers."""

    addresses: np.ndarray  # address of each row, uint64
    lengths: np.ndarray  # bytes of each row, int32
    parts: Sequence[Text]  # the buffers, which have to stay alive


class Kernels:
    """The functions of a compiled library. Arrays must be contiguous and aligned. None is kept after a call."""

    def __init__(self, path: Path) -> None:
        self._library = ctypes.CDLL(str(path))
        for name, (arguments, result) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.argtypes, function.restype = arguments, result

    def mix(self, h: np.ndarray) -> None:
        """Compute `hashes._mix` in place. `h`: uint64."""
        self._library.mix(h.ctypes.data, len(h))

    def add_mixed(self, h: np.ndarray, own: np.ndarray, salt: np.uint64) -> None:
        """Add the hashes of a column without nulls to the hashes of rows, in place (`hashes.hash_rows`)."""
        self._library.add_mixed(h.ctypes.data, own.ctypes.data, int(salt), len(h))

    def hash64(self, text: Text) -> np.ndarray:
        """Return `hashes.hash64` of rows without nulls: uint64."""
        offsets, data = text
        out = np.empty(len(offsets) - 1, np.uint64)
        self._library.hash64(offsets.ctypes.data, data.ctypes.data, len(data), len(out), out.ctypes.data)
        return out

    def mark(self, block: np.ndarray, marks: np.ndarray, *, parenthesis: bool) -> tuple[bool, int]:
        """Do the work of `urls.scan._mark` into `marks` (bool). Return True if any is set, and the number of colons."""
        colons = ctypes.c_int64()
        any_ = self._library.mark(block.ctypes.data, len(block), parenthesis, marks.ctypes.data, ctypes.byref(colons))
        return bool(any_), colons.value

    def places(self, text: Text, among: Text) -> np.ndarray:
        """Return `diff.places`: int64."""
        out = np.empty(len(text[0]) - 1, np.int64)
        self._library.places(
            text[0].ctypes.data,
            text[1].ctypes.data,
            len(out),
            among[0].ctypes.data,
            among[1].ctypes.data,
            len(among[0]) - 1,
            out.ctypes.data,
        )
        return out

    def occurs(self, data: np.ndarray, code: int) -> bool:
        """Return `arrow.occurs`."""
        return bool(self._library.occurs(data.ctypes.data, len(data), code))

    def count_after(self, data: np.ndarray, code: int, texts: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Return `arrow.count_after`: int64. `texts`, `masks`: uint32."""
        found = np.zeros(len(texts), np.int64)
        arguments = (texts.ctypes.data, masks.ctypes.data, len(texts), found.ctypes.data)
        self._library.count_after(data.ctypes.data, len(data), code, *arguments)
        return found

    def texts(self, parts: Sequence[Text]) -> Texts:
        """Return text rows of several buffers as one column."""
        rows = [len(offsets) - 1 for offsets, _ in parts]
        found = Texts(np.empty(sum(rows), np.uint64), np.empty(sum(rows), np.int32), parts)
        at = 0
        for (offsets, data), count in zip(parts, rows, strict=True):
            addresses, lengths = found.addresses[at:].ctypes.data, found.lengths[at:].ctypes.data
            self._library.addressed(offsets.ctypes.data, data.ctypes.data, count, addresses, lengths)
            at += count
        return found

    def in_order(self, texts: Texts) -> tuple[np.ndarray, bool]:
        """Return `partition.order.in_order` (uint64), and True if all texts are distinct. Raise MemoryError."""
        order = np.empty(len(texts.lengths), np.uint64)
        found = self._library.in_order(
            texts.addresses.ctypes.data, texts.lengths.ctypes.data, len(order), order.ctypes.data
        )
        if found < 0:
            raise MemoryError
        return order, not found

    def places_among(self, text: Text, borders: Text) -> np.ndarray:
        """Return `partition.order.places_among` (int64). There must be at least one border."""
        count = len(borders[0]) - 1
        marks, out = np.empty(count, np.uint64), np.empty(len(text[0]) - 1, np.int64)
        self._library.places_among(
            text[0].ctypes.data,
            text[1].ctypes.data,
            len(out),
            borders[0].ctypes.data,
            borders[1].ctypes.data,
            count,
            marks.ctypes.data,
            out.ctypes.data,
        )
        return out

    def taken(self, texts: Texts, order: np.ndarray) -> tuple[pa.Buffer, pa.Buffer]:
        """Return offsets and bytes of a string array of the rows in `order` (int64).

        Raise OverflowError if they have more than 2 GiB.
        """
        lengths, places = texts.lengths.ctypes.data, order.ctypes.data
        ends = pa.allocate_buffer(4 * (len(order) + 1))
        size = self._library.taken_offsets(lengths, places, len(order), ends.address)
        if size > _MOST:
            raise OverflowError(f"rows of {size:,} bytes of text can't be one column: they must be read in batches")
        found = pa.allocate_buffer(size)
        self._library.taken_bytes(texts.addresses.ctypes.data, lengths, places, len(order), found.address)
        return ends, found

    def joined(self, parts: Sequence[Part], sizes: np.ndarray, rows: int) -> Iterator[memoryview]:
        """Yield `render.urlset.Entries.chunks`: the bytes of `rows` rows at a time. `sizes`: bytes per row, int64."""
        described = (_Part * len(parts))()
        for one, part in zip(described, parts, strict=True):
            if isinstance(part, bytes):
                one.data, one.length = np.frombuffer(part, np.uint8).ctypes.data, len(part)
                continue
            text, words = part
            one.offsets, one.data = text[0].ctypes.data, text[1].ctypes.data
            one.words = None if words is None else words.ctypes.data
        starts = range(0, len(sizes), rows)
        for start, size in zip(starts, np.add.reduceat(sizes, starts).tolist() if starts else (), strict=True):
            out = pa.allocate_buffer(size)
            stop = min(start + rows, len(sizes))
            end = self._library.joined(described, len(parts), start, stop, out.address)
            assert end - out.address == out.size
            yield memoryview(out)


def load() -> Kernels | None:
    """Return the kernels, or None if no library can be loaded here."""
    with suppress(OSError):
        for path in libraries():
            with suppress(OSError, AttributeError):
                if path.name == name_of(path.read_bytes()):
                    return Kernels(path)
    return None


def libraries() -> Iterator[Path]:
    """Yield the libraries for this machine. Libraries that were compiled on it come before the wheel's."""
    for place in (folder(), library.SOURCE.parent):
        yield from sorted(place.glob(f"{PLATFORM}-*.so"))


compiled: Kernels | None = load()


@contextmanager
def without() -> Iterator[None]:
    """Run without kernels within the block, for tests and benchmarks that compare both."""
    global compiled  # noqa: PLW0603 - one library per process
    before, compiled = compiled, None
    try:
        yield
    finally:
        compiled = before
