"""Tables of a database with estimated row counts and indexed columns.

Estimates come from the database; no rows are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.dialects import Dialect
from sitemap_etl.errors import InvalidSource, Refused, nearest
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.databases.database import rows
from sitemap_etl.sources.databases.session import Session
from sitemap_etl.sources.parameters import Value

_STANDARD: Final = """
    SELECT table_schema AS place, table_name AS name, NULL AS rows_about, table_type LIKE '%VIEW%' AS is_view
    FROM information_schema.tables WHERE lower(table_schema) <> 'information_schema'"""


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

    def relation(self, dialect: Dialect) -> str:
        """Return the quoted name of the table for FROM."""
        return dialect.quoted(*filter(None, (self.place, self.name)))


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
        dialect = self._connection.dialect
        try:
            answer = self._asked(dialect.tables or _STANDARD, {})
        except InvalidSource as error:
            raise InvalidSource(f"{error}\n  The database does not list its tables: name one with --table") from error
        found = [
            Table(one["place"] or "", one["name"], _count(one["rows_about"]), bool(one["is_view"])) for one in answer
        ]
        if dialect.last_row is not None:
            found = [self._with_last_row(table, dialect.last_row) for table in found]
        return sorted(found, key=lambda table: (table.view, -(table.rows or 0), str(table)))

    def table(self, asked: str) -> Table:
        """Return the table of this name, also as `schema.table`. Raise InvalidSource with the existing names."""
        try:
            found = self.tables()
        except (InvalidSource, Refused):
            if self._connection.dialect.tables is not None:
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
        sql = self._connection.dialect.indexes
        if sql is None or table.view:
            return Indexes()
        values: dict[str, Value] = {"place": table.place, "name": table.name}
        values["relation"] = table.relation(self._connection.dialect)
        with suppress(InvalidSource, Refused):
            found = sorted(self._asked(sql, values), key=lambda one: not one["is_primary"])
            names = tuple(dict.fromkeys(one["name"] for one in found))
            return Indexes(names, tuple(dict.fromkeys(one["name"] for one in found if one["is_unique"])))
        return Indexes()

    def _with_last_row(self, table: Table, select: str) -> Table:
        """Estimate the rows of a table by the last row's number, which is exact if nothing was deleted."""
        if table.view:
            return table
        with suppress(InvalidSource):  # a table without numbered rows
            (found,) = self._asked(select.format(table.relation(self._connection.dialect)), {})
            return Table(table.place, table.name, _count(found["n"] or 0))
        return table

    def _asked(self, sql: str, values: Mapping[str, Value]) -> list[dict[str, Any]]:
        found = rows(self._connection, sql, values, self._session, label=self._label)
        table = pa.Table.from_batches(found)
        return [{name.lower(): value for name, value in row.items()} for row in table.to_pylist()]


def _count(value: Any) -> int | None:
    return None if value is None else int(value)
