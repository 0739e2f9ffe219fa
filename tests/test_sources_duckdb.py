from __future__ import annotations

import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pytest

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.errors import InvalidSource, Unavailable

NOW = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A catalogue in a file with characters that mean something in a URI."""
    path = tmp_path / "shop 100% #1?.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute(
            "CREATE TABLE products AS SELECT i AS id, '/p/' || i AS loc, TIMESTAMPTZ '2026-01-01 00:00+00' + "
            "to_minutes(i) AS seen, TIMESTAMP '2026-01-01' + to_minutes(i) AS naive, "
            "DATE '2026-01-01' + (i // 1440)::INT AS day, "
            "md5(i::VARCHAR)::UUID AS uid, i::VARCHAR::BLOB AS raw "
            "FROM range(1, 5001) r(i)"
        )
        database.execute("INSERT INTO products (loc) VALUES ('/without-a-key')")
    return path


def uri(path: Path) -> str:
    return f"duckdb:///{quote(str(path))}"


def rows(
    path: Path, query: str, *, split: tuple[str, int] | None = None, params: dict | None = None, **options
) -> pa.Table:
    connection = parse(uri(path))
    plan = sources.plan_database(connection, query, params=params, split=split, label="catalog (sql/a.sql)")
    read = [b for one in plan for b in sources.read(one, connection=connection, query=query, params=params, **options)]
    return pa.Table.from_batches(read)


def test_types_of_duckdb_are_converted_correctly(path: Path) -> None:
    found = rows(
        path,
        """SELECT 1::UTINYINT AS small, 18446744073709551615::UBIGINT AS big, 12345678901234567890::HUGEINT AS huge,
        340282366920938463463374607431768211455::UHUGEINT AS whole, 12.50::DECIMAL(10, 2) AS price,
        uid, 'ok'::ENUM('ok', 'sad') AS mood, INTERVAL '1 month 2 hours' AS every, '101'::BIT AS bits,
        '10:00:00+01'::TIMETZ AS at, 'infinity'::DATE AS never, '-infinity'::TIMESTAMPTZ AS ever,
        TIMESTAMP_NS '2026-01-02 03:04:05.000000006' AS exact, 'infinity'::TIMESTAMP_NS AS no, raw,
        {'a': [1]} AS nested, MAP {'de': '/de'} AS alternates, [1, 2]::INT[2] AS pair,
        union_value(n := 2) AS either, NULL AS nothing
        FROM products WHERE id = 7""",
    )
    assert found["exact"].cast(pa.string()).to_pylist() == ["2026-01-02 03:04:05.000000006"]
    (row,) = found.drop_columns("exact").to_pylist()
    assert row == {
        "small": 1, "big": 2**64 - 1, "huge": Decimal(12345678901234567890), "whole": str(2**128 - 1),
        "price": Decimal("12.50"), "uid": "8f14e45f-ceea-167a-5a36-dedd4bea2543", "mood": "ok",
        "every": "1 month 02:00:00", "bits": "101", "at": "10:00:00+01", "never": None, "ever": None, "no": None,
        "raw": b"7", "nested": {"a": [1]}, "alternates": [("de", "/de")], "pair": [1, 2], "either": "2",
        "nothing": None,
    }  # fmt: skip


@pytest.mark.parametrize("column", ["seen", "naive"])
def test_since_is_compared_in_utc(path: Path, column: str) -> None:
    found = rows(path, f"SELECT id, {column} AS t FROM products WHERE {column} > :since", params={"since": NOW})
    assert found.num_rows == 5000 - 1440
    assert found.schema.field("t").type == (pa.timestamp("us", "UTC") if column == "seen" else pa.timestamp("us"))


def test_parameters_are_bound_and_never_interpreted_as_sql(path: Path) -> None:
    params = {
        "a": "it's $b :b",
        "n": 3,
        "f": 0.5,
        "d": Decimal("1.10"),
        "yes": True,
        "no": None,
        "day": date(2026, 1, 2),
    }
    query = "SELECT :a AS a, ':a' AS q, :n + 1 AS n, :f * 2 AS f, :d AS d, :yes AS yes, :no IS NULL AS no, :day AS day"
    query += " -- :x"
    assert rows(path, query, params=params).to_pylist() == [
        {
            "a": params["a"],
            "q": ":a",
            "n": 4,
            "f": 1.0,
            "d": Decimal("1.10"),
            "yes": True,
            "no": True,
            "day": params["day"],
        }
    ]


@pytest.mark.parametrize("column", ["id", "seen", "naive", "day", "loc", "uid", "raw"])
def test_key_ranges_together_have_every_row_once(path: Path, column: str) -> None:
    plan = sources.plan_database(parse(uri(path)), "SELECT * FROM products", split=(column, 4))
    assert len(plan) == 4
    found = rows(path, "SELECT * FROM products", split=(column, 4), batch_rows=700)
    assert sorted(found["loc"].to_pylist()) == sorted(["/without-a-key", *(f"/p/{i}" for i in range(1, 5001))])


def test_rows_that_a_split_leaves_out_are_reported(path: Path) -> None:
    query = "SELECT id, loc FROM products WHERE id >= :split_from AND id < :split_to"
    plan = sources.plan_database(parse(uri(path)), query, split=("id", 4))
    (moves, without) = sources.split_losses(parse(uri(path)), query, plan)
    assert "not known to stay the same" in moves
    assert "1 rows of" in without
    assert "have no id" in without


def test_several_threads_and_processes_can_read_one_file(path: Path) -> None:
    query = "SELECT a.id FROM products a, range(20)"
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: rows(path, query).num_rows, range(4))) == [100_020] * 4
    (split,) = sources.plan_database(parse(uri(path)), query)
    reader = sources.read(split, connection=parse(uri(path)), query=query, batch_rows=1_000)
    next(reader)
    code = "import duckdb, sys; print(duckdb.connect(sys.argv[1], read_only=True).execute('SELECT 1').fetchone())"
    other = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert (other.stderr, other.stdout) == ("", "(1,)\n")
    reader.close()


def test_a_locked_database_file_can_be_retried(path: Path) -> None:
    code = "import duckdb, sys; db = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "open\n"
        with pytest.raises(Unavailable, match=r"shop 100% #1\?\.duckdb is being written to by another program"):
            rows(path, "SELECT 1 AS one")


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("SELECT * FROM missing", "Table with name missing does not exist"),
        ("SELECT lok FROM products", 'Referenced column "lok" not found'),
        ("SELECT * FRO products", "syntax error"),
        ("DELETE FROM products", "expected one SELECT"),
        ("SELECT * FROM read_csv('/etc/passwd')", "disabled by configuration"),
        ("SELECT loc::INT FROM products", "Could not convert string"),
        ("SET threads = 1", "expected one SELECT"),
        ("SELECT id, 1 AS id FROM products", "'id' more than once"),
    ],
)
def test_an_invalid_select_is_reported(path: Path, query: str, told: str) -> None:
    with pytest.raises(InvalidSource, match=rf"catalog \(sql/a\.sql\).*{told}"):
        rows(path, query)


def test_a_file_that_is_not_a_database_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidSource, match="there is no DuckDB database at"):
        rows(tmp_path / "none.duckdb", "SELECT 1")
    (tmp_path / "a.db").write_text("loc\n" * 5_000)
    with pytest.raises(InvalidSource, match="not a valid DuckDB database file"):
        rows(tmp_path / "a.db", "SELECT 1")
    with closing(sqlite3.connect(tmp_path / "b.db")) as database, database:
        database.execute("CREATE TABLE pages (loc TEXT)")
    with pytest.raises(InvalidSource, match=r"b\.db is a database of SQLite: write sqlite:/// in place"):
        rows(tmp_path / "b.db", "SELECT 1")


def test_a_probe_returns_columns_types_and_the_time_of_the_database(path: Path) -> None:
    found = sources.probe_database(
        parse(uri(path)), "SELECT id, uid, seen FROM products WHERE seen < :now", {"now": NOW}
    )
    assert [str(kind) for kind in found.types] == ["int64", "string", "timestamp[us, tz=UTC]"]
    assert sources.clock(parse(uri(path))).tzinfo is not None
