"""Tables of a database with estimated row counts and indexed columns.

Estimates come from the database; no rows are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource, Refused, nearest
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.databases.database import rows
from sitemap_etl.sources.databases.session import Session
from sitemap_etl.sources.parameters import Value, quoted

_STANDARD: Final = """
    SELECT table_schema AS place, table_name AS name, NULL AS rows_about, table_type LIKE '%VIEW%' AS is_view
    FROM information_schema.tables WHERE lower(table_schema) <> 'information_schema'"""
_TABLES: Final = {
    "postgresql": """
        SELECT CASE WHEN n.nspname = current_schema() THEN '' ELSE n.nspname::text END AS place,
            c.relname::text AS name, c.relkind IN ('v', 'm') AS is_view,
            CASE WHEN c.reltuples >= 0 AND c.relkind <> 'v' THEN c.reltuples::bigint END AS rows_about
        FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
        WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
            AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast')
            AND has_table_privilege(c.oid, 'SELECT')""",
    "mysql": """
        SELECT CASE WHEN table_schema = database() THEN '' ELSE table_schema END AS place, table_name AS name,
            table_rows AS rows_about, table_type LIKE '%VIEW%' AS is_view
        FROM information_schema.tables
        WHERE table_schema = coalesce(database(), table_schema)
            AND table_schema NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')""",
    "sqlite": """
        SELECT '' AS place, name, NULL AS rows_about, type = 'view' AS is_view
        FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'""",
    "duckdb": """
        SELECT CASE WHEN schema_name = current_schema() THEN '' ELSE schema_name END AS place, table_name AS name,
            estimated_size AS rows_about, false AS is_view FROM duckdb_tables() WHERE NOT internal
        UNION ALL SELECT CASE WHEN schema_name = current_schema() THEN '' ELSE schema_name END, view_name, NULL, true
        FROM duckdb_views() WHERE NOT internal""",
}
_INDEXES: Final = {
    "postgresql": """
        SELECT a.attname::text AS name, i.indisprimary AS is_primary,
            i.indisunique AND i.indnkeyatts = 1 AND a.attnotnull AS is_unique
        FROM pg_catalog.pg_index i
        JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = to_regclass(:relation) AND i.indisvalid AND i.indpred IS NULL""",
    "mysql": """
        SELECT s.column_name AS name, s.index_name = 'PRIMARY' AS is_primary,
            s.non_unique = 0 AND s.nullable <> 'YES' AND 1 = (
                SELECT count(*) FROM information_schema.statistics o WHERE o.table_schema = s.table_schema
                AND o.table_name = s.table_name AND o.index_name = s.index_name) AS is_unique
        FROM information_schema.statistics s WHERE s.seq_in_index = 1
            AND s.table_schema = coalesce(nullif(:place, ''), database()) AND s.table_name = :name""",
    "sqlite": """
        SELECT c.name AS name, true AS is_primary, (SELECT max(pk) FROM pragma_table_info(:name)) = 1 AS is_unique
        FROM pragma_table_info(:name) c WHERE c.pk = 1
        UNION ALL SELECT i.name, false,
            l."unique" AND t."notnull" AND (SELECT count(*) FROM pragma_index_info(l.name)) = 1
        FROM pragma_index_list(:name) l JOIN pragma_index_info(l.name) i JOIN pragma_table_info(:name) t
        WHERE i.seqno = 0 AND t.name = i.name AND NOT l.partial AND l.origin <> 'pk'""",
    "duckdb": """
        SELECT constraint_column_names[1] AS name, constraint_type = 'PRIMARY KEY' AS is_primary,
            len(constraint_column_names) = 1 AND constraint_type = 'PRIMARY KEY' AS is_unique
        FROM duckdb_constraints() WHERE constraint_type IN ('PRIMARY KEY', 'UNIQUE')
            AND schema_name = coalesce(nullif(:place, ''), current_schema()) AND table_name = :name""",
}
"""First column of each index. `is_unique`: the index is unique, has only this column, and it is never null."""
LIMITED: Final = frozenset(_TABLES)
"""Databases that support LIMIT. For others, reading stops early."""


