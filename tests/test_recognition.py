"""Recognition of files without a description, and of the format of a CSV."""

from __future__ import annotations

import codecs
import csv
import io
import random
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource, SitemapEtlError
from sitemap_etl.runs.init import start_site
from sitemap_etl.settings import CsvSource
from sitemap_etl.sources.files.recognition import recognize
from tests.support.examples import examples

WORDS = ("Lampe", "größe", "red,", "blue", '5"', "inch", "O'Neil", "a;b", "x|y", "C:\\dir\\", "über", "\\", "tab")
ENCODINGS = ("utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le")


def written(rows: list[list[str]], delimiter: str, quoting: str) -> str:
    """Return the rows as CSV; quoted if necessary, always, or always with escapes, as by Spark."""
    if quoting == "escaped":
        texts = [[value.replace("\\", "\\\\").replace('"', '\\"') for value in row] for row in rows]
        return "".join(delimiter.join(f'"{value}"' for value in row) + "\n" for row in texts)
    out = io.StringIO()
    way = csv.QUOTE_ALL if quoting == "all" else csv.QUOTE_MINIMAL
    csv.writer(out, delimiter=delimiter, quoting=way, lineterminator="\r\n").writerows(rows)
    return out.getvalue()


@settings(max_examples=examples(40))
@given(
    st.integers(0, 2**32),
    st.sampled_from(",;\t|"),
    st.sampled_from(["needed", "all", "escaped"]),
    st.sampled_from(ENCODINGS),
    st.integers(2, 6),
)
def test_a_csv_in_any_format_is_recognized(
    seed: int, delimiter: str, quoting: str, encoding: str, columns: int
) -> None:
    draw = random.Random(seed)

    def value(column: int) -> str:
        if column == 0:
            return f"https://shop.example/{draw.randrange(10**6)}"
        text = " ".join(draw.choices(WORDS, k=draw.randint(0, 5)))
        return text + "\nmore" if draw.random() < 0.05 else text

    rows = [[f"Spalte {n}" for n in range(columns)], *([value(n) for n in range(columns)] for _ in range(60))]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.csv"
        path.write_bytes(written(rows, delimiter, quoting).encode(encoding))
        found = recognize(str(path))
        assert isinstance(found, CsvSource)
        (split,) = sources.plan_export(found)
        read = pa.Table.from_batches(list(sources.read(split))).to_pylist()
    assert [list(row.values()) for row in read] == [[value or None for value in row] for row in rows[1:]]


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("имя;адрес\nлампа;/p/1\n", "cp1251"),
        ("größe;/é\n", "cp1252"),
        ("naïve;café\n", "cp1252"),
        ("a\x81;b\n", "iso-8859-1"),
    ],
)
def test_an_encoding_other_than_unicode_is_guessed(tmp_path: Path, text: str, encoding: str) -> None:
    (tmp_path / "x.csv").write_bytes((text * 20).encode(encoding))
    found = recognize(str(tmp_path / "x.csv"))
    assert isinstance(found, CsvSource)
    assert codecs.lookup(found.encoding) == codecs.lookup(encoding)


def test_the_format_of_a_folder_is_that_of_most_of_its_files(tmp_path: Path) -> None:
    for name in ("a.parquet", "b.jsonl", "c.jsonl", "_SUCCESS", "readme.md"):
        (tmp_path / name).write_text('{"loc": "/a"}\n')
    assert recognize(str(tmp_path)).kind == "jsonl"


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.xlsx", b"PK\x03\x04" + bytes(50), "spreadsheets are not supported: save the sheet as CSV"),
        ("x.json", b'[{"loc": "/a"}]', "it is one JSON array: write an object a line"),
        ("x.csv", b"", "is empty: expected at least one row"),
        ("x.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "x.png"),
        ("x.parquet", b"PAR1 and no more", "x.parquet is not a whole Parquet file"),
    ],
)
def test_an_unreadable_export_is_reported_and_nothing_is_written(
    tmp_path: Path, name: str, data: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(SitemapEtlError, match=said):
        start_site(tmp_path / "site.yaml", exports=[str(tmp_path / name)])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_archive_of_two_files_is_reported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.csv.zip", "w") as archive:
        archive.writestr("a.csv", "loc\n/a\n")
        archive.writestr("b.csv", "loc\n/b\n")
    with pytest.raises(InvalidSource, match="expected one file in the ZIP archive, found 2"):
        recognize(str(tmp_path / "x.csv.zip"))


def test_an_empty_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="no file matches"):
        recognize(str(tmp_path))
