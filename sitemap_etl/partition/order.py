"""Sort locs, and find their places among borders. The kernels compare a few bytes that differ, Arrow whole texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import kernels
from sitemap_etl.arrow import data_of, offsets_of, single, texts_of

_FEW: Final = 1_000
"""Rows up to which Arrow is as fast as the kernels."""


def in_order(locs: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, bool]:
    """Return the indexes of `locs` (string, ASCII without NUL, no null) in bytewise order: uint64, for `take`.

    Return also True if it is known that all are distinct. The order of equal texts is not defined.
    """
    if kernels.compiled is not None and len(locs) >= _FEW and locs.type == pa.string():
        found, distinct = kernels.compiled.in_order(kernels.compiled.texts(texts_of(locs)))
        return pa.array(found), distinct
    return pc.sort_indices(single(locs)), False


def places_among(locs: pa.Array, borders: Sequence[str]) -> np.ndarray:
    """Return for each loc (as above) the number of borders that are not after it: int64. The borders ascend."""
    if kernels.compiled is not None and borders and len(locs) >= _FEW and locs.type == pa.string():
        texts = pa.array(borders, pa.string())
        return kernels.compiled.places_among((offsets_of(locs), data_of(locs)), (offsets_of(texts), data_of(texts)))
    found: np.ndarray = pc.search_sorted(pa.array(borders, locs.type), locs, side="right").to_numpy()
    return found.astype(np.int64)
