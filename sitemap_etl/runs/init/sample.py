"""The first rows of a source, converted to types that Python can represent."""

from __future__ import annotations

from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from sitemap_etl.arrow import is_list, single, with_elements, with_fields
from sitemap_etl.instants import in_calendar, in_unit


def readable(rows: pa.Table) -> pa.Table:
    """Return the rows with times in microseconds or coarser, and text for bytes that are UTF-8.

    Times and dates outside the years 1 to 9999 become null. Maps stay unchanged.
    """
    columns = [_readable(single(column)) for column in rows.columns]
    return pa.table(columns, names=rows.column_names)


def _readable(column: pa.Array) -> pa.Array:
    kind = column.type
    if is_list(kind):
        return with_elements(column, _readable(pc.list_flatten(column)))
    if pt.is_struct(kind):
        return with_fields(column, [_readable(field) for field in column.flatten()])
    if pt.is_temporal(kind):
        return _of_our_calendar(column)
    if pt.is_binary(kind) or pt.is_fixed_size_binary(kind):
        with suppress(pa.ArrowInvalid):
            return column.cast(pa.binary()).cast(pa.string())
    return column


def _of_our_calendar(column: pa.Array) -> pa.Array:
    kind = column.type
    if pt.is_timestamp(kind):
        zone = None if kind.tz is None else "UTC"  # Python can lack the other one
        column = in_unit(column, pa.timestamp("us" if kind.unit == "ns" else kind.unit, zone))
    elif pt.is_date64(kind):
        return in_calendar(column.view(pa.timestamp("ms"))).cast(pa.date32(), safe=False)
    elif not pt.is_date32(kind):
        return pa.nulls(len(column), pa.string())  # times of day and durations can't date a page
    return in_calendar(column)
