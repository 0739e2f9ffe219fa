"""The result of reading an export after changing single bytes of it, one change after the other.

    python -m tests.support.flips FILE      prints a count of each good outcome as JSON, and the other changes

A reader that crashes ends this process, and not the tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sitemap_etl import sources
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.settings import CsvExport, JsonlExport, ParquetExport

MASKS = (0x01, 0x10, 0x80, 0xFF)
"""Bits that are turned in a byte."""


def export_of(path: Path, **keys: Any) -> sources.Export:
    """Return the export of one file, by its name."""
    for kind, made in (("parquet", ParquetExport), ("jsonl", JsonlExport)):
        if f".{kind}" in path.name:
            return made(**{kind: (str(path),)}, **keys)
    return CsvExport(csv=(str(path),), **keys)


def rows(path: Path, **keys: Any) -> list[tuple[tuple[str, str | None], ...]]:
    """Return the rows of a file, their values as text."""
    found = []
    for split in sources.plan_export(export_of(path, **keys)):
        for batch in sources.read(split):
            found += [tuple((name, _text(value)) for name, value in row.items()) for row in batch.to_pylist()]
    return found


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else None if value is None else str(value)


def outcomes(path: Path, step: int) -> Iterator[tuple[int, int, str]]:
    """Yield the position and bits of each change, and its outcome: same, refused, other or nameless."""
    whole, expected = path.read_bytes(), rows(path)
    assert len(expected) > 1
    changes = [(at, mask) for at in range(len(whole)) for mask in MASKS]
    for at, mask in changes[::step]:
        changed = bytearray(whole)
        changed[at] ^= mask
        path.write_bytes(changed)
        try:
            yield at, mask, "same" if rows(path) == expected else "other"
        except SitemapEtlError as error:
            yield at, mask, "refused" if path.name in str(error) else "nameless"
    path.write_bytes(whole)


if __name__ == "__main__":
    found = list(outcomes(Path(sys.argv[1]), int(sys.argv[2])))
    counts = {kind: sum(one == kind for _, _, one in found) for kind in ("same", "refused")}
    print(json.dumps(counts | {"wrong": [one for one in found if one[2] not in counts]}))
