"""Choose one row for each loc by a total order that does not depend on splits or the order of rows."""

from __future__ import annotations

import itertools
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod
from sitemap_etl.arrow import column_of, mask_of, numbers_of, taken
from sitemap_etl.columns import ORIGIN
from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import combine, hash_column
from sitemap_etl.partition.order import in_order

_FIRST: Final = 1_000
"""Rows that are compared before all rows are."""
_NEVER: Final = -(1 << 62)
"""A value before every moment."""


class Winners(Frozen):
    """Listed rows and duplicates, both ordered by loc.

    rows: one row for each loc.
    losers: the duplicates.
    """

    rows: pa.Table
    losers: pa.Table


def winners(table: pa.Table, known: pa.Table | None = None) -> Winners:
    """Return the listed row of each loc, and the duplicates.

    Of rows with the same loc, the one with the newest lastmod wins (null last). Then the row with the published
    fingerprint wins. Then the smallest hash of all columns except `row` and `key` wins.

    table: columns of `frames.INVENTORY`, rows in any order.
    known: the snapshot rows of the same locs, ordered by loc (columns loc, fingerprint), or None.
    """
    table, distinct = ordered(table)
    if distinct:
        return Winners(table, table.slice(0, 0))
    locs = column_of(table, "loc")
    if table.num_rows < 2:
        return Winners(table, table.slice(0, 0))
    same = mask_of(pc.equal(locs.slice(1), locs.slice(0, len(locs) - 1)))
    if not same.any():
        return Winners(table, table.slice(0, 0))
    contested = np.zeros(len(locs), bool)
    contested[1:] |= same
    contested[:-1] |= same
    rivals = table.filter(pa.array(contested)).combine_chunks()
    place = np.flatnonzero(contested)
    group = np.cumsum(np.concatenate(([True], ~same)))[contested]
    order = np.lexsort((_identity(rivals), _unlike_published(rivals, known), _age(rivals), group))
    first = np.concatenate(([True], group[order][1:] != group[order][:-1]))
    keep = ~contested
    keep[place[order[first]]] = True
    return Winners(table.filter(pa.array(keep)), table.filter(pa.array(~keep)))


def ordered(table: pa.Table) -> tuple[pa.Table, bool]:
    """Return the rows ordered by loc, and True if all locs are known to be distinct. Equal locs have any order."""
    if _ascending(table.column("loc")):
        return table.combine_chunks(), False
    order, distinct = in_order(table.column("loc"))
    return taken(table, order.to_numpy()), distinct


def _ascending(locs: pa.ChunkedArray) -> bool:
    """Return True if locs are in order. Compare the ends of chunks and the first rows before all rows."""
    chunks = [chunk for chunk in locs.chunks if len(chunk)]
    return all(one[-1].as_py() <= other[0].as_py() for one, other in itertools.pairwise(chunks)) and all(
        bool(pc.all(pc.less_equal(some.slice(0, len(some) - 1), some.slice(1))).as_py())
        for some in (locs.slice(0, _FIRST), locs)
        if len(some) > 1
    )


def _age(rows: pa.Table) -> np.ndarray:
    """Return numbers that are smaller for newer rows, with nulls last."""
    if "moment" not in rows.column_names:
        return np.zeros(rows.num_rows, np.int64)
    return -numbers_of(rows.column("moment"), _NEVER)


def _unlike_published(rows: pa.Table, known: pa.Table | None) -> np.ndarray:
    """Return 1 for rows whose fingerprint differs from the published fingerprint of the loc, otherwise 0."""
    if known is None or known.num_rows == 0 or "fingerprint" not in rows.column_names:
        return np.zeros(rows.num_rows, np.int8)
    published = known.column("fingerprint").take(pc.index_in(rows.column("loc"), known.column("loc")))
    like = pc.fill_null(pc.equal(rows.column("fingerprint"), published), False)
    unlike: np.ndarray = 1 - like.to_numpy().astype(np.int8)
    return unlike


def _identity(rows: pa.Table) -> np.ndarray:
    """Return a hash of the row as published, without the columns of its origin."""
    rows = dated(rows)
    names = sorted(set(rows.column_names) - set(ORIGIN))
    return combine([hash_column(rows.column(name)) for name in names])


def dated(rows: pa.Table) -> pa.Table:
    """Return inventory rows with lastmod as published, in place of the moment."""
    if "moment" not in rows.column_names:
        return rows
    found = lastmod.texts(column_of(rows, "moment"))
    return rows.drop_columns("moment").append_column("lastmod", found)


def stretch(table: pa.Table, low: str, high: str | None) -> pa.Table:
    """Return the rows with low <= loc < high (None: the end) of a table ordered by loc, without a copy."""
    if table.num_rows == 0:
        return table
    locs = column_of(table, "loc")
    start = pc.search_sorted(locs, pa.scalar(low, locs.type), side="left").as_py() if low else 0
    stop = len(locs) if high is None else pc.search_sorted(locs, pa.scalar(high, locs.type), side="left").as_py()
    return table.slice(start, stop - start)
