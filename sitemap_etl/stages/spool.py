"""Read and write shuffle files: routed rows as lz4 Arrow messages, one or several per window.

The task result records the position and the checksum of each message. So a reader reads only the messages of its
window, and verifies each one before decoding. Nothing has to be listed.
"""

from __future__ import annotations

import base64
import itertools
import os
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from sitemap_etl.partition import Routed
from sitemap_etl.state.checked import checksum, spoiled
from sitemap_etl.state.records import Spool
from sitemap_etl.storage import Storage

_WRITE: Final = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
"""Without threads: tasks run in parallel already, and splitting small messages costs more than it saves."""
_READ_BYTES: Final = 32 * 1024 * 1024
"""Bytes of adjacent messages to read at once."""
Place = tuple[int, int, int]
"""Start and length of a message, in bytes, and its CRC-32."""


class SpoolWriter:
    """Writes routed batches to a local file, which `put` stores."""

    def __init__(self, path: Path, schema: pa.Schema, windows: int) -> None:
        self._path = path
        self._schema = schema
        self._places: list[list[Place]] = [[] for _ in range(windows)]
        self._file = pa.OSFile(str(path), "wb")
        self._written = path.open("rb", buffering=0)
        self._writer = pa.ipc.new_stream(self._file, schema, options=_WRITE)
        self._header = -1

    def write(self, routed: Routed, spread: int = 1) -> None:
        """Append one message for each window with rows. `spread`: number of windows that each message belongs to."""
        batches = routed.table.combine_chunks().to_batches()
        if not batches:
            return
        (batch,) = batches
        starts = routed.starts.tolist()
        for window, (start, stop) in enumerate(itertools.pairwise(starts)):
            if stop > start:
                if self._header < 0:
                    self._header = self._schema.serialize().size
                before = max(self._file.tell(), self._header)
                self._writer.write_batch(batch.slice(start, stop - start))
                place = self._place(before)
                for at in range(window * spread, (window + 1) * spread):
                    self._places[at].append(place)

    def _place(self, start: int) -> Place:
        """Return the position of everything written from `start` on."""
        size = self._file.tell() - start
        return start, size, checksum(os.pread(self._written.fileno(), size, start))

    def append(self, data: pa.Buffer) -> Place:
        """Write data that is not a row after the last one. Return its position. No rows may follow."""
        self._writer.close()
        start = self._file.tell()
        self._file.write(data)
        return self._place(start)

    def put(self, storage: Storage, key: str, borders: Sequence[str] = ()) -> Spool:
        """Put the file under a key. Return its record."""
        self._writer.close()
        self._file.close()
        self._written.close()
        storage.put(key, self._path)
        schema = base64.b64encode(self._schema.serialize()).decode()
        return Spool(key, schema, tuple(tuple(places) for places in self._places), tuple(borders))


def read_windows(
    storage: Storage, spool: Spool, windows: Iterable[int], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of these windows of a shuffle file, one table per message, with only `columns` if given."""
    return read_messages(storage, spool, [place for window in windows for place in spool.places[window]], columns)


def read_messages(
    storage: Storage, spool: Spool, places: Iterable[Place], columns: Sequence[str] | None = None
) -> Iterator[pa.Table]:
    """Yield the rows of these messages, one table per message, in file order. `columns`: columns to read; None: all.

    Raise DamagedState if the bytes of a message changed.
    """
    header = base64.b64decode(spool.schema)
    schema = pa.ipc.read_schema(pa.py_buffer(header))
    included = None
    if columns is not None:
        included = [at for at, name in enumerate(schema.names) if name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=included, use_threads=False)
    for together in _neighbours(sorted(set(places))):
        for message in read_places(storage, spool.key, together):
            if included is None:
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message)), schema)
                yield pa.Table.from_batches([batch])
            else:
                stream = pa.py_buffer(header + bytes(message))
                yield pa.ipc.open_stream(stream, options=options).read_all()


def read_places(storage: Storage, key: str, places: Sequence[Place]) -> Iterator[memoryview]:
    """Yield the bytes at these adjacent places of a shuffle file. Raise DamagedState."""
    first = places[0][0]
    data = memoryview(storage.read(key, first, sum(length for _, length, _ in places)))
    for start, length, check in places:
        message = data[start - first : start - first + length]
        if checksum(message) != check:
            raise spoiled(storage.url_of(key))
        yield message


def _neighbours(places: Sequence[Place]) -> Iterator[list[Place]]:
    """Yield lists of adjacent messages to read at once."""
    together: list[Place] = []
    size = 0
    for place in places:
        start, length, _ = place
        if together and (together[-1][0] + together[-1][1] != start or size + length > _READ_BYTES):
            yield together
            together, size = [], 0
        together.append(place)
        size += length
    if together:
        yield together


# --- indexes: positions of the messages of many spools --------------------------------------------------

INDEX: Final = pa.schema(
    [
        ("window", pa.int32()),
        ("spool", pa.int32()),
        ("start", pa.int64()),
        ("bytes", pa.int64()),
        ("check", pa.int64()),  # its CRC-32
        ("exact", pa.bool_()),  # all rows of the message are in the window
    ]
)
"""One row a window and message, ordered by window."""
Row = tuple[int, int, int, int, int, bool]


def put_index(staging: Storage, key: str, rows: Sequence[Row], groups: Sequence[tuple[int, int]]) -> Spool:
    """Stage the rows of `INDEX`, one message a group of windows (first, past the last): a task reads its own."""
    ordered = sorted(rows)
    columns = list(zip(*ordered, strict=True)) or [()] * len(INDEX)
    table = pa.table([pa.array(column, entry.type) for column, entry in zip(columns, INDEX, strict=True)], schema=INDEX)
    bounds = [first for first, _ in groups] + [groups[-1][1]]
    starts = np.searchsorted(table.column("window").to_numpy(), bounds, side="left")
    with tempfile.TemporaryDirectory(prefix="sitemap_etl-") as scratch:
        writer = SpoolWriter(Path(scratch) / "index", INDEX, len(groups))
        writer.write(Routed(table, starts))
        return writer.put(staging, key)


def read_index(staging: Storage, index: Spool, group: int) -> pa.Table:
    """Return the rows of a group: `INDEX`, ordered."""
    tables = list(read_windows(staging, index, [group]))
    return pa.concat_tables(tables).combine_chunks() if tables else INDEX.empty_table()


def index_rows(table: pa.Table) -> Iterator[Row]:
    """Yield the rows of an index as tuples."""
    return zip(*(column.to_pylist() for column in table.columns), strict=True)
