"""Checksums that S3 stores with an object, compared with its bytes as they arrive.

A checksum of checksums (`…-3`, of a multipart upload) can't be compared with the whole object, and is ignored, as in
the SDKs. An ETag is not a checksum, because it depends on encryption and on the storage.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html
"""

from __future__ import annotations

import base64
import functools
import hashlib
import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np

_LANE: Final = 512
"""Bytes per lane. Lanes are processed in parallel."""
_POLYNOMIALS: Final = {"CRC32C": (32, 0x82F63B78), "CRC64NVME": (64, 0x9A6C9329AC4BC9B5)}
"""Bits and reflected polynomial. https://reveng.sourceforge.io/crc-catalogue/"""


class _Running(Protocol):
    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


class Sum:
    """A checksum to compare: its `name` and expected value."""

    def __init__(self, name: str, expected: str) -> None:
        self.name = name
        self.expected = expected
        self._running = _KINDS[name]()

    def update(self, data: bytes) -> None:
        """Add the next bytes of the object."""
        self._running.update(data)

    def mismatch(self) -> str | None:
        """Return the difference as text, or None if the checksum matches. Called after the last byte."""
        found = base64.b64encode(self._running.digest()).decode()
        return None if found == self.expected else f"its {self.name} is {found}, and the store has {self.expected}"


def sum_of(answer: Mapping[str, Any]) -> Sum | None:
    """Return the checksum from a response about a whole object, or None if it has none to compare."""
    headers = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    kept = {name: answer.get(f"Checksum{name}") for name in _KINDS} | {"MD5": headers.get("content-md5")}
    if answer.get("ChecksumType") == "COMPOSITE":
        kept = {"MD5": kept["MD5"]}
    return next((Sum(name, text) for name, text in kept.items() if text and "-" not in text), None)


class _Crc32:
    """CRC-32 from zlib."""

    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4, "big")


class _Crc:
    """A reflected CRC without a library here; it starts with all ones and is inverted at the end.

    Lanes of the data are processed in parallel with numpy, two bytes per step. A CRC is linear, so lanes are joined in
    pairs: the left lane is extended by zeros of the right lane's length.
    """

    def __init__(self, name: str) -> None:
        self._bits, polynomial = _POLYNOMIALS[name]
        self._steps = _steps(polynomial)
        self._zeros = _zeros(polynomial)
        self._value = (1 << self._bits) - 1

    def update(self, data: bytes) -> None:
        lanes = len(data) // _LANE
        if lanes:
            whole = np.frombuffer(data, "<u2", lanes * _LANE // 2).reshape(lanes, _LANE // 2)
            state = np.zeros(lanes, np.uint64)
            state[0] = self._value
            for pair in np.ascontiguousarray(whole.T).astype(np.uint64):
                state = self._steps[(state ^ pair) & np.uint64(0xFFFF)] ^ (state >> np.uint64(16))
            self._value = self._joined(state)
        single = self._steps[_SINGLE]
        for byte in data[lanes * _LANE :]:  # less than a lane
            self._value = int(single[(self._value ^ byte) & 0xFF]) ^ (self._value >> 8)

    def _joined(self, state: np.ndarray) -> int:
        """Return the CRC of all lanes joined."""
        zeros = self._zeros
        while len(state) > 1:
            if len(state) % 2:  # leading zeros don't change a CRC
                state = np.concatenate([np.zeros(1, np.uint64), state])
            state = _applied(zeros, state[::2]) ^ state[1::2]
            zeros = _applied(zeros, zeros)
        return int(state[0])

    def digest(self) -> bytes:
        return (self._value ^ ((1 << self._bits) - 1)).to_bytes(self._bits // 8, "big")


_SINGLE: Final = slice(1 << 16, None)
"""Slice of the table for single bytes, after the table for pairs."""


@functools.cache
def _steps(polynomial: int) -> np.ndarray:
    """Return the tables for two bytes (65,536 entries) and for one byte (256), applied to an empty state."""

    def after(bits: int) -> np.ndarray:
        state = np.arange(1 << bits, dtype=np.uint64)
        for _ in range(bits):
            state = np.where(state & np.uint64(1), np.uint64(polynomial), np.uint64(0)) ^ (state >> np.uint64(1))
        return state

    return np.concatenate([after(16), after(8)])


@functools.cache
def _zeros(polynomial: int) -> np.ndarray:
    """Return the effect of a lane of zeros on each bit of a state: 64 columns of a matrix over GF(2)."""
    state = np.uint64(1) << np.arange(64, dtype=np.uint64)
    steps = _steps(polynomial)
    for _ in range(_LANE // 2):
        state = steps[state & np.uint64(0xFFFF)] ^ (state >> np.uint64(16))
    return state


def _applied(matrix: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return the product of a matrix over GF(2) and each state."""
    found = np.zeros(len(states), np.uint64)
    for bit, column in enumerate(matrix):
        found ^= column * ((states >> np.uint64(bit)) & np.uint64(1))
    return found


_KINDS: Final[dict[str, Callable[[], _Running]]] = {
    "CRC32": _Crc32,
    "CRC64NVME": functools.partial(_Crc, "CRC64NVME"),
    "CRC32C": functools.partial(_Crc, "CRC32C"),
    "SHA256": hashlib.sha256,
    "SHA1": functools.partial(hashlib.sha1, usedforsecurity=False),
    "MD5": functools.partial(hashlib.md5, usedforsecurity=False),
}
"""Checksums of S3, fastest first. MD5 is in the header Content-MD5."""
