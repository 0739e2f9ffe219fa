"""Assign rows to windows in one pass, without a full sort."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import column_of, grouped, taken
from sitemap_etl.frozen import Frozen
from sitemap_etl.partition.order import places_among


class Routed(Frozen):
    """Rows ordered by window. Window w is `table[starts[w]:starts[w + 1]]`."""

    table: pa.Table
    starts: np.ndarray


def route(table: pa.Table, borders: Sequence[str]) -> Routed:
    """Order the rows of `table` (with a `loc` column without nulls) by window, and keep their order within a window.

    borders: the first locs of windows 1, 2, …, ascending. A row belongs to the last window whose border is not after
    it.
    """
    table = table.combine_chunks()
    rows = table.num_rows
    if not borders or rows == 0:
        starts = np.full(len(borders) + 2, rows, np.int64)
        starts[0] = 0
        return Routed(table, starts)
    window = places_among(column_of(table, "loc"), borders)
    order, starts = grouped(window, len(borders) + 1)
    if np.all(window[1:] >= window[:-1]):
        return Routed(table, starts)
    return Routed(taken(table, order), starts)
