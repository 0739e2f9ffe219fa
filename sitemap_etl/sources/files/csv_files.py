"""CSV exports, plain or compressed, as streams. Every column is text, and an empty field is null.

The first row names the columns. Quoted values can contain line breaks, up to a limit. Rules convert types later, so IDs
keep their leading zeros.
"""

from __future__ import annotations

import codecs
import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from sitemap_etl import limits
from sitemap_etl.arrow import offsets_of
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.settings import CsvFormat
from sitemap_etl.settings.sources import UNQUOTED_NULL
from sitemap_etl.sources.batches import fit
from sitemap_etl.sources.files.bounds import check_columns
from sitemap_etl.sources.files.csv_header import Header, check_quotes, csv_rows, find_header
from sitemap_etl.sources.files.escapes import NULL
from sitemap_etl.sources.files.file_columns import FileColumns, Needed, check_files
from sitemap_etl.sources.files.files import File, Note, Paths, ahead, check_unchanged, each, locate, reading, translated
from sitemap_etl.sources.files.formats import FIRST, advice
from sitemap_etl.sources.files.partitions import partitions, with_partitions
from sitemap_etl.sources.files.quotes import LONG_LINE, WatchedQuotes, line_breaks
from sitemap_etl.sources.files.text import BLOCK_BYTES, Blocks, Read, blocks, bundled, packed
from sitemap_etl.sources.splits import LINES, LineNumbers, Split

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
    needed: Needed | None = None,
    split_bytes: int = limits.SPLIT_BYTES,
) -> list[Split]:
    """Return the splits of CSV files. Each file is one stream, and small files share a split. `form`: format of the
    files.

    `pays`, `verify`, `note`: see `locate`. Columns that a file lacks are null. Raise InvalidSource (no such file, no
    header, a repeated name), Refused, Unavailable.
    """
    files = locate(paths, SUFFIXES, pays=pays, verify=verify, note=note)
    detail = described(files, form or CsvFormat(), note=note, needed=needed)
    return [
        Split("csv", label, {**detail, "files": [file.to_json() for file in bundle]})
        for label, bundle in bundled(files, split_bytes)
    ]


def described(
    files: Sequence[File], form: CsvFormat, *, note: Note | None = None, needed: Needed | None = None
) -> dict[str, Any]:
    """Return the detail of a split of these files: their columns and their form. Raises as `plan_csv`.

    `repeated`: names of several columns of a file, with that file. Such columns can't be read.
    """
    headers = dict(zip((file.path for file in files), each(lambda file: header(file, form), files), strict=True))
    _check_headers(headers, form, needed or Needed())
    repeated = {name: path for path, found in reversed(headers.items()) for name in found.repeated}
    if repeated and note is not None:
        note(f"{', '.join(repeated)} can't be read: {next(iter(repeated.values()))} has several columns of that name")
    names = list(dict.fromkeys(name for found in headers.values() for name in found.names if name not in repeated))
    keys = partitions(files, frozenset([*names, *repeated]), text=True, note=note)
    form_ = {name: getattr(form, name) for name in CsvFormat.model_fields}
    return {"columns": [*names, *keys], "partitions": keys, "repeated": repeated, **form_}


def _check_headers(headers: Mapping[str, Header], form: CsvFormat, needed: Needed) -> None:
    """Raise `InvalidSource` if no file has a row, or if a file has a header that the others don't have, or none."""
    filled = {path: found for path, found in headers.items() if found.cells and (found.filled or form.header is None)}
    if not filled and form.header is None:
        raise InvalidSource(f"{next(iter(headers))} is empty: expected a first row that names the columns")
    repeating = [path for path, found in filled.items() if found.repeats]
    if repeating:
        other = next((path for path in filled if path not in repeating), None)
        if other is None:
            raise InvalidSource(f"{repeating[0]}: the first row names the columns itself: leave out header:")
        raise InvalidSource(
            f"{repeating[0]}: the first row names the columns itself, and in {other} it does not: header: is for files "
            "without such a row. Remove it from the files that have it, or read them in a section of their own"
        )
    for path, found in filled.items():
        if found.nameless is not None and not needed.among(found.cells).address:
            raise InvalidSource(_nameless(path, found.nameless, filled))
    known = Counter(name for found in filled.values() for name in {cell.strip().casefold() for cell in found.cells})
    columns = [
        FileColumns(path, frozenset(found.cells), found.filled or not _is_header(found, known, len(filled)))
        for path, found in filled.items()
    ]
    headed = next((path for path, found in filled.items() if needed.among(found.cells).address), "")
    check_files(
        columns,
        needed,
        advice=f". If its first row is a row of values, write the row of names before it that {headed} has",
    )


