"""Priority and changefreq of pages, which are hints that Yandex still reads.

A priority is counted in *tenths* (int8, 0 to 10), rounded half up from the shortest decimal of the number. So 0.25 is
3 and 0.35 is 4, although the float for 0.35 is a bit smaller. Null means no priority, and readers assume 0.5.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow import joined, mask_of, plain, text_of
from .errors import InvalidSource
from .frames import Tally
from .limits import CHANGEFREQS

NO_NUMBER: Final = "priority not a number"
OUT_OF_RANGE: Final = "priority not between 0 and 1"
NO_WORD: Final = "changefreq not a word of the protocol"
NO_SIGNAL: Final = "signal not a number"
REASONS: Final = {
    NO_NUMBER: "The text is not a decimal number; it contains a comma, a unit or a word.",
    OUT_OF_RANGE: "Priorities range from 0.0 to 1.0. Divide ranks and percentages first.",
    NO_WORD: f"Allowed are {', '.join(CHANGEFREQS)}.",
    NO_SIGNAL: "The text is not a decimal number, so the row can't be ranked and gets no priority.",
}
"""Reasons why a row loses its priority or changefreq, with their explanations. The row itself is still listed."""

BINS: Final = 1 << 16
"""Number of bins of a signal. A bin is the top 16 bits of the order-preserving float64."""

_TIES: Final = np.array([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95])
"""Smallest numbers that round up to each tenth. Shortest decimals have the order of their floats, so a float rounds up
exactly if it is not below the float nearest to the tie."""
_DEPTHS: Final = np.array([10, 8, 6, 4, 2], np.int8)
"""Tenths by depth of the path. Deeper paths have the last value."""
_DECIMAL: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_SIGN: Final = np.int64(-(1 << 63))


def constant(value: float | str | Decimal) -> int:
    """Return the tenths of a number from the site file. Raise ValueError if it is not between 0 and 1."""
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation as error:
        raise ValueError(f"{value!r} is not a number") from error
    if not (number.is_finite() and 0 <= number <= 1):
        raise ValueError(f"{value!r} is not between 0.0 and 1.0")
    return int((number * 10).to_integral_value(ROUND_HALF_UP))


def from_column(
    column: pa.Array | pa.ChunkedArray, tally: Tally, *, loc: pa.Array | None = None, name: str = "priority"
) -> pa.Array:
    """Return the priority of each row in tenths: int8, null if the column has no valid one.

    `column`: numbers, decimals or text of them. A value that is not a number between 0 and 1 becomes null, and is
    counted in `tally` with examples. Examples include the page if the column is one array and `loc` is set. Raise
    `InvalidSource` with `name` for another type.
    """
    return _by_chunk(column, lambda part: _tenths(part, tally, loc, name), pa.int8())


def depth(locs: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the priority in tenths by the depth of each canonical `loc`'s path: int8, null for a null.

    1.0 for the home page, then 0.8, 0.6, 0.4, and 0.2 from the fourth level on. Each part of the path is a level:
    `/a` and `/a/` have one, `/a/b` has two. The query does not count.
    """
    return _by_chunk(locs, _depths, pa.int8())


def signal_bins(
    column: pa.Array | pa.ChunkedArray,
    tally: Tally | None = None,
    *,
    loc: pa.Array | None = None,
    name: str = "percentile_of",
) -> pa.Array:
    """Return the bin of each row's signal: uint16, null if the signal is null, NaN or not a number.

    The bin is the top 16 bits of the float64 in an order-preserving form: sign, exponent and four bits of fraction. So
    neighboring bins are 3 to 6 % apart. Text that is not a number is counted in `tally`, as in `from_column`. Raise
    `InvalidSource` with `name` for a type without numbers.
    """
    return _by_chunk(column, lambda part: _bins(part, Tally() if tally is None else tally, loc, name), pa.uint16())


def histogram(bins: pa.Array) -> np.ndarray:
    """Return the number of rows in each bin: int64, 65,536 values. Nulls don't count.

    The histogram of a section is the sum over its splits.
    """
    return np.bincount(pc.drop_null(bins).to_numpy(), minlength=BINS).astype(np.int64)


