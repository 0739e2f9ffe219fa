"""Folders that are tables: Delta Lake, Apache Iceberg, Apache Hudi.

The Parquet files in such a folder belong to all versions of the table, including deleted and replaced rows. Only the
table's log shows the valid ones. Read as plain files, they would restore every deleted row.

- Delta: `_delta_log/` (https://github.com/delta-io/delta/blob/master/PROTOCOL.md)
- Iceberg: `metadata/*.metadata.json`, also compressed (https://iceberg.apache.org/spec/)
- Hudi: `.hoodie/` (https://hudi.apache.org/tech-specs/)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from sitemap_etl.errors import InvalidSource

_MARKERS: Final = re.compile(
    r"(?P<folder>(?:.*/)?)(?:(?P<delta>_delta_log/)|(?P<hudi>\.hoodie/)"
    r"|(?P<iceberg>metadata/[^/]*\.metadata\.json(?:\.gz)?$))"
)
FOLDERS: Final = ("_delta_log/", ".hoodie/", "metadata/")
"""Folders that identify a table. In the last one, only some names count."""
_KINDS: Final = {"delta": "a Delta table", "hudi": "a Hudi table", "iceberg": "an Iceberg table"}
_READ_INSTEAD: Final = {
    "delta": "Read it as a table, with delta: {} instead of parquet:",
    "iceberg": "Read it as a table, with iceberg: and its name in its catalog instead of parquet:",
    "hudi": "Export a snapshot of the table and name that instead; with Spark: "
    "spark.read.format('hudi').load('{}').write.parquet('export')",
}


def table_of(name: str) -> tuple[str, str] | None:
    """Return the folder ("" or with a slash at its end) and kind of the table that an object belongs to, or None."""
    found = _MARKERS.match(name)
    return None if found is None else (found["folder"], str(found.lastgroup))


def folders_of(names: Iterable[str]) -> Iterator[str]:
    """Yield every folder above these names once, each with a slash at its end. "" is the top."""
    seen: set[str] = set()
    for name in names:
        folder = name.rpartition("/")[0]
        while folder not in seen:
            seen.add(folder)
            yield f"{folder}/" if folder else ""
            folder = folder.rpartition("/")[0]


def table_on_disk(paths: Iterable[str]) -> tuple[str, str] | None:
    """Return the first table that contains one of these files, or None."""
    for folder in folders_of(str(Path(path).absolute()) for path in paths):
        for marker in FOLDERS:
            place = Path(folder or "/") / marker
            names = place.glob("*.metadata.json*") if marker == FOLDERS[-1] else [place / "-"] if place.is_dir() else []
            for name in names:
                found = table_of(name.as_posix())
                if found is not None:
                    return found
    return None


def refused(asked: str, table: tuple[str, str]) -> InvalidSource:
    """Return the error for a folder or a pattern that reads a table's files."""
    folder, kind = table
    place = folder.rstrip("/") or "/"
    return InvalidSource(
        f"{asked} reads the files of {_KINDS[kind]} ({place}): rows that were deleted or replaced are in them too, and "
        f"would be listed again. {_READ_INSTEAD[kind].format(place)}. Or name the files of one version each by itself"
    )
