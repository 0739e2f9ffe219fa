"""A SELECT that names `:since` yields only what changed; the rest is carried from the published set."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from sitemap_etl.errors import ConfigError
from tests.support.sites import TestSite

QUERY = "SELECT loc, lastmod, exclude FROM pages WHERE touched >= :since"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    site = TestSite(tmp_path)
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute("CREATE TABLE pages (loc TEXT, lastmod TEXT, exclude TEXT, touched TEXT)")
        rows = [(f"/p/{n:03}", "2026-10-01", None, "2026-10-01") for n in range(100)]
        database.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{tmp_path}/catalog.db"})
    site.section("pages")
    site.keys["sections"]["pages"]["from"] = {"database": "catalog", "query": QUERY}
    return site


def change(site: TestSite, sql: str) -> None:
    with sqlite3.connect(site.folder / "catalog.db") as database:
        database.execute(sql)


def test_rows_that_were_not_read_are_carried(site: TestSite) -> None:
    site.night(1)
    change(site, "UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00:00' WHERE loc = '/p/007'")
    change(site, "INSERT INTO pages VALUES ('/p/new', '2026-11-01', NULL, '2026-11-01T13:00:00')")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.listed) == (2, 99, 101)
    assert (counts.added, counts.changed, counts.removed) == (1, 1, 0)
    entries = site.public().by_loc()
    assert len(entries) == 101
    assert entries["https://shop.example/p/007"].lastmod == "2026-11-01"
    assert entries["https://shop.example/p/008"].lastmod == "2026-10-01"


def test_a_row_that_is_read_to_be_excluded_leaves_the_set(site: TestSite) -> None:
    site.night(1)
    change(site, "UPDATE pages SET exclude = 'sold out', touched = '2026-11-01T12:00:00' WHERE loc = '/p/007'")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.removed, counts.listed, counts.excluded) == (1, 99, 1)
    assert "https://shop.example/p/007" not in site.public().by_loc()


def test_full_reads_everything_again(site: TestSite) -> None:
    site.night(1)
    change(site, "DELETE FROM pages WHERE loc = '/p/007'")
    assert site.night(2).summary.status == "unchanged"
    counts = site.night(3, full=True).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.removed) == (99, 0, 1)


def test_a_rule_that_needs_all_rows_is_refused(site: TestSite) -> None:
    site.night(1)
    site.keys["sections"]["pages"]["priority"] = {"percentile_of": "touched"}
    with pytest.raises(ConfigError, match=r"percentile_of ranks all rows.*:since"):
        site.night(2)
