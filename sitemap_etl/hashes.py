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

import posixpath
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
_LEFT: Final = (np.uint64(1) << np.arange(0, 64, 8, dtype=np.uint64)) - np.uint64(1)
"""What is kept of a lane of which 0 to 7 bytes are left."""
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
        out = _hashed(values, offsets, data)
    if values.null_count:
        out[mask_of(pc.is_null(values))] = _NULL
    return out


def _hashed(values: pa.Array, offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
    """`hash64` of rows that are not null, by whole columns. `offsets`, `data`: of `values`."""
    rows = len(values)
    if len(data) < _WORD:
        data = np.concatenate((data, np.zeros(_WORD - len(data), np.uint8)))
    words = windows(data, "<u8")
    out = np.empty(rows, np.uint64)
    prefix: bytes | None = None
    for begin in range(0, rows, _BLOCK):
        stop = min(begin + _BLOCK, rows)
        bounds = offsets[begin : stop + 1].astype(np.int64)
        lengths = np.diff(bounds)
        if (lengths == lengths[0]).all():
            out[begin:stop] = _hash_even(words, int(bounds[0]), int(lengths[0]), len(lengths))
        else:
            prefix = _shared_prefix(values) if prefix is None else prefix
            out[begin:stop] = _hash_block(words, bounds[:-1], lengths, prefix)
    return out


def _hash_even(words: np.ndarray, start: int, length: int, rows: int) -> np.ndarray:
    """Hashes of neighbouring strings of one length, the first of which begins at byte `start`.

    `words[i]` are the eight bytes that begin at byte i. The same lane of all strings is at even distances, and
    is read without looking up where each begins: a third of the price. What the lanes make of the seed in which all
    strings are the same, it makes of it once.
    """
    state = np.array([_SEED ^ np.uint64(length)])
    whole = length - length % _WORD
    position = 0
    while position < whole and (words[start + position :: length][:rows] == words[start + position]).all():
        state = _mix(state ^ words[start + position])
        position += _WORD
    h = np.full(rows, state[0], np.uint64)
    for begin in range(position, whole, _WORD):
        h ^= words[start + begin :: length][:rows]
        _mix(h)
    if whole < length:
        lanes = words[start + whole :: length][:rows]
        h[: len(lanes)] ^= lanes & _LEFT[length - whole]
        if len(lanes) < rows:  # those that begin in the last seven bytes of the buffer
            begins = start + whole + np.arange(len(lanes), rows) * length
            h[len(lanes) :] ^= _last_lanes(words, begins, np.full(len(begins), length - whole))
        _mix(h)
    return _mix(h)


def _hash_block(words: np.ndarray, starts: np.ndarray, lengths: np.ndarray, prefix: bytes) -> np.ndarray:
    """Hashes of neighbouring strings, all of which begin with `prefix`; `words` as above.

    What the lanes of the prefix make of the seed depends on a string's length alone, and there are few of those.
    """
    shortest, longest = int(lengths.min()), int(lengths.max())
    states: np.ndarray = _SEED ^ np.arange(shortest, longest + 1, dtype=np.uint64)
    position = 0
    while position + _WORD <= min(len(prefix), shortest):
        states ^= np.uint64(int.from_bytes(prefix[position : position + _WORD], "little"))
        _mix(states)
        position += _WORD
    h: np.ndarray = states[lengths - shortest]
    while position + _WORD <= shortest:
        h ^= words[starts + position]
        _mix(h)
        position += _WORD
    live = np.arange(len(starts))
    while len(live := live[lengths[live] >= position + _WORD]):
        h[live] = _mix(h[live] ^ words[starts[live] + position])
        position += _WORD
    over = lengths % _WORD
    cut = np.flatnonzero(over)
    h[cut] = _mix(h[cut] ^ _last_lanes(words, (starts + lengths - over)[cut], over[cut]))
    return _mix(h)


def _last_lanes(words: np.ndarray, begins: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the lanes that begin at these bytes, of strings of which 1 to 7 bytes are left: zero-padded."""
    # A lane that begins in the last seven bytes of the buffer is read earlier and shifted down.
    late = np.maximum(begins - (len(words) - 1), 0)
    lanes: np.ndarray = words[begins - late] >> (late * 8).astype(np.uint64)
    lanes &= _LEFT[left]
    return lanes


def _shared_prefix(values: pa.Array) -> bytes:
    """Return the common prefix of all strings that are not null: that of the least and the greatest of them."""
    ends = pc.min_max(values.cast(pa.large_binary() if _is_large(values.type) else pa.binary())).as_py()
    return posixpath.commonprefix([ends["min"], ends["max"]]) if ends["min"] is not None else b""


def _is_large(kind: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


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
