"""The columns of a CSV, from its first row or its settings, and the position of its first row of values."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

from sitemap_etl.errors import InvalidSource
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.files.files import File
from sitemap_etl.sources.files.quotes import WatchedQuotes, line_breaks
from sitemap_etl.sources.files.text import Blocks, separator_line

_SHOWN: Final = 200
_LINE_ENDS: Final = re.compile(r"\r\n|\n|\r|\Z")
_OTHER_DELIMITERS: Final = ";\t|,\x1f\x01"
_ADDRESSES: Final = tuple(
    re.compile(form, re.IGNORECASE)
    for form in (r"https?://[^\s/]\S*", r"/(?!/)\S*", r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}/\S*")
)
"""Forms of the address of a page: a URL, a path, and a URL without its scheme."""
_COMPARED: Final = 100
"""Rows that are compared with the first one."""
_MOST: Final = 0.8
"""Share of these that have an address in the place of a name."""


class Header(Frozen):
    """Columns of a CSV. `cells`: names as written, blank for a column without a name.

    `size`: bytes of the text before the first row of values. `lines`: lines in these bytes.
    """

    cells: tuple[str, ...]
    size: int
    lines: int
    filled: bool = True
    nameless: str | None = None
    repeats: bool = False

    @cached_property
    def names(self) -> list[str]:
        """Unique names in their order."""
        count = Counter(self.cells)
        return [name for name in self.cells if count[name] == 1 and name.strip()]

    @cached_property
    def repeated(self) -> list[str]:
        """Names of several columns, which can't be read."""
        return [name for name, count in Counter(self.cells).items() if count > 1 and name.strip()]

    @property
    def keys(self) -> list[str]:
        """A unique name for every column. `names` stay unchanged."""
        known = frozenset(self.names)
        return [name if name in known else f"\0{at}" for at, name in enumerate(self.cells)]


def find_header(file: File, form: CsvFormat, text: Blocks) -> Header:
    """Return the columns of a CSV, by its first row or by `form.header`. `text`: its text, not read yet.

    A text without rows has no columns, unless `form.header` names them.
    Raise `InvalidSource` if the first row can't be names, `csv.Error`, and `UnicodeDecodeError`.
    """
    data = text.peek()
    # A block can end within a character; the first row is far from there.
    beginning = codecs.getincrementaldecoder("utf-8")().decode(data)
    skipped = _skipped(beginning, form)
    lines = io.StringIO(beginning[skipped:], newline="")
    rows = csv_rows(lines, form)
    cells: list[str] = next((row for row in rows if row), [])
    size = len(beginning[: skipped + lines.tell()].encode())
    if form.header is not None:
        repeats = _names_again([cell.strip().casefold() for cell in cells], form.header)
        size = len(beginning[:skipped].encode())
        return Header(form.header, size, line_breaks(data, 0, size), filled=bool(data[size:].strip()), repeats=repeats)
    if not data[size:].strip() and not any(cell.strip() for cell in cells):
        return Header((), len(data), line_breaks(data, 0, len(data)), filled=False)
    if not any(cell.strip() for cell in cells):
        raise InvalidSource(f"{file.path} is empty: expected a first row that names the columns")
    if any("\n" in cell or "\r" in cell for cell in cells):
        check_quotes(file, form, data)
    first = cells[0]
    other = next((c for c in _OTHER_DELIMITERS if len(cells) == 1 and c != form.delimiter and c in first), None)
    if other:
        shown = other if other.isprintable() else repr(other)[1:-1]
        raise InvalidSource(
            f"{file.path} is separated by {other!r}: expected {form.delimiter!r} (first row: {first[:_SHOWN]}). "
            f"Write delimiter: {repr(other) if shown == other else chr(34) + shown + chr(34)}"
        )
    ends = data[size - 1 : size] in (b"\n", b"\r")
    nameless = _nameless(cells, rows)
    filled = bool(data[size:].strip())
    return Header(tuple(cells), size, line_breaks(data, 0, size) + (not ends), filled=filled, nameless=nameless)


def _skipped(text: str, form: CsvFormat) -> int:
    """Return the characters of the text above the header."""
    at = separator_line(text)
    for end in itertools.islice(_LINE_ENDS.finditer(text, at), form.skip_rows):
        at = end.end()
    return at


def _names_again(cells: list[str], names: tuple[str, ...]) -> bool:
    """Return True if a first row has the names of the columns, in any order."""
    return sorted(cells) == sorted(name.strip().casefold() for name in names)


def _nameless(cells: list[str], rows: Any) -> str | None:
    """Return the first cell that is an address in place of a name, as the values below it are."""
    forms = [next((form for form in _ADDRESSES if form.fullmatch(cell.strip())), None) for cell in cells]
    if not any(forms):
        return None
    try:
        compared = list(itertools.islice(rows, _COMPARED))
    except csv.Error:  # the reader reports the mistake
        return None
    for at, form in enumerate(forms):
        values = [value for row in compared if len(row) > at and (value := row[at].strip())]
        if form is not None and sum(form.fullmatch(value) is not None for value in values) >= _MOST * len(values):
            return cells[at]
    return None


def csv_rows(text: Iterable[str], form: CsvFormat) -> Any:
    """Return the rows of a text, with `line_num`, from the standard library's parser."""
    if form.quoting is None:
        escape = form.escaping_unquoted
        return csv.reader(text, delimiter=form.delimiter, quoting=csv.QUOTE_NONE, escapechar=escape)
    return csv.reader(text, delimiter=form.delimiter, quotechar=form.quoting)


def check_quotes(file: File, form: CsvFormat, beginning: bytes) -> None:
    """Raise InvalidSource with the line if a quote in the beginning of a text is wrong."""
    if form.quoting is None:
        return
    watched = WatchedQuotes(io.BytesIO(beginning).read, form.delimiter, form.quoting)
    while watched.read(len(beginning)):
        pass
    if watched.fault is not None:
        line = line_breaks(beginning, 0, watched.at) + 1
        raise InvalidSource(f"{file.path} line {line}: {watched.fault}")
