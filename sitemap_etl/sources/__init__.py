"""Sources to raw rows: databases, exports in CSV, JSON lines and Parquet, SQL over exports, tables of a lakehouse.

`plan_*` cuts a source into splits, `read` streams one of them in batches of at most
`limits.BATCH_ROWS` rows and `limits.BATCH_BYTES` bytes, `probe_*` looks at its columns. This edge
takes plain arguments, and tells every error of a driver as one of `sitemap_etl.errors`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.connections import Connection
from sitemap_etl.settings import CsvExport, CsvFormat, JsonlExport, ParquetExport
from sitemap_etl.sources.database import clock, count_rows, probe_database, read_database
from sitemap_etl.sources.file_columns import Needed
from sitemap_etl.sources.files import File, Paths
from sitemap_etl.sources.losses import split_losses
from sitemap_etl.sources.parameters import Value, names
from sitemap_etl.sources.ranges import plan_database
from sitemap_etl.sources.session import Session
from sitemap_etl.sources.snapshots import SharedSnapshot
from sitemap_etl.sources.splits import (
    GONE,
    LINES,
    ORDER,
    LineNumbers,
    Split,
    columns_of,
    guess_rows,
    pack_schema,
    unpack_schema,
)

if TYPE_CHECKING:
    from sitemap_etl.sources.files import Note

__all__ = [
    "GONE",
    "LINES",
    "ORDER",
    "Export",
    "File",
    "LineNumbers",
    "Needed",
    "Session",
    "SharedSnapshot",
    "Split",
    "Value",
    "clock",
    "columns",
    "count_rows",
    "guess_rows",
    "named_parameters",
    "pack_schema",
    "plan_csv",
    "plan_database",
    "plan_export",
    "plan_jsonl",
    "plan_parquet",
    "plan_query",
    "probe_database",
    "read",
    "read_database",
    "split_losses",
    "unpack_schema",
]

Export = CsvExport | JsonlExport | ParquetExport


def plan_csv(paths: Paths, form: CsvFormat | None = None, **options: Any) -> list[Split]:
    """See `csv_files.plan_csv`."""
    from sitemap_etl.sources import csv_files

    return csv_files.plan_csv(paths, form, **options)


def plan_jsonl(paths: Paths, **options: Any) -> list[Split]:
    """See `jsonl_files.plan_jsonl`."""
    from sitemap_etl.sources import jsonl_files

    return jsonl_files.plan_jsonl(paths, **options)


def plan_parquet(paths: Paths, **options: Any) -> list[Split]:
    """See `parquet_files.plan_parquet`."""
    from sitemap_etl.sources import parquet_files

    return parquet_files.plan_parquet(paths, **options)


def plan_export(
    export: Export,
    *,
    split_rows: int = limits.SPLIT_ROWS,
    note: Note | None = None,
    needed: Needed | None = None,
    files: Sequence[File] | None = None,
) -> list[Split]:
    """The splits of an export of any kind. `note` is told what a person should know of the files.

    `needed`: columns that its files should have. `files`: those of the export, where they were found before.
    Raises `InvalidSource`, `Refused`, `Unavailable`.
    """
    paths = export.paths if files is None else files
    found: dict[str, Any] = {"pays": export.requester_pays, "verify": export.verify, "note": note, "needed": needed}
    if isinstance(export, CsvExport):
        return plan_csv(paths, export, **found)
    if isinstance(export, JsonlExport):
        return plan_jsonl(paths, **found)
    return plan_parquet(paths, **found, split_rows=split_rows)


def plan_query(tables: Mapping[str, Export], sql: str, **options: Any) -> list[Split]:
    """See `query.plan_query`."""
    from sitemap_etl.sources import query

    return query.plan_query(tables, sql, **options)


def read(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    connection: Connection | None = None,
    query: str | None = None,
    params: Mapping[str, Value] | None = None,
    session: Session | None = None,
    snapshot: str | None = None,
    lines: LineNumbers | None = None,
    dates: Collection[str] = (),
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of any split in batches; all batches have one schema, and an empty source yields none.

    `columns`: those wanted of an export or a table, others are not read. `connection`, `query`: of a database;
    `params`: of a SELECT, as they were planned; `session`: what the database's sessions are told; `snapshot`: see
    `SharedSnapshot`. `lines`: of text, wanted as the column `LINES`. `dates`: columns of a database whose dates
    outside the years 1 to 9999 are kept; in its other columns they are null.
    Raises `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    if split.kind == "database":
        if connection is None or query is None:
            raise TypeError("a split of a database is read with connection and query")
        return read_database(
            split,
            connection,
            query,
            params,
            session=session,
            snapshot=snapshot,
            dates=dates,
            batch_rows=batch_rows,
            batch_bytes=batch_bytes,
        )
    if split.kind == "csv":
        from sitemap_etl.sources.csv_files import read_csv

        return read_csv(split, columns=columns, lines=lines, batch_rows=batch_rows, batch_bytes=batch_bytes)
    if split.kind == "jsonl":
        from sitemap_etl.sources.jsonl_files import read_jsonl

        return read_jsonl(split, columns=columns, lines=lines, batch_rows=batch_rows, batch_bytes=batch_bytes)
    if split.kind == "parquet":
        from sitemap_etl.sources.parquet_files import read_parquet

        return read_parquet(split, columns=columns, batch_rows=batch_rows, batch_bytes=batch_bytes)
    if split.kind == "table":
        from sitemap_etl.sources.lake import read_table

        return read_table(split, columns=columns, params=params, batch_rows=batch_rows, batch_bytes=batch_bytes)
    from sitemap_etl.sources.query import read_query

    return read_query(split, columns=columns, params=params, batch_rows=batch_rows, batch_bytes=batch_bytes)


def named_parameters(connection: Connection, query: str) -> set[str]:
    """The names of the parameters that a SELECT binds."""
    return names(query, connection.dialect)


def columns(split: Split) -> pa.Schema:
    """The columns that reading the split gives, known since it was planned."""
    return columns_of(split.detail)
