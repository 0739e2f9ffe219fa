"""Detect files of another format than the site file says, by their first bytes, and give advice."""

from __future__ import annotations

import re
from pathlib import PurePath
from typing import Final, Literal

Kind = Literal["csv", "jsonl", "parquet"]

FIRST: Final = 512
"""Bytes that are enough for detection."""
_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
_PARQUET: Final = b"PAR1"
_EXCEL: Final = frozenset({".xlsx", ".xlsm", ".xls", ".ods"})
_OLD_EXCEL: Final = b"\xd0\xcf\x11\xe0"
_ARRAY: Final = re.compile(rb'\[\s*(?:[\[{"\]]|\Z)')
_OBJECT: Final = re.compile(rb'{\s*(?:["}]|\Z)')
"""Beginnings of JSON. The first row of a CSV, such as `[id],[loc]`, has words in its brackets."""


def advice(path: str, first: bytes, given_as: Kind) -> str | None:
    """Return the apparent format of a file and advice, or None if its first bytes are inconclusive."""
    name, stem = PurePath(path).name, PurePath(path).stem
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    what: str | None = None
    if first.startswith(_PARQUET):
        what = None if given_as == "parquet" else f"it is a Parquet file: write parquet: instead of {given_as}:"
    elif first.startswith(_OLD_EXCEL) or (first.startswith(_ZIP) and PurePath(path).suffix.lower() in _EXCEL):
        what = "spreadsheets are not supported: save the sheet as CSV"
    elif first.startswith(_ZIP) and given_as == "parquet":
        what = "it is a ZIP archive: extract it first"
    elif first.startswith(_ZIP) and not name.endswith(".zip"):
        what = f"it is a ZIP archive: rename it to {name}.zip"
    elif first.startswith(_GZIP) and not name.endswith(".gz"):
        what = f"it is compressed with gzip: rename it to {name}.gz"
    elif text.startswith(b"[") and (given_as != "csv" or _ARRAY.match(text)):
        lines = f"{stem}.jsonl" if f"{stem}.jsonl" != name else f"{stem}-lines.jsonl"
        what = f"it is one JSON array: write an object a line, with  jq -c '.[]' {name} > {lines}"
    elif text.startswith(b"{") and (given_as != "csv" or _OBJECT.match(text)):
        what = None if given_as == "jsonl" else f"it looks like JSON: write jsonl: instead of {given_as}:"
    elif text.startswith((b"<?xml", b"<")):
        what = "XML is not supported: export it as CSV, JSON lines or Parquet"
    elif given_as != "csv" and b"\n" in first and _is_text(first):
        what = f"it looks like CSV: write csv: instead of {given_as}:"
    return what


def _is_text(first: bytes) -> bool:
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in first)
