"""CSV exports, plain or compressed: streamed; every column is text, an empty field is null.

The first row names the columns; quoted values may hold line breaks, up to a bound. Types come later, from the rules: an
id keeps its leading zeros.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sitemap_etl import limits
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.batches import fit
from sitemap_etl.sources.files import File, Note, Paths, ahead, check_unchanged, each, locate, reading, translated
from sitemap_etl.sources.formats import FIRST, advice
from sitemap_etl.sources.partitions import partitions, with_partitions
from sitemap_etl.sources.quotes import WatchedQuotes, line_breaks
from sitemap_etl.sources.splits import LINES, LineNumbers, Split
from sitemap_etl.sources.text import BLOCK_BYTES, Blocks, blocks, bundled, packed

SUFFIXES: Final = packed(".csv")
_SHOWN: Final = 200
_LF, _CR = b"\n\r"


def plan_csv(
    paths: Paths,
    form: CsvFormat | None = None,
    *,
    pays: bool = False,
    verify: bool = True,
    note: Note | None = None,
    split_bytes: int = limits.SPLIT_BYTES,
) -> list[Split]:
    """The splits of CSV files: each is streamed in one, several small ones share one. `form`: how they are written.

    `pays`, `verify`, `note`: see `locate`. Columns that a file lacks are null. Raises `InvalidSource` (no such file,
    no header, a name twice), `Refused`, `Unavailable`.
    """
    files = locate(paths, SUFFIXES, pays=pays, verify=verify, note=note)
    detail = described(files, form or CsvFormat(), note=note)
    return [
        Split("csv", label, {**detail, "files": [file.to_json() for file in bundle]})
        for label, bundle in bundled(files, split_bytes)
    ]


def described(files: Sequence[File], form: CsvFormat, *, note: Note | None = None) -> dict[str, Any]:
    """What a split says of these files: their columns, and how they are written. Raises as `plan_csv`."""
    headers = each(lambda file: header(file, form), files)
    names = list(dict.fromkeys(name for found in headers for name in found))
    keys = partitions(files, names, text=True, note=note)
    form_ = form.model_dump(include=set(CsvFormat.model_fields))
    return {"columns": [*names, *keys], "partitions": keys, **form_}


def form_of(detail: Mapping[str, Any]) -> CsvFormat:
    """How the files of a split are written."""
    return CsvFormat(**{name: detail[name] for name in CsvFormat.model_fields if name in detail})


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
    Raises `InvalidSource` with file and line for a broken row or text in another encoding, `Refused`, and
    `Unavailable` where a file changed since it was planned.
    """
    known = split.detail["columns"]
    schema = pa.schema([(name, pa.string()) for name in (known if columns is None else columns) if name in known])
    counted = None if lines is None else _Counted(lines)
    if counted is not None:
        schema = schema.append(pa.field(LINES, pa.int32()))
    files = [File(*file) for file in split.detail["files"]]
    form, keys = form_of(split.detail), split.detail.get("partitions", {})
    check_unchanged(files)
    for file in ahead(files):
        try:
            batches = with_partitions(_batches(file, form, schema, counted), file, keys)
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
        end = len(data)
        while end and data[end - 1] in b"\r\n":  # `rstrip` would copy it all
            end -= 1
        if data:
            last = line_breaks(data, end, len(data))
            self._found += line_breaks(data, 0, len(data))
            self._blank = last if end else self._blank + last
            self._open = end == len(data)
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


def header(file: File, form: CsvFormat) -> list[str]:
    """The names in the first row. Raises `InvalidSource` where there is none, or two columns have one name."""
    with blocks(file, form) as text:
        return _names(file, form, text)


def _names(file: File, form: CsvFormat, text: Blocks) -> list[str]:
    try:
        # A block may end within a character; the first row is far from there.
        beginning = codecs.getincrementaldecoder("utf-8-sig")().decode(text.peek())
        names: list[str] = next((row for row in _rows(io.StringIO(beginning, newline=""), form) if row), [])
    except UnicodeDecodeError as error:
        raise no_csv(file) or _not_utf8(file, form) from error
    except SitemapEtlError as error:
        raise no_csv(file) or error from error
    except csv.Error as error:
        raise no_csv(file) or translated(error, file.path) from error
    if names and names[0].startswith(_OTHER_FORMATS) and (other_format := no_csv(file)) is not None:
        raise other_format
    if not names:
        raise InvalidSource(f"{file.path} is empty: expected a first row that names the columns")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InvalidSource(f"{file.path}: the first row names the column {twice[0]!r} more than once")
    other = next((mark for mark in ";\t|," if len(names) == 1 and mark != form.delimiter and mark in names[0]), None)
    if other:
        raise InvalidSource(
            f"{file.path} is separated by {other!r}: expected {form.delimiter!r} (first row: {names[0][:_SHOWN]}). "
            f"Write delimiter: {other if other != chr(9) else chr(92) + 't'!r}"
        )
    return names


