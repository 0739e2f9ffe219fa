"""One SELECT over a database: planned as key ranges, read in batches.

A split is a range of the `split` column, never an OFFSET; the first has no lower and the last no upper
bound, and rows without a key are in the first, so that no row is left out, whatever was inserted since
the plan. Every split is a transaction of its own: rows that change their key meanwhile may be seen
twice or not at all (`sources.losses`), unless the transactions read one snapshot. Bound are the values
given and, in a split, `:split_from` and `:split_to`.

`label` names the source in messages: the connection and the file of the SELECT, never the URI.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.connections import Connection
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.sources.batches import fit, plain_schema
from sitemap_etl.sources.parameters import Value, names, one_statement
from sitemap_etl.sources.splits import Split

SPLIT_FROM, SPLIT_TO = "split_from", "split_to"
_WIDEST: Final[dict[str, tuple[Value, Value]]] = {
    "int": (-(2**63), 2**63 - 1),
    "date": (date(1000, 1, 1), date(9999, 12, 31)),
}
"""Bounds for a SELECT that names `:split_from` and `:split_to`, which always need a value."""
_TYPE_SAMPLE_ROWS: Final = 1_000


def plan_database(
    connection: Connection,
    query: str,
    *,
    params: Mapping[str, Value] | None = None,
    split: tuple[str, int] | None = None,
    label: str = "the database",
) -> list[Split]:
    """The splits of one SELECT: `split` is a column and a number of parts; one split without it.

    The column must hold whole numbers, dates or timestamps.
    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    values = dict(params or {})
    sql = one_statement(query, connection.dialect, label=label)
    bounded = {SPLIT_FROM, SPLIT_TO} <= names(sql, connection.dialect)
    detail: dict[str, Any] = {}
    if split is None or split[1] == 1:
        if bounded:
            raise ConfigError(
                f"{label} names :{SPLIT_FROM} and :{SPLIT_TO}: give the column and the parts under split:"
            )
        return [Split("database", label, detail | _sqlite_types(connection, sql, values, label))]
    column, parts = split
    if not 1 <= parts <= limits.SPLITS_PER_SECTION:
        raise ConfigError(f"{label}: split.parts is {parts}: expected 1 to {limits.SPLITS_PER_SECTION}")
    kind, low, high = _range_of(connection, sql, values, column, bounded=bounded, label=label)
    types = _sqlite_types(connection, sql, values | _widest(kind, bounded=bounded), label)
    cuts = _cuts(low, high, parts) if low is not None and high is not None else []
    splits = []
    edges: list[Value] = [None, *cuts, None]
    for first, last in itertools.pairwise(edges):
        key = {"column": column, "type": kind, "from": _packed(first), "to": _packed(last), "named": bounded}
        shown = f"{_packed(first) if first is not None else '…'} to {_packed(last) if last is not None else '…'}"
        splits.append(Split("database", f"{label}, {column} {shown}", {"key": key} | types))
    return splits


