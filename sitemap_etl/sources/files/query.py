"""SQL over exports, run by DuckDB in memory. The files are the table `source`; other tables have their own names.

The result is streamed. The SQL can only use these tables: DuckDB opens no file, uses no network and installs no
extension. The session's time zone is UTC.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.dataset

from sitemap_etl import limits
from sitemap_etl.duckdb_session import (
    MEMORY,
    ambiguous_names,
    distinct_schema,
    first_words,
    labelled,
    opened,
    restored_schema,
)
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.settings import CsvExport, JsonlExport, ParquetExport
from sitemap_etl.settings.sources import SOURCE
from sitemap_etl.sources.batches import check_names, fit, plain_schema
from sitemap_etl.sources.files import csv_files, jsonl_files, parquet_files
from sitemap_etl.sources.files.file_columns import Needed
from sitemap_etl.sources.files.files import File, Note, check_unchanged, locate, system_of
from sitemap_etl.sources.files.partitions import expression
from sitemap_etl.sources.lineage import columns_named, origin_of
from sitemap_etl.sources.parameters import Value, bind
from sitemap_etl.sources.splits import Split, columns_of, pack_schema, unpack_schema

Export = CsvExport | JsonlExport | ParquetExport
_FILES: Final[dict[str, Any]] = {"csv": csv_files, "jsonl": jsonl_files, "parquet": parquet_files}
"""Module of each kind of export."""

_FETCH_ROWS: Final = 32_768
_SCAN_ROWS: Final = 8_192
"""Rows per batch from and to DuckDB, which keeps many such batches. `fit` combines them."""
_BUFFER_BYTES: Final = 1024 * 1024


def plan_query(
    tables: Mapping[str, Export],
    sql: str,
    *,
    params: Mapping[str, Value] | None = None,
    files: Sequence[File] | None = None,
    note: Note | None = None,
    needed: Needed | None = None,
    label: str = "sql",
) -> list[Split]:
    """Return one split: the result of one SELECT over exports, which it knows as these tables. `params`: what it binds.

    `files`: those of the table `source`, if they were found before; `note`: see `locate`. `needed`: columns of the
    result; the columns that they are made from are needed of the tables.
    Raise `ConfigError`, `InvalidSource`, `Refused`, `Unavailable`.
    """
    bound, _ = bind(sql, params or {}, "duckdb", lambda name: f"${name}", label=label)
    of = {
        name: _described(export, note, _needed_of(bound, name, needed), files if name == SOURCE else None)
        for name, export in tables.items()
    }
    schemas = {name: columns_of(table) for name, table in of.items()}
    with in_memory(label, None) as database:
        _register(database, {name: distinct_schema(schema).empty_table() for name, schema in schemas.items()}, label)
        found = attempt(
            lambda: bound_select(database, sql, params or {}, label).limit(0).to_arrow_table(),
            label,
            schemas=list(schemas.values()),
        ).schema
    found = restored_schema(found)
    paths = [file[0] for table in of.values() for file in table["files"]]
    name = f"{label} over {paths[0]}" + (f" and {len(paths) - 1} more" if len(paths) > 1 else "")
    return [Split("query", name, {"sql": sql, "tables": of, "schema": pack_schema(plain_schema(found, label=label))})]


def _needed_of(sql: str, table: str, needed: Needed | None) -> Needed | None:
    """Return the columns of a table that the SELECT reads. `needed`: those of its result."""
    if needed is None:
        return None
    origins = [origin_of(sql, name) for name in needed.address]
    address = frozenset(column for origin in origins for of, column in origin.columns if of == table.casefold())
    optional = any(origin.optional for origin in origins)
    return Needed(address, columns_named(sql, needed.ruled), optional, needed.every, folded=True, warn=needed.warn)


def _described(
    export: Export, note: Note | None, needed: Needed | None, known: Sequence[File] | None
) -> dict[str, Any]:
    """Return a table as the detail of one split of all its files."""
    kind = _FILES[export.kind]
    paths = export.paths if known is None else known
    files = locate(paths, kind.SUFFIXES, pays=export.requester_pays, verify=export.verify, note=note)
    form = (export,) if isinstance(export, CsvExport) else ()
    described = kind.described(files, *form, note=note, needed=needed)
    return {"kind": export.kind, **described, "files": [file.to_json() for file in files]}


def read_query(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    params: Mapping[str, Value] | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
    memory: str = MEMORY,
) -> Iterator[pa.RecordBatch]:
    """Yield the result's rows, only `columns` if given, in that order. Unknown columns are skipped.

    `params`: as planned. Raise InvalidSource with DuckDB's message, Refused, Unavailable.
    """
    schema = unpack_schema(split.detail["schema"])
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
    # Splits of an earlier version have one table.
    tables = split.detail["tables"] if "tables" in split.detail else {"source": split.detail["of"]}
    files = [File(*file) for table in tables.values() for file in table["files"]]
    check_unchanged(files)
    try:
        readable = {name: _table(table) for name, table in tables.items()}
        found = selected(split.detail["sql"], readable, params or {}, split.label, memory)
        yield from fit(found, label=split.label, schema=schema, batch_rows=batch_rows, batch_bytes=batch_bytes)
    except InvalidSource:
        check_unchanged(files)
        raise
    check_unchanged(files)


def select(database: Any, sql: str, values: Mapping[str, Value] | None = None, *, label: str) -> Any:
    """Return the relation of one SELECT with values for `$name`. Raise InvalidSource, and DuckDB's errors."""
    statements = database.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InvalidSource(f"{label}: expected one SELECT")
    relation = database.sql(statements[0].query, params=dict(values or {}))
    check_names(relation.columns, label=label)  # DuckDB renames repeated columns in results
    return relation


