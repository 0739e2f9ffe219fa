"""Read one SELECT in batches, whole or in the key ranges that `ranges` has planned.

A split is a range of the `split` column (`keys`), never an OFFSET. Every split is a separate transaction: rows that
change their key meanwhile can be read twice or not at all (`losses`), unless the transactions read one snapshot. The
given values are bound to the statement, and those of a split to `:split_from` and `:split_to`.

`label` names the source in messages: the connection and the file of the SELECT, never the URI.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Final

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource
from sitemap_etl.instants import in_calendar
from sitemap_etl.sources.batches import fit, plain_schema
from sitemap_etl.sources.databases.keys import SPLIT_FROM, SPLIT_TO, Range
from sitemap_etl.sources.databases.session import Session, Statement, answered, attended
from sitemap_etl.sources.parameters import Value, names, one_statement
from sitemap_etl.sources.splits import Split

_TYPE_SAMPLE_ROWS: Final = 1_000


def read_database(
    split: Split,
    connection: Connection,
    query: str,
    params: Mapping[str, Value] | None = None,
    *,
    session: Session | None = None,
    snapshot: str | None = None,
    dates: Collection[str] = (),
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split in batches of the given sizes. `snapshot`: name of a shared snapshot (PostgreSQL).

    `dates`: columns whose dates outside the years 1 to 9999 are kept; in other columns they become null. Raises
    ConfigError, InvalidSource, Refused, Unavailable.
    """
    session = session or Session()
    values = dict(params or {})
    sql = one_statement(query, connection.dialect, label=split.label)
    if split.detail.get("key"):
        part = Range.unpack(split.detail["key"])
        values |= part.values
        sql = part.confine(sql, connection)
    types = split.detail.get("types")
    found = rows(connection, sql, values, session, label=split.label, types=types, snapshot=snapshot, dates=dates)
    fetched = min(batch_rows, session.fetch_rows or batch_rows)
    with closing(found):  # also if the rows are refused: the statement ends now, not with the process
        yield from fit(found, label=split.label, batch_rows=fetched, batch_bytes=batch_bytes)


def probe_database(
    connection: Connection,
    query: str,
    params: Mapping[str, Value] | None = None,
    *,
    session: Session | None = None,
    label: str = "the database",
) -> pa.Schema:
    """Return the columns of the SELECT without reading its rows. SQLite's types are taken from the first rows.

    Raise ConfigError, InvalidSource, Refused, Unavailable.
    """
    values = dict(params or {})
    sql = one_statement(query, connection.dialect, label=label)
    if {SPLIT_FROM, SPLIT_TO} <= names(sql, connection.dialect):
        values |= dict.fromkeys((SPLIT_FROM, SPLIT_TO))
    session = session or Session()
    types = sqlite_types(connection, sql, values, session, label, limit=_TYPE_SAMPLE_ROWS).get("types")
    nothing = f"SELECT * FROM ({sql}\n) source WHERE 1 = 0"  # noqa: S608 - the site's own SELECT; values are bound
    found = next(iter(rows(connection, nothing, values, session, label=label, types=types)))
    return plain_schema(found.schema, label=label)


_CLOCKS: Final = {
    "sqlite": "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now",
    "mysql": "SELECT utc_timestamp(6) AS now",
}


def clock(connection: Connection, *, session: Session | None = None, label: str = "the database") -> datetime:
    """Return the time of the database's clock, which sets timestamps of its rows, with a zone.

    Raise ConfigError, InvalidSource, Refused, Unavailable.
    """
    sql = _CLOCKS.get(connection.dialect, "SELECT current_timestamp AS now")
    (row,) = pa.Table.from_batches(rows(connection, sql, {}, session or Session(), label=label)).to_pylist()
    found = datetime.fromisoformat(row["now"]) if isinstance(row["now"], str) else row["now"]
    if not isinstance(found, datetime):
        raise InvalidSource(f"{label}: the database's clock says {found!r}, a time was expected")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def count_rows(
    connection: Connection,
    query: str,
    params: Mapping[str, Value] | None = None,
    *,
    session: Session | None = None,
    label: str = "the database",
) -> int:
    """Return the number that a SELECT yields in its only row.

    Raise `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    found = rows(connection, query, dict(params or {}), session or Session(), label=label)
    (row,) = pa.Table.from_batches(found).to_pylist()
    (value,) = row.values()
    return int(value)


def rows(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    session: Session,
    *,
    label: str,
    types: Mapping[str, str] | None = None,
    snapshot: str | None = None,
    dates: Collection[str] = (),
) -> Generator[pa.RecordBatch]:
    """Yield the result through the driver for the connection, an empty batch first. `dates`: see `read_database`."""

    def read(statement: Statement) -> Iterator[pa.RecordBatch]:
        kind = connection.dialect
        if kind == "postgresql":
            from sitemap_etl.sources.databases import postgres

            return postgres.rows(connection, sql, values, statement, label=label, snapshot=snapshot)
        if kind == "sqlite":
            from sitemap_etl.sources.databases import sqlite

            return sqlite.rows(connection, sql, values, statement, label=label, types=types)
        if kind == "duckdb":
            from sitemap_etl.sources.databases import duckdb_file

            return duckdb_file.rows(connection, sql, values, statement, label=label)
        if kind == "mysql":
            from sitemap_etl.sources.databases import mysql

            return mysql.rows(connection, sql, values, statement, label=label)
        from sitemap_etl.sources.databases import adbc_drivers, alchemy

        driver = adbc_drivers.driver_of(kind)
        if driver is not None:
            return adbc_drivers.rows(connection, driver, sql, values, statement, label=label)
        return alchemy.rows(connection, sql, values, statement.session, label=label)

    with closing(attended(read, session, label=label)) as found:
        for batch in found:
            columns = [
                column if name in dates else in_calendar(column)
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def sqlite_types(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    session: Session,
    label: str,
    *,
    limit: int | None = None,
) -> dict[str, dict[str, str]]:
    """Return SQLite's column types over all rows, or the first `limit`, for a split. Empty for other databases."""
    if connection.dialect != "sqlite":
        return {}
    from sitemap_etl.sources.databases import sqlite

    find = functools.partial(sqlite.column_types, connection, sql, values, label=label, limit=limit)
    return {"types": answered(find, session, label=label)}
