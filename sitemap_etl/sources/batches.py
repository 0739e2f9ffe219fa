"""Batches of extract: bounded size, plain types, valid UTF-8."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl import limits
from sitemap_etl.arrow import is_list, missing_of, nulls, offsets_of, with_elements, with_fields
from sitemap_etl.errors import InvalidSource
from sitemap_etl.instants import in_unit

_DIGITS: Final = 38
"""Digits of a decimal128, which every reader of columns supports."""
_SHOWN: Final = 100
"""Bytes of a value in a message."""


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the plain type for `kind`, so that later stages handle one form of text and list.

    Views, large and dictionary forms of text become string, and all lists become list. Extension types become their
    storage, UUIDs text, seconds milliseconds, and short decimals decimal128.
    """
    if pt.is_large_string(kind) or pt.is_string_view(kind) or isinstance(kind, pa.UuidType):
        return pa.string()
    if pt.is_large_binary(kind) or pt.is_binary_view(kind):
        return pa.binary()
    if pt.is_dictionary(kind) or pt.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return _plain_nested(kind) if pt.is_nested(kind) else _plain_flat(kind)


def _plain_flat(kind: pa.DataType) -> pa.DataType:
    if pt.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)  # Parquet has no seconds
    if pt.is_decimal(kind) and kind.precision <= _DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    return kind


def _plain_nested(kind: pa.DataType) -> pa.DataType:
    if pt.is_map(kind):
        return pa.map_(plain_type(kind.key_type), plain_type(kind.item_type))
    if pt.is_struct(kind):
        return pa.struct([(child.name, plain_type(child.type)) for child in kind])
    return pa.list_(plain_type(kind.value_type)) if is_list(kind) else kind


def is_unusual(kind: pa.DataType) -> bool:
    """Return True if Arrow's casts don't convert the type, or a type in it, to its plain form."""
    return (
        isinstance(kind, pa.BaseExtensionType)
        or pt.is_run_end_encoded(kind)
        or pt.is_list_view(kind)
        or pt.is_large_list_view(kind)
        or any(is_unusual(kind.field(at).type) for at in range(kind.num_fields))
    )


def plain_schema(schema: pa.Schema, *, label: str) -> pa.Schema:
    """Return the schema in plain types, without metadata. Raise InvalidSource if two columns have the same name."""
    check_names(schema.names, label=label)
    return pa.schema([(entry.name, plain_type(entry.type)) for entry in schema])


