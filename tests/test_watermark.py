"""Incremental SELECTs that use the current time: rows that change without being written."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from sitemap_etl.runs.validate import problems_of
from sitemap_etl.stages.watermark import also_due, dated_by_day, find_unseen, other_use_of_time
from tests.support.catalog import Catalog
from tests.support.sites import FIRST_NIGHT, TestSite

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM p WHERE u >= :since",
        "SELECT id FROM p WHERE p.u >= :since AND p.u <= now()",
        "SELECT id FROM p WHERE u BETWEEN :since AND :now",
        "SELECT id FROM p WHERE coalesce(u, c) >= CAST(:since AS date) - 1 AND coalesce(u, c) < current_timestamp",
        "SELECT id FROM p WHERE u >= datetime(:since, '-1 hour') AND u < datetime(:now)",
        "SELECT id FROM p WHERE (u >= :since OR d BETWEEN :since AND :now) AND d <= :now",
        "SELECT id, 'now()' AS x, \"now\" FROM p /* now() */ WHERE u >= :since -- now()",
        "SELECT id, known_now, from_unixtime(x) FROM p WHERE u >= :since",
    ],
)
def test_an_upper_bound_on_the_watermark_is_accepted(sql: str) -> None:
    assert other_use_of_time(sql, "sqlite") is None


@pytest.mark.parametrize(
    ("sql", "use", "line"),
    [
        (
            "SELECT id, CASE WHEN d <= :now THEN d END AS lastmod FROM p WHERE u >= :since",
            "d <= :now",
            "OR d BETWEEN :since AND :now",
        ),
        (
            "SELECT id FROM p WHERE u >= :since AND u < :now AND p.d <\n CURRENT_DATE",
            "p.d < CURRENT_DATE",
            "OR p.d BETWEEN :since AND :now",
        ),
        ("SELECT id FROM p WHERE u >= :since AND d <= now ()", "d <= now", "OR d BETWEEN :since AND :now"),
        ("SELECT id FROM p WHERE u >= :since AND d < date('NOW')", "d < date('NOW'", "OR d BETWEEN :since AND :now"),
        ("SELECT id, now() AS x FROM p WHERE u >= :since", "now", "OR publish_at BETWEEN :since AND :now"),
        ("SELECT id FROM p WHERE u >= :since AND :now >= d", ":now", "OR publish_at BETWEEN :since AND :now"),
    ],
)
def test_another_use_of_the_current_time_is_reported_with_the_condition_to_add(sql: str, use: str, line: str) -> None:
    assert other_use_of_time(sql, "sqlite") == use
    assert also_due(use) == line


@pytest.mark.parametrize(
    ("sql", "overlap", "found"),
    [
        ("SELECT changed FROM p WHERE changed >= :since", HOUR, "changed"),
        ("SELECT p.changed AS day FROM p WHERE p.changed > :since", HOUR, "p.changed"),
        ('SELECT "Changed" AS "Day" FROM p WHERE "Changed" >= :since', HOUR, '"Changed"'),
        ("SELECT changed FROM p WHERE changed >= :since", timedelta(days=2), None),
        ("SELECT changed FROM p WHERE changed >= CAST(:since AS date) - 1", HOUR, None),
        ("SELECT changed FROM p WHERE other >= :since", HOUR, None),
    ],
)
def test_a_date_column_compared_with_since_is_found(sql: str, overlap: timedelta, found: str | None) -> None:
    schema = pa.schema([("id", pa.int64()), ("changed", pa.date32()), ("day", pa.date32()), ("other", pa.string())])
    assert dated_by_day(sql, "duckdb", schema, overlap) == found


CASE = "SELECT id, loc, CASE WHEN lastmod <= :now THEN lastmod END AS lastmod FROM pages WHERE touched >= :since"
DUE = CASE.replace("WHERE touched >= :since", "WHERE touched >= :since OR lastmod BETWEEN :since AND :now")


@pytest.mark.parametrize(("select", "read"), [(CASE, 100), (DUE, 1)])
def test_a_date_that_depends_on_now_is_read_when_it_is_due(select: str, read: int, tmp_path: Path) -> None:
    site = Catalog(tmp_path)
    site.table("pages", 100)
    site.sql("UPDATE pages SET lastmod = '2026-11-02 00:00:00' WHERE id = 7")
    site.read("pages", select, changed="", lastmod={"column": "lastmod", "timezone": "UTC"})
    site.night(1)
    assert site.public().by_loc()["https://shop.example/pages/007"].lastmod is None
    done = site.night(2)
    found = site.public().by_loc()["https://shop.example/pages/007"].lastmod
    assert found is not None
    assert found.startswith("2026-11-02")
    assert done.summary.sections["pages"].extracted == read
    warned = [text for text in done.summary.warnings if "names the time (lastmod <= :now)" in text]
    assert len(warned) == (read == 100)
    assert all(text.endswith("\n  OR lastmod BETWEEN :since AND :now") for text in warned)


def test_a_date_column_compared_with_since_is_a_warning(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "catalog.duckdb")) as database:
        database.execute("CREATE TABLE p AS SELECT 1 AS id, '/p/1' AS loc, DATE '2026-10-01' AS changed")
    site = TestSite(tmp_path)
    site.environment = site.environment.__class__(
        environ={"AIRFLOW_CONN_CATALOG": f"duckdb:///{tmp_path}/catalog.duckdb"}
    )
    source = {
        "database": "catalog",
        "query": "SELECT id, loc, changed AS lastmod FROM p WHERE changed >= :since",
        "key": "id",
    }
    site.keys["sections"]["p"] = {"from": source}
    site.night(1)
    warned = [text for text in site.night(2).summary.warnings if "no time of day" in text]
    assert len(warned) == 1
    assert warned[0].endswith("\n  overlap: 2d")
    source["overlap"] = "2d"
    site.night(3)
    assert not [text for text in site.night(4).summary.warnings if "no time of day" in text]


# --- rows whose watermark is NULL ---------------------------------------------------------------------

ROWS = "(VALUES (1, 5, NULL), (2, NULL, 5), (3, NULL, NULL), (4, 9, NULL), (5, NULL, 9)) p(id, u, c)"
"""Five rows; what changed is in `u` or in `c`."""


@pytest.mark.parametrize(
    ("where", "unseen", "line"),
    [
        ("u > :since", 3, "(u > :since OR u IS NULL)"),
        ("p.u >= :since", 3, "(p.u >= :since OR p.u IS NULL)"),
        (":since < u", 3, "(:since < u OR u IS NULL)"),
        ("id > 2 AND (u >= abs(:since - 1)) AND u < :now", 2, "(u >= abs(:since - 1) OR u IS NULL)"),
        (
            "u BETWEEN greatest(:since, 0) AND :now AND id < 3",
            1,
            "(u BETWEEN greatest(:since, 0) AND :now OR u IS NULL)",
        ),
        ("coalesce(u, -- first\n c) >= CAST(:since AS INT) - 1", 1, "(coalesce(u, -- first c) >="),
        ("u > :since OR c > :since", 1, "(u > :since OR u IS NULL)"),
        ("u > :since OR (c > :since AND c IS NOT NULL)", 1, "(u > :since OR u IS NULL)"),
        ("id <> 3 AND u::BIGINT + 1 > :since", 2, "(u::BIGINT + 1 > :since OR u::BIGINT + 1 IS NULL)"),
        ("(u >= :since OR c BETWEEN :since AND :now) AND id < 9", 1, "(u >= :since OR u IS NULL)"),
        ("CASE WHEN u > :since THEN true ELSE false END", 3, "(u > :since OR u IS NULL)"),
        ("u > :since GROUP BY ALL ORDER BY 1 LIMIT 10", 3, "(u > :since OR u IS NULL)"),
        ("coalesce(u, c, 9) > :since", 0, "(coalesce(u, c, 9) > :since"),
    ],
)
def test_rows_without_a_watermark_are_counted(where: str, unseen: int, line: str) -> None:
    found = find_unseen(f"SELECT id FROM {ROWS} WHERE {where}", "duckdb")
    assert found is not None
    assert found.line.startswith(line)
    sql = found.count.replace(":since", "$since").replace(":now", "$now")
    used = {name: value for name, value in {"since": 0, "now": 100}.items() if f"${name}" in sql}
    with duckdb.connect() as database:
        assert database.execute(sql, used).fetchall() == [(unseen,)]


@pytest.mark.parametrize(
    "where",
    [
        "u < :since",
        "u > :since OR u IS NULL",
        "u >= :since or U  is\nnull",
        "id = 1 -- u > :since",
        "id > 0",
        "u = :since",
    ],
)
def test_other_selects_are_not_reported(where: str) -> None:
    assert find_unseen(f"SELECT id, ':since' AS x FROM p WHERE {where}", "duckdb") is None


@pytest.mark.parametrize(
    ("every", "rows"),
    [(4, "25 rows have NULL in touched, .*To list them"), (100, "1 row has NULL in touched, .*To list it")],
)
def test_a_full_read_and_validate_warn_of_rows_without_a_watermark(every: int, rows: str, tmp_path: Path) -> None:
    site = Catalog(tmp_path)
    site.table("pages", 100)
    site.sql(f"UPDATE pages SET touched = NULL WHERE id % {every} = 0")
    site.read("pages", "SELECT id, loc, lastmod FROM pages WHERE touched >= :since", changed="")
    said: list[str] = []
    assert not problems_of(site.load(), connect=True, environment=replace(site.at(FIRST_NIGHT), log=said.append))
    warning = f"{rows}, write .*: \\(touched >= :since OR touched IS NULL\\)"
    assert re.search(warning, "\n".join(said))
    (warned,) = [text for text in site.night(1).summary.warnings if "NULL" in text]
    assert re.search(warning, warned)
    assert not [text for text in site.night(2).summary.warnings if "NULL" in text]
    site.read("pages", "SELECT id, loc, lastmod FROM pages WHERE (touched >= :since OR touched IS NULL)", changed="")
    assert not [text for text in site.night(3).summary.warnings if "NULL" in text]
    assert len(site.public().locs()) == 100


def test_a_failed_count_of_rows_without_a_watermark_does_not_fail_the_run(tmp_path: Path) -> None:
    site = Catalog(tmp_path)
    site.table("pages", 10)
    select = "SELECT id, loc, lastmod FROM pages WHERE touched >= :since COLLATE NOCASE GROUP BY id"
    site.read("pages", select.replace("touched", "nullif(touched, '') COLLATE BINARY"), changed="")
    assert not [text for text in site.night(1).summary.warnings if "NULL" in text]
    assert len(site.public().locs()) == 10
