"""What incremental nights cost: a table of which a thousandth was changed, and one of which nothing was.

    python bench/incremental.py [ROWS] [--rounds 3]

The same rows lie in a table of SQLite, of which a section reads what changed since the run before, and in a Parquet
export, of which a quiet night decodes and checks every row. Every figure is the processor time of a whole process
tree; `fixed` is what a night of a thousand rows takes, which is mostly imports.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
from nights import cost, exports

SITE = """
name: {name}
site: https://www.shop.example
work: ./work-{name}
publish: ./public-{name}
gates: {{max_growth: 1000}}
sections:
  products:
    from: {source}
    lastmod: {{column: lastmod}}
"""
TABLE = "{database: catalog, query: 'SELECT id, loc, lastmod FROM pages WHERE touched >= :since', key: id}"


def put_table(folder: Path) -> None:
    """The rows of the export as a table with a key and an indexed time of their last change."""
    with closing(sqlite3.connect(folder / "catalog.db")) as database, database:
        database.execute("CREATE TABLE pages (id INTEGER PRIMARY KEY, loc TEXT, lastmod TEXT, touched TEXT)")
        for path in sorted((folder / "a").glob("*.parquet")):
            table = pq.read_table(path, columns=["loc", "lastmod"])
            locs, dates = table.column("loc").to_pylist(), table.column("lastmod").to_pylist()
            rows = ((loc, f"{date:%Y-%m-%d}", "2026-10-01T00:00:00Z") for loc, date in zip(locs, dates, strict=True))
            database.executemany("INSERT INTO pages (loc, lastmod, touched) VALUES (?, ?, ?)", rows)
        database.execute("CREATE INDEX touched ON pages (touched)")


def touch(folder: Path, rows: int, day: int) -> None:
    """Let every thousandth row be changed on the day before, so long ago that the next run will not read it again."""
    with closing(sqlite3.connect(folder / "catalog.db")) as database, database:
        values = (f"2026-11-{day:02}", f"2026-11-{day - 1:02}T12:00:00Z")
        database.execute(f"UPDATE pages SET lastmod = ?, touched = ? WHERE id % 1000 = {day} AND id <= {rows}", values)


def night(folder: Path, name: str, day: int) -> float:
    """Seconds of a processor that a site's run takes."""
    command = [str(Path(sys.executable).with_name("sitemap-etl")), "run", f"{name}.yaml", "--no-ping"]
    return cost([*command, "--now", f"2026-11-{day:02}T02:00:00Z", "--reason", "bench"], folder).processor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    rows = arguments.rows
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        exports(folder, "plain", rows)
        put_table(folder)
        os.environ["AIRFLOW_CONN_CATALOG"] = f"sqlite:///{folder}/catalog.db"
        (folder / "few").mkdir()
        pq.write_table(pq.read_table(folder / "a" / "00000.parquet").slice(0, 1_000), folder / "few" / "0.parquet")
        for name, source in (("table", TABLE), ("export", "{parquet: ./a}"), ("fixed", "{parquet: ./few}")):
            (folder / f"{name}.yaml").write_text(SITE.format(name=name, source=source))
            night(folder, name, 1)
        found: dict[str, list[float]] = {}
        for day in range(2, 2 + 2 * arguments.rounds, 2):
            touch(folder, rows, day)
            found.setdefault("a thousandth changed", []).append(night(folder, "table", day))
            found.setdefault("nothing changed", []).append(night(folder, "table", day + 1))
            found.setdefault("a quiet night of an export", []).append(night(folder, "export", day))
            found.setdefault("fixed", []).append(night(folder, "fixed", day))
        fixed, quiet = min(found["fixed"]), min(found["a quiet night of an export"])
        for name, seconds in found.items():
            more = min(seconds) - fixed
            share = more / (quiet - fixed)
            print(f"{name:28} {min(seconds):6.2f} s, {more / rows * 1e6:6.3f} µs a row over fixed, {share:6.1%}")


if __name__ == "__main__":
    main()
