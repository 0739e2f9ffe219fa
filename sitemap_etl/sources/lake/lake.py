"""Lakehouse tables (Delta Lake, Apache Iceberg) as sources. All splits of a run read one version of a table.

`find_table` pins a version. `plan_table` divides it into splits of data files. `plan_changes` finds the differences
from an earlier version. `read_table` reads a split of either. Only needed columns are read, and with `filter` only
files that can have matching rows. A SELECT treats each row separately, so it has the same result for a split, for
changes, and for the whole table.

Rows of changes have two more columns: `GONE` (the row no longer exists) and `ORDER` (of rows with the same key, the
highest counts).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.batches import conform, fit
from sitemap_etl.sources.lake.lake_table import DataFile, Table, Values
from sitemap_etl.sources.parameters import Value
from sitemap_etl.sources.splits import GONE, ORDER, Split, pack_schema, unpack_schema

if TYPE_CHECKING:
    from sitemap_etl.sources.lake.rowwise import RowSelect

Kind = Literal["delta", "iceberg"]
_CHANGES: Final = pa.schema([(GONE, pa.bool_()), (ORDER, pa.int64())])


class TableSource(Frozen):
    """A table and its requested version. Without `version` and `as_of`: the newest."""

    kind: Kind
    address: str
    version: int | None = None
    as_of: datetime | None = None
    filter: Values = field(default_factory=dict)
    query: str | None = None
    params: Mapping[str, Value] = field(default_factory=dict, repr=False)
    label: str = "table"


def find_table(source: TableSource) -> Table:
    """Return the table at the requested version.

    Raise ConfigError if its library is missing, InvalidSource if the table or version doesn't exist, Refused,
    Unavailable.
    """
    if source.kind == "delta":
        from sitemap_etl.sources.lake import delta

        return delta.open_table(source.address, source.version, source.as_of)
    from sitemap_etl.sources.lake import iceberg

    return iceberg.open_table(source.address, source.version, source.as_of)


@lru_cache(maxsize=4)
def _pinned(kind: Kind, address: str, version: str, identity: str) -> Table:
    """Return the table at a version that was found before. Cached, because a process reads many splits.

    Raise Refused if another table has replaced it.
    """
    if kind == "delta":
        from sitemap_etl.sources.lake import delta

        table: Table = delta.open_table(address, int(version), None)
    else:
        from sitemap_etl.sources.lake import iceberg

        table = iceberg.open_pinned(address, version)
    if table.identity != identity:
        raise Refused(f"{address} was dropped and created again while it was read. Run again")
    return table


def columns_of(table: Table, source: TableSource) -> pa.Schema:
    """Return the columns of the rows to read. Raise InvalidSource for a SELECT that can't run over the table."""
    if source.query is None:
        return table.schema
    return _row_select(source.query, table.schema, source.label, source.params).schema


def _row_select(query: str, schema: pa.Schema, label: str, params: Mapping[str, Value] | None) -> RowSelect:
    from sitemap_etl.sources.lake.rowwise import RowSelect  # brings DuckDB along, which most runs do without

    return RowSelect(query, schema, label, params)


def plan_table(
    table: Table,
    source: TableSource,
    *,
    split_rows: int = limits.SPLIT_ROWS,
    split_bytes: int = limits.SPLIT_BYTES,
) -> list[Split]:
    """Return the splits of a version: adjacent data files, at least one split. Raises as `find_table`."""
    found = table.files(source.filter)
    schema = columns_of(table, source)
    if found is None:
        return [_split(table, source, schema, None, "")]
    return [
        _split(table, source, schema, bundle, f" part {at + 1}" if at else "")
        for at, bundle in enumerate(_bundles(found, split_rows, split_bytes))
    ]


def plan_changes(table: Table, source: TableSource, since: str) -> list[Split] | str:
    """Return the splits of changes after the version `since`, none if it is the current one.

    If the changes can't be determined, return a text with the reason. A table with a feed of changed rows has one
    split. For others, data files are compared: rows of removed files are gone, rows of new files exist.
    """
    if table.version == since:
        return []
    why = table.feed(since)
    if why is None:
        return [_split(table, source, columns_of(table, source), None, f" since version {since}", since=since)]
    try:
        before = _pinned(source.kind, source.address, since, table.identity)
        old, new = before.files(source.filter), table.files(source.filter)
    except InvalidSource as error:
        return f"version {since} of its table can't be read any more ({error})"
    if old is None or new is None:
        return f"its table does not say which rows changed: {why}"
    same = set(old) & set(new)
    removed = [file for file in old if file not in same]
    added = [file for file in new if file not in same]
    lost = before.lost([file.name for file in removed])
    if lost is not None:
        return f"version {since} of its table can't be read any more: {lost} was removed"
    splits = []
    if removed:
        columns = columns_of(before, source)
        splits.append(_split(before, source, columns, removed, f" gone since version {since}", gone=True))
    if added:
        columns = columns_of(table, source)
        splits.append(_split(table, source, columns, added, f" new since version {since}", gone=False))
    return splits


