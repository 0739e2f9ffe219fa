"""The order of locs, and their places among borders, by a few of their bytes where those tell them apart."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import kernels
from sitemap_etl.arrow import data_of, mask_of, offsets_of, single, texts_of, windows

_WORD: Final = 8
_FEW: Final = 1_000
"""Rows up to which Arrow is as fast as the kernels."""
_SAMPLED: Final = 4_096
_HEADS: Final = (8, 16, 24, 32, 48, 64)
_DISTINCT: Final = 4
"""Sampled rows for each distinct head: with more heads than that, finding them costs more than it tells."""


def in_order(locs: pa.Array | pa.ChunkedArray) -> tuple[pa.Array, bool]:
    """Return the places of `locs` (string, ASCII without NUL, no null) in bytewise order: uint64, for `take`; and
    whether it is known that no two are equal.

    All texts between the least and the greatest share the prefix of these two. Behind it stands a head of some bytes,
    one of few: a category, a product line. The place of a row's head among the heads and the bytes that follow make
    one number of 64 bits, and most columns are in order by that alone; texts are compared only where it leaves ties.
    For names with a number that is a fifth of the price of comparing all texts, for paths of categories and slugs a
    half. The order of equal texts is not defined.
    """
    if kernels.compiled is not None and len(locs) >= _FEW and locs.type == pa.string():
        found, distinct = kernels.compiled.in_order(kernels.compiled.texts(texts_of(locs)))
        return pa.array(found), distinct
    locs = single(locs)
    if len(locs) < _FEW or len(data_of(locs)) < _WORD:
        return pc.sort_indices(locs), False
    prefix = _shared(*_ends(locs))
    keys, _ = _keys(locs, prefix, _head(locs, prefix))
    order = np.argsort(keys)
    ordered = keys[order]
    again = ordered[1:] == ordered[:-1]
    if not again.any():
        return pa.array(order.astype(np.uint64)), True
    tied = np.zeros(len(order), bool)
    tied[1:] |= again
    tied[:-1] |= again
    rows = order[tied]
    group = np.cumsum(np.concatenate(([True], ~again)), dtype=np.uint32)[tied]
    ties = pa.record_batch({"group": pa.array(group), "loc": locs.take(pa.array(rows))})
    sort_keys = [("group", "ascending"), ("loc", "ascending")]
    order[tied] = rows[pc.sort_indices(ties, sort_keys=sort_keys).to_numpy()]
    return pa.array(order.astype(np.uint64)), False


def places_among(locs: pa.Array, borders: Sequence[str]) -> np.ndarray:
    """Return the number of borders, which ascend, that are not behind each loc (as above): int64.

    By the same numbers as `in_order`; texts are compared only where a row has that of a border.
    """
    if not borders or len(locs) < _FEW or len(data_of(locs)) < _WORD:
        return _searched(locs, borders)
    if kernels.compiled is not None and locs.type == pa.string():
        texts = pa.array(borders, pa.string())
        return kernels.compiled.places_among((offsets_of(locs), data_of(locs)), (offsets_of(texts), data_of(texts)))
    least, greatest = _ends(locs)
    before = bisect_right(borders, least)
    between = borders[before : bisect_right(borders, greatest)]  # those share the prefix of all texts
    if not between:
        return np.full(len(locs), before, np.int64)
    prefix = _shared(least, greatest)
    keys, marks = _keys(locs, prefix, _head(locs, prefix), between)
    found: np.ndarray = np.searchsorted(marks, keys, side="right")
    tied = np.flatnonzero((found > 0) & (marks[found - 1] == keys))
    found[tied] = _searched(locs.take(pa.array(tied)), between)
    return found + before


def _searched(locs: pa.Array, borders: Sequence[str]) -> np.ndarray:
    """`places_among` by comparing texts."""
    found: np.ndarray = pc.search_sorted(pa.array(borders, locs.type), locs, side="right").to_numpy()
    return found.astype(np.int64)


def _ends(locs: pa.Array) -> tuple[str, str]:
    """Return the least and the greatest text."""
    ends = pc.min_max(locs).as_py()
    return ends["min"], ends["max"]


def _head(locs: pa.Array, prefix: int) -> int:
    """Return the number of bytes after the prefix to look up as a whole: the most with few kinds in a sample."""
    places = np.linspace(0, len(locs) - 1, _SAMPLED).astype(np.int64)
    sample = locs.take(pa.array(places)).cast(pa.binary())
    found = 0
    for size in _HEADS:
        if pc.count_distinct(pc.binary_slice(sample, prefix, prefix + size)).as_py() > _SAMPLED // _DISTINCT:
            break
        found = size
    return found


def _keys(locs: pa.Array, prefix: int, head: int, others: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """Numbers (uint64) in whose order the locs stand, as far as their heads and the bytes behind tell them apart; and
    those of other texts between the least and the greatest of them.
    """
    keys = _word(locs, prefix + head)
    texts = pa.array([*others, " " * _WORD])  # there are as many bytes as a word has
    marks = _word(texts, prefix + head)[:-1]
    if not head:
        return keys, marks
    heads = pc.binary_slice(locs.cast(pa.binary()), prefix, prefix + head).dictionary_encode()
    order = pc.sort_indices(heads.dictionary)
    ordered = heads.dictionary.take(order)
    bits = np.uint64((len(ordered) - 1).bit_length())
    if not bits:
        return keys, marks
    ranks = np.empty(len(ordered), np.uint64)
    ranks[order.to_numpy()] = np.arange(len(ranks), dtype=np.uint64)
    theirs = pc.binary_slice(texts.cast(pa.binary()), prefix, prefix + head)[:-1]
    at = pc.search_sorted(ordered, theirs).to_numpy()
    there = mask_of(pc.equal(ordered.take(pa.array(at)), theirs))  # of a head that no loc has: before all of the next
    left = np.uint64(64) - bits
    ranked: np.ndarray = ranks[heads.indices.to_numpy()] << left | keys >> bits
    return ranked, at.astype(np.uint64) << left | np.where(there, marks >> bits, np.uint64(0))


def _word(locs: pa.Array, at: int) -> np.ndarray:
    """Eight bytes of each text from its byte `at` on as a number, zeros where the text has ended."""
    offsets, data = offsets_of(locs).astype(np.int64), data_of(locs)
    words = windows(data, ">u8")
    begins = offsets[:-1] + at
    last = len(words) - 1
    found = words[np.minimum(begins, last)].astype(np.uint64)
    left = offsets[1:] - begins
    short = np.flatnonzero(left < _WORD)  # texts that end within the word, so also those at the end of the buffer
    left = np.clip(left[short], 0, _WORD).astype(np.uint64)
    late = np.clip(begins[short] - last, 0, _WORD - 1).astype(np.uint64)
    unused = (np.uint64(_WORD) - left) * np.uint64(8)
    kept = (
        (found[short] << (late * np.uint64(8)))
        >> np.minimum(unused, np.uint64(63))
        << np.minimum(unused, np.uint64(63))
    )
    found[short] = np.where(left == 0, np.uint64(0), kept)
    return found


def _shared(one: str, other: str) -> int:
    """Return the number of characters that two texts share at their beginning."""
    short = min(len(one), len(other))
    return next((at for at in range(short) if one[at] != other[at]), short)
