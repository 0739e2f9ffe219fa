"""Convert a raw nested column, native or JSON text, to one long column of elements, and back."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import lengths_of, mask_of, offsets_of, plain
from sitemap_etl.extensions import literals
from sitemap_etl.frames import Tally
from sitemap_etl.frozen import Frozen


class Elements(Frozen):
    """Elements of all rows, one after the other. `owner`: row of each element (int64, ascending)."""

    owner: np.ndarray
    values: pa.Array
    rows: int

    def where(self, keep: np.ndarray) -> Elements:
        """Return the elements of a mask (bool, one per element)."""
        if keep.all():
            return self
        return Elements(self.owner[keep], self.values.filter(pa.array(keep)), self.rows)

    def take(self, order: np.ndarray) -> Elements:
        """Return the elements in another order, which must keep the elements of a row together."""
        return Elements(self.owner[order], self.values.take(pa.array(order)), self.rows)

    def position(self) -> np.ndarray:
        """Return the index of each element in its row, from 0."""
        return np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner)

    def to_lists(self, dtype: pa.DataType) -> pa.Array:
        """Return a list column of type `dtype`. A row without elements is null."""
        counts = np.bincount(self.owner, minlength=self.rows)
        offsets = np.zeros(self.rows + 1, np.int32)
        np.cumsum(counts, out=offsets[1:])
        return pa.ListArray.from_arrays(
            pa.array(offsets), self.values.cast(dtype.value_type), type=dtype, mask=pa.array(counts == 0)
        )


def merged(one: Elements, other: Elements) -> Elements:
    """Merge two sets of elements of the same rows. In each row, elements of the first set come first."""
    owner = np.concatenate([one.owner, other.owner])
    order = np.argsort(owner, kind="stable")
    return Elements(owner, pa.concat_arrays([one.values, other.values]), one.rows).take(order)


def elements(column: pa.Array) -> Elements:
    """Return the elements of a list or map column.

    Null rows have none. Entries of a map are structs of key and value.
    """
    if not pa.types.is_map(column.type):
        # Not list_parent_indices: it includes elements under null rows, which `flatten` skips.
        return Elements(np.repeat(np.arange(len(column)), lengths_of(column)), plain(column.flatten()), len(column))
    # Maps support neither `flatten` nor `list_parent_indices`, and null rows can hide entries.
    if column.null_count:
        filled = column.filter(column.is_valid())
        rows = np.flatnonzero(mask_of(column.is_valid()))
        inner = elements(filled)
        return Elements(rows[inner.owner], inner.values, len(column))
    offsets = offsets_of(column)
    first, last = int(offsets[0]), int(offsets[-1])
    pairs = pa.StructArray.from_arrays(
        [plain(column.keys)[first:last], plain(column.items)[first:last]], ["key", "value"]
    )
    return Elements(np.repeat(np.arange(len(column)), np.diff(offsets)), pairs, len(column))


def parsed(texts: pa.Array, tally: Tally, reason: str) -> list[Any]:
    """Return the value of each text: JSON, or a list in Python or PostgreSQL syntax.

    None for null, blank and invalid texts; invalid ones are counted under `reason`. All texts are parsed at once. A
    marker between them detects texts that contain more or less than one value.
    """
    texts = pc.utf8_trim_whitespace(texts)
    filled = pc.fill_null(pc.not_equal(texts, ""), fill_value=False)
    written = texts.filter(filled)
    present = literals.as_json(written).to_pylist()
    mark = '"\\u0000 mark"'
    while any(mark in text for text in present):
        mark = mark.replace("mark", "mark-")
    whole = f"[{f',{mark},'.join(present)}]"
    values: list[Any]
    try:
        both = json.loads(whole, parse_constant=literals.constant)
        marks = {json.loads(mark)}
        if len(both) != max(2 * len(present) - 1, 0) or not all(isinstance(m, str) and m in marks for m in both[1::2]):
            raise ValueError("a text is more or less than one value")  # noqa: TRY301 - same cure as for broken JSON
        values = both[::2]
    except (ValueError, RecursionError):
        values = []
        for text in written.to_pylist():
            try:
                values.append(literals.value_of(text))
            except (ValueError, RecursionError):
                tally.add(reason, 1, [text])
                values.append(None)
    result: list[Any] = [None] * len(texts)
    for row, value in zip(np.flatnonzero(mask_of(filled)).tolist(), values, strict=True):
        result[row] = value
    return result


def flattened(lists: list[list[Any]], convert: Callable[[list[Any]], pa.Array]) -> Elements:
    """Convert Python lists, one per row, to elements. `convert` builds the array."""
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    flat = [element for row in lists for element in row]
    return Elements(np.repeat(np.arange(len(lists)), counts), convert(flat), len(lists))