def percentile_table(histogram: np.ndarray) -> np.ndarray:
    """Return the priority in tenths of each bin: int8, 65,536 values.

    `histogram`: number of rows of the whole section in each bin. A row's percentile is (rows below + half of the equal
    rows) / all rows. It is rounded half up to tenths in whole numbers, so it does not depend on the splits.
    """
    equal = np.asarray(histogram, np.int64)
    rows = int(equal.sum())
    if rows == 0:
        return np.zeros(len(equal), np.int8)
    below = np.cumsum(equal) - equal
    return ((20 * below + 10 * equal + rows) // (2 * rows)).astype(np.int8)


def apply_table(bins: pa.Array, table: np.ndarray) -> pa.Array:
    """Return the priority of each row in tenths from its bin: int8, null for a row without a signal."""
    tenths = table[pc.fill_null(bins, 0).to_numpy()]
    return pa.array(tenths, pa.int8(), mask=_nulls(bins))


def changefreq(
    column: pa.Array | pa.ChunkedArray, tally: Tally, *, loc: pa.Array | None = None, name: str = "changefreq"
) -> pa.Array:
    """Return the changefreq of each row: string, a word of the protocol or null.

    Case and surrounding white space are ignored, and a blank is null. Another word becomes null and is counted with
    examples, as in `from_column`. Raise `InvalidSource` with `name` for a column that is not text.
    """
    return _by_chunk(column, lambda part: _words(part, tally, loc, name), pa.string())


def _by_chunk(column: pa.Array | pa.ChunkedArray, rule: Callable[[pa.Array], pa.Array], kind: pa.DataType) -> pa.Array:
    """Return the results of a rule for all chunks as one array. The rule gets plain arrays or text."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    parts = []
    for chunk in chunks:
        part = text_of(plain(chunk))
        parts.append(pa.nulls(len(part), kind) if pa.types.is_null(part.type) else rule(part))
    return joined(parts, kind)


def _tenths(array: pa.Array, tally: Tally, loc: pa.Array | None, name: str) -> pa.Array:
    numbers = _numbers(array, tally, loc, NO_NUMBER, name)
    outside = (numbers < 0) | (numbers > 1)  # false for NaN
    tally.add_rows(OUT_OF_RANGE, outside, _shown(array), loc)
    missing = outside | np.isnan(numbers)
    ties = _TIES.astype(numbers.dtype)
    return pa.array(np.searchsorted(ties, numbers, side="right").astype(np.int8), mask=missing)


def _bins(array: pa.Array, tally: Tally, loc: pa.Array | None, name: str) -> pa.Array:
    numbers = _numbers(array, tally, loc, NO_SIGNAL, name).astype(np.float64)
    bits = (numbers + 0.0).view(np.int64)  # -0.0 is 0.0
    ordered = (bits ^ (bits >> 63 | _SIGN)).view(np.uint64) >> np.uint64(48)  # flips all bits of negative numbers
    return pa.array(ordered.astype(np.uint16), mask=np.isnan(numbers))


def _numbers(array: pa.Array, tally: Tally, loc: pa.Array | None, reason: str, name: str) -> np.ndarray:
    """Return the values as floats, NaN for nulls. Count text that is not a number under `reason`."""
    kind = array.type
    if pa.types.is_string(kind):
        coded = array.dictionary_encode()  # few texts are distinct, so the costly check runs once for each
        words = pc.ascii_trim_whitespace(coded.dictionary)
        good = pc.match_substring_regex(words, _DECIMAL)
        floats = pc.if_else(good, pc.replace_substring_regex(words, r"^\+", ""), None).cast(pa.float64())
        values = np.append(_floats(floats), np.nan)
        bad = np.append(mask_of(pc.invert(pc.or_(good, pc.equal(words, "")))), False)
        at = pc.fill_null(coded.indices, len(words)).to_numpy()
        tally.add_rows(reason, bad[at], _shown(array), loc)
        numbers: np.ndarray = values[at]
        return numbers
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_integer(kind):
        return _floats(pc.cast(array, pa.float64(), safe=False))
    if pa.types.is_decimal(kind):
        return _floats(array.cast(pa.string()).cast(pa.float64()))  # a cast through text gives the nearest float
    raise InvalidSource(f"{name} is {kind}, expected numbers, decimals or text of numbers")


def _floats(array: pa.Array) -> np.ndarray:
    """Return a floating array as numpy of the same width, with NaN for nulls."""
    floats: np.ndarray = array.to_numpy(zero_copy_only=False)
    return floats


def _depths(locs: pa.Array) -> pa.Array:
    path = locs
    queries = pc.find_substring(locs, "?")
    if pc.max(queries).as_py() not in (None, -1):
        path = pc.replace_substring_regex(locs, r"\?.*$", "")
    levels = pc.subtract(pc.count_substring(path, "/"), pc.cast(pc.ends_with(path, "/"), pa.int32()))
    # The two slashes of "https://" and the levels past the last of the table.
    place = np.clip(pc.fill_null(levels, 0).to_numpy() - 2, 0, len(_DEPTHS) - 1)
    return pa.array(_DEPTHS[place], mask=_nulls(locs))


def _words(array: pa.Array, tally: Tally, loc: pa.Array | None, name: str) -> pa.Array:
    if not pa.types.is_string(array.type):
        raise InvalidSource(f"{name} is {array.type}, expected text: {', '.join(CHANGEFREQS)}")
    coded = array.dictionary_encode()
    words = pc.ascii_lower(pc.ascii_trim_whitespace(coded.dictionary))
    known = pc.is_in(words, pa.array(CHANGEFREQS))
    bad = np.append(mask_of(pc.invert(pc.or_(known, pc.equal(words, "")))), False)
    tally.add_rows(NO_WORD, bad[pc.fill_null(coded.indices, len(words)).to_numpy()], _shown(array), loc)
    return pc.if_else(known, words, None).take(coded.indices)


def _nulls(array: pa.Array) -> np.ndarray | None:
    return mask_of(pc.is_null(array)) if array.null_count else None


def _shown(array: pa.Array) -> Callable[[int], Any]:
    """Return a function from a row's position to its value as text."""
    return lambda at: array.slice(at, 1).cast(pa.string())[0].as_py()
