"""Footers of Parquet files: content and positions, validated before anything else uses them.

https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.batches import is_unusual, plain_schema
from sitemap_etl.sources.files import int96
from sitemap_etl.sources.files.bounds import check_columns
from sitemap_etl.sources.files.files import File, Note, each, reading, translated
from sitemap_etl.sources.files.formats import FIRST, advice

_SHOWN: Final = 100
"""Bytes of a name in a message."""
DAMAGED: Final = (pa.ArrowException, OSError, UnicodeDecodeError)
"""Errors of Parquet readers for a damaged file; the last one for names in its footer."""


class Export(Frozen):
    """A Parquet file: its schema in plain types; rows and compressed bytes of each row group.

    `reread`: a dataset of Arrow reads some columns wrongly, or not at all (INT96, UUIDs).
    """

    file: File
    schema: pa.Schema
    groups: tuple[tuple[int, int], ...]
    reread: bool = False


def look(files: Sequence[File]) -> list[Export]:
    """Read the footers of the files. Raise InvalidSource for an incomplete or invalid file."""
    return each(_export, files)


def one_schema(exports: Sequence[Export], is_read: Callable[[str], bool], note: Note | None) -> pa.Schema:
    """Return a common schema: every column of every file, numbers widened.

    A column whose types have nothing in common is left out if nothing reads it, which `note` takes.
    Raise `InvalidSource` that names two files if something does.
    """
    known: dict[str, tuple[pa.DataType, str]] = {}
    unlike: dict[str, str] = {}
    for export in exports:
        for entry in export.schema:
            kind, path = known.get(entry.name, (entry.type, export.file.path))
            try:
                known[entry.name] = (_common(entry, kind, path, export.file.path), path)
            except InvalidSource as error:
                if is_read(entry.name):
                    raise
                unlike.setdefault(entry.name, str(error).partition(":")[0])
    check_columns(exports[0].file.path, len(known))
    for text in unlike.values():
        if note is not None:
            note(f"{text}. No rule names it, so it is not read")
    return pa.schema([(name, kind) for name, (kind, _) in known.items() if name not in unlike])


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
            "the files of one section need types that go together. Export the column with one type, or read such files "
            "in sections of their own"
        ) from error


def opened_parquet(opened: pa.NativeFile, file: File, *, buffer_size: int = 0) -> pq.ParquetFile:
    """Return a reader with a validated footer. INT96 is read in microseconds, and checksums of pages are verified.

    Raises an error of `DAMAGED`.
    """
    export = pq.ParquetFile(
        opened,
        buffer_size=buffer_size,
        pre_buffer=False,  # it would take the columns of whole row groups into memory
        coerce_int96_timestamp_unit=int96.UNIT,
        page_checksum_verification=file.verify,
    )
    _check_chunks(export.metadata, file.size)
    return export


class _Unread(io.RawIOBase):
    """A file of a given size that returns no bytes."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self.asked = False

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return offset if whence != io.SEEK_END else self._size + offset

    def tell(self) -> int:
        return self._size

    def read(self, size: int = -1) -> bytes:  # noqa: ARG002 - the signature of a file
        self.asked = True
        return b""  # Arrow keeps an exception, and through its traceback all that the callers hold


def _check_chunks(metadata: Any, size: int) -> None:
    """Raise OSError if the footer's description of a column chunk is damaged, without reading the file.

    pyarrow ends the process if a damaged chunk is accessed through `metadata`. Its batch reader checks all chunks first
    and raises, so it is started on a file that returns no bytes.
    """
    if not metadata.num_row_groups or not metadata.num_columns:
        return
    source = _Unread(size)
    reader = pq.ParquetFile(pa.PythonFile(source, mode="r"), metadata=metadata, pre_buffer=True)
    groups = list(range(metadata.num_row_groups))
    try:
        next(iter(reader.iter_batches(batch_size=1, row_groups=groups, use_threads=False)), None)
    except DAMAGED:
        if not source.asked:
            raise


def _export(file: File) -> Export:
    try:
        with reading(file) as opened:
            export = opened_parquet(opened, file)
            metadata = export.metadata
            schema = plain_schema(export.schema_arrow, label=file.path)
            reread = bool(int96.int96_columns(metadata)) or any(map(is_unusual, export.schema_arrow.types))
            leaves = [metadata.schema.column(at) for at in range(metadata.num_columns)]
            groups = [_weight(metadata.row_group(at), leaves, file) for at in range(metadata.num_row_groups)]
            if (held := sum(rows for rows, _ in groups)) != metadata.num_rows:
                raise OSError(f"its footer says {metadata.num_rows:,} rows, and its row groups have {held:,}")
    except SitemapEtlError:
        raise
    except DAMAGED as error:
        raise broken(error, file) from error
    return Export(file, schema, tuple(groups), reread)


def _weight(group: Any, leaves: Sequence[Any], file: File) -> tuple[int, int]:
    """Return the rows and compressed bytes of a row group.

    A footer has no checksum, but it has some values twice. Raise OSError if these differ, and UnicodeDecodeError if
    the name of a column is damaged, because other parts of the footer can be damaged too.
    """
    size = 0
    for at, leaf in enumerate(leaves):
        chunk = group.column(at)
        name = chunk.path_in_schema
        if file.verify and name != leaf.path:
            raise OSError(f"its schema has a column {leaf.path!r}, and a row group calls it {name!r}")
        if file.verify and not leaf.max_repetition_level and chunk.num_values != group.num_rows:
            raise OSError(f"a row group has {group.num_rows:,} rows, and {chunk.num_values:,} values of {name!r}")
        if chunk.total_uncompressed_size > limits.PARQUET_VALUE_BYTES * max(group.num_rows, 1):
            raise InvalidSource(
                f"{file.path}: the column {name!r} has {chunk.total_uncompressed_size:,} bytes in {group.num_rows:,} "
                f"rows, more than {limits.PARQUET_VALUE_BYTES:,} a row: leave it out of the export"
            )
        size += chunk.total_compressed_size
    return group.num_rows, size


def broken(error: BaseException, file: File) -> SitemapEtlError:
    """Translate the error of a Parquet reader."""
    if isinstance(error, UnicodeDecodeError):
        shown = bytes(error.object)[:_SHOWN]
        return InvalidSource(
            f"{file.path}: the footer names a column {shown!r}, which is not UTF-8. The file is damaged, or its writer "
            "used another encoding: write it again with names in UTF-8"
        )
    problem = translated(error, file.path)
    if isinstance(problem, InvalidSource) and not isinstance(error, FileNotFoundError):
        detail = str(error).strip().partition("\n")[0]
        if "decrypt" in detail.lower():
            return InvalidSource(f"{file.path} is encrypted, which is not supported: export it without encryption")
        with suppress(SitemapEtlError, OSError), reading(file, stream=True) as stream:
            what = advice(file.path, stream.read(FIRST), "parquet")
            if what is not None:
                return InvalidSource(f"{file.path} is not a Parquet file; {what}")
        return InvalidSource(
            f"{file.path} is not a whole Parquet file, it may be cut off ({file.size:,} bytes): {detail}"
        )
    return problem
