"""A batch under work: the rows still to be listed, and those set aside with their reasons."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sitemap_etl.errors import InvalidSource
from sitemap_etl.frames import ASIDE, conform
from sitemap_etl.transform.rules import Rules


class Batch:
    """The rows of a batch that are still to be listed, and those set aside so far."""

    def __init__(self, table: pa.Table, first_row: int, section: str) -> None:
        self.section = section
        self.table = table
        self.row = pa.array(np.arange(first_row, first_row + table.num_rows))
        self.excluded: list[pa.Table] = []
        self.rejected: list[pa.Table] = []

    def set_aside(
        self, out: np.ndarray, reason: pa.Array | str, where: list[pa.Table], canonical: pa.Array | None = None
    ) -> np.ndarray | None:
        """Take the rows of the mask `out` away, to `where`; gives the mask of those that stay, or None for all."""
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
                    }
                ),
                ASIDE,
            )
        )
        stay: np.ndarray = ~out
        self.table = self.table.filter(pa.array(stay))
        self.row = self.row.filter(pa.array(stay))
        return stay


def require(table: pa.Table, names: Sequence[str], rules: Rules, rule: str) -> None:
    """Raises InvalidSource where the source lacks a column that a rule names."""
    missing = [name for name in names if name not in table.column_names]
    if missing:
        raise InvalidSource(
            f"section {rules.section}: the rule `{rule}` names column {missing[0]!r}, which the source does not yield. "
            f"It has: {listed(rules.available or table.column_names)}"
        )


def _readable(loc: pa.ChunkedArray) -> pa.ChunkedArray:
    """A raw loc as text for a report, whatever bytes it holds."""
    try:
        return loc.cast(pa.string())
    except pa.ArrowInvalid:
        decoded = [
            value.decode("utf-8", "backslashreplace") if value is not None else None for value in loc.to_pylist()
        ]
        return pa.chunked_array([pa.array(decoded, pa.string())])


def listed(names: Sequence[str]) -> str:
    """Column names for a message."""
    return ", ".join(names) if names else "no columns"
