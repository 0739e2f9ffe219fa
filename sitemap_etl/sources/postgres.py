"""PostgreSQL through ADBC: COPY, streamed in batches, in one read-only transaction a statement.

- The session's time zone is UTC, so that a SELECT means the same on every server.
- Values are bound as transaction-local settings and read back with `current_setting`: COPY takes no
  parameters, and without COPY the driver would hold the whole result in memory.
- `numeric(p, s)` comes as decimal128(p, s); numeric without a declared scale as double, where a whole
  number beyond 2**53 is an error rather than rounded. NaN is null in a decimal.
- Dates and timestamps outside the years 1 to 9999 (infinity, BC) are null: neither pandas nor a sitemap can say them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl.connections import Connection
from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError, Unavailable
from sitemap_etl.sources import adbc
from sitemap_etl.sources.parameters import Value, bind
from sitemap_etl.sources.session import Limit, Session, Statement

BATCH_BYTES_HINT: Final = 32 * 1024 * 1024
"""What the driver aims its batches at, as it estimates bytes."""
_CHECK_CLIENT: Final = timedelta(seconds=10)
"""How often the server looks whether the client of a query at work is still there."""
_MILLISECOND: Final = timedelta(milliseconds=1)
_REPEATABLE: Final = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_NO_SNAPSHOT: Final = ("42704", "22023")
"""No such snapshot, and a name that is none (PostgreSQL, `ImportSnapshot`)."""
_EXACT: Final = 2.0**53
_CASTS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "boolean"),
    (float, "double precision"),
    (Decimal, "numeric"),
    (datetime, "timestamp"),
    (date, "date"),
)
_FIRST_DAY, _LAST_DAY = (date(1, 1, 1) - date(1970, 1, 1)).days, (date(9999, 12, 31) - date(1970, 1, 1)).days
_DAY_MICROSECONDS: Final = 86_400_000_000


class SnapshotGone(Unavailable):
    """A snapshot that is not, or no longer, held on the server that was asked."""


def rows(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    statement: Statement,
    *,
    label: str,
    snapshot: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The result of one SELECT, an empty batch first. `snapshot`: what another connection `exported`.

    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable` (`SnapshotGone`).
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
            # COPY closes a parenthesis after the text: a comment at its end must not swallow it.
            cursor.execute(f"{text}\n")
            for batch in adbc.stream(cursor):
                yield _plain(batch, label)
    except SitemapEtlError:
        raise
    except Exception as error:  # noqa: BLE001 - the driver raises several families; all become ours
        raise _translated(error, connection, label, statement.session) from connection.without_secrets(error)


def exported(connection: Connection, statement: Statement, *, label: str) -> Iterator[str]:
    """The name of a snapshot of the database as it is now; other connections read it until this is closed.

    Raises `InvalidSource` where the server has no such thing, `Refused`, `Unavailable`.
    """
    with ExitStack() as stack:
        try:
            cursor = stack.enter_context(adbc.cursor(lambda: _connect(connection, statement.session), statement))
            cursor.execute(_REPEATABLE)
            # It is idle as long as the splits are read.
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', '0', true), pg_export_snapshot()")
            name = str(cursor.fetchone()[1])
        except Exception as error:  # noqa: BLE001 - the driver raises several families; all become ours
            raise _translated(error, connection, label, statement.session) from connection.without_secrets(error)
        yield name


def _see(cursor: Any, snapshot: str, label: str) -> None:
    """Let a transaction that has just begun see what the snapshot holds."""
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

    # A query may be silent for hours: keepalives tell that the server's machine is gone, and keep the way open.
    return driver.connect(
        connection.uri_with(connect_timeout="10", application_name=session.name, keepalives_idle="60")
    )


def _limits(session: Session) -> str:
    """An expression that sets the time limits of a transaction: the shorter of ours and the server's own.

    A worker that was killed is found out while its query computes, from PostgreSQL 14 on. Only where the server's
    system can tell, or the setting is refused: Linux can.
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
    # Settings ignore case, parameters don't: the name is spelt in hexadecimal.
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


