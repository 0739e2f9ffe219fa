"""A batch under work: the rows still to be listed, and those set aside with their reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of, mask_of, plain, text_of
from sitemap_etl.errors import InvalidSource, columns_in_words, it_has
from sitemap_etl.frames import ASIDE, conform
from sitemap_etl.transform.rules import Rules

DELETED: Final = "deleted"
"""The reason of rows that the source's `deleted` column says are gone."""


class Batch:
    """The rows of a batch that are still to be listed, and those set aside so far."""

    def __init__(self, table: pa.Table, row: pa.Array, key: pa.Array | None, section: str) -> None:
        self.section = section
        self.table = table
        self.row = row
        self.key = key
        self.excluded: list[pa.Table] = []
        self.rejected: list[pa.Table] = []

    def drop(
        self, out: np.ndarray, reason: pa.Array | str, where: list[pa.Table], canonical: pa.Array | None = None
    ) -> np.ndarray | None:
        """Move the rows of the mask `out` to `where`. Return the mask of the rows that stay, or None for all."""
        if not out.any():
            return None
        mask = pa.array(out)
        count = int(out.sum())
        loc = self.table.column("loc").filter(mask)
        reasons = pa.array([reason] * count, pa.string()) if isinstance(reason, str) else reason.filter(mask)
        named = None if canonical is None else canonical.filter(mask)
        where.append(
            conform(
                pa.table(
                    {
                        "section": pa.repeat(pa.scalar(self.section), count),
                        "loc": _readable(loc),
                        "reason": reasons,
                        "row": self.row.filter(mask),
                        "canonical": pa.nulls(count, pa.string()) if named is None else named,
                        "key": pa.nulls(count, pa.string()) if self.key is None else self.key.filter(mask),
                    }
                ),
                ASIDE,
            )
        )
        stay: np.ndarray = ~out
        self.table = self.table.filter(pa.array(stay))
        self.row = self.row.filter(pa.array(stay))
        self.key = None if self.key is None else self.key.filter(pa.array(stay))
        return stay


def require(table: pa.Table, names: Sequence[str], rules: Rules, rule: str) -> None:
    """Raise `InvalidSource` if the source lacks a column that a rule names."""
    missing = next((name for name in names if name not in table.column_names), None)
    if missing is None:
        return
    renamed = {source: name for name, source in rules.settings.columns.items()}
    if missing in renamed:
        why = f"which `columns` renames: it is called {renamed[missing]!r} here"
    else:
        there = [renamed.get(name, name) for name in rules.available]
        if rules.hook is not None and missing in there:
            why = f"which `transform` dropped. It returned: {columns_in_words(table.column_names)}"
        else:
            why = f"which {rules.settings.place} does not have. {it_has(there or table.column_names, missing)}"
    raise InvalidSource(f"section {rules.section}: the rule `{rule}` uses column {missing!r}, {why}")


_NO: Final = r"^(false|f|[+-]?(0+\.?0*|\.0+)(e[+-]?[0-9]+)?)?$"
"""Text of a mark that is not set, in lower case."""


def says_deleted(table: pa.Table, name: str) -> np.ndarray:
    """Return a mask of the rows that the `deleted` column marks. Raise InvalidSource if the source lacks the column."""
    if name not in table.column_names:
        raise InvalidSource(f"deleted: the source has no column {name!r}. {it_has(table.column_names, name)}")
    return says_yes(column_of(table, name))


def says_yes(values: pa.Array) -> np.ndarray:
    """Return a mask of the set values: true, not 0, else neither null nor blank.

    The texts 0 and false are not set: SQLite returns a column as text if one of its values is text, and MySQL has no
    booleans.
    """
    values = text_of(plain(values))
    kind = values.type
    if pa.types.is_boolean(kind):
        return mask_of(values)
    if is_number(kind):
        numbers = values if pa.types.is_integer(kind) else values.cast(pa.float64())
        return mask_of(pc.and_(pc.not_equal(numbers, 0), pc.invert(pc.is_nan(numbers))))
    if pa.types.is_string(kind):
        words = pc.utf8_lower(pc.utf8_trim_whitespace(values))
        return mask_of(pc.invert(pc.match_substring_regex(pc.fill_null(words, ""), _NO)))
    return mask_of(pc.is_valid(values))


def is_number(kind: pa.DataType) -> bool:
    """Return True if values of this type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def as_text(column: pa.Array, name: str, section: str) -> pa.Array:
    """Return a column of a flat type as text. Raise `InvalidSource` for nested types, and bytes that are not UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise InvalidSource(
            f"section {section}: the column {name!r} has type {column.type} and can't be read as text: convert it in "
            "the SELECT, bytes to hexadecimal, say"
        ) from error


def _readable(loc: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a raw loc as text for a report, whatever bytes it holds."""
    try:
        return loc.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [
            value.decode("utf-8", "backslashreplace") if value is not None else None for value in loc.to_pylist()
        ]
        return pa.chunked_array([pa.array(decoded, pa.string())])
