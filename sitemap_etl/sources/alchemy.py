"""Any other database through SQLAlchemy: MySQL and MariaDB with PyMySQL, the rest where its driver is installed.

Rows come over a server-side cursor. Types are taken from what the driver says of a column (MySQL), or
else from the first rows; a later value of another kind is an error that names it. For MySQL the
session's time zone is UTC, a zero date ('0000-00-00') is null, and binary text must be UTF-8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl.connections import Connection
from sitemap_etl.errors import ConfigError, InvalidSource, Refused, SitemapEtlError, Unavailable
from sitemap_etl.extras import demand, installed
from sitemap_etl.sources.parameters import Value, bind
from sitemap_etl.sources.session import Limit, Session, Statement

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
    connection: Connection, sql: str, values: Mapping[str, Value], statement: Statement, *, label: str
) -> Iterator[pa.RecordBatch]:
    """The result of one SELECT, an empty batch first.

    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    kind = connection.dialect
    if kind == "mysql":
        demand("mysql", f"{label}: reading MySQL and MariaDB")
    elif not installed("sqlalchemy"):
        raise _driver_missing(kind, label)
    import sqlalchemy

    # text() reads parameters of its own: every colon that is none of ours is escaped.
    marked, used = bind(sql, values, kind, lambda name: f"\0{name}", label=label)
    text = sqlalchemy.text(marked.replace(":", "\\:").replace("\0", ":"))
    bound = {name: _bound(values[name], kind) for name in used}
    try:
        with _connected(connection, statement, kind, label) as opened:
            fetched = statement.session.fetch_rows or _FETCH_ROWS
            result = opened.execution_options(stream_results=True, max_row_buffer=fetched).execute(text, bound)
            try:
                yield from _batches(result, kind, label, fetched)
            finally:
                _abandon(result.cursor)
    except SitemapEtlError:
        raise
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise _translated(error, connection, label, statement.session) from connection.without_secrets(error)


