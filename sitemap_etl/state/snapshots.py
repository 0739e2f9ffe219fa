"""Snapshots: rows of frames.SNAPSHOT, ordered by loc, as an Arrow stream that is named by the hash of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from sitemap_etl.arrow import column_of, exact
from sitemap_etl.frames import SNAPSHOT, conform, filled

_WRITE: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Files are made side by side already; handing their columns to threads costs more than it gives."""
_BATCH_ROWS: Final = 100_000
"""Rows of a snapshot that are written together. A shard has fewer."""


def snapshot_of(rows: pa.Table) -> tuple[str, memoryview]:
    """Return the SHA-256 and the bytes of a snapshot. Equal rows (frames.SNAPSHOT, ordered by loc) have equal bytes."""
    sink = pa.BufferOutputStream()
    schema = rows.select(filled(rows) or ["loc"]).schema
    with pa.ipc.new_stream(sink, schema, options=_WRITE) as writer:
        for start in range(0, max(rows.num_rows, 1), _BATCH_ROWS):
            writer.write_batch(_batch(rows.slice(start, _BATCH_ROWS), schema))
    data = memoryview(sink.getvalue())
    return hashlib.sha256(data).hexdigest(), data


class SnapshotWriter:
    """Writer of a snapshot part by part, for more rows than memory should hold. `path`: its file, made with the first
    part. `columns`: those of frames.SNAPSHOT that it has, in their order.
    """

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        self._path = path
        self._schema = schema_of(columns)
        self._writer: pa.ipc.RecordBatchStreamWriter | None = None

    def write(self, rows: pa.Table) -> None:
        """Append rows: ordered by loc, and after the rows of the parts before."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_stream(self._file, self._schema, options=_WRITE)
        for start in range(0, rows.num_rows, _BATCH_ROWS):
            self._writer.write_batch(_batch(rows.slice(start, _BATCH_ROWS), self._schema))

    def close(self) -> tuple[str, Path] | None:
        """Return the SHA-256 and the file of the snapshot, or None if it has no row."""
        if self._writer is None:
            return None
        self._writer.close()
        self._file.close()
        with self._path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest(), self._path


def read_batches(source: IO[bytes] | pa.NativeFile, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a snapshot as they were written together, with these columns; None: all of frames.SNAPSHOT."""
    schema = schema_of(SNAPSHOT.names if columns is None else columns)
    start = source.tell()
    names = pa.ipc.open_stream(source).schema.names
    included = [at for at, name in enumerate(names) if name in schema.names]
    source.seek(start)
    options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
    for batch in pa.ipc.open_stream(source, options=options):
        yield conform(batch, schema)


def schema_of(columns: Sequence[str]) -> pa.Schema:
    """Return these columns of frames.SNAPSHOT."""
    return pa.schema([SNAPSHOT.field(name) for name in columns])


def _batch(rows: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    return pa.record_batch([exact(column_of(rows, name)) for name in schema.names], schema=schema)
