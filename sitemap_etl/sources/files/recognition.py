"""Detect the kind of source at an address: an export's or table's format, and the format of a CSV.

Detection uses names and first bytes. The result has the settings of a site file, so that the rest of the code reads it
like any other source.
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
from typing import Final

from sitemap_etl.errors import InvalidSource, Refused
from sitemap_etl.settings import CsvFormat, CsvSource, DeltaSource, IcebergSource, JsonlSource, ParquetSource
from sitemap_etl.settings.sources import UNQUOTED_NULL
from sitemap_etl.sources.files import csv_files, jsonl_files, parquet_files, tables
from sitemap_etl.sources.files.csv_header import csv_rows
from sitemap_etl.sources.files.escapes import LETTERS
from sitemap_etl.sources.files.files import S3, File, NothingFound, everything_in, locate
from sitemap_etl.sources.files.formats import FIRST
from sitemap_etl.sources.files.text import blocks, own_delimiter, separator_line
from sitemap_etl.urls import PLACEHOLDERS

Recognized = CsvSource | JsonlSource | ParquetSource | DeltaSource | IcebergSource
_ENDINGS: Final[dict[str, tuple[str, ...]]] = {
    "parquet": parquet_files.SUFFIXES,
    "jsonl": jsonl_files.SUFFIXES,
    "csv": csv_files.SUFFIXES,
}
_NULL_WORDS: Final = frozenset({*PLACEHOLDERS, "null", "NaN"})
"""Words that programs write for a missing value. Other spellings, such as none, are values."""
_LOOKED_AT: Final = 10_000
"""Names below an address that are searched for a table."""
_SOME: Final = 100
"""Files whose kinds are examined."""
_TEXT: Final = 256 * 1024
"""Bytes of a CSV that are examined to find its format."""
_ROWS: Final = 500
_LEFT_OVER: Final = re.compile(r"""["']$|\\["'\\]|\\$""")
"""Quotes and escapes that a reader should have removed."""
_HEADED: Final = 20
"""Rows of one length that follow titles: a header and values."""
_QUOTED: Final = re.compile(r"""^["'].*["']$""")
_UNREADABLE: Final = ((0.0, 0.0, 0), 0)
_DELIMITERS: Final = ",;\t|\x1f\x01"
"""Possible delimiters. The last two are the unit separator and Hive's default."""
_CYRILLIC_BYTES: Final = 0.9
"""Minimum share of bytes from C0 on among non-ASCII bytes for Cyrillic text.

In cp1251 nearly all of these bytes are letters; in cp1252 there are other signs too.
"""
_NOT_CP1252: Final = re.compile(rb"[\x81\x8d\x8f\x90\x9d]")
_RUN: Final = 3
"""Average number of adjacent non-ASCII bytes from which text is not in a Latin script."""


def recognize(address: str) -> Recognized:
    """Return the source at a path, a folder, a pattern or an `s3://` address, as a site file would describe it.

    Raise InvalidSource if there is nothing readable, Refused, Unavailable.
    """
    table = _table(address)
    if table is not None:
        return table
    try:
        found = locate(address, tuple(itertools.chain(*_ENDINGS.values())))
    except NothingFound as error:
        if not error.pattern:
            raise
        address = error.pattern
        found = locate(address, ())
    files = [file for file in found if file.size]
    if not files:
        raise InvalidSource(f"{address} is empty: expected at least one row")
    kinds = {file: _kind(file) for file in files[:_SOME]}
    kind = Counter(kinds.values()).most_common(1)[0][0]
    if kind == "csv":
        first = next(file for file in kinds if kinds[file] == kind)
        other = csv_files.no_csv(first)
        if other is not None:
            raise other
        form = csv_form(first)
        return CsvSource.model_validate({**form.model_dump(exclude_defaults=True), "csv": [address]})
    return JsonlSource(jsonl=(address,)) if kind == "jsonl" else ParquetSource(parquet=(address,))


def _table(address: str) -> DeltaSource | IcebergSource | None:
    """Return the lakehouse table at an address, or None."""
    if address.endswith(".metadata.json"):
        return IcebergSource(iceberg=address)
    try:
        names = list(_names_below(address))
    except Refused:
        return None  # permission to read a file doesn't include permission to list the bucket
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
    """Yield names of files in a folder that can identify a table, relative to the folder."""
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
    """Return the number of a metadata file: `00003-….metadata.json`, `v3.metadata.json`."""
    number = re.match(r"metadata/v?(\d+)", name)
    return (int(number[1]) if number else -1, name)


def _kind(file: File) -> str:
    """Return the kind of a file by its name, or by its first bytes."""
    for kind, endings in _ENDINGS.items():
        if file.path.lower().endswith(endings):
            return kind
    with blocks(file) as text:
        first = text.peek()[:FIRST].lstrip()
    return "parquet" if first.startswith(b"PAR1") else "jsonl" if first.startswith(b"{") else "csv"


def csv_form(file: File) -> CsvFormat:
    """Return the format of a CSV, as far as its beginning shows. Raise InvalidSource, Refused, Unavailable."""
    with blocks(file) as raw:
        data = raw.peek()
    encoding = _encoding(data)
    own = own_delimiter(_decoded(data, encoding).removeprefix(codecs.BOM_UTF8))
    best, highest = CsvFormat(encoding=encoding), (0.0, 0.0, 0)
    for quoting in _quotings(_beginning(file, best)):
        text = ""
        for delimiter in _DELIMITERS if own is None else own:
            form = CsvFormat.model_validate({**quoting, "encoding": encoding, "delimiter": delimiter})
            if not text or form.escape is not None:  # escaped characters depend on the start of values
                text = _beginning(file, form)
            score, titles = _score(text, form)
            if score > highest:
                best, highest = form.model_copy(update={"skip_rows": titles}), score
    if own is not None:
        best = best.model_copy(update={"delimiter": own})
    words = _null_words(file, best)
    return best.model_copy(update={"null": words}) if words else best


def _decoded(data: bytes, encoding: str) -> bytes:
    """Return the beginning of a text in UTF-8."""
    return codecs.getincrementaldecoder(encoding)("ignore").decode(data[:FIRST]).encode("utf-8", "ignore")


def _null_words(file: File, form: CsvFormat) -> tuple[str, ...]:
    """Return a CSV's words for a missing value, as in `null:`. Empty if the default is enough."""
    text = _beginning(file, form)
    try:
        values = {
            value for row in itertools.islice(csv_rows(io.StringIO(text, newline=""), form), 1, None) for value in row
        }
    except csv.Error:
        return ()
    words = sorted(value for value in values if value != UNQUOTED_NULL and value in _NULL_WORDS)
    quoted = form.quoting is not None and f"{form.quoting}{UNQUOTED_NULL}{form.quoting}" in text
    return (UNQUOTED_NULL, *words) if words or quoted else ()


def _beginning(file: File, form: CsvFormat) -> str:
    """Return the first rows as text, with escapes replaced by doubled quotes."""
    with blocks(file, form) as text:
        beginning = text.peek()[:_TEXT].decode("utf-8-sig", "ignore")
    beginning = beginning[separator_line(beginning) :]
    # Drop the last row, which can be incomplete.
    return beginning if len(beginning) < _TEXT // 4 else beginning[: beginning.rfind("\n") + 1]


def _encoding(data: bytes) -> str:
    """Return the encoding of a text: certain for Unicode, otherwise the most likely one."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    even, odd = data[0:_TEXT:2].count(0), data[1:_TEXT:2].count(0)
    if max(even, odd) > len(data[:_TEXT]) // 8:  # every second byte of ASCII in UTF-16 is zero
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(data)
    except UnicodeDecodeError:
        runs = re.findall(rb"[\x80-\xff]+", data)
        high = b"".join(runs)
        letters = sum(byte >= 0xC0 for byte in high) / len(high)
        if len(high) / len(runs) >= _RUN and letters >= _CYRILLIC_BYTES:
            return "cp1251"
        return "iso-8859-1" if _NOT_CP1252.search(high) else "cp1252"
    return "utf-8"


def _quotings(text: str) -> Iterator[dict[str, str]]:
    """Yield possible quoting styles, most common first."""
    if _is_dump(text):
        yield {"quote": "none", "escape": "\\"}
    escaped = _may_be_escaped(text)
    yield {}
    if '"' in text:
        if escaped:
            yield {"escape": "\\"}
        yield {"quote": "none"}
    if re.search(r"(?:^|[,;\t|])'", text, re.MULTILINE):
        yield {"quote": "'"}
        if escaped:
            yield {"quote": "'", "escape": "\\"}


def _is_dump(text: str) -> bool:
    """Return True if all backslashes are escapes as MySQL and PostgreSQL write them in values without quotes."""
    followed = set(re.findall(r"\\(.)", text, re.DOTALL))
    known = {"\\", "\n", "N", *LETTERS, *_DELIMITERS}
    return bool(followed - {"N"}) and followed <= known and re.search(r"(?:^|[,;\t|])[\"']", text, re.MULTILINE) is None


def _may_be_escaped(text: str) -> bool:
    """Return True if backslashes precede quotes or only occur in pairs, so that they can be escapes."""
    runs = re.findall(r"\\+", text)
    return re.search(r"\\[\"']", text) is not None or (bool(runs) and all(len(run) % 2 == 0 for run in runs))


def _score(text: str, form: CsvFormat) -> tuple[tuple[float, float, int], int]:
    """Rate a format, and return the lines of titles above the header too.

    The rating is the share of rows with the length of the header, the share of clean values, and the number of fields.
    A row doesn't count if a value seems to contain others. A value is not clean if it has remains of quoting.
    """
    rows = csv_rows(io.StringIO(text, newline=""), form)
    try:
        read = [(rows.line_num, row) for row in itertools.islice(rows, _ROWS) if row]
    except csv.Error:
        return _UNREADABLE
    titles = next((at for at, (_, row) in enumerate(read) if sum(map(bool, row)) > 1), 0)
    if len({len(row) for _, row in read[titles : titles + _HEADED]}) > 1 or len(read) < titles + 2:
        titles = 0
    skipped = read[titles - 1][0] if titles else 0
    found = [row for _, row in read[titles:]]
    if not found or len(found[0]) < 2:
        return _UNREADABLE
    values = [value for row in found for value in row]
    escaped = form.escaping_unquoted is not None  # then values can have quotes, escapes and line breaks
    left_over = _QUOTED if escaped else _LEFT_OVER
    clean = sum(left_over.search(value) is None for value in values)
    pair = {"\n", form.delimiter}
    alike = sum(len(row) == len(found[0]) and (escaped or not any(pair <= set(one) for one in row)) for row in found)
    return (alike / len(found), round(clean / len(values), 2), len(found[0])), skipped
