"""The columns of a CSV: named by its first row or by the site file, repeated or without a name; and its nulls."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources import LINES, LineNumbers


def read(path: Path, **form: object) -> list[dict[str, str | None]]:
    splits = sources.plan_csv(path, CsvFormat.model_validate(form))
    return [row for split in splits for batch in sources.read(split) for row in batch.to_pylist()]


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def lines_of(path: Path, **form: object) -> list[int]:
    """Return the line of each row, as an editor counts."""
    numbers = LineNumbers()
    (split,) = sources.plan_csv(path, CsvFormat.model_validate(form))
    rows = [row for batch in sources.read(split, lines=numbers) for row in batch.to_pylist()]
    assert numbers.known
    return [position + row[LINES] + 1 for position, row in enumerate(rows)]


# --- files without a header -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("bom", ["", "\ufeff"])
def test_the_site_file_names_the_columns_of_a_file_without_a_header(
    tmp_path: Path, name: str, end: str, bom: str
) -> None:
    path = write(tmp_path / name, f'{bom}/a,"1{end}2"{end}/b,{end}')
    assert read(path, header=["loc", "note"]) == [{"loc": "/a", "note": f"1{end}2"}, {"loc": "/b", "note": None}]
    assert lines_of(path, header=["loc", "note"]) == [1, 3]


def test_an_empty_file_whose_columns_are_named_has_no_rows(tmp_path: Path) -> None:
    assert read(write(tmp_path / "a.csv", ""), header=["loc"]) == []
    assert read(write(tmp_path / "a.csv", "\n\n"), header=["loc"]) == []


def test_a_header_line_is_refused_if_the_site_file_names_the_columns_too(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "Loc, lastmod\n/a,2026-01-01\n")
    with pytest.raises(InvalidSource, match=r"a\.csv: the first row names the columns itself: leave out header:"):
        read(path, header=["loc", "lastmod"])


@pytest.mark.parametrize("text", ["/a,1,2\n", "/a,1\n/b,1,2\n", "/a\n"])
def test_a_row_with_another_number_of_fields_than_names_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidSource, match=r"a\.csv line \d: expected 2 fields as header: names, found [13]"):
        read(write(tmp_path / "a.csv", text), header=["loc", "note"])


# --- names that several columns have, or none ------------------------------------------------


def test_columns_with_blank_or_repeated_names_are_ignored(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "url,title,title,, \n/a,A,B,1,2\n/b,,,,\n")
    assert read(path) == [{"url": "/a"}, {"url": "/b"}]


def test_a_name_repeated_in_one_of_the_files_is_ignored_in_all(tmp_path: Path) -> None:
    write(tmp_path / "a.csv", "url,title\n/a,A\n")
    write(tmp_path / "b.csv", "url,title,title\n/b,A,B\n")
    notes: list[str] = []
    (split,) = sources.plan_csv(tmp_path, note=notes.append)
    assert [row for batch in sources.read(split) for row in batch.to_pylist()] == [{"url": "/a"}, {"url": "/b"}]
    assert notes == [f"title can't be read: {tmp_path / 'b.csv'} has several columns of that name"]


@pytest.mark.parametrize("text", ["\x1f", "\x1f\n", ",,\n/a,,\n", " \n", "\ufeff"])
def test_a_first_row_without_a_name_is_not_a_header(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidSource, match="is empty: expected a first row that names the columns"):
        read(write(tmp_path / "a.csv", text))


@pytest.mark.parametrize("text", ['loc,"title\n/a,x\n', '"loc,title\n/a,"x"\n', '"loc\n/a,x\n' + "/b,y\n" * 50_000])
def test_an_unclosed_quote_in_the_header_is_reported(tmp_path: Path, text: str) -> None:
    with pytest.raises(InvalidSource, match=r"a\.csv line 1: the quote that opens a value here"):
        sources.plan_csv(write(tmp_path / "a.csv", text))


# --- the line of Excel ------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["sep=;", "SEP=;", '"sep=;"'])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("form", [{}, {"delimiter": ";"}, {"escape": "\\"}], ids=str)
def test_a_sep_line_is_skipped(tmp_path: Path, first: str, end: str, encoding: str, form: dict[str, str]) -> None:
    path = write(tmp_path / "a.csv", f'{first}{end}url;title{end}/a;"A;B"{end}/b;"C{end}"{end}/c;{end}', encoding)
    form = {**form, "encoding": encoding.removesuffix("-sig")}
    assert read(path, **form) == [
        {"url": "/a", "title": "A;B"},
        {"url": "/b", "title": f"C{end}"},
        {"url": "/c", "title": None},
    ]
    assert lines_of(path, **form) == [3, 4, 6]


def test_a_broken_row_after_a_sep_line_is_reported_with_its_line(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sep=;\nurl;title\n/a;A\n/b;B;C\n")
    with pytest.raises(InvalidSource, match=r"a\.csv line 4: expected 2 fields as in the first row, found 3: '/b;B;C'"):
        read(path)


def test_a_sep_line_before_rows_without_a_header_is_skipped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "sep=;\n/a;1\n")
    assert read(path, header=["loc", "note"]) == [{"loc": "/a", "note": "1"}]
    assert lines_of(path, header=["loc", "note"]) == [2]


@pytest.mark.parametrize("delimiter", ["\x1f", "\x01"])
def test_a_control_character_can_be_the_delimiter(tmp_path: Path, delimiter: str) -> None:
    text = "loc,note\n/a,x\n/b,\n".replace(",", delimiter)
    path = write(tmp_path / "a.csv", text)
    assert read(path, delimiter=delimiter) == [{"loc": "/a", "note": "x"}, {"loc": "/b", "note": None}]
    with pytest.raises(InvalidSource, match=r"Write delimiter: \"\\x"):
        read(path)


# --- null -------------------------------------------------------------------------------------


def test_empty_values_and_an_unquoted_backslash_n_are_null(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'loc,x\n/a,\n/b,""\n/c,\\N\n/d,"\\N"\n/e,NULL\n/f,\\n\n/g, \n')
    assert [row["x"] for row in read(path)] == [None, None, None, "\\N", "NULL", "\\n", " "]


@pytest.mark.parametrize("word", ["NULL", "\\N", "nan", "#N/A", "0000-00-00", "-"])
def test_null_words_of_the_site_file_are_null_quoted_or_not(tmp_path: Path, word: str) -> None:
    path = write(tmp_path / "a.csv", f'loc,x\n/a,{word}\n/b,"{word}"\n/c,""\n/d,\n/e,{word}s\n/f,Null\n')
    assert [row["x"] for row in read(path, null=word)] == [None, None, None, None, f"{word}s", "Null"]
    assert [row["x"] for row in read(path, null=["x", word])] == [None, None, None, None, f"{word}s", "Null"]


def test_null_words_of_the_site_file_replace_the_default(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "loc,x\n/a,\\N\n/b,NULL\n")
    assert [row["x"] for row in read(path, null="NULL")] == ["\\N", None]


@given(st.lists(st.sampled_from(["", '""', "\\N", '"\\N"', "x", '"x"', '"a,b"', "NULL"]), max_size=30))
def test_nulls_do_not_depend_on_neighboring_values(tmp_path: Path, cells: list[str]) -> None:
    path = write(tmp_path / "a.csv", "loc,x\n" + "".join(f"/p,{cell}\n" for cell in cells))
    meant = {"": None, '""': None, "\\N": None}
    assert [row["x"] for row in read(path)] == [meant.get(cell, cell.strip('"')) for cell in cells]
    known = {**meant, '"\\N"': None, "NULL": None}
    found = read(path, null=["\\N", "NULL"])
    assert [row["x"] for row in found] == [known.get(cell, cell.strip('"')) for cell in cells]
