"""CSV exports, plain or compressed (`.csv.gz`): streamed; every column is text, an empty field is null.

UTF-8, with or without a byte order mark; the first row names the columns; quoted values may hold
line breaks, up to a bound. Types come later, from the rules: an id keeps its leading zeros.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.sources.batches import fit
from sitemap_etl.sources.files import File, check_unchanged, each, locate, reading, translated
from sitemap_etl.sources.formats import FIRST, advice
from sitemap_etl.sources.quotes import WatchedQuotes, line_breaks
from sitemap_etl.sources.splits import LINES, LineNumbers, Split

SUFFIXES: Final = (".csv", ".csv.gz")
_COMPRESSIONS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
_UNPACKED: Final = 5
"""What a compressed byte is counted as when small files are joined in a split."""
_BLOCK_BYTES: Final = 2 * 1024 * 1024
"""Bytes parsed at a time; no row may be longer."""
_SHOWN: Final = 200
_LF, _CR = b"\n\r"


def plan_csv(
    paths: str | Path | Sequence[str | Path], *, delimiter: str = ",", split_bytes: int = limits.SPLIT_BYTES
) -> list[Split]:
    """The splits of CSV files: each is streamed in one, several small ones share one.

    Columns that a file lacks are null. Raises `InvalidSource` (no such file, no header,
    a name twice), `Refused`, `Unavailable`.
    """
    files = locate(paths, SUFFIXES)
    headers = each(lambda file: header(file, delimiter), files)
    names = list(dict.fromkeys(name for found in headers for name in found))
    sizes = [file.size * (_UNPACKED if Path(file.path).suffix in _COMPRESSIONS else 1) for file in files]
    bound = max(split_bytes, sum(sizes) // limits.SPLITS_PER_SECTION)
    bundles: list[list[File]] = []
    held = 0
    for file, size in zip(files, sizes, strict=True):
        if not bundles or held + size > bound:
            bundles.append([])
            held = 0
        bundles[-1].append(file)
        held += size
    while len(bundles) > limits.SPLITS_PER_SECTION:
        bundles = [bundles[at] + (bundles[at + 1] if at + 1 < len(bundles) else []) for at in range(0, len(bundles), 2)]
    return [
        Split(
            "csv",
            bundle[0].path if len(bundle) == 1 else f"{bundle[0].path} and {len(bundle) - 1} more",
            {"files": [file.to_json() for file in bundle], "columns": names, "delimiter": delimiter},
        )
        for bundle in bundles
    ]


def read_csv(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    lines: LineNumbers | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """The rows of a split as text, of `columns` only where given (in that order; unknown ones left out).

    `lines`: filled in, and a column `LINES` (int32) added; line breaks are only counted in columns that are read.
    Raises `InvalidSource` with file and line for a broken row or text that is not UTF-8, `Refused`, and
    `Unavailable` where a file changed since it was planned.
    """
    known = split.detail["columns"]
    schema = pa.schema([(name, pa.string()) for name in (known if columns is None else columns) if name in known])
    counted = None if lines is None else _Counted(lines)
    if counted is not None:
        schema = schema.append(pa.field(LINES, pa.int32()))
    files = [File(*file) for file in split.detail["files"]]
    check_unchanged(files)
    for file in files:
        try:
            batches = _batches(file, split.detail["delimiter"], schema, counted)
            yield from fit(batches, label=file.path, schema=schema, batch_rows=batch_rows, batch_bytes=batch_bytes)
        except InvalidSource:
            # A file that is written over is a broken file for a moment.
            check_unchanged([file])
            raise
    check_unchanged(files)
    if counted is not None:
        counted.end()


class _Counted:
    """Counts the lines of files as their bytes go by, and those that their rows take."""

    def __init__(self, numbers: LineNumbers) -> None:
        self._numbers = numbers
        self._certain = True
        self._rows = 0  # so far, over all files
        self._lines = 0  # so far, as the rows take them
        self._before = 0  # lines of the files before this one
        self._found = 0  # in this file, as its bytes have them
        self._blank = 0  # at its end
        self._open = False  # whether its last line is without a break

    def begin(self, path: str, names: Sequence[str]) -> None:
        """A file begins with these names as its first row."""
        self._finish()
        self._numbers.files.append((path, self._before))
        self._lines = self._before + 1 + sum(name.count("\n") or name.count("\r") for name in names)

    def passed(self, data: bytes) -> bytes:
        """Bytes of the file; gives them."""
        if data:
            text = data.rstrip(b"\r\n")
            last = line_breaks(data, len(text), len(data))
            self._found += line_breaks(data, 0, len(data))
            self._blank = last if text else self._blank + last
            self._open = len(text) == len(data)
        return data

    def with_lines(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the column `LINES`."""
        count = batch.num_rows
        extra = np.zeros(count, np.int64)
        for column in batch.columns:
            found = np.frombuffer(column.buffers()[2] or b"", np.uint8)
            for char, pattern in ((_LF, "\n"), (_CR, "\r")):
                if (found == char).any():
                    extra += pc.fill_null(pc.count_substring(column, pattern), 0).to_numpy(zero_copy_only=False)
                    break  # line breaks are of one kind
        after = np.cumsum(extra)
        ahead = self._lines - self._rows + after - extra
        self._rows += count
        self._lines += count + int(after[-1]) if count else 0
        return batch.append_column(LINES, pa.array(ahead.astype(np.int32)))

    def end(self) -> None:
        """All files were read."""
        self._finish()
        self._numbers.known = self._certain

    def _finish(self) -> None:
        if not self._numbers.files:
            return
        # The break that ends the last row is none of a blank line.
        there = self._before + self._found - max(0, self._blank - 1) + self._open
        self._certain &= there == self._lines
        self._before += self._found + self._open
        self._found = self._blank = 0