def _batches(result: alchemy.CursorResult[Any], kind: str, label: str, rows: int) -> Iterator[pa.RecordBatch]:
    description = result.cursor.description if result.cursor is not None else ()
    types = [_declared(column, kind) for column in description]
    names = list(result.keys())
    schema: pa.Schema | None = None
    while True:
        fetched = result.fetchmany(rows)
        columns = list(zip(*fetched, strict=True)) or [()] * len(names)
        if schema is None:
            guessed = [given or _guessed(column) for given, column in zip(types, columns, strict=True)]
            schema = pa.schema(list(zip(names, guessed, strict=True)))
            yield pa.RecordBatch.from_pylist([], schema=schema)
        if not fetched:
            return
        arrays = [_array(column, entry, label) for column, entry in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _abandon(cursor: Any) -> None:
    """Keep PyMySQL from reading the rest of a result that nobody wants; its connection is closed next."""
    pending: Any = getattr(cursor, "_result", None)
    if pending is not None and getattr(pending, "unbuffered_active", False):
        pending.unbuffered_active = False
        pending.connection = None


@contextmanager
def _connected(connection: Connection, statement: Statement, kind: str, label: str) -> Iterator[alchemy.Connection]:
    import sqlalchemy

    session = statement.session
    arguments = {"connect_timeout": 10, "program_name": session.name} if kind == "mysql" else {}
    try:
        # Parameters stay out of messages: they may be secrets out of the environment.
        engine = sqlalchemy.create_engine(
            connection.uri, poolclass=sqlalchemy.pool.NullPool, hide_parameters=True, connect_args=arguments
        )
    except (ImportError, sqlalchemy.exc.NoSuchModuleError) as error:
        raise _driver_missing(kind, label) from error
    with engine.connect() as opened:
        try:
            if kind != "mysql":
                yield opened
                return
            opened.exec_driver_sql(f"SET SESSION time_zone = '+00:00'{mysql_limits(session)}")
            opened.exec_driver_sql("SET SESSION TRANSACTION READ ONLY")
            number = opened.exec_driver_sql("SELECT connection_id()").scalar_one()
            opened.rollback()  # the next transaction is read-only
            with statement.cancelled_by(lambda: _kill(engine, number)):
                yield opened
        finally:
            # A streamed result that was not read to its end would be drained before the connection is free again.
            opened.invalidate()


def mysql_limits(session: Session) -> str:
    """Assignments of a SET that bound a statement's time: the shorter of our limit and the server's own.

    MySQL and MariaDB know different variables, and refuse the other's. Comments of the one form are code to MySQL from
    5.7.8 on and not to MariaDB (which ignores the versions 50700 to 99999), those of the other to MariaDB only.
    """
    text = ""
    if session.timeout is not None:
        seconds, milliseconds = session.timeout // timedelta(seconds=1), session.timeout // timedelta(milliseconds=1)
        text += f" /*!50708 , SESSION max_execution_time = {_shorter('max_execution_time', milliseconds)} */"
        text += f" /*M!100101 , SESSION max_statement_time = {_shorter('max_statement_time', seconds)} */"
    if session.lock_timeout is not None:
        seconds = max(1, session.lock_timeout // timedelta(seconds=1))
        text += f", SESSION lock_wait_timeout = {_shorter('lock_wait_timeout', seconds)}"
    return text


def _shorter(variable: str, limit: int) -> str:
    return f"IF(@@{variable} = 0, {limit}, LEAST(@@{variable}, {limit}))"


def _kill(engine: alchemy.Engine, number: int) -> None:
    with engine.connect() as other:
        other.exec_driver_sql(f"KILL QUERY {number}")


def _driver_missing(kind: str, label: str) -> ConfigError:
    hint = f"install sqlalchemy and {_PACKAGES.get(kind, 'the SQLAlchemy dialect and driver of that database')}"
    return ConfigError(f"{label}: this environment has no driver for {kind} databases: {hint}")


def _bound(value: Value, kind: str) -> Value:
    if isinstance(value, datetime) and value.tzinfo is not None and kind == "mysql":
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _declared(column: Sequence[Any], kind: str) -> pa.DataType | None:
    """The type that MySQL's own code for the column says; None for other databases, which have no common codes."""
    if kind != "mysql":
        return None
    from pymysql.constants import FIELD_TYPE as TYPE

    code, scale = column[1], column[5]
    if code in {TYPE.DECIMAL, TYPE.NEWDECIMAL}:
        return pa.decimal128(38, scale)
    known: dict[int, pa.DataType] = {
        **dict.fromkeys((TYPE.TINY, TYPE.SHORT, TYPE.INT24, TYPE.LONG, TYPE.LONGLONG, TYPE.YEAR, TYPE.BIT), pa.int64()),
        **dict.fromkeys((TYPE.FLOAT, TYPE.DOUBLE), pa.float64()),
        TYPE.DATE: pa.date32(),
        TYPE.DATETIME: pa.timestamp("us"),
        TYPE.TIMESTAMP: pa.timestamp("us", "UTC"),
        TYPE.TIME: pa.duration("us"),
    }
    return known.get(code, pa.string())


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
    """The values in the column's type; Python per value, as these drivers give Python values."""
    convert = _CONVERTERS.get(entry.type) or (_moment if pt.is_timestamp(entry.type) else None)
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


def _moment(value: Any) -> datetime | None:
    """A zero date arrives as the text it is."""
    return None if isinstance(value, str) else value


_CONVERTERS: Final[dict[pa.DataType, Callable[[Any], Any]]] = {
    pa.string(): _as_text,
    pa.date32(): _moment,
    pa.float64(): float,
    pa.int64(): lambda value: int.from_bytes(value) if isinstance(value, bytes) else value,
}

_REFUSED: Final = frozenset({1044, 1045, 1049, 1130, 1142, 1143, 1227, 1698, 2054, 3118, 3159})
_UNAVAILABLE: Final = frozenset(
    {1040, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1317, 1969, 2002, 2003, 2006, 2013, 3024}
)
"""Error numbers of MySQL and MariaDB: connections used up, shutdown, network, locks, statement timeouts."""
_LIMITS: Final[dict[int, Limit]] = {1205: "lock_timeout", 1969: "timeout", 3024: "timeout"}


def _translated(error: Exception, connection: Connection, label: str, session: Session) -> SitemapEtlError:
    import sqlalchemy

    original = getattr(error, "orig", None) or error
    arguments: tuple[Any, ...] = getattr(original, "args", ())
    number = arguments[0] if connection.dialect == "mysql" and arguments and isinstance(arguments[0], int) else None
    message = connection.redact(str(arguments[1] if number is not None and len(arguments) > 1 else original))
    if number in _REFUSED:
        return Refused(f"{label}: the database refused: {message}")
    if number in _UNAVAILABLE:
        return Unavailable(f"{label}: the database did not answer: {message}{session.hint(_LIMITS.get(number))}")
    if isinstance(error, sqlalchemy.exc.ArgumentError):
        return ConfigError(f"{label}: the URI of the connection can't be read: {message}")
    broken = (sqlalchemy.exc.ProgrammingError, sqlalchemy.exc.DataError, sqlalchemy.exc.NotSupportedError)
    if isinstance(error, broken) or (number is not None and number < 2000):
        return InvalidSource(f"{label}: {message}")
    return Unavailable(f"{label}: the database did not answer: {message}")