def _is_header(found: Header, known: Counter[str], files: int) -> bool:
    """Return True if the only row of a file names columns: it has a name that other files have, too."""
    return files == 1 or any(known[cell.strip().casefold()] > 1 for cell in found.cells)


def _nameless(path: str, address: str, headers: Mapping[str, Header]) -> str:
    others = [other for other, found in headers.items() if found.nameless is None]
    problem = f"{path}: the first row has to name the columns, and has the address of a page, {address[:_SHOWN]!r}"
    if others:
        names = ", ".join(headers[others[0]].cells)[:_SHOWN]
        return (
            f"{problem}. {others[0]} names them: write its first row into each file, or remove it there and name the "
            f"columns in the site file: from: {{csv: …, header: [{names}]}}"
        )
    return (
        f"{problem}: write a row of names before it, such as loc, or loc,lastmod, or name them in the site file: "
        "from: {csv: …, header: [loc, lastmod]}"
    )


def form_of(detail: Mapping[str, Any]) -> CsvFormat:
    """Return the format of a split's files."""
    return CsvFormat(**{name: detail[name] for name in CsvFormat.model_fields if name in detail})


def read_csv(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    lines: LineNumbers | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split as text, only `columns` if given, in that order. Unknown columns are skipped.

    `lines`: filled in, and a column `LINES` (int32) is added; line breaks are only counted in columns that are read.
    Raise InvalidSource with file and line for a broken row or text in another encoding, Refused, and Unavailable if a
    file has changed since it was planned.
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
            # While a file is overwritten, it looks broken.
            check_unchanged([file])
            raise
    check_unchanged(files)
    if counted is not None:
        counted.end()


class _Counted:
    """Counter of a file's lines, by its bytes and by its rows."""

    def __init__(self, numbers: LineNumbers) -> None:
        self._numbers = numbers
        self._certain = True
        self._rows = 0  # so far, over all files
        self._lines = 0  # so far, counted by rows
        self._before = 0  # lines of the files before this one
        self._found = 0  # in this file, counted by bytes
        self._blank = 0  # at its end
        self._open = False  # True if its last line has no line break

    def begin(self, path: str, lines: int, *, certain: bool) -> None:
        """Begin a file whose first row of values follows this many lines.

        `certain`: False if line breaks in values are not all lines of the file.
        """
        self._finish()
        self._certain &= certain
        self._numbers.files.append((path, self._before))
        self._lines = self._before + lines

    def passed(self, data: bytes) -> bytes:
        """Count the lines in bytes of the file, and return the bytes."""
        end = len(data)
        while end and data[end - 1] in b"\r\n":  # `rstrip` would copy all bytes
            end -= 1
        if data:
            last = line_breaks(data, end, len(data))
            self._found += line_breaks(data, 0, len(data))
            self._blank = last if end else self._blank + last
            self._open = end == len(data)
        return data

    def with_lines(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the column `LINES`."""
        count = batch.num_rows
        extra = np.zeros(count, np.int64)
        for column in batch.columns:
            found = np.frombuffer(column.buffers()[2] or b"", np.uint8)
            for char, pattern in ((_LF, "\n"), (_CR, "\r")):
                if (found == char).any():
                    extra += pc.fill_null(pc.count_substring(column, pattern), 0).to_numpy(zero_copy_only=False)
                    break  # a file has one kind of line break
        after = np.cumsum(extra)
        ahead = self._lines - self._rows + after - extra
        self._rows += count
        self._lines += count + int(after[-1]) if count else 0
        return batch.append_column(LINES, pa.array(ahead.astype(np.int32)))

    def end(self) -> None:
        """Finish after all files were read."""
        self._finish()
        self._numbers.known = self._certain

    def _finish(self) -> None:
        if not self._numbers.files:
            return
        # The line break at the end of the last row is not a blank line.
        there = self._before + self._found - max(0, self._blank - 1) + self._open
        self._certain &= there == self._lines
        self._before += self._found + self._open
        self._found = self._blank = 0


def header(file: File, form: CsvFormat) -> Header:
    """Return the columns of a file. Raise InvalidSource if it has none, Refused, Unavailable."""
    with ExitStack() as stack:
        return _begin(stack, file, form)[2]


def _begin(stack: ExitStack, file: File, form: CsvFormat) -> tuple[Blocks, CsvFormat, Header]:
    """Open a file, and return its text, its format and its columns."""
    try:
        text = stack.enter_context(blocks(file, form))
        form = text.form or form
        found = find_header(file, form, text)
    except UnicodeDecodeError as error:
        raise no_csv(file) or _not_utf8(file, form) from error
    except SitemapEtlError as error:
        raise no_csv(file) or error from error
    except csv.Error as error:
        check_quotes(file, form, text.peek())
        raise no_csv(file) or InvalidSource(
            f"{file.path}: a value of the first row is longer than {csv.field_size_limit():,} characters: is it a "
            "CSV file, with this delimiter?"
        ) from error
    if found.cells and found.cells[0].startswith(_OTHER_FORMATS) and (other_format := no_csv(file)) is not None:
        raise other_format
    check_columns(file.path, len(found.cells))
    return text, form, found


_OTHER_FORMATS: Final = ("{", "[", "<", "PK", "PAR1")
"""Beginnings of files that might not be CSV."""


def no_csv(file: File) -> InvalidSource | None:
    """Return the error for a file of another format, or None if its beginning doesn't show one."""
    try:
        with reading(file, stream=True) as stream:
            what = advice(file.path, stream.read(FIRST), "csv")
    except (SitemapEtlError, pa.ArrowException, OSError):
        return None
    return None if what is None else InvalidSource(f"{file.path} is not a CSV file; {what}")


def _batches(
    file: File, form: CsvFormat, schema: pa.Schema, counted: _Counted | None = None
) -> Iterator[pa.RecordBatch]:
    with ExitStack() as stack:
        text, form, found = _begin(stack, file, form)
        if not found.cells:
            return
        if counted is not None:
            counted.begin(file.path, found.lines, certain=form.escaping_unquoted is None)
        quote = form.quoting
        escape = form.escaping_unquoted
        parse = pa.csv.ParseOptions(
            delimiter=form.delimiter,
            quote_char=quote or False,
            escape_char=escape or False,
            newlines_in_values=quote is not None or escape is not None,
        )
        wanted = frozenset(schema.names)
        convert = pa.csv.ConvertOptions(
            column_types=dict.fromkeys(found.keys, pa.string()),
            include_columns=[name for name in found.names if name in wanted],
            null_values=[NULL if escape is not None and word == UNQUOTED_NULL else word for word in form.nulls],
            strings_can_be_null=True,
            quoted_strings_can_be_null=form.null is not None,
        )
        read = _without_gaps(text.read, file.path)
        if counted is not None:
            read = _counting(read, counted)
        watched = WatchedQuotes(read, form.delimiter, quote) if quote is not None else None
        rows = Blocks(_without(found.size, read if watched is None else watched.read))
        try:
            if rows.peek():  # Arrow refuses a file of no bytes
                if found.size:
                    rows.keep_mark()
                options = pa.csv.ReadOptions(block_size=BLOCK_BYTES, column_names=found.keys)
                with pa.csv.open_csv(
                    pa.PythonFile(rows, mode="r"), read_options=options, parse_options=parse, convert_options=convert
                ) as reader:
                    batches = reader if form.null is not None else map(_without_empty, reader)
                    yield from batches if counted is None else map(counted.with_lines, batches)
        except SitemapEtlError:
            raise
        except (pa.ArrowException, OSError) as error:
            if watched is None or watched.fault is None:
                raise (_fault(file, form, found) or translated(error, file.path)) from error
        finally:
            rows.end()
    if watched is not None and watched.fault is not None:
        raise InvalidSource(f"{file.path} line {_line_of(file, form, watched.at)}: {watched.fault}")


def _counting(read: Read, counted: _Counted) -> Read:
    """Return the stream whose lines are counted as they go by."""
    return lambda size: counted.passed(read(size))


def _without_gaps(read: Read, path: str) -> Read:
    """Return the stream, which raises `InvalidSource` for a long run of blank lines: a parser is silent in it."""
    blank = 0

    def checked(size: int) -> bytes:
        nonlocal blank
        data = read(size)
        blank = blank + len(data) if not data.strip(b" \r\n") else 0
        if blank > limits.BLANK_BYTES:
            raise InvalidSource(f"{path} has more than {limits.BLANK_BYTES:,} bytes of blank lines in a row")
        return data

    return checked


def _without(size: int, read: Read) -> Read:
    """Return the stream without its first bytes."""
    left = size

    def rest(wanted: int) -> bytes:
        nonlocal left
        while True:
            data = read(wanted)
            cut, left = data[left:], max(0, left - len(data))
            if cut or not data:
                return cut

    return rest


def _without_empty(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch of text columns with null for empty texts, which can occur in quotes."""
    return pa.RecordBatch.from_arrays([_filled(column) for column in batch.columns], schema=batch.schema)


def _filled(column: pa.Array) -> pa.Array:
    filled = np.diff(offsets_of(column)) > 0
    if len(filled) - np.count_nonzero(filled) == column.null_count:
        return column
    return pc.if_else(pa.array(filled), column, pa.scalar(None, pa.string()))


class _LongLine(Exception):
    """A line that is longer than any row can be."""


class _Lines:
    """The lines of a text, none of which takes more memory than a row can."""

    def __init__(self, text: io.TextIOBase) -> None:
        self._text = text

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = self._text.readline(limits.CSV_LINE_BYTES)
        if not line:
            raise StopIteration
        if len(line) == limits.CSV_LINE_BYTES:
            raise _LongLine
        return line


def _fault(file: File, form: CsvFormat, found: Header) -> InvalidSource | None:
    """Find the first fault of a file with its line, reading row by row. Speed doesn't matter after a failure."""
    line, expected = 1, len(found.cells)
    named = "in the first row" if form.header is None else "header: names"
    try:
        with blocks(file, form) as text, io.TextIOWrapper(pa.PythonFile(text, "r"), "utf-8-sig", newline="") as lines:
            for _ in range(found.lines):
                lines.readline()
            reader = csv_rows(_Lines(lines), form)
            for row in reader:
                if row and len(row) != expected:
                    shown = form.delimiter.join(row)[:_SHOWN]
                    return InvalidSource(
                        f"{file.path} line {found.lines + line}: expected {expected} fields as {named}, "
                        f"found {len(row)}: {shown!r}{_advice(found, form, line, row)}"
                    )
                line = reader.line_num + 1
    except UnicodeDecodeError:
        return _not_utf8(file, form)
    except _LongLine:
        return InvalidSource(f"{file.path} line {found.lines + line}: {LONG_LINE}")
    except csv.Error:
        return InvalidSource(
            f"{file.path} line {found.lines + line}: a value that begins here is longer than "
            f"{csv.field_size_limit():,} characters: is a closing quote missing?"
        )
    except (SitemapEtlError, pa.ArrowException, OSError):
        # The stream itself is broken: the first error says how.
        return None
    return None


def _advice(found: Header, form: CsvFormat, line: int, row: Sequence[str]) -> str:
    """Return advice for a row with another number of fields than the first row."""
    if form.header is None and sum(bool(cell.strip()) for cell in found.cells) == 1:
        return f". If the lines above are titles, write skip_rows: {found.lines + line - 1}"
    if form.escape is None and any(value.endswith("\\") for value in row):
        return '. If backslashes precede delimiters and line breaks, write quote: none, escape: "\\\\"'
    return ""


def _line_of(file: File, form: CsvFormat, at: int) -> int:
    """Return the line of a byte position in the text."""
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
                # The error's position counts from bytes of the previous block.
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
