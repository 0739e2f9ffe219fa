"""Tables of the rows between stages, and the conversion of tables to them. `columns` describes the columns of a page.

Rows are Arrow tables. For user code (hooks, tests) they are *frames*: pandas DataFrames whose columns are
`pd.ArrowDtype`, so that pandas and pyarrow share the same bytes.

| rows | from → to | columns |
|---|---|---|
| raw | extract → transform | the source's own, renamed by `columns:` |
| inventory | transform → render | `INVENTORY`: canonical, validated, one row per source row |
| snapshot | render → the next run | `SNAPSHOT`: the rows as published, one per loc, sorted by loc |
| changes | render → ping | `CHANGES` |
| excluded, rejected, duplicate | transform, render → report | `ASIDE`: rows that are not listed, with their reason |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import nulls
from sitemap_etl.columns import COLUMNS, Role
from sitemap_etl.frozen import Frozen
from sitemap_etl.visible import visible

if TYPE_CHECKING:
    import pandas as pd


def _schema(*without: Role) -> pa.Schema:
    return pa.schema([(column.name, column.type) for column in COLUMNS if column.role not in without])


INVENTORY: Final = _schema(Role.DATE, Role.HISTORY)
SNAPSHOT: Final = _schema(Role.PASSING, Role.ORIGIN)
CHANGES: Final = pa.schema(
    [
        ("loc", pa.string()),
        ("kind", pa.string()),  # added, changed, removed
        ("lastmod", pa.string()),
        ("section", pa.string()),
    ]
)

ASIDE: Final = pa.schema(
    [
        ("section", pa.string()),
        ("loc", pa.string()),  # as it was in the source
        ("reason", pa.string()),
        ("row", pa.int64()),  # or AS_PUBLISHED
        ("canonical", pa.string()),  # where it got that far
        ("key", pa.string()),  # what the row is, in a section that keeps a mirror
    ]
)

ROW_BITS: Final = 40
"""Bits of the position in the split. The split's number is above them."""
AS_PUBLISHED: Final = -1
"""`row` of published rows that were not read again."""


