"""Sessions of DuckDB, in memory or on a file: what they may do, and what their errors say.

A statement opens no file but the database, reaches no network and installs no extension. Time zone: UTC.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import duckdb

from sitemap_etl.errors import InvalidSource
from sitemap_etl.sources.batches import check_names
from sitemap_etl.sources.parameters import Value

MEMORY: Final = "1GiB"
"""What a statement may hold before it spills to a scratch folder, or ends where it has none."""
_SETTINGS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "preserve_insertion_order": "false",
    "python_enable_replacements": "false",
}
_SESSION: Final = (
    "TimeZone = 'UTC'",
    "enable_progress_bar = false",  # it writes to stdout after two seconds
    "enable_external_access = false",
)


@contextmanager
def opened(path: str | None = None, *, scratch: str | None = None, memory: str = MEMORY) -> Iterator[Any]:
    """A connection to a file, read-only, or to a database in memory. `scratch`: a folder to spill to.

    Raises what DuckDB raises.
    """
    settings: dict[str, Any] = {**_SETTINGS, "memory_limit": memory, "threads": str(min(4, os.cpu_count() or 1))}
    if scratch is not None:
        settings["temp_directory"] = scratch
    database = duckdb.connect(path or ":memory:", read_only=path is not None, config=settings)
    try:
        for setting in _SESSION:
            database.execute(f"SET {setting}")
        yield database
    finally:
        database.close()


def select(database: Any, sql: str, values: Mapping[str, Value] | None = None, *, label: str) -> Any:
    """The relation of one SELECT; `$name` in it stands for a value. Raises `InvalidSource`, and what DuckDB raises."""
    statements = database.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise InvalidSource(f"{label}: expected one SELECT")
    relation = database.sql(statements[0].query, params=dict(values or {}))
    check_names(relation.columns, label=label)  # its results give the second one another name
    return relation


def first_words(error: Exception) -> str:
    """DuckDB's message with the line it points at, in one line."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip(" ^\t")]
    return " ".join(lines)[:600]
