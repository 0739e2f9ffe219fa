"""PostgreSQL through ADBC: COPY, streamed in batches, in one read-only transaction per statement.

- The session's time zone is UTC, so that a SELECT means the same on every server.
- Values are bound as transaction-local settings and read with `current_setting`, because COPY has no parameters.
  Without COPY, the driver would keep the whole result in memory.
- Text is UTF-8, whatever the encoding of the database or connection.
- Types that the driver doesn't support are cast in the SELECT (`postgres_types`), after a look at the result's types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import Denied, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.sources.databases import adbc
from sitemap_etl.sources.databases.postgres_types import castings, plain
from sitemap_etl.sources.databases.session import Limit, Session, Statement
from sitemap_etl.sources.parameters import Value, bind

BATCH_BYTES_HINT: Final = 4 * 1024 * 1024
"""Target bytes of the driver's batches, by its own estimate."""
_CHECK_CLIENT: Final = timedelta(seconds=10)
"""Interval at which the server checks if the client of a running query still exists."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_REPEATABLE: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NO_SNAPSHOT: Final = ("42704", "22023")
"""SQLSTATEs for an unknown snapshot and an invalid snapshot name (PostgreSQL, `ImportSnapshot`)."""
_CASTS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (float, "double precision"),
    (Decimal, "numeric"),
    (datetime, "timestamp"),
    (date, "date"),
)


class SnapshotGone(Unavailable):
    """The server doesn't have the snapshot, or no longer."""


