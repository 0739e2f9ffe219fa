"""Columns that differ only in case: SQL can't name them, rules can, and otherwise they are read."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import InvalidSource
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.stages.run import Environment
from tests.support.sites import TestSite

ROWS: list[dict[str, Any]] = [
    {"loc": "/a", "Status": "live", "status": "dead", "Updated": "2026-10-01", "updated": "2025-01-01", "n": 1},
    {"loc": "/b", "Status": "dead", "status": "live", "Updated": "2026-10-02", "updated": "2025-01-02", "n": 2},
]
KINDS = ["csv", "jsonl", "parquet"]


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A site with the same rows in three kinds of exports."""
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "rows.parquet")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    lines = [list(ROWS[0]), *([str(value) for value in row.values()] for row in ROWS)]
    (tmp_path / "rows.csv").write_text("".join(",".join(line) + "\n" for line in lines))
    return TestSite(tmp_path, urls={"respect_robots": False})


def over(site: TestSite, kind: str, query: str | None = None, **keys: Any) -> TestSite:
    source = {kind: f"./rows.{kind}"} if query is None else {kind: f"./rows.{kind}", "query": query}
    site.keys["sections"]["pages"] = {"from": source, **keys}
    return site


AMBIGUOUS = r"names a column that is not the only one: 'Status' and 'status' differ in case only"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", ["status = 'live'", "\"Status\" = 'live'", "loc > '' OR lower(STATUS) <> ''"])
def test_a_predicate_with_one_of_two_columns_that_differ_in_case_is_refused(
    site: TestSite, kind: str, where: str
) -> None:
    with pytest.raises(InvalidSource, match=AMBIGUOUS):
        over(site, kind, where=where).night(1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT loc FROM source WHERE status = 'live'",
        'SELECT loc, "Status" AS x FROM source',
        "SELECT s.STATUS || loc AS loc FROM source s",
        "SELECT a.loc FROM source a JOIN source b USING (status)",
        "SELECT * EXCLUDE (status) FROM source",
        "SELECT loc FROM source ORDER BY status",
        "WITH t AS (SELECT * FROM source) SELECT loc FROM t WHERE Status > ''",
    ],
)
def test_a_select_with_one_of_two_columns_that_differ_in_case_is_refused(site: TestSite, kind: str, query: str) -> None:
    (problem,) = problems_of(over(site, kind, query).load(), connect=True)
    assert "'Status' and 'status' differ in case only" in problem.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("query", [None, "SELECT * FROM source", "SELECT s.* FROM source s WHERE loc > ''"])
def test_rules_distinguish_columns_that_differ_only_in_case(site: TestSite, kind: str, query: str | None) -> None:
    over(site, kind, query, lastmod="Updated", where="CAST(n AS INT) > 0").night(1)
    assert [entry.lastmod for entry in site.public().entries()] == ["2026-10-01", "2026-10-02"]
    over(site, kind, query, lastmod="updated").night(2)
    assert [entry.lastmod for entry in site.public().entries()] == ["2025-01-01", "2025-01-02"]


def test_struct_fields_that_differ_only_in_case_are_distinguished(site: TestSite) -> None:
    rows = [{"loc": row["loc"], "item": [{"Live": row["n"], "live": 0, "seen": row["Updated"]}]} for row in ROWS]
    pq.write_table(pa.Table.from_pylist(rows), site.folder / "rows.parquet")
    for query, where in ((None, "item[1].live = 0"), ("SELECT loc, item[1].Live AS x FROM source", None)):
        with pytest.raises(InvalidSource, match="'Live' and 'live' differ in case only"):
            over(site, "parquet", query, **({} if where is None else {"where": where})).night(1)
    query = "SELECT loc, item, item[1].seen AS lastmod FROM source"
    over(site, "parquet", query, lastmod={"fingerprint": ["item"], "until_changed": "lastmod"}).night(1)
    assert [entry.lastmod for entry in site.public().entries()] == ["2026-10-01", "2026-10-02"]


def test_sqlite_columns_that_differ_only_in_case_are_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "shop.sqlite") as database:
        database.execute("CREATE TABLE p (loc TEXT, a TEXT, b TEXT)")
        database.execute("INSERT INTO p VALUES ('/a', 'live', 'dead')")
    site = TestSite(tmp_path, urls={"respect_robots": False})
    site.environment = Environment(environ={"AIRFLOW_CONN_SHOP": f"sqlite:///{tmp_path / 'shop.sqlite'}"})
    source = {"database": "shop", "query": 'SELECT loc, a AS "Status", b AS "status" FROM p'}
    site.keys["sections"]["pages"] = {"from": source, "where": "status = 'live'"}
    with pytest.raises(InvalidSource, match="yields the column 'Status' more than once"):
        site.night(1)
