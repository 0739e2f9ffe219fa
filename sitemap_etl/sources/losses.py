"""What the splits of a SELECT could leave out, or read twice, and the line to write against it.

- A row whose split column changes while the splits are read moves from one range to another. Only splits of one
  snapshot see it once; without, the column must be one that stays: the primary key, or the section's `key`.
- A SELECT that compares the column with `:split_from` and `:split_to` itself leaves its nulls out, as SQL does.

Primary keys and nulls are looked up in the tables that the SELECT names; of what a view or a function hides
nothing is known, and a warning may be one too many.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.sources.database import SPLIT_FROM, SPLIT_TO, quoted, rows, widest
from sitemap_etl.sources.parameters import Value, one_statement, parts
from sitemap_etl.sources.splits import Split

_COLUMNS: Final = {
    "postgresql": """
        SELECT n.nspname::text AS place, c.relname::text AS name, NOT a.attnotnull AS nullable,
            EXISTS (SELECT 1 FROM pg_catalog.pg_index i
                    WHERE i.indrelid = c.oid AND i.indisprimary AND i.indkey::text = a.attnum::text) AS is_primary
        FROM pg_catalog.pg_attribute a
        JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE a.attname = :split_column AND a.attnum > 0 AND NOT a.attisdropped AND c.relkind IN ('r', 'p')""",
    "sqlite": """
        SELECT '' AS place, t.name AS name, c."notnull" = 0 AND c.pk = 0 AS nullable,
            c.pk = 1 AND (SELECT max(o.pk) FROM pragma_table_info(t.name) o) = 1 AS is_primary
        FROM sqlite_master t JOIN pragma_table_info(t.name) c
        WHERE c.name = :split_column AND t.type = 'table'""",
    "mysql": """
        SELECT c.table_schema AS place, c.table_name AS name, c.is_nullable = 'YES' AS nullable,
            c.column_key = 'PRI' AND 1 = (
                SELECT count(*) FROM information_schema.columns o WHERE o.table_schema = c.table_schema
                AND o.table_name = c.table_name AND o.column_key = 'PRI') AS is_primary
        FROM information_schema.columns c
        WHERE c.column_name = :split_column AND c.table_schema = database()""",
}


@dataclass(frozen=True)
class _Column:
    """A column of the split column's name, in a table that the SELECT names."""

    table: str  # quoted
    nullable: bool
    primary: bool


def split_losses(
    connection: Connection,
    query: str,
    splits: Sequence[Split],
    *,
    params: Mapping[str, Value] | None = None,
    key: str | None = None,
    one_snapshot: bool = False,
    label: str = "the database",
) -> list[str]:
    """Warnings about the splits of a SELECT; none where they are sure to hold every row once.

    `key`: the column that identifies a row. `one_snapshot`: all splits will be read from one. Raises `ConfigError`,
    `InvalidSource`, `Refused`, `Unavailable`.
    """
    ranges = splits[0].detail.get("key") if splits else None
    if ranges is None or (len(splits) < 2 and not ranges["named"]):
        return []
    column = ranges["column"]
    sql = one_statement(query, connection.dialect, label=label)
    columns = _columns(connection, sql, column, label)
    warnings = []
    if len(splits) > 1 and not one_snapshot and column != key and not any(found.primary for found in columns):
        warnings.append(
            f"{label}: the splits are read at different moments, and split.column {column!r} is not known to stay the "
            "same. A row whose value changes meanwhile can be left out, or be read twice. Split by the primary key; "
            f"or, where the column of a row never changes, say so with key: {column}"
        )
    if ranges["named"]:
        low, _ = widest(ranges["type"])
        values = {**(params or {}), SPLIT_FROM: low, SPLIT_TO: low}
        warnings += _nulls(connection, sql, values, splits, columns, label)
        warnings += _beyond(connection, ranges["column"], ranges["type"], columns, label)
    return warnings


