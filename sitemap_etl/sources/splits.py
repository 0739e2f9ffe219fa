"""Splits: the part of a source that one extract task reads, as plain data."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final, Literal, Self, get_args

import pyarrow as pa

from sitemap_etl.frozen import Frozen

Kind = Literal["database", "csv", "jsonl", "parquet", "query", "table"]


class Split(Frozen):
    """One unit of extraction.

    `label` names it in messages ("exports/a.parquet row groups 0-3", "catalog id 1..5000"); `detail`
    is JSON: paths with size and mark, row groups, key range, schema. It holds no secret. `rows` is
    known for Parquet and None elsewhere.
    """

    kind: Kind
    label: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a dict of JSON values; `from_json` takes it back."""
        return {"kind": self.kind, "label": self.label, "detail": dict(self.detail), "rows": self.rows}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        if data["kind"] not in get_args(Kind):
            raise ValueError(f"a split of the kind {data['kind']!r} is not known")
        return cls(data["kind"], data["label"], data["detail"], data["rows"])


_ROW_BYTES: Final = {".csv": 40, "other": 8}
"""Bytes of a row with an address and a date, as text and compressed."""


def guess_rows(split: Split) -> int | None:
    """Estimate the rows of a split from its files' size or its table. None for a database."""
    if split.kind == "table":
        return split.detail["rows"]  # type: ignore[no-any-return]  # from the plan
    files = split.detail.get("of", split.detail).get("files")
    if files is None:
        return None
    bytes_ = {str(path): int(size) for path, size, *_ in files}
    return sum(size // _ROW_BYTES.get(PurePath(path).suffix, _ROW_BYTES["other"]) for path, size in bytes_.items())


LINES: Final = "\0lines"
"""Column that reading adds on demand (int32): line number of a row minus its row number in the split."""


GONE: Final = "sitemap_etl:gone"
"""Column of changes (bool): the row no longer exists."""
ORDER: Final = "sitemap_etl:order"
"""Column of changes (int64): of rows with the same key, the highest counts."""


@dataclass
class LineNumbers:
    """Line numbers of a split's rows in its files, filled in while the split is read.

    `files`: path, and number of lines in earlier files. `known`: line numbers are certain for all rows, which is known
    at the end; parsers don't report blank lines between rows.
    """

    files: list[tuple[str, int]] = field(default_factory=list)
    known: bool = False


def pack_schema(schema: pa.Schema) -> str:
    """Return the schema as text for a split's detail, without metadata."""
    return base64.b64encode(schema.remove_metadata().serialize()).decode()


def unpack_schema(text: str) -> pa.Schema:
    """Return the schema from the text of `pack_schema`."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def columns_of(detail: Mapping[str, Any]) -> pa.Schema:
    """Return the columns of a split with this detail. Columns of CSV are text."""
    if "schema" in detail:
        return unpack_schema(detail["schema"])
    return pa.schema([(name, pa.string()) for name in detail["columns"]])
