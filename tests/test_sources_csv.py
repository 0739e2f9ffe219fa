from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.files.quotes import WatchedQuotes
from tests.support.command import process
from tests.support.examples import examples

CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=12)


def rows(path: object, **options: object) -> list[dict[str, str | None]]:
    return [
        row for split in sources.plan_csv(path) for batch in sources.read(split, **options) for row in batch.to_pylist()
    ]


def write(path: Path, data: str | bytes) -> Path:
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_every_column_is_text_and_an_empty_field_is_null(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, '\ufeffloc,id,note\n/a,007,"x, ""y"""\r\n/b,,""\n"/c\nd",1e5,true\n')
    assert rows(path) == [
        {"loc": "/a", "id": "007", "note": 'x, "y"'},
        {"loc": "/b", "id": None, "note": None},
        {"loc": "/c\nd", "id": "1e5", "note": "true"},
    ]


@settings(max_examples=examples(50))
@given(st.lists(st.tuples(CELL, CELL.filter(bool)), max_size=30))
def test_csv_written_by_python_is_read_back(tmp_path: Path, cells: list[tuple[str, str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("loc", "note"), *cells])
    found = rows(write(tmp_path / "a.csv", text.getvalue()))
    assert found == [{"loc": loc or None, "note": note} for loc, note in cells]


@settings(max_examples=examples(50))
@given(
    st.lists(st.lists(CELL, max_size=8), min_size=1, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["", "\n", "\n\n"]),
)
def test_the_line_of_a_row_is_that_of_a_text_editor(
    tmp_path: Path, files: list[list[str]], end: str, last: str
) -> None:
    paths, expected = [], []
    for at, cells in enumerate(files):
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator=end)
        writer.writerow(["loc", "note"])
        for n, cell in enumerate(cells):
            line = text.getvalue().count("\n") + 1
            writer.writerow([f"/{at}/{n}", cell.replace("\n", end)])
            expected.append((f"/{at}/{n}", str(tmp_path / f"{at}.csv"), line))
        paths.append(write(tmp_path / f"{at}.csv", text.getvalue().rstrip("\r\n") + last))
    (split,) = sources.plan_csv(paths)
    numbers = sources.LineNumbers()
    table = [row for batch in sources.read(split, lines=numbers, batch_rows=3) for row in batch.to_pylist()]
    assert numbers.known
    found = []
    for position, row in enumerate(table):
        line = position + row[sources.LINES]
        path, before = [file for file in numbers.files if file[1] <= line][-1]
        found.append((row["loc"], path, line - before + 1))
    assert found == expected


@pytest.mark.parametrize("text", ["loc,note", "loc,note\n", "loc,note\r\n"])
def test_a_header_alone_is_a_file_without_rows(tmp_path: Path, text: str) -> None:
    assert rows(write(tmp_path / "a.csv", text)) == []


def test_line_numbers_are_unknown_after_blank_lines(tmp_path: Path) -> None:
    (split,) = sources.plan_csv(write(tmp_path / "a.csv", "loc,note\n/a,x\n\n/b,y\n"))
    numbers = sources.LineNumbers()
    assert sum(batch.num_rows for batch in sources.read(split, lines=numbers)) == 2
    assert not numbers.known


