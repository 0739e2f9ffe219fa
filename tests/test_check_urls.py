"""Standard input as a target of check, and the file of every listed URL."""

from __future__ import annotations

import csv
import gzip
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broken_sitemaps import index, rss, url, urlset

from sitemap_etl.check import Options, Report, check
from sitemap_etl.check.read import ROWS
from sitemap_etl.check.url_file import UrlFile
from sitemap_etl.errors import ConfigError
from tests.support.command import PROGRAM, call

GOOD = urlset(url("https://shop.example/a", "<lastmod>2026-10-01</lastmod>"))


def piped(data: bytes, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PROGRAM, "check", *arguments], input=data, capture_output=True, check=False)


@pytest.mark.parametrize("data", [GOOD, gzip.compress(GOOD)], ids=["plain", "gzip"])
def test_standard_input_is_checked_compressed_or_not(data: bytes) -> None:
    done = piped(data, "-", "--at", "https://shop.example/sitemap.xml", "--now", "2026-11-21T00:00:00Z")
    assert (done.returncode, b"no problems found" in done.stdout) == (0, True), done.stdout


def test_standard_input_is_one_target_of_several_and_has_a_name_in_the_report(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_bytes(urlset(url("https://shop.example/a") + url("https://shop.example/c")))
    done = piped(urlset(url("/b") + url("https://shop.example/a")), "-", str(tmp_path / "a.xml"))
    assert done.returncode == 1
    assert b"<stdin>:3" in done.stdout
    assert b"duplicate-across" in done.stdout


def test_an_index_from_standard_input_is_checked_alone() -> None:
    done = piped(index("https://shop.example/a.xml"), "-")
    assert (done.returncode, b"not-followed" in done.stdout) == (0, True), done.stdout


@pytest.mark.parametrize("data", [b"", b"\x1f\x8b", b"\x00" * 999, b"hello\n"])
def test_any_bytes_on_standard_input_are_reported(data: bytes) -> None:
    done = piped(data, "-")
    assert (done.returncode, done.stderr.count(b"Traceback")) == (1, 0), done.stderr


def test_without_a_standard_input_the_target_is_refused() -> None:
    with pytest.raises(ConfigError, match="-: standard input is not available here"):
        check(["-"])


# --- every listed URL ---


def listed(path: Path, *targets: str, **options: object) -> Report:
    with UrlFile(path) as file:
        return check(targets, options=Options(**options), listed=file.add)  # type: ignore[arg-type]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "public"
    folder.mkdir()
    (folder / "sitemap.xml").write_bytes(index("https://shop.example/a.xml", "https://shop.example/b.txt"))
    rows = [
        url("  https://shop.example/a?x=1&amp;y=2 ", "<lastmod> 2026-10-01 </lastmod>"),
        "",
        url('https://shop.example/"b,c"') + url("https://shop.example/ü"),
        url(""),
    ]
    (folder / "a.xml").write_bytes(urlset("\n".join(rows)))
    (folder / "b.txt").write_bytes(b"https://shop.example/t\n\nhttps://shop.example/u\n")
    (folder / "c.rss").write_bytes(rss("<item><title>A</title><link>https://shop.example/r</link></item>"))
    (folder / "d.xml").write_bytes(b"<urlset")
    return folder


EXPECTED = [
    ("a.xml", 3, "https://shop.example/a?x=1&y=2", "2026-10-01"),
    ("a.xml", 5, 'https://shop.example/"b,c"', None),
    ("a.xml", 5, "https://shop.example/ü", None),
    ("b.txt", 1, "https://shop.example/t", None),
    ("b.txt", 3, "https://shop.example/u", None),
    ("c.rss", 2, "https://shop.example/r", None),
]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_option_urls_writes_every_listed_url_with_its_file_line_and_lastmod(folder: Path, ending: str) -> None:
    out = folder.parent / f"urls.{ending}"
    report = listed(out, str(folder))
    if ending == "parquet":
        found = [tuple(row.values()) for row in pq.read_table(out).to_pylist()]
    else:
        with out.open(newline="", encoding="utf-8") as text:
            head, *rows = csv.reader(text)
        assert head == ["file", "line", "loc", "lastmod"]
        found = [(file, int(line), loc, lastmod or None) for file, line, loc, lastmod in rows]
    assert sorted((Path(file).name, *rest) for file, *rest in found) == sorted(EXPECTED)
    assert [path.name for path in folder.parent.iterdir() if path != folder] == [out.name]
    assert report.findings


def test_a_failed_check_keeps_the_previous_list_of_urls(folder: Path) -> None:
    out = folder.parent / "urls.csv"
    out.write_text("the last one")
    with pytest.raises(ConfigError):
        listed(out, str(folder / "none.xml"))
    assert out.read_text() == "the last one"
    assert [path.name for path in folder.parent.iterdir() if path != folder] == ["urls.csv"]


@pytest.mark.thorough
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_writing_urls_takes_the_memory_of_a_few_files_for_any_size_of_site(tmp_path: Path, ending: str) -> None:
    locs = [f"https://shop.example/{'x' * 80}/{n}" for n in range(50_000)]
    rows = pa.table([locs, pa.nulls(len(locs), pa.string())], schema=ROWS)
    lines = np.arange(len(locs))
    with UrlFile(tmp_path / f"urls.{ending}") as file:
        for number in range(10):
            file.add(f"{number}.xml", lines, rows)
        before = pa.total_allocated_bytes()
        for number in range(100):
            file.add(f"{number}.xml", lines, rows)
            assert pa.total_allocated_bytes() - before < 60_000_000
    assert (tmp_path / f"urls.{ending}").stat().st_size > 1_000_000


def test_no_cell_of_the_csv_of_urls_is_a_formula(tmp_path: Path) -> None:
    locs = ["=cmd|' /C calc'!A0", "+1", "-2", "@SUM(A1)", "https://shop.example/a"]
    path = tmp_path / "sitemap.xml"
    path.write_bytes(urlset("".join(f"<url><loc>{loc}</loc></url>" for loc in locs)))
    for ending in ("csv", "parquet"):
        call("check", path, "--urls", tmp_path / f"urls.{ending}")
    with (tmp_path / "urls.csv").open(encoding="utf-8", newline="") as file:
        assert [row["loc"] for row in csv.DictReader(file)] == [*(f"'{loc}" for loc in locs[:4]), locs[4]]
    assert pq.read_table(tmp_path / "urls.parquet")["loc"].to_pylist() == locs