def _rows(text: io.TextIOBase, form: CsvFormat) -> Any:
    """The rows of a text, with `line_num`, by the parser of the standard library."""
    if form.quoting is None:
        return csv.reader(text, delimiter=form.delimiter, quoting=csv.QUOTE_NONE)
    return csv.reader(text, delimiter=form.delimiter, quotechar=form.quoting)


_OTHER_FORMATS: Final = ("{", "[", "<", "PK", "PAR1")
"""How files begin that may be no CSV."""


def no_csv(file: File) -> InvalidSource | None:
    """The error for a file of another format; None where its beginning does not say that it is one."""
    try:
        with reading(file, stream=True) as stream:
            what = advice(file.path, stream.read(FIRST), "csv")
    except (SitemapEtlError, pa.ArrowException, OSError):
        return None
    return None if what is None else InvalidSource(f"{file.path} is not a CSV file; {what}")


def _batches(
    file: File, form: CsvFormat, schema: pa.Schema, counted: _Counted | None = None
) -> Iterator[pa.RecordBatch]:
    with blocks(file, form) as text:
        names = _names(file, form, text)
        if counted is not None:
            counted.begin(file.path, names)
        quote = form.quoting
        parse = pa.csv.ParseOptions(
            delimiter=form.delimiter, quote_char=quote or False, newlines_in_values=quote is not None
        )
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=[name for name in names if name in schema.names],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        read = text.read if counted is None else lambda size: counted.passed(text.read(size))
        watched = WatchedQuotes(read, form.delimiter, quote) if quote is not None else None
        try:
            options = pa.csv.ReadOptions(block_size=BLOCK_BYTES)
            bytes_ = pa.PythonFile(watched or Blocks(read), mode="r")
            with pa.csv.open_csv(bytes_, read_options=options, parse_options=parse, convert_options=convert) as reader:
                yield from reader if counted is None else map(counted.with_lines, reader)
        except SitemapEtlError:
            raise
        except (pa.ArrowException, OSError) as error:
            if watched is None or watched.fault is None:
                # Without a line break behind it Arrow does not read it.
                if isinstance(error, pa.ArrowInvalid) and _is_header_alone(file, form):
                    return
                raise (_fault(file, form, len(names)) or translated(error, file.path)) from error
    if watched is not None and watched.fault is not None:
        raise InvalidSource(f"{file.path} line {_line_of(file, form, watched.at)}: {watched.fault}")


def _fault(file: File, form: CsvFormat, expected: int) -> InvalidSource | None:
    """What is wrong in the file, with its line: read again row by row, as nothing of it will be published."""
    line = 1
    try:
        with blocks(file, form) as text, io.TextIOWrapper(pa.PythonFile(text, "r"), "utf-8-sig", newline="") as lines:
            reader = _rows(lines, form)
            for row in reader:
                if row and len(row) != expected:
                    shown = form.delimiter.join(row)[:_SHOWN]
                    return InvalidSource(
                        f"{file.path} line {line}: expected {expected} fields as in the first row, "
                        f"found {len(row)}: {shown!r}"
                    )
                line = reader.line_num + 1
    except UnicodeDecodeError:
        return _not_utf8(file, form)
    except csv.Error:
        return InvalidSource(
            f"{file.path} line {line}: a value that begins here is longer than {csv.field_size_limit():,} characters: "
            "is a closing quote missing?"
        )
    except (SitemapEtlError, pa.ArrowException, OSError):
        # The stream itself is broken: the first error says how.
        return None
    return None


def _is_header_alone(file: File, form: CsvFormat) -> bool:
    """Whether the file is its first line and nothing else."""
    with blocks(file, form) as text:
        beginning = text.peek()
    return bool(beginning.strip()) and len(beginning) < BLOCK_BYTES and not line_breaks(beginning, 0, len(beginning))


def _line_of(file: File, form: CsvFormat, at: int) -> int:
    """The line that a byte of the text is in."""
    line = 1
    with blocks(file, form) as text:
        while at > 0 and (data := text.read(BLOCK_BYTES)):
            line += line_breaks(data, 0, min(at, len(data)))
            at -= len(data)
    return line


def _not_utf8(file: File, form: CsvFormat) -> InvalidSource:
    decoder, line, shown = codecs.getincrementaldecoder("utf-8")(), 1, b""
    with blocks(file, form) as text:
        while data := text.read(BLOCK_BYTES):
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
    return InvalidSource(
        f"{file.path} line {line} is not UTF-8: {looks}. Name the encoding: {{csv: …, encoding: "
        f"{'utf-16' if utf16 else 'cp1252'}}}"
    )