def _split(
    table: Table,
    source: TableSource,
    schema: pa.Schema,
    files: Sequence[DataFile] | None,
    which: str,
    *,
    since: str | None = None,
    gone: bool | None = None,
) -> Split:
    detail = {
        "format": source.kind,
        "table": source.address,
        "version": table.version,
        "identity": table.identity,
        "names": None if files is None else [file.name for file in files],
        "filter": {name: list(values) for name, values in source.filter.items()},
        "query": source.query,
        "schema": pack_schema(schema),
        "since": since,
        "gone": gone,
    }
    counts = [None] if files is None else [file.rows for file in files]
    rows = None if None in counts else sum(count or 0 for count in counts)  # those that were deleted among them
    return Split("table", f"{source.address} version {table.version}{which}", {**detail, "rows": rows})


def read_table(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    params: Mapping[str, Value] | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, only `columns` if given, in that order. Unknown columns are skipped.

    Rows of changes also have `GONE` and `ORDER`. `params`: parameters of the SELECT. Raises as `find_table`.
    """
    detail = split.detail
    table = _pinned(detail["format"], detail["table"], detail["version"], detail["identity"])
    schema = unpack_schema(detail["schema"])
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
    query = detail["query"]
    select = None if query is None else _row_select(query, table.schema, split.label, params)
    source = pa.schema([table.schema.field(name) for name in (schema.names if select is None else select.columns)])
    changed = detail["since"] is not None or detail["gone"] is not None
    selected = _selected(table, detail, source, schema, select)
    wanted = pa.schema([*schema, *_CHANGES]) if changed else schema
    yield from fit(selected, label=split.label, schema=wanted, batch_rows=batch_rows, batch_bytes=batch_bytes)


def _selected(
    table: Table, detail: Mapping[str, Any], source: pa.Schema, schema: pa.Schema, select: RowSelect | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split. `source`: columns to read from the table. `schema`: columns of the result."""
    if detail["since"] is not None:
        yield from _changes(table, detail, source, schema, select)
        return
    rows = (conform(batch, source) for batch in table.rows(detail["names"], source.names, detail["filter"]))
    for batch in rows if select is None else select.apply(source, rows):
        found = conform(batch, schema)
        yield found if detail["gone"] is None else _marked(found, gone=detail["gone"], order=0)


def _changes(
    table: Table, detail: Mapping[str, Any], source: pa.Schema, schema: pa.Schema, select: RowSelect | None
) -> Iterator[pa.RecordBatch]:
    for batch in table.changes(detail["since"], source.names, detail["filter"]):
        rows = conform(batch.rows, source)
        for found in [rows] if select is None else select.apply(source, [rows]):
            yield _marked(conform(found, schema), gone=bool(batch.gone), order=batch.order)


def _marked(rows: pa.RecordBatch, *, gone: bool, order: int) -> pa.RecordBatch:
    """Add the columns of changes. With equal order, existing rows count more than gone ones."""
    count = rows.num_rows
    columns = [pa.repeat(pa.scalar(gone), count), pa.repeat(pa.scalar(2 * order + (not gone), pa.int64()), count)]
    return pa.RecordBatch.from_arrays([*rows.columns, *columns], schema=pa.schema([*rows.schema, *_CHANGES]))


def _bundles(files: Sequence[DataFile], rows: int, size: int) -> list[list[DataFile]]:
    """Divide files in order into bundles of about equal weight, at least one."""
    weights = [max((file.rows or 0) / rows, file.bytes / size) for file in files]
    total = sum(weights)
    count = min(max(math.ceil(total), 1), limits.SPLITS_PER_SECTION)
    bundles: list[list[DataFile]] = [[] for _ in range(count)]
    before = 0.0
    for file, weight in zip(files, weights, strict=True):
        middle = (before + weight / 2) / total if total else 0.0
        bundles[min(int(middle * count), count - 1)].append(file)
        before += weight
    return [bundle for bundle in bundles if bundle] or [[]]