def _nulls(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    splits: Sequence[Split],
    columns: Sequence[_Column],
    label: str,
) -> list[str]:
    """What becomes of rows without a value where the SELECT compares the column itself. `values`: an empty range."""
    ranges = splits[0].detail["key"]
    name = quoted(ranges["column"], connection)
    zero = "0" if ranges["type"] == "int" else "'1970-01-01'"
    hint = (
        f"write coalesce({ranges['column']}, {zero}) >= :{SPLIT_FROM} AND coalesce({ranges['column']}, {zero}) < "
        f":{SPLIT_TO}, or leave the comparison out: the SELECT is then wrapped in one that takes care of them"
    )
    # In a range that holds nothing only rows are left that are in every range.
    everywhere = f"SELECT count(*) AS n FROM ({sql}\n) source WHERE {name} IS NULL"  # noqa: S608 - the site's own SELECT
    found = _number(connection, everywhere, values, label)
    if found:
        warning = (
            f"{label}: {found:,} rows have no {ranges['column']}, and the SELECT's own comparison with :{SPLIT_FROM} "
            f"and :{SPLIT_TO} lets them into each of the {len(splits)} splits; {hint}"
        )
        return [warning]
    warnings: list[str] = []
    if _cares(sql, ranges["column"], connection.dialect):
        return warnings
    for column in columns:
        if not column.nullable:
            continue
        without = f"SELECT count(*) AS n FROM {column.table} WHERE {name} IS NULL"  # noqa: S608 - names of the database's own
        with suppress(InvalidSource, Refused):  # a table that may not be read as such
            rows = _number(connection, without, {}, label)
            if rows:
                warnings.append(
                    f"{label}: {rows:,} rows of {column.table} have no {ranges['column']}, and the SELECT's own "
                    f"comparison with :{SPLIT_FROM} and :{SPLIT_TO} leaves them out; {hint}"
                )
    return warnings


def _beyond(connection: Connection, column: str, kind: str, columns: Sequence[_Column], label: str) -> list[str]:
    """Values that no bound is beyond, such as the last day of the year 9999, where the SELECT compares the column."""
    name = quoted(column, connection)
    low, high = widest(kind)
    warnings: list[str] = []
    for found in columns:
        beyond = f"SELECT count(*) AS n FROM {found.table} WHERE {name} < :low OR {name} >= :high"  # noqa: S608 - as above
        with suppress(InvalidSource, Refused):
            count = _number(connection, beyond, {"low": low, "high": high}, label)
            if count:
                warnings.append(
                    f"{label}: {count:,} rows of {found.table} have a {column} before {low} or not before {high}, "
                    f"where the ranges end, and the SELECT's own comparison with :{SPLIT_FROM} and :{SPLIT_TO} leaves "
                    "them out; leave the comparison out: the SELECT is then wrapped in one that takes care of them"
                )
    return warnings


def _cares(sql: str, column: str, dialect: str) -> bool:
    """Whether the SELECT says what becomes of rows without a value in the column."""
    code = "".join(part.text for part in parts(sql, dialect) if part.kind != "comment")
    name = rf'(?:\w+\.)?["`]?(?<!\w){re.escape(column)}(?!\w)["`]?'
    pattern = rf"\b(?:coalesce|ifnull|nvl)\s*\(\s*{name}\s*,|{name}\s+IS\s+(?:NOT\s+)?NULL\b"
    return re.search(pattern, code, re.IGNORECASE) is not None


def _columns(connection: Connection, sql: str, column: str, label: str) -> list[_Column]:
    """The columns of that name in the tables that the SELECT names; none where that can't be looked up."""
    lookup = _COLUMNS.get(connection.dialect)
    found: list[dict[str, Any]] = []
    if lookup is not None:
        with suppress(InvalidSource, Refused):
            found = pa.Table.from_batches(rows(connection, lookup, {"split_column": column}, label=label)).to_pylist()
    code = "".join(part.text for part in parts(sql, connection.dialect) if part.kind != "comment")
    return [
        _Column(
            ".".join(quoted(part, connection) for part in (one["place"], one["name"]) if part),
            bool(one["nullable"]),
            bool(one["is_primary"]),
        )
        for one in found
        if re.search(rf"(?<!\w){re.escape(one['name'])}(?!\w)", code, re.IGNORECASE)
    ]


def _number(connection: Connection, sql: str, values: Mapping[str, Value], label: str) -> int:
    (row,) = pa.Table.from_batches(rows(connection, sql, values, label=label)).to_pylist()
    return int(row["n"])
