"""What a rollback costs, and the run after it, beside a normal run.

    python bench/rollback.py [ROWS]

A section dates its pages by fingerprint. A run changes every row, a rollback takes that back, and the next run reads
the changed rows again. Processor time is of a whole process tree; `peak` is the largest resident set of a process.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from nights import FILE_ROWS, GROUP_ROWS, cost, locs

SITE = """
name: bench
site: https://www.shop.example
work: ./work
publish: ./public
gates: {max_growth: 1000}
sections:
  products:
    from: {parquet: ./export}
    lastmod: {fingerprint: [version]}
"""
MOST_MB, MOST_TIMES = 1_000, 2
"""Limits for each process, whatever the number of rows: memory, and processor time as a multiple of a normal run."""
STEPS = ("first", "normal", "rollback", "after")


def export(folder: Path, rows: int, version: int) -> None:
    """Write the rows of one version, shuffled, in files of a million."""
    folder.mkdir()
    ids = np.random.default_rng(1).permutation(rows)
    for at in range(0, rows, FILE_ROWS):
        some = ids[at : at + FILE_ROWS]
        table = pa.table({"loc": locs("plain", some), "version": np.full(len(some), version)})
        pq.write_table(table, folder / f"{at // FILE_ROWS:05}.parquet", row_group_size=GROUP_ROWS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=3_000_000)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        export(arguments.folder, arguments.rows, arguments.child)
        return
    command = str(Path(sys.executable).with_name("sitemap-etl"))
    most, longest = 0, 0.0
    print("| what | µs a row | × normal | peak, MB |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch)
        (site / "site.yaml").write_text(SITE)
        for version in (1, 2):
            own = [sys.executable, __file__, str(arguments.rows), "--child", str(version)]
            cost([*own, "--folder", str(site / str(version))], site)
        normal = 0.0
        for day, step in enumerate(STEPS, 1):
            (site / "export").unlink(missing_ok=True)
            (site / "export").symlink_to(site / ("1" if step == "first" else "2"))
            own = ["rollback" if step == "rollback" else "run", "site.yaml", "--no-ping", "--reason", "bench"]
            took = cost([command, *own, "--now", f"2026-11-{day:02}T02:00:00Z"], site)
            normal = took.processor if step == "normal" else normal
            ratio = f"{took.processor / normal:.2f}" if normal else ""
            print(f"| {step} | {took.processor / arguments.rows * 1e6:.2f} | {ratio} | {took.peak:,} |", flush=True)
            most, longest = max(most, took.peak), max(longest, took.processor)
    if most > MOST_MB or longest > MOST_TIMES * normal:
        raise SystemExit(
            f"for {arguments.rows:,} rows, a process took {most:,} MB and {longest / normal:.2f} times a normal run; "
            f"expected at most {MOST_MB:,} MB and {MOST_TIMES} times"
        )


if __name__ == "__main__":
    main()
