"""Store a mirror: the rows of a source as extracted, by key. A run that reads only changes merges them into it.

A row's key is text; its *slot* is the first byte of the key's hash. A mirror has a power of two of buckets, at most
`SLOTS`, each with a range of slots. A bucket has a base file and up to `DELTAS` deltas. All are Parquet files that are
verified whole before they are decoded. Newer files win, and a row of a delta can mark its key as deleted. Each row has
the source's columns, its key, and the run that read it.
"""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sitemap_etl import limits
from sitemap_etl.arrow import column_of, single
from sitemap_etl.errors import DamagedState, InvalidSource
from sitemap_etl.hashes import hash64
from sitemap_etl.sources import GONE, ORDER
from sitemap_etl.state import layout
from sitemap_etl.state.records import Mirror, MirrorBucket, MirrorFile
from sitemap_etl.state.store import read_document
from sitemap_etl.storage import Storage

SLOTS: Final = 256
DELTAS: Final = 8
"""Largest number of deltas of a bucket. The next one is folded into a new base."""
FOLD: Final = 10
"""Deltas are folded into a new base too when they have one row per this many rows of the base."""
BUCKET_ROWS: Final = 2_000_000
BUCKET_BYTES: Final = 128 * 1024 * 1024
"""Planned size of a bucket: rows, and bytes as staged."""
KEY: Final = "sitemap_etl:key"
RUN: Final = "sitemap_etl:run"
OWN: Final = (KEY, RUN, GONE, ORDER)
"""Reserved columns. Sources must not have columns with these names."""
_GROUP_ROWS: Final = 100_000
"""Rows of a row group, which is decoded at once."""
_HEX: Final = np.frombuffer(b"0123456789abcdef", np.uint8)


