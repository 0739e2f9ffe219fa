"""Exports of several files: a file without `loc` is refused by name, a missing other column is reported."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.runs.init.beginning import begin_export
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.sources.lineage import Origin, columns_named, origin_of
from tests.support.sites import TestSite

Rows = list[dict[str, Any]]
FIRST: Rows = [{"loc": "/a", "title": "A"}, {"loc": "/b", "title": "B"}]


def export(folder: Path, kind: str, *parts: Rows) -> Path:
    """Write a folder of parts in this format, and return it."""
    folder.mkdir()
    for at, rows in enumerate(parts):
        path = folder / f"part-{at}.{kind}"
        if kind == "parquet":
            pq.write_table(pa.Table.from_pylist(rows), path)
        elif kind == "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            lines = [list(rows[0]), *([str(value) for value in row.values()] for row in rows)]
            path.write_text("".join(",".join(line) + "\n" for line in lines))
    return folder


def over(site: TestSite, kind: str, source: dict[str, Any] | None = None, **keys: Any) -> TestSite:
    """Give a site one section over the folder `parts`."""
    site.keys["sections"]["pages"] = {"from": {kind: "./parts", **(source or {})}, **keys}
    return site


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, urls={"respect_robots": False})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ({}, {}),
        ({"query": "SELECT * FROM source"}, {}),
        ({"query": "SELECT '/p' || s.Loc AS url FROM source s WHERE s.title <> ''"}, {"columns": {"loc": "url"}}),
        ({"query": "WITH t AS (SELECT loc AS x FROM source) SELECT x AS loc FROM t"}, {}),
    ],
)
def test_a_file_with_rows_but_without_the_column_loc_is_refused(
    site: TestSite, kind: str, source: dict[str, Any], keys: dict[str, Any]
) -> None:
    export(site.folder / "parts", kind, FIRST, FIRST, [{"url": "/c", "title": "C"}])
    over(site, kind, source, **keys)
    with pytest.raises(InvalidSource, match=rf"part-2\.{kind} has no column 'loc'.*part-0.*It has: 'title', 'url'"):
        site.night(1)
    assert not (site.folder / "public").exists()


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("source", [{}, {"query": "SELECT loc FROM source"}])
def test_a_name_in_another_case_is_another_column(site: TestSite, kind: str, source: dict[str, Any]) -> None:
    export(site.folder / "parts", kind, [{"LOC": "/c", "title": "C"}], FIRST, FIRST)
    (problem,) = problems_of(over(site, kind, source).load(), connect=True)
    assert f"part-0.{kind} has no column 'loc'" in problem.text


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_column_of_addresses_can_have_another_name(site: TestSite, kind: str) -> None:
    rows = [{"permalink": row["loc"], "title": row["title"]} for row in FIRST]
    export(site.folder / "parts", kind, rows, [{"loc": "/c", "title": "C"}])
    with pytest.raises(InvalidSource, match=rf"part-1\.{kind} has no column 'permalink'"):
        over(site, kind, columns={"loc": "permalink"}).night(1)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_select_can_choose_between_names(site: TestSite, kind: str) -> None:
    export(site.folder / "parts", kind, FIRST, [{"url": "/c", "title": "C"}], [{"path": "/d", "title": "D"}])
    query = "SELECT coalesce(loc, url) AS loc FROM source"
    with pytest.raises(InvalidSource, match=r"part-2.*has no column 'loc', 'url'"):
        over(site, kind, {"query": query}).night(1)
    (site.folder / f"parts/part-2.{kind}").unlink()
    site.night(1)
    assert len(site.public().locs()) == 3


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_missing_column_is_null_and_reported_once_if_a_rule_reads_it(site: TestSite, kind: str) -> None:
    rows = [{**row, "seen": "2026-10-01", "color": "red"} for row in FIRST]
    export(site.folder / "parts", kind, rows, [{"loc": "/c"}], [{"loc": "/d"}])
    assert over(site, kind).night(1).summary.warnings == ()
    (warning,) = over(site, kind, lastmod="seen").night(2).summary.warnings
    assert f"part-1.{kind} lacks the column 'seen', which a rule uses" in warning
    assert "1 more" in warning
    (warning,) = over(site, kind, where="color = 'red' OR title IS NULL").night(3).summary.warnings
    assert "'color', 'title'" in warning
    assert {loc[-2:] for loc in site.public().locs()} == {"/a", "/b", "/c", "/d"}
    (warning,) = over(site, kind, {"query": "SELECT loc, color FROM source"}).night(4).summary.warnings
    assert "'color'" in warning


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_files_without_rows_can_have_any_columns(site: TestSite, kind: str) -> None:
    folder = export(site.folder / "parts", kind, FIRST)
    if kind == "parquet":
        pq.write_table(pa.table({"url": pa.array([], pa.string())}), folder / "part-1.parquet")
    else:
        header = "url,title\n" if kind == "csv" else ""
        (folder / f"part-1.{kind}").write_text(header + "\n \n\r\n" if kind == "jsonl" else header)
        (folder / f"part-2.{kind}.gz").write_bytes(gzip.compress(b""))
        (folder / f"part-3.{kind}").write_text("\n\n")
        (folder / f"part-4.{kind}").write_text("")
    for source in ({}, {"query": "SELECT loc FROM source"}):
        over(site, kind, source).night(1)
        assert len(site.public().locs()) == 2


@pytest.mark.parametrize("source", [{}, {"query": "SELECT * FROM source"}, {"query": "SELECT Loc AS loc FROM source"}])
def test_a_column_that_no_rule_reads_can_have_several_types(site: TestSite, source: dict[str, Any]) -> None:
    export(site.folder / "parts", "parquet", [{"loc": "/a", "id": 1}], [{"loc": "/b", "id": "2"}])
    over(site, "parquet", source).night(1)
    assert len(site.public().locs()) == 2
    for keys in ({"lastmod": "id"}, {"where": "id > 0"}, {"columns": {"title": "id"}, "feed": {"title": "New"}}):
        with pytest.raises(InvalidSource, match=r"'id' is int64 in \S+part-0\.parquet and string in"):
            over(site, "parquet", {} if "Loc" in str(source) else source, **keys).night(2)
    over(site, "parquet", {"query": "SELECT loc, ID AS x FROM source"})
    with pytest.raises(InvalidSource, match=r"'id' is int64"):
        site.night(2)


# --- a CSV whose first row is no header --------------------------------------------------------------


@pytest.mark.parametrize("row", ["/c,C\n/d,D\n", "/c,C\n", "https://shop.example/c,C\n", "shop.example/c,C\r\n"])
@pytest.mark.parametrize("source", [{}, {"query": "SELECT * FROM source"}])
def test_a_part_whose_first_row_is_a_url_instead_of_a_header_is_refused(
    site: TestSite, row: str, source: dict[str, Any]
) -> None:
    folder = export(site.folder / "parts", "csv", FIRST)
    (folder / "part-1.csv").write_text(row)
    with pytest.raises(InvalidSource, match=r"part-1\.csv: the first row .* has the address of.*header: \[loc, t"):
        over(site, "csv", source).night(1)
    with pytest.raises(InvalidSource, match=r"part-1\.csv: the first row"):
        begin_export(str(folder), site.folder)


def test_a_run_recognizes_a_single_file_without_a_header(site: TestSite) -> None:
    (site.folder / "parts").mkdir()
    (site.folder / "parts/a.csv").write_text("1,/c,C\n2,/d,D\n")
    with pytest.raises(InvalidSource, match=r"a\.csv: the first row .*'/c': write a row of names before it"):
        over(site, "csv").night(1)


@pytest.mark.parametrize("row", ["c,C\n", "c,C\nd,D\n"])
def test_a_part_without_a_header_is_refused_if_its_addresses_look_like_names(site: TestSite, row: str) -> None:
    folder = export(site.folder / "parts", "csv", FIRST)
    (folder / "part-1.csv").write_text(row)
    with pytest.raises(InvalidSource, match=r"part-1\.csv has no column 'loc'.*It has: 'C', 'c'.*row of values"):
        over(site, "csv").night(1)


def test_a_column_that_the_site_file_names_can_look_like_a_url(site: TestSite) -> None:
    folder = export(site.folder / "parts", "csv", FIRST)
    (folder / "part-1.csv").write_text("loc,/c\n/c,/x\n")
    over(site, "csv").night(1)
    assert len(site.public().locs()) == 3


@pytest.mark.parametrize("first", ["loc,title", "LOC, Title", "title,loc"])
def test_a_header_in_some_of_the_files_that_header_names_is_refused(site: TestSite, first: str) -> None:
    folder = site.folder / "parts"
    folder.mkdir()
    (folder / "part-0.csv").write_text(f"{first}\n/a,A\n")
    over(site, "csv", {"header": ["loc", "title"]})
    with pytest.raises(InvalidSource, match=r"part-0\.csv: .* leave out header:"):
        site.night(1)
    (folder / "part-1.csv").write_text("/c,C\n")
    with pytest.raises(InvalidSource, match=r"part-0\.csv: .* in \S+part-1\.csv it does not.*Remove it") as refused:
        site.night(1)
    assert "leave out" not in str(refused.value)
    (folder / "part-0.csv").write_text("/a,A\n")
    site.night(1)
    assert len(site.public().locs()) == 2


def test_files_without_content_are_refused_but_headers_alone_are_zero_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n\n")
    with pytest.raises(InvalidSource, match="is empty"):
        sources.plan_csv(tmp_path)


# --- which columns a SELECT reads ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "columns", "optional"),
    [
        ("SELECT loc FROM source", {("source", "loc")}, False),
        ("FROM source", {("source", "loc")}, False),
        ("SELECT * REPLACE ('/p/' || Slug AS loc) FROM source", {("source", "slug")}, False),
        ("SELECT t.URL AS loc FROM source s JOIN stock t ON s.id = t.id", {("stock", "url")}, False),
        ("SELECT a || b AS loc FROM (SELECT x AS a, y AS b FROM source)", {("source", "x"), ("source", "y")}, False),
        ("WITH loc AS (SELECT u AS v FROM source) SELECT v AS loc FROM loc", {("source", "u")}, False),
        ("SELECT loc FROM source UNION ALL SELECT url FROM stock", {("source", "loc"), ("stock", "url")}, True),
        ("SELECT CASE WHEN a THEN b ELSE c END AS loc FROM source", {("source", n) for n in "abc"}, True),
        (
            "WITH RECURSIVE t AS (SELECT loc FROM source UNION ALL SELECT loc FROM t) SELECT loc FROM t",
            {("source", "loc")},
            True,
        ),
        ("SELECT Item.url.S AS loc FROM source", {("source", "item")}, False),
        ("SELECT 1 AS loc", set(), False),
        ("SELECT loc FROM", set(), False),
        ("SELECT loc FROM read_csv('a.csv')", set(), False),
    ],
)
def test_the_columns_behind_a_column_of_a_select_are_found(
    sql: str, columns: set[tuple[str, str]], optional: bool
) -> None:
    assert origin_of(sql, "loc") == Origin(frozenset(columns), optional)


def test_the_columns_that_a_select_names_are_found() -> None:
    assert {"url", "live", "item"} <= columns_named('SELECT s."URL" AS loc, Item.a FROM source s WHERE live', ())
    assert columns_named("SELECT * FROM source", ("Loc",)) == {"loc"}
    assert columns_named("SELECT 1 AS x FROM source", ("Loc",)) == frozenset()
