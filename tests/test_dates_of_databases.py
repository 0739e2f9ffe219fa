"""Dates of a database that no sitemap can express: dropped from their rows, counted, and shown as stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import InvalidSource
from sitemap_etl.instants import spelled
from sitemap_etl.lastmod.dates import NO_DATE
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres
from tests.support.sites import TestSite

LAST_TIME = "after 294247-01-10 04:00:54.775806"
LAST_DAY = "after 5881580-07-10"
ODD = {
    ("postgresql", "timestamptz"): {"infinity": f"{LAST_TIME}Z", "-infinity": "before -290308-12-21 19:59:05.224193Z"},
    ("postgresql", "timestamp"): {"294276-12-31": LAST_TIME, "0044-03-15 BC": "-0043-03-15 00:00:00.000000"},
    ("postgresql", "date"): {"infinity": LAST_DAY, "-infinity": "before -5877641-06-24"},
    ("duckdb", "TIMESTAMP"): {"infinity": LAST_TIME, "0044-03-15 (BC)": "-0043-03-15 00:00:00.000000"},
    ("duckdb", "TIMESTAMPTZ"): {"infinity": f"{LAST_TIME}Z", "-infinity": "-290308-12-21 19:59:05.224193Z"},
    ("duckdb", "DATE"): {"infinity": LAST_DAY, "10000-01-01": "10000-01-01"},
    ("mysql", "DATE"): {"0000-00-00": "0000-00-00", "2026-02-00": "2026-02-00"},
    ("mysql", "DATETIME"): {"0000-00-00 00:00:00": "0000-00-00", "2026-00-07 10:00:00": "2026-00-07"},
    ("mysql", "TIMESTAMP"): {"0000-00-00 00:00:00": "0000-00-00", "0000-00-00": "0000-00-00"},
}
"""By database and type: what is written there, and how a report shows it."""
RULES: dict[str, dict[str, Any]] = {
    "column": {"lastmod": {"column": "d", "timezone": "UTC"}},
    "renamed": {"columns": {"lastmod": "d"}, "lastmod": {"column": "lastmod", "timezone": "UTC"}},
    "newest": {"lastmod": {"newest_of": ["e", "d"], "timezone": "UTC"}},
    "where": {"lastmod": {"column": "d", "timezone": "UTC"}, "where": "d IS NULL OR d > '2026-01-01'"},
    "hook": {"lastmod": {"column": "d", "timezone": "UTC"}, "transform": f"{__name__}:three_nulls"},
    "until changed": {"lastmod": {"fingerprint": ["d", "loc"], "until_changed": "d", "timezone": "UTC"}},
}
Fill = Callable[[str, str, list[str]], str]


def three_nulls(frame: Any) -> Any:
    """Check that a hook sees null for such dates, and return its rows."""
    assert frame["d"].isna().sum() == 3
    return frame


@pytest.fixture
def fill(request: pytest.FixtureRequest, tmp_path: Path) -> Fill:
    """Return a function that writes these dates to a new table `odd` of a database, and returns the database's URI."""

    def fill(database: str, kind: str, dates: list[str]) -> str:
        rows = [f"INSERT INTO odd VALUES ({n}, '{one}')" for n, one in enumerate(dates, 1)]
        statements = [f"CREATE TABLE odd (n INT, d {kind} NULL)", *rows, "INSERT INTO odd VALUES (9, NULL)"]
        if database == "duckdb":
            with duckdb.connect(str(tmp_path / "c.duckdb")) as file:
                for statement in statements:
                    file.execute(statement)
            return f"duckdb:///{tmp_path / 'c.duckdb'}"
        server: MariaDB | Postgres = request.getfixturevalue("mariadb" if database == "mysql" else "postgres")
        server.execute("DROP TABLE IF EXISTS odd", *statements)
        return server.uri

    return fill


def night(folder: Path, uri: str, query: str, **keys: Any) -> tuple[TestSite, dict[str, Any]]:
    """Publish a section of this SELECT; return the site, and the notes of the run."""
    site = TestSite(folder)
    site.environment.environ["AIRFLOW_CONN_CATALOG"] = uri
    site.section("p", **{"from": {"database": "catalog", "query": query}, **keys})
    return site, site.night(1).summary.reasons["p"]["notes"].to_json()


@pytest.mark.parametrize(
    ("database", "kind", "rule"),
    [*((*one, "column") for one in ODD), *(("duckdb", "TIMESTAMPTZ", rule) for rule in RULES if rule != "column")],
)
def test_a_nonexistent_date_is_counted_and_shown(
    tmp_path: Path, fill: Fill, database: str, kind: str, rule: str
) -> None:
    if rule == "hook":
        pytest.importorskip("pandas")
    odd = ODD[database, kind]
    uri = fill(database, kind, [*odd, "2026-10-01"])
    query = "SELECT concat('/p/', n) AS loc, d, NULL AS e FROM odd"
    site, notes = night(tmp_path / "site", uri, query, **RULES[rule])
    dates = {entry.loc[-1]: (entry.lastmod or "")[:10] for entry in site.public().entries()}
    assert dates == {"1": "", "2": "", "3": "2026-10-01", "9": ""}
    assert {reason: note["count"] for reason, note in notes.items()} == {NO_DATE: 2}
    examples = sorted(example.removeprefix("https://shop.example") for example in notes[NO_DATE]["examples"])
    assert examples == [f"/p/{n}: {shown}" for n, shown in enumerate(odd.values(), 1)]


