"""PostgreSQL's types as Arrow types. The SELECT casts types that the driver doesn't support.
here.

docs/reference/databases.md describes the conversion of types.

- `numeric(p, s)` becomes decimal128(p, s). numeric without a declared scale becomes double; an integer above 2**53 is
  an error instead of being rounded. NaN becomes null in a decimal.
- Infinity becomes an end of int32 or int64, and so does a time that 64 bits from 1970 can't represent. The driver adds
  the 30 years from 1970 to PostgreSQL's 2000 to these values, so that they wrap.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl.arrow import is_list, with_elements, with_fields
from sitemap_etl.errors import InvalidSource
from sitemap_etl.instants import FIRST, FIRST_DAY, LAST, LAST_DAY
from sitemap_etl.sources.batches import check_names
from sitemap_etl.sources.parameters import quoted

_EXACT: Final = 2.0**53
_EPOCH_DAYS: Final = 10_957
"""Days from 1970 to PostgreSQL's epoch, 2000."""
_EPOCH_MICROSECONDS: Final = _EPOCH_DAYS * 86_400_000_000
_NAMED: Final = {
    "money": "CAST({} AS numeric(22, 3))",  # the driver gives the smallest coins of an unknown currency
    "oid": "CAST({} AS bigint)",  # which the driver reads with a sign
    "_money": "CAST({} AS text[])",
    "_oid": "CAST({} AS bigint[])",
    "record": "CAST(to_json({}) AS text)",  # whose columns are known row by row
    "_record": "CAST(to_json({}) AS text)",
}


def castings(schema: pa.Schema, sql: str, *, label: str) -> str:
    """Return the SELECT, wrapped in one that casts columns whose types the driver doesn't return correctly.

    `schema`: of the SELECT's result. Raise InvalidSource if two columns have the same name.
    """
    casts = [_cast(entry) for entry in schema]
    if not any(casts):
        return sql
    check_names(schema.names, label=label)
    names = [quoted(name, "postgresql") for name in schema.names]
    shown = [
        name if cast is None else f"{cast.format(name)} AS {name}" for name, cast in zip(names, casts, strict=True)
    ]
    return f"SELECT {', '.join(shown)} FROM ({sql}\n) source"  # noqa: S608 - the site's own SELECT


def plain(batch: pa.RecordBatch, *, label: str) -> pa.RecordBatch:
    """Return the batch with numerics as numbers, and with infinity for dates that wrapped in the driver."""
    columns = [
        _number(column.storage, entry, label) if _is_numeric(entry.type) else _unwrapped(column)
        for entry, column in zip(batch.schema, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _unwrapped(column: pa.Array) -> pa.Array:
    """Return dates and timestamps with infinity for values that wrapped in the driver."""
    if pt.is_date32(column.type):
        return _with_ends(column, FIRST_DAY + _EPOCH_DAYS, pa.scalar(FIRST_DAY, pa.int32()), LAST_DAY)
    if pt.is_timestamp(column.type):
        return _with_ends(column, FIRST + _EPOCH_MICROSECONDS, pa.scalar(FIRST, pa.int64()), LAST)
    if is_list(column.type) and _holds_dates(column.type):
        return with_elements(column, _unwrapped(pc.list_flatten(column)))
    if pt.is_struct(column.type) and _holds_dates(column.type):
        return with_fields(column, [_unwrapped(field) for field in column.flatten()])
    return column


def _holds_dates(kind: pa.DataType) -> bool:
    if pt.is_date32(kind) or pt.is_timestamp(kind):
        return True
    return any(_holds_dates(kind.field(at).type) for at in range(kind.num_fields))


def _with_ends(column: pa.Array, minus_infinity: int, first: pa.Scalar, last: int) -> pa.Array:
    """Return the column with `first` for the raw value `minus_infinity`, and `last` for smaller values."""
    raw = column.view(first.type)
    lowest = pc.min(raw).as_py()
    if lowest is None or lowest > minus_infinity:
        return column
    ends = pc.if_else(pc.equal(raw, minus_infinity), first, pa.scalar(last, first.type))
    return pc.if_else(pc.less_equal(raw, minus_infinity), ends, raw).view(column.type)


def _cast(entry: pa.Field) -> str | None:
    """Return the SQL that casts a column, with `{}` for its name, or None if no cast is needed."""
    named = _NAMED.get((entry.metadata or {}).get(b"POSTGRESQL:type", b"").decode())
    if named is not None or _is_numeric(entry.type):
        return named
    if pt.is_list(entry.type):
        child = entry.type.value_field
        if pt.is_struct(child.type):
            return _NAMED["record"] if _is_awkward(child) else None
        # Arrays of UUIDs and JSON have extension types, which Arrow can't cast within a list.
        return "CAST({} AS text[])" if _is_awkward(child) or isinstance(child.type, pa.BaseExtensionType) else None
    if pt.is_struct(entry.type):
        return _NAMED["record"] if _is_awkward(entry) else None
    return "CAST({} AS text)" if _is_awkward(entry) else None


def _is_awkward(entry: pa.Field) -> bool:
    """Return True if a value, or a part of it, would be raw bytes or a type that Parquet doesn't support."""
    if pt.is_struct(entry.type):
        return any(_cast(child) is not None or _is_numeric(child.type) for child in entry.type)
    return isinstance(entry.type, pa.OpaqueType) or pt.is_interval(entry.type)


def _is_numeric(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.OpaqueType) and kind.type_name == "numeric"


def _number(column: pa.Array, entry: pa.Field, label: str) -> pa.Array:
    """Convert the text of numerics to decimals if they have a declared scale, otherwise to doubles."""
    modifier = int((entry.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - 4
    # numeric's type modifier holds precision and scale, the scale signed in 11 bits (PostgreSQL's numeric.c).
    precision, scale = modifier >> 16 & 0xFFFF, (modifier & 0x7FF ^ 0x400) - 0x400
    if modifier >= 0 and precision <= 38 and 0 <= scale <= precision:
        finite = pc.invert(pc.equal(column, "nan"))
        return pc.if_else(finite, column, pa.scalar(None, pa.string())).cast(pa.decimal128(precision, scale))
    numbers = column.cast(pa.float64())
    large = pc.and_(pc.greater_equal(pc.abs(numbers), _EXACT), pc.is_finite(numbers))
    if pc.any(large).as_py():
        value = column.filter(large)[0].as_py()
        raise InvalidSource(
            f"{label}: column {entry.name!r} is numeric without a declared scale and holds {value[:60]}, "
            "which a double would round: cast it in the SELECT, to bigint or to text"
        )
    return numbers
