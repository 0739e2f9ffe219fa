"""Processor seconds and peak memory of reading a million rows from each kind of source, beside pandas and connectorx.

    .venv/bin/python -m bench.extract [ROWS] [SOURCE…]

Each reader runs in a process of its own and reads twice; the second time counts, in which nothing is imported any more.
The least of three tries is shown. Processor time is the client's (user and system), without that of the servers.
`most`: what a million rows may cost. pandas reads in chunks of 50,000 rows, connectorx all at once.
"""

from __future__ import annotations

import json
import re
import resource
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sitemap_etl import limits, sources
from sitemap_etl.connections import parse
from sitemap_etl.settings import ParquetExport
from tests.support.mariadb import mariadb_server, server_program
from tests.support.postgres import running_postgres

SELECT: Final = "SELECT loc, updated, price, title FROM products"
MOST: Final = {"postgres": 1.1, "mysql": 2.0, "sqlite": 1.0, "csv": 0.4, "jsonl": 1.0}
TRIES: Final = 3
CHUNK: Final = 50_000


def table(rows: int) -> pa.Table:
    text = pa.array(range(rows)).cast(pa.string())
    moments = pa.array([1_767_225_600 + i for i in range(rows)], pa.timestamp("s"))
    return pa.table(
        {
            "loc": pc.binary_join_element_wise("https://shop.example/p/", text, "/a-long-name-of-a-product", ""),
            "updated": moments.cast(pa.timestamp("us", "UTC")),
            "price": pc.divide(pa.array(range(rows)), 4.0),
            "title": pc.binary_join_element_wise("Product number ", text, ""),
        }
    )


def files(rows: int, folder: Path) -> dict[str, str]:
    """Where each source that is a file is, by its name."""
    data = table(rows)
    pq.write_table(data, folder / "a.parquet", row_group_size=131_072)
    pyarrow.csv.write_csv(data, folder / "a.csv")
    with pa.CompressedOutputStream(str(folder / "a.csv.gz"), "gzip") as out:
        pyarrow.csv.write_csv(data, out)
    shown = data.set_column(1, "updated", data["updated"].cast(pa.string()))
    duckdb.from_arrow(data).query("data", f"COPY data TO '{folder / 'a.jsonl'}' (FORMAT json)")
    with sqlite3.connect(folder / "a.db") as database:
        database.execute("CREATE TABLE products (loc TEXT, updated TEXT, price REAL, title TEXT)")
        values = zip(*(column.to_pylist() for column in shown.columns), strict=True)
        database.executemany("INSERT INTO products VALUES (?, ?, ?, ?)", values)
    database.close()
    names = {"parquet": "a.parquet", "query": "a.parquet", "csv": "a.csv", "csv.gz": "a.csv.gz", "jsonl": "a.jsonl"}
    return {name: str(folder / file) for name, file in names.items()} | {"sqlite": f"sqlite:///{folder / 'a.db'}"}


def servers(rows: int, stack: ExitStack) -> dict[str, str]:
    """The URIs of the databases that are servers, by their names, with the table filled."""
    postgres = stack.enter_context(running_postgres())
    postgres.execute(
        "CREATE TABLE products AS SELECT 'https://shop.example/p/' || i || '/a-long-name-of-a-product' AS loc, "
        "timestamptz '2026-01-01' + i * interval '1 second' AS updated, (i / 4.0)::numeric(12, 2) AS price, "
        f"'Product number ' || i AS title FROM generate_series(1, {rows}) i"
    )
    program = server_program()
    if program is None:
        print("mysql: MariaDB is not installed (package mariadb-server)")
        return {"postgres": postgres.uri}
    mariadb = stack.enter_context(mariadb_server(program))
    mariadb.execute(
        "CREATE TABLE products AS SELECT CONCAT('https://shop.example/p/', seq, '/a-long-name-of-a-product') AS loc, "
        "CAST('2026-01-01 00:00:00' AS DATETIME) + INTERVAL seq SECOND AS updated, CAST(seq / 4 AS DECIMAL(12, 2)) "
        f"AS price, CONCAT('Product number ', seq) AS title FROM seq_1_to_{rows}"
    )
    return {"postgres": postgres.uri, "mysql": mariadb.uri}


