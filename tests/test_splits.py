# ruff: noqa: F811 - fixtures are imported and asked for by name
"""The splits of a SELECT have every row once, even if the table changes; if that is impossible, the run warns."""

from __future__ import annotations

import hashlib
import itertools
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.runs import tasks
from sitemap_etl.runs.local import Finished
from sitemap_etl.state.records import Options
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres
from tests.support.sites import TestSite

TABLE = "CREATE TABLE products (id INT PRIMARY KEY, loc TEXT, rank INT)"
ROWS = "INSERT INTO products SELECT i, '/p/' || i, i FROM generate_series(1, 1000) i"
NAMED = "SELECT loc, rank FROM products WHERE rank >= :split_from AND rank < :split_to"


class Catalog(TestSite):
    """A site of one section over a database. `while_reading` is called once, when the first rows have arrived."""

    def __init__(self, folder: Path, uri: str) -> None:
        super().__init__(folder)
        self.while_reading: Callable[[], object] | None = None
        self.environment = replace(self.environment, environ={"AIRFLOW_CONN_CATALOG": uri}, advance=self._advance)

    def _advance(self, stage: str, _done: int, total: int) -> None:
        if stage == "extract" and not total and self.while_reading is not None:
            act, self.while_reading = self.while_reading, None
            act()

    def read(self, query: str, column: str = "rank", **source: Any) -> Catalog:
        split = {"column": column, "parts": 4}
        self.keys["sections"]["products"] = {"from": {"database": "catalog", "query": query, "split": split, **source}}
        return self

    def locs(self) -> list[str]:
        return sorted(loc.rpartition("/")[2] for loc in self.public().locs())


ALL = sorted(map(str, range(1, 1001)))


@pytest.fixture
def shop(postgres: Postgres, tmp_path: Path) -> Catalog:
    postgres.execute(TABLE, ROWS)
    return Catalog(tmp_path, postgres.uri).read("SELECT loc, rank FROM products")


def of_splits(done: Finished) -> list[str]:
    return [text for text in done.summary.warnings if "split" in text]


# --- rows that move between splits ------------------------------------------------------------------


@pytest.mark.parametrize("query", ["SELECT loc, rank FROM products", NAMED])
def test_rows_that_move_between_splits_during_the_read_are_listed_once(
    shop: Catalog, postgres: Postgres, query: str
) -> None:
    """While the first split is read, the last rows become the first: the last split would have none."""
    shop.read(query).while_reading = lambda: postgres.execute("UPDATE products SET rank = 1001 - rank")
    done = shop.night(1)
    assert shop.locs() == ALL
    assert done.summary.sections["products"].extracted == 1000
    assert of_splits(done) == []


def test_sections_of_one_database_are_read_from_one_snapshot(shop: Catalog, postgres: Postgres) -> None:
    section = shop.keys["sections"]["products"]
    shop.keys["sections"]["others"] = {
        **section,
        "from": {**section["from"], "query": "SELECT '/o' || loc AS loc, rank FROM products"},
    }
    shop.while_reading = lambda: postgres.execute("DELETE FROM products")
    shop.night(1)
    assert len(shop.locs()) == 2000


def test_no_database_session_is_left_after_reading_the_splits(shop: Catalog, postgres: Postgres) -> None:
    shop.night(1)
    count = (
        "SELECT count(*) AS n FROM pg_stat_activity WHERE application_name LIKE 'sitemap_etl%' "
        "AND xact_start IS NOT NULL AND pid <> pg_backend_pid() AND datname = current_database()"
    )
    (split,) = sources.plan_database(parse(postgres.uri), count)
    (row,) = [
        row for batch in sources.read(split, connection=parse(postgres.uri), query=count) for row in batch.to_pylist()
    ]
    assert row["n"] == 0