class Rows:
    """A table for DuckDB that calls our reader for every scan, and keeps the scan's error."""

    def __init__(self, schema: pa.Schema, rows: Callable[[], Iterator[pa.RecordBatch]]) -> None:
        self._schema, self._rows = distinct_schema(schema), rows
        self.failed: SitemapEtlError | None = None

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self._schema, self._kept()).__arrow_c_stream__(requested_schema)

    def _kept(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._rows():
                yield labelled(batch, self._schema)
        except SitemapEtlError as error:
            self.failed = error
            raise


class _Exports(pa.dataset.FileSystemDataset):  # type: ignore[misc] # pyarrow ships no types
    """Parquet files as a dataset, so that DuckDB reads only the columns and rows that it needs.

    Limits reading ahead; by default, a dataset keeps sixteen batches of 131,072 rows of any width. `promised`: rows in
    the footers, or None in a run that an earlier version planned.
    """

    promised: int | None = None

    def scanner(self, **asked: Any) -> Any:
        made = super().scanner(**asked, batch_size=_SCAN_ROWS, batch_readahead=1, fragment_readahead=1)
        if asked.get("filter") is not None or self.promised is None:
            return made
        counted = _counted(made.to_batches(), self.promised)
        return pa.dataset.Scanner.from_batches(counted, schema=made.projected_schema)


def _counted(batches: Iterator[pa.RecordBatch], promised: int) -> Iterator[pa.RecordBatch]:
    """Yield the batches. Raise OSError if their rows differ from the footers, because a page was skipped."""
    given = 0
    for batch in batches:
        given += batch.num_rows
        yield batch
    if given != promised:
        raise OSError(f"the files gave {given:,} of {promised:,} rows, so one of them is damaged")


def selected(
    sql: str, tables: Mapping[str, Any], params: Mapping[str, Value], label: str, memory: str = MEMORY
) -> Iterator[pa.RecordBatch]:
    """Yield the result of a SELECT over tables. Raise InvalidSource, and errors of reading the tables."""
    try:
        with (
            tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch,
            in_memory(label, scratch, memory) as database,
        ):
            _register(database, tables, label)
            reader = attempt(lambda: bound_select(database, sql, params, label).to_arrow_reader(_FETCH_ROWS), label)
            schema = restored_schema(reader.schema)
            try:
                while (batch := attempt(lambda: next(reader, None), label)) is not None:
                    yield labelled(batch, schema)
            finally:
                reader.close()  # an open result owns the connection
    except InvalidSource as error:
        failed = next((table.failed for table in tables.values() if isinstance(table, Rows) and table.failed), None)
        if failed is not None:
            raise failed from error
        raise


def _table(of: Mapping[str, Any]) -> Any:
    """Return a table in a form that DuckDB can read."""
    schema = columns_of(of)
    if of["kind"] == "csv":
        return Rows(schema, lambda: csv_files.read_csv(Split("csv", "source", of)))
    if of["kind"] == "jsonl":
        return Rows(schema, lambda: jsonl_files.read_jsonl(Split("jsonl", "source", of)))
    if of.get("reread", False) or distinct_schema(schema) is not schema:
        return Rows(schema, lambda: parquet_files.read_parquet(Split("parquet", "source", of)))
    files = [File(*file) for file in of["files"]]
    options = pa.dataset.ParquetFragmentScanOptions(
        use_buffered_stream=True,
        buffer_size=_BUFFER_BYTES,
        pre_buffer=False,
        page_checksum_verification=all(file.verify for file in files),
    )
    form = pa.dataset.ParquetFileFormat(default_fragment_scan_options=options)
    system = system_of(files)
    fragments = [
        form.make_fragment(file.path, system, expression(file, of.get("partitions", {})), file_size=file.size)
        for file in files
    ]
    exports = _Exports(fragments, schema, form, system)
    exports.promised = of.get("rows")
    return exports


@contextmanager
def in_memory(label: str, scratch: str | None, memory: str = MEMORY) -> Iterator[Any]:
    """Open a database that can only use registered tables. `scratch`: as for `opened`."""
    with ExitStack() as stack:
        database = attempt(lambda: stack.enter_context(opened(scratch=scratch, memory=memory)), label)
        database.execute("SET lock_configuration = true")
        yield database


def _register(database: Any, tables: Mapping[str, Any], label: str) -> None:
    """Register the tables by name. Raise InvalidSource for a column of a type that DuckDB doesn't support."""

    def register() -> None:
        for name, table in tables.items():
            database.register(name, table)

    attempt(register, label)


def bound_select(database: Any, sql: str, params: Mapping[str, Value], label: str) -> Any:
    """Return the relation of one SELECT with its values."""
    bound, names = bind(sql, params, "duckdb", lambda name: f"${name}", label=label)
    return select(database, bound, {name: params[name] for name in names}, label=label)


def attempt(step: Callable[[], Any], label: str, *, schemas: Sequence[pa.Schema] = ()) -> Any:
    """Return the result of a step with DuckDB. `schemas`: of the tables. Raise `InvalidSource` with its message."""
    try:
        return step()
    except duckdb.OutOfMemoryException as error:
        raise InvalidSource(
            f"{label}: the query needs more memory than it may have ({MEMORY}): {first_words(error)}"
        ) from error
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        twins = next((text for schema in schemas if (text := ambiguous_names(error, schema)) is not None), None)
        if twins is not None:
            raise InvalidSource(
                f"{label}: the SELECT names a column that is not the only one: {twins}. Rename one of them in the "
                "export, or leave both out of the SELECT"
            ) from error
        said = first_words(error).partition(" Detail: Python exception")[0]  # a traceback follows
        raise InvalidSource(f"{label}: {said}") from error