def check_names(names: Sequence[str], *, label: str) -> None:
    """Raise InvalidSource if two columns have the same name."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidSource(
            f"{label} yields the column {twice[0]!r} more than once: give each column a name of its own"
        )


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the columns and types of `schema`. Missing columns are null.

    Raises `pa.ArrowInvalid` if a value doesn't fit its type.
    """
    columns = []
    for entry in schema:
        at = batch.schema.get_field_index(entry.name)
        columns.append(nulls(batch.num_rows, entry.type) if at < 0 else _plain(batch.column(at), entry.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def fit(
    batches: Iterable[pa.RecordBatch],
    *,
    label: str,
    schema: pa.Schema | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches of at most `batch_rows` rows and `batch_bytes` bytes. Small batches are combined.

    Every batch has `schema`, or the plain form of the first batch's schema. A row of more than `batch_bytes` is a batch
    by itself. Empty batches are dropped. Raise InvalidSource for text that is not UTF-8 and for values that don't fit
    their column.
    """
    held: list[pa.RecordBatch] = []
    held_rows = held_bytes = 0
    for batch in batches:
        if schema is None:
            schema = plain_schema(batch.schema, label=label)
        for raw in _pieces(batch, batch_rows, batch_bytes):
            for piece in _pieces(_checked(raw, schema, label), batch_rows, batch_bytes):
                size = piece.nbytes
                if held and (held_rows + piece.num_rows > batch_rows or held_bytes + size > batch_bytes):
                    yield _joined(held)
                    held, held_rows, held_bytes = [], 0, 0
                held.append(piece)
                held_rows += piece.num_rows
                held_bytes += size
    if held:
        yield _joined(held)


def read_rows(schema: pa.Schema, row_bytes: float, batch_rows: int, batch_bytes: int) -> int:
    """Return the number of rows to request from a reader at a time, if a row takes about `row_bytes`.

    Text columns can be larger than they seem (dictionaries), so unless rows are small, a quarter is requested.
    """
    wide = row_bytes * batch_rows > batch_bytes / 2 or len(schema) > 32
    rows = batch_rows // 4 if wide else batch_rows
    return int(max(1, min(rows, batch_bytes // max(row_bytes, 1.0))))


def _joined(held: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return held[0] if len(held) == 1 else pa.concat_batches(held)


def _pieces(batch: pa.RecordBatch, rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """Yield slices within both limits, halved until they fit, because row sizes can differ widely."""
    count = batch.num_rows
    if count == 0:
        return
    if count <= rows and (count == 1 or batch.nbytes <= size):
        yield batch
        return
    if count > rows:
        for start in range(0, count, rows):
            yield from _pieces(batch.slice(start, rows), rows, size)
        return
    half = count // 2
    yield from _pieces(batch.slice(0, half), rows, size)
    yield from _pieces(batch.slice(half), rows, size)


def _checked(batch: pa.RecordBatch, schema: pa.Schema, label: str) -> pa.RecordBatch:
    """Return the batch in `schema`, with its text validated as UTF-8. Only the CSV reader validates text itself."""
    try:
        plain = batch if batch.schema.equals(schema, check_metadata=True) else conform(batch, schema)
        plain.validate(full=True)
    except pa.ArrowException as error:
        raise InvalidSource(f"{label}: {_culprit(batch, schema) or error}") from error
    return plain


def _culprit(batch: pa.RecordBatch, schema: pa.Schema) -> str:
    """Return a description of the column that can't be converted, with the value if it is not UTF-8.

    Returns "" if each column alone can be converted.
    """
    for entry in schema:
        if entry.name in batch.schema.names:
            column = batch.column(entry.name)
            try:
                _plain(column, entry.type).validate(full=True)
            except pa.ArrowException as error:
                wrong = f"column {entry.name!r} can't be read as {entry.type}"
                value = _first_invalid(column) if pt.is_string(column.type) or pt.is_large_string(column.type) else None
                if value is None:
                    return f"{wrong}: {error}"
                return (
                    f"{wrong}: {value[:_SHOWN]!r} is not UTF-8. Mend that value where it is stored, or yield "
                    f"{entry.name} as bytes: then only the rows are rejected whose bytes are not UTF-8"
                )
    return ""


def _first_invalid(texts: pa.Array) -> bytes | None:
    """Return the first text that is not UTF-8, or None if all are."""
    if _is_valid(texts):
        return None
    while len(texts) > 1:
        half = texts.slice(0, len(texts) // 2)
        texts = texts.slice(len(half)) if _is_valid(half) else half
    value: bytes = texts.view(pa.large_binary() if pt.is_large_string(texts.type) else pa.binary())[0].as_py()
    return value


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except pa.ArrowException:
        return False
    return True


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type == kind:
        return column
    if isinstance(column.type, pa.BaseExtensionType):
        return _uuid_text(column.storage) if isinstance(column.type, pa.UuidType) else _plain(column.storage, kind)
    if pt.is_run_end_encoded(column.type):
        return _plain(pc.run_end_decode(column), kind)
    if is_unusual(column.type):
        return _plain_elements(column, kind)
    if pt.is_timestamp(column.type) and pt.is_timestamp(kind) and (column.type.tz is None) == (kind.tz is None):
        return in_unit(column, kind)
    return column.cast(kind)


def _plain_elements(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Convert nested extension types and list views. Arrow's casts would return wrong values."""
    if is_list(column.type):
        return with_elements(column, _plain(pc.list_flatten(column), kind.value_type)).cast(kind)
    if pt.is_struct(column.type):
        pairs = zip(column.flatten(), kind, strict=True)
        return with_fields(column, [_plain(field, to.type) for field, to in pairs]).cast(kind)
    entries = _plain(column.keys, kind.key_type), _plain(column.items, kind.item_type)
    offsets = pa.array(offsets_of(column))
    return pa.MapArray.from_arrays(offsets, *entries, type=kind, mask=missing_of(column))


def _uuid_text(column: pa.Array) -> pa.Array:
    """Convert 16 bytes per row to the usual 36 characters, without Python per row."""
    digits = np.frombuffer(b"0123456789abcdef", np.uint8)
    rows = len(column)
    data = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * 16 : (column.offset + rows) * 16].reshape(
        rows, 16
    )
    pairs = np.stack([digits[data >> 4], digits[data & 15]], axis=2).reshape(rows, 32)
    dash = np.full((rows, 1), ord("-"), np.uint8)
    cuts = (0, 8, 12, 16, 20, 32)
    parts = [pairs[:, a:b] for a, b in itertools.pairwise(cuts)]
    spread = [piece for part in parts for piece in (part, dash)][:-1]
    text = np.ascontiguousarray(np.concatenate(spread, axis=1))
    whole = pa.Array.from_buffers(pa.binary(36), rows, [None, pa.py_buffer(text)]).cast(pa.binary()).cast(pa.string())
    return pc.if_else(column.is_valid(), whole, pa.scalar(None, pa.string())) if column.null_count else whole
