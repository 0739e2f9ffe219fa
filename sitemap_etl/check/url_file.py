"""Write every listed URL into one CSV or Parquet file while the sitemaps are read, in bounded memory."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.errors import ConfigError

ROWS: Final = pa.schema([("file", pa.string()), ("line", pa.int64()), ("loc", pa.string()), ("lastmod", pa.string())])
"""One row for each entry as written in the sitemap. A missing lastmod is null (in CSV, empty)."""
_FORMULA: Final = r"^[=+\-@\t\r]"
"""Beginning of a cell that spreadsheets run as a formula (OWASP, CSV injection)."""
_GROUP: Final = 100_000
"""Rows that are collected before they are written."""


class UrlFile:
    """Writer for the URLs of one sitemap after another. The file appears when it is complete, or not at all.

    Raise ConfigError if the name does not end in .csv or .parquet.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix.lower() not in {".csv", ".parquet"}:
            raise ConfigError(f"--urls: expected a name that ends in .csv or .parquet, got {path.name!r}")
        self._path = path
        self._is_csv = path.suffix.lower() == ".csv"
        self._new = path.with_name(f".{path.name}.new")
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._abandoned = False
        self._writer: Any = None

    def __enter__(self) -> Self:
        if self._is_csv:
            from pyarrow.csv import CSVWriter as Writer
        else:
            from pyarrow.parquet import ParquetWriter as Writer
        try:
            self._writer = Writer(self._new, ROWS)
        except OSError as error:
            raise ConfigError(f"{self._path}: can't be written: {error.strerror or error}") from error
        return self

    def add(self, file: str, lines: np.ndarray, rows: pa.Table) -> None:
        """Take the URLs of one file; `rows` has the columns loc and lastmod."""
        if not rows.num_rows:
            return
        names = pa.repeat(pa.scalar(file.encode("utf-8", "replace").decode(), pa.string()), rows.num_rows)
        self._waiting.append(pa.table([names, pa.array(lines, pa.int64()), rows["loc"], rows["lastmod"]], schema=ROWS))
        self._rows += rows.num_rows
        if self._rows >= _GROUP:
            self._write()

    def abandon(self) -> None:
        """Write no file, because not everything was read."""
        self._abandoned = True

    def _write(self) -> None:
        if self._waiting:
            rows = pa.concat_tables(self._waiting)
            self._writer.write_table(_without_formulas(rows) if self._is_csv else rows)
        self._waiting, self._rows = [], 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._write()
            self._writer.close()
            if kind is None and not self._abandoned:
                self._new.replace(self._path)
        finally:
            self._new.unlink(missing_ok=True)


def _without_formulas(rows: pa.Table) -> pa.Table:
    """Return the rows with an apostrophe before each text that a spreadsheet would run as a formula."""
    for name in ("file", "loc", "lastmod"):
        texts = rows[name]
        formulas = pc.match_substring_regex(texts, _FORMULA)
        if pc.any(formulas).as_py():
            quoted = pc.binary_join_element_wise("'", texts, "")
            rows = rows.set_column(
                rows.schema.get_field_index(name), ROWS.field(name), pc.if_else(formulas, quoted, texts)
            )
    return rows
