"""An unclosed quote is refused with its line, however the file is written, compressed and divided into chunks."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.limits import CSV_VALUE_LINES
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.files.quotes import WatchedQuotes


def in_zip(data: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("pages.csv", data)
    return packed.getvalue()


PACKERS = {
    ".csv": bytes,
    ".csv.gz": gzip.compress,
    ".csv.bz2": bz2.compress,
    ".csv.xz": lzma.compress,
    ".csv.zst": lambda data: pa.compress(data, "zstd", asbytes=True),
    ".csv.zip": in_zip,
}
FORMS = [
    {},
    {"delimiter": ";"},
    {"delimiter": "\t"},
    {"quote": "'"},
    {"escape": "\\"},
    {"encoding": "cp1252"},
    {"encoding": "utf-16"},
]


def read(path: Path, form: CsvFormat | None = None) -> list[dict[str, str | None]]:
    return [row for split in sources.plan_csv(path, form) for batch in sources.read(split) for row in batch.to_pylist()]


def written(rows: list[list[str]], form: CsvFormat, end: str = "\n") -> bytes:
    """Return a file in which `«` and `»` mark the quotes around a value."""
    lines = (form.delimiter.join(row).replace("«", form.quote).replace("»", form.quote) + end for row in rows)
    return "".join(lines).encode(form.encoding)


def table(count: int, at: int, wrong: str) -> list[list[str]]:
    """Return a header and this many rows; the title in this line (from 1) is `wrong`."""
    rows = [["loc", "title"], *([f"/p/{n}", f"«größe {n}»" if n % 3 else f"size {n}"] for n in range(2, count + 2))]
    rows[at - 1][1] = wrong
    return rows


@pytest.mark.parametrize("suffix", PACKERS)
@pytest.mark.parametrize("at", [2, 941, 1_001])
def test_rows_after_an_unclosed_quote_are_never_lost_silently(tmp_path: Path, suffix: str, at: int) -> None:
    path = tmp_path / f"pages{suffix}"
    path.write_bytes(PACKERS[suffix](written(table(1_000, at, "«open"), CsvFormat())))
    with pytest.raises(InvalidSource, match=rf"pages{suffix} line {at}: the quote that opens a value here"):
        read(path)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("at", [1, 2, 41, 60])
def test_an_unclosed_quote_is_found_in_every_csv_format(
    tmp_path: Path, form: dict[str, str], end: str, at: int
) -> None:
    made = CsvFormat.model_validate(form)
    path = tmp_path / "pages.csv"
    path.write_bytes(written(table(59, at, "«title" if at == 1 else "«open"), made, end))
    with pytest.raises(InvalidSource, match=rf"pages.csv line {at}: the quote that opens a value here"):
        read(path, made)


@pytest.mark.parametrize("form", FORMS, ids=str)
@pytest.mark.parametrize("wrong", ['5" pipe', "«closed» and more", "it's", "«two\nlines»", "««»»"])
def test_literal_or_closed_quotes_lose_no_row(tmp_path: Path, form: dict[str, str], wrong: str) -> None:
    made = CsvFormat.model_validate(form)
    path = tmp_path / "pages.csv"
    path.write_bytes(written(table(59, 41, wrong), made))
    assert [row["loc"] for row in read(path, made)] == [f"/p/{n}" for n in range(2, 61)]


def test_an_unclosed_quote_in_a_later_file_of_a_split_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(written(table(100, 50, "fine"), CsvFormat()))
    (tmp_path / "b.csv").write_bytes(written(table(100, 50, "«open"), CsvFormat()))
    with pytest.raises(InvalidSource, match=r"b.csv line 50: the quote that opens a value here"):
        read(tmp_path)


# --- against a reader that goes byte by byte --------------------------------------------------


def first_fault(data: bytes, delimiter: int, quote: int) -> tuple[int, str] | None:
    """Return the byte of the first faulty quote, and the end of its message, by the definition of the format."""
    at, size, ends = 0, len(data), {delimiter, *b"\r\n"}
    while at < size:
        begin = at
        if data[at] == quote:
            at += 1
            while at < size and (data[at] != quote or data[at + 1 : at + 2] == bytes([quote])):
                at += 1 + (data[at] == quote)
            lines = data.count(b"\n", begin, at)
            if lines > CSV_VALUE_LINES:
                return begin, "lines"
            if at == size:
                return begin, "is never closed"
            at += 1
            if lines and at < size and data[at] not in ends:
                return begin, "further on"
        while at < size and data[at] not in ends:
            at += 1
        at += 1
    return None


class Pieces:
    """Return bytes in chunks of some sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes, self.count = data, sizes, 0

    def read(self, _size: int) -> bytes:
        size = self.sizes[self.count % len(self.sizes)]
        self.count += 1
        piece, self.data = self.data[:size], self.data[size:]
        return piece


@given(
    st.lists(st.sampled_from(['"', '"', ",", "\n", "a", '""', ',"', '",', '"\n', "é", "x" * 9]), max_size=60).map(
        "".join
    ),
    st.lists(st.sampled_from([1, 2, 3, 5, 8, 1_000]), min_size=1, max_size=4),
    st.sampled_from(['",', "',", '";', "'\t"]),
)
def test_the_first_faulty_quote_is_found_in_any_bytes_and_chunks(text: str, sizes: list[int], form: str) -> None:
    quote, delimiter = form
    data = text.replace(",", delimiter).replace('"', quote).encode()
    stream = WatchedQuotes(Pieces(data, sizes).read, delimiter, quote)
    passed = b""
    while piece := stream.read():
        passed += piece
    expected = first_fault(data, ord(delimiter), ord(quote))
    if expected is None:
        assert (passed, stream.fault) == (data, None)
    else:
        at, told = expected
        assert stream.fault is not None
        assert (stream.at, told in stream.fault) == (at, True)
        assert data.startswith(passed)
