"""Databases that are read through any installed driver: ADBC's, or else SQLAlchemy's."""

from __future__ import annotations

import json
import sqlite3
import sys
import traceback
from datetime import UTC, date, datetime
from pathlib import Path

import adbc_driver_sqlite
import pytest
import sqlalchemy.dialects

from sitemap_etl import sources
from sitemap_etl.connections import Connection, parse
from sitemap_etl.errors import ConfigError, InvalidSource, Unavailable
from sitemap_etl.sources.databases import adbc_drivers

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    with sqlite3.connect(tmp_path / "a.db") as database:
        database.execute("CREATE TABLE products (id INTEGER, loc TEXT, price REAL, day TEXT)")
        database.executemany(
            "INSERT INTO products VALUES (?, ?, ?, ?)", [(i, f"/p/{i}", i / 4, "2026-01-02") for i in range(1, 1001)]
        )
    database.close()
    return tmp_path / "a.db"


def rows(
    connection: Connection, query: str, *, split: tuple[str, int] | None = None, params: dict | None = None
) -> list:
    plan = sources.plan_database(connection, query, params=params, split=split, label="catalog (sql/a.sql)")
    read = [b for one in plan for b in sources.read(one, connection=connection, query=query, params=params)]
    return [row for batch in read for row in batch.to_pylist()]


@pytest.fixture(params=["package", "manifest"])
def shopbase(
    request: pytest.FixtureRequest, catalogue: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Connection:
    """A connection to a database that only its ADBC driver supports, installed in either way."""
    library = adbc_driver_sqlite._driver_path()
    if request.param == "package":
        package = tmp_path / "adbc_driver_shopbase"
        package.mkdir()
        (package / "__init__.py").write_text(f"def _driver_path():\n    return {library!r}\n")
        monkeypatch.syspath_prepend(str(tmp_path))
    else:
        manifest = f'manifest_version = 1\nname = "shopbase"\nversion = "1"\n[Driver]\nshared = "{library}"\n'
        (tmp_path / "shopbase.toml").write_text(manifest)
        monkeypatch.setenv("ADBC_DRIVER_PATH", str(tmp_path))
    yield parse(json.dumps({"conn_type": "shopbase", "extra": {"uri": f"file:{catalogue}?mode=ro"}}))
    sys.modules.pop("adbc_driver_shopbase", None)


def test_a_database_is_read_through_its_adbc_driver(shopbase: Connection) -> None:
    query = "SELECT id, loc, price, :now AS now, ':now' AS text, :n + id AS more FROM products WHERE id > :n"
    found = rows(shopbase, query, params={"now": "it's :n", "n": 990})
    assert found[0] == {"id": 991, "loc": "/p/991", "price": 247.75, "now": "it's :n", "text": ":now", "more": 1981}
    assert len(found) == 10


def test_splits_read_through_adbc_have_every_row_once(shopbase: Connection) -> None:
    found = rows(shopbase, "SELECT id, loc FROM products", split=("id", 4))
    assert sorted(row["id"] for row in found) == list(range(1, 1001))
    assert len(sources.plan_database(shopbase, "SELECT id, loc FROM products", split=("id", 4))) == 4


def test_database_errors_and_unreachable_databases_are_distinguished(shopbase: Connection, tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match=r"catalog \(sql/a\.sql\): .*no such table: missing"):
        rows(shopbase, "SELECT * FROM missing")
    away = parse(json.dumps({"conn_type": "shopbase", "extra": {"uri": f"file:{tmp_path}/away/a.db?mode=ro"}}))
    with pytest.raises(Unavailable, match="the database did not answer: "):
        rows(away, "SELECT 1 AS one")


@pytest.mark.parametrize(
    ("written", "options"),
    [
        (
            "snowflake://user:p%40ss@org-account/shop/public?warehouse=night",
            {"uri": "user:p%40ss@org-account/shop/public?warehouse=night"},
        ),
        (
            "snowflake://user:p%40ss@/public?account=acme&database=shop&warehouse=night",
            {
                "adbc.snowflake.sql.account": "acme", "adbc.snowflake.sql.warehouse": "night", "username": "user",
                "password": "p@ss", "adbc.snowflake.sql.db": "shop", "adbc.snowflake.sql.schema": "public",
            },
        ),
        (
            "bigquery://project/shop?adbc.bigquery.sql.auth_type=x",
            {
                "adbc.bigquery.sql.project_id": "project", "adbc.bigquery.sql.dataset_id": "shop",
                "adbc.bigquery.sql.auth_type": "x",
            },
        ),
        (
            "grpc+tls://user:p%40ss@flight.example:443?adbc.flight.sql.client_option.with_block=false",
            {
                "uri": "grpc+tls://flight.example:443", "username": "user", "password": "p@ss",
                "adbc.flight.sql.client_option.with_block": "false",
            },
        ),
        ("trino://user@h:8080/catalog", {"uri": "trino://user@h:8080/catalog"}),
    ],
)  # fmt: skip
def test_a_uri_becomes_the_options_of_its_driver(written: str, options: dict[str, str]) -> None:
    assert adbc_drivers.options_of(parse(written)) == options


def test_no_secret_is_shown_if_a_driver_fails(shopbase: Connection) -> None:
    told = Connection("shopbase", "u", "hush-hush", (("h", 1),), extra={"uri": "file:/nowhere/hush-hush.db?mode=ro"})
    with pytest.raises(Unavailable) as caught:
        rows(told, "SELECT 1 AS one")
    assert "hush" not in "".join(traceback.format_exception(caught.value))


@pytest.fixture
def lastbase(catalogue: Path) -> Connection:
    """A connection to a database that only SQLAlchemy supports."""
    sqlalchemy.dialects.registry.register("lastbase", "sqlalchemy.dialects.sqlite.pysqlite", "SQLiteDialect_pysqlite")
    return parse(f"lastbase:///{catalogue}")


def test_a_database_without_an_adbc_driver_is_read_through_sqlalchemy(lastbase: Connection) -> None:
    query = "SELECT id, loc, price, :now AS now, ':now' AS text FROM products WHERE id > :n AND day = :day"
    found = rows(lastbase, query, params={"now": "it's", "n": 998, "day": date(2026, 1, 2)})
    assert found == [
        {"id": 999, "loc": "/p/999", "price": 249.75, "now": "it's", "text": ":now"},
        {"id": 1000, "loc": "/p/1000", "price": 250.0, "now": "it's", "text": ":now"},
    ]
    assert len(rows(lastbase, "SELECT id FROM products", split=("id", 3))) == 1000
    assert len(sources.plan_database(lastbase, "SELECT id FROM products", split=("id", 3))) == 3
    assert rows(lastbase, "SELECT id FROM products WHERE id > 1000", split=("id", 3)) == []


def test_errors_of_sqlalchemy_are_reported(lastbase: Connection) -> None:
    with pytest.raises((InvalidSource, Unavailable), match="no such table: missing"):
        rows(lastbase, "SELECT * FROM missing")
    with pytest.raises(InvalidSource, match="column 'x' is int64 and holds a value that does not fit"):
        rows(lastbase, "SELECT CASE WHEN id > 1 THEN 'text' ELSE id END AS x FROM products")


@pytest.mark.parametrize(("uri", "told"), [("oracle://u@h/d", "oracledb"), ("nosuch://u@h/d", "SQLAlchemy dialect")])
def test_a_missing_driver_is_reported_with_the_package_to_install(uri: str, told: str) -> None:
    with pytest.raises(ConfigError, match=rf"no driver for \w+ databases: install its ADBC driver, or .*{told}"):
        rows(parse(uri), "SELECT 1")