def test_a_column_of_nonexistent_dates_only_needs_no_timezone(tmp_path: Path, fill: Fill) -> None:
    uri = fill("duckdb", "TIMESTAMP", ["infinity", "0044-03-15 (BC)"])
    site, notes = night(tmp_path / "site", uri, "SELECT concat('/p/', n) AS loc, d AS lastmod FROM odd")
    assert len(site.public().locs()) == 3
    assert notes[NO_DATE]["count"] == 2


def test_an_article_with_a_nonexistent_date_is_counted(tmp_path: Path, fill: Fill) -> None:
    uri = fill("duckdb", "TIMESTAMPTZ", ["infinity", "2026-11-01 01:00:00+00"])
    query = "SELECT concat('/p/', n) AS loc, 'A title' AS title, d AS publication_date FROM odd"
    news = {"publication": "The Shop", "language": "en"}
    site, notes = night(tmp_path / "site", uri, query, news=news, gates={"min_urls": 0})
    assert [loc[-1] for loc in site.public().locs()] == ["2"]
    assert notes["news: publication_date is no date"]["count"] == 1
    assert LAST_TIME in notes["news: publication_date is no date"]["examples"][0]
    assert notes["news: publication_date is missing"]["count"] == 1


@pytest.mark.parametrize("field", ["publication_date", "expiration_date"])
def test_a_video_with_a_nonexistent_date_is_counted(tmp_path: Path, fill: Fill, field: str) -> None:
    uri = fill("duckdb", "TIMESTAMPTZ", ["infinity", "2026-10-01 00:00:00+00"])
    query = (
        "SELECT concat('/p/', n) AS loc, [{'title': 'A', 'description': 'B', 'thumbnail_loc': '/t.jpg', "
        f"'content_loc': '/v.mp4', '{field}': d}}] AS videos FROM odd"
    )
    _, notes = night(tmp_path / "site", uri, query)
    assert notes[f"video {field}: no date"]["count"] == 1
    assert LAST_TIME in notes[f"video {field}: no date"]["examples"][0]


def test_a_video_in_a_composite_type_keeps_infinity(fill: Fill, postgres: Postgres) -> None:
    postgres.execute("CREATE TYPE video AS (title text, publication_date timestamptz)")
    connection = parse(fill("postgresql", "timestamptz", ["infinity", "-infinity", "2026-10-01 00:00+00"]))
    query = "SELECT ARRAY[row('A', d)::video] AS videos, ARRAY[d] AS dates FROM odd WHERE d IS NOT NULL ORDER BY n"
    (split,) = sources.plan_database(connection, query)
    (batch,) = sources.read(split, connection=connection, query=query)
    expected = [*ODD["postgresql", "timestamptz"].values(), "2026-10-01 00:00:00.000000Z"]
    assert spelled(batch["dates"].flatten()).to_pylist() == expected
    videos = batch["videos"].flatten()
    assert spelled(videos.field("publication_date")).to_pylist() == expected


@pytest.mark.parametrize(("database", "kind"), ODD)
def test_nonexistent_dates_are_null_in_columns_that_no_date_rule_reads(fill: Fill, database: str, kind: str) -> None:
    connection = parse(fill(database, kind, [*ODD[database, kind], "2026-10-01"]))
    query = "SELECT d, d AS kept FROM odd ORDER BY n"
    (split,) = sources.plan_database(connection, query)
    (batch,) = sources.read(split, connection=connection, query=query, dates={"kept"})
    assert batch["d"].is_valid().to_pylist() == [False, False, True, False]
    assert batch["kept"].is_valid().to_pylist() == [True, True, True, False]
    assert spelled(batch["kept"]).to_pylist()[:2] == list(ODD[database, kind].values())


def test_a_nonexistent_date_is_null_in_a_fingerprint(tmp_path: Path, fill: Fill) -> None:
    uri = fill("duckdb", "DATE", ["infinity"])
    rule = {"fingerprint": ["d"], "until_changed": "d"}
    site, _ = night(tmp_path / "site", uri, "SELECT concat('/p/', n) AS loc, d FROM odd", lastmod=rule)
    with duckdb.connect(str(tmp_path / "c.duckdb")) as file:
        file.execute("UPDATE odd SET d = NULL")
    site.night(2)
    assert [entry.lastmod for entry in site.public().entries()] == [None, None]


def test_two_rows_with_the_same_key_are_reported_with_their_nonexistent_date(tmp_path: Path, fill: Fill) -> None:
    uri = fill("duckdb", "TIMESTAMPTZ", ["infinity", "2026-10-01 00:00:00+00"])
    query = "SELECT 1 AS id, concat('/p/', n) AS loc, d AS lastmod FROM odd WHERE d >= :since"
    site = TestSite(tmp_path / "site")
    site.environment.environ["AIRFLOW_CONN_CATALOG"] = uri
    site.section("p", **{"from": {"database": "catalog", "query": query, "key": "id"}})
    with pytest.raises(InvalidSource, match="more than once") as error:
        site.night(1)
    assert f"lastmod: {LAST_TIME}Z" in str(error.value)
