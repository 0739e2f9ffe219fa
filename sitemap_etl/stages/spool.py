"""Run files: routed rows, one lz4 Arrow message a window, whose places are kept in the receipt.

A window is read by its messages alone; nothing is listed, nothing else is touched.
"""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from sitemap_etl.partition import Routed
from sitemap_etl.storage import Storage

_OPTIONS: Final = pa.ipc.IpcWriteOptions(compression="lz4")
Places = list[list[tuple[int, int]]]
"""For each window the (start, length) of its messages, in bytes."""


class RunWriter:
    """Writes routed batches to a local file. `places` tells where each window's messages are."""

    def __init__(self, path: Path, schema: pa.Schema, windows: int) -> None:
        self.schema = schema
        self.places: Places = [[] for _ in range(windows)]
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_stream(self._file, schema, options=_OPTIONS)
        self._header = -1

    def write(self, routed: Routed) -> None:
        """Append one message for each window that has rows."""
        batches = routed.table.combine_chunks().to_batches()
        if not batches:
            return
        (batch,) = batches
        starts = routed.starts.tolist()
        for window, (start, stop) in enumerate(itertools.pairwise(starts)):
            if stop > start:
                if self._header < 0:
                    self._header = _schema_bytes(self.schema).size
                before = max(self._file.tell(), self._header)
                self._writer.write_batch(batch.slice(start, stop - start))
                self.places[window].append((before, self._file.tell() - before))

    def close(self) -> None:
        self._writer.close()
        self._file.close()


def _schema_bytes(schema: pa.Schema) -> pa.Buffer:
    return schema.serialize()


def schema_text(schema: pa.Schema) -> str:
    """A schema as it lies in a receipt."""
    return base64.b64encode(_schema_bytes(schema)).decode()


def read_messages(
    storage: Storage,
    receipt: dict[str, Any],
    windows: Sequence[int],
    columns: Sequence[str] | None = None,
) -> Iterator[pa.Table]:
    """The rows of the named windows of one run file, a table a message; of `columns` only, where given.

    `receipt`: {run: key, schema: text, places}.
    """
    if receipt["run"] is None:
        return
    header = base64.b64decode(receipt["schema"])
    schema = pa.ipc.read_schema(pa.py_buffer(header))
    included = None
    if columns is not None:
        included = [at for at, name in enumerate(schema.names) if name in columns]
    wanted = sorted(tuple(place) for window in windows for place in receipt["places"][window])
    for start, length in _joined(wanted):
        data = storage.read(receipt["run"], start, length)
        for begin, size in (p for p in wanted if start <= p[0] < start + length):
            message = memoryview(data)[begin - start : begin - start + size]
            if included is None:
                batch = pa.ipc.read_record_batch(pa.ipc.read_message(pa.py_buffer(message)), schema)
                yield pa.Table.from_batches([batch])
            else:
                stream = pa.py_buffer(header + bytes(message))
                yield pa.ipc.open_stream(stream, options=pa.ipc.IpcReadOptions(included_fields=included)).read_all()


def _joined(places: Sequence[tuple[int, ...]]) -> list[tuple[int, int]]:
    """Neighbouring places as one read each."""
    result: list[tuple[int, int]] = []
    for start, length in places:
        if result and result[-1][0] + result[-1][1] == start:
            result[-1] = (result[-1][0], result[-1][1] + length)
        else:
            result.append((start, length))
    return result
