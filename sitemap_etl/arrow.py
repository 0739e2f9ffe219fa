"""Arrow's layouts, told apart in one place: arrays made single and plain, and the memory under them.

A column may come in chunks, as a dictionary, as runs, with wide offsets or as views, and a slice keeps the buffers of
the whole. What works on values takes `single` or `plain` arrays; what works on memory takes it from here, where the
slice's offset is minded. Nothing here copies unless the layout must change.
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
"""Bytes searched at a time: the temporaries stay in cache."""
_FIRST_VISIBLE: Final = np.uint8(0x21)
_VISIBLE: Final = np.uint8(0x80 - 0x21)


class _WithoutPandas(MetaPathFinder):
    """Finds no pandas, while it is among the finders of modules.

    The first value that pyarrow takes from Python makes it import pandas, to see whether the value is one of its
    Series: a quarter of a second. It looks once, and works without; `Table.to_pandas` and `Table.from_pandas`, with
    which frames begin and end here, import pandas all the same.
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
    """The values as one array in the layout they have, without a copy where there is one chunk.

    Raises OverflowError where their text needs wider offsets than the type has: more than 2 GiB.
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
    """The values as one array in the plain layout of their kind.

    Extension types, runs and dictionaries are unpacked; text is `string` and bytes are `binary`, whatever their layout.
    Lists keep theirs: see `is_list`. Raises OverflowError and `pa.ArrowInvalid` past 2 GiB of text.
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
    r"""Return a plain array with its bytes as text; any other array is returned as it is.

    `values`: an array from `plain`. A value that is not UTF-8 keeps its other characters, and shows such bytes as
    `\xff`. Parquet of older writers has text in columns of bytes.
    """
    if not pa.types.is_binary(values.type):
        return values
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [None if raw is None else raw.decode("utf-8", "backslashreplace") for raw in values.to_pylist()]
        return pa.array(decoded, pa.string())


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A table's column as one array."""
    return single(table.column(name))


