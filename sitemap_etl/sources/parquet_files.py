"""Parquet exports: planned as row groups, read in batches; nothing is copied."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources import int96
from sitemap_etl.sources.batches import conform, fit, is_unusual, plain_schema, read_rows
from sitemap_etl.sources.files import (
    File,
    Note,
    Paths,
    RemoteFile,
    ahead,
    check_unchanged,
    each,
    locate,
    reading,
    translated,
)
from sitemap_etl.sources.formats import FIRST, advice
from sitemap_etl.sources.partitions import fields, partitions, with_partitions
from sitemap_etl.sources.splits import Split, pack_schema, unpack_schema

SUFFIXES: Final = (".parquet", ".pq")
_BUFFER_BYTES: Final = 1024 * 1024
_SHOWN: Final = 100
"""Bytes of a name that a message shows."""
_GAP: Final = 512 * 1024
"""Bytes between two chunks that are fetched with them: another request takes longer."""


_DAMAGED: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What a Parquet reader raises over a damaged file; the last one for names in its footer."""


class Export(Frozen):
    """A Parquet file: its schema in plain types; rows and compressed bytes of each row group.

    `reread`: a dataset of Arrow reads some columns wrongly, or not at all (INT96, UUIDs).
    """

    file: File
    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]
    reread: bool = False


class _Piece(Frozen):
    """Neighbouring row groups of one file."""

    file: int
    first: int
    last: int


def plan_parquet(
    paths: Paths,
    *,
    pays: bool = False,
    note: Note | None = None,
    split_rows: int = limits.SPLIT_ROWS,
    split_bytes: int = limits.SPLIT_BYTES,
) -> list[Split]:
    """The splits of Parquet files: row groups of big files, several small files together.

    A split holds about `split_rows` rows or `split_bytes` compressed bytes, and at least one row group; where
    that would be more than `limits.SPLITS_PER_SECTION`, they grow. `pays`, `note`: see `locate`.
    Columns that a file lacks are null.
    Raises `InvalidSource` (no such file, cut off, not Parquet, columns of different types), `Refused`, `Unavailable`.
    """
    exports = look(locate(paths, SUFFIXES, pays=pays, note=note))
    columns = _columns(exports, note)
    bundles = _bundles(exports, split_rows, split_bytes)
    splits = []
    for bundle in bundles:
        used = [exports[piece.file].file for piece in bundle]
        detail = {
            "files": [file.to_json() for file in used],
            "row_groups": [[piece.first, piece.last] for piece in bundle],
            **columns,
        }
        held = sum(rows for piece in bundle for rows, _ in exports[piece.file].groups[piece.first : piece.last])
        splits.append(Split("parquet", _label(bundle, exports), detail, held))
    return splits


