"""Messages name their section once, whatever the source is and wherever they are shown."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.stages.run import Environment
from tests.support.lake import Delta
from tests.support.sites import TestSite

ROWS: list[dict[str, Any]] = [{"loc": "/a", "Status": "x", "status": "y"}, {"loc": "/b", "Status": "y", "status": "x"}]
SOURCES: dict[str, dict[str, Any]] = {
    "names that differ in case": {"from": {"parquet": "rows.parquet", "query": "SELECT loc, status FROM source"}},
    "a column that is missing": {"from": {"csv": "rows.csv", "query": "SELECT loc, nope FROM source"}},
    "two statements": {"from": {"jsonl": "rows.jsonl", "query": "SELECT 1; SELECT 2"}},
    "a failing cast": {"from": {"jsonl": "rows.jsonl", "query": "SELECT loc, CAST(status AS INT) n FROM source"}},
    "a predicate": {"from": {"csv": "rows.csv"}, "where": "status = 'x'"},
    "a rule without its column": {"from": {"csv": "rows.csv"}, "lastmod": "Updated"},
    "a file that is missing": {"from": {"csv": "none.csv"}},
    "no address": {"from": {"csv": "rows.csv", "query": "SELECT status AS state FROM source"}},
    "a database's column": {"from": {"database": "catalog", "query": "SELECT loc, nope FROM pages"}},
    "no key": {"from": {"database": "catalog", "query": "SELECT loc FROM pages WHERE status > :since"}},
    "a lake's column": {"from": {"delta": "./table", "query": "SELECT loc, nope FROM source"}},
}


def site_of(folder: Path, section: dict[str, Any]) -> TestSite:
    pq.write_table(pa.Table.from_pylist(ROWS), folder / "rows.parquet")
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "rows.csv").write_text("loc,Status,status\n/a,x,y\n/b,y,x\n")
    Delta(str(folder / "table")).append(pa.table({"loc": ["/a"]}))
    with sqlite3.connect(folder / "catalog.db") as database:
        database.execute("CREATE TABLE pages (loc TEXT, status TEXT)")
    site = TestSite(folder, urls={"respect_robots": False})
    site.environment = Environment(environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{folder}/catalog.db"})
    site.keys["sections"] = {"others": {"from": {"csv": "rows.csv"}}, "pages": section}
    return site


def named(text: str) -> list[str]:
    """Return the names of sections in a message, in its order."""
    return re.findall(r"\bpages(?=:| over | stays)", text)


@pytest.mark.parametrize("kind", SOURCES)
def test_a_refusal_names_its_section_once(tmp_path: Path, kind: str) -> None:
    site = site_of(tmp_path, SOURCES[kind])
    with pytest.raises(SitemapEtlError) as caught:
        site.night(1)
    assert named(str(caught.value)) == ["pages"], caught.value
    found = problems_of(site.load(), connect=True, environment=site.environment)
    assert [named(problem.text) for problem in found] == [["pages"]], found


@pytest.mark.parametrize("kind", [kind for kind in SOURCES if kind != "no key"])
def test_a_message_about_a_kept_section_names_it_once(tmp_path: Path, kind: str) -> None:
    site = site_of(tmp_path, {"from": {"csv": "rows.csv"}})
    site.night(1)
    site.keys["sections"]["pages"] = {**SOURCES[kind], "on_error": "keep"}
    kept = site.night(2).summary.kept
    assert [named(why) for why in kept.values()] == [[]], kept
