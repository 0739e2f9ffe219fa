"""How many files change in a night, by what happens to the rows: ours, and packing from the start.

A section of a million rows; 0.01 %, 0.1 % and 1 % of its rows are added at the end, added, updated or
deleted at random or in one place of the order (a category, a date). "Packed" is what a generator
rewrites that fills files with 50,000 rows one after the other, in the same order. Prints the table of
docs/explanation/scaling.md.

    python bench/stability.py [ROWS]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from sitemap_etl.config import load
from sitemap_etl.runs.local import run_locally
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options

SITE = """
name: bench
site: https://shop.example
work: ./work
publish: ./public
gates: {max_drop: 1, max_growth: 9}
sections:
  p: {from: {parquet: ./export.parquet}}
"""
FIRST = datetime(2026, 11, 1, 2, tzinfo=UTC)
PACKED = 50_000


def rows_of(ids: np.ndarray, versions: np.ndarray) -> pa.Table:
    """Pages by number; a version shows as a date."""
    loc = pa.compute.binary_join_element_wise("/p/", pa.compute.utf8_lpad(pa.array(ids).cast(pa.string()), 12, "0"), "")
    day = pa.array((np.datetime64("2026-01-01") + versions).astype("datetime64[D]"))
    return pa.table({"loc": loc, "lastmod": day})


def night(folder: Path, number: int, ids: np.ndarray, versions: np.ndarray) -> int:
    """Run a night; gives how many sitemaps were written."""
    pq.write_table(rows_of(ids, versions), folder / "export.parquet")
    now = FIRST + timedelta(days=number)
    environment = replace(Environment(environ={}), clock=lambda: now)
    options = Options(reason="a night of the benchmark")
    finished = run_locally(load(folder / "site.yaml", environ={}), options, environment, now=now)
    return max(0, int(finished.summary.files.written) - 1)  # the index is always among them


def packed(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> int:
    """Files of 50,000 rows in the order of locs whose rows differ."""
    files = []
    for ids, versions in (before, after):
        order = np.argsort(ids)
        rows = np.stack([ids[order], versions[order]], axis=1)
        files.append([rows[at : at + PACKED].tobytes() for at in range(0, len(rows), PACKED)])
    old, new = files
    return sum(at >= len(old) or old[at] != file for at, file in enumerate(new))


def _raised(versions: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The versions, those at `at` one higher."""
    raised = versions.copy()
    raised[at] += 1
    return raised


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(7)
    ids = np.arange(rows) * 1_000  # room for rows between them
    versions = np.zeros(rows, np.int64)
    print(f"| of {rows:,} rows | share | files that change | filled from the start |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        base = Path(scratch) / "base"
        base.mkdir()
        (base / "site.yaml").write_text(SITE)
        total = night(base, 0, ids, versions)
        for share in (0.0001, 0.001, 0.01):
            count = int(rows * share)
            spread = np.sort(rng.choice(rows, count, replace=False))
            place = rows // 3 + np.arange(count)
            none = np.zeros(rows + count, np.int64)
            scenarios = {
                "added at the end": (np.append(ids, ids[-1] + 1 + np.arange(count)), none),
                "added at random": (np.append(ids, ids[spread] + 1), none),
                "added in one place": (np.append(ids, ids[place] + 1), none),
                "updated at random": (ids, _raised(versions, spread)),
                "updated in one place": (ids, _raised(versions, place)),
                "deleted at random": (np.delete(ids, spread), np.delete(versions, spread)),
                "deleted in one place": (np.delete(ids, place), np.delete(versions, place)),
            }
            for name, after in scenarios.items():
                folder = Path(scratch) / "night"
                shutil.copytree(base, folder)
                changed = night(folder, 1, *after)
                files = -(-rows // PACKED)
                print(f"| {name} | {share:.2%} | {changed} of {total} | {packed((ids, versions), after)} of {files} |")
                shutil.rmtree(folder)


if __name__ == "__main__":
    main()
