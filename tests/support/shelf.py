"""A kind of database that only tests have: a file with SQL, which DuckDB runs in memory before each SELECT.

Its own SQL has other words than DuckDB's for each fact of its row, so that a module that doesn't ask the row fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.dialects import DUCKDB, Dialect
from sitemap_etl.errors import InvalidSource
from sitemap_etl.sources.databases.session import Statement
from sitemap_etl.sources.parameters import Value, bind

_MARK = "-- shelf\n"
_WORDS = """
CREATE MACRO shelf_time() AS TIMESTAMPTZ '2026-11-01 01:00:00+00';
CREATE MACRO shelf_chance() AS true;
CREATE MACRO shelf_concat(a, b) AS a || b;
CREATE MACRO shelf_trim(a) AS ltrim(a, '/');
CREATE VIEW shelf_tables AS SELECT '' AS place, table_name AS name, 7 AS rows_about, false AS is_view
    FROM duckdb_tables();
CREATE VIEW shelf_keys AS SELECT table_name AS name, constraint_column_names[1] AS key FROM duckdb_constraints()
    WHERE constraint_type = 'PRIMARY KEY';
"""
SHELF = Dialect(
    "shelf",
    aliases=("bookshelf",),
    driver=__name__,
    address="file",
    suffixes=(".shelf",),
    signature=(3, b"shelf"),
    syntax=DUCKDB.syntax,
    lower_case=True,
    limit=True,
    concat="shelf_concat({}, {})",
    ltrim="shelf_trim({})",
    clock="SELECT shelf_time() AS now",
    time_calls="shelf_time",
    types="columns",
    chance="shelf_chance()",
    tables="SELECT * FROM shelf_tables",
    indexes="SELECT key AS name, true AS is_primary, true AS is_unique FROM shelf_keys WHERE name = :name",
    columns="""SELECT '' AS place, name, false AS nullable, true AS is_primary FROM shelf_keys
        WHERE key = :split_column""",
)
ASKED: list[str] = []
"""The statements that were read."""


def write(path: Path, *statements: str) -> None:
    """Write a database file."""
    path.write_text(";\n".join((_MARK + _WORDS.strip("\n;"), *statements)))


def rows(
    connection: Connection, sql: str, values: Mapping[str, Value], statement: Statement, *, label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first."""
    text, used = bind(sql, values, SHELF, lambda name: f"${name}", label=label)
    ASKED.append(text)
    try:
        with duckdb.connect() as database, statement.cancelled_by(database.interrupt):
            database.execute(Path(connection.schema).read_text())
            reader = database.sql(text, params={name: values[name] for name in used}).to_arrow_reader(100)
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader
    except duckdb.Error as error:
        raise InvalidSource(f"{label}: {error}") from error
