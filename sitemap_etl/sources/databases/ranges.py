"""Find the bounds of a SELECT's splits: ranges of a column with about the same number of rows.

The database itself orders a random sample of the column, and the bounds are values of the sample. So they are correct
for skewed numbers, for text of any collation, and for UUIDs. A sample of one row in 64 costs one pass over the SELECT,
or over the table that the user names instead. If there are few rows, all are used. If a database's random function is
unknown, the ranges have equal widths from the smallest to the largest value.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl import limits
from sitemap_etl.connections import Connection
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.sources.databases.database import rows, sqlite_types
from sitemap_etl.sources.databases.keys import SPLIT_FROM, SPLIT_TO, WIDEST, Key, Kind, Range, family, widest
from sitemap_etl.sources.databases.session import Session, attended
from sitemap_etl.sources.parameters import Value, names, one_statement, quoted
from sitemap_etl.sources.splits import Split

_ONE_IN: Final = 64
_KEPT: Final = 20_000
"""Minimum values of a sample that are kept. At twice as many, every second one is dropped."""
_ENOUGH: Final = 100
"""Values of a sample per part. With fewer, parts would differ by more than a third, so all values are used."""
_ENOUGH_IN_BLOCKS: Final = 100 * _ENOUGH
"""The same for whole blocks, which have some hundred rows that are often adjacent."""
_NAME: Final = "sitemap_etl_key"
"""Name of the column in a sample.

With a name from the SELECT, ORDER BY would refer to the displayed column.
"""
_CHANCE: Final = {
    "postgresql": f"random() < {1 / _ONE_IN}",
    "mysql": f"rand() < {1 / _ONE_IN}",
    "sqlite": f"random() % {_ONE_IN} = 0",
    "duckdb": f"random() < {1 / _ONE_IN}",
}
_TRIALS: Final[dict[str, tuple[Kind, ...]]] = {"postgresql": ("int", "date", "uuid"), "sqlite": ("int", "text")}
_USUAL_TRIALS: Final[tuple[Kind, ...]] = ("int", "date")
"""Kinds with bounds beyond every value. In SQLite, text has such bounds, because it is ordered by bytes."""
_COMPARED_AS_ORDERED: Final = ("text", "character varying", "uuid")
"""PostgreSQL's text types whose comparison with a bound matches their order."""
_KINDS: Final = "numbers, dates, timestamps, text or UUIDs"
_NUMBERS: Final = "of this database, numbers, dates and timestamps"


def plan_database(
    connection: Connection,
    query: str,
    *,
    params: Mapping[str, Value] | None = None,
    split: tuple[str, int] | None = None,
    bounds_from: str | None = None,
    session: Session | None = None,
    label: str = "the database",
) -> list[Split]:
    """Return the splits of one SELECT. `split`: a column and a number of parts; one split without it.

    `bounds_from`: a table (also `schema.table`) with that column, which is examined instead of the SELECT's result.
    Raise ConfigError, InvalidSource, Refused, Unavailable.
    """
    session = session or Session()
    values = dict(params or {})
    sql = one_statement(query, connection.dialect, label=label)
    named = {SPLIT_FROM, SPLIT_TO} <= names(sql, connection.dialect)
    if split is None or split[1] == 1:
        if named:
            raise ConfigError(
                f"{label} names :{SPLIT_FROM} and :{SPLIT_TO}: give the column and the parts under split:"
            )
        return [Split("database", label, sqlite_types(connection, sql, values, session, label))]
    column, parts = split
    if not 1 <= parts <= limits.SPLITS_PER_SECTION:
        raise ConfigError(f"{label}: split.parts is {parts}: expected 1 to {limits.SPLITS_PER_SECTION}")
    look = _Look(connection, session, column, parts, label)
    if bounds_from is not None:
        key, cuts = look.at_table(bounds_from, named=named)
    elif named:
        key, cuts = look.at_bounded(sql, values)
    else:
        key, cuts = look.at(f"({sql}\n) source", values)
    edges = [None, *cuts, None]
    ranges = [Range(key, first, last) for first, last in itertools.pairwise(edges)]
    if named:
        values |= dict(zip((SPLIT_FROM, SPLIT_TO), widest(key.kind), strict=True))
    types = sqlite_types(connection, sql, values, session, label)
    return [Split("database", f"{label}, {one}", {"key": one.pack()} | types) for one in ranges]


