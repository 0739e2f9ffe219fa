"""What splits and files cost: a first night over the same rows in few large splits, in many small ones, and in files.

    python bench/splits.py [ROWS]

Processor time of the whole process, interleaved, the least of three. What a run reads of its own records must grow as
splits + groups, so many small splits cost little more than a few large ones. Small files are read together.
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
FILES = 2_000
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


def export(folder: Path, rows: int, splits: int, files: int) -> None:
    """Rows in random order, in one file of so many row groups, or in files of one."""
    folder.mkdir()
    numbers = pa.array(np.random.default_rng(1).permutation(rows)).cast(pa.string())
    loc = pa.compute.binary_join_element_wise(
        "https://www.shop.example/products/some-category/item-name-", pa.compute.utf8_lpad(numbers, 9, "0"), ""
    )
    table = pa.table({"loc": loc})
    if files == 1:
        pq.write_table(table, folder / "export.parquet", row_group_size=rows // splits)
        return
    for at in range(files):
        pq.write_table(table.slice(at * (rows // files), rows // files), folder / f"{at:05}.parquet")


def night(splits: int, rows: int, files: int) -> None:
    """One first night in this process; prints its processor time in seconds."""
    local.SPLIT_ROWS = rows // splits  # type: ignore[misc] # what the command fixes, for once
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "site.yaml").write_text(SITE)
        export(folder / "export", rows, splits, files)
        site = load(folder / "site.yaml", environ={})
        before = time.process_time()
        done = local.run_locally(site, Options(), Environment(environ={}), jobs=2)
        seconds = time.process_time() - before
        assert files > 1 or len(done.run.plan.units) == splits, len(done.run.plan.units)
        assert done.summary.sections["products"].listed == rows
    print(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--splits", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--files", type=int, default=1, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.splits:
        night(arguments.splits, arguments.rows, arguments.files)
        return
    cases = {"few": (FEW, 1), "many": (MANY, 1), "files": (FEW, FILES)}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, (splits, files) in cases.items():
            command = [sys.executable, __file__, str(arguments.rows), "--splits", str(splits), "--files", str(files)]
            found[name].append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    few, many, apart = (min(seconds) for seconds in found.values())
    print(f"{arguments.rows:,} rows in {FEW} splits: {few:.2f} s of processor")
    print(f"in {MANY} splits: {many:.2f} s, {(many - few) / (MANY - FEW) * 1000:.1f} ms for each more")
    print(f"in {FILES:,} files: {apart:.2f} s, {(apart - few) / FILES * 1000:.1f} ms for each")


if __name__ == "__main__":
    main()
