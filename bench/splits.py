"""What splits cost: a first night over the same rows in few large splits and in many small ones.

    python bench/splits.py [ROWS]

Processor time of the whole process, interleaved, the least of three. What a run reads of its own records must grow as
splits + groups, so many small splits cost little more than a few large ones.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from sitemap_etl.config import load
from sitemap_etl.runs import local
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options

FEW, MANY = 25, 200
ROUNDS = 3
SITE = """
name: bench
site: https://www.shop.example
work: ./work
publish: ./public
sections:
  products:
    from: {parquet: ./export}
"""


def export(folder: Path, rows: int, splits: int) -> None:
    """Rows in random order, in a file of one row group a split."""
    folder.mkdir()
    numbers = pa.array(np.random.default_rng(1).permutation(rows)).cast(pa.string())
    loc = pa.compute.binary_join_element_wise(
        "https://www.shop.example/products/some-category/item-name-", pa.compute.utf8_lpad(numbers, 9, "0"), ""
    )
    pq.write_table(pa.table({"loc": loc}), folder / "export.parquet", row_group_size=rows // splits)


def night(splits: int, rows: int) -> None:
    """One first night in this process; prints its processor time in seconds."""
    local.SPLIT_ROWS = rows // splits  # type: ignore[misc] # what the command fixes, for once
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "site.yaml").write_text(SITE)
        export(folder / "export", rows, splits)
        site = load(folder / "site.yaml", environ={})
        before = time.process_time()
        done = local.run_locally(site, Options(), Environment(environ={}), jobs=2)
        seconds = time.process_time() - before
        assert len(done.run.plan.units) == splits, len(done.run.plan.units)
        assert done.summary.sections["products"].listed == rows
    print(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--splits", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.splits:
        night(arguments.splits, arguments.rows)
        return
    found: dict[int, list[float]] = {FEW: [], MANY: []}
    for _ in range(ROUNDS):
        for splits, seconds in found.items():
            command = [sys.executable, __file__, str(arguments.rows), "--splits", str(splits)]
            seconds.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    few, many = min(found[FEW]), min(found[MANY])
    print(f"{arguments.rows:,} rows in {FEW} splits: {few:.2f} s of processor; in {MANY}: {many:.2f} s")
    print(f"ratio: {many / few:.2f} (at most 1.5)")


if __name__ == "__main__":
    main()
