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


@settings(max_examples=50)
@given(st.lists(st.tuples(CELL, CELL.filter(bool)), max_size=30))
def test_what_pythons_writer_writes_is_read_back(tmp_path: Path, cells: list[tuple[str, str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([("loc", "note"), *cells])
    found = rows(write(tmp_path / "a.csv", text.getvalue()))
    assert found == [{"loc": loc or None, "note": note} for loc, note in cells]


def test_batches_keep_the_bounds_and_columns_can_be_chosen(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,loc,more\n" + "".join(f"{i},/p/{i},x\n" for i in range(1000)))
    (split,) = sources.plan_csv(path)
    found = list(sources.read(split, columns=["loc", "unknown", "id"], batch_rows=300))
    assert [batch.num_rows for batch in found] == [300, 300, 300, 100]
    assert found[0].schema == pa.schema([("loc", pa.string()), ("id", pa.string())])


def test_a_header_alone_is_no_rows_with_known_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc,lastmod\n")
    assert rows(path) == []
    assert sources.columns(sources.plan_csv(path)[0]).names == ["loc", "lastmod"]
    assert sources.probe_files("csv", path).names == ["loc", "lastmod"]


def test_small_files_share_a_split_and_large_ones_do_not(tmp_path: Path) -> None:
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
def test_a_broken_row_is_told_with_file_line_and_counts(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name, 'loc,note\n/a,"two\nlines"\n/b,1\n/c,1,2\n/d,1\n')
    with pytest.raises(InvalidSource, match=rf"{name} line 5: expected 2 fields .* found 3: '/c,1,2'"):
        rows(path)


def test_a_quote_that_is_never_closed_is_told_with_its_line(tmp_path: Path) -> None:
    rest = "".join(f"/p/{i},some text\n" for i in range(300_000))
    path = write(tmp_path / "a.csv", 'loc,note\n/a,1\n/b,"open\n' + rest)
    with pytest.raises(InvalidSource, match=r"a\.csv line 3: a value that begins here .* closing quote missing"):
        rows(path)
    short = write(tmp_path / "b.csv", 'loc,note\n/a,1\n"/b,open\n/c,1\n')
    with pytest.raises(InvalidSource, match=r"b\.csv line 3: expected 2 fields .* found 1"):
        rows(short)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("before", [1, 300_000])
def test_text_that_is_not_utf8_is_told_with_its_line(tmp_path: Path, name: str, before: int) -> None:
    path = write(tmp_path / name, b"loc,note\n" + b"/a,1\n" * before + "/b,größe\n".encode("latin-1"))
    with pytest.raises(InvalidSource, match=rf"{name} line {before + 2} is not UTF-8: export it as UTF-8: b'/b,gr"):
        rows(path)


def test_utf16_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match=r"line 1 is not UTF-8: it looks like UTF-16"):
        rows(write(tmp_path / "a.csv", "loc\n/a\n".encode("utf-16")))


@pytest.mark.parametrize("cut", [4, 40, 5_000])
def test_a_gzip_file_that_is_cut_off_is_told(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.csv.gz"
    packed = gzip.compress(b"loc,id\n" + b"".join(b"/p/%d,%d\n" % (i, i * 7919 % 1000) for i in range(50_000)))
    path.write_bytes(packed[:-cut])
    with pytest.raises(InvalidSource, match=r"a\.csv\.gz can't be read: Truncated compressed stream"):
        rows(path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ("", "is empty: expected a first row"),
        ("\n\n", "is empty: expected a first row"),
        ("loc,id,loc\n/a,1,/b\n", "names the column 'loc' more than once"),
        ("loc;id\n/a;1\n", "is separated by ';': expected ','"),
    ],
)
def test_a_header_that_says_nothing_is_told(tmp_path: Path, data: str, told: str) -> None:
    with pytest.raises(InvalidSource, match=told):
        rows(write(tmp_path / "a.csv", data))


def test_a_file_that_is_not_gzip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_text("loc\n/a\n")
    with pytest.raises(InvalidSource, match=r"a\.csv\.gz can't be read"):
        rows(path)


def test_a_file_that_changes_while_it_is_read_is_worth_a_new_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc\n" + "/a\n" * 1000)
    (split,) = sources.plan_csv(path)
    reader = sources.read(split, batch_rows=100)
    next(reader)
    os.utime(path, ns=(1, 1))
    with pytest.raises(Unavailable, match="changed while it was read"):
        list(reader)


def test_a_broken_row_of_a_file_that_is_being_written_is_worth_a_new_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc,id\n" + "/a,1\n" * 10)
    (split,) = sources.plan_csv(path)
    reader = sources.read(split)
    write(path, "loc,id\n/a,1\n/b,")
    with pytest.raises(Unavailable, match="changed"):
        list(reader)
    path.unlink()
    with pytest.raises(Unavailable, match="was there when it was planned and is gone"):
        list(sources.read(split))
