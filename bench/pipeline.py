"""A whole run from Parquet to published files in a folder, as a ratio to its floor.

The floor is what no design can avoid: decode the same Parquet, gzip the same bytes. Both are measured
in this run, on the same rows. Peak memory is that of the process.

    python bench/pipeline.py [ROWS] [--jobs N]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq

from sitemap_etl.config import load
from sitemap_etl.render import compress
from sitemap_etl.runs.local import run_locally
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options

SITE = """
name: bench
site: https://www.shop.example
work: ./work
publish: ./public
gates: {max_growth: 1000}
sections:
  products:
    from: {parquet: ./export}
"""


def export(folder: Path, rows: int) -> None:
    """Rows in random order, 75 characters a URL, in files of a million."""
    folder.mkdir()
    rng = np.random.default_rng(1)
    order = rng.permutation(rows)
    for at in range(0, rows, 1_000_000):
        ids = order[at : at + 1_000_000]
        numbers = pa.array(ids).cast(pa.string())
        loc = pa.compute.binary_join_element_wise(
            "https://www.shop.example/products/some-category/item-name-",
            pa.compute.utf8_lpad(numbers, 9, "0"),
            "-abcdefg",
            "",
        )
        lastmod = pa.array((1_600_000_000 + ids * 60 % 150_000_000).astype("datetime64[s]"))
        table = pa.table({"loc": loc, "lastmod": lastmod.cast(pa.timestamp("us", "UTC"))})
        pq.write_table(table, folder / f"{at // 1_000_000:05}.parquet", row_group_size=250_000)


def floor(folder: Path, public: Path) -> float:
    """Seconds of one core to decode the export and to gzip what was published."""
    import gzip

    documents = [gzip.decompress(path.read_bytes()) for path in sorted(public.glob("*.xml.gz"))]
    before = time.process_time()
    pa.set_cpu_count(1)
    for path in sorted(folder.glob("*.parquet")):
        for _ in pq.ParquetFile(path).iter_batches(500_000):
            pass
    for document in documents:
        compress.gzip([document])
    return time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "site.yaml").write_text(SITE)
        export(folder / "export", arguments.rows)
        site = load(folder / "site.yaml", environ={})
        for name in ("first night", "second night, nothing changed"):
            wall, cpu = time.perf_counter(), time.process_time()
            finished = run_locally(site, Options(), Environment(environ={}), jobs=arguments.jobs)
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            stages = ", ".join(f"{k} {v:.2f}" for k, v in finished.summary.seconds.items())
            print(f"{name}: {arguments.rows / wall / 1e6:.2f} M rows/s, {wall:.2f} s wall, {cpu:.2f} s of processor")
            print(f"  {stages}")
            if name == "first night":
                first = cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        base = floor(folder / "export", folder / "public")
        print(f"floor (decode the same Parquet, gzip the same bytes): {base:.2f} s of processor")
        print(f"first night / floor: {first / base:.1f}    peak memory: {peak:,} MB")


if __name__ == "__main__":
    main()