def header(file: File, delimiter: str) -> list[str]:
    """The names in the first row. Raises `InvalidSource` where there is none, or two columns have one name."""
    try:
        with _text(file) as text:
            names = next((row for row in csv.reader(text, delimiter=delimiter) if row), [])
    except UnicodeDecodeError as error:
        raise _no_csv(file) or _not_utf8(file) from error
    except (pa.ArrowException, OSError, csv.Error) as error:
        raise _no_csv(file) or translated(error, file.path) from error
    if names and names[0].startswith(_OTHER_FORMATS) and (other_format := _no_csv(file)) is not None:
        raise other_format
    if not names:
        raise InvalidSource(f"{file.path} is empty: expected a first row that names the columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidSource(f"{file.path}: the first row names the column {twice[0]!r} more than once")
    other = next((mark for mark in ";\t|" if len(names) == 1 and mark in names[0]), None)
    if other:
        raise InvalidSource(
            f"{file.path} is separated by {other!r}: expected {delimiter!r} (first row: {names[0][:_SHOWN]})"
        )
    return names


_OTHER_FORMATS: Final = ("{", "[", "<", "PK", "PAR1")
"""How files begin that may be no CSV."""


def _no_csv(file: File) -> InvalidSource | None:
    """The error for a file of another format, where its beginning says which."""
    try:
        with reading(file, stream=True) as stream:
            what = advice(file.path, stream.read(FIRST), "csv")
    except (SitemapEtlError, pa.ArrowException, OSError):
        return None
    return None if what is None else InvalidSource(f"{file.path} is not a CSV file; {what}")


@contextmanager
def _text(file: File) -> Iterator[io.TextIOWrapper]:
    with _unpacked(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
        yield text


@contextmanager
def _unpacked(file: File) -> Iterator[pa.NativeFile]:
    with reading(file, stream=True) as raw:
        kind = _COMPRESSIONS.get(Path(file.path).suffix)
        if kind is None:
            yield raw
        else:
            with pa.CompressedInputStream(raw, kind) as stream:
                yield stream


def _batches(
    file: File, delimiter: str, schema: pa.Schema, counted: _Counted | None = None
) -> Iterator[pa.RecordBatch]:
    names = header(file, delimiter)
    if counted is not None:
        counted.begin(file.path, names)
    parse = pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True)
    convert = pa.csv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        include_columns=[name for name in names if name in schema.names],
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )
    watched: WatchedQuotes | None = None
    try:
        with _unpacked(file) as stream:
            read = stream.read if counted is None else lambda size: counted.passed(stream.read(size))
            watched = WatchedQuotes(read, delimiter)
            options = pa.csv.ReadOptions(block_size=_BLOCK_BYTES)
            bytes_ = pa.PythonFile(watched, mode="r")
            with pa.csv.open_csv(bytes_, read_options=options, parse_options=parse, convert_options=convert) as reader:
                yield from reader if counted is None else map(counted.with_lines, reader)
    except SitemapEtlError:
        raise
    except (pa.ArrowException, OSError) as error:
        if watched is None or watched.fault is None:
            # Without a line break behind it Arrow does not read it.
            if isinstance(error, pa.ArrowInvalid) and _is_header_alone(file):
                return
            raise (_fault(file, delimiter, len(names)) or translated(error, file.path)) from error
    if watched is not None and watched.fault is not None:
        raise InvalidSource(f"{file.path} line {_line_of(file, watched.at)}: {watched.fault}")


