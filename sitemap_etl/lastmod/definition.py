"""Kinds of values in fingerprints, and the ID of a fingerprint's definition."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import pyarrow as pa

from ..errors import InvalidSource, it_has
from ..hashes import combine, hash64

HASH_VERSION: Final = 1
"""Version of the hash definition.

If it increases, every section resets its fingerprints instead of dating all pages.
"""

Kinds = Sequence[tuple[str, str]]
"""Column names with their kinds."""

_TESTS: Final[dict[str, Callable[[pa.DataType], bool]]] = {
    "null": pa.types.is_null,
    "bool": pa.types.is_boolean,
    "int": pa.types.is_integer,
    "float": pa.types.is_floating,
    "decimal": pa.types.is_decimal,
    "text": lambda t: pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t),
    "binary": lambda t: (
        pa.types.is_binary(t)
        or pa.types.is_large_binary(t)
        or pa.types.is_binary_view(t)
        or pa.types.is_fixed_size_binary(t)
    ),
    "date": pa.types.is_date,
    "local": lambda t: pa.types.is_timestamp(t) and t.tz is None,
    "instant": lambda t: pa.types.is_timestamp(t) and t.tz is not None,
    "time": pa.types.is_time,
    "duration": pa.types.is_duration,
    "list": lambda t: (
        pa.types.is_list(t)
        or pa.types.is_large_list(t)
        or pa.types.is_fixed_size_list(t)
        or pa.types.is_list_view(t)
        or pa.types.is_large_list_view(t)
    ),
    "struct": pa.types.is_struct,
    "map": pa.types.is_map,
}
"""Test for the Arrow types of each kind."""


def kinds(schema: pa.Schema, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns of a rule, each once and sorted by name, with their kinds in `schema`.

    Raise InvalidSource as `fingerprint` does.
    """
    if not columns:
        raise ValueError("a fingerprint needs at least one column")
    found = []
    for column in sorted(set(columns)):
        at = schema.get_all_field_indices(column)
        if len(at) != 1:
            problem = "the source has no such column" if not at else f"the source has {len(at)} columns of that name"
            raise InvalidSource(f"lastmod.fingerprint: {column}: {problem}. {it_has(schema.names, column)}")
        try:
            found.append((column, _kind(schema.field(at[0]).type)))
        except TypeError as error:
            raise InvalidSource(f"lastmod.fingerprint: {column}: {error}. Cast it to text in the SELECT") from error
    return found


def agreed(splits: Iterable[Kinds]) -> list[tuple[str, str]]:
    """Merge the kinds of a source's splits. A column with only nulls matches any kind.

    Raise InvalidSource if two splits differ, because their fingerprints could not be compared between runs.
    """
    merged: dict[str, str] = {}
    for split in splits:
        for column, kind in split:
            known = merged.setdefault(column, kind)
            if known == "null":
                merged[column] = kind
            elif not _alike(known, kind):
                raise InvalidSource(
                    f"lastmod.fingerprint: {column} is {known} in one part of the source and {kind} in another."
                    " Cast it to one type in the SELECT"
                )
    return sorted(merged.items())


def rule_id(columns: Kinds) -> str:
    """Return the ID of a fingerprint's definition: columns, kinds and hash version. The order of `columns` doesn't
    count.

    If a section's kinds are unknown, only fingerprints with the same ID can be compared.
    """
    parts = [part for column, kind in sorted(columns) for part in (column, _without_floats(kind))]
    return f"f{HASH_VERSION}-{int(combine([hash64(pa.array([part])) for part in parts])[0]):016x}"


def comparable(published: Kinds, found: Kinds) -> bool:
    """Return True if fingerprints over these kinds can be compared. A column with only nulls matches any kind."""
    ours = dict(found)
    return dict(published).keys() == ours.keys() and all(_alike(kind, ours[column]) for column, kind in published)


def _alike(one: str, other: str) -> bool:
    return "null" in (one, other) or _without_floats(one) == _without_floats(other)


def _without_floats(kind: str) -> str:
    """Return the kind with one name for all numbers except decimals."""
    return re.sub(r"\bfloat\b(?!:)", "int", kind)


def name(kind: pa.DataType) -> str:
    """Return the name of a type's kind. Raise TypeError if none is defined."""
    for known, test in _TESTS.items():
        if test(kind):
            return known
    raise TypeError(f"{kind} has no defined fingerprint")


def _kind(kind: pa.DataType) -> str:
    """Return the kind of a type, including its inner types. Raise TypeError as `name` does."""
    while True:
        if isinstance(kind, pa.BaseExtensionType):
            kind = kind.storage_type
        elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
            kind = kind.value_type
        else:
            break
    outer = name(kind)
    if outer == "list":
        return f"list<{_kind(kind.value_type)}>"
    if outer == "map":
        return f"map<{_kind(kind.key_type)}, {_kind(kind.item_type)}>"
    if outer == "struct":
        fields = sorted((str(field.name), _kind(field.type)) for field in kind)
        return f"struct<{', '.join(f'{field}: {inner}' for field, inner in fields)}>"
    return outer
