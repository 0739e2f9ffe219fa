"""Sessions of DuckDB, in memory or on a file: what they may do, what a SELECT sees, and what their errors say.

A statement opens no file but the database, reaches no network and installs no extension. Time zone: UTC.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.types as pt

MEMORY: Final = "1GiB"
"""Memory limit of a statement. Beyond it, the statement spills to a scratch folder, or fails without one."""
_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "python_enable_replacements": "false",
}
_SESSION: Final = (
    "TimeZone = 'UTC'",
    "enable_progress_bar = false",  # it writes to stdout after two seconds
    "enable_external_access = false",
)


@contextmanager
def opened(path: str | None = None, *, scratch: str | None = None, memory: str = MEMORY) -> Iterator[Any]:
    """Open a file read-only, or a database in memory. `scratch`: a folder to spill to.

    Raise DuckDB's errors.
    """
    settings: dict[str, Any] = {**_SETTINGS, "memory_limit": memory, "threads": str(min(4, os.cpu_count() or 1))}
    if scratch is not None:
        settings["temp_directory"] = scratch
    database = duckdb.connect(path or ":memory:", read_only=path is not None, config=settings)
    try:
        for setting in _SESSION:
            database.execute(f"SET {setting}")
        yield database
    finally:
        database.close()


def first_words(error: Exception) -> str:
    """Return DuckDB's message in one line, including the SQL that it points to."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip(" ^\t")]
    return " ".join(lines)[:600]


# --- names that differ in case only --------------------------------------------------------------------

_PLACE: Final = "\x1f"
"""Stands before the place of a column, at the end of a name that SQL can't name."""


def distinct_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with other names for columns, and fields of structs, whose names differ in case only.

    SQL ignores case, so DuckDB would take one of them for the other. It finds none of the new names in a statement.
    """
    return _renamed(schema, _distinct)


def restored_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with the names that `distinct_schema` replaced."""
    return _renamed(schema, lambda names: [name.partition(_PLACE)[0] for name in names])