def _fault(file: File, delimiter: str, expected: int) -> InvalidSource | None:
    """What is wrong in the file, with its line: read again row by row, as nothing of it will be published."""
    line = 1
    try:
        with _text(file) as text:
            reader = csv.reader(text, delimiter=delimiter)
            for row in reader:
                if row and len(row) != expected:
                    shown = delimiter.join(row)[:_SHOWN]
                    return InvalidSource(
                        f"{file.path} line {line}: expected {expected} fields as in the first row, "
                        f"found {len(row)}: {shown!r}"
                    )
                line = reader.line_num + 1
    except UnicodeDecodeError:
        return _not_utf8(file)
    except csv.Error:
        return InvalidSource(
            f"{file.path} line {line}: a value that begins here is longer than {csv.field_size_limit():,} characters: "
            "is a closing quote missing?"
        )
    except (pa.ArrowException, OSError):
        # The stream itself is broken: the first error says how.
        return None
    return None


def _is_header_alone(file: File) -> bool:
    """Whether the file is its first line and nothing else."""
    with _unpacked(file) as stream:
        beginning = stream.read(_BLOCK_BYTES)
    return bool(beginning.strip()) and len(beginning) < _BLOCK_BYTES and not line_breaks(beginning, 0, len(beginning))


def _line_of(file: File, at: int) -> int:
    """The line that a byte of the file, unpacked, is in."""
    line = 1
    with _unpacked(file) as stream:
        while at > 0 and (data := stream.read(min(at, _BLOCK_BYTES))):
            at -= len(data)
            line += line_breaks(data, 0, len(data))
    return line


def _not_utf8(file: File) -> InvalidSource:
    decoder, line, shown = codecs.getincrementaldecoder("utf-8")(), 1, b""
    with _unpacked(file) as stream:
        while data := stream.read(_BLOCK_BYTES):
            try:
                decoder.decode(data)
            except UnicodeDecodeError as error:
                # The error counts from the bytes kept of the block before.
                line += error.object[: error.start].count(b"\n")
                begin = error.object.rfind(b"\n", 0, error.start) + 1
                shown = error.object[begin : begin + _SHOWN].partition(b"\n")[0]
                break
            line += data.count(b"\n")
    utf16 = shown.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    looks = "it looks like UTF-16" if utf16 else f"{shown!r} looks like Windows-1252 or Latin-1"
    name = PurePath(file.path).name
    convert = f"iconv -f {'utf-16' if utf16 else 'cp1252'} -t utf-8 {name} > utf8-{name}"
    return InvalidSource(
        f"{file.path} line {line} is not UTF-8: {looks}. Export it as UTF-8, or convert it:  {convert}"
    )
