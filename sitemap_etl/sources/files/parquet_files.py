"""Parquet exports: planned as row groups, read in batches, without copies."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.batches import conform, fit, read_rows
from sitemap_etl.sources.files import int96
from sitemap_etl.sources.files.file_columns import FileColumns, Needed, check_files
from sitemap_etl.sources.files.files import File, Note, Paths, RemoteFile, ahead, check_unchanged, locate, reading
from sitemap_etl.sources.files.parquet_footers import DAMAGED, Export, broken, look, one_schema, opened_parquet
from sitemap_etl.sources.files.partitions import fields, partitions, with_partitions
from sitemap_etl.sources.splits import Split, pack_schema, unpack_schema

SUFFIXES: Final = (".parquet", ".pq")
_BUFFER_BYTES: Final = 1024 * 1024
_GAP: Final = 512 * 1024
"""Bytes between two chunks that are fetched with them, because another request takes longer."""


class _Piece(Frozen):
    """Neighbouring row groups of one file."""

    file: int
    first: int
    last: int


def plan_parquet(
    paths: Paths,
    *,
    pays: bool = False,
    verify: bool = True,
    note: Note | None = None,
    needed: Needed | None = None,
    split_rows: int = limits.SPLIT_ROWS,
    split_bytes: int = limits.SPLIT_BYTES,
) -> list[Split]:
    """Return the splits of Parquet files: row groups of large files, several small files together.

    A split has about `split_rows` rows or `split_bytes` compressed bytes, and at least one row group. Splits grow if
    there would be more than `limits.SPLITS_PER_SECTION`. `pays`, `verify`, `note`: see `locate`. Columns that a file
    lacks are null. Raise InvalidSource (no such file, truncated, not Parquet, columns of different types), Refused,
    Unavailable.
    """
    exports = look(locate(paths, SUFFIXES, pays=pays, verify=verify, note=note))
    columns = _columns(exports, note, needed)
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
    """Yield the rows of a split, only `columns` if given, in that order. Unknown columns are skipped.

    Raise InvalidSource, Refused, and Unavailable if a file has changed since it was planned.
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
            # While a file is overwritten, it looks broken.
            check_unchanged([file])
            raise
    check_unchanged(files)


def described(files: Sequence[File], *, note: Note | None = None, needed: Needed | None = None) -> dict[str, Any]:
    """Return the detail of a split of these files: their columns and rows. Raises as `plan_parquet`."""
    exports = look(files)
    return _columns(exports, note, needed) | {"rows": sum(rows for export in exports for rows, _ in export.groups)}


def _columns(exports: Sequence[Export], note: Note | None, needed: Needed | None) -> dict[str, Any]:
    if needed is not None:
        rows = {export.file.path: sum(held for held, _ in export.groups) for export in exports}
        found = [(export.file.path, frozenset(export.schema.names)) for export in exports]
        check_files([FileColumns(path, names, rows[path] > 0) for path, names in found], needed)
    schema = one_schema(exports, lambda name: needed is None or needed.is_read(name), note)
    keys = partitions([export.file for export in exports], schema.names, text=False, note=note)
    described = {"schema": pack_schema(pa.schema([*schema, *fields(keys)])), "partitions": keys}
    mixed = any(
        pt.is_timestamp(entry.type) and entry.name in schema.names and entry.type != schema.field(entry.name).type
        for export in exports
        for entry in export.schema
    )
    return described | ({"reread": True} if mixed or any(export.reread for export in exports) else {})


def _batches(
    file: File, first: int, last: int | None, schema: pa.Schema, *, batch_rows: int, batch_bytes: int
) -> Iterator[pa.RecordBatch]:
    try:
        with reading(file) as opened:
            remote = opened.object if isinstance(opened, RemoteFile) else None
            buffered = 0 if remote else _BUFFER_BYTES
            export = opened_parquet(opened, file, buffer_size=buffered)
            metadata = export.metadata
            last = metadata.num_row_groups if last is None else last
            timed = [name for name in int96.int96_columns(metadata) if name in schema.names]
            checked = (
                pq.ParquetFile(
                    opened,
                    metadata=metadata,
                    buffer_size=buffered,
                    pre_buffer=False,
                    coerce_int96_timestamp_unit=int96.CHECKED,
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
                given = 0
                for batch in batches:
                    given += batch.num_rows
                    yield batch if names or not schema.names else conform(batch, schema)
                promised = sum(metadata.row_group(at).num_rows for at in run)
                if given != promised:
                    raise OSError(f"row groups {run[0]} to {run[-1]} gave {given:,} of {promised:,} rows")
    except SitemapEtlError:
        raise
    except DAMAGED as error:
        raise broken(error, file) from error


def _spans(metadata: Any, at: int, names: Sequence[str]) -> list[tuple[int, int]]:
    """Return the byte ranges of the chunks of these columns. Adjacent ranges are joined."""
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
    """Return the decoded bytes per row from the footer. Too small for dictionaries."""
    chosen = [index for index, column in enumerate(_tops(metadata)) if column in names]
    size = rows = 0
    for at in range(first, last):
        group = metadata.row_group(at)
        rows += group.num_rows
        size += sum(group.column(index).total_uncompressed_size for index in chosen)
    return size / rows if rows else 0.0


def _tops(metadata: Any) -> list[str]:
    """Return the top-level column of each chunk of a row group."""
    return [metadata.schema.column(at).path.partition(".")[0] for at in range(metadata.num_columns)]


def _bundles(exports: Sequence[Export], rows: int, size: int) -> list[list[_Piece]]:
    """Divide row groups in order into bundles of about equal weight, instead of full ones and a remainder."""
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
