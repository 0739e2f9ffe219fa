"""Databases through SQLAlchemy, if a SQLAlchemy driver is installed and no ADBC driver.

Rows are read with a server-side cursor. Column types come from the first rows. A later value of another type raises an
error with the column's name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import ConfigError, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.extras import installed
from sitemap_etl.sources.databases.session import Session
from sitemap_etl.sources.parameters import Value, bind

if TYPE_CHECKING:
    from sqlalchemy import engine as alchemy

_FETCH_ROWS: Final = 10_000
_PACKAGES: Final = {
    "mssql": "pyodbc",
    "oracle": "oracledb",
    "snowflake": "snowflake-sqlalchemy",
    "bigquery": "sqlalchemy-bigquery",
    "redshift": "sqlalchemy-redshift",
    "trino": "trino[sqlalchemy]",
    "databricks": "databricks-sqlalchemy",
    "clickhouse": "clickhouse-sqlalchemy",
}


def rows(
    connection: Connection, sql: str, values: Mapping[str, Value], session: Session, *, label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first.

    Raise ConfigError, InvalidSource, Refused, Unavailable.
    """
    kind = connection.dialect
    if not installed("sqlalchemy"):
        raise _driver_missing(kind, label)
    import sqlalchemy

    # text() has its own parameter syntax, so all other colons are escaped.
    marked, used = bind(sql, values, kind, lambda name: f"\0{name}", label=label)
    text = sqlalchemy.text(marked.replace(":", "\\:").replace("\0", ":"))
    bound = {name: values[name] for name in used}
    try:
        with _connected(connection, kind, label) as opened:
            fetched = session.fetch_rows or _FETCH_ROWS
            result = opened.execution_options(stream_results=True, max_row_buffer=fetched).execute(text, bound)
            yield from _batches(result, label, fetched)
    except SitemapEtlError:
        raise
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise _translated(error, connection, label) from connection.without_secrets(error)


def _batches(result: alchemy.CursorResult[Any], label: str, rows: int) -> Iterator[pa.RecordBatch]:
    names = list(result.keys())
    schema: pa.Schema | None = None
    while True:
        fetched = result.fetchmany(rows)
        columns = list(zip(*fetched, strict=True)) or [()] * len(names)
        if schema is None:
            schema = pa.schema(list(zip(names, map(_guessed, columns), strict=True)))
            yield pa.RecordBatch.from_pylist([], schema=schema)
        if not fetched:
            return
        arrays = [_array(column, entry, label) for column, entry in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


@contextmanager
def _connected(connection: Connection, kind: str, label: str) -> Iterator[alchemy.Connection]:
    import sqlalchemy

    try:
        # Parameters can be secrets from the environment, so messages don't show them.
        engine = sqlalchemy.create_engine(connection.uri, poolclass=sqlalchemy.pool.NullPool, hide_parameters=True)
    except (ImportError, sqlalchemy.exc.NoSuchModuleError) as error:
        raise _driver_missing(kind, label) from error
    with engine.connect() as opened:
        try:
            yield opened
        finally:
            # Otherwise, SQLAlchemy would read an unfinished stream to its end before it closes the connection.
            opened.invalidate()


def _driver_missing(kind: str, label: str) -> ConfigError:
    package = _PACKAGES.get(kind, "the SQLAlchemy dialect and driver of that database")
    hint = f"install its ADBC driver, or sqlalchemy and {package}"
    return ConfigError(f"{label}: this environment has no driver for {kind} databases: {hint}")


_GUESSES: Final[tuple[tuple[type, pa.DataType], ...]] = (
    (bool, pa.bool_()),
    (int, pa.int64()),
    (float, pa.float64()),
    (Decimal, pa.float64()),
    (datetime, pa.timestamp("us")),
    (date, pa.date32()),
    (time, pa.time64("us")),
    (timedelta, pa.duration("us")),
    (bytes, pa.binary()),
)


def _guessed(column: Sequence[Any]) -> pa.DataType:
    given = [value for value in column if value is not None]
    if not given:
        return pa.string()
    if isinstance(given[0], datetime) and given[0].tzinfo is not None:
        return pa.timestamp("us", "UTC")
    if isinstance(given[0], int) and any(isinstance(value, float | Decimal) for value in given):
        return pa.float64()
    return next((type_ for kind, type_ in _GUESSES if isinstance(given[0], kind)), pa.string())


def _array(column: Sequence[Any], entry: pa.Field, label: str) -> pa.Array:
    """Convert the values to the column's type, one by one, because these drivers return Python values."""
    convert = _CONVERTERS.get(entry.type)
    try:
        return pa.array(column if convert is None else [None if v is None else convert(v) for v in column], entry.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidSource(
            f"{label}: column {entry.name!r} is {entry.type} and holds a value that does not fit ({error}): "
            "cast it in the SELECT to one type"
        ) from error


def _as_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode()
    return json.dumps(value, ensure_ascii=False, default=str) if isinstance(value, dict | list) else str(value)


_CONVERTERS: Final[dict[pa.DataType, Callable[[Any], Any]]] = {
    pa.string(): _as_text,
    pa.float64(): float,
}


def _translated(error: Exception, connection: Connection, label: str) -> SitemapEtlError:
    import sqlalchemy

    message = connection.redact(str(getattr(error, "orig", None) or error))
    if isinstance(error, sqlalchemy.exc.ArgumentError):
        return ConfigError(f"{label}: the URI of the connection can't be read: {message}")
    if isinstance(error, (sqlalchemy.exc.ProgrammingError, sqlalchemy.exc.DataError, sqlalchemy.exc.NotSupportedError)):
        return InvalidSource(f"{label}: {message}")
    return Unavailable(f"{label}: the database did not answer: {message}")
