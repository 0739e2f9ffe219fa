"""A SELECT that sees each row by itself: it means the same over all rows of a table and over some of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.errors import InvalidSource
from sitemap_etl.sources.batches import plain_schema
from sitemap_etl.sources.parameters import Value, bind
from sitemap_etl.sources.query import Rows, attempt, bound_select, in_memory, selected

_AGGREGATES: Final = """
    SELECT function_name FROM duckdb_functions() GROUP BY ALL HAVING bool_and(function_type = 'aggregate')
"""


class RowSelect:
    """A SELECT that sees each row by itself, so that it means the same over all rows of a table and over some of them.

    `columns`: those of the table that it names. `schema`: of its result. Raises `InvalidSource` for any other SELECT.
    """

    def __init__(self, sql: str, source: pa.Schema, label: str, params: Mapping[str, Value] | None = None) -> None:
        """`source`: the columns of the table; `params`: what the SELECT binds."""
        self._sql = sql
        self._label = label
        self._params = params or {}
        with in_memory(label, None) as database:
            database.register("source", source.empty_table())
            relation = attempt(lambda: bound_select(database, sql, self._params, label), label)
            found = attempt(lambda: relation.limit(0).to_arrow_table(), label).schema
            text, _ = bind(sql, self._params, "duckdb", lambda name: f"${name}", label=label)
            parts = list(_parts(_tree(database, text)))
            aggregates = {name for (name,) in database.execute(_AGGREGATES).fetchall()}
        why = next((why for part in parts if (why := _beyond_a_row(part, aggregates)) is not None), None)
        if why is not None:
            raise InvalidSource(
                f"{label}: {why}: a SELECT over a table sees each row by itself, also where only changed rows are "
                "read. Leave it out, or make a table of its result where the table is written"
            )
        self.schema = plain_schema(found, label=label)
        named = {str(name).casefold() for part in parts for name in part.get("column_names") or ()}
        every = any(part.get("class") == "STAR" for part in parts)
        self.columns = [name for name in source.names if every or name.casefold() in named] or source.names[:1]

    def apply(self, source: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What it yields for these rows, which have `columns`. Raises `InvalidSource`, and what reading them raises."""
        table = Rows(source, lambda: iter(rows))
        yield from selected(self._sql, {"source": table}, self._params, self._label)


def _tree(database: Any, sql: str) -> Any:
    """A SELECT as DuckDB parsed it."""
    (text,) = database.execute("SELECT json_serialize_sql(?::VARCHAR)", [sql]).fetchone()
    return json.loads(text)["statements"][0]["node"]


def _parts(node: Any) -> Iterator[Mapping[str, Any]]:
    """Every mapping in a parsed SELECT."""
    if isinstance(node, dict):
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _parts(below)


def _beyond_a_row(part: Mapping[str, Any], aggregates: Collection[str]) -> str | None:
    """What in a part of a SELECT looks beyond one row; None where nothing does."""
    if part.get("type") == "SELECT_NODE":
        table = part["from_table"]
        if table["type"] != "BASE_TABLE" or str(table["table_name"]).casefold() != "source":
            return "it reads something else than the table source"
        if part["group_expressions"] or part["modifiers"] or part["having"] or part["qualify"] or part["sample"]:
            return "it groups, orders, limits or samples rows, or makes them distinct"
    if part.get("type") in ("SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE") or part.get("class") == "SUBQUERY":
        return "it has several SELECTs in it"
    if part.get("class") == "WINDOW" or str(part.get("function_name", "")) in aggregates:
        return f"{part['function_name']} looks at several rows"
    return None
