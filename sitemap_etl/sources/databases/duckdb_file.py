"""A DuckDB file, opened read-only and streamed in batches. Several processes can read it at the same time.

docs/reference/databases.md describes the conversion of types.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from sitemap_etl.connections import Connection
from sitemap_etl.duckdb_session import MEMORY, first_words, opened
from sitemap_etl.errors import Denied, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.sources.databases.session import Statement
from sitemap_etl.sources.files.query import select
from sitemap_etl.sources.parameters import Value, bind, quoted

_FETCH_ROWS: Final = 65_536
_SQLITE: Final = b"SQLite format 3\0"
"""Beginning of SQLite files: https://www.sqlite.org/fileformat.html."""
_AS_TEXT: Final = ("INTERVAL", "BIT", "TIME WITH TIME ZONE", "UHUGEINT", "BIGNUM", "UNION")
"""Types that Arrow or Parquet doesn't support, or not in their whole range."""


def rows(
    connection: Connection, sql: str, values: Mapping[str, Value], statement: Statement, *, label: str
) -> Iterator[pa.RecordBatch]:
    """Yield the result of one SELECT, an empty batch first.

    Raise ConfigError, InvalidSource, Denied, Unavailable.
    """
    path = Path(connection.schema)
    if not path.is_file():
        raise InvalidSource(f"{label}: there is no DuckDB database at {path}")
    _demand_duckdb(path, label)
    text, used = bind(sql, values, "duckdb", lambda name: f"${name}", label=label)
    try:
        with opened(str(path)) as database, statement.cancelled_by(database.interrupt):
            relation = select(database, text, {name: values[name] for name in used}, label=label)
            with closing(_cast(relation).to_arrow_reader(_FETCH_ROWS)) as reader:
                yield pa.RecordBatch.from_pylist([], schema=reader.schema)
                while (batch := next(reader, None)) is not None:
                    yield batch
    except SitemapEtlError:
        raise
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        raise _translated(error, path, label) from error


def _demand_duckdb(path: Path, label: str) -> None:
    """Raise InvalidSource for a SQLite file, which DuckDB would open with an extension.

    Other errors are left to DuckDB.
    """
    with suppress(OSError), path.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:
            raise InvalidSource(
                f"{label}: {path} is a database of SQLite: write sqlite:/// in place of duckdb:/// in its connection"
            )


def _cast(relation: Any) -> Any:
    """Return the relation with unsupported types cast to text."""
    names = [quoted(name, "duckdb") for name in relation.columns]
    awkward = [str(kind).startswith(_AS_TEXT) for kind in relation.types]
    if not any(awkward):
        return relation
    shown = [f"CAST({name} AS VARCHAR) AS {name}" if cast else name for name, cast in zip(names, awkward, strict=True)]
    return relation.project(", ".join(shown))


def _translated(error: Exception, path: Path, label: str) -> SitemapEtlError:
    message = first_words(error)
    if "Could not set lock" in message:
        return Unavailable(f"{label}: the DuckDB database {path} is being written to by another program")
    if "Permission denied" in message:
        return Denied(f"{label}: the DuckDB database {path} can't be opened: may this user read it?")
    if isinstance(error, duckdb.InterruptException):
        return Unavailable(f"{label}: reading the DuckDB database {path} was interrupted")
    if isinstance(error, duckdb.OutOfMemoryException):
        return InvalidSource(f"{label}: the SELECT needs more memory than it may have ({MEMORY}): {message}")
    return InvalidSource(f"{label}: {message}")
