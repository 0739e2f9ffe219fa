"""Skip the rules for splits if an earlier run had the same raw rows and rules.

Equal rows and rules give equal results, so such a split stores nothing. A digest of its raw rows identifies them;
computing it costs a third of applying the rules.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import column_of, gathered, is_list
from sitemap_etl.hashes import added, hash_rows, sums_of
from sitemap_etl.limits import GATHERED_BYTES, GATHERED_ROWS
from sitemap_etl.sources import LINES
from sitemap_etl.stages.digests import rules_digest
from sitemap_etl.stages.extract import read_raw
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import RawDigest, SplitDigest, Transformed
from sitemap_etl.transform import Outcome

_FIRST_ROWS: Final = 65_536
"""Rows at the beginning of a split. If they differ, no more are read."""
_BATCH_ROWS: Final = 2 * _FIRST_ROWS
"""Rows of a batch that is read to be added up: it stays in cache."""


class RawRows:
    """Digest of a split's raw rows, batch by batch. `compared`: False if no digest is needed."""

    def __init__(self, *, compared: bool = True) -> None:
        self.form: str | None = None
        self.first: tuple[int, int] | None = None
        self.all = (0, 0)
        self.rows = 0
        self.compared = compared
        """True while a later run can compare these rows, and the same rules would give the same result."""

    def add(self, raw: pa.Table, known: Mapping[str, np.ndarray] | None = None) -> None:
        """Add a batch. `known`: hashes of some columns."""
        form = _form(raw.schema)
        if form is None or (self.form is not None and self.form != form):
            self.compared = False
            return
        self.form = form
        hashes = hash_rows(raw, known or {})
        if self.first is None:
            self.first = sums_of(hashes[:_FIRST_ROWS])
        self.all = added(self.all, sums_of(hashes))
        self.rows += raw.num_rows

    def add_ruled(self, raw: pa.Table, loc: str, ruled: Outcome, hashes: np.ndarray) -> None:
        """Add a batch after the rules. `loc`: the column of its URLs; `hashes`: hashes of the listed ones."""
        self.compared &= ruled.repeatable
        if self.compared:
            same = column_of(raw, loc).equals(column_of(ruled.inventory, "loc"))
            self.add(raw, {loc: hashes} if same else {})

    def begins_as(self, expected: RawDigest) -> bool:
        """Return True if the first batch is the expected one."""
        return self.compared and (self.form, self.first) == (expected.form, expected.first)

    def digest(self) -> RawDigest | None:
        """Return the digest, or None if the rules must be applied to such rows on every run."""
        return RawDigest(self.form or "", self.rows, self.first or (0, 0), self.all) if self.compared else None


def find_unchanged(run: Run, n: int, columns: Sequence[str] | None) -> Transformed | None:
    """Return the result of split `n` if its raw rows and rules are those of an earlier run, or None.

    `columns`: the columns that the rules need. Reading ends with the first batch if that differs.
    """
    known = _expected(run, n)
    if known is None:
        return None
    rows = RawRows()
    _, batches = read_raw(run, n, columns, _BATCH_ROWS)
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    for table in gathered(tables, GATHERED_ROWS, GATHERED_BYTES):
        rows.add(table.drop_columns(LINES) if LINES in table.column_names else table)
        if not rows.begins_as(known.raw):
            return None
    if rows.digest() != known.raw or rows.rows != run.extracted(n).rows:
        return None
    return Transformed(
        section=run.plan.units[n].section,
        rows=rows.rows,
        inventory=known.inventory,
        loc_sums=known.loc_sums,
        ends=known.ends,
        raw=known.raw,
        unchanged=True,
    )


def _expected(run: Run, n: int) -> SplitDigest | None:
    """Return the digest that split `n` has if it is unchanged, or None if it has to be transformed."""
    name = run.plan.units[n].section
    if name not in run.plan.expected:
        return None
    known, units = run.plan.made_from[name], run.units_of(name)
    if len(known.digests) != len(units) or known.source != rules_digest(run, name):
        return None
    return known.digests[units.index(n)]


def _form(schema: pa.Schema) -> str | None:
    """Return a hash of the names and types of columns, or None if two share a name or one can't be hashed."""
    if not all(_is_hashed(kind) for kind in schema.types) or len({*schema.names}) < len(schema):
        return None
    columns = [(entry.name, str(entry.type)) for entry in schema]
    return hashlib.sha256(json.dumps(columns).encode()).hexdigest()[:16]


def _is_hashed(kind: pa.DataType) -> bool:
    """Return True if `hashes.hash_column` can hash this type without equal hashes for different values."""
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