class _Look:
    """Finder of a column's kind and of the bounds of its parts, from the column's values."""

    def __init__(self, connection: Connection, session: Session, column: str, parts: int, label: str) -> None:
        self.connection = connection
        self.session = session
        self.column = column
        self.parts = parts
        self.label = label

    def at_table(self, table: str, *, named: bool) -> tuple[Key, list[Value]]:
        """Return bounds from a sample of a table, as `at`. PostgreSQL reads one in 64 of its blocks."""
        name = ".".join(quoted(part, self.connection.dialect) for part in table.split("."))
        try:
            key, cuts = self.at(name, {}, sampled=f"{name} TABLESAMPLE SYSTEM ({100 / _ONE_IN})")
        except InvalidSource as error:
            raise InvalidSource(
                f"{error}\n  split.bounds_from: needs a table with the column {self.column!r}, both spelt as in the "
                "database"
            ) from error
        if named and family(key.kind) not in self._trials:
            raise self._no_bounds()
        return replace(key, named=named), cuts

    def at_bounded(self, sql: str, values: Mapping[str, Value]) -> tuple[Key, list[Value]]:
        """Return bounds for a SELECT that names them. Only a trial shows what its key can be compared with."""
        empty: Key | None = None
        problem: InvalidSource | None = None
        for trial in self._trials:
            bounds = dict(zip((SPLIT_FROM, SPLIT_TO), WIDEST[trial], strict=True))
            try:
                key, cuts = self.at(f"({sql}\n) source", {**values, **bounds}, expected=trial)
            except InvalidSource as error:
                problem = problem or error
                continue
            if family(key.kind) not in self._trials:
                raise self._no_bounds()
            if family(key.kind) != trial:
                continue  # MySQL compares whatever it is given
            if cuts:
                return replace(key, named=True), cuts
            empty = empty or replace(key, named=True)
        if empty is None:
            raise problem or self._no_bounds()
        return empty, []

    def at(
        self, relation: str, values: Mapping[str, Value], *, sampled: str | None = None, expected: Kind = "int"
    ) -> tuple[Key, list[Value]]:
        """Return the key, and the beginnings of all parts but the first, or none if there are no rows.

        `relation`: the text after FROM. `sampled`: the same for a part of its rows, if the database can do that.
        `expected`: the kind of a key that has no values and no type.
        """
        if self.connection.dialect == "sqlite":
            key, ordered = self._sqlite_sample(relation, values, expected)
        else:
            key = self._key(relation, values)
            if self.connection.dialect not in _CHANCE:
                return key, self._equal_widths(key, relation, values)
            ordered = self._sample(key, relation, values, sampled)
        return key, self._quantiles(ordered)

    @property
    def _trials(self) -> tuple[Kind, ...]:
        return _TRIALS.get(self.connection.dialect, _USUAL_TRIALS)

    def _key(self, relation: str, values: Mapping[str, Value]) -> Key:
        """Return the key by the type of the column, for which no row is read; by its least value where types are of
        values.
        """
        name = quoted(self.column, self.connection.dialect)
        typed = self.connection.dialect in _CHANCE
        looked = f"{name} AS k FROM {relation} WHERE 1 = 0" if typed else f"min({name}) AS k FROM {relation}"
        with self._hinting():
            batches = list(self._rows(f"SELECT {looked}", values))
        if not typed and not any(batch.column("k").drop_null() for batch in batches):
            return Key(self.column, "int")  # no rows
        kind = self._kind(batches[0].schema.field("k").type)
        if kind == "text" and self.connection.dialect == "postgresql":
            # Without a row, the type of an expression is all that is looked at.
            asked = f"SELECT pg_typeof((SELECT {name} FROM {relation} LIMIT 0))::text AS k"  # noqa: S608 - as above
            found = pa.Table.from_batches(self._rows(asked, values))["k"][0].as_py()
            # A citext, an enum or a char(n) is ordered in another way than the text it is compared with.
            return Key(self.column, "uuid" if found == "uuid" else "text", as_text=found not in _COMPARED_AS_ORDERED)
        return Key(self.column, kind)

    def _kind(self, kind: pa.DataType) -> Kind:
        if pt.is_integer(kind) or pt.is_decimal(kind) or pt.is_floating(kind):
            return "int"
        if pt.is_timestamp(kind):
            return "timestamp" if kind.tz is None else "timestamptz"
        if pt.is_date(kind):
            return "date"
        if isinstance(kind, pa.UuidType) or pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind):
            return "text"
        if pt.is_binary(kind) or pt.is_large_binary(kind):
            return "bytes"
        raise self._wrong(f"is {kind}")

    def _sample(self, key: Key, relation: str, values: Mapping[str, Value], sampled: str | None) -> pa.Array:
        """Return values of the key in the database's order: from one row in 64, or from all rows if those are few."""
        name, chance = key.of(self.connection), _CHANCE[self.connection.dialect]
        shown = f"CAST({name} AS text)" if key.kind == "uuid" else name
        attempts = [(relation, chance), (relation, "1 = 1")]
        if sampled is not None and self.connection.dialect == "postgresql":
            attempts.insert(0, (sampled, "1 = 1"))
        for source, condition in attempts:
            asked = f"SELECT {shown} AS {_NAME} FROM {source} WHERE {name} IS NOT NULL AND {condition} ORDER BY {name}"  # noqa: S608 - as above
            try:
                found = _Sample(batch.column(_NAME) for batch in self._rows(asked, values))
            except InvalidSource:
                if source is not sampled:
                    raise
                continue  # a view has no blocks
            if found.count >= (_ENOUGH_IN_BLOCKS if source is sampled else _ENOUGH) * self.parts:
                break
        return found.values

    def _sqlite_sample(self, relation: str, values: Mapping[str, Value], expected: Kind) -> tuple[Key, pa.Array]:
        """Return bounds as `_sample` does, with the kind of the values, because a column of SQLite has none."""
        from sitemap_etl.sources.databases import sqlite

        name = quoted(self.column, "sqlite")
        shown = f"CASE typeof({name}) WHEN 'blob' THEN hex({name}) ELSE CAST({name} AS TEXT) END AS {_NAME}"
        for condition in (_CHANCE["sqlite"], "1 = 1"):
            asked = (
                f"SELECT typeof({name}) AS kind, {shown} FROM {relation} "  # noqa: S608 - as above
                f"WHERE {name} IS NOT NULL AND {condition} ORDER BY {name}"
            )
            read = functools.partial(sqlite.typed_rows, self.connection, asked, values, label=self.label)
            with self._hinting():
                found = pa.Table.from_batches(attended(read, self.session, label=self.label))
            if len(found) >= _ENOUGH * self.parts:
                break
        kinds = set(found["kind"].unique().to_pylist())
        numbers = kinds <= {"integer", "real"}
        if len(kinds) > 1 and not numbers:
            raise self._wrong(f"holds values of several types ({', '.join(sorted(kinds))})")
        sample = _Sample(found[_NAME].chunks).values
        if kinds and not numbers:
            return Key(self.column, "text" if kinds == {"text"} else "bytes"), sample
        return Key(self.column, "int" if kinds else expected), sample.cast(pa.float64())

    def _quantiles(self, ordered: pa.Array) -> list[Value]:
        """Return the starts of parts with about the same number of values, at the nearest change of value."""
        count = len(ordered)
        if not count:
            return []
        changes = np.flatnonzero(pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False))
        begins = np.concatenate([[0], changes + 1])
        aims = np.arange(1, self.parts) * count / self.parts
        nearest = begins[np.abs(begins - aims[:, None]).argmin(axis=1)] if len(aims) else begins[:0]
        first, *others = (_cut(value) for value in ordered.take(pa.array([0, *nearest])).to_pylist())
        return list(dict.fromkeys(cut for cut in others if cut != first))

    def _equal_widths(self, key: Key, relation: str, values: Mapping[str, Value]) -> list[Value]:
        """Return the beginnings of parts of equal width."""
        if key.kind in ("text", "bytes"):
            raise self._wrong("holds text", _NUMBERS)
        name = key.of(self.connection)
        asked = f"SELECT min({name}) AS low, max({name}) AS high FROM {relation}"  # noqa: S608 - as above
        (row,) = pa.Table.from_batches(self._rows(asked, values)).to_pylist()
        if row["low"] is None:
            return []
        low, high = _cut(row["low"]), _cut(row["high"])
        step: Any = 1
        if isinstance(low, date):
            step = timedelta(microseconds=1) if isinstance(low, datetime) else timedelta(days=1)
        count = (high - low) // step + 1  # type: ignore[operator] # both are of one kind
        cuts = [low + step * (count * part // self.parts) for part in range(1, self.parts)]
        return list(dict.fromkeys(cut for cut in cuts if cut != low))

    def _rows(self, sql: str, values: Mapping[str, Value]) -> Iterator[pa.RecordBatch]:
        return rows(self.connection, sql, values, self.session, label=self.label)

    @contextmanager
    def _hinting(self) -> Iterator[None]:
        """Add a hint about `split:` to a database error that names the column."""
        try:
            yield
        except InvalidSource as error:
            if self.column not in str(error).partition("\n")[0]:  # further lines show the statement
                raise
            hint = f"split: needs the column {self.column!r} in the result of the SELECT"
            raise InvalidSource(f"{error}\n  {hint}") from error

    def _wrong(self, found: str, expected: str = _KINDS) -> InvalidSource:
        return InvalidSource(f"{self.label}: split.column {self.column!r} {found}: {expected} are expected")

    def _no_bounds(self) -> InvalidSource:
        return InvalidSource(
            f"{self.label}: split.column {self.column!r} is of a type without a first and a last value, so the SELECT "
            f"can't compare it with :{SPLIT_FROM} and :{SPLIT_TO} itself. Leave the comparison out: the SELECT is then "
            "wrapped in one that compares"
        )


def _cut(value: Any) -> Value:
    """Return a value as a bound. Numbers are rounded down, which is as good a bound."""
    if isinstance(value, float | Decimal):
        return math.floor(value)
    return value.hex() if isinstance(value, bytes) else value


class _Sample:
    """Evenly spaced values of a large number of values. Values that can't be bounds are dropped.

    `count`: number of values seen. `values`: the kept values, in order.
    """

    def __init__(self, arrays: Iterable[pa.Array]) -> None:
        self.count = 0
        kept: list[pa.Array] = []
        step = 1
        for array in arrays:
            self.count += len(array)
            usable = array.filter(pc.is_finite(array)) if _is_number(array.type) else array.drop_null()
            kept.append(usable[::step])
            while sum(map(len, kept)) >= 2 * _KEPT:
                kept, step = [pa.concat_arrays(kept)[::2]], step * 2
        self.values = pa.concat_arrays(kept) if kept else pa.array([], pa.int64())


def _is_number(kind: pa.DataType) -> bool:
    return bool(pt.is_integer(kind) or pt.is_decimal(kind) or pt.is_floating(kind))