def joined(arrays: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """The arrays, all of type `kind`, one after the other; none at all is an empty one."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], kind)


def is_text(kind: pa.DataType) -> bool:
    """Whether the type holds text or bytes, also by way of a dictionary."""
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
    """So many nulls of a type, in memory that all such columns share: most columns of most sites hold nothing else."""
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
    """At least so many bytes of zeros, which nobody writes into. The system gives them when they are looked at."""
    global _shared_zeros  # noqa: PLW0603 - grows to what the largest column needs; a race costs one allocation
    found = _shared_zeros
    if found.size < size:
        _shared_zeros = found = pa.py_buffer(np.zeros(max(size, 2 * found.size), np.uint8))
    return found


def is_list(kind: pa.DataType) -> bool:
    """Whether it is any of Arrow's list layouts (a map is not)."""
    return bool(
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


# --- arrays as numpy ---


def mask_of(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A boolean column as a mask of its own: bool, false where it is null."""
    array = single(values)
    if pa.types.is_null(array.type):
        return np.zeros(len(array), bool)
    if array.null_count:
        array = pc.fill_null(array, fill_value=False)
    mask: np.ndarray = array.to_numpy(zero_copy_only=False)
    return mask


def nulls_in(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Where a column is null: a mask of its own."""
    return mask_of(pc.is_null(values)) if values.null_count else np.zeros(len(values), bool)


def numbers_of(values: pa.Array | pa.ChunkedArray, missing: Any = 0) -> np.ndarray:
    """A column of numbers in their own width, `missing` where it is null; read-only where nothing was."""
    array = single(values)
    if array.null_count:
        array = pc.fill_null(array, pa.scalar(missing, array.type))
    numbers: np.ndarray = array.to_numpy(zero_copy_only=False)
    return numbers


def codes_of(values: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """A number for each distinct value, in the order of their first appearance: int64; nulls are -1."""
    codes = single(values).dictionary_encode().indices
    return numbers_of(codes, -1).astype(np.int64)


def lengths_of(lists: pa.Array) -> np.ndarray:
    """How many elements each list has: int64, 0 where it is null. Those of `list.flatten()` are in this order."""
    return numbers_of(pc.list_value_length(lists)).astype(np.int64)


def with_elements(lists: pa.Array, elements: pa.Array) -> pa.Array:
    """Return lists of any layout as `list` with other elements, in the order of `pc.list_flatten(lists)`."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths_of(lists))]), pa.int32())
    return pa.ListArray.from_arrays(offsets, elements, mask=missing_of(lists))


def with_fields(structs: pa.Array, fields: Sequence[pa.Array]) -> pa.Array:
    """Return structs with other values in their fields, in the order of `structs.flatten()`."""
    return pa.StructArray.from_arrays(fields, names=[field.name for field in structs.type], mask=missing_of(structs))


def missing_of(values: pa.Array) -> pa.Array | None:
    """Return which values are null (`bool`), or None if no value is: as Arrow takes a mask."""
    return values.is_null() if values.null_count else None


# --- the memory under an array ---


def offsets_of(values: pa.Array) -> np.ndarray:
    """Where each row of a text, binary or list array begins and the last one ends: n + 1 integers of its own width.

    They count from the beginning of `data_of`, wherever the array is a slice.
    """
    kind = values.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_large_list(kind)
    dtype = np.int64 if wide else np.int32
    if len(values) == 0:
        return np.zeros(1, dtype)
    return np.frombuffer(values.buffers()[1], dtype)[values.offset : values.offset + len(values) + 1]


def data_of(values: pa.Array) -> np.ndarray:
    """All the bytes that `offsets_of` a text or binary array count in: uint8, also those of no row of the array."""
    buffer = values.buffers()[2]
    return np.empty(0, np.uint8) if buffer is None else np.frombuffer(buffer, np.uint8)


def bytes_of(values: pa.Array) -> np.ndarray:
    """The bytes that the rows of a text or binary array span: uint8. Those of rows that are null may lie between."""
    offsets = offsets_of(values)
    return data_of(values)[offsets[0] : offsets[-1]]


def windows(data: np.ndarray, dtype: Any) -> np.ndarray:
    """The values of `dtype` that begin at each byte of `data`, without a copy; none where there are too few bytes."""
    kind = np.dtype(dtype)
    return np.ndarray((max(0, len(data) - kind.itemsize + 1),), kind, data, strides=(1,))


def over(kind: pa.DataType, offsets: np.ndarray, data: Any, validity: pa.Buffer | None = None) -> pa.Array:
    """The text or binary array whose rows lie between `offsets` (of the width of `kind`) in `data`, without a copy."""
    return pa.Array.from_buffers(kind, len(offsets) - 1, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def occurs(data: np.ndarray, code: int) -> bool:
    """Whether a byte is among them."""
    if kernels.compiled is not None:
        return kernels.compiled.occurs(data, code)
    return any(bool((data[at : at + _BLOCK] == code).any()) for at in range(0, len(data), _BLOCK))


def occurs_below(data: np.ndarray, code: int) -> bool:
    """Whether a smaller byte is among them."""
    return any(bool((data[at : at + _BLOCK] < code).any()) for at in range(0, len(data), _BLOCK))


def is_visible(data: np.ndarray) -> bool:
    """Whether all are visible ASCII: no blank, no control, nothing of other scripts."""
    # One comparison for both ends: what is below wraps around to the top.
    blocks = (data[at : at + _BLOCK] - _FIRST_VISIBLE for at in range(0, len(data), _BLOCK))
    return not any(bool((block >= _VISIBLE).any()) for block in blocks)


def exact(values: pa.Array) -> pa.Array:
    """The values in memory that begins and ends with them, and that says nothing else: no bytes beneath nulls.

    Equal arrays are then written as equal bytes. Arrow pads what it writes of a slice with what follows it in memory.
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
    """The rows of a table in another order, none of them twice: `order` are their places, int64 or uint64."""
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
    """The same of a column of numbers or times without nulls: without a look at each place, a third of the price."""
    width = values.type.bit_width // 8
    whole = values.offset + len(values)
    numbers = np.frombuffer(values.buffers()[1], f"V{width}" if width > 8 else f"u{width}", whole)
    taken = numbers[values.offset :][order]
    return pa.Array.from_buffers(values.type, len(taken), [None, pa.py_buffer(taken)])


def texts_of(column: pa.Array | pa.ChunkedArray) -> list[kernels.Text]:
    """Where the rows of a string column begin, and their bytes, a pair a chunk."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return [(offsets_of(chunk), data_of(chunk)) for chunk in chunks]


# --- groups ---


def grouped(group: np.ndarray, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The rows in the order of their group, and where each group begins: `order[starts[g]:starts[g + 1]]` are of g.

    `group`: the number of each row's group, below `groups`. Rows of a group keep their order.
    """
    narrow = group.astype(np.min_scalar_type(max(groups - 1, 0)))  # up to 16 bits numpy sorts by radix
    starts = np.concatenate(([0], np.cumsum(np.bincount(narrow, minlength=groups))))
    return np.argsort(narrow, kind="stable"), starts


def dealt(hashes: np.ndarray, buckets: int) -> tuple[np.ndarray, np.ndarray]:
    """`grouped` by the remainder of each row's hash (uint64): equal hashes share a bucket."""
    return grouped(hashes % np.uint64(buckets), buckets)


def gathered(tables: Iterable[pa.Table], rows: int, size: int) -> Iterator[pa.Table]:
    """The rows of tables that follow each other, at least so many, or so many bytes, together.

    What is read of many small files comes in small tables, of which each has a price of its own in every kernel.
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
