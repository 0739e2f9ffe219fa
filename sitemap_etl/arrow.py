"""Handling of Arrow's layouts in one place: single and plain arrays, and access to their memory.

A column can come in chunks, as a dictionary, as runs, with wide offsets or as views, and a slice keeps the whole
buffers. Code that works on values takes `single` or `plain` arrays. Code that works on memory uses these functions,
which respect the slice's offset. Nothing is copied unless the layout must change.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import kernels

_BLOCK: Final = 1 << 18
"""Bytes searched at a time, so that temporaries stay in cache."""
_FIRST_VISIBLE: Final = np.uint8(0x21)
_VISIBLE: Final = np.uint8(0x80 - 0x21)


class _WithoutPandas(MetaPathFinder):
    """Module finder that hides pandas while it is installed.

    To convert its first Python value, pyarrow imports pandas, which takes a quarter of a second, and checks for a
    Series. It tries this once and works without pandas. `Table.to_pandas` and `Table.from_pandas`, which start and end
    frames here, import pandas anyway.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:  # noqa: ARG002 (the finder's form)
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas is imported where frames begin", name=fullname)


if "pandas" not in sys.modules:
    sys.meta_path.insert(0, without := _WithoutPandas())
    try:
        pa.scalar(0)
    finally:
        sys.meta_path.remove(without)

# --- arrays ---


def single(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as one array in their layout, without a copy if there is one chunk.

    Raise OverflowError for more than 2 GiB of text in a type with narrow offsets.
    """
    if not isinstance(values, pa.ChunkedArray):
        return values
    if values.num_chunks == 1:
        return values.chunk(0)
    try:
        return values.combine_chunks()
    except pa.ArrowInvalid as error:
        raise OverflowError("a column of more than 2 GiB must be read in batches") from error


def plain(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the values as one array in the plain layout of their kind.

    Extension types, runs and dictionaries are unpacked. Text becomes `string`, bytes become `binary`. Lists keep their
    layout: see `is_list`. Raise OverflowError and `pa.ArrowInvalid` above 2 GiB of text.
    """
    array = single(values)
    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return plain(array.storage)
    if pa.types.is_run_end_encoded(kind):
        return plain(pc.run_end_decode(array))
    if pa.types.is_dictionary(kind):
        return plain(array.dictionary_decode())
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return array.cast(pa.string())
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    return array


def text_of(values: pa.Array) -> pa.Array:
    r"""Return a plain array with its bytes as text. Any other array is returned unchanged.

    `values`: an array from `plain`. Bytes that are not UTF-8 are shown as `\xff`. Older writers of Parquet store text
    in columns of bytes.
    """
    if not pa.types.is_binary(values.type):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if raw is None else raw.decode("utf-8", "backslashreplace") for raw in values.to_pylist()]
        return pa.array(decoded, pa.string())


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """Return a table's column as one array."""
    return single(table.column(name))


