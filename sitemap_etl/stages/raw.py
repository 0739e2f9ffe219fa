"""Raw rows: where a split is read with the same as before, the same rules make the same of it, and need not be applied.

That holds for a split of which the rules listed every row and of which they told nothing. Sums of the hashes of its
rows, as they were read, tell it from any other; they cost a third of what the rules cost.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import column_of, gathered, is_list
from sitemap_etl.frames import Tally
from sitemap_etl.hashes import added, hash_rows, sums_of
from sitemap_etl.limits import GATHERED_BYTES, GATHERED_ROWS
from sitemap_etl.sources import LINES
from sitemap_etl.stages.extract import read_raw
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import MadeFrom, RawSums, SplitSums, Transformed
from sitemap_etl.transform import Outcome

_FIRST_ROWS: Final = 65_536
"""Rows at the beginning of a split that tell whether it is worth reading on."""
_BATCH_ROWS: Final = 2 * _FIRST_ROWS
"""Rows of a batch that is read to be added up: it stays in cache."""
KINDS: Final = ("excluded", "rejected", "duplicates", "notes")
"""Of what a receipt has reasons."""


class RawRows:
    """The sums of a split's raw rows, as batch comes after batch. `whole`: they are asked for."""

    def __init__(self, *, whole: bool = True) -> None:
        self.form: str | None = None
        self.first: tuple[int, int] | None = None
        self.all = (0, 0)
        self.rows = 0
        self.whole = whole
        """Whether the rules listed every row so far, and told nothing."""

    def add(self, raw: pa.Table, known: Mapping[str, np.ndarray] | None = None) -> None:
        """Take in a batch. `known`: hashes of some columns."""
        form = _form(raw.schema)
        if form is None or (self.form is not None and self.form != form):
            self.whole = False
            return
        self.form = form
        hashes = hash_rows(raw, known or {})
        if self.first is None:
            self.first = sums_of(hashes[:_FIRST_ROWS])
        self.all = added(self.all, sums_of(hashes))
        self.rows += raw.num_rows

    def add_ruled(self, raw: pa.Table, loc: str, ruled: Outcome, hashes: np.ndarray) -> None:
        """Take in a batch that went through the rules. `loc`: the column of its URLs; `hashes`: those of what became
        of them.
        """
        listed = ruled.inventory.num_rows == ruled.rows and not ruled.notes.counts and not ruled.foreign
        self.whole &= listed and ruled.repeatable
        if self.whole:
            same = column_of(raw, loc).equals(column_of(ruled.inventory, "loc"))
            self.add(raw, {loc: hashes} if same else {})

    def begins_as(self, expected: RawSums) -> bool:
        """Whether the first batch is the one that is expected."""
        return self.whole and (self.form, self.first) == (expected.form, expected.first)

    def sums(self) -> RawSums | None:
        """What the receipt says of them; None where they have to go through the rules each time."""
        if not self.whole or self.form is None or self.first is None:
            return None
        return RawSums(self.form, self.rows, self.first, self.all)


def read_again(run: Run, n: int, columns: Sequence[str] | None, expected: SplitSums) -> tuple[Transformed | None, bool]:
    """What the receipt of unit `n` says if its rows are those that are expected: the same as before; and whether they
    begin like them, at least. `columns`: those that the rules need.
    """
    unit = run.plan.units[n]
    rows = RawRows()
    _, batches = read_raw(run, n, columns, _BATCH_ROWS)
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    for table in gathered(tables, GATHERED_ROWS, GATHERED_BYTES):
        rows.add(table.drop_columns(LINES) if LINES in table.column_names else table)
        if expected.raw is None or not rows.begins_as(expected.raw):
            return None, False
    same = rows.sums() == expected.raw and rows.rows == run.extracted(n).rows
    return (_receipt(unit.section, expected, run.plan.made_from[unit.section]) if same else None), True


def _receipt(section: str, expected: SplitSums, known: MadeFrom) -> Transformed:
    """The receipt of a split that is as it was."""
    agreed, read = known.agreed, expected.raw
    assert agreed is not None
    assert read is not None
    return Transformed(
        section=section,
        rows=read.rows,
        inventory=read.rows,
        reasons={kind: Tally() for kind in KINDS},
        ends=expected.ends,
        kinds=agreed.kinds,
        tags=agreed.tags,
        columns=agreed.columns,
        sums=expected.all,
        loc_sums=expected.locs,
        first_sums=expected.first,
        raw=read,
        bare=expected.bare,
        spared=True,
        as_read=True,
        repeatable=True,
    )


def _form(schema: pa.Schema) -> str | None:
    """A hash of the names and types of columns; None where two have one name, or the values of one can't be hashed."""
    if not all(_is_hashed(kind) for kind in schema.types) or len({*schema.names}) < len(schema):
        return None
    told = [(entry.name, str(entry.type)) for entry in schema]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:16]


def _is_hashed(kind: pa.DataType) -> bool:
    """Whether `hashes.hash_column` takes values of a type, none of which it takes for another."""
    if is_list(kind):
        return _is_hashed(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_is_hashed(kind.field(at).type) for at in range(kind.num_fields))
    return any(test(kind) for test in _HASHED)


_HASHED: Final[Any] = (
    pa.types.is_null,
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_binary,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
)
