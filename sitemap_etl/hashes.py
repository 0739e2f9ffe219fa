"""64-bit hashes for state and partitioning, the same on every machine and in every version.

`hash64` of a byte string, in 64-bit unsigned arithmetic that wraps:

    h = 0x9E3779B97F4A7C15 xor length
    for each 8-byte lane of the string, little-endian, the last one zero-padded:
        h = mix(h xor lane)
    result: mix(h)

`mix` is the finalizer of SplitMix64 (Steele, Lea, Flood 2014, "Fast splittable pseudorandom number generators"). Text
is hashed as UTF-8. The hash distinguishes rows; it doesn't resist an attacker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import kernels
from sitemap_etl.arrow import data_of, lengths_of, mask_of, numbers_of, offsets_of, single, windows

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_NULL: Final = np.uint64(0x6E756C6C6E756C6C)
_WRAPS: Final = 1 << 64
_WORD: Final = 8
_KEPT: Final = np.array([(1 << 8 * left) - 1 for left in range(_WORD + 1)], np.uint64)
"""Bits of a lane that belong to a string of which 0 to 8 bytes are left."""
_HASHED: Final = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
_BLOCK: Final = 1 << 15
"""Rows hashed at a time. Temporaries stay in cache, which doubles the speed."""


def _mix(h: np.ndarray) -> np.ndarray:
    """Apply SplitMix64's finalizer in place."""
    if kernels.compiled is not None:
        kernels.compiled.mix(h)
        return h
    if len(h) > _BLOCK:
        for begin in range(0, len(h), _BLOCK):
            _mix(h[begin : begin + _BLOCK])
        return h
    h ^= h >> np.uint64(30)
    h *= np.uint64(0xBF58476D1CE4E5B9)
    h ^= h >> np.uint64(27)
    h *= np.uint64(0x94D049BB133111EB)
    h ^= h >> np.uint64(31)
    return h


def hash64(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the hash of each string: uint64, one per row. Nulls have a hash too.

    `values`: string, large_string, binary or large_binary.
    """
    if isinstance(values, pa.ChunkedArray):
        parts = [hash64(chunk) for chunk in values.chunks]
        return np.concatenate(parts) if parts else np.empty(0, np.uint64)
    if values.type not in _HASHED:
        raise TypeError(f"hash64 takes text or bytes, not {values.type}")
    rows = len(values)
    if rows == 0:
        return np.empty(0, np.uint64)
    offsets, data = offsets_of(values), data_of(values)
    if kernels.compiled is not None and offsets.dtype == np.int32:
        out = kernels.compiled.hash64((offsets, data))
    else:
        out = _hashed(offsets, data)
    if values.null_count:
        out[mask_of(pc.is_null(values))] = _NULL
    return out


def _hashed(offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """Return `hash64` of rows without nulls, one lane of all rows at a time. `offsets`, `data`: their buffers."""
    out = np.empty(len(offsets) - 1, np.uint64)
    for begin in range(0, len(out), _BLOCK):
        bounds = offsets[begin : begin + _BLOCK + 1].astype(np.int64)
        words = windows(np.pad(data[bounds[0] : bounds[-1]], (0, _WORD)), "<u8")
        starts, lengths = bounds[:-1] - bounds[0], np.diff(bounds)
        h: np.ndarray = _SEED ^ lengths.astype(np.uint64)
        live, at = np.arange(len(h)), 0
        while len(live := live[lengths[live] > at]):
            kept = _KEPT[np.minimum(lengths[live] - at, _WORD)]
            h[live] = _mix(h[live] ^ words[starts[live] + at] & kept)
            at += _WORD
        out[begin : begin + _BLOCK] = _mix(h)
    return out


def combine(hashes: list[np.ndarray]) -> np.ndarray:
    """Combine the hashes of several columns in their order: h = mix(h xor column), from the seed."""
    h = np.full(len(hashes[0]), _SEED, np.uint64)
    for column in hashes:
        h = _mix(h ^ column)
    return h


def hash_rows(table: pa.Table, known: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return one hash per row over all columns of a table, independent of their order: uint64.

    `known`: hashes of columns that were computed before. A null counts like a missing column. Each column's hash is
    mixed with its name before the sum, so that swapped values lead to another hash.
    """
    h = np.full(table.num_rows, _SEED, np.uint64)
    for name in table.column_names:
        column = single(table.column(name))
        if column.null_count == len(column):
            continue
        (salt,) = hash64(pa.array([name]))
        hashes = known.get(name)
        if kernels.compiled is not None and not column.null_count:
            kernels.compiled.add_mixed(h, hash_column(column) if hashes is None else hashes, salt)
            continue
        for begin in range(0, len(h), _BLOCK):
            part = column.slice(begin, _BLOCK)
            own = hash_column(part) if hashes is None else hashes[begin : begin + _BLOCK].copy()
            own ^= salt
            _mix(own)
            if part.null_count:
                own[mask_of(pc.is_null(part))] = 0
            h[begin : begin + _BLOCK] += own
    return _mix(h)


def sums_of(hashes: np.ndarray) -> tuple[int, int]:
    """Return the sum of hashes and of their squares, modulo 2^64. Equal for equal hashes in any order."""
    return int(hashes.sum()), int((hashes * hashes).sum())


def added(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    """Add the sums of two parts."""
    return (one[0] + other[0]) % _WRAPS, (one[1] + other[1]) % _WRAPS


def hash_column(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the hash of each value of a column of any type: uint64, one per row.

    Text and bytes: `hash64`. Numbers, booleans and times: mix of the value's 64 bits. List: the wrapping sum of
    mix(value xor mix(index + 1)), xor its length, mixed. Struct: `combine` of its fields. Nulls have one hash for all
    types.
    """
    column = single(column)
    kind = column.type
    if len(column) == 0:
        return np.empty(0, np.uint64)
    if pa.types.is_dictionary(kind):
        return hash_column(column.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        return hash64(column)
    if pa.types.is_map(kind):
        column = column.cast(pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)])))
        kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        h = _hash_lists(column)
    elif pa.types.is_struct(kind):
        h = (
            combine([hash_column(field) for field in column.flatten()])
            if kind.num_fields
            else np.zeros(len(column), np.uint64)
        )
    else:
        h = _mix(_bits(column))
    if column.null_count:
        h[mask_of(pc.is_null(column))] = _NULL
    return h


def _hash_lists(column: pa.Array) -> np.ndarray:
    lengths = lengths_of(column)
    values = hash_column(column.flatten())  # skips values under nulls
    ends = np.cumsum(lengths)
    place = np.arange(len(values)) - np.repeat(ends - lengths, lengths)
    values ^= _mix(place.astype(np.uint64) + np.uint64(1))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(_mix(values), dtype=np.uint64)))
    return _mix((sums[ends] - sums[ends - lengths]) ^ lengths.astype(np.uint64))


def _bits(column: pa.Array) -> np.ndarray:
    """Return the 64 bits of each plain value."""
    if pa.types.is_floating(column.type):
        floats = numbers_of(column.cast(pa.float64()))
        bits: np.ndarray = (floats + 0.0).view(np.uint64).copy()  # -0.0 is 0.0
        return bits
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        wide = column.cast(pa.uint64() if column.type == pa.uint64() else pa.int64())
    elif pa.types.is_temporal(column.type):
        wide = column.cast(pa.int32() if column.type.bit_width == 32 else pa.int64()).cast(pa.int64())
    else:
        return hash64(column.cast(pa.string()))
    whole: np.ndarray = numbers_of(wide).view(np.uint64).copy()
    return whole