def test_a_lost_snapshot_can_be_retried_with_a_new_run(postgres: Postgres) -> None:
    postgres.execute(TABLE, ROWS)
    connection = parse(postgres.uri)
    shared = sources.SharedSnapshot(connection, sources.Session(), label="catalog")
    name = shared.name()
    assert shared.name() == name
    shared.close()
    (split,) = sources.plan_database(connection, "SELECT id FROM products")
    with pytest.raises(Unavailable, match="the snapshot that all splits are to be read from is gone"):
        list(sources.read(split, connection=connection, query="SELECT id FROM products", snapshot=name))


def test_only_databases_with_shareable_snapshots_share_them(postgres: Postgres, tmp_path: Path) -> None:
    assert sources.SharedSnapshot.possible(parse(postgres.uri), sources.Session(), label="catalog")
    assert not sources.SharedSnapshot.possible(parse(f"sqlite:///{tmp_path}/a.db"), sources.Session(), label="catalog")


def test_scheduler_tasks_warn_that_rows_may_move_between_splits(shop: Catalog) -> None:
    lines: list[str] = []
    tasks.start(shop.load(), Options(), replace(shop.environment, log=lines.append), owner="a")
    (line,) = [line for line in lines if line.startswith("warning") and "split" in line]
    assert "section products: catalog: the splits are read at different moments, and split.column 'rank'" in line
    assert "can be left out, or be read twice. Split by the primary key; or" in line
    assert "key: rank" in line


@pytest.mark.parametrize(("column", "key"), [("id", None), ("rank", "rank")])
def test_an_immutable_split_column_causes_no_warning(shop: Catalog, column: str, key: str | None) -> None:
    lines: list[str] = []
    shop.read(f"SELECT p.loc, p.{column} FROM public.products p", column, **({"key": key} if key else {}))
    tasks.start(shop.load(), Options(), replace(shop.environment, log=lines.append), owner="a")
    assert not any(line.startswith("warning") for line in lines)


# --- rows without a value ----------------------------------------------------------------------------

COALESCED = NAMED.replace("rank >=", "coalesce(rank, 0) >=").replace("rank <", "coalesce(rank, 0) <")


@pytest.mark.parametrize("query", ["SELECT loc, rank FROM products", COALESCED])
def test_rows_with_a_null_or_new_value_of_the_split_column_are_in_a_split(
    shop: Catalog, postgres: Postgres, query: str
) -> None:
    postgres.execute("UPDATE products SET rank = NULL WHERE id > 990", "UPDATE products SET rank = -5 WHERE id = 1")
    shop.read(query)
    shop.while_reading = None
    done = shop.night(1)
    assert shop.locs() == ALL
    assert done.summary.sections["products"].extracted == 1000
    assert of_splits(done) == []
    plan = sources.plan_database(parse(postgres.uri), query, split=("rank", 4))
    postgres.execute("INSERT INTO products VALUES (2000, '/p/2000', 99999), (2001, '/p/2001', -99999)")
    found = [
        loc
        for split in plan
        for batch in sources.read(split, connection=parse(postgres.uri), query=query)
        for loc in batch.column("loc").to_pylist()
    ]
    assert {"/p/2000", "/p/2001"} <= set(found)


def test_a_select_that_skips_nulls_of_the_split_column_is_reported_with_the_fix(
    shop: Catalog, postgres: Postgres
) -> None:
    postgres.execute("UPDATE products SET rank = NULL WHERE id > 990")
    (warning,) = of_splits(shop.read(NAMED).night(1))
    assert '10 rows of "public"."products" have no rank' in warning
    assert "coalesce(rank, 0) >= :split_from AND coalesce(rank, 0) < :split_to" in warning
    assert len(shop.locs()) == 990


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("kind", "value"), [("DATE", "9999-12-31"), ("DATE", "0001-01-01"), ("BIGINT", str(2**63 - 1))]
)
def test_a_value_beyond_all_ranges_is_reported_if_the_select_compares_it(
    shop: Catalog, postgres: Postgres, kind: str, value: str
) -> None:
    usual = "DATE '2026-01-01' + id" if kind == "DATE" else "id"
    postgres.execute(
        f"ALTER TABLE products ALTER rank TYPE {kind} USING {usual}",
        f"UPDATE products SET rank = '{value}' WHERE id = 7",
    )
    (warning,) = of_splits(shop.read(NAMED).night(1))
    assert '1 rows of "public"."products" have a rank' in warning
    assert "leave the comparison out" in warning
    assert len(shop.locs()) == 999
    assert of_splits(shop.read("SELECT loc, rank FROM products").night(2)) == []
    assert shop.locs() == ALL


