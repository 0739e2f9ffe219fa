"""Dates in MongoDB exports: `{"$date": "2026-01-02T03:04:05Z"}`, as a struct or JSON.

The forms of Extended JSON v2 are ISO text, or milliseconds since 1970 as a number or as `{"$numberLong": "…"}`.
https://www.mongodb.com/docs/manual/reference/mongodb-extended-json/
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ..arrow import bytes_of, occurs, plain

_DATE: Final = "$date"
_LONG: Final = "$numberLong"
_TEXT: Final = (
    r'^\s*\{\s*"\$date"\s*:\s*(?:"(?P<text>[^"]*)"|(?P<number>-?\d+)'
    r'|\{\s*"\$numberLong"\s*:\s*"(?P<long>-?\d+)"\s*\})\s*\}\s*$'
)
UNIT: Final = "ms"
"""Unit of numbers in such dates."""


def is_date(kind: pa.DataType) -> bool:
    """Return True if a type is a struct with only the field `$date`."""
    return bool(pa.types.is_struct(kind) and kind.num_fields == 1 and kind.field(0).name == _DATE)


def unwrapped(column: pa.Array) -> pa.Array | None:
    """Return the content of a column's dates as text or numbers, and other text unchanged.

    Returns None if the column has no such dates.
    """
    kind = column.type
    if is_date(kind):
        inner = plain(pc.struct_field(column, _DATE))
        is_long = pa.types.is_struct(inner.type) and inner.type.get_field_index(_LONG) >= 0
        return plain(pc.struct_field(inner, _LONG)) if is_long else inner
    if not pa.types.is_string(kind) or not occurs(bytes_of(column), ord("{")):
        return None
    found = pc.extract_regex(column, _TEXT)
    if found.null_count == len(found):
        return None
    parts = [pc.struct_field(found, name) for name in ("text", "number", "long")]
    inside = pc.binary_join_element_wise(*parts, "")
    return pc.if_else(pc.is_valid(found), inside, column)