def rows(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    statement: Statement,
    *,
    label: str,
    snapshot: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first. `snapshot`: a name from `exported` on another connection.

    Raise ConfigError, InvalidSource, Denied, Unavailable (SnapshotGone).
    """
    text, used = bind(sql, values, "postgresql", lambda name: _placeholder(name, values), label=label)
    settings = [
        "set_config('TimeZone', 'UTC', true)",
        "set_config('transaction_read_only', 'on', true)",
        _limits(statement.session),
    ]
    bound = [name for name in used if values[name] is not None]
    settings += [f"set_config('{_setting(name)}', ${at}, true)" for at, name in enumerate(bound, 1)]
    try:
        with adbc.cursor(
            lambda: _connect(connection, statement.session),
            statement,
            {"adbc.postgresql.batch_size_hint_bytes": str(BATCH_BYTES_HINT)},
        ) as cursor:
            if snapshot is not None:
                _see(cursor, snapshot, label)
            cursor.execute(f"SELECT {', '.join(settings)}", tuple(_text(values[name]) for name in bound) or None)
            cursor.fetchall()
            # COPY closes a parenthesis after the text, which must not be part of a comment.
            cursor.execute(f"{castings(cursor.adbc_execute_schema(text), text, label=label)}\n")
            for batch in adbc.stream(cursor):
                yield plain(batch, label=label)
    except SitemapEtlError:
        raise
    except Exception as error:  # noqa: BLE001 - the driver raises several families; all become ours
        raise _translated(error, connection, label, statement.session) from connection.without_secrets(error)


def exported(connection: Connection, statement: Statement, *, label: str) -> Iterator[str]:
    """Yield the name of a snapshot of the current database. Other connections can read it until this generator is
    closed.

    Raise InvalidSource if the server doesn't support snapshots, Refused, Unavailable.
    """
    with ExitStack() as stack:
        try:
            cursor = stack.enter_context(adbc.cursor(lambda: _connect(connection, statement.session), statement))
            cursor.execute(_REPEATABLE)
            # This transaction is idle while the splits are read.
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_export_snapshot()")
            name = str(cursor.fetchone()[1])
        except Exception as error:  # noqa: BLE001 - the driver raises several families; all become ours
            raise _translated(error, connection, label, statement.session) from connection.without_secrets(error)
        yield name


def _see(cursor: Any, snapshot: str, label: str) -> None:
    """Make a transaction that has just begun read from the snapshot."""
    cursor.execute(_REPEATABLE)
    try:
        cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
    except Exception as error:
        if getattr(error, "sqlstate", None) not in _NO_SNAPSHOT:
            raise
        raise SnapshotGone(
            f"{label}: the snapshot that all splits are to be read from is gone: the connection that holds it was "
            "closed, or leads to another server. Run again"
        ) from error


def _connect(connection: Connection, session: Session) -> Any:
    import adbc_driver_postgresql.dbapi as driver

    # A query can be silent for hours. Keepalives detect a dead server, and keep the connection open.
    own = {name: value for name, value in connection.extra.items() if name != "client_encoding"}
    told = replace(connection, extra={**own, "client_encoding": "UTF8"})
    return driver.connect(told.uri_with(connect_timeout="10", application_name=session.name, keepalives_idle="60"))


def _limits(session: Session) -> str:
    """Return an expression that sets the time limits of a transaction: the shorter of ours and the server's own.

    From PostgreSQL 14 on, it also detects a killed worker while its query computes. That setting is only made if the
    server runs on Linux, because other systems refuse it.
    """
    wanted = {
        "statement_timeout": session.timeout,
        "lock_timeout": session.lock_timeout,
        "client_connection_check_interval": _CHECK_CLIENT,
    }
    ours = ", ".join(f"('{name}', {limit // _MILLISECOND})" for name, limit in wanted.items() if limit is not None)
    return (
        "(SELECT count(set_config(name, least(nullif(setting::bigint, 0), milliseconds)::text, true)) "  # noqa: S608 - names and numbers of our own
        f"FROM pg_catalog.pg_settings JOIN (VALUES {ours}) ours (name, milliseconds) USING (name) "
        "WHERE name <> 'client_connection_check_interval' OR version() LIKE '%linux%')"
    )


def _setting(name: str) -> str:
    # Settings ignore case but parameters don't, so the name is encoded in hexadecimal.
    return f"sitemap_etl.p{name.encode().hex()}"


def _placeholder(name: str, values: Mapping[str, Value]) -> str:
    value = values[name]
    if value is None:
        return "NULL"
    if isinstance(value, datetime) and value.tzinfo is not None:
        cast = "timestamptz"
    elif isinstance(value, int) and not isinstance(value, bool):
        cast = "bigint" if -(2**63) <= value < 2**63 else "numeric"
    else:
        cast = next((cast for kind, cast in _CASTS if isinstance(value, kind)), "text")
    return f"(current_setting('{_setting(name)}')::{cast})"


def _text(value: Value) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


_LIMITS: Final[dict[str, tuple[str, Limit]]] = {
    "57014": ("the database cancelled the query", "timeout"),
    "55P03": ("the database did not get a lock", "lock_timeout"),
}
_REFUSED: Final = ("28", "3D", "42501")
_INVALID: Final = ("42", "22", "21", "0A", "25006", "26", "3F", "23", "39", "P0", "2B", "54")
_REFUSED_TEXT: Final = (
    "authentication failed", "no pg_hba.conf entry", "no password supplied", "does not exist", "permission denied",
    "is not permitted to log in", "certificate verify failed", "invalid", "server does not support SSL", "unrecognized",
)  # fmt: skip
"""Libpq's texts for a refused connection, which has no SQLSTATE."""


def _translated(error: BaseException, connection: Connection, label: str, session: Session) -> SitemapEtlError:
    """Translate the driver's error, by SQLSTATE (PostgreSQL, appendix A)."""
    state = getattr(error, "sqlstate", None) or ""
    message = connection.redact(_message(str(error)))
    if not state and "Failed to connect" in str(error):
        unresolved = "could not translate host name" in message  # the message has the host name, which can be any word
        if not unresolved and any(words in message for words in _REFUSED_TEXT):
            return Denied(f"{label}: the database refused the connection: {message}")
        return Unavailable(f"{label}: the database did not answer: {message}")
    if state.startswith(_REFUSED):
        return Denied(f"{label}: the database refused: {message}")
    if state.startswith(_INVALID) or isinstance(error, pa.ArrowInvalid):
        return InvalidSource(f"{label}: {message}")
    said, key = _LIMITS.get(state, ("the database stopped answering", None))
    return Unavailable(f"{label}: {said}: {message}{session.hint(key)}")


def _message(text: str) -> str:
    """Return the server's message in one line, with the line of the SELECT that it points to."""
    text = text.partition("\nQuery was:")[0].partition(". SQLSTATE")[0]
    found = re.search(r"(?:ERROR|FATAL):\s+(.*)", text)
    message = found[1].strip() if found else _sentences(text.rpartition("Failed to connect: ")[2])
    line = re.search(r"\nLINE (\d+): (.*)", text)
    if line:
        message += f" (line {line[1]}: {line[2].strip()[:120]})"
    hint = re.search(r"\nHINT:\s+(.*)", text)
    return f"{message}. {hint[1].strip()}" if hint else message


def _sentences(text: str) -> str:
    """Return the lines as sentences in one line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(line if line.endswith((".", "?", ":")) else f"{line}." for line in lines).removesuffix(".")