def joined(arrays: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Concatenate arrays of type `kind`. Without arrays, return an empty one."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def is_text(kind: pa.DataType) -> bool:
    """Return True if the type holds text or bytes, directly or in a dictionary."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    """Return `count` nulls of a type, in memory that all such columns share.

    Most columns of most sites have only nulls.
    """
    zeros = _zeros(8 * (count + 1))
    if pa.types.is_struct(kind):
        children = [nulls(count, kind.field(at).type) for at in range(kind.num_fields)]
        return pa.Array.from_buffers(kind, count, [zeros], count, children=children)
    if pa.types.is_list(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros], count, children=[nulls(0, kind.value_type)])
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return pa.Array.from_buffers(kind, count, [zeros, zeros, zeros], count)
    if pa.types.is_primitive(kind) and kind.bit_width <= 64:
        return pa.Array.from_buffers(kind, count, [zeros, zeros], count)
    return pa.nulls(count, kind)


_shared_zeros = pa.py_buffer(np.zeros(1 << 16, np.uint8))


def _zeros(size: int) -> pa.Buffer:
    """Return a shared read-only buffer of at least `size` zeros. The system allocates its pages when they are read."""
    global _shared_zeros  # noqa: PLW0603 - grows with the largest column; a race costs one allocation
    found = _shared_zeros
    if found.size < size:
        _shared_zeros = found = pa.py_buffer(np.zeros(max(size, 2 * found.size), np.uint8))
    return found


def is_list(kind: pa.DataType) -> bool:
    """Return True if the type is any of Arrow's list layouts. A map is not a list."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


# --- arrays as numpy ---


def mask_of(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a boolean column as a mask: bool, False for nulls."""
    array = single(values)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), bool)
    if array.null_count:
        array = pc.fill_null(array, fill_value=False)
    mask: np.ndarray = array.to_numpy(zero_copy_only=False)
    return mask


def nulls_in(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a mask of the nulls in a column."""
    return mask_of(pc.is_null(values)) if values.null_count else np.zeros(len(values), bool)


def numbers_of(values: pa.Array | pa.ChunkedArray, missing: Any = 0) -> np.ndarray:
    """Return a column of numbers in their own width, with `missing` for nulls. Read-only if there are no nulls."""
    array = single(values)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(missing, array.type))
    numbers: np.ndarray = array.to_numpy(zero_copy_only=False)
    return numbers


def codes_of(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a number for each distinct value, in order of first appearance: int64, -1 for nulls."""
    codes = single(values).dictionary_encode().indices
    return numbers_of(codes, -1).astype(np.int64)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """Return the number of elements of each list: int64, 0 for nulls. `list.flatten()` has the same order."""
    return numbers_of(pc.list_value_length(lists)).astype(np.int64)


def with_elements(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """Return lists of any layout as `list` with other elements, in the order of `pc.list_flatten(lists)`."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths_of(lists))]), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, mask=missing_of(lists))


def with_fields(structs: pa.Array, fields: Sequence[pa.Array]) -> pa.Array:
    """Return structs with other values in their fields, in the order of `structs.flatten()`."""
    return pa.StructArray.from_arrays(fields, names=[field.name for field in structs.type], mask=missing_of(structs))


def missing_of(values: pa.Array) -> pa.Array | None:
    """Return a mask of nulls (`bool`) as Arrow takes it, or None if there are no nulls."""
    return values.is_null() if values.null_count else None


# --- the memory under an array ---


def offsets_of(values: pa.Array) -> np.ndarray:
    """Return the start of each row of a text, binary or list array, and the end of the last: n + 1 integers.

    The width is the array's own. Offsets count from the beginning of `data_of`, even if the array is a slice.
    """
    kind = values.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_large_list(kind)
    dtype = np.int64 if wide else np.int32
    if len(values) == 0:
        return np.zeros(1, dtype)
    return np.frombuffer(values.buffers()[1], dtype)[values.offset : values.offset + len(values) + 1]


def data_of(values: pa.Array) -> np.ndarray:
    """Return all bytes that the offsets of a text or binary array refer to: uint8. Can include bytes of other rows."""
    buffer = values.buffers()[2]
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def bytes_of(values: pa.Array) -> np.ndarray:
    """Return the bytes that the rows of a text or binary array span: uint8. Can include bytes under nulls."""
    offsets = offsets_of(values)
    return data_of(values)[offsets[0] : offsets[-1]]


def windows(data: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the values of `dtype` that begin at each byte of `data`, without a copy.

    Empty if there are too few bytes.
    """
    kind = np.dtype(dtype)
    return np.ndarray((max(0, len(data) - kind.itemsize + 1),), kind, data, strides=(1,))


def over(kind: pa.DataType, offsets: np.ndarray, data: Any, validity: pa.Buffer | None = None) -> pa.Array:
    """Return the text or binary array with these offsets (of the width of `kind`) into `data`, without a copy."""
    return pa.Array.from_buffers(kind, len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def occurs(data: np.ndarray, code: int) -> bool:
    """Return True if the data contains a byte."""
    if kernels.compiled is not None:
        return kernels.compiled.occurs(data, code)
    return any(bool((data[at : at + _BLOCK] == code).any()) for at in range(0, len(data), _BLOCK))


def count_after(data: np.ndarray, code: int, texts: Sequence[bytes]) -> list[int]:
    """Return how often a byte is followed by each of these texts of one to four bytes."""
    words = np.array([int.from_bytes(text, "little") for text in texts], np.uint32)
    masks = np.array([(1 << 8 * len(text)) - 1 for text in texts], np.uint32)
    if kernels.compiled is not None:
        return kernels.compiled.count_after(data, code, words, masks).tolist()  # type: ignore[no-any-return]
    found = np.zeros(len(texts), np.int64)
    for at in range(0, len(data), _BLOCK):
        block = np.concatenate([data[at : at + _BLOCK + 4], np.zeros(4, np.uint8)])
        places = np.flatnonzero(data[at : at + _BLOCK] == code)
        next_word = windows(block, "<u4")[places + 1]
        left = len(data) - at - places - 1
        for n, text in enumerate(texts):
            found[n] += np.count_nonzero((next_word & masks[n] == words[n]) & (left >= len(text)))
    return found.tolist()


def occurs_below(data: np.ndarray, code: int) -> bool:
    """Return True if the data contains a smaller byte."""
    return any(bool((data[at : at + _BLOCK] < code).any()) for at in range(0, len(data), _BLOCK))


def is_visible(data: np.ndarray) -> bool:
    """Return True if all bytes are visible ASCII: no whitespace, no controls, no other scripts."""
    # One comparison for both ends, because smaller bytes wrap around to large ones.
    blocks = (data[at : at + _BLOCK] - _FIRST_VISIBLE for at in range(0, len(data), _BLOCK))
    return not any(bool((block >= _VISIBLE).any()) for block in blocks)


def exact(values: pa.Array) -> pa.Array:
    """Return the values in memory of their exact size, without bytes under nulls.

    Equal arrays are then written as equal bytes. Arrow pads a slice with the bytes that follow it in memory.
    """
    kind = values.type
    if pa.types.is_struct(kind):
        children = [exact(child) for child in values.flatten()]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=values.is_null())
    if pa.types.is_list(kind):
        taken = values.take(pa.array(np.arange(len(values))))
        offsets = pa.array(offsets_of(taken))
        return pa.ListArray.from_arrays(offsets, exact(taken.values), kind, mask=taken.is_null())
    text, numbers = pa.types.is_string(kind) or pa.types.is_binary(kind), pa.types.is_primitive(kind)
    if values.null_count or pa.types.is_boolean(kind) or not (text or numbers):
        return values.take(pa.array(np.arange(len(values))))
    if text:
        offsets = offsets_of(values)
        return over(kind, offsets - offsets[0] if offsets[0] else offsets, bytes_of(values))
    width = kind.bit_width // 8
    buffer = values.buffers()[1].slice(values.offset * width, len(values) * width)
    return pa.Array.from_buffers(kind, len(values), [None, buffer])


# --- rows ---


def taken(table: pa.Table, order: np.ndarray) -> pa.Table:
    """Return the rows of a table in another order, each at most once. `order`: their positions, int64 or uint64."""
    places = pa.array(order)
    columns = []
    for column in table.columns:
        if kernels.compiled is not None and column.type == pa.string() and not column.null_count and len(order):
            buffers = kernels.compiled.taken(kernels.compiled.texts(texts_of(column)), order.view(np.int64))
            columns.append(pa.Array.from_buffers(column.type, len(order), [None, *buffers]))
        elif len(order) and pa.types.is_primitive(column.type) and column.type.bit_width >= 8 and not column.null_count:
            columns.append(_numbers_taken(single(column), order.view(np.int64)))
        else:
            columns.append(single(column).take(places))
    return pa.Table.from_arrays(columns, schema=table.schema)


def _numbers_taken(values: pa.Array, order: np.ndarray) -> pa.Array:
    """Reorder numbers or times without nulls. Without bounds checks, this takes a third of the time."""
    width = values.type.bit_width // 8
    whole = values.offset + len(values)
    numbers = np.frombuffer(values.buffers()[1], f"V{width}" if width > 8 else f"u{width}", whole)
    taken = numbers[values.offset :][order]
    return pa.Array.from_buffers(values.type, len(taken), [None, pa.py_buffer(taken)])


def texts_of(column: pa.Array | pa.ChunkedArray) -> list[kernels.Text]:
    """Return the offsets and bytes of a string column, one pair per chunk."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [(offsets_of(chunk), data_of(chunk)) for chunk in chunks]


# --- groups ---


def grouped(group: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the row indexes ordered by group, and the start of each group: `order[starts[g]:starts[g + 1]]` is group
    g.

    `group`: the number of each row's group, below `groups`. Rows of a group keep their order.
    """
    narrow = group.astype(np.min_scalar_type(max(groups - 1, 0)))  # up to 16 bits numpy sorts by radix
    starts = np.concatenate(([0], np.cumsum(np.bincount(narrow, minlength=groups))))
    return np.argsort(narrow, kind="stable"), starts


def dealt(hashes: np.ndarray, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """Return `grouped` by the remainder of each row's hash (uint64). Equal hashes share a bucket."""
    return grouped(hashes % np.uint64(buckets), buckets)


def gathered(tables: Iterable[pa.Table], rows: int, size: int) -> Iterator[pa.Table]:
    """Yield the rows of tables that follow each other, at least so many, or so many bytes, together.

    Many small files yield small tables, and every kernel has a fixed cost per table.
    """
    pending: list[pa.Table] = []
    held = taken = 0
    for table in tables:
        pending.append(table)
        held += table.num_rows
        taken += table.nbytes
        if held >= rows or taken >= size:
            yield pa.concat_tables(pending, promote_options="permissive").combine_chunks()
            pending, held, taken = [], 0, 0
    if pending:
        yield pa.concat_tables(pending, promote_options="permissive").combine_chunks()
