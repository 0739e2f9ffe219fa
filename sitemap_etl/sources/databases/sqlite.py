"""SQLite through ADBC, opened read-only and streamed in batches.

In SQLite, values have types, not columns. The driver takes a column's type from the first batch and fails if a later
value differs. So types are found first, over all rows, and then enforced:

| values | type |
|---|---|
| integer | int64 |
| real, or integer and real | double |
| blob | binary |
| text, or text with anything | string |
| only null | null |

Datetimes are bound as text in UTC, `YYYY-MM-DD HH:MM:SS`, the format of SQLite's own functions.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.errors import Denied, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.sources.batches import check_names
from sitemap_etl.sources.databases import adbc
from sitemap_etl.sources.databases.session import Session, Statement
from sitemap_etl.sources.parameters import Value, bind, quoted

_BATCH_ROWS: Final = 65_536
_PROTOTYPES: Final = {"int64": "0", "double": "0.5", "string": "''", "binary": "x''", "null": "''"}
"""Value that sets a column's type for the driver, which has no type for columns of nulls."""


def rows(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    statement: Statement,
    *,
    label: str,
    types: Mapping[str, str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first. `types`: from `column_types`; found here if None.

    Raise ConfigError, InvalidSource, Denied, Unavailable.
    """
    types = column_types(connection, sql, values, statement, label=label) if types is None else types
    shown = {"string": "CAST({} AS TEXT)", "null": "CAST({} AS TEXT)", "double": "CAST({} AS REAL)"}
    wanted = ", ".join(
        shown.get(kind, "{}").format(quoted(name, "sqlite")) + f" AS {quoted(name, 'sqlite')}"
        for name, kind in types.items()
    )
    # The first row sets the types for the driver, even if the first batches have only nulls.
    prototype = ", ".join(f"{_PROTOTYPES[kind]} AS {quoted(name, 'sqlite')}" for name, kind in types.items())
    settled = f"SELECT {prototype} UNION ALL SELECT {wanted} FROM ({sql}\n)"  # noqa: S608 - the site's own SELECT; values are bound
    first = True
    for batch in typed_rows(connection, settled, values, statement, label=label):
        if [str(kind) for kind in batch.schema.types] != [kind.replace("null", "string") for kind in types.values()]:
            raise _changed(Path(connection.schema), label, "a column has values of another type")
        skip = 1 if first and batch.num_rows else 0
        first = first and not skip
        yield _with_nulls(batch.slice(skip), types, Path(connection.schema), label)


_RENAMED: Final = re.compile(r":[0-9]+\Z")
"""Suffix that SQLite adds to the second column of the same name in a subquery."""


def column_types(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    statement: Statement,
    *,
    label: str,
    limit: int | None = None,
) -> dict[str, str]:
    """Return int64, double, string, binary or null by column, from the values of all rows or the first `limit`."""
    nothing = f"SELECT * FROM ({sql}\n) WHERE 0"  # noqa: S608 - as above
    names = next(iter(typed_rows(connection, nothing, values, statement, label=label))).schema.names
    folded = {name.casefold(): name for name in reversed(names)}  # SQLite ignores case, too
    check_names([folded.get(_RENAMED.sub("", name).casefold(), name) for name in names], label=label)
    kinds = ", ".join(f"group_concat(DISTINCT typeof({quoted(name, 'sqlite')}))" for name in names)
    bound = "" if limit is None else f" LIMIT {limit}"
    over = f"SELECT {kinds} FROM (SELECT * FROM ({sql}\n){bound})"  # noqa: S608 - as above
    found = pa.Table.from_batches(typed_rows(connection, over, values, statement, label=label))
    seen = [set((column[0].as_py() or "").split(",")) - {"", "null"} for column in found.columns]
    return {name: _type_of(kinds) for name, kinds in zip(names, seen, strict=True)}


def _with_nulls(batch: pa.RecordBatch, types: Mapping[str, str], path: Path, label: str) -> pa.RecordBatch:
    """Return the batch with type null for columns with only nulls."""
    if "null" not in types.values():
        return batch
    columns = []
    for kind, column in zip(types.values(), batch.columns, strict=True):
        if kind == "null" and column.null_count < len(column):
            raise _changed(path, label, "a column of nulls has a value now")
        columns.append(pa.nulls(len(column)) if kind == "null" else column)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _type_of(kinds: set[str]) -> str:
    if not kinds:
        return "null"
    if kinds == {"integer"}:
        return "int64"
    if kinds and kinds <= {"integer", "real"}:
        return "double"
    return "binary" if kinds == {"blob"} else "string"


def typed_rows(
    connection: Connection, sql: str, values: Mapping[str, Value], statement: Statement, *, label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the result of a SELECT whose columns each have values of one type, an empty batch first.

    Raises as `rows`.
    """
    order: dict[str, int] = {}
    text, used = bind(sql, values, "sqlite", lambda name: f"?{order.setdefault(name, len(order) + 1)}", label=label)
    path = Path(connection.schema)
    if not path.is_file():
        raise InvalidSource(f"{label}: there is no SQLite database at {path}")
    try:
        session = statement.session
        fetched = {"adbc.sqlite.query.batch_rows": str(session.fetch_rows or _BATCH_ROWS)}
        with adbc.cursor(functools.partial(_connect, path), statement, fetched) as cursor:
            if session.lock_timeout is not None:
                cursor.execute(f"PRAGMA busy_timeout = {session.lock_timeout // timedelta(milliseconds=1)}")
                cursor.fetchall()
            cursor.execute(text, tuple(_bound(values[name]) for name in used) or None)
            yield from adbc.stream(cursor)
    except SitemapEtlError:
        raise
    except Exception as error:
        raise _translated(error, path, label, statement.session) from error


def _connect(path: Path) -> Any:
    import adbc_driver_sqlite.dbapi as driver

    return driver.connect(f"file:{quote(str(path))}?mode=ro", autocommit=True)


def _bound(value: Value) -> int | float | str | None:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M:%S")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def _translated(error: BaseException, path: Path, label: str, session: Session) -> SitemapEtlError:
    text = str(error).partition("\nquery: ")[0]
    message = text.rpartition("Failed to prepare query: ")[2].rpartition("Failed to step query: ")[2]
    if "failed to open" in text:
        # The driver's own words here are "failed to allocate memory", whatever the cause.
        return Denied(f"{label}: the SQLite database {path} can't be opened: may this user read it?")
    if "locked" in text or "busy" in text:
        hint = session.hint("lock_timeout")
        return Unavailable(f"{label}: the SQLite database {path} is locked by another program{hint}")
    if "Type mismatch" in text:
        return _changed(path, label, message)
    if "disk I/O" in text or "unable to open" in text:
        return Unavailable(f"{label}: the SQLite database {path} can't be read: {message}")
    return InvalidSource(f"{label}: {message}")


def _changed(path: Path, label: str, what: str) -> Unavailable:
    return Unavailable(f"{label}: the SQLite database {path} changed while it was read: {what}")