def key_text(column: pa.Array | pa.ChunkedArray, name: str) -> pa.Array:
    """Return the keys as text, null if a row has none (null or blank): numbers as digits, bytes and UUIDs in
    hexadecimal.

    Raise InvalidSource for types that can't be keys.
    """
    array = single(column)
    if isinstance(array, pa.ChunkedArray):  # no chunk at all
        array = pa.array([], column.type)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    kind = array.type
    if pa.types.is_dictionary(kind):
        return key_text(array.dictionary_decode(), name)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind) or pa.types.is_large_binary(kind):
        return _hexadecimal(array.cast(pa.binary()))
    if pa.types.is_floating(kind) or pa.types.is_nested(kind) or pa.types.is_boolean(kind):
        raise InvalidSource(
            f"key: {name} is {kind}, which can't be a key: a whole number, text, bytes, a date or a decimal is expected"
        )
    text = array.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _hexadecimal(array: pa.Array) -> pa.Array:
    """Return bytes as hexadecimal text, null for null or empty bytes."""
    offsets = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.frombuffer(array.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    digits = np.stack((_HEX[data >> 4], _HEX[data & 15]), axis=1).ravel()
    ends = pa.py_buffer(((offsets - offsets[0]) * 2).astype(np.int32))
    text = pa.Array.from_buffers(pa.string(), len(array), [None, ends, pa.py_buffer(np.ascontiguousarray(digits))])
    filled = pc.and_(pc.is_valid(array), pc.greater(pc.binary_length(array), 0))
    return pc.if_else(pc.fill_null(filled, False), text, pa.scalar(None, pa.string()))


def slots(keys: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return the slot of each key: uint8."""
    return (hash64(keys) >> np.uint64(56)).astype(np.uint8)


def buckets_for(rows: int, size: int) -> int:
    """Return the number of buckets for this many rows and staged bytes: a power of two."""
    wanted = max(-(-rows // BUCKET_ROWS), -(-size // BUCKET_BYTES), 1)
    return min(SLOTS, 1 << (wanted - 1).bit_length())


def slots_of(bucket: int, buckets: int) -> tuple[int, int]:
    """Return the slots of a bucket: first, and past the last."""
    width = SLOTS // buckets
    return bucket * width, (bucket + 1) * width


def read_mirror(work: Storage, key: str) -> Mirror:
    """Return a version of a mirror. Raise DamagedState if it is missing or damaged."""
    try:
        found = read_document(work, key, Mirror)
    except DamagedState as error:
        raise DamagedState(f"{error}. Or run with --full, which reads everything and makes the mirror again") from error
    if found is None:
        raise DamagedState(f"{work.url_of(key)} is missing, although {layout.CURRENT} refers to it. {_REMEDY}")
    return found[0]


_REMEDY: Final = "Restore it from a backup of the state, or run with --full, which reads everything and makes it again"


class MirrorWriter:
    """Writer of a mirror's file to a local path. Small tables are combined. `put` stores the file in the state."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        self._path = path
        self._writer = pq.ParquetWriter(path, schema, compression="zstd", compression_level=1)
        self.schema = schema
        self._pending: list[pa.Table] = []
        self._pending_rows = 0

    def write(self, rows: pa.Table) -> None:
        """Append rows. They have the schema's columns in any order."""
        if not rows.num_rows:
            return
        self._pending.append(rows.select(self.schema.names).cast(self.schema))
        self._pending_rows += rows.num_rows
        self.rows += rows.num_rows
        if self._pending_rows >= _GROUP_ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.concat_tables(self._pending), row_group_size=_GROUP_ROWS)
            self._pending, self._pending_rows = [], 0

    def put(self, work: Storage, key: str) -> MirrorFile:
        """Store the file and return its record."""
        self._flush()
        self._writer.close()
        with self._path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        stat = work.put(key, self._path)
        return MirrorFile(key, self.rows, stat.size, digest)


def stored_rows(
    work: Storage, buckets: Sequence[MirrorBucket], newer: Sequence[pa.Array], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of buckets, the newest of each key, without deleted keys and without the keys in `newer`.

    `columns`: source columns to read; None means all. Each table has KEY and RUN too.
    """
    for bucket in buckets:
        keys = list(newer)
        for file in [*reversed(bucket.deltas), *([] if bucket.base is None else [bucket.base])]:
            later = pa.chunked_array(keys, pa.string())
            for table in _read(work, file, columns):
                rows = table
                if len(later):
                    rows = rows.filter(pc.invert(pc.is_in(rows.column(KEY), later)))
                if GONE in rows.column_names:
                    keys.append(column_of(table, KEY))
                    rows = rows.filter(pc.invert(rows.column(GONE))).drop_columns([GONE])
                if rows.num_rows:
                    yield rows


def bucket_of(key: str, buckets: int) -> int:
    """Return the bucket of a key."""
    return int(slots(pa.array([key], pa.string()))[0]) * buckets // SLOTS


def rows_with_key(work: Storage, mirror: Mirror, key: str) -> pa.Table | None:
    """Return all versions of a key's row in the mirror, as read, or None if it has none."""
    found = []
    for file in mirror.buckets[bucket_of(key, len(mirror.buckets))].files():
        for table in _read(work, file, None):
            rows = table.filter(pc.equal(table.column(KEY), key))
            if rows.num_rows:
                found.append(rows)
    return pa.concat_tables(found, promote_options="permissive") if found else None


def without_keys(work: Storage, mirror: Mirror, keys: Collection[str], run_id: str) -> Mirror:
    """Return the mirror without any row of these keys. Files that have such rows are written again."""
    buckets = list(mirror.buckets)
    lost = pa.array(sorted(keys), pa.string())
    for at in {bucket_of(key, len(buckets)) for key in keys}:
        old = buckets[at]
        kept = {file.key: _without(work, file, lost, mirror.section, run_id) for file in old.files()}
        deltas = tuple(new for file in old.deltas if (new := kept[file.key]) is not None)
        buckets[at] = replace(old, base=None if old.base is None else kept[old.base.key], deltas=deltas)
    return replace(mirror, buckets=tuple(buckets))


def _without(work: Storage, file: MirrorFile, keys: pa.Array, section: str, run_id: str) -> MirrorFile | None:
    """Return the file without rows of these keys: the same file if it has none, None if it has no other rows."""
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        writer: MirrorWriter | None = None
        for table in _read(work, file, None):
            if writer is None:
                writer = MirrorWriter(Path(scratch) / "mirror.parquet", table.schema.remove_metadata())
            writer.write(table.filter(pc.invert(pc.is_in(table.column(KEY), keys))))
        if writer is None or writer.rows == file.rows:
            return file
        return writer.put(work, layout.mirror_file(section, run_id, secrets.token_hex(6))) if writer.rows else None


def _read(work: Storage, file: MirrorFile, columns: Sequence[str] | None) -> Iterator[pa.Table]:
    """Yield the rows of a file in batches, after verifying its bytes. Raise DamagedState."""
    stored = work.get(file.key)
    where = work.url_of(file.key)
    if stored is None:
        raise DamagedState(f"{where} is missing, although the mirror of its section refers to it. {_REMEDY}")
    if stored.sha256 != file.sha256:
        raise DamagedState(f"{where} is damaged: its content is not what was written. {_REMEDY}")
    opened = pq.ParquetFile(pa.BufferReader(stored.data))
    names = opened.schema_arrow.names
    wanted = None if columns is None else [name for name in names if name in columns or name in OWN]
    sizes = [opened.metadata.row_group(at).total_byte_size for at in range(opened.metadata.num_row_groups)]
    width = max(1, sum(sizes) // max(1, opened.metadata.num_rows))
    rows = int(max(1, min(limits.BATCH_ROWS, limits.BATCH_BYTES // width)))
    for batch in opened.iter_batches(rows, columns=wanted):
        yield pa.Table.from_batches([batch])
