"""The column that divides a SELECT into splits, and its ranges.

A range includes its lower bound and excludes its upper bound. The first range has no lower bound, the last one no upper
bound, and rows without a key are in the first. So no row is lost, even if rows were inserted after the plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Final

from sitemap_etl.connections import Connection
from sitemap_etl.dialects import KeyKind
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.parameters import Value

SPLIT_FROM, SPLIT_TO = "split_from", "split_to"
WIDEST: Final[dict[KeyKind, tuple[Value, Value]]] = {
    "int": (-(2**63), 2**63 - 1),
    "date": (date(1000, 1, 1), date(9999, 12, 31)),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "text": ("", "\U0010ffff"),
}
"""Bounds for a SELECT that names `:split_from` and `:split_to`, which always need a value.

The bounds of text are the widest if text is ordered by its bytes.
"""


class Key(Frozen):
    """A column to split by. `named`: the SELECT compares it itself. `as_text`: it is compared as text."""

    column: str
    kind: KeyKind
    named: bool = False
    as_text: bool = False

    def of(self, connection: Connection) -> str:
        """Return the SQL expression that is compared and ordered."""
        name = connection.dialect.quoted(self.column)
        return f"CAST({name} AS text)" if self.as_text else name

    def bound(self, name: str, connection: Connection) -> str:
        """Return the SQL of the parameter of this name, to compare with the key."""
        if self.kind == "uuid":
            return f"CAST(:{name} AS uuid)"
        if self.kind == "bytes":
            return connection.dialect.from_hex.format(f":{name}")
        return f":{name}"


class Range(Frozen):
    """A range of a key; an end that is None is open. UUIDs are text here, and bytes hexadecimal."""

    key: Key
    first: Value
    last: Value

    def pack(self) -> dict[str, Any]:
        """Return the range as JSON."""
        key = {"column": self.key.column, "type": self.key.kind, "named": self.key.named, "as_text": self.key.as_text}
        return {**key, "from": _packed(self.first), "to": _packed(self.last)}

    @classmethod
    def unpack(cls, packed: Mapping[str, Any]) -> Range:
        """Return the range that `pack` packed, in this or an earlier version."""
        key = Key(packed["column"], packed["type"], packed["named"], packed.get("as_text", False))
        return cls(key, *(_unpacked(packed[end], key.kind) for end in ("from", "to")))

    def __str__(self) -> str:
        ends = ("…" if end is None else " ".join(str(_packed(end)).split())[:40] for end in (self.first, self.last))
        return f"{self.key.column} {' to '.join(ends)}"

    @property
    def values(self) -> dict[str, Value]:
        """Values to bind in a SELECT for this range."""
        low, high = widest(self.key.kind) if self.key.named else (None, None)
        first, last = low if self.first is None else self.first, high if self.last is None else self.last
        return {SPLIT_FROM: first, SPLIT_TO: last}

    def confine(self, sql: str, connection: Connection) -> str:
        """Return the SELECT for this range's rows."""
        if self.key.named or (self.first is None and self.last is None):
            return sql
        name = self.key.of(connection)
        conditions = []
        if self.first is not None:
            conditions.append(f"{name} >= {self.key.bound(SPLIT_FROM, connection)}")
        if self.last is not None:
            conditions.append(f"{name} < {self.key.bound(SPLIT_TO, connection)}")
        condition = " AND ".join(conditions) + (f" OR {name} IS NULL" if self.first is None else "")
        return f"SELECT * FROM ({sql}\n) source WHERE {condition}"  # noqa: S608 - the site's own SELECT; values are bound


def family(kind: KeyKind) -> KeyKind:
    """Return the kind whose bounds apply to a key of this kind."""
    return "date" if kind in ("timestamp", "timestamptz") else kind


def widest(kind: KeyKind) -> tuple[Value, Value]:
    """Return the lowest and highest bounds of a key of this kind, for a SELECT that names the bounds."""
    return WIDEST[family(kind)]


def _packed(value: Value) -> int | str | None:
    return value.isoformat() if isinstance(value, date) else value if isinstance(value, int | str) else None


def _unpacked(value: Any, kind: KeyKind) -> Value:
    if value is None or kind not in ("date", "timestamp", "timestamptz"):
        return value  # type: ignore[no-any-return] # JSON holds an int, text or null here
    return date.fromisoformat(value) if kind == "date" else datetime.fromisoformat(value)
