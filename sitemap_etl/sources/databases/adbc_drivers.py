"""Any database whose ADBC driver is installed: Snowflake, BigQuery, Flight SQL and what else speaks Arrow.

A driver is installed as a Python package (`adbc_driver_snowflake`), or as a library with a manifest that the driver
manager finds (https://arrow.apache.org/adbc/current/format/driver_manifests.html), by the scheme of the URI.
Its options stand in the connection's extra under their own names, which begin with `adbc.`; `uri` there is handed to
the driver as it stands. Values are bound as `?`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import Denied, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.extras import installed
from sitemap_etl.sources.databases import adbc
from sitemap_etl.sources.databases.session import Statement
from sitemap_etl.sources.parameters import Value, bind

_FLIGHT: Final = ("grpc", "flightsql")
"""Schemes of Flight SQL, also with `+tls`, `+tcp` or `+unix` behind them."""


def driver_of(dialect: str) -> str | None:
    """Return the library of a database's driver, or the name of its manifest. None if no driver is installed."""
    import adbc_driver_manager

    name = "flightsql" if dialect in _FLIGHT else dialect
    package = f"adbc_driver_{name}"
    if package.isidentifier() and installed(package):
        return str(importlib.import_module(package)._driver_path())
    try:
        adbc_driver_manager.AdbcDatabase(driver=name).close()
    except adbc_driver_manager.Error as error:
        if error.status_code == adbc_driver_manager.AdbcStatusCode.NOT_FOUND:
            return None
    return name  # one that wants more than its name is there, too


def rows(
    connection: Connection, driver: str, sql: str, values: Mapping[str, Value], statement: Statement, *, label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first.

    Raise ConfigError, InvalidSource, Denied, Unavailable.
    """
    import adbc_driver_manager
    from adbc_driver_manager import dbapi

    given: list[Value] = []

    def placeholder(name: str) -> str:
        given.append(values[name])
        return "?"

    text, _ = bind(sql, values, connection.dialect, placeholder, label=label)
    connect = functools.partial(dbapi.connect, driver=driver, db_kwargs=options_of(connection), autocommit=True)
    try:
        with adbc.cursor(connect, statement) as cursor:
            cursor.execute(text, tuple(given) or None)
            yield from adbc.stream(cursor)
    except SitemapEtlError:
        raise
    except (adbc_driver_manager.Error, pa.ArrowException, OSError) as error:
        raise _translated(error, connection, label) from connection.without_secrets(error)


def options_of(connection: Connection) -> dict[str, str]:
    """Return the driver's options for this connection. Raise ConfigError for extras that can't be used."""
    return _OPTIONS.get(connection.dialect, _usual)(connection) | _own(connection)


def _own(connection: Connection) -> dict[str, str]:
    """Return the options of the connection whose names are those of the driver."""
    extra = {name: value for name, value in connection.parameters.items() if name.startswith("adbc.") or name == "uri"}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in extra.items()}


def _without_options(connection: Connection) -> str:
    """Return the connection's URI, without what `_own` tells."""
    extra = {name: value for name, value in connection.extra.items() if name not in _own(connection)}
    return Connection(
        connection.scheme, connection.login, connection.password, connection.hosts, connection.schema, extra
    ).uri


def _usual(connection: Connection) -> dict[str, str]:
    return {"uri": _without_options(connection)}


def _flight(connection: Connection) -> dict[str, str]:
    """Return the address in gRPC's form, and the login as options.

    https://arrow.apache.org/adbc/current/driver/flight_sql.html
    """
    place = Connection(connection.scheme.replace("flightsql", "grpc"), hosts=connection.hosts).uri
    login = {"username": connection.login, "password": connection.password}
    return {"uri": place} | {name: value for name, value in login.items() if value}


def _snowflake(connection: Connection) -> dict[str, str]:
    """Return the form of gosnowflake, which has no scheme; or Airflow's, which names the account in its extra.

    https://arrow.apache.org/adbc/current/driver/snowflake.html
    """
    extra = connection.parameters
    if "account" not in extra:
        return {"uri": _without_options(connection).partition("://")[2]}
    options = {
        f"adbc.snowflake.sql.{name}": str(extra[name])
        for name in ("account", "warehouse", "role", "region")
        if name in extra
    }
    named = {
        "username": connection.login,
        "password": connection.password,
        "adbc.snowflake.sql.db": str(extra.get("database") or ""),
        "adbc.snowflake.sql.schema": connection.schema,
    }
    return options | {name: value for name, value in named.items() if value}


def _bigquery(connection: Connection) -> dict[str, str]:
    """Return project and dataset from `bigquery://project/dataset`.

    https://arrow.apache.org/adbc/current/driver/bigquery.html
    """
    project = connection.hosts[0][0] if connection.hosts else ""
    named = {"adbc.bigquery.sql.project_id": project, "adbc.bigquery.sql.dataset_id": connection.schema}
    return {name: value for name, value in named.items() if value}


_OPTIONS: Final[dict[str, Callable[[Connection], dict[str, str]]]] = {
    **dict.fromkeys(_FLIGHT, _flight),
    "snowflake": _snowflake,
    "bigquery": _bigquery,
}
_REFUSED: Final = frozenset({"UNAUTHENTICATED", "UNAUTHORIZED"})
_INVALID: Final = frozenset(
    {"NOT_FOUND", "NOT_IMPLEMENTED", "INVALID_ARGUMENT", "INVALID_DATA", "ALREADY_EXISTS", "INTEGRITY"}
)


def _translated(error: Exception, connection: Connection, label: str) -> SitemapEtlError:
    """Translate the driver's error, by SQLSTATE if it has one, otherwise by ADBC's own code."""
    status = getattr(getattr(error, "status_code", None), "name", "")
    state = getattr(error, "sqlstate", None) or ""
    message = connection.redact(" ".join(str(error).split())).removeprefix(f"{status}: ")
    if state.startswith("28") or status in _REFUSED:
        return Denied(f"{label}: the database refused: {message}")
    if state.startswith(("42", "22")) or status in _INVALID or isinstance(error, pa.ArrowException):
        return InvalidSource(f"{label}: {message}")
    return Unavailable(f"{label}: the database did not answer: {message}")
