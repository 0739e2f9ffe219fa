"""What all ADBC drivers share: a connection that is always closed, and a stream that keeps its error codes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from sitemap_etl.sources.session import Statement


@contextmanager
def cursor(connect: Callable[[], Any], statement: Statement, options: dict[str, str] | None = None) -> Iterator[Any]:
    """A cursor on a connection of its own; both are closed, whatever happens. Driver errors pass through."""
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
    """The batches of an executed statement, an empty one first: it tells the schema of an empty result.

    `fetch_record_batch()` would give the bare pyarrow reader, whose errors have lost their SQLSTATE
    (https://github.com/apache/arrow-adbc/issues/1523); the reader below it keeps them.
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
    """Closing may fail once the connection is lost; the error that lost it is the one to tell."""
    with suppress(Exception):  # any driver error: there is nothing left to save
        close()