def test_a_select_that_reads_nulls_in_every_split_is_reported(shop: Catalog, postgres: Postgres) -> None:
    postgres.execute("UPDATE products SET rank = NULL WHERE id > 990")
    query = NAMED.replace("WHERE ", "WHERE rank IS NULL OR ")
    (warning,) = of_splits(shop.read(query).night(1))
    assert "10 rows have no rank" in warning
    assert "into each of the 4 splits" in warning
    assert shop.locs() == ALL


def test_a_select_that_excludes_nulls_explicitly_is_not_reported(shop: Catalog, postgres: Postgres) -> None:
    postgres.execute("UPDATE products SET rank = NULL WHERE id > 990")
    assert of_splits(shop.read(NAMED + " AND rank IS NOT NULL").night(1)) == []


# --- other databases ---------------------------------------------------------------------------------


def on_sqlite(folder: Path) -> Catalog:
    folder.mkdir(exist_ok=True)
    with closing(sqlite3.connect(folder / "a.db")) as database, database:
        database.execute("CREATE TABLE products (id INTEGER PRIMARY KEY, loc TEXT, rank INT)")
        database.execute("CREATE TABLE pairs (id INT, rank INT, PRIMARY KEY (id, rank))")
        database.executemany("INSERT INTO products VALUES (?, ?, ?)", [(i, f"/p/{i}", i) for i in range(1, 1001)])
        database.execute("UPDATE products SET rank = NULL WHERE id > 990")
    return Catalog(folder, f"sqlite:///{folder}/a.db")


def on_mariadb(mariadb: MariaDB, folder: Path) -> Catalog:
    mariadb.execute(
        "DROP TABLE IF EXISTS products",
        TABLE.replace("rank", "`rank`"),
        "INSERT INTO products SELECT seq, CONCAT('/p/', seq), IF(seq > 990, NULL, seq) FROM seq_1_to_1000",
    )
    return Catalog(folder, mariadb.uri)


@pytest.fixture(params=["sqlite", "mariadb"])
def other(request: pytest.FixtureRequest, tmp_path: Path) -> Catalog:
    return (
        on_sqlite(tmp_path) if request.param == "sqlite" else on_mariadb(request.getfixturevalue("mariadb"), tmp_path)
    )


def test_databases_without_shared_snapshots_warn_that_rows_may_move(other: Catalog) -> None:
    (warning,) = of_splits(other.read("SELECT loc, `rank` FROM products, (SELECT 1 AS pairs) x").night(1))
    assert "split.column 'rank' is not known to stay the same" in warning
    assert other.locs() == ALL
    assert of_splits(other.read("SELECT loc, id FROM products", "id").night(2)) == []


def test_databases_without_shared_snapshots_report_rows_that_a_select_skips(other: Catalog) -> None:
    query = "SELECT loc, `rank` FROM products WHERE `rank` >= :split_from AND `rank` < :split_to"
    warnings = of_splits(other.read(query, key="rank").night(1))
    assert any("10 rows of" in text and "coalesce(rank, 0)" in text for text in warnings)
    assert len(other.locs()) == 990


# --- where the ranges begin --------------------------------------------------------------------------

COUNT = 2_000


