"""Read sources as raw rows: databases, exports (CSV, JSON lines, Parquet), SQL over exports, lakehouse tables.

`plan_*` divides a source into splits. `read` streams a split in batches of at most `limits.BATCH_ROWS` rows and
`limits.BATCH_BYTES` bytes. `probe_*` returns its columns. This package takes plain arguments, and translates drivers'
errors into `sitemap_etl.errors`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sitemap_etl import limits
from sitemap_etl.connections import Connection
from sitemap_etl.settings import CsvExport, CsvFormat, JsonlExport, ParquetExport
from sitemap_etl.sources.databases.database import clock, count_rows, probe_database, read_database
from sitemap_etl.sources.databases.losses import split_losses
from sitemap_etl.sources.databases.ranges import plan_database
from sitemap_etl.sources.databases.session import Session
from sitemap_etl.sources.databases.snapshots import SharedSnapshot
from sitemap_etl.sources.files.file_columns import Needed
from sitemap_etl.sources.files.files import File, Paths
from sitemap_etl.sources.parameters import Value, names
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
    from sitemap_etl.sources.files.files import Note

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
    from sitemap_etl.sources.files import csv_files

    return csv_files.plan_csv(paths, form, **options)


def plan_jsonl(paths: Paths, **options: Any) -> list[Split]:
    """See `jsonl_files.plan_jsonl`."""
    from sitemap_etl.sources.files import jsonl_files

    return jsonl_files.plan_jsonl(paths, **options)


def plan_parquet(paths: Paths, **options: Any) -> list[Split]:
    """See `parquet_files.plan_parquet`."""
    from sitemap_etl.sources.files import parquet_files

    return parquet_files.plan_parquet(paths, **options)


def plan_export(
    export: Export,
    *,
    split_rows: int = limits.SPLIT_ROWS,
    note: Note | None = None,
    needed: Needed | None = None,
    files: Sequence[File] | None = None,
) -> list[Split]:
    """Return the splits of an export of any kind.

    `note` is called with remarks about the files for the user. `files`: files of the export, if they were found before.
    Raise InvalidSource, Refused, Unavailable.
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
    from sitemap_etl.sources.files import query

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
    """Yield the rows of any split in batches. All batches have one schema, and an empty source yields none.

    `columns`: columns to read of an export or a table. `connection`, `query`: for a database. `params`: parameters of a
    SELECT, as planned. `session`: settings for database sessions. `snapshot`: see `SharedSnapshot`. `lines`: for text,
    fills in line numbers and adds the column `LINES`. `dates`: database columns whose dates outside the years 1 to 9999
    are kept; in other columns they become null. Raise ConfigError, InvalidSource, Refused, Unavailable.
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
        from sitemap_etl.sources.files.csv_files import read_csv

        return read_csv(split, columns=columns, lines=lines, batch_rows=batch_rows, batch_bytes=batch_bytes)
    if split.kind == "jsonl":
        from sitemap_etl.sources.files.jsonl_files import read_jsonl

        return read_jsonl(split, columns=columns, lines=lines, batch_rows=batch_rows, batch_bytes=batch_bytes)
    if split.kind == "parquet":
        from sitemap_etl.sources.files.parquet_files import read_parquet

        return read_parquet(split, columns=columns, batch_rows=batch_rows, batch_bytes=batch_bytes)
    if split.kind == "table":
        from sitemap_etl.sources.lake.lake import read_table

        return read_table(split, columns=columns, params=params, batch_rows=batch_rows, batch_bytes=batch_bytes)
    from sitemap_etl.sources.files.query import read_query

    return read_query(split, columns=columns, params=params, batch_rows=batch_rows, batch_bytes=batch_bytes)


def named_parameters(connection: Connection, query: str) -> set[str]:
    """Return the names of the parameters that a SELECT binds."""
    return names(query, connection.dialect)


def columns(split: Split) -> pa.Schema:
    """Return the columns of a split, known since it was planned."""
    return columns_of(split.detail)
