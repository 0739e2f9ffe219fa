# ruff: noqa: F811 - fixtures are imported and asked for by name
from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support.postgres import Postgres, postgres, postgres_session  # noqa: F401 - fixtures

ROWS = 250_000
CHILD = """
import json, re, sys
from sitemap_etl import extract
kind, place, query = json.loads(sys.argv[1])
if kind == "database":
    plan = extract.plan_database(place, query)
elif kind == "query":
    plan = extract.plan_query("parquet", place, query)
else:
    plan = {"csv": extract.plan_csv, "parquet": extract.plan_parquet}[kind](place)
rows = sum(b.num_rows for s in plan for b in extract.read(s, uri=place, query=query, batch_rows=50_000))
# Not ru_maxrss: that begins with what the parent had.
print(json.dumps([rows, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])]))
"""


def table(rows: int) -> pa.Table:
    ids = pa.array(range(rows))
    text = ids.cast(pa.string())
    loc = pc.binary_join_element_wise("https://shop.example/p/", text, "/a-long-name-of-a-product-", text, "")
    return pa.table({"id": ids, "loc": loc, "title": pc.binary_join_element_wise("Product number ", text, "")})


def peak(kind: str, place: str, query: str | None, rows: int) -> int:
    """Kilobytes of a process that reads everything and keeps nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([kind, place, query])], capture_output=True, text=True, check=True
    )
    found, kilobytes = json.loads(ran.stdout)
    assert found == rows
    return kilobytes


def place_of(kind: str, rows: int, folder: Path, server: Postgres) -> tuple[str, str, str | None]:
    """Where a source of so many rows is, made when asked for: kind, place and SELECT."""
    if kind == "postgres":
        return "database", server.uri, f"SELECT i AS id, repeat('x', 60) || i AS loc FROM generate_series(1, {rows}) i"
    path = folder / f"{rows}.{kind}"
    if kind == "sqlite":
        with sqlite3.connect(path) as database:
            database.execute("CREATE TABLE t (id INTEGER, loc TEXT, title TEXT)")
            data = table(rows)
            database.executemany(
                "INSERT INTO t VALUES (?, ?, ?)", zip(*(c.to_pylist() for c in data.columns), strict=True)
            )
        database.close()
        return "database", f"sqlite:///{path}", "SELECT * FROM t"
    if kind == "csv":
        pyarrow.csv.write_csv(table(rows), path)
        return "csv", str(path), None
    pq.write_table(table(rows), path, row_group_size=100_000)
    return (
        ("query", str(path), "SELECT loc, title FROM source WHERE id >= 0")
        if kind == "query"
        else ("parquet", str(path), None)
    )


@pytest.mark.parametrize("kind", ["parquet", "csv", "query", "sqlite", "postgres"])
def test_four_times_the_rows_take_no_more_memory(kind: str, tmp_path: Path, postgres: Postgres) -> None:
    once = peak(*place_of(kind, ROWS, tmp_path, postgres), ROWS)
    four = peak(*place_of(kind, 4 * ROWS, tmp_path, postgres), 4 * ROWS)
    print(kind, once, four)
    assert four < 1.35 * once, f"{once} kB for {ROWS:,} rows, {four} kB for {4 * ROWS:,}"