def read_database(
    split: Split,
    connection: Connection,
    query: str,
    params: Mapping[str, Value] | None = None,
    *,
    snapshot: str | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, in batches of the sizes given. `snapshot`: the name of one that is shared (PostgreSQL).

    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    values = dict(params or {})
    sql = one_statement(query, connection.dialect, label=split.label)
    key = split.detail.get("key")
    if key:
        first, last = (_unpacked(key[name], key["type"]) for name in ("from", "to"))
        if key["named"]:
            low, high = widest(key["type"])
            values |= {SPLIT_FROM: low if first is None else first, SPLIT_TO: high if last is None else last}
        else:
            values |= {SPLIT_FROM: first, SPLIT_TO: last}
            sql = _between(sql, quoted(key["column"], connection), first, last)
    types = split.detail.get("types")
    found = rows(connection, sql, values, label=split.label, types=types, snapshot=snapshot)
    yield from fit(found, label=split.label, batch_rows=batch_rows, batch_bytes=batch_bytes)


def probe_database(
    connection: Connection, query: str, params: Mapping[str, Value] | None = None, *, label: str = "the database"
) -> pa.Schema:
    """The columns of the SELECT, without reading its rows; SQLite's types are those of its first rows.

    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    values = dict(params or {})
    sql = one_statement(query, connection.dialect, label=label)
    if {SPLIT_FROM, SPLIT_TO} <= names(sql, connection.dialect):
        values |= dict.fromkeys((SPLIT_FROM, SPLIT_TO))
    types = None
    if connection.dialect == "sqlite":
        from sitemap_etl.sources import sqlite

        types = sqlite.column_types(connection, sql, values, label=label, limit=_TYPE_SAMPLE_ROWS)
    nothing = f"SELECT * FROM ({sql}\n) source WHERE 1 = 0"  # noqa: S608 - the site's own SELECT; values are bound
    found = next(iter(rows(connection, nothing, values, label=label, types=types)))
    return plain_schema(found.schema, label=label)


_CLOCKS: Final = {
    "sqlite": "SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AS now",
    "mysql": "SELECT utc_timestamp(6) AS now",
}


def clock(connection: Connection, *, label: str = "the database") -> datetime:
    """The time by the database's own clock, with a zone: what its rows are stamped with.

    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    sql = _CLOCKS.get(connection.dialect, "SELECT current_timestamp AS now")
    (row,) = pa.Table.from_batches(rows(connection, sql, {}, label=label)).to_pylist()
    found = datetime.fromisoformat(row["now"]) if isinstance(row["now"], str) else row["now"]
    if not isinstance(found, datetime):
        raise InvalidSource(f"{label}: the database's clock says {found!r}, a time was expected")
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def rows(
    connection: Connection,
    sql: str,
    values: Mapping[str, Value],
    *,
    label: str,
    types: Mapping[str, str] | None = None,
    snapshot: str | None = None,
) -> Iterator[pa.RecordBatch]:
    """The result through the driver of the URI's database, an empty batch first."""
    kind = connection.dialect
    if kind == "postgresql":
        from sitemap_etl.sources import postgres

        return postgres.rows(connection, sql, values, label=label, snapshot=snapshot)
    if kind == "sqlite":
        from sitemap_etl.sources import sqlite

        return sqlite.rows(connection, sql, values, label=label, types=types)
    from sitemap_etl.sources import alchemy

    return alchemy.rows(connection, sql, values, label=label)


def _sqlite_types(connection: Connection, sql: str, values: Mapping[str, Value], label: str) -> dict[str, Any]:
    """SQLite's column types over all rows, found once for all splits."""
    if connection.dialect != "sqlite":
        return {}
    from sitemap_etl.sources import sqlite

    return {"types": sqlite.column_types(connection, sql, values, label=label)}


def _range_of(
    connection: Connection, sql: str, values: Mapping[str, Value], column: str, *, bounded: bool, label: str
) -> tuple[str, Value, Value]:
    """The kind of the key, its smallest and its largest value; these are None where there are no rows."""
    name = quoted(column, connection)
    wrapped = f"SELECT min({name}) AS low, max({name}) AS high FROM ({sql}\n) source"  # noqa: S608 - as above
    trials = tuple(_WIDEST) if bounded else ("int",)
    empty: tuple[str, Value, Value] | None = None
    problem: InvalidSource | None = None
    for trial in trials:
        # Which bounds the key can be compared with is known only by trying.
        extra = dict(zip((SPLIT_FROM, SPLIT_TO), _WIDEST[trial], strict=True)) if bounded else {}
        try:
            found = pa.Table.from_batches(rows(connection, wrapped, {**values, **extra}, label=label)).to_pylist()[0]
        except InvalidSource as error:
            problem = problem or error
            continue
        if found["low"] is not None:
            kind, low = _key(found["low"], column, label)
            return kind, low, _key(found["high"], column, label)[1]
        empty = empty or (trial, None, None)
    if empty is not None:
        return empty
    hint = f"split: needs the column {column!r} in the result of the SELECT"
    raise InvalidSource(f"{problem}\n  {hint}") from problem


def _key(value: Any, column: str, label: str) -> tuple[str, Value]:
    if isinstance(value, int) and not isinstance(value, bool):
        return "int", value
    if isinstance(value, Decimal | float) and value % 1 == 0:
        return "int", int(value)
    if isinstance(value, datetime):
        return ("timestamptz" if value.tzinfo else "timestamp"), value
    if isinstance(value, date):
        return "date", value
    if isinstance(value, str):
        # SQLite keeps dates as text; their order is that of the text.
        try:
            return "date", date.fromisoformat(value[:10])
        except ValueError:
            pass
    raise InvalidSource(
        f"{label}: split.column {column!r} holds {value!r}: whole numbers, dates or timestamps are expected"
    )


def _cuts(low: Any, high: Any, parts: int) -> list[Value]:
    """Where parts of equal width begin, the first one's beginning left out."""
    if isinstance(low, int):
        return sorted({low + (high - low + 1) * part // parts for part in range(1, parts)} - {low})
    step = timedelta(days=1) if not isinstance(low, datetime) else timedelta(microseconds=1)
    width = (high - low) // step + 1
    return sorted({low + step * (width * part // parts) for part in range(1, parts)} - {low})


def _between(sql: str, name: str, first: Value, last: Value) -> str:
    lower, upper = f"{name} >= :{SPLIT_FROM}", f"{name} < :{SPLIT_TO}"
    if first is None and last is None:
        return sql
    condition = f"{lower} AND {upper}" if first is not None and last is not None else lower if last is None else upper
    condition += f" OR {name} IS NULL" if first is None else ""
    return f"SELECT * FROM ({sql}\n) source WHERE {condition}"  # noqa: S608 - as above


def _widest(kind: str, *, bounded: bool) -> dict[str, Value]:
    return dict(zip((SPLIT_FROM, SPLIT_TO), widest(kind), strict=True)) if bounded else {}


def widest(kind: str) -> tuple[Value, Value]:
    """The lowest and the highest bound of a key of this kind, for a SELECT that names the bounds."""
    return _WIDEST["int" if kind == "int" else "date"]


def quoted(name: str, connection: Connection) -> str:
    """The name of a column or table as the database reads it, whatever is in it."""
    mark = "`" if connection.dialect == "mysql" else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _packed(value: Value) -> int | str | None:
    return value.isoformat() if isinstance(value, date) else value if isinstance(value, int) else None


def _unpacked(value: Any, kind: str) -> Value:
    if value is None or kind == "int":
        return value  # type: ignore[no-any-return] # JSON holds an int or null here
    return date.fromisoformat(value) if kind == "date" else datetime.fromisoformat(value)