def test_batches_respect_the_bounds_and_columns_can_be_selected(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,loc,more\n" + "".join(f"{i},/p/{i},x\n" for i in range(1000)))
    (split,) = sources.plan_csv(path)
    found = list(sources.read(split, columns=["loc", "unknown", "id"], batch_rows=300))
    assert [batch.num_rows for batch in found] == [300, 300, 300, 100]
    assert found[0].schema == pa.schema([("loc", pa.string()), ("id", pa.string())])


def test_a_header_alone_has_known_columns_and_no_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc,lastmod\n")
    assert rows(path) == []
    assert sources.columns(sources.plan_csv(path)[0]).names == ["loc", "lastmod"]


def test_small_files_share_a_split_and_large_ones_have_their_own(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        write(tmp_path / f"{name}.csv", "loc\n" + f"/{name}\n" * 100)
    assert [split.label for split in sources.plan_csv(tmp_path)] == [f"{tmp_path}/a.csv and 2 more"]
    assert len(sources.plan_csv(tmp_path, split_bytes=400)) == 3


def test_a_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "loc,lastmod\n/a,2026-01-02\n")
    write(tmp_path / "b.csv", "title,loc\nB,/b\n")
    assert rows(tmp_path) == [
        {"loc": "/a", "lastmod": "2026-01-02", "title": None},
        {"loc": "/b", "lastmod": None, "title": "B"},
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_a_broken_row_is_reported_with_file_line_and_counts(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, 'loc,note\n/a,"two\nlines"\n/b,1\n/c,1,2\n/d,1\n')
    with pytest.raises(InvalidSource, match=rf"{name} line 5: expected 2 fields .* found 3: '/c,1,2'"):
        rows(path)


ROWS = 300_000  # more than are parsed at a time


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("before", [1, ROWS])
@pytest.mark.parametrize(
    ("after", "told"),
    [
        ("", "is never closed"),
        ("/p,some text\n" * 500, "is never closed"),
        ("/p,some text\n" * 10_000, "is not closed within 1,000 lines"),
        ("/p,some text\n" * ROWS, "is not closed within 1,000 lines"),
        (
            "/p,some text\n" * 10_000 + '/q,"quoted"\n',
            "is (closed only 10,001 lines further on|not closed within 1,000 lines)",
        ),
        ("/p,some text\n" * 10_000 + '/q"\n', "is (closed only 10,001 lines further on|not closed within 1,000 lines)"),
        ('/p,some text\n/q,"quoted"\n/r,1\n', "is closed only 2 lines further on"),
    ],
)
def test_an_unclosed_quote_is_reported_with_its_line(
    tmp_path: Path, name: str, before: int, after: str, told: str
) -> None:
    path = write(tmp_path / name, "loc,note\n" + "/a,1\n" * before + '/b,"open\n' + after)
    with pytest.raises(InvalidSource, match=rf"{name} line {before + 2}: the quote that opens .* {told}: is a closing"):
        rows(path, columns=["loc"])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_value_can_have_a_thousand_line_breaks_and_a_row_more(tmp_path: Path, end: str) -> None:
    long = end.join(["text"] * 1001)
    path = write(tmp_path / "a.csv", f'loc,note,more{end}/a,"{long}","{long}"{end}/b,1,2{end}')
    assert [row["loc"] for row in rows(path)] == ["/a", "/b"]
    write(path, f'loc,note,more{end}/a,1,"{long}{end}"{end}/b,1,2{end}')
    with pytest.raises(InvalidSource, match=r"line 2: .* is closed only 1,001 lines further on"):
        rows(path)


def test_quotes_inside_unquoted_values_are_text(tmp_path: Path) -> None:
    many = "".join(f'/p/{n},{n}" pipe,"a ""b"", c"\n' for n in range(ROWS))
    found = rows(write(tmp_path / "a.csv", f'loc,note,more\n{many}/x,5",7"\n/y,"q" r,"s\nt"\n/z,"""",""\n'))
    assert len(found) == ROWS + 3
    assert found[1_500] == {"loc": "/p/1500", "note": '1500" pipe', "more": 'a "b", c'}
    assert [list(row.values()) for row in found[-3:]] == [
        ["/x", '5"', '7"'],
        ["/y", "q r", "s\nt"],
        ["/z", '"', None],
    ]


class Dripping:
    """Return bytes in chunks of some sizes."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes, self.at = data, sizes, 0

    def read(self, _size: int) -> bytes:
        size = self.sizes[self.at % len(self.sizes)]
        self.at += 1
        piece, self.data = self.data[:size], self.data[size:]
        return piece


def watched(data: bytes, sizes: list[int], delimiter: str = ",") -> tuple[bytes, str | None]:
    """Return what is passed on, and the fault."""
    stream = WatchedQuotes(Dripping(data, sizes).read, delimiter, '"')
    seen = b""
    while piece := stream.read():
        seen += piece
    return seen, stream.fault


MARKED = st.text(st.sampled_from('",;\n\r aé'), max_size=6)
TABLES = st.lists(st.lists(MARKED, min_size=2, max_size=2), max_size=6)
SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=4)


@given(TABLES, SIZES, st.sampled_from(",;"), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.booleans())
def test_csv_written_by_python_has_no_faulty_quotes_in_any_chunks(
    table: list[list[str]], sizes: list[int], delimiter: str, end: str, always: bool, bom: bool
) -> None:
    text = io.StringIO(newline="")
    quoting = csv.QUOTE_ALL if always else csv.QUOTE_MINIMAL
    csv.writer(text, lineterminator=end, delimiter=delimiter, quoting=quoting).writerows(table)
    data = ("\ufeff" if bom else "").encode() + text.getvalue().encode()
    assert watched(data, sizes, delimiter) == (data, None)


@given(TABLES, SIZES, MARKED.map(lambda text: text.replace('"', "'")))
def test_an_unclosed_quote_at_the_end_is_found_in_any_chunks(
    table: list[list[str]], sizes: list[int], rest: str
) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([[cell.replace("\r", "") for cell in row] for row in table])
    data = text.getvalue().encode()
    stream = WatchedQuotes(Dripping(data + b'a,"' + rest.encode(), sizes).read, ",", '"')
    while stream.read():
        pass
    assert (stream.at, stream.fault) == (
        len(data) + 2,
        "the quote that opens a value here is never closed: is a closing quote missing?",
    )


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("before", [1, 300_000])
def test_text_that_is_not_utf8_is_reported_with_its_line(tmp_path: Path, name: str, before: int) -> None:
    path = write(tmp_path / name, b"loc,note\n" + b"/a,1\n" * before + "/b,größe\n".encode("latin-1"))
    with pytest.raises(InvalidSource, match=rf"{name} line {before + 2} is not UTF-8: b'/b,gr"):
        rows(path)


def test_utf16_is_recognized(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match=r"line 1 is not UTF-8: it looks like UTF-16"):
        rows(write(tmp_path / "a.csv", "loc\n/a\n".encode("utf-16")))


@pytest.mark.parametrize("cut", [4, 40, 5_000])
def test_a_truncated_gzip_file_is_reported(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv.gz"
    packed = gzip.compress(b"loc,id\n" + b"".join(b"/p/%d,%d\n" % (i, i * 7919 % 1000) for i in range(50_000)))
    path.write_bytes(packed[:-cut])
    with pytest.raises(
        InvalidSource, match=r"a\.csv\.gz can't be read: it is damaged or cut off \(Truncated compressed stream\)"
    ):
        rows(path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("", "is empty: expected a first row"),
        ("\n\n", "is empty: expected a first row"),
        ("loc;id\n/a;1\n", "is separated by ';': expected ','"),
    ],
)
def test_a_header_without_names_is_reported(tmp_path: Path, data: str, told: str) -> None:
    with pytest.raises(InvalidSource, match=told):
        rows(write(tmp_path / "a.csv", data))


def test_a_file_that_is_not_gzip_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_text("loc\n/a\n")
    with pytest.raises(
        InvalidSource, match=r"a\.csv\.gz is not compressed with gzip, as its name says: rename it to a\.csv"
    ):
        rows(path)


def test_a_file_that_changes_during_the_read_can_be_retried_with_a_new_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc\n" + "/a\n" * 1000)
    (split,) = sources.plan_csv(path)
    reader = sources.read(split, batch_rows=100)
    next(reader)
    os.utime(path, ns=(1, 1))
    with pytest.raises(Unavailable, match="changed while it was read"):
        list(reader)


def test_a_broken_row_of_a_file_being_written_can_be_retried_with_a_new_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc,id\n" + "/a,1\n" * 10)
    (split,) = sources.plan_csv(path)
    reader = sources.read(split)
    write(path, "loc,id\n/a,1\n/b,")
    with pytest.raises(Unavailable, match="changed"):
        list(reader)
    path.unlink()
    with pytest.raises(Unavailable, match="was there when it was planned and is gone"):
        list(sources.read(split))


@pytest.mark.parametrize(
    ("name", "data", "advice"),
    [
        (
            "p.jsonl",
            b'{"loc": "/a"}\n',
            r"it looks like JSON: write jsonl: instead of csv:",
        ),
        (
            "p.json",
            b'[\n{"loc": "/a"}]',
            r"it is one JSON array: write an object a line, with  jq -c '\.\[\]' p.json > p.jsonl",
        ),
        ("p.xlsx", b"PK\x03\x04" + b"\x00" * 99, "spreadsheets are not supported: save the sheet as CSV"),
        ("p.csv", b"PK\x03\x04" + b"\x00" * 99, "it is a ZIP archive: rename it to p.csv.zip"),
        ("p.xml", b'<?xml version="1.0"?><urlset/>', "XML is not supported: export it"),
        ("p.csv", b"\x1f\x8b\x08\x00" + b"\x00" * 99, "it is compressed with gzip: rename it to p.csv.gz"),
        ("p.csv", b"PAR1" + b"\x15\x00\xff" * 99, "it is a Parquet file: write parquet: instead of csv:"),
    ],
)
def test_a_file_of_another_format_is_reported_with_what_to_do(
    tmp_path: Path, name: str, data: bytes, advice: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidSource, match=rf"{name} is not a CSV file; {advice}"):
        sources.plan_csv([str(tmp_path / name)])


def test_a_quoted_header_after_a_byte_order_mark_is_unquoted(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_bytes(b"\xef\xbb\xbf" + rb'"lo\"c","b"' + b"\n" + rb'"/a","x\"' + b"\n" + rb'y"' + b"\n")
    (split,) = sources.plan_csv(path, CsvFormat(escape="\\"))
    assert [batch.to_pylist() for batch in sources.read(split)] == [[{'lo"c': "/a", "b": 'x"\ny'}]]


@pytest.mark.parametrize("name", ["[id]", "{id}"])
def test_a_header_with_brackets_is_not_mistaken_for_json(name: str, tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text(f"{name},loc\n1,/a\n")
    (split,) = sources.plan_csv(path)
    assert [batch.to_pylist() for batch in sources.read(split)] == [[{name: "1", "loc": "/a"}]]


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("value", ["\ufeff/a", "\ufeff"])
def test_a_byte_order_mark_within_the_first_value_is_kept(tmp_path: Path, mark: bytes, value: str) -> None:
    path = tmp_path / "pages.csv"
    path.write_bytes(mark + f"loc\n{value}\n/b\n".encode())
    rows = [row for split in sources.plan_csv(str(path)) for batch in sources.read(split) for row in batch.to_pylist()]
    assert [row["loc"] for row in rows] == [value, "/b"]


def test_a_long_line_takes_little_memory_and_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"loc,title\n/a,x\n/b," + b"x" * 10_000_000 + b"\n")
    with pytest.raises(InvalidSource, match=r"a\.csv line 3: a line is longer than 4,194,304 characters"):
        rows(path)


@pytest.mark.parametrize("break_", [b"\n", b"\r\n"])
def test_very_many_blank_lines_are_refused(tmp_path: Path, break_: bytes) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"loc\n/a\n" + break_ * 70_000_000, 1))
    with pytest.raises(InvalidSource, match=r"more than 67,108,864 bytes of blank lines in a row"):
        rows(path)
    path.write_bytes(gzip.compress(b"loc\n/a\n" + break_ * 1_000_000 + b"/b\n", 1))
    assert rows(path) == [{"loc": "/a"}, {"loc": "/b"}]


def test_a_refused_file_does_not_abort_the_process(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'loc,title\n/a,"' + b'""' * 10_000_000 + b'"\n/b,x\n')
    (tmp_path / "x.yaml").write_text(
        "site: https://shop.example\npublish: ./public\nurls: {respect_robots: false}\n"
        "sections:\n  pages:\n    from: {csv: a.csv}\n"
    )
    running = process("run", "x.yaml", cwd=tmp_path)
    _, said = running.communicate()
    assert (running.returncode, "line 2: a line is longer" in said) == (2, True), said


def test_a_value_of_quotes_alone_takes_little_memory(tmp_path: Path) -> None:
    """A reader that scans a row again with each of its blocks would take quadratic time."""
    (tmp_path / "a.csv").write_bytes(b"loc\n/a\n" + b'"' * 10_000_000)
    watched = WatchedQuotes(io.BytesIO((tmp_path / "a.csv").read_bytes()).read, ",", '"')
    taken = 0
    while piece := watched.read(1024 * 1024):
        taken += len(piece)
    assert (watched.at, taken) == (7, 4 * 1024 * 1024)
    with pytest.raises(InvalidSource, match=r"a\.csv line 3: a line is longer than 4,194,304 characters"):
        rows(tmp_path / "a.csv")


@pytest.mark.parametrize(("end", "inner"), [("\r", "\n"), ("\r", "\r\n"), ("\n", "\r"), ("\r\n", "\r")])
def test_line_breaks_in_values_can_differ_from_those_between_rows(tmp_path: Path, end: str, inner: str) -> None:
    """Excel on a Mac writes CR after rows and LF within cells."""
    found = [f'/{n},"a{inner if n % 50_000 == 0 else ""}b, {"x" * 40}"' for n in range(120_000)]
    (tmp_path / "a.csv").write_bytes(end.join(["loc,title", *found, ""]).encode())
    titles = [row["title"] for row in rows(tmp_path / "a.csv")]
    assert (len(titles), titles[50_000]) == (120_000, f"a{inner}b, {'x' * 40}")


def test_a_long_first_row_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"x" * 200_000 + b"\n/a\n")
    with pytest.raises(InvalidSource, match=r"a\.csv: a value of the first row is longer than 131,072 characters"):
        rows(tmp_path / "a.csv")


def test_text_without_the_byte_order_mark_that_its_encoding_needs_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"loc\n/a\n")
    with pytest.raises(InvalidSource, match=r"a\.csv is not utf-16 \(UTF-16 stream does not start with BOM\)"):
        sources.plan_csv(tmp_path / "a.csv", CsvFormat(encoding="utf-16"))