def planned(uri: str, query: str, column: str, parts: int = 4, bounds_from: str | None = None) -> list[list[int]]:
    """Return the numbers of the rows in each split, after the plan was converted to JSON and back."""
    connection = parse(uri)
    plan = sources.plan_database(connection, query, split=(column, parts), bounds_from=bounds_from, label="catalog")
    plan = [sources.Split.from_json(json.loads(json.dumps(split.to_json()))) for split in plan]
    return [
        [n for batch in sources.read(split, connection=connection, query=query) for n in batch.column("n").to_pylist()]
        for split in plan
    ]


def check(found: list[list[int]], parts: int = 4) -> None:
    """Check that every row is in one split, and no split has many more than another."""
    assert sorted(itertools.chain(*found)) == list(range(1, COUNT + 1))
    assert len(found) == parts
    assert max(map(len, found)) < 1.5 * COUNT / parts


POSTGRES = {
    "skewed": ("bigint", "CASE WHEN n > 20 THEN n ELSE n * 1000000000000 END"),
    "fraction": ("numeric", "n / 7.0"),
    "double": ("double precision", "CASE n WHEN 7 THEN 'NaN' WHEN 8 THEN '-Infinity' ELSE n / 7.0 END"),
    "day": ("date", "CASE n WHEN 7 THEN 'infinity' ELSE date '2026-01-01' + n END"),
    "uuid": ("uuid", "md5(n::text)::uuid"),
    "bytea": ("bytea", "decode(md5(n::text), 'hex')"),
    "text": ("text", "CASE n % 2 WHEN 0 THEN 'ä' ELSE 'A' END || md5(n::text)"),
    "char": ("char(40)", "upper(md5(n::text))"),
    "enum": ("size", "(ARRAY['XL', 'L', 'S', 'M'])[n % 4 + 1]::size"),
}


@pytest.mark.parametrize("kind", POSTGRES)
def test_columns_of_any_type_give_even_splits(postgres: Postgres, kind: str) -> None:
    """The sizes are not in the order of their names."""
    declared, value = POSTGRES[kind]
    postgres.execute(
        "CREATE TYPE size AS ENUM ('S', 'M', 'L', 'XL')",
        f"CREATE TABLE products (n int, k {declared})",
        f"INSERT INTO products SELECT n, {value} FROM generate_series(1, {COUNT}) n",
    )
    check(planned(postgres.uri, "SELECT n, k FROM products", "k"))


SQLITE = {
    "skewed": ("INTEGER", lambda n: n if n > 20 else n * 10**12),
    "real": ("REAL", lambda n: n / 7 if n % 2 else n),
    "text": ("TEXT", lambda n: f"{'ä' if n % 2 else 'A'}{n * 7919 % 9973}"),
    "nocase": ("TEXT COLLATE NOCASE", lambda n: f"{'a' if n % 2 else 'A'}{n * 7919 % 9973}"),
    "blob": ("BLOB", lambda n: hashlib.md5(str(n).encode()).digest()),
    "day": ("TEXT", lambda n: (date(2026, 1, 1) + timedelta(days=n)).isoformat()),
}


@pytest.mark.parametrize("kind", SQLITE)
def test_columns_of_any_type_give_even_splits_in_sqlite(tmp_path: Path, kind: str) -> None:
    declared, value = SQLITE[kind]
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute(f"CREATE TABLE products (n INT, k {declared})")
        database.executemany("INSERT INTO products VALUES (?, ?)", [(n, value(n)) for n in range(1, COUNT + 1)])
    check(planned(f"sqlite:///{tmp_path}/a.db", "SELECT n, k FROM products", "k"))