def read_parquet(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split, of `columns` only where given (in that order; unknown ones left out).

    Raises `InvalidSource`, `Refused`, and `Unavailable` where a file changed since it was planned.
    """
    schema = unpack_schema(split.detail["schema"])
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
    keys = split.detail.get("partitions", {})
    own = pa.schema([entry for entry in schema if entry.name not in keys])
    files = [File(*file) for file in split.detail["files"]]
    check_unchanged(files)
    every = [[0, None]] * len(files)
    for file, (first, last) in zip(ahead(files), split.detail.get("row_groups", every), strict=True):
        try:
            batches = _batches(file, first, last, own, batch_rows=batch_rows, batch_bytes=batch_bytes)
            batches = with_partitions(batches, file, keys)
            yield from fit(batches, label=file.path, schema=schema, batch_rows=batch_rows, batch_bytes=batch_bytes)
        except InvalidSource:
            # A file that is written over is a broken file for a moment.
            check_unchanged([file])
            raise
    check_unchanged(files)


def described(files: Sequence[File], *, note: Note | None = None) -> dict[str, Any]:
    """What a split says of these files: their columns. Raises as `plan_parquet`."""
    return _columns(look(files), note)


def _columns(exports: Sequence[Export], note: Note | None) -> dict[str, Any]:
    schema = one_schema(exports)
    keys = partitions([export.file for export in exports], schema.names, text=False, note=note)
    described = {"schema": pack_schema(pa.schema([*schema, *fields(keys)])), "partitions": keys}
    mixed = any(
        pt.is_timestamp(entry.type) and entry.type != schema.field(entry.name).type
        for export in exports
        for entry in export.schema
    )
    return described | ({"reread": True} if mixed or any(export.reread for export in exports) else {})


def look(files: Sequence[File]) -> list[Export]:
    """The footers of the files. Raises `InvalidSource` for one that is no whole Parquet file."""
    return each(_export, files)


def one_schema(exports: Sequence[Export]) -> pa.Schema:
    """One schema for all: every column of every file, numbers widened.

    Raises `InvalidSource` that names two files where a column's types have nothing in common.
    """
    known: dict[str, tuple[pa.DataType, str]] = {}
    for export in exports:
        for entry in export.schema:
            kind, path = known.get(entry.name, (entry.type, export.file.path))
            known[entry.name] = (_common(entry, kind, path, export.file.path), path)
    return pa.schema([(name, kind) for name, (kind, _) in known.items()])


def _common(entry: pa.Field, kind: pa.DataType, path: str, other: str) -> pa.DataType:
    if entry.type == kind:
        return kind
    if pt.is_timestamp(kind) and pt.is_timestamp(entry.type) and kind.tz == entry.type.tz:
        units = {kind.unit, entry.type.unit}
        # Nanoseconds reach from 1677 to 2262 only, so they give way.
        return pa.timestamp("us" if "us" in units or "ns" in units else "ms", kind.tz)
    pair = [pa.schema([(entry.name, kind)]), pa.schema([(entry.name, entry.type)])]
    try:
        return pa.unify_schemas(pair, promote_options="permissive").field(0).type
    except pa.ArrowException as error:
        raise InvalidSource(
            f"the column {entry.name!r} is {kind} in {path} and {entry.type} in {other}: "
            "the files of one section need types that go together"
        ) from error


def _export(file: File) -> Export:
    try:
        with reading(file) as opened:
            export = pq.ParquetFile(opened, coerce_int96_timestamp_unit=int96.UNIT)
            metadata = export.metadata
            schema = plain_schema(export.schema_arrow, label=file.path)
            reread = bool(int96.int96_columns(metadata)) or any(map(is_unusual, export.schema_arrow.types))
            groups = [_weight(metadata.row_group(at)) for at in range(metadata.num_row_groups)]
    except SitemapEtlError:
        raise
    except _DAMAGED as error:
        raise broken(error, file) from error
    return Export(file, schema, tuple(groups), reread)


def _weight(group: Any) -> tuple[int, int]:
    """Return the rows and compressed bytes of a row group.

    Raises UnicodeDecodeError if the name of a column is damaged: other parts of the footer may be, too.
    """
    chunks = [group.column(at) for at in range(group.num_columns)]
    assert all(isinstance(chunk.path_in_schema, str) for chunk in chunks)  # names are decoded as they are asked for
    return group.num_rows, sum(chunk.total_compressed_size for chunk in chunks)


def broken(error: BaseException, file: File) -> SitemapEtlError:
    """The error of a Parquet reader as one of ours."""
    if isinstance(error, UnicodeDecodeError):
        shown = bytes(error.object)[:_SHOWN]
        return InvalidSource(
            f"{file.path}: the footer names a column {shown!r}, which is not UTF-8. The file is damaged, or its writer "
            "used another encoding: write it again with names in UTF-8"
        )
    problem = translated(error, file.path)
    if isinstance(problem, InvalidSource) and not isinstance(error, FileNotFoundError):
        detail = str(error).strip().partition("\n")[0]
        with suppress(SitemapEtlError, OSError), reading(file, stream=True) as stream:
            what = advice(file.path, stream.read(FIRST), "parquet")
            if what is not None:
                return InvalidSource(f"{file.path} is not a Parquet file; {what}")
        return InvalidSource(
            f"{file.path} is not a whole Parquet file, it may be cut off ({file.size:,} bytes): {detail}"
        )
    return problem


def _batches(
    file: File, first: int, last: int | None, schema: pa.Schema, *, batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    try:
        with reading(file) as opened:
            remote = opened.object if isinstance(opened, RemoteFile) else None
            buffered = 0 if remote else _BUFFER_BYTES
            export = pq.ParquetFile(opened, buffer_size=buffered, coerce_int96_timestamp_unit=int96.UNIT)
            metadata = export.metadata
            last = metadata.num_row_groups if last is None else last
            timed = [name for name in int96.int96_columns(metadata) if name in schema.names]
            checked = (
                pq.ParquetFile(
                    opened, metadata=metadata, buffer_size=buffered, coerce_int96_timestamp_unit=int96.CHECKED
                )
                if timed
                else None
            )
            names = [name for name in export.schema_arrow.names if name in schema.names]
            rows = read_rows(schema, _row_bytes(metadata, first, last, names), batch_rows, batch_bytes)
            runs = [[group] for group in range(first, last)] if remote else [list(range(first, last))]
            for run in runs:
                if remote is not None:  # whole column chunks, one row group at a time; on disk a small buffer does
                    remote.fetch(_spans(metadata, run[0], names))
                batches = export.iter_batches(batch_size=rows, row_groups=run, columns=names, use_threads=False)
                if checked is not None:
                    checks = checked.iter_batches(batch_size=rows, row_groups=run, columns=timed, use_threads=False)
                    batches = int96.unwrapped(batches, checks, timed)
                for batch in batches:
                    yield batch if names or not schema.names else conform(batch, schema)
    except SitemapEtlError:
        raise
    except _DAMAGED as error:
        raise broken(error, file) from error


def _spans(metadata: Any, at: int, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the byte ranges of the chunks of these columns; neighbours are joined."""
    spans: list[tuple[int, int]] = []
    group = metadata.row_group(at)
    for index, column in enumerate(_tops(metadata)):
        if column in names:
            chunk = group.column(index)
            pages = (chunk.dictionary_page_offset, chunk.data_page_offset)
            start = min(page for page in pages if page)
            spans.append((start, start + chunk.total_compressed_size))
    joined: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if joined and start <= joined[-1][1] + _GAP:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1])
        else:
            joined.append((start, stop))
    return joined


