"""Fingerprints: one 64-bit number for the values of a row's columns. If it changes, the page has changed.

Fingerprints are stored in snapshots. They must be the same on every machine, in every version, for every division into
splits, and for every physical form of a value in Arrow. The definition, in terms of `hashes` (`hash64` of bytes,
`combine` of numbers):

    row    combine(cell of each column, in the order of the columns' names)
    cell   hash64 of null, or combine(hash64(kind), hash64(payload))

| kind | Arrow types | payload |
|---|---|---|
| `bool` | bool | one byte, 0 or 1 |
| `int` | all integers, and floats that hold a whole number up to 2^53 | int64, little-endian (modulo 2^64) |
| `float` | all other floats | float64, little-endian; every NaN is 7FF8000000000000 |
| `decimal` | all decimals | plain digits without trailing zeros: `-1.5`, `100`, `0` |
| `text` | string, large, view, dictionary | UTF-8 unchanged: not trimmed, not normalized |
| `binary` | binary, large, view, fixed | the bytes |
| `date` | date32, date64 | days since 1970, as int |
| `local` | timestamp without a zone | microseconds of the local clock since 1970, floored, as int |
| `instant` | timestamp with any zone | microseconds since 1970 UTC, floored, as int |
| `time`, `duration` | time32/64, duration | microseconds, floored, as int |
| `list` | lists of any layout | the cells of its elements, 8 bytes little-endian each |
| `struct` | struct | the cells of its fields, in the order of their names, 8 bytes each |
| `map` | map | combine(cell of key, cell of value) of each entry, sorted ascending as uint64, 8 bytes each |
| `null` | null | always null |

Orders without meaning don't count: columns in the rule, fields, entries of a map. A null differs from an empty text.
`int` 1, `decimal` 1 and `text` 1 differ, so a change of kind is a new definition, which `comparable` detects. `int` and
`float` are the same kind: in SQLite, one fractional value turns a column of integers into floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..arrow import lengths_of, mask_of, numbers_of, over
from ..hashes import combine, hash64
from .definition import kinds, name

_NULL: Final[np.uint64] = hash64(pa.nulls(1, pa.string()))[0]
_NAN: Final = np.uint64(0x7FF8000000000000)
_EXACT: Final = 2.0**53
"""A float64 represents every integer up to this value."""
_DAY: Final = 86_400_000
"""Milliseconds of a day."""
_MICROSECOND: Final = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}
"""By unit, the multiplier and divisor that convert to microseconds."""


def fingerprint(table: pa.Table | pa.RecordBatch, columns: Sequence[str]) -> pa.Array:
    """Return the fingerprint of each row over the named columns: uint64, never null.

    Raise InvalidSource if a column is missing, ambiguous, or of a type without a definition.
    """
    named = kinds(table.schema, columns)
    parts = [_cells_of_column(table.column(table.schema.get_field_index(column))) for column, _ in named]
    return pa.array(combine(parts), pa.uint64())


def _cells_of_column(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([_cells(chunk) for chunk in column.chunks] or [np.empty(0, np.uint64)])
    return _cells(column)


def _cells(array: pa.Array) -> np.ndarray:
    """Return the cell of each value: uint64."""
    if isinstance(array, pa.ExtensionArray):
        return _cells(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _cells(pc.run_end_decode(array))
    rows = len(array)
    if pa.types.is_dictionary(array.type):
        of_values = np.append(_cells(array.dictionary), _NULL)
        at: np.ndarray = pc.fill_null(array.indices.cast(pa.int64()), len(of_values) - 1).to_numpy()
        return np.asarray(of_values[at])
    kind = name(array.type)
    if kind == "null" or rows == 0:
        return np.full(rows, _NULL, np.uint64)
    if kind == "float":
        cells = _numbers(array)
    else:
        cells = combine([np.broadcast_to(hash64(pa.array([kind])), rows), _PAYLOADS[kind](array)])
    if array.null_count:
        cells[mask_of(pc.is_null(array))] = _NULL
    return cells


def _bytes(array: pa.Array) -> np.ndarray:
    """Return the payload hashes of text and binary."""
    if pa.types.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif pa.types.is_binary_view(array.type) or pa.types.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    return hash64(array)


def _bools(array: pa.Array) -> np.ndarray:
    return _lanes(mask_of(array).astype(np.uint8))


def _integers(array: pa.Array) -> np.ndarray:
    wide = array if pa.types.is_uint64(array.type) else array.cast(pa.int64())
    return _lanes(_filled(wide))


def _numbers(array: pa.Array) -> np.ndarray:
    """Return the cells of floats. Integral values have the cells of `int`."""
    real = _filled(array.cast(pa.float64())) + 0.0
    whole = (real == np.floor(real)) & (np.abs(real) <= _EXACT)
    bits = real.view(np.uint64)
    bits[np.isnan(real)] = _NAN
    bits[whole] = real[whole].astype(np.int64).view(np.uint64)
    kinds = np.where(whole, *hash64(pa.array(["int", "float"])))
    return combine([kinds, _lanes(bits)])


def _decimals(array: pa.Array) -> np.ndarray:
    return hash64(_plain_digits(array))


def _times(array: pa.Array) -> np.ndarray:
    """Return the payload hashes of timestamps, times and durations, in microseconds."""
    times, by = _MICROSECOND[array.type.unit]
    return _lanes(np.floor_divide(_behind(array) * times, by))


def _dates(array: pa.Array) -> np.ndarray:
    return _lanes(_behind(array) if pa.types.is_date32(array.type) else np.floor_divide(_behind(array), _DAY))


def _lists(array: pa.Array) -> np.ndarray:
    # Flattened rather than cast: pyarrow 26 loses elements when it casts views, and nulls can hide elements.
    return _runs(_cells(pc.list_flatten(array)), np.concatenate([[0], np.cumsum(lengths_of(array))]))


def _structs(array: pa.Array) -> np.ndarray:
    order = sorted(range(array.type.num_fields), key=lambda at: str(array.type.field(at).name))
    cells = [_cells(array.field(at)) for at in order]
    flat = np.stack(cells, axis=1).ravel() if cells else np.empty(0, np.uint64)
    return _runs(flat, np.arange(len(array) + 1) * len(cells))


def _maps(array: pa.Array) -> np.ndarray:
    """Return the payload hashes of maps. Entries are sorted, because their order has no meaning."""
    ends = array.offsets.to_numpy().astype(np.int64)
    first = int(ends[0])
    ends -= first
    entries = combine([_cells(side.slice(first, int(ends[-1]))) for side in (array.keys, array.items)])
    row = np.repeat(np.arange(len(array)), np.diff(ends))
    return _runs(entries[np.lexsort((entries, row))], ends)


_PAYLOADS: Final[dict[str, Callable[[pa.Array], np.ndarray]]] = {
    "bool": _bools,
    "int": _integers,
    "decimal": _decimals,
    "text": _bytes,
    "binary": _bytes,
    "date": _dates,
    "local": _times,
    "instant": _times,
    "time": _times,
    "duration": _times,
    "list": _lists,
    "struct": _structs,
    "map": _maps,
}
"""`hash64` of each value's payload, anything for nulls. One function for each kind but `null` and `float`."""


