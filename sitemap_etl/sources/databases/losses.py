"""Warn about rows that splits of a SELECT could lose or read twice, with the line to fix it.

- If a row's split column changes while splits are read, the row moves to another range. Splits of one snapshot still
  read it once. Otherwise the column must not change: it must be the primary key or the section's `key`.
- A SELECT with its own comparison with `:split_from` and `:split_to` drops nulls, as SQL does.

Primary keys and nulls are looked up in the tables that the SELECT names. Tables behind views and functions are unknown,
so some warnings can be unnecessary.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.databases.database import rows
from sitemap_etl.sources.databases.keys import SPLIT_FROM, SPLIT_TO, WIDEST, Key, Range, family, widest
from sitemap_etl.sources.databases.session import Session
from sitemap_etl.sources.parameters import Value, one_statement, parts, quoted
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
    "duckdb": """
        SELECT c.schema_name AS place, c.table_name AS name, c.is_nullable AS nullable, EXISTS (
            SELECT 1 FROM duckdb_constraints() k WHERE k.table_oid = c.table_oid
            AND k.constraint_type = 'PRIMARY KEY' AND k.constraint_column_names = [c.column_name]) AS is_primary
        FROM duckdb_columns() c WHERE c.column_name = :split_column AND NOT c.internal""",
}

_STAND_IN: Final = {"int": "0", "date": "'1970-01-01'", "uuid": f"'{WIDEST['uuid'][0]}'", "text": "''"}
"""SQL of a substitute for nulls, by the family of the key."""


class _Column(Frozen):
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
    session: Session | None = None,
    label: str = "the database",
) -> list[str]:
    """Return warnings about splits that can lose or repeat rows. Empty if every row is sure to be read once.

    `key`: the column that identifies a row. `one_snapshot`: all splits will be read from one. Raise `ConfigError`,
    `InvalidSource`, `Refused`, `Unavailable`.
    """
    packed = splits[0].detail.get("key") if splits else None
    if packed is None or (len(splits) < 2 and not packed["named"]):
        return []
    found_by = Range.unpack(packed).key
    column = found_by.column
    sql = one_statement(query, connection.dialect, label=label)
    look = _Look(connection, session or Session(), label)
    columns = look.columns(sql, column)
    warnings = []
    if len(splits) > 1 and not one_snapshot and column != key and not any(found.primary for found in columns):
        warnings.append(
            f"{label}: the splits are read at different moments, and split.column {column!r} is not known to stay the "
            "same. A row whose value changes meanwhile can be left out, or be read twice. Split by the primary key; "
            f"or, where the column of a row never changes, say so with key: {column}"
        )
    if found_by.named:
        low, _ = widest(found_by.kind)
        values = {**(params or {}), SPLIT_FROM: low, SPLIT_TO: low}
        warnings += _nulls(look, sql, values, found_by, len(splits), columns)
        warnings += _beyond(look, found_by, columns)
    return warnings


class _Look(Frozen):
    """Asks a database for facts about its tables."""

    connection: Connection
    session: Session
    label: str

    def table(self, sql: str, values: Mapping[str, Value]) -> pa.Table:
        """Return the result of a SELECT with few rows."""
        return pa.Table.from_batches(rows(self.connection, sql, values, self.session, label=self.label))

    def count(self, sql: str, values: Mapping[str, Value] | None = None) -> int:
        """Return the number `n` of the result's only row, or 0 if the query is not permitted."""
        with suppress(InvalidSource, Refused):
            return int(self.table(sql, values or {})["n"][0].as_py())
        return 0

    def columns(self, sql: str, column: str) -> list[_Column]:
        """Return the columns of that name in the tables that the SELECT names; none if that can't be looked up."""
        dialect = self.connection.dialect
        lookup = _COLUMNS.get(dialect)
        found: list[dict[str, Any]] = []
        if lookup is not None:
            with suppress(InvalidSource, Refused):
                found = self.table(lookup, {"split_column": column}).to_pylist()
        code = "".join(part.text for part in parts(sql, dialect) if part.kind != "comment")
        return [
            _Column(
                ".".join(quoted(part, dialect) for part in (one["place"], one["name"]) if part),
                bool(one["nullable"]),
                bool(one["is_primary"]),
            )
            for one in found
            if re.search(rf"(?<!\w){re.escape(one['name'])}(?!\w)", code, re.IGNORECASE)
        ]


def _nulls(
    look: _Look, sql: str, values: Mapping[str, Value], key: Key, splits: int, columns: Sequence[_Column]
) -> list[str]:
    """Return warnings about rows without a value, if the SELECT compares the column itself.

    `values`: an empty range.
    """
    name = quoted(key.column, look.connection.dialect)
    given = f"coalesce({key.column}, {_STAND_IN[family(key.kind)]})"
    hint = (
        f"write {given} >= :{SPLIT_FROM} AND {given} < "
        f":{SPLIT_TO}, or leave the comparison out: the SELECT is then wrapped in one that takes care of them"
    )
    # In a range that holds nothing only rows are left that are in every range.
    found = look.count(f"SELECT count(*) AS n FROM ({sql}\n) source WHERE {name} IS NULL", values)  # noqa: S608 - the site's own SELECT
    if found:
        warning = (
            f"{look.label}: {found:,} rows have no {key.column}, and the SELECT's own comparison with :{SPLIT_FROM} "
            f"and :{SPLIT_TO} lets them into each of the {splits} splits; {hint}"
        )
        return [warning]
    warnings: list[str] = []
    if _cares(sql, key.column, look.connection.dialect):
        return warnings
    for column in columns:
        if not column.nullable:
            continue
        count = look.count(f"SELECT count(*) AS n FROM {column.table} WHERE {name} IS NULL")  # noqa: S608 - names of the database's own
        if count:
            warnings.append(
                f"{look.label}: {count:,} rows of {column.table} have no {key.column}, and the SELECT's own "
                f"comparison with :{SPLIT_FROM} and :{SPLIT_TO} leaves them out; {hint}"
            )
    return warnings


def _beyond(look: _Look, key: Key, columns: Sequence[_Column]) -> list[str]:
    """Return warnings about values outside all bounds, such as the last day of the year 9999, for the same SELECTs."""
    name = quoted(key.column, look.connection.dialect)
    low, high = widest(key.kind)
    least, most = key.bound("low", look.connection), key.bound("high", look.connection)
    warnings: list[str] = []
    for found in columns:
        beyond = f"SELECT count(*) AS n FROM {found.table} WHERE {name} < {least} OR {name} >= {most}"  # noqa: S608 - as above
        count = look.count(beyond, {"low": low, "high": high})
        if count:
            warnings.append(
                f"{look.label}: {count:,} rows of {found.table} have a {key.column} before {low} or not before {high}, "
                f"where the ranges end, and the SELECT's own comparison with :{SPLIT_FROM} and :{SPLIT_TO} leaves "
                "them out; leave the comparison out: the SELECT is then wrapped in one that takes care of them"
            )
    return warnings


def _cares(sql: str, column: str, dialect: str) -> bool:
    """Return True if the SELECT handles rows without a value in the column."""
    code = "".join(part.text for part in parts(sql, dialect) if part.kind != "comment")
    name = rf'(?:\w+\.)?["`]?(?<!\w){re.escape(column)}(?!\w)["`]?'
    pattern = rf"\b(?:coalesce|ifnull|nvl)\s*\(\s*{name}\s*,|{name}\s+IS\s+(?:NOT\s+)?NULL\b"
    return re.search(pattern, code, re.IGNORECASE) is not None
