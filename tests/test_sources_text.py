"""CSV of other writers: other encodings, quotes, escapes and compressions."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.files.files import locate
from sitemap_etl.sources.files.text import blocks
from tests.support.examples import examples

TEXT = "loc,note\n/größe,a\n/b,€\n"


def rows(path: Path, **form: str) -> list[dict[str, str | None]]:
    (split,) = sources.plan_csv(path, CsvFormat.model_validate(form))
    split = sources.Split.from_json(split.to_json())
    return [row for batch in sources.read(split, batch_rows=3) for row in batch.to_pylist()]


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("folder/", b"")
        archive.writestr("folder/pages.csv", data)
        archive.writestr("__MACOSX/folder/._pages.csv", b"\0")
    return out.getvalue()


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zip": zipped,
    "zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize("name", PACKED)
def test_a_compressed_file_is_read_like_the_plain_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"a.csv.{name}"
    path.write_bytes(PACKED[name](b"loc,note\n" + b"".join(b"/p/%d,x\n" % n for n in range(1000))))
    found = rows(path)
    assert (len(found), found[-1]) == (1000, {"loc": "/p/999", "note": "x"})
    assert rows(tmp_path) == found  # a folder takes them too


@pytest.mark.parametrize("name", PACKED)
def test_a_truncated_compressed_file_is_reported(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"a.csv.{name}"
    whole = PACKED[name](b"loc,note\n" + b"".join(b"/p/%d,%d\n" % (n, n * 7919 % 10_007) for n in range(5_000)))
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidSource, match=rf"a\.csv\.{name} can't be read: "):
        rows(path)


def test_an_archive_of_several_files_is_reported(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.csv.zip", "w") as archive:
        archive.writestr("a.csv", TEXT)
        archive.writestr("b.csv", TEXT)
    with pytest.raises(InvalidSource, match=r"expected one file in the ZIP archive, found 2 \(a\.csv, b\.csv\)"):
        rows(tmp_path / "a.csv.zip")


@pytest.mark.parametrize(
    "encoding", ["cp1252", "windows-1252", "iso-8859-15", "utf-16", "utf-16-le", "UTF8", "utf-8-sig"]
)
def test_another_encoding_is_read_if_the_site_file_names_it(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.encode(encoding))
    assert rows(path, encoding=encoding) == [{"loc": "/größe", "note": "a"}, {"loc": "/b", "note": "€"}]


def test_an_invalid_byte_of_an_encoding_is_reported_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"loc,note\n" + b"/a,1\n" * 500_000 + b"/b,\x81\n")
    with pytest.raises(InvalidSource, match=r"a\.csv line 500002 is not cp1252 .*Correct `encoding:`"):
        rows(path, encoding="cp1252")


def test_the_likely_encoding_is_suggested(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TEXT.replace("€", "").encode("cp1252"))
    with pytest.raises(InvalidSource, match=r"line 2 is not UTF-8: .*Name the encoding: .*encoding: cp1252"):
        rows(path)


def test_another_quote_character_or_none_is_read_if_the_site_file_names_it(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("loc,note\n/a,'x, ''y''\nz \"q\"'\n/b,\"\n")
    assert rows(path, quote="'") == [{"loc": "/a", "note": "x, 'y'\nz \"q\""}, {"loc": "/b", "note": '"'}]
    path.write_text("loc\tnote\n/a\t\"5\n/b\t'\n")
    assert rows(path, quote="none", delimiter="\t") == [{"loc": "/a", "note": '"5'}, {"loc": "/b", "note": "'"}]


def test_an_unclosed_quote_of_another_character_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("loc,note\n/a,1\n/b,'x\n/c,1\n")
    with pytest.raises(InvalidSource, match=r"line 3: the quote that opens a value here is never closed"):
        rows(tmp_path / "a.csv", quote="'")


def test_values_escaped_by_spark_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text('loc,note\n/a,"say \\"hi\\", C:\\\\dir\\\\"\n/b,C:\\\\plain\\n\n"/c","a\\b"\n/d,"\\\\\\""\n')
    assert [row["note"] for row in rows(path, escape="\\")] == ['say "hi", C:\\dir\\', "C:\\\\plain\\n", "a\\b", '\\"']


@settings(max_examples=examples(300))
@given(
    st.lists(st.text(st.sampled_from('a",\\\n'), min_size=1, max_size=8), min_size=1, max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
    st.integers(1, 7),
)
def test_any_values_are_read_back_from_chunks_of_any_size(cells: list[str], bare: list[bool], size: int) -> None:
    from sitemap_etl.sources.files.text import _Unescaped  # its blocks are megabytes

    def written(value: str, bare: bool) -> str:
        if bare and not value.startswith('"') and not {",", "\n"} & set(value):
            return value  # quotes and escapes within it are text
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'

    data = "".join(f"/a,{written(*cell)}\n" for cell in zip(cells, bare, strict=False)).encode()
    stream = _Unescaped(io.BytesIO(data).read, '"', "\\", ",")
    text = b"".join(iter(lambda: stream.read(size), b"")).decode()
    assert [row[1] for row in csv.reader(io.StringIO(text, newline=""))] == cells


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("peeked", [True, False])
@pytest.mark.parametrize("form", [CsvFormat(), CsvFormat(encoding="cp1252"), CsvFormat(escape="\\")], ids=str)
def test_a_reader_never_gets_more_bytes_than_it_asked_for(
    tmp_path: Path, form: CsvFormat, *, peeked: bool, verify: bool
) -> None:
    """Arrow copies what it gets into a buffer of the requested size."""
    text = "loc,note\n" + '"/größe\\"",ü\n' * 5_000
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(text.encode(form.encoding)))
    (file,) = locate(path, (".csv.gz",), verify=verify)
    with blocks(file, form) as found:
        if peeked:
            found.peek()
        pieces = []
        while piece := found.read(1_000):
            pieces.append(piece)
    assert max(map(len, pieces)) <= 1_000
    expected = text if form.escape is None else text.replace('\\"', '""')
    assert b"".join(pieces).decode() == expected


def test_a_broken_row_far_into_a_text_of_another_encoding_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(("loc,note\n" + "/größe,üüüüü\n" * 20_000 + "/a,b,c\n").encode("cp1252"))
    with pytest.raises(InvalidSource, match="line 20002: expected 2 fields"):
        rows(path, encoding="cp1252")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(b"loc\n/a\n") + bytes(1024), "other bytes behind its compressed data"),
        (gzip.compress(b"loc\n/a\n") + b"trailing garbage", "other bytes behind its compressed data"),
        (b"loc\n/a\n", r"is not compressed with gzip, as its name says: rename it to a\.csv"),
        (gzip.compress(gzip.compress(b"loc\n/a\n" * 100)), "compressed with gzip more than once"),
        (gzip.compress(b"loc\n" + bytes(range(10, 127)) * 99)[:-20], "damaged or cut off"),
    ],
    ids=range(5),
)
def test_gzip_errors_are_explained(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(data)
    with pytest.raises(InvalidSource, match=rf"a\.csv\.gz .*{said}"):
        [list(sources.read(split)) for split in sources.plan_csv(path)]
