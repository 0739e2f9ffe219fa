r"""The types of JSON values: what all values of a key are together, and a pattern of the lines that have nothing new.

A type here is one that values were found to have: null where they were only `null`, `string` where they are text or
scalars of several kinds, and `MIXED` where some are lists or objects and others are not. Whatever else comes, text it
remains (`common`).
"""

from __future__ import annotations

import json
import re
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

MIXED: Final = pa.large_string()
"""Of lists or objects and other values. A column with such values anywhere within is JSON text as a whole, so that its
readers see each row as it was written."""
_STRUCT_KEYS: Final = 200
"""Keys up to which a nested object is a struct. One with more has data for keys, and stays JSON text."""
_PATTERN_DEPTH: Final = 5
"""Levels up to which there is a pattern: each one makes it twice as long."""
_PATTERN_LENGTH: Final = 20_000
"""Characters of a pattern. From about 30,000 on the tables that RE2 makes of it are larger than the 8 MB that it allows
itself, and it takes thirty times as long."""

_GAP: Final = r"[ \t\r]*"
_ESCAPES: Final = (
    r'\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}|'
    r"[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
"""Halves of a character (surrogates) only as pairs."""
_TEXT: Final = rf'"(?:[^"\\\x00-\x1f]|{_ESCAPES})*"'
_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_INT64: Final = r"-?(?:0|[1-9][0-9]{0,17}|[1-8][0-9]{18}|9[01][0-9]{17})"
"""A little less than an int64 holds."""
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
    """What values of either type are together; text where that is nothing else."""
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
    """The type of one value."""
    if isinstance(value, dict):
        return pa.struct([(name, type_of(child)) for name, child in value.items()])
    if isinstance(value, list):
        return pa.list_(reduce(common, map(type_of, value), pa.null()))
    if isinstance(value, int) and not isinstance(value, bool):
        return pa.int64() if -(2**63) <= value < 2**63 else pa.string()  # a double would round it
    return {type(None): pa.null(), bool: pa.bool_(), float: pa.float64()}.get(type(value), pa.string())


def undated(kind: pa.DataType) -> Any:
    """The type that Arrow found, with text for the times that it takes text for."""
    if pt.is_struct(kind):
        return pa.struct([(child.name, undated(child.type)) for child in kind])
    if pt.is_list(kind):
        return pa.list_(undated(kind.value_type))
    return pa.string() if pt.is_temporal(kind) else kind


def _depth(kind: pa.DataType) -> int:
    return 1 + max((_depth(kind.field(at).type) for at in range(kind.num_fields)), default=0)


def readable(kind: pa.DataType) -> pa.DataType:
    """The type that a value is read as: what can't be one of these is its JSON text."""
    if is_mixed(kind):
        return pa.string()
    if pt.is_list(kind):
        return pa.list_(readable(kind.value_type))
    if pt.is_struct(kind):
        plain = 0 < kind.num_fields <= _STRUCT_KEYS and same_but_case(kind) is None and kind.get_field_index("") < 0
        return pa.struct([(child.name, readable(child.type)) for child in kind]) if plain else pa.string()
    return pa.string() if pt.is_null(kind) else kind


def is_mixed(kind: pa.DataType) -> bool:
    """Whether `MIXED` stands in it."""
    return bool(kind == MIXED) or any(is_mixed(kind.field(at).type) for at in range(kind.num_fields))


def same_but_case(kind: pa.StructType) -> tuple[str, str] | None:
    """Two keys that differ only in case: DuckDB's structs take them for one."""
    seen: dict[str, str] = {}
    for child in kind:
        other = seen.setdefault(child.name.lower(), child.name)
        if other != child.name:
            return other, child.name
    return None


# --- in DuckDB's words ----------------------------------------------------------------------------


def from_duckdb(structure: Any) -> Any:
    """The type of a structure as `json_group_structure` says it; whole numbers fit an int64, whatever it calls them."""
    if isinstance(structure, dict):
        return pa.struct([(name, from_duckdb(child)) for name, child in structure.items()])
    if isinstance(structure, list):
        return pa.list_(from_duckdb(structure[0]))
    whole = dict.fromkeys(("BIGINT", "UBIGINT", "HUGEINT"), pa.int64())
    return {**whole, "NULL": pa.null(), "BOOLEAN": pa.bool_(), "DOUBLE": pa.float64()}.get(structure, pa.string())


def to_duckdb(kind: pa.DataType) -> Any:
    """A readable type as `json_transform` wants it."""
    if pt.is_struct(kind):
        return {child.name: to_duckdb(child.type) for child in kind}
    if pt.is_list(kind):
        return [to_duckdb(kind.value_type)]
    return {pa.bool_(): "BOOLEAN", pa.int64(): "BIGINT", pa.float64(): "DOUBLE"}.get(kind, "VARCHAR")


# --- as a pattern ---------------------------------------------------------------------------------


def pattern_of(known: pa.StructType) -> str | None:
    """A regular expression (RE2, over bytes) of lines that are objects of known keys, and add nothing to their types.

    Lines may be blank, and each has its break. Not every such line fits: what is spelled in an unusual way does not.
    None where there are no keys, or too many.
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
    # Keys that share the pattern of their values share the states of the automaton that RE2 makes of it.
    pairs = "|".join(f"(?:{'|'.join(keys)}){_GAP}:{_GAP}(?:{value})" for value, keys in values.items())
    return rf"\{{{_GAP}{_several(pairs)}\}}" if pairs else rf"\{{{_GAP}\}}"


def _value(kind: pa.DataType) -> str:
    if pt.is_struct(kind):
        return f"{_object(kind)}|null"
    if pt.is_list(kind):
        return rf"\[{_GAP}{_several(_value(kind.value_type))}\]|null"
    return _SCALARS[kind]


def _several(item: str) -> str:
    """None, one or more, with commas between them."""
    return f"(?:(?:(?:{item}){_GAP},{_GAP})*(?:{item}){_GAP})?"