def conform(table: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Return the table with the columns of `schema`, in its order and types. Missing columns are null.

    Other columns are dropped. Raises `pa.ArrowInvalid` if a cast loses data, or if a name of `schema` is ambiguous.
    """
    columns = []
    for entry in schema:
        at = table.schema.get_all_field_indices(entry.name)
        if not at:
            columns.append(nulls(table.num_rows, entry.type))
        elif len(at) > 1:
            raise pa.ArrowInvalid(f"column {entry.name!r} stands there {len(at)} times")
        else:
            column = table.column(at[0])
            columns.append(column if column.type == entry.type else column.cast(entry.type))
    return pa.table(columns, schema=schema)


def with_column(table: pa.Table, name: str, column: pa.Array | pa.ChunkedArray) -> pa.Table:
    """Return the table with a column added, or replaced if the name exists."""
    at = table.schema.get_field_index(name)
    return table.append_column(name, column) if at < 0 else table.set_column(at, table.schema.field(at), column)


def filled(table: pa.Table) -> list[str]:
    """Return the columns with any non-null value. Most columns of a snapshot have none and need not be moved."""
    return [name for name in table.column_names if table.column(name).null_count < table.num_rows]


def without_fingerprints(rows: pa.Table) -> pa.Table:
    """Return the rows without what tells whether they have changed: another definition made their fingerprints."""
    return with_column(rows, "fingerprint", nulls(rows.num_rows, pa.uint64()))


def to_frame(table: pa.Table) -> pd.DataFrame:
    """Return the same memory as a pandas DataFrame with Arrow-backed columns."""
    import pandas as pd  # a DAG file is parsed without it

    frame: pd.DataFrame = table.to_pandas(types_mapper=pd.ArrowDtype)
    return frame


def to_table(frame: pd.DataFrame) -> pa.Table:
    """Return the frame's memory as a table. The index is dropped; columns that are not Arrow-backed are converted."""
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


EXAMPLES: Final = 3
"""Examples per reason."""


_NAMED_FIRST: Final = frozenset({"lastmod", "priority", "changefreq", "signal"})
"""Columns whose reasons begin with their names."""


_LISTED_SO: Final = {
    "loc": ("address", "addresses"),
    "title": ("title", "titles"),
    "image": ("image", "images"),
    "video": ("video", "videos"),
    "alternate": ("alternate", "alternates"),
}
"""First words of reasons whose values are published as they are: such reasons have no colon."""


class Reason(Frozen):
    """Reason why rows were altered or not listed, with their number and some examples."""

    text: str
    count: int
    examples: tuple[str, ...]
    advice: str = ""
    """Advice that depends on more than the reason."""

    def as_dropped(self) -> str:
        """Return a sentence about dropped values, such as: 2,000 lastmod values dropped: not a date."""
        column, _, why = self.text.partition(" ")
        if column in _LISTED_SO and ":" not in self.text:
            return f"{self.count:,} {_LISTED_SO[column][self.count != 1]} {why}"
        what, why = (f"{column} ", why) if column in _NAMED_FIRST else ("", self.text)
        return f"{self.count:,} {what}value{'' if self.count == 1 else 's'} dropped: {why}"


@dataclass
class Tally:
    """Number of rows by reason, with some examples. Stages exchange their counts in this form.

    It is not a dataclass, because the JSON of a record has it as `to_json` returns it.
    """

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, list[str]] = field(default_factory=dict)
    advice: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, count: int = 1, examples: Iterable[Any] = (), advice: str = "") -> None:
        """Add `count` to a reason. Only the first examples and the first advice are kept.

        Reasons and examples can contain text of a source. Their invisible characters are written as code points, so
        that they have no effect in any output.
        """
        if count <= 0:
            return
        reason = visible(reason)
        if advice:
            self.advice.setdefault(reason, advice)
        self.counts[reason] = self.counts.get(reason, 0) + count
        kept = self.examples.setdefault(reason, [])
        for example in examples:
            if len(kept) >= EXAMPLES:
                break
            kept.append(visible(str(example)[:300]))

    def add_rows(
        self, reason: str, mask: np.ndarray, values: Callable[[int], Any], loc: pa.Array | None, advice: str = ""
    ) -> None:
        """Count the rows of a mask. Examples are the page (`loc`, if known) and the row's value."""
        at = np.flatnonzero(mask)
        pages = [None] * EXAMPLES if loc is None else loc.take(pa.array(at[:EXAMPLES])).to_pylist()
        shown = [(page, values(int(row))) for page, row in zip(pages, at[:EXAMPLES], strict=False)]
        self.add(reason, len(at), [value if page is None else f"{page}: {value}" for page, value in shown], advice)

    def merge(self, other: Tally) -> None:
        """Add the counts of another tally."""
        for reason, count in other.counts.items():
            self.add(reason, count, other.examples.get(reason, ()), other.advice.get(reason, ""))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def ordered(self) -> list[Reason]:
        """Return the reasons, most frequent first."""
        reasons = sorted(self.counts, key=lambda reason: (-self.counts[reason], reason))
        return [
            Reason(reason, self.counts[reason], tuple(self.examples.get(reason, ())), self.advice.get(reason, ""))
            for reason in reasons
        ]

    def to_json(self) -> dict[str, Any]:
        """Return `{reason: {"count": n, "examples": [...]}}`, most frequent first. `advice` only if there is some."""
        return {
            one.text: {
                "count": one.count,
                "examples": list(one.examples),
                **({"advice": one.advice} if one.advice else {}),
            }
            for one in self.ordered()
        }

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Tally:
        return cls(
            {reason: one["count"] for reason, one in data.items()},
            {reason: list(one["examples"]) for reason, one in data.items()},
            {reason: one["advice"] for reason, one in data.items() if "advice" in one},
        )
