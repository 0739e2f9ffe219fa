"""Types of JSON values: the common type of all values of a key, and a pattern of lines that add nothing new.

A type is the type of the values so far: null for only `null`, `string` for text or scalars of several kinds, and
`MIXED` for lists or objects together with other values. Text stays text, whatever follows (`common`).
"""

from __future__ import annotations

import json
import re
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

MIXED: Final = pa.large_string()
"""Type of lists or objects together with other values.

A column that contains such values at any level is JSON text as a whole, so that readers see each row as written.
"""
_STRUCT_KEYS: Final = 200
"""Maximum keys of a nested object that becomes a struct.

Objects with more keys use them as data, and stay JSON text.
"""
_PATTERN_DEPTH: Final = 5
"""Maximum levels of a pattern, because each level doubles its length."""
_PATTERN_LENGTH: Final = 20_000
"""Maximum characters of a pattern.

From about 30,000 on, RE2's tables exceed its limit of 8 MB, and it takes thirty times as long.
"""

_GAP: Final = r"[ \t\r]*"
_ESCAPES: Final = (
    r'\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|'
    r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
"""Escapes in JSON text. Surrogates only in pairs."""
_TEXT: Final = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPES})*"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_INT64: Final = r"-?(?:0|[1-9][0-9]{0,17}|[1-8][0-9]{18}|9[01][0-9]{17})"
"""Integers that fit into an int64, except a few at its ends."""
_SCALARS: Final = {
    pa.null(): "null",
    pa.bool_(): "true|false|null",
    pa.int64(): f"{_INT64}|null",
    pa.float64(): f"{_NUMBER}|null",
    pa.string(): f"{_TEXT}|{_NUMBER}|true|false|null",
    MIXED: f"{_TEXT}|{_NUMBER}|true|false|null",
}


# --- what values are together ---------------------------------------------------------------------


def common(one: pa.DataType, other: pa.DataType) -> Any:
    """Return the common type of values of either type. Text if there is no other."""
    if one == other or pt.is_null(other):
        return one
    if pt.is_null(one):
        return other
    if pt.is_struct(one) and pt.is_struct(other):
        kinds = {child.name: child.type for child in one}
        for child in other:
            kinds[child.name] = common(kinds.get(child.name, pa.null()), child.type)
        return pa.struct(list(kinds.items()))
    if pt.is_list(one) and pt.is_list(other):
        return pa.list_(common(one.value_type, other.value_type))
    if any(pt.is_nested(kind) or kind == MIXED for kind in (one, other)):
        return MIXED
    numbers = all(pt.is_integer(kind) or pt.is_floating(kind) for kind in (one, other))
    return pa.float64() if numbers else pa.string()


def type_of(value: Any) -> Any:
    """Return the type of one value."""
    if isinstance(value, dict):
        return pa.struct([(name, type_of(child)) for name, child in value.items()])
    if isinstance(value, list):
        return pa.list_(reduce(common, map(type_of, value), pa.null()))
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.string()  # a double would round the value
    return {type(None): pa.null(), bool: pa.bool_(), float: pa.float64()}.get(type(value), pa.string())


def undated(kind: pa.DataType) -> Any:
    """Return Arrow's type with text instead of the times that it recognizes in text."""
    if pt.is_struct(kind):
        return pa.struct([(child.name, undated(child.type)) for child in kind])
    if pt.is_list(kind):
        return pa.list_(undated(kind.value_type))
    return pa.string() if pt.is_temporal(kind) else kind


def _depth(kind: pa.DataType) -> int:
    return 1 + max((_depth(kind.field(at).type) for at in range(kind.num_fields)), default=0)


def readable(kind: pa.DataType) -> pa.DataType:
    """Return the type that a value is read as. Values without a suitable type are read as JSON text."""
    if is_mixed(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(readable(kind.value_type))
    if pt.is_struct(kind):
        plain = 0 < kind.num_fields <= _STRUCT_KEYS and same_but_case(kind) is None and kind.get_field_index("") < 0
        return pa.struct([(child.name, readable(child.type)) for child in kind]) if plain else pa.string()
    return pa.string() if pt.is_null(kind) else kind


def is_mixed(kind: pa.DataType) -> bool:
    """Return True if the type contains `MIXED`."""
    return bool(kind == MIXED) or any(is_mixed(kind.field(at).type) for at in range(kind.num_fields))


def same_but_case(kind: pa.StructType) -> tuple[str, str] | None:
    """Return two keys that differ only in case, which DuckDB's structs don't distinguish, or None."""
    seen: dict[str, str] = {}
    for child in kind:
        other = seen.setdefault(child.name.lower(), child.name)
        if other != child.name:
            return other, child.name
    return None


# --- in DuckDB's words ----------------------------------------------------------------------------


def from_duckdb(structure: Any) -> Any:
    """Return the type of a structure from `json_group_structure`. Integers are int64, whatever their name."""
    if isinstance(structure, dict):
        return pa.struct([(name, from_duckdb(child)) for name, child in structure.items()])
    if isinstance(structure, list):
        return pa.list_(from_duckdb(structure[0]))
    whole = dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT"), pa.int64())
    return {**whole, "NULL": pa.null(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64()}.get(structure, pa.string())


def to_duckdb(kind: pa.DataType) -> Any:
    """Return a readable type in the syntax of `json_transform`."""
    if pt.is_struct(kind):
        return {child.name: to_duckdb(child.type) for child in kind}
    if pt.is_list(kind):
        return [to_duckdb(kind.value_type)]
    return {pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}.get(kind, "VARCHAR")


# --- as a pattern ---------------------------------------------------------------------------------


def pattern_of(known: pa.StructType) -> str | None:
    """Return a regular expression (RE2, over bytes) for lines with objects of known keys that add nothing to their
    types.

    Lines can be blank, and each ends with a line break. Lines with unusual spelling don't match. None if there are no
    keys, or too many.
    """
    if not known.num_fields or _depth(known) > _PATTERN_DEPTH:
        return None
    pattern = f"^(?:{_GAP}(?:{_object(known)}{_GAP})?\n)*$"
    return pattern if len(pattern) <= _PATTERN_LENGTH else None


def _object(kind: pa.StructType) -> str:
    values: dict[str, list[str]] = {}
    for child in kind:
        spelled = {json.dumps(child.name, ensure_ascii=plain) for plain in (True, False)}
        values.setdefault(_value(child.type), []).extend(map(re.escape, sorted(spelled)))
    # Keys with the same pattern for their values share states of RE2's automaton.
    pairs = "|".join(f"(?:{'|'.join(keys)}){_GAP}:{_GAP}(?:{value})" for value, keys in values.items())
    return rf"\{{{_GAP}{_several(pairs)}\}}" if pairs else rf"\{{{_GAP}\}}"


def _value(kind: pa.DataType) -> str:
    if pt.is_struct(kind):
        return f"{_object(kind)}|null"
    if pt.is_list(kind):
        return rf"\[{_GAP}{_several(_value(kind.value_type))}\]|null"
    return _SCALARS[kind]


def _several(item: str) -> str:
    """Return the pattern of zero or more items, separated by commas."""
    return f"(?:(?:(?:{item}){_GAP},{_GAP})*(?:{item}){_GAP})?"
