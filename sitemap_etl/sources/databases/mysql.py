"""MySQL and MariaDB: PyMySQL connects and sends the query; this package decodes the rows, whole buffers at a time.

- The session's time zone is UTC, and the transaction is read-only.
- Values are bound as literals that PyMySQL writes for the current session.
- Rows are streamed at the reader's pace.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import ConfigError, Denied, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.extras import demand
from sitemap_etl.sources.databases.mysql_packets import Broken, Lost, ServerError, Values, blocks
from sitemap_etl.sources.databases.mysql_values import array, arrow_type
from sitemap_etl.sources.databases.session import Limit, Session, Statement
from sitemap_etl.sources.parameters import Value, bind

if TYPE_CHECKING:
    import pymysql


def rows(
    connection: Connection, sql: str, values: Mapping[str, Value], statement: Statement, *, label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first.

    Raise ConfigError, InvalidSource, Denied, Unavailable.
    """
    demand("mysql", f"{label}: reading MySQL and MariaDB")
    import pymysql

    try:
        with (
            _connected(connection, statement.session, label) as opened,
            statement.cancelled_by(lambda: _kill(connection, opened.thread_id(), label)),
        ):
            text, _ = bind(sql, values, "mysql", lambda name: str(opened.escape(_bound(values[name]))), label=label)
            # The list of processes and the slow log show the statement, and not who the program is.
            opened.query(f"/* {statement.session.name} */ {text}", unbuffered=True)
            warnings = yield from _batches(opened, label)
            if warnings:
                _note_warnings(opened, warnings, statement.session, label)
    except SitemapEtlError:
        raise
    except Broken as error:
        raise InvalidSource(f"{label}: {error}") from error
    except (Lost, ServerError, OSError, pymysql.MySQLError) as error:
        raise _translated(error, connection, label, statement.session) from connection.without_secrets(error)


@contextmanager
def _connected(connection: Connection, session: Session, label: str) -> Iterator[pymysql.Connection[Any]]:
    """Open a connection in a read-only transaction of the session, closed at the end even in the midst of a result.

    Raise `ConfigError`, and what PyMySQL raises.
    """
    opened = _opened(connection, session, label)
    try:
        opened.query(f"SET SESSION time_zone = '+00:00', SESSION character_set_results = utf8mb4{_limits(session)}")
        with _without_unknown_variables():
            opened.query(f"SET SESSION group_concat_max_len = @@max_allowed_packet, SESSION max_error_count = {_KEPT}")
        opened.query("START TRANSACTION READ ONLY")
        yield opened
    finally:
        _leave_result(opened)
        if opened.open:
            opened.close()


def _leave_result(opened: pymysql.Connection[Any]) -> None:
    """Let PyMySQL forget a result that it would read the rest of."""
    pending: Any = opened._result
    if pending is not None:
        pending.unbuffered_active, pending.connection = False, None


@contextmanager
def _without_unknown_variables() -> Iterator[None]:
    """Leave out a SET of variables that the server does not have: others than MySQL speak its protocol."""
    import pymysql

    try:
        yield
    except pymysql.MySQLError as error:
        if not error.args or error.args[0] != _UNKNOWN_VARIABLE:
            raise


def _opened(connection: Connection, session: Session, label: str) -> pymysql.Connection[Any]:
    import pymysql

    try:
        return pymysql.connect(**{"program_name": session.name, **_options(connection)})
    except (TypeError, ValueError, NotImplementedError) as error:
        said = connection.redact(str(error)).removeprefix("Connection.__init__() got an ")
        raise ConfigError(f"{label}: the connection has an option that PyMySQL does not take: {said}") from None


def _kill(connection: Connection, number: int, label: str) -> None:
    """End the statement of the connection with this number, but not the connection."""
    other = _opened(connection, Session(), label)
    try:
        other.query(f"KILL QUERY {number}")
    finally:
        other.close()


