from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support.mariadb import MariaDB, mariadb  # noqa: F401 - a fixture
from tests.support.postgres import Postgres

ROWS = 120_000
WIDTH = 500
"""Bytes a row: all rows kept would be 180 MB more in the second of two processes."""
CHILD = """
import json, re, sys
from sitemap_etl import sources
from sitemap_etl.connections import parse
from sitemap_etl.settings import ParquetExport
kind, place, query = json.loads(sys.argv[1])
connection = parse(place) if kind == "database" else None
if kind == "database":
    plan = sources.plan_database(connection, query)
elif kind == "query":
    plan = sources.plan_query({"source": ParquetExport(parquet=place)}, query)
else:
    plan = {"csv": sources.plan_csv, "jsonl": sources.plan_jsonl, "parquet": sources.plan_parquet}[kind](place)
rows = sum(b.num_rows for s in plan for b in sources.read(s, connection=connection, query=query, batch_rows=50_000))
# Not ru_maxrss: that begins with what the parent had.
print(json.dumps([rows, int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])]))
"""


def table(rows: int) -> pa.Table:
    ids = pa.array(range(rows))
    text = ids.cast(pa.string())
    loc = pc.binary_join_element_wise("https://shop.example/p/", text, "")
    return pa.table({"id": ids, "loc": loc, "title": pc.utf8_lpad(text, WIDTH, ".")})


def peak(kind: str, place: str, query: str | None, rows: int) -> int:
    """Return the memory in KB of a process that reads everything and keeps nothing."""
    ran = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([kind, place, query])], capture_output=True, text=True, check=True
    )
    found, kilobytes = json.loads(ran.stdout)
    assert found == rows
    return kilobytes


RUN = """
import re, sys
from sitemap_etl.cli import main
try:
    main(["run", "shop.yaml", "--jobs", "1", "--dry-run", "--json"])
finally:
    print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]), file=sys.stderr)
"""
SITE = """
site: https://shop.example
publish: ./public
sections:
  products:
    from: {{database: catalog, query: "{query}"}}
    lastmod: {{fingerprint: [title]}}
"""


@pytest.mark.thorough
def test_an_unsplit_select_takes_no_more_memory_for_four_times_the_rows(tmp_path: Path) -> None:
    """The rows are staged as one object and read back; a run may keep only windows of URLs."""
    peaks = []
    for rows in (ROWS, 4 * ROWS):
        folder = tmp_path / str(rows)
        folder.mkdir()
        (folder / "a.db").touch()
        count = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        query = f"{count} SELECT '/p/' || i AS loc, printf('%0{WIDTH}d', i) AS title FROM n"
        (folder / "shop.yaml").write_text(SITE.format(query=query))
        environ = {**os.environ, "AIRFLOW_CONN_CATALOG": f"sqlite:///{folder / 'a.db'}"}
        ran = subprocess.run(
            [sys.executable, "-c", RUN], cwd=folder, env=environ, capture_output=True, text=True, check=True
        )
        assert json.loads(ran.stdout)["sections"]["products"]["listed"] == rows
        peaks.append(int(ran.stderr.split()[-1]))
    kept = 3 * ROWS * WIDTH // 1024
    assert peaks[1] < peaks[0] + 0.75 * kept, peaks


def place_of(kind: str, rows: int, folder: Path, server: Postgres) -> tuple[str, str, str | None]:
    """Make a source of this many rows; return kind, place and SELECT."""
    if kind == "postgres":
        return (
            "database",
            server.uri,
            f"SELECT i AS id, lpad(i::text, {WIDTH}, '.') AS loc FROM generate_series(1, {rows}) i",
        )
    path = folder / f"{rows}.{kind}"
    if kind == "duckdb":
        duckdb.connect(str(path)).close()
        return (
            "database",
            f"duckdb:///{path}",
            f"SELECT i AS id, lpad(i::TEXT, {WIDTH}, '.') AS loc FROM range({rows}) r(i)",
        )
    if kind == "sqlite":
        path.touch()
        count = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
        return "database", f"sqlite:///{path}", f"{count} SELECT i AS id, printf('%0{WIDTH}d', i) AS loc FROM n"
    if kind == "csv":
        pyarrow.csv.write_csv(table(rows), path)
        return "csv", str(path), None
    if kind == "jsonl":
        with path.open("w") as lines:
            for n in range(rows):
                lines.write(f'{{"id": {n}, "loc": "/p/{n}", "title": "{n:0{WIDTH}}"}}\n')
        return "jsonl", str(path), None
    pq.write_table(table(rows), path, row_group_size=50_000)
    return (
        ("query", str(path), "SELECT loc, title FROM source WHERE id >= 0")
        if kind == "query"
        else ("parquet", str(path), None)
    )


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "query", "sqlite", "duckdb", "postgres"])
def test_more_rows_of_any_source_take_no_more_memory(kind: str, tmp_path: Path, postgres: Postgres) -> None:
    """Keeping the further rows would take at least `kept` each time; threads and allocators vary the peak.

    The lower number of rows fills the buffers already, which a pipeline of threads has at any size.
    """
    few, many = 2 * ROWS, 5 * ROWS
    before = peak(*place_of(kind, few, tmp_path, postgres), few)
    place = place_of(kind, many, tmp_path, postgres)
    kept = (many - few) * WIDTH // 1024
    after = peak(*place, many)
    if after >= before + 0.75 * kept:
        after = peak(*place, many)
    assert after < before + 0.75 * kept, f"{before} kB for {few:,} rows, {after} kB for {many:,}"


@pytest.mark.thorough
def test_four_times_the_rows_of_mariadb_take_no_more_memory(mariadb: MariaDB) -> None:  # noqa: F811 - the imported fixture
    query = f"SELECT seq AS id, LPAD(seq, {WIDTH}, '.') AS loc FROM seq_1_to_"
    once, four = (peak("database", mariadb.uri, f"{query}{rows}", rows) for rows in (ROWS, 4 * ROWS))
    assert four < once + 0.75 * 3 * ROWS * WIDTH // 1024, (once, four)