def labelled(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with the names of `schema`, whose types are the same; nothing is copied."""
    return batch if batch.schema.equals(schema) else pa.record_batch(_Labelled(batch, schema))


def ambiguous_names(error: Exception, schema: pa.Schema) -> str | None:
    """Return two names of a schema that differ in case only, in words, if DuckDB's error is about one of them."""
    message = str(error).casefold()
    for names in _names_in(schema):
        count = Counter(name.casefold() for name in names)
        for folded, number in count.items():
            if number > 1 and f'"{folded}"' in message:
                first, second = [name for name in names if name.casefold() == folded][:2]
                return f"{first!r} and {second!r} differ in case only, which SQL ignores"
    return None


class _Labelled:
    """A batch under other names."""

    def __init__(self, batch: pa.RecordBatch, schema: pa.Schema) -> None:
        self._batch, self._schema = batch, schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, array = self._batch.__arrow_c_array__()
        return self._schema.__arrow_c_schema__(), array


def _distinct(names: list[str]) -> list[str]:
    count = Counter(name.casefold() for name in names)
    return [f"{name}{_PLACE}{at}" if count[name.casefold()] > 1 else name for at, name in enumerate(names)]


def _renamed(schema: pa.Schema, rename: Callable[[list[str]], list[str]]) -> pa.Schema:
    fields = _renamed_fields(list(schema), rename)
    return schema if fields == list(schema) else pa.schema(fields)


def _renamed_fields(fields: list[pa.Field], rename: Callable[[list[str]], list[str]]) -> list[pa.Field]:
    names = rename([field.name for field in fields])
    return [
        field.with_name(name).with_type(_renamed_type(field.type, rename))
        for field, name in zip(fields, names, strict=True)
    ]


def _renamed_type(kind: pa.DataType, rename: Callable[[list[str]], list[str]]) -> pa.DataType:
    if pt.is_struct(kind):
        return pa.struct(_renamed_fields(list(kind), rename))
    if pt.is_map(kind):
        return pa.map_(kind.key_type, _renamed_type(kind.item_type, rename))
    return pa.list_(_renamed_type(kind.value_type, rename)) if pt.is_list(kind) else kind


def _names_in(fields: pa.Schema | pa.DataType) -> Iterator[list[str]]:
    """Yield the names beside each other, of columns and of fields of structs."""
    children = list(fields) if isinstance(fields, pa.Schema) else [fields.field(at) for at in range(fields.num_fields)]
    yield [child.name for child in children]
    for child in children:
        yield from _names_in(child.type)


# --- what a SELECT sees -------------------------------------------------------------------------------

_AGGREGATES: Final = """
    SELECT function_name FROM duckdb_functions() GROUP BY ALL HAVING bool_and(function_type = 'aggregate')
"""
_ROWS_OF_ONE: Final = ("unnest", "generate_subscripts")
"""Functions that turn one row into several."""


def parsed(database: Any, sql: str) -> list[Mapping[str, Any]]:
    """Return every node of a SELECT's syntax tree, parsed by DuckDB."""
    (text,) = database.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    return list(_parts(json.loads(text)["statements"][0]["node"]))


def _parts(node: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _parts(below)


_CHANGING: Final = re.compile(
    r"now|today|age|ago|random|uuid\w*|gen_random_uuid|nextval|currval|getenv|getvariable|localtime\w*|current_\w+"
    r"|get_current_\w+|transaction_timestamp|txid_current|pg_conf_load_time|pg_postmaster_start_time"
)
"""Functions that yield another value on another run. DuckDB's own `stability` takes `age` for one that does not."""
_KEYWORDS: Final = re.compile(r"current_(date|time|timestamp)|localtime(stamp)?")
"""Such functions without parentheses. DuckDB parses them as columns."""
_PARAMETER: Final = re.compile(r"(?<!:):(?=[A-Za-z_])")


@lru_cache
def names_the_time(sql: str) -> bool:
    """Return True if a SELECT or a predicate can yield something else on another run, over the same rows.

    That holds for any text that DuckDB can't parse.
    """
    text = f"SELECT ({_PARAMETER.sub('$', sql.strip().rstrip(';'))}\n)"
    try:
        with opened() as database:
            return any(map(_names_the_time, parsed(database, text)))
    except (duckdb.Error, KeyError):
        return True


def _names_the_time(part: Mapping[str, Any]) -> bool:
    names: Sequence[Any] = part.get("column_names") or ()
    keyword = len(names) == 1 and _KEYWORDS.fullmatch(str(names[0]).lower())
    return bool(keyword or _CHANGING.fullmatch(str(part.get("function_name", "")).lower()))


def beyond_a_row(database: Any, parts: Sequence[Mapping[str, Any]], table: str) -> str | None:
    """Return the reason why a SELECT doesn't treat each row of a table separately.

    Returns None if its result over a part of the rows is the same part of its whole result.
    """
    aggregates = {name for (name,) in database.execute(_AGGREGATES).fetchall()}
    return next((why for part in parts if (why := _beyond_a_row(part, aggregates, table)) is not None), None)


def _beyond_a_row(part: Mapping[str, Any], aggregates: Collection[str], table: str) -> str | None:
    if part.get("type") == "SELECT_NODE":
        read = part["from_table"]
        if read["type"] != "BASE_TABLE" or str(read["table_name"]).casefold() != table:
            return f"it reads something else than the table {table}"
        if part["group_expressions"] or part["modifiers"] or part["having"] or part["qualify"] or part["sample"]:
            return "it groups, orders, limits or samples rows, or makes them distinct"
    if part.get("type") in ("SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE") or part.get("class") == "SUBQUERY":
        return "it has several SELECTs in it"
    name = str(part.get("function_name", ""))
    if part.get("class") == "WINDOW" or name in aggregates:
        return f"{name} looks at several rows"
    return f"{name} makes several rows of one" if name in _ROWS_OF_ONE else None
