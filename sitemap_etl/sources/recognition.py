"""What lies at an address that nobody has described yet: the kind of an export or of a table, and how a CSV is written.

Judged by names and by first bytes. What is found are the settings that a site file would have, so that everything else
reads it as any other source.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.settings import CsvFormat, CsvSource, DeltaSource, IcebergSource, JsonlSource, ParquetSource
from sitemap_etl.sources import csv_files, jsonl_files, parquet_files, tables
from sitemap_etl.sources.files import S3, File, everything_in, locate, reading
from sitemap_etl.sources.formats import FIRST
from sitemap_etl.sources.text import blocks, packed

Recognized = CsvSource | JsonlSource | ParquetSource | DeltaSource | IcebergSource
_ENDINGS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": parquet_files.SUFFIXES,
    "jsonl": jsonl_files.SUFFIXES,
    "csv": (*csv_files.SUFFIXES, *packed(".tsv", ".txt")),
}
_LOOKED_AT: Final = 10_000
"""Names below an address among which those of a table are looked for."""
_TEXT: Final = 256 * 1024
"""Bytes of a CSV whose rows are counted to find how it is written."""
_ROWS: Final = 500
_DELIMITERS: Final = ",;\t|"
_CYRILLIC_BYTES: Final = 0.9
"""Share of bytes from C0 on among those beyond ASCII: letters of cp1251 nearly all, of cp1252 with other signs."""
_RUN: Final = 3
"""Bytes beyond ASCII in a row, on average, from which on no text is of a Latin script."""


def recognize(address: str) -> Recognized:
    """The source at a path, a folder, a pattern or an `s3://` address, as a site file would describe it.

    Raises `InvalidSource` where there is nothing, or nothing that can be read, `Refused`, `Unavailable`.
    """
    table = _table(address)
    if table is not None:
        return table
    files = [file for file in locate(address, tuple(itertools.chain(*_ENDINGS.values()))) if file.size]
    if not files:
        raise InvalidSource(f"{address} is empty: expected at least one row")
    kinds = Counter(_kind(file) for file in files)
    kind = kinds.most_common(1)[0][0]
    if kind == "csv":
        form = csv_form(next(file for file in files if _kind(file) == kind))
        return CsvSource.model_validate({**form.model_dump(exclude_defaults=True), "csv": [address]})
    return JsonlSource(jsonl=(address,)) if kind == "jsonl" else ParquetSource(parquet=(address,))


def _table(address: str) -> DeltaSource | IcebergSource | None:
    """The table of a lakehouse that an address is."""
    if address.endswith(".metadata.json"):
        return IcebergSource(iceberg=address)
    try:
        names = list(_names_below(address))
    except Refused:
        return None  # who may read a file in a bucket may not be allowed to list it
    folder = address.rstrip("/")
    found = {name: table[1] for name in names if (table := tables.table_of(name)) is not None and not table[0]}
    if "delta" in found.values():
        return DeltaSource(delta=folder)
    versions = [name for name, kind in found.items() if kind == "iceberg"]
    if not versions:
        return None
    hinted = "metadata/version-hint.text" in names
    return IcebergSource(iceberg=folder if hinted else f"{folder}/{max(versions, key=_version)}")


def _names_below(address: str) -> Iterator[str]:
    """Names of files in a folder that tell of a table, relative to it."""
    folder = f"{address.rstrip('/')}/"
    if address.startswith(S3):
        if not re.search(r"[*?\[]", address):
            for file in itertools.islice(everything_in(folder), _LOOKED_AT):
                yield file.path.removeprefix(folder)
        return
    for marker in tables.FOLDERS:
        place = Path(address) / marker
        if place.is_dir():
            yield marker
            yield from (f"{marker}{path.name}" for path in itertools.islice(place.iterdir(), _LOOKED_AT))


def _version(name: str) -> tuple[int, str]:
    """The number of a metadata file: `00003-….metadata.json`, `v3.metadata.json`."""
    number = re.match(r"metadata/v?(\d+)", name)
    return (int(number[1]) if number else -1, name)


def _kind(file: File) -> str:
    for kind, endings in _ENDINGS.items():
        if file.path.lower().endswith(endings) and not file.path.lower().endswith(packed(".txt")):
            return kind
    with reading(file, stream=True) as stream:
        first = stream.read(FIRST).removeprefix(codecs.BOM_UTF8).lstrip()
    return "parquet" if first.startswith(b"PAR1") else "jsonl" if first.startswith(b"{") else "csv"


def csv_form(file: File) -> CsvFormat:
    """How a CSV is written, as far as its beginning shows. Raises `InvalidSource`, `Refused`, `Unavailable`."""
    with blocks(file) as text:
        data = text.peek()
    encoding = _encoding(data)
    beginning = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)("replace").decode(data)
    beginning = beginning[:_TEXT]
    if len(beginning) == _TEXT:
        beginning = beginning[: beginning.rfind("\n") + 1]  # a row that was cut has fewer fields
    found = max(_forms(beginning), key=lambda form: _score(beginning, form))
    return CsvFormat.model_validate({**found, "encoding": encoding})


def _encoding(data: bytes) -> str:
    """The encoding of a text: sure where it is Unicode, else the likeliest one."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = data[0:_TEXT:2].count(0), data[1:_TEXT:2].count(0)
    if max(even, odd) > len(data[:_TEXT]) // 8:  # of ASCII in UTF-16 every second byte is one
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        runs = re.findall(rb"[\x80-\xff]+", data)
        high = b"".join(runs)
        letters = sum(byte >= 0xC0 for byte in high) / len(high)
        return "cp1251" if len(high) / len(runs) >= _RUN and letters >= _CYRILLIC_BYTES else "cp1252"
    return "utf-8"


def _forms(text: str) -> Iterator[dict[str, Any]]:
    """The ways in which a CSV may be written, the usual ones first."""
    quotes: list[dict[str, Any]] = [{}]
    if '\\"' in text:
        quotes.append({"escape": "\\"})
    if '"' in text:
        quotes.append({"quote": "none"})
    if re.search(r"(?:^|[,;\t|])'[^'\n]*'(?:[,;\t|\r\n]|$)", text):
        quotes.append({"quote": "'"})
    for quoting in quotes:
        for delimiter in _DELIMITERS:
            yield {**quoting, "delimiter": delimiter} if delimiter != "," else quoting


def _score(text: str, form: dict[str, Any]) -> tuple[float, float, int]:
    """How well a form fits: the share of rows as long as the first one, the share of clean values, its fields."""
    quote = form.get("quote", '"')
    options: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if quote == "none" else {"quotechar": quote}
    escape = form.get("escape")
    if escape is not None:
        options |= {"escapechar": escape, "doublequote": False}
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=form.get("delimiter", ","), **options)
    try:
        read = [row for row in itertools.islice(rows, _ROWS) if row]
    except csv.Error:
        return 0.0, 0.0, 0
    if not read or len(read[0]) < 2:
        return 0.0, 0.0, 0
    values = [value for row in read for value in row]
    clean = sum(not re.search(r"""["']$|\\"|\\$""", value, re.DOTALL) for value in values) / len(values)
    return sum(len(row) == len(read[0]) for row in read) / len(read), round(clean, 2), len(read[0])
