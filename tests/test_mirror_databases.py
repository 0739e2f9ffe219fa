"""Incremental reads from real servers: their clocks, key types and timestamp types."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.runs.local import run_locally
from sitemap_etl.state.records import Counts, Options
from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres
from tests.support.sites import TestSite


@dataclass
class Shop:
    """A site over one table of a server, with runs in real time."""

    site: TestSite
    execute: Callable[..., None]

    def night(self, **options: Any) -> Counts:
        """Run in the second after earlier changes: times of reads are whole seconds. Return the counts."""
        time.sleep(1.01 - time.time() % 1)
        done = run_locally(self.site.load(), Options(**options), self.site.environment, jobs=1)
        assert done.summary.status in ("published", "unchanged"), done.summary.error
        return done.summary.sections["pages"]

    def paths(self) -> set[str]:
        return {loc.removeprefix("https://shop.example") for loc in self.site.public().locs()}


def shop(folder: Path, uri: str, execute: Callable[..., None], query: str, **source: Any) -> Shop:
    site = TestSite(folder, gates={"max_drop": 1, "max_growth": 9})
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": uri})
    given = {"database": "catalog", "query": query, "key": "id", "overlap": "0m", **source}
    site.keys["sections"]["pages"] = {"from": given}
    return Shop(site, execute)


POSTGRES_KEYS = {
    "uuid": "md5(i::text)::uuid",
    "bytea": "decode(md5(i::text), 'hex')",
    "numeric(20, 0)": "12345678901234567::numeric * 1000 + i",
    "date": "date '2026-01-01' + i",
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", POSTGRES_KEYS)
def test_rows_of_postgresql_are_updated_by_keys_of_any_type(postgres: Postgres, tmp_path: Path, kind: str) -> None:
    postgres.execute(
        f"CREATE TABLE pages (n int, id {kind}, loc text, gone bool, touched timestamptz DEFAULT clock_timestamp())",
        f"INSERT INTO pages SELECT i, {POSTGRES_KEYS[kind]}, '/p/' || i, false FROM generate_series(1, 50) i",
    )
    query = "SELECT id, loc, gone FROM pages WHERE touched >= :since"
    made = shop(tmp_path, postgres.uri, postgres.execute, query, deleted="gone", split={"column": "n", "parts": 2})
    made.site.keys["sections"]["pages"]["from"]["query"] = query.replace("SELECT", "SELECT n,")
    assert made.night().extracted == 50
    made.execute(
        "UPDATE pages SET loc = '/renamed', touched = clock_timestamp() WHERE n = 7",
        "UPDATE pages SET gone = true, touched = clock_timestamp() WHERE n = 8",
    )
    counts = made.night()
    assert (counts.extracted, counts.carried, counts.excluded, counts.listed) == (2, 48, 1, 49)
    assert made.paths() == {f"/p/{n}" for n in range(1, 51) if n not in (7, 8)} | {"/renamed"}
    assert made.night().extracted == 0
    assert made.night(full=True).listed == 49


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("column", "was", "now"),
    [
        ("id", "numeric(20, 0)", "numeric(20, 2)"),  # 5 and 5.00 are two keys
        ("id", "numeric(20, 2)", "numeric(20, 0)"),
        ("id", "bigint", "numeric(20, 2)"),
        ("price", "int", "numeric(10, 2)"),
        ("price", "bigint", "float8"),
        ("price", "text", "bytea USING convert_to(price, 'UTF8')"),
    ],
)
def test_a_changed_column_type_causes_a_full_read_and_is_never_merged(
    postgres: Postgres, tmp_path: Path, column: str, was: str, now: str
) -> None:
    """Whatever Arrow could make of both types."""
    kinds = {"id": "int", "price": "int", column: was}
    large = 2**60 if (column, was) == ("price", "bigint") else 0
    postgres.execute(
        f"CREATE TABLE pages (id {kinds['id']}, price {kinds['price']}, slug text, gone bool DEFAULT false, "
        "touched timestamptz DEFAULT clock_timestamp())",
        f"INSERT INTO pages SELECT i, ({large} + i)::{kinds['price']}, i FROM generate_series(1, 50) i",
    )
    query = "SELECT id, '/p/' || slug AS loc, price, gone FROM pages WHERE touched >= :since"
    made = shop(tmp_path, postgres.uri, postgres.execute, query, deleted="gone")
    made.site.keys["sections"]["pages"]["where"] = "price IS NOT NULL"
    assert made.night().extracted == 50
    made.execute(
        f"ALTER TABLE pages ALTER {column} TYPE {now}",
        "UPDATE pages SET slug = 'renamed', touched = clock_timestamp() WHERE id = 7",
        "UPDATE pages SET gone = true, touched = clock_timestamp() WHERE id = 8",
    )
    assert made.night().extracted == 50
    assert made.paths() == {f"/p/{n}" for n in range(1, 51) if n not in (7, 8)} | {"/p/renamed"}
    assert made.night().extracted == 0
    assert made.night(full=True).listed == 49


@pytest.mark.thorough
def test_columns_with_unchanged_types_are_read_incrementally_whatever_their_values(
    postgres: Postgres, tmp_path: Path
) -> None:
    """Expressions, numbers without a scale and lists; a run may read nothing, nulls or other values of them."""
    postgres.execute(
        "CREATE TABLE pages (id int, any_ numeric, tags text[], more jsonb, seen timestamp, "
        "touched timestamptz DEFAULT clock_timestamp())",
        "INSERT INTO pages SELECT i, i / 7.0, ARRAY['a'], '{}', now() FROM generate_series(1, 50) i",
    )
    query = (
        "SELECT id, '/p/' || id AS loc, any_, any_ * 1.1 AS more_, round(any_, 3) AS less, tags, more, seen, "
        "NULL AS nothing, CASE WHEN id > 7 THEN any_ END AS some, extract(epoch FROM seen) AS at FROM pages "
        "WHERE touched >= :since"
    )
    made = shop(tmp_path, postgres.uri, postgres.execute, query)
    made.site.keys["sections"]["pages"]["lastmod"] = {
        "fingerprint": ["any_", "more_", "less", "tags", "seen", "nothing", "some", "at"]
    }
    assert made.night().extracted == 50
    assert made.night().extracted == 0
    for value in ("NULL", "1", "123456.5", "0.000000001"):
        made.execute(f"UPDATE pages SET any_ = {value}, tags = NULL, touched = clock_timestamp() WHERE id = 7")
        assert made.night().extracted == 1


@pytest.mark.thorough
def test_columns_of_mariadb_have_constant_types_whatever_their_values(mariadb: MariaDB, tmp_path: Path) -> None:  # noqa: F811 - a fixture
    mariadb.execute(
        "DROP TABLE IF EXISTS pages",
        "CREATE TABLE pages (id INT, price DECIMAL(20, 4), big BIGINT UNSIGNED, seen DATETIME, kind ENUM('a', 'b'), "
        "touched TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6))",
        "INSERT INTO pages (id, price, big, seen, kind) SELECT seq, seq, seq, NOW(), 'a' FROM seq_1_to_50",
    )
    query = (
        "SELECT id, CONCAT('/p/', id) AS loc, price, price * 1.1 AS more, price / 3 AS less, big, seen, kind, "
        "NULL AS nothing, IF(id > 7, price, NULL) AS some, big + 1 AS next FROM pages WHERE touched >= :since"
    )
    made = shop(tmp_path, mariadb.uri, mariadb.execute, query)
    assert made.night().extracted == 50
    assert made.night().extracted == 0
    for value in ("NULL", "1", "1234567890.1234"):
        made.execute(f"UPDATE pages SET price = {value}, kind = NULL, touched = CURRENT_TIMESTAMP(6) WHERE id = 7")
        assert made.night().extracted == 1


@pytest.mark.thorough
@pytest.mark.parametrize("column", ["id", "price"])
def test_a_full_read_accepts_a_changed_column_type(postgres: Postgres, tmp_path: Path, column: str) -> None:
    postgres.execute(
        "CREATE TABLE pages (id int, price int, touched timestamptz DEFAULT clock_timestamp())",
        "INSERT INTO pages SELECT i, i FROM generate_series(1, 50) i",
    )
    query = "SELECT id, '/p/' || id::int AS loc, price FROM pages WHERE touched >= :since"
    made = shop(tmp_path, postgres.uri, postgres.execute, query)
    made.night()
    made.execute(f"ALTER TABLE pages ALTER {column} TYPE numeric(10, 2)", "DELETE FROM pages WHERE id > 40")
    assert made.night(full=True).listed == 40


@pytest.mark.thorough
@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo"])
def test_the_timezone_of_the_server_hides_no_changed_row(postgres: Postgres, tmp_path: Path, zone: str) -> None:
    """Times compared with :since are the same in whatever timezone a session shows them."""
    name = postgres.uri.partition("?")[0].rpartition("/")[2]
    postgres.execute(
        f"ALTER DATABASE {name} SET timezone = '{zone}'",
        "CREATE TABLE pages (id int, loc text, touched timestamptz DEFAULT clock_timestamp())",
        "INSERT INTO pages SELECT i, '/p/' || i FROM generate_series(1, 20) i",
    )
    made = shop(tmp_path, postgres.uri, postgres.execute, "SELECT id, loc FROM pages WHERE touched >= :since")
    made.night()
    for n in range(1, 4):
        made.execute(f"UPDATE pages SET loc = '/q/{n}', touched = clock_timestamp() WHERE id = {n}")
        assert made.night().extracted == 1
    assert {f"/q/{n}" for n in range(1, 4)} <= made.paths()


@pytest.mark.thorough
def test_since_uses_the_clock_of_the_mariadb_server(mariadb: MariaDB, tmp_path: Path) -> None:  # noqa: F811 - a fixture
    mariadb.execute(
        "DROP TABLE IF EXISTS pages",
        "CREATE TABLE pages (id BINARY(16), n INT, loc TEXT, touched TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6))",
        "INSERT INTO pages (id, n, loc) SELECT UNHEX(MD5(seq)), seq, CONCAT('/p/', seq) FROM seq_1_to_50",
    )
    query = "SELECT HEX(id) AS id, loc FROM pages WHERE touched >= :since"
    made = shop(tmp_path, mariadb.uri, mariadb.execute, query)
    assert made.night().extracted == 50
    made.execute("UPDATE pages SET loc = '/renamed', touched = CURRENT_TIMESTAMP(6) WHERE n = 7")
    assert made.night().extracted == 1
    assert made.paths() == {f"/p/{n}" for n in range(1, 51) if n != 7} | {"/renamed"}
    assert made.night(full=True).listed == 50
