"""Shared code for ADBC drivers: a connection that is always closed, and a stream that keeps error codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from sitemap_etl.sources.databases.session import Statement


@contextmanager
def cursor(connect: Callable[[], Any], statement: Statement, options: dict[str, str] | None = None) -> Iterator[Any]:
    """Open a cursor on a new connection, and close both at the end. Driver errors pass through."""
    connection = connect()
    try:
        opened = connection.cursor(adbc_stmt_kwargs=options or {})
        try:
            with statement.cancelled_by(opened.adbc_cancel):
                yield opened
        finally:
            _quietly(opened.close)
    finally:
        _quietly(connection.close)


def stream(cursor: Any) -> Iterator[pa.RecordBatch]:
    """Yield the batches of an executed statement, an empty one first, which has the schema of an empty result.

    `fetch_record_batch()` returns the bare pyarrow reader, whose errors have lost their SQLSTATE
    (https://github.com/apache/arrow-adbc/issues/1523). The reader below it keeps them.
    """
    reader = cursor._results.reader
    yield pa.RecordBatch.from_pylist([], schema=reader.schema)
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        yield batch


def _quietly(close: Callable[[], None]) -> None:
    """Close without raising. After a lost connection, closing can fail too, and the first error matters."""
    with suppress(Exception):  # drivers raise errors of any kind
        close()
