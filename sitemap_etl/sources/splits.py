"""What one task of extract reads: a split, as plain data that can be written down and read elsewhere."""

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
        """A dict of JSON values; `from_json` takes it back."""
        return {"kind": self.kind, "label": self.label, "detail": dict(self.detail), "rows": self.rows}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        if data["kind"] not in get_args(Kind):
            raise ValueError(f"a split of the kind {data['kind']!r} is not known")
        return cls(data["kind"], data["label"], data["detail"], data["rows"])


_ROW_BYTES: Final = {".csv": 40, "other": 8}
"""Bytes of a row, an address and a date, as text and compressed."""


def guess_rows(split: Split) -> int | None:
    """About how many rows a split of files has, by their size or as their table says; None for a database."""
    if split.kind == "table":
        return split.detail["rows"]  # type: ignore[no-any-return]  # as it was planned
    files = split.detail.get("of", split.detail).get("files")
    if files is None:
        return None
    bytes_ = {str(path): int(size) for path, size, *_ in files}
    return sum(size // _ROW_BYTES.get(PurePath(path).suffix, _ROW_BYTES["other"]) for path, size in bytes_.items())


LINES: Final = "\0lines"
"""A column that reading adds on demand (int32): how many lines a row's own is ahead of its number in the split."""


GONE: Final = "sitemap_etl:gone"
"""A column of changes (bool): the row is no longer there."""
ORDER: Final = "sitemap_etl:order"
"""A column of changes (int64): of rows with one key, the one with the highest counts."""


@dataclass
class LineNumbers:
    """Where the rows of a split's files stand in them, as an editor counts lines: filled while the split is read.

    `files`: path, and the lines of the files before it. `known`: whether the lines of all rows are certain, which is
    known at the end; blank lines between rows leave no trace in what a parser gives.
    """

    files: list[tuple[str, int]] = field(default_factory=list)
    known: bool = False


def pack_schema(schema: pa.Schema) -> str:
    """The schema as text for a split's detail, without metadata."""
    return base64.b64encode(schema.remove_metadata().serialize()).decode()


def unpack_schema(text: str) -> pa.Schema:
    """What `pack_schema` packed."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def columns_of(detail: Mapping[str, Any]) -> pa.Schema:
    """The columns that reading a split with this detail gives; those of CSV are text."""
    if "schema" in detail:
        return unpack_schema(detail["schema"])
    return pa.schema([(name, pa.string()) for name in detail["columns"]])