def _limits(session: Session) -> str:
    """Return assignments of a SET that limit a statement's time: the shorter of our limit and the server's own.

    MySQL and MariaDB have different variables and refuse unknown ones. The first form of comment is code in MySQL from
    5.7.8 on, but not in MariaDB, which ignores the versions 50700 to 99999. The second form is code only in MariaDB.
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


_NUMBERS: Final = frozenset({"connect_timeout", "read_timeout", "write_timeout", "client_flag", "max_allowed_packet"})
_FLAGS: Final = frozenset({"local_infile", "ssl_disabled", "ssl_verify_cert", "ssl_verify_identity"})
_TLS: Final = frozenset({"ca", "capath", "cert", "key", "cipher", "check_hostname", "verify_mode"})


def _options(connection: Connection) -> dict[str, Any]:
    """Return the arguments of PyMySQL's `connect`: the connection's own parameters with the right types.

    `ssl_ca`, `ssl_cert` and their like are one mapping, as in Airflow's `ssl`: there a certificate is checked
    wherever there is an authority to check it with, which PyMySQL's parameters of these names leave to others.
    """
    host, port = connection.hosts[0] if connection.hosts else ("", None)
    options: dict[str, Any] = {"charset": "utf8mb4", "connect_timeout": 10, **connection.parameters}
    tls = options.pop("ssl", None)
    tls = dict(tls) if isinstance(tls, dict) else {}
    for name in _TLS:
        if f"ssl_{name}" in options:
            tls[name] = options.pop(f"ssl_{name}")
    if "check_hostname" in tls:
        tls["check_hostname"] = _flag(tls["check_hostname"])
    if tls:
        options["ssl"] = tls
    options |= {name: int(options[name]) for name in _NUMBERS & options.keys()}
    options |= {name: _flag(options[name]) for name in _FLAGS & options.keys()}
    login = {"user": connection.login, "password": connection.password.encode(), "database": connection.schema}
    return {"host": host, "port": port or 0, **{name: value or None for name, value in login.items()}, **options}


def _flag(value: object) -> bool:
    return str(value).lower() in {"1", "true", "yes", "on"}


_KEPT: Final = 65_535
"""Warnings that the server keeps of a statement: as many as it can."""
_UNKNOWN_VARIABLE: Final = 1193
_CUT: Final = frozenset({1260, 1301})
"""Warnings about values that the server has cut, or left out, because they were too long."""
_ALTERED: Final = frozenset({1264, 1265, 1292, 1366, 1406, 1411})
"""Warnings about values that a cast or a function has altered, which may be meant."""


def _note_warnings(opened: Any, count: int, session: Session, label: str) -> None:
    """Note the warnings of the statement that was read last. `count`: how many there are.

    Raise `InvalidSource` if one says that a value was cut.
    """
    import pymysql

    _leave_result(opened)
    try:
        opened.query("SHOW WARNINGS")
    except pymysql.MySQLError as error:
        session.notice(f"the database gave warnings that can't be read ({error.args[-1]})", count, ())
        return
    found: dict[int, list[str]] = {}
    for _, code, message in opened._result.rows:
        found.setdefault(int(code), []).append(str(message))
    for code in sorted(_CUT & found.keys()):
        raise InvalidSource(
            f"{label}: the database cut {len(found[code]):,} values that were too long: {found[code][0]} (warning "
            f"{code}). The session has group_concat_max_len at max_allowed_packet: raise that on the server, and make "
            "sure that the SELECT and the functions in it set no smaller limit"
        )
    for code in sorted(_ALTERED & found.keys()):
        session.notice(f"the database altered values (warning {code})", len(found[code]), found[code])
    if (unknown := count - sum(map(len, found.values()))) > 0:
        session.notice("the database gave warnings that it did not keep", unknown, ())


def _batches(opened: Any, label: str) -> Generator[pa.RecordBatch, None, int]:
    """Yield the rows, an empty batch first. Returns the number of warnings."""
    fields = getattr(opened._result, "fields", None)
    if fields is None:
        raise InvalidSource(f"{label}: the statement yields no rows; a SELECT is expected")
    schema = pa.schema([(field.name, arrow_type(field)) for field in fields])
    yield pa.RecordBatch.from_pylist([], schema=schema)
    found = blocks(opened._rfile.read1, len(fields))
    while True:
        try:
            columns = next(found)
        except StopIteration as end:
            return int(end.value)
        arrays = [_array(*each, label) for each in zip(columns, fields, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: Values, field: Any, entry: pa.Field, label: str) -> pa.Array:
    try:
        return array(values, field, entry.type)
    except pa.ArrowException as error:
        raise InvalidSource(
            f"{label}: column {entry.name!r} is {entry.type} and holds a value that does not fit ({error}): "
            "cast it in the SELECT to one type"
        ) from error


def _bound(value: Value) -> Value:
    """Return a value to bind. Times are converted to UTC, like the session's columns."""
    return value.astimezone(UTC).replace(tzinfo=None) if isinstance(value, datetime) and value.tzinfo else value


_REFUSED: Final = frozenset({1044, 1045, 1049, 1130, 1142, 1143, 1227, 1698, 2054, 3118, 3159})
_UNAVAILABLE: Final = frozenset(
    {1040, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1317, 1969, 2002, 2003, 2006, 2013, 3024}
)
"""Error numbers of MySQL and MariaDB: no free connections, shutdown, network, locks, statement timeouts."""
_LIMITS: Final[dict[int, Limit]] = {1205: "lock_timeout", 1969: "timeout", 3024: "timeout"}


def _translated(error: Exception, connection: Connection, label: str, session: Session) -> SitemapEtlError:
    """Translate the driver's error, by its number."""
    import pymysql

    if isinstance(error, ServerError):
        try:
            pymysql.err.raise_mysql_exception(error.packet)
        except pymysql.MySQLError as told:
            error = told
    number = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    message = connection.redact(str(error.args[1] if len(error.args) > 1 else error))
    if isinstance(error, Lost):
        message = "the connection was lost in the midst of the rows"
    if number in _REFUSED or "certificate verify failed" in message:
        return Denied(f"{label}: the database refused: {message}")
    if number in _UNAVAILABLE or not 1000 <= number < 2000:
        return Unavailable(f"{label}: the database did not answer: {message}{session.hint(_LIMITS.get(number))}")
    return InvalidSource(f"{label}: {message}")