class Table(Frozen):
    """A table or a view. `place`: its schema, "" if none is needed. `rows`: their estimated number, or None if
    unknown.
    """

    place: str
    name: str
    rows: int | None = None
    view: bool = False

    def __str__(self) -> str:
        return f"{self.place}.{self.name}" if self.place else self.name

    def relation(self, dialect: str) -> str:
        """Return the quoted name of the table for FROM."""
        return ".".join(quoted(part, dialect) for part in (self.place, self.name) if part)


class Indexes(Frozen):
    """Columns that an index begins with. `unique`: columns that identify rows, the primary key first."""

    indexed: tuple[str, ...] = ()
    unique: tuple[str, ...] = ()


class Catalog:
    """Tables of one database. Methods raise ConfigError, InvalidSource, Refused, Unavailable."""

    def __init__(self, connection: Connection, session: Session, label: str) -> None:
        self._connection = connection
        self._session = session
        self._label = label

    def tables(self) -> list[Table]:
        """Return tables and views, largest first."""
        sql = _TABLES.get(self._connection.dialect, _STANDARD)
        try:
            answer = self._asked(sql, {})
        except InvalidSource as error:
            raise InvalidSource(f"{error}\n  The database does not list its tables: name one with --table") from error
        found = [
            Table(one["place"] or "", one["name"], _count(one["rows_about"]), bool(one["is_view"])) for one in answer
        ]
        if self._connection.dialect == "sqlite":
            found = [self._with_last_rowid(table) for table in found]
        return sorted(found, key=lambda table: (table.view, -(table.rows or 0), str(table)))

    def table(self, asked: str) -> Table:
        """Return the table of this name, also as `schema.table`. Raise InvalidSource with the existing names."""
        try:
            found = self.tables()
        except (InvalidSource, Refused):
            if self._connection.dialect in _TABLES:
                raise
            place, _, name = asked.rpartition(
                "."
            )  # a database without the standard's catalog: the name that was asked for
            return Table(place, name)
        for same in (lambda text: text, str.casefold):
            for table in found:
                if same(str(table)) == same(asked) or same(table.name) == same(asked):
                    return table
        near = nearest(asked, [str(table) for table in found])
        hint = f"; did you mean {near}?" if near else "."
        raise InvalidSource(
            f"{self._label}: there is no table {asked!r}{hint} There are: {', '.join(map(str, found[:20])) or 'none'}"
        )

    def indexes(self, table: Table) -> Indexes:
        """Return the indexes of a table, or none if the database doesn't list them."""
        sql = _INDEXES.get(self._connection.dialect)
        if sql is None or table.view:
            return Indexes()
        values: dict[str, Value] = {"place": table.place, "name": table.name}
        values["relation"] = table.relation(self._connection.dialect)
        with suppress(InvalidSource, Refused):
            found = sorted(self._asked(sql, values), key=lambda one: not one["is_primary"])
            names = tuple(dict.fromkeys(one["name"] for one in found))
            return Indexes(names, tuple(dict.fromkeys(one["name"] for one in found if one["is_unique"])))
        return Indexes()

    def _with_last_rowid(self, table: Table) -> Table:
        """Estimate the rows of a SQLite table by the last rowid, which is exact if nothing was deleted."""
        if table.view:
            return table
        with suppress(InvalidSource):  # a table WITHOUT ROWID
            (found,) = self._asked(f"SELECT max(_rowid_) AS n FROM {table.relation('sqlite')}", {})  # noqa: S608 - a name of its own
            return Table(table.place, table.name, _count(found["n"] or 0))
        return table

    def _asked(self, sql: str, values: Mapping[str, Value]) -> list[dict[str, Any]]:
        found = rows(self._connection, sql, values, self._session, label=self._label)
        table = pa.Table.from_batches(found)
        return [{name.lower(): value for name, value in row.items()} for row in table.to_pylist()]


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
