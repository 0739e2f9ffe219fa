from __future__ import annotations

import sqlite3
from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import InvalidSource, Unavailable


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A path with characters that mean something in a URI."""
    return tmp_path / "shop 100% #1?.db"


def uri(path: Path) -> str:
    from urllib.parse import quote

    return f"sqlite:///{quote(str(path))}"


def make(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as database:
        for statement in statements:
            database.execute(statement)
    database.close()


def rows(
    path: Path, query: str, *, split: tuple[str, int] | None = None, params: dict | None = None, **options
) -> pa.Table:
    plan = sources.plan_database(parse(uri(path)), query, params=params, split=split, label="catalog (sql/a.sql)")
    read = [
        b for one in plan for b in sources.read(one, connection=parse(uri(path)), query=query, params=params, **options)
    ]
    return pa.Table.from_batches(read)


COUNT = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "


def test_types_are_derived_from_all_values(path: Path) -> None:
    make(path, "CREATE TABLE t (a, b, c, d, e, f)")
    with sqlite3.connect(path) as db:
        early = [(None, 1, 1, None, 1, b"\xff")] * 70_000
        db.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", [*early, ("late", "text", 0.5, None, 2, b"x")])
    db.close()
    found = rows(path, "SELECT * FROM t ORDER BY rowid")
    assert [str(kind) for kind in found.schema.types] == ["string", "string", "double", "null", "int64", "binary"]
    assert found.num_rows == 70_001
    assert found.slice(70_000).to_pylist() == [{"a": "late", "b": "text", "c": 0.5, "d": None, "e": 2, "f": b"x"}]
    assert found.slice(0, 1).to_pylist() == [{"a": None, "b": "1", "c": 1.0, "d": None, "e": 1, "f": b"\xff"}]


def test_all_splits_have_the_same_types(path: Path) -> None:
    make(path, "CREATE TABLE t (id INTEGER, x)", "INSERT INTO t VALUES (1, 5), (2, 6), (3, 'seven'), (NULL, NULL)")
    plan = sources.plan_database(parse(uri(path)), "SELECT * FROM t", split=("id", 3))
    found = [list(sources.read(one, connection=parse(uri(path)), query="SELECT * FROM t")) for one in plan]
    assert {str(batch.schema.field("x").type) for batches in found for batch in batches} == {"string"}
    values = [value for batches in found for batch in batches for value in batch.column("x").to_pylist()]
    assert sorted(values, key=str) == sorted(["5", "6", "seven", None], key=str)


def test_dates_stored_as_text_can_be_split_and_compared_with_now(path: Path) -> None:
    make(
        path,
        "CREATE TABLE t AS "
        + COUNT.format(400)
        + "SELECT i AS id, datetime('2026-01-01', '+' || i || ' hours') AS seen FROM n",
    )
    assert len(sources.plan_database(parse(uri(path)), "SELECT * FROM t", split=("seen", 4))) == 4
    assert sorted(rows(path, "SELECT * FROM t", split=("seen", 4))["id"].to_pylist()) == list(range(1, 401))
    params = {"since": datetime(2026, 1, 2, 1, tzinfo=UTC), "day": date(2026, 1, 3)}
    found = rows(path, "SELECT id FROM t WHERE seen > :since AND seen < :day", params=params)
    assert sorted(found["id"].to_pylist()) == list(range(26, 48))


def test_the_bounds_of_a_split_are_bound_to_the_parameters_of_the_select(path: Path) -> None:
    make(path, "CREATE TABLE t AS " + COUNT.format(100) + "SELECT i AS id FROM n")
    query = "SELECT id FROM t WHERE id >= :split_from AND id < :split_to"
    assert len(sources.plan_database(parse(uri(path)), query, split=("id", 4))) == 4
    assert sorted(rows(path, query, split=("id", 4))["id"].to_pylist()) == list(range(1, 101))


def test_parameters_are_bound_by_name(path: Path) -> None:
    make(path, "CREATE TABLE t (a)")
    query = "SELECT :b AS b, :a AS a, :b AS again, ':a' AS text, :n IS NULL AS n, :f AS f -- :x"
    (row,) = rows(path, query, params={"a": 1, "b": "it's", "n": None, "f": True}).to_pylist()
    assert row == {"b": "it's", "a": 1, "again": "it's", "text": ":a", "n": 1, "f": 1}


def test_batches_respect_the_bounds(path: Path) -> None:
    make(path, "CREATE TABLE t AS " + COUNT.format(1000) + "SELECT i AS id FROM n")
    plan = sources.plan_database(parse(uri(path)), "SELECT * FROM t")
    read = sources.read(plan[0], connection=parse(uri(path)), query="SELECT * FROM t", batch_rows=300)
    assert [batch.num_rows for batch in read] == [300, 300, 300, 100]


def test_a_missing_database_is_reported_and_not_created(path: Path) -> None:
    with pytest.raises(InvalidSource, match=r"there is no SQLite database at .*shop 100% #1\?\.db"):
        rows(path, "SELECT 1")
    assert not path.exists()


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM missing", "no such table: missing"),
        ("SELECT lok FROM t", "no such column: lok"),
        ("SELECT * FRO t", "syntax error"),
        ("DELETE FROM t", "syntax error"),
        ("SELECT CAST(x'ff' AS TEXT) AS title", "'title' can't be read as string"),
    ],
)
def test_an_invalid_select_is_reported(path: Path, query: str, told: str) -> None:
    make(path, "CREATE TABLE t (a)")
    with pytest.raises(InvalidSource, match=rf"catalog \(sql/a\.sql\): .*{told}"):
        rows(path, query)


def test_a_file_that_is_not_a_database_is_reported(path: Path) -> None:
    path.write_text("loc,lastmod\n" * 100)
    with pytest.raises(InvalidSource, match="not a database"):
        rows(path, "SELECT 1 FROM t")


def test_a_value_whose_type_is_new_since_planning_can_be_retried_with_a_new_run(path: Path) -> None:
    make(path, "CREATE TABLE t (a)", "INSERT INTO t VALUES (1)")
    plan = sources.plan_database(parse(uri(path)), "SELECT a FROM t")
    make(path, "INSERT INTO t VALUES ('text')")
    with pytest.raises(Unavailable, match="changed while it was read"):
        list(sources.read(plan[0], connection=parse(uri(path)), query="SELECT a FROM t"))


def test_a_probe_returns_columns_and_types(path: Path) -> None:
    make(path, "CREATE TABLE t (a, b TEXT)", "INSERT INTO t VALUES (1, 'x')")
    found = sources.probe_database(parse(uri(path)), "SELECT b, a, 1.5 AS c FROM t WHERE a < :n;", {"n": 5})
    assert found == pa.schema([("b", pa.string()), ("a", pa.int64()), ("c", pa.float64())])


def test_an_empty_table_has_no_batches(path: Path) -> None:
    make(path, "CREATE TABLE t (id INTEGER, loc TEXT)")
    plan = sources.plan_database(parse(uri(path)), "SELECT * FROM t", split=("id", 4))
    assert [list(sources.read(one, connection=parse(uri(path)), query="SELECT * FROM t")) for one in plan] == [[]]
    assert sources.probe_database(parse(uri(path)), "SELECT * FROM t").names == ["id", "loc"]
