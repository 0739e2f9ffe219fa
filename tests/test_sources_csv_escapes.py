r"""Escapes outside of quotes (`quote: none, escape: "\\"`), and title lines above a header (`skip_rows:`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import CsvFormat
from sitemap_etl.sources.files import csv_files
from sitemap_etl.sources.files.escapes import Escapes
from sitemap_etl.sources.files.files import locate
from sitemap_etl.sources.files.recognition import csv_form, recognize
from sitemap_etl.sources.splits import LINES, LineNumbers
from tests.support.examples import examples
from tests.support.sites import TestSite

DUMP = {"delimiter": "\t", "quote": "none", "escape": "\\"}
OUTFILE = (
    "loc\ttitle\tupdated_at\n/p/1\tLamp\\\nof steel\t2026-10-01\n/p/2\tA\\\tB\t\\N\n/p/c:\\\\d\tBack\\\\slash\t2\n"
)
COPY = "loc\ttitle\tupdated_at\n/p/1\tLamp\\nof steel\t2026-10-01\n/p/2\tA\\tB\t\\N\n/p/c:\\\\d\tBack\\\\slash\t2\n"
ROWS = [
    {"loc": "/p/1", "title": "Lamp\nof steel", "updated_at": "2026-10-01"},
    {"loc": "/p/2", "title": "A\tB", "updated_at": None},
    {"loc": "/p/c:\\d", "title": "Back\\slash", "updated_at": "2"},
]


def rows_of(path: Path, **form: Any) -> list[dict[str, Any]]:
    (split,) = sources.plan_csv(path, CsvFormat(**form))
    return [row for batch in csv_files.read_csv(split) for row in batch.to_pylist()]


@pytest.mark.parametrize("text", [OUTFILE, COPY], ids=["outfile", "copy"])
@pytest.mark.parametrize("line_break", ["\n", "\r\n"])
def test_escapes_outside_of_quotes_are_read(tmp_path: Path, text: str, line_break: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes(text.replace("\\\n", "\\n").replace("\n", line_break).encode())
    assert rows_of(path, **DUMP) == ROWS
    path.write_text(text)
    assert rows_of(path, **DUMP) == ROWS


def test_a_null_marker_is_null_only_as_a_whole_value(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("loc\ta\tb\n\\N\t\\N\t\\N\nx\\N\t\\Ny\t\\\\N\n\\\t\\N\tNULL\tz")
    assert rows_of(path, **DUMP) == [
        {"loc": None, "a": None, "b": None},
        {"loc": "xN", "a": "Ny", "b": "\\N"},
        {"loc": "\tN", "a": "NULL", "b": "z"},
    ]
    assert rows_of(path, **DUMP, null=["NULL"])[2]["a"] is None


@pytest.mark.parametrize(("end", "value"), [("/a\\", "/a"), ("/a\\\\\\", "/a\\"), ("/a\\\\", "/a\\")])
def test_an_escape_character_at_the_end_of_the_file_is_text(tmp_path: Path, end: str, value: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(f"loc\n{end}")
    assert rows_of(path, **DUMP) == [{"loc": value}]


def test_a_refusal_of_an_escaped_line_break_names_the_keys(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(OUTFILE)
    with pytest.raises(InvalidSource, match=r'line 2: .* quote: none, escape: "\\\\"'):
        rows_of(path, delimiter="\t")


TEXTS = st.text(st.sampled_from("aN\\\t\n\r\"nt'ü,\x00"), max_size=6)


def dumped(value: str | None) -> str:
    if value is None:
        return "\\N"
    written = {"\\": "\\\\", "\t": "\\\t", "\n": "\\\n", "\r": "\\r", "\0": "\\0"}
    return "".join(written.get(character, character) for character in value)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.tuples(TEXTS | st.none(), TEXTS | st.none()), min_size=1, max_size=6), st.integers(1, 9))
def test_escaped_text_is_read_back_in_blocks_of_any_size(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[str | None, str | None]], size: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.tsv"
    text = "loc\tx\tend\n" + "".join("\t".join([*map(dumped, row), "z"]) + "\n" for row in values)
    path.write_bytes(text.encode())
    expected = [{"loc": one, "x": other, "end": "z"} for one, other in values]
    for row in expected:
        row.update({name: None for name in ("loc", "x") if row[name] in ("", "\0")})  # they mean null
    assert rows_of(path, **DUMP) == expected

    def in_blocks(size: int) -> bytes:
        data = text.encode()
        blocks = iter([data[at : at + size] for at in range(0, len(data), size)])
        read = Escapes(lambda _: next(blocks, b""), "\\", "\t").read
        return b"".join(iter(lambda: read(size), b""))

    assert in_blocks(size) == in_blocks(1 << 20)


def test_lines_are_not_numbered_if_line_breaks_can_be_letters(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(COPY)
    (split,) = sources.plan_csv(path, CsvFormat(**DUMP))
    lines = LineNumbers()
    batches = list(csv_files.read_csv(split, lines=lines))
    assert LINES in batches[0].schema.names
    assert not lines.known


@pytest.mark.parametrize("text", [OUTFILE, COPY], ids=["outfile", "copy"])
def test_init_recognizes_escaped_exports(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.tsv"
    path.write_text(text)
    assert recognize(str(path)).model_dump(exclude_defaults=True) == {"csv": (str(path),), **DUMP}


@pytest.mark.parametrize(
    "text",
    ["loc,path\n/a,C:\\docs\n", 'loc,x\n/a,"b\\nc"\n', "loc,x\n/a,\\N\n/b,c\n", "loc\tx\n/a\tC:\\temp\\dir\n"],
)
def test_init_reads_other_backslashes_as_text(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert recognize(str(path)).escape is None  # type: ignore[union-attr]


# --- titles above the header ------------------------------------------------------------------------------------------

TITLES = "Pages of the shop\n\nExported 2026-10-01\nloc;title\n/a;A\n/b;B\n"


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_skip_rows_skips_lines_above_the_header(tmp_path: Path, line_break: str, encoding: str) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(TITLES.replace("\n", line_break).encode(encoding))
    form = {"delimiter": ";", "skip_rows": 3, "encoding": encoding.removesuffix("-sig")}
    assert rows_of(path, **form) == [{"loc": "/a", "title": "A"}, {"loc": "/b", "title": "B"}]
    assert rows_of(path, **{**form, "skip_rows": 4}, header=["loc", "title"])[0] == {"loc": "/a", "title": "A"}


def test_a_row_is_numbered_from_the_first_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TITLES + "/c;C;more\n")
    with pytest.raises(InvalidSource, match=r"a.csv line 7: expected 2 fields as in the first row, found 3"):
        rows_of(path, delimiter=";", skip_rows=3)


def test_a_refused_file_with_title_lines_is_reported_with_skip_rows_to_add(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TITLES)
    with pytest.raises(InvalidSource, match=r"line 4: .* If the lines above are titles, write skip_rows: 3"):
        rows_of(path, delimiter=";")


def test_a_file_with_title_lines_only_has_no_rows(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.csv").write_text(TITLES)
    (tmp_path / "parts" / "b.csv").write_text("Pages of the shop\n\nExported 2026-10-01\n")
    (split,) = sources.plan_csv(tmp_path / "parts", CsvFormat(delimiter=";", skip_rows=3))
    assert sum(batch.num_rows for batch in csv_files.read_csv(split)) == 2


def test_init_writes_the_key_skip_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(TITLES)
    assert csv_form(next(iter(locate(str(path), (".csv",))))).skip_rows == 3


def test_a_run_reads_a_file_with_title_lines(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TITLES)
    site = TestSite(tmp_path)
    site.keys["sections"]["pages"] = {"from": {"csv": "./a.csv", "delimiter": ";", "skip_rows": 3}}
    site.night(1)
    assert [entry.loc for entry in site.public().entries()] == ["https://shop.example/a", "https://shop.example/b"]