# --- readers: each gives the number of rows -----------------------------------------------------------


def ours(name: str, place: str) -> int:
    if "://" in place:
        connection, query = parse(place), SELECT
        plan = sources.plan_database(connection, query)
    elif name == "query":
        connection, query = None, "SELECT loc, updated FROM source WHERE price >= 0"
        plan = sources.plan_query({"source": ParquetExport(parquet=(place,))}, query)
    else:
        connection, query = None, None
        plans = {"csv": sources.plan_csv, "jsonl": sources.plan_jsonl, "parquet": sources.plan_parquet}
        plan = plans[name.partition(".")[0]](place)
    sizes = (
        {"batch_rows": limits.STAGED_ROWS, "batch_bytes": limits.STAGED_BYTES} if connection else {}
    )  # as a run reads
    return sum(b.num_rows for split in plan for b in sources.read(split, connection=connection, query=query, **sizes))


def pandas(name: str, place: str) -> int:
    import pandas as pd

    if "://" not in place:
        read: Callable[..., Iterable[Any]] = pd.read_json if name == "jsonl" else pd.read_csv
        options = {"lines": True} if name == "jsonl" else {}
        return sum(len(chunk) for chunk in read(place, chunksize=CHUNK, **options))
    import sqlalchemy

    driver = {"postgres": "postgresql+psycopg", "mysql": "mysql+pymysql"}.get(name, name)
    engine = sqlalchemy.create_engine(re.sub(r"^\w+", driver, place))
    with engine.connect().execution_options(stream_results=True) as connection:
        return sum(len(chunk) for chunk in pd.read_sql(sqlalchemy.text(SELECT), connection, chunksize=CHUNK))


def connectorx(_name: str, place: str) -> int:
    import connectorx as cx

    # It takes a socket's folder in the place of a host only.
    place = re.sub(r"@/(\w+)\?host=(.*)", lambda found: f"@{quote(found[2], safe='')}/{found[1]}", place)
    return int(cx.read_sql(place, SELECT, return_type="arrow").num_rows)


READERS: Final = {"ours": ours, "pandas": pandas, "connectorx": connectorx}


def measure(reader: str, name: str, place: str) -> None:
    """Read one source and print rows, processor seconds and kilobytes as JSON."""
    READERS[reader](name, place)
    before = resource.getrusage(resource.RUSAGE_SELF)
    rows = READERS[reader](name, place)
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    print(json.dumps([rows, seconds, int(peak[1]) if peak else 0]))


def best(reader: str, name: str, place: str) -> tuple[int, float, int] | None:
    """Rows, processor seconds and megabytes of the cheapest of a few tries; None where the reader fails."""
    call = [sys.executable, "-m", "bench.extract", "--measure", reader, name, place]
    tries = [subprocess.run(call, capture_output=True, text=True, check=False) for _ in range(TRIES)]
    found = [json.loads(ran.stdout) for ran in tries if ran.returncode == 0]
    if not found:
        return None
    rows, seconds, kilobytes = min(found, key=lambda one: one[1])
    return rows, seconds, kilobytes // 1024


def show(name: str, place: str) -> None:
    others = ["pandas", "connectorx"] if "://" in place else ["pandas"] if name in ("csv", "csv.gz", "jsonl") else []
    cells = []
    for reader in READERS:
        found = best(reader, name, place) if reader in ("ours", *others) else None
        cells.append("             " if found is None else f"{found[1] / found[0] * 1e6:5.2f} {found[2]:5d} MB")
    most = f"{MOST[name]:4.1f}" if name in MOST else "    "
    print(f"{name:9} {cells[0]}   {most}   {cells[1]}   {cells[2]}".rstrip(), flush=True)


def main(rows: int, wanted: list[str]) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        places = servers(rows, stack) | files(rows, folder)
        print("processor seconds for a million rows, and peak memory\n")
        print("source    ours             most   pandas           connectorx")
        for name, place in places.items():
            if not wanted or name in wanted:
                show(name, place)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        arguments = sys.argv[1:]
        count = int(arguments.pop(0)) if arguments and arguments[0].isdigit() else 1_000_000
        main(count, arguments)