def _plain(batch: pa.RecordBatch, label: str) -> pa.RecordBatch:
    columns, names = [], []
    for entry, given in zip(batch.schema, batch.columns, strict=True):
        column = given
        if isinstance(entry.type, pa.OpaqueType) and entry.type.type_name == "numeric":
            column = _number(given.storage, entry, label)
        elif pt.is_date32(entry.type):
            column = _within(given, _FIRST_DAY, _LAST_DAY, pa.int32())
        elif pt.is_timestamp(entry.type):
            first, last = _FIRST_DAY * _DAY_MICROSECONDS, (_LAST_DAY + 1) * _DAY_MICROSECONDS - 1
            column = _within(given, first, last, pa.int64())
        columns.append(column)
        names.append(entry.name)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _number(column: pa.Array, entry: pa.Field, label: str) -> pa.Array:
    """The text of numerics as decimals where a scale is declared, else as doubles."""
    modifier = int((entry.metadata or {}).get(b"POSTGRESQL:typmod", b"-1")) - 4
    # numeric's type modifier holds precision and scale, the scale signed in 11 bits (PostgreSQL's numeric.c).
    precision, scale = modifier >> 16 & 0xFFFF, (modifier & 0x7FF ^ 0x400) - 0x400
    if modifier >= 0 and precision <= 38 and 0 <= scale <= precision:
        finite = pc.invert(pc.equal(column, "nan"))
        return pc.if_else(finite, column, pa.scalar(None, pa.string())).cast(pa.decimal128(precision, scale))
    numbers = column.cast(pa.float64())
    large = pc.and_(pc.greater_equal(pc.abs(numbers), _EXACT), pc.is_finite(numbers))
    if pc.any(large).as_py():
        value = column.filter(large)[0].as_py()
        raise InvalidSource(
            f"{label}: column {entry.name!r} is numeric without a declared scale and holds {value[:60]}, "
            "which a double would round: cast it in the SELECT, to bigint or to text"
        )
    return numbers


def _within(column: pa.Array, first: int, last: int, storage: pa.DataType) -> pa.Array:
    raw = column.view(storage)
    bounds = pc.min_max(raw)
    if bounds["min"].as_py() is None or (bounds["min"].as_py() >= first and bounds["max"].as_py() <= last):
        return column
    inside = pc.and_(pc.greater_equal(raw, first), pc.less_equal(raw, last))
    return pc.if_else(inside, column, pa.scalar(None, column.type))


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
"""How libpq words a refusal while connecting: it gives no SQLSTATE there."""


def _translated(error: BaseException, connection: Connection, label: str, session: Session) -> SitemapEtlError:
    """The driver's error as one of ours, by SQLSTATE (PostgreSQL, appendix A)."""
    state = getattr(error, "sqlstate", None) or ""
    message = connection.redact(_message(str(error)))
    if not state and "Failed to connect" in str(error):
        if any(words in message for words in _REFUSED_TEXT):
            return Refused(f"{label}: the database refused the connection: {message}")
        return Unavailable(f"{label}: the database did not answer: {message}")
    if state.startswith(_REFUSED):
        return Refused(f"{label}: the database refused: {message}")
    if state.startswith(_INVALID) or isinstance(error, pa.ArrowInvalid):
        return InvalidSource(f"{label}: {message}")
    said, key = _LIMITS.get(state, ("the database stopped answering", None))
    return Unavailable(f"{label}: {said}: {message}{session.hint(key)}")


def _message(text: str) -> str:
    """The server's message in one line, with the line of the SELECT that it points at."""
    text = text.partition("\nQuery was:")[0].partition(". SQLSTATE")[0]
    found = re.search(r"(?:ERROR|FATAL):\s+(.*)", text)
    message = found[1].strip() if found else " ".join(text.rpartition("Failed to connect: ")[2].split())
    line = re.search(r"\nLINE (\d+): (.*)", text)
    if line:
        message += f" (line {line[1]}: {line[2].strip()[:120]})"
    hint = re.search(r"\nHINT:\s+(.*)", text)
    return f"{message}. {hint[1].strip()}" if hint else message
