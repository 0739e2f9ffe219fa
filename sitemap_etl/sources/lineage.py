"""Lineage of a SELECT: the columns of its tables that it reads, and those behind each of its own columns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import duckdb

from sitemap_etl.duckdb_session import opened, parsed
from sitemap_etl.frozen import Frozen

Node = Mapping[str, Any]
_CHOOSING: Final = frozenset({"coalesce", "ifnull", "nvl", "if"})
"""Functions whose result can be present although one of their arguments is null."""


class Origin(Frozen):
    """The columns that a column of a SELECT is made from, as (table, name) in lower case.

    `optional`: one of them can be missing, because the SELECT chooses between several.
    """

    columns: frozenset[tuple[str, str]] = frozenset()
    optional: bool = False

    def __or__(self, other: Origin) -> Origin:
        return Origin(self.columns | other.columns, self.optional or other.optional)


def columns_named(sql: str, result: Collection[str]) -> frozenset[str]:
    """Return every name in a SELECT that can be a column, in lower case; none if DuckDB can't parse it.

    `result`: columns that are read of its result; with `*` they can be columns of its tables.
    """
    parts = _parts_of(sql)
    names = {name for part in parts for name in (part.get("column_names") or ())[:2]}
    if any(part.get("class") == "STAR" for part in parts):
        names.update(result)
    return frozenset(name.casefold() for name in names)


def origin_of(sql: str, column: str) -> Origin:
    """Return the columns of tables that a column of a SELECT is made from; none if they can't be found."""
    parts = _parts_of(sql)
    return _traced(parts[0], column.casefold(), {}, frozenset()) if parts else Origin()


def _parts_of(sql: str) -> list[Node]:
    with opened() as database:
        try:
            return parsed(database, sql)
        except (duckdb.Error, LookupError):
            return []


def _traced(node: Node, column: str, ctes: Mapping[str, Node], seen: frozenset[tuple[int, str]]) -> Origin:
    """Return the origin of a column of a query. `ctes`: those that it sees; `seen`: columns that were searched."""
    if (id(node), column) in seen:
        return Origin()
    seen |= {(id(node), column)}
    own = (node.get("cte_map") or {}).get("map") or ()
    ctes = {**ctes, **{entry["key"].casefold(): entry["value"] for entry in own}}
    if node.get("type") != "SELECT_NODE":
        return _of_set(node, column, ctes, seen)
    item = _item(node, column)
    if item is None:
        starred = any(one["class"] == "STAR" for one in node["select_list"])
        return _resolved(node, [column], ctes, seen) if starred else Origin()
    parts = list(_within(item))
    found = Origin(optional=any(_chooses(part) for part in parts))
    for part in parts:
        if part.get("class") == "COLUMN_REF":
            found |= _resolved(node, [name.casefold() for name in part["column_names"]], ctes, seen)
    return found


def _of_set(node: Node, column: str, ctes: Mapping[str, Node], seen: frozenset[tuple[int, str]]) -> Origin:
    """Return the origin of a column of several queries together: it has the place that it has in the first."""
    first, *others = node.get("children") or [node[side] for side in ("left", "right") if side in node] or [{}]
    if not first:
        return Origin()
    found = _traced(first, column, ctes, seen)
    items = first.get("select_list") or ()
    place = next((at for at, item in enumerate(items) if _output(item) == column), None)
    if any(item["class"] == "STAR" for item in items) or node.get("setop_type") == "UNION_BY_NAME":
        place = None
    for other in others:
        name = column if place is None else _output((other.get("select_list") or items)[place])
        found |= _traced(other, name, ctes, seen)
    return Origin(found.columns, optional=found.optional or bool(others))


def _item(node: Node, column: str) -> Node | None:
    """Return the expression of a column in a SELECT, or of its replacement in `* REPLACE (… AS column)`."""
    for item in node["select_list"]:
        if item["class"] == "STAR":
            for replaced in item.get("replace_list") or ():
                if replaced["key"].casefold() == column:
                    value: Node = replaced["value"]
                    return value
        elif _output(item) == column:
            found: Node = item
            return found
    return None


def _output(item: Node) -> str:
    """Return the name that an expression has in the result, in lower case."""
    name: str = item.get("alias") or (item["column_names"][-1] if item.get("column_names") else "")
    return name.casefold()


def _chooses(part: Node) -> bool:
    chosen = part.get("type") in ("OPERATOR_COALESCE", "CASE_EXPR")
    return chosen or str(part.get("function_name", "")).casefold() in _CHOOSING


def _resolved(node: Node, names: list[str], ctes: Mapping[str, Node], seen: frozenset[tuple[int, str]]) -> Origin:
    """Return the origin of a reference to a column in a SELECT."""
    relations = list(_relations(node["from_table"]))
    if len(names) > 1 and any(alias == names[0] for alias, _ in relations):
        relations = [one for one in relations if one[0] == names[0]]
        names = names[1:]
    found = Origin()
    for _, relation in relations:
        table = str(relation.get("table_name", "")).casefold()
        if relation["type"] == "SUBQUERY":
            found |= _traced(relation["subquery"]["node"], names[0], ctes, seen)
        elif table in ctes:
            found |= _traced(ctes[table].get("query_node", {}), names[0], ctes, seen)
        else:
            found |= Origin(frozenset({(table, names[0])}))
    return found


def _relations(read: Node) -> Iterator[tuple[str, Node]]:
    """Yield the tables that a SELECT reads, each with its name there."""
    if read["type"] == "JOIN":
        yield from _relations(read["left"])
        yield from _relations(read["right"])
    elif read["type"] in ("BASE_TABLE", "SUBQUERY"):
        yield str(read.get("alias") or read.get("table_name", "")).casefold(), read


def _within(node: Any) -> Iterator[Node]:
    """Yield every part of an expression, without queries in it."""
    if isinstance(node, dict):
        if node.get("class") == "SUBQUERY":
            return
        yield node
    for below in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _within(below)
