"""What a file is that was given as CSV or Parquet and is neither: told by its first bytes, with what to do about it."""

from __future__ import annotations

from pathlib import PurePath
from typing import Final, Literal

FIRST: Final = 512
"""Bytes that are enough to tell."""
_GZIP: Final = b"\x1f\x8b"
_ZIP: Final = b"PK\x03\x04"
_PARQUET: Final = b"PAR1"
_EXCEL: Final = frozenset({".xlsx", ".xlsm", ".xls", ".ods"})
_OLD_EXCEL: Final = b"\xd0\xcf\x11\xe0"


def advice(path: str, first: bytes, given_as: Literal["csv", "parquet"]) -> str | None:  # noqa: PLR0911 - one return a format
    """What the file seems to be, and what to do; None where its beginning says nothing. `first`: its first bytes."""
    name = PurePath(path).name
    stem = PurePath(path).stem
    text = first.removeprefix(b"\xef\xbb\xbf").lstrip()
    if first.startswith(_PARQUET):
        return None if given_as == "parquet" else "it is a Parquet file: write parquet: instead of csv:"
    if first.startswith((_ZIP, _OLD_EXCEL)):
        if PurePath(path).suffix.lower() in _EXCEL or first.startswith(_OLD_EXCEL):
            return "spreadsheets are not supported: save the sheet as CSV in UTF-8"
        return "ZIP archives are not supported: extract it first"
    if first.startswith(_GZIP) and not name.endswith(".gz"):
        return f"it is compressed with gzip: rename it to {name}.gz"
    if text.startswith((b"{", b"[")):
        return f"JSON is not supported: convert it with  duckdb -c \"copy '{name}' to '{stem}.parquet'\""
    if text.startswith((b"<?xml", b"<")):
        return "XML is not supported: export it as CSV or Parquet"
    if given_as == "parquet" and b"\n" in first and _is_text(first):
        return "it looks like CSV: write csv: instead of parquet:"
    return None


def _is_text(first: bytes) -> bool:
    return not any(byte < 0x20 and byte not in b"\t\n\r" for byte in first)