def _row_bytes(metadata: Any, first: int, last: int, names: Sequence[str]) -> float:
    """Bytes a row takes once decoded, as the footer knows it: dictionaries make it too small."""
    chosen = [index for index, column in enumerate(_tops(metadata)) if column in names]
    size = rows = 0
    for at in range(first, last):
        group = metadata.row_group(at)
        rows += group.num_rows
        size += sum(group.column(index).total_uncompressed_size for index in chosen)
    return size / rows if rows else 0.0


def _tops(metadata: Any) -> list[str]:
    """Return the column that each chunk of a row group belongs to."""
    return [metadata.schema.column(at).path.partition(".")[0] for at in range(metadata.num_columns)]


def _bundles(exports: Sequence[Export], rows: int, size: int) -> list[list[_Piece]]:
    """Row groups in order, in bundles of about equal weight: no full ones and a rest."""
    weights = [[max(held / rows, taken / size) for held, taken in export.groups] for export in exports]
    total = sum(map(sum, weights))
    count = min(max(math.ceil(total), 1), limits.SPLITS_PER_SECTION)
    bundles: list[list[_Piece]] = [[] for _ in range(count)]
    before = 0.0
    for at, groups in enumerate(weights):
        for group, weight in enumerate(groups):
            # The middle of a row group decides on which side of a border it falls.
            middle = (before + weight / 2) / total if total else 0.0
            bundle = bundles[min(int(middle * count), count - 1)]
            before += weight
            if bundle and bundle[-1].file == at:
                bundle[-1] = _Piece(at, bundle[-1].first, group + 1)
            else:
                bundle.append(_Piece(at, group, group + 1))
    return [bundle for bundle in bundles if bundle] or [[]]


def _label(bundle: Sequence[_Piece], exports: Sequence[Export]) -> str:
    if not bundle:
        return f"{exports[0].file.path} (no rows)"
    if len(bundle) > 1:
        return f"{exports[bundle[0].file].file.path} and {len(bundle) - 1} more"
    piece = bundle[0]
    path, groups = exports[piece.file].file.path, len(exports[piece.file].groups)
    return path if piece.last - piece.first == groups else f"{path} row groups {piece.first}-{piece.last - 1}"
