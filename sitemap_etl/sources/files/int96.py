"""Timestamps of Parquet's deprecated type INT96, which Spark, Hive and Impala write.

A value is a day (32 bits, Julian) and nanoseconds of that day (64 bits). Arrow reads it in a chosen unit, with
arithmetic that wraps. Nanoseconds only reach from 1677 to 2262, so microseconds are read. Milliseconds can't wrap for
any bits, so they show which microseconds have.
https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#deprecated-timestamp-types
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl.arrow import is_list, nulls_in, numbers_of, with_elements, with_fields
from sitemap_etl.instants import FIRST, LAST

UNIT: Final = "us"
"""Unit in which values are read."""
CHECKED: Final = "ms"
"""Unit in which no value wraps."""
_DAY: Final = 86_400_000_000
"""Microseconds of a day."""
_DAY_MS: Final = 86_400_000
_EPOCH: Final = 2_440_588
"""Julian day of 1970-01-01."""
_WORD: Final = 2**64
_NEGATIVE: Final = 2**31
"""First day that is negative for signed readers."""
_NANOSECONDS_MS: Final = _WORD // 1_000_000
_NANOSECONDS_US: Final = _WORD // 1_000
"""2^64 nanoseconds, in milliseconds and in microseconds."""


def int96_columns(metadata: Any) -> list[str]:
    """Return the top-level columns of a Parquet file that contain INT96. `metadata`: its `FileMetaData`."""
    leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
    return list(dict.fromkeys(leaf.path.partition(".")[0] for leaf in leaves if leaf.physical_type == "INT96"))


def unwrapped(
    batches: Iterable[pa.RecordBatch], checks: Iterator[pa.RecordBatch], names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with their INT96 columns as written.

    `checks`: the same rows of only these columns, in milliseconds. A value that int64 can't represent in microseconds
    becomes an end of int64.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        while rows < batch.num_rows:
            held.append(next(checks))
            rows += held[-1].num_rows
        check = pa.Table.from_batches(held).combine_chunks()
        rows -= batch.num_rows
        held = check.slice(batch.num_rows).to_batches()
        columns = {name: batch.column(name) for name in batch.schema.names}
        for name in names:
            columns[name] = _mended(columns[name], check.slice(0, batch.num_rows).column(name).combine_chunks())
        yield pa.RecordBatch.from_pydict(columns)


def _mended(found: pa.Array, check: pa.Array) -> pa.Array:
    """Return an array with wrapped times corrected, also in lists and structs. Times in maps are not used."""
    kind = found.type
    if pt.is_timestamp(kind) and pt.is_timestamp(check.type) and check.type.unit == CHECKED:
        return _mended_times(found, check)
    if pt.is_struct(kind):
        pairs = zip(found.flatten(), check.flatten(), strict=True)
        return with_fields(found, [_mended(one, other) for one, other in pairs])
    if is_list(kind):
        return with_elements(found, _mended(pc.list_flatten(found), pc.list_flatten(check)))
    return found


def _mended_times(found: pa.Array, check: pa.Array) -> pa.Array:
    micros, millis = (numbers_of(array.view(pa.int64())) for array in (found, check))
    wrong = np.floor_divide(micros, 1_000) != millis
    if not wrong.any():
        return found
    right = [_micros(int(us), int(ms)) for us, ms in zip(micros[wrong], millis[wrong], strict=True)]
    micros = micros.copy()
    micros[wrong] = right
    return pa.array(micros, pa.int64(), mask=nulls_in(found)).view(found.type)


def _micros(us: int, ms: int) -> int:
    """Return the microseconds of a value that Arrow read as `us` and `ms`, or an end of int64.

    Spark wraps values outside its own range and before the first Julian day: the day and its nanoseconds become
    negative. The same arithmetic reverses it.
    """
    days = ms // _DAY_MS
    if days + _EPOCH < _NEGATIVE:
        return min(days * _DAY + (us - days * _DAY) % _WORD, LAST)
    days = -((_NANOSECONDS_MS - ms) // _DAY_MS)  # the nanoseconds were read as unsigned
    of_day = (us - days * _DAY) % _WORD - _NANOSECONDS_US
    if abs(of_day) > _DAY:
        return LAST
    signed = days - 2 * _NEGATIVE
    return (signed * _DAY + of_day + 2**63) % _WORD + FIRST