def _behind(array: pa.Array) -> np.ndarray:
    """Return the integers that represent dates and times: int64."""
    return _filled(array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())).astype(np.int64)


def _filled(array: pa.Array) -> np.ndarray:
    """Return a numeric array as numpy with 0 for nulls, without conversion to floats."""
    return numbers_of(array)


def _lanes(values: np.ndarray) -> np.ndarray:
    """Return the `hash64` of each number's little-endian bytes."""
    return _runs(values, np.arange(len(values) + 1))


def _runs(values: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the `hash64` of the little-endian bytes of `values[ends[i]:ends[i + 1]]`, for each i."""
    data = np.ascontiguousarray(values.astype(values.dtype.newbyteorder("<"), copy=False))
    offsets = ends.astype(np.int64) * values.itemsize
    return hash64(over(pa.large_binary(), offsets, data))


def _plain_digits(array: pa.Array) -> pa.Array:
    """Return decimals as plain digits without trailing zeros. Arrow's own text uses exponents for small numbers."""
    scale = array.type.scale
    large = pa.types.is_decimal256(array.type)
    array = array.cast(pa.decimal256(76, scale) if large else pa.decimal128(38, scale))
    unscaled = pa.decimal256(76, 0) if large else pa.decimal128(38, 0)
    digits = pa.Array.from_buffers(unscaled, len(array), array.buffers(), offset=array.offset).cast(pa.string())
    if scale <= 0:
        return pc.if_else(pc.equal(digits, "0"), digits, pc.binary_join_element_wise(digits, "0" * -scale, ""))
    sign = pc.if_else(pc.starts_with(digits, "-"), "-", "")
    digits = pc.utf8_lpad(pc.utf8_ltrim(digits, "-"), width=scale + 1, padding="0")
    fraction = pc.utf8_rtrim(pc.utf8_slice_codeunits(digits, start=-scale), "0")
    point = pc.if_else(pc.equal(fraction, ""), "", ".")
    return pc.binary_join_element_wise(sign, pc.utf8_slice_codeunits(digits, start=0, stop=-scale), point, fraction, "")