def test_a_sqlite_column_with_mixed_types_is_refused_as_split_column(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("CREATE TABLE products (n INT, k)")
        database.executemany("INSERT INTO products VALUES (1, ?)", [(9,), ("10",)])
    with pytest.raises(InvalidSource, match=r"'k' holds values of several types \(integer, text\): numbers, dates"):
        planned(f"sqlite:///{tmp_path}/a.db", "SELECT n, k FROM products", "k")


MARIADB = {
    "skewed": ("BIGINT UNSIGNED", "IF(seq > 20, seq, 18446744073709551615 - seq)"),
    "text": ("VARCHAR(40)", "CONCAT(IF(seq % 2, 'a', 'A'), MD5(seq))"),
    "bytes": ("VARCHAR(40) COLLATE utf8mb4_bin", "CONCAT(IF(seq % 2, 'a', 'A'), MD5(seq))"),
    "uuid": ("UUID", "UUID()"),
    "binary": ("BINARY(16)", "UNHEX(MD5(seq))"),
    "seen": ("DATETIME", "'2026-01-01' + INTERVAL seq HOUR"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", MARIADB)
def test_columns_of_any_type_give_even_splits_in_mariadb(mariadb: MariaDB, kind: str) -> None:
    declared, value = MARIADB[kind]
    mariadb.execute(
        "DROP TABLE IF EXISTS products",
        f"CREATE TABLE products (n INT, k {declared})",
        f"INSERT INTO products SELECT seq, {value} FROM seq_1_to_{COUNT}",
    )
    check(planned(mariadb.uri, "SELECT n, k FROM products", "k"))


@pytest.mark.parametrize(("rows", "blocks"), [(COUNT, True), (60_000, True), (60_000, False)])
def test_an_expensive_select_is_not_executed_to_find_its_bounds(postgres: Postgres, rows: int, blocks: bool) -> None:
    """It can't be executed; large tables are sampled by blocks, and views by rows."""
    postgres.execute(
        "CREATE SCHEMA shop",
        f"CREATE TABLE shop.product AS SELECT n, n * n AS k FROM generate_series(1, {rows}::bigint) n",
        "CREATE VIEW shop.products AS SELECT * FROM shop.product",
    )
    query = "SELECT k, n FROM shop.product WHERE 1 / (n - n) = 1"
    table = "shop.product" if blocks else "shop.products"
    plan = sources.plan_database(parse(postgres.uri), query, split=("k", 4), bounds_from=table)
    cuts = [split.detail["key"]["from"] ** 0.5 / rows for split in plan[1:]]
    assert cuts == pytest.approx([0.25, 0.5, 0.75], abs=0.12)


def test_a_missing_table_for_the_bounds_is_reported(postgres: Postgres) -> None:
    postgres.execute(TABLE)
    for table, told in (("product", 'relation "product" does not exist'), ("products", 'column "k" does not exist')):
        with pytest.raises(InvalidSource, match=rf"(?s){told}.*split.bounds_from: needs a table with the column 'k'"):
            planned(postgres.uri, "SELECT id AS k FROM products", "k", bounds_from=table)


def test_a_select_with_its_own_bounds_can_compare_uuids_but_not_text(postgres: Postgres, tmp_path: Path) -> None:
    postgres.execute(
        "CREATE TABLE products (n int, k uuid, t text)",
        f"INSERT INTO products SELECT n, md5(n::text)::uuid, md5(n::text) FROM generate_series(1, {COUNT}) n",
    )
    named = "SELECT n, k, t FROM products WHERE k >= :split_from::uuid AND k < :split_to::uuid"
    check(planned(postgres.uri, named, "k"))
    with pytest.raises(InvalidSource, match="can't compare it with :split_from and :split_to"):
        planned(postgres.uri, named.replace("k >", "t >").replace("k <", "t <").replace("::uuid", ""), "t")
    with closing(sqlite3.connect(tmp_path / "a.db")) as database, database:
        database.execute("CREATE TABLE products (n INT, k TEXT)")
        database.executemany("INSERT INTO products VALUES (?, ?)", [(n, f"ä{n:06}") for n in range(1, COUNT + 1)])
    check(planned(f"sqlite:///{tmp_path}/a.db", named.replace("::uuid", "").replace(", t", ""), "k"))
