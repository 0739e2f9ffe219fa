"""Measure rendering on one core: windows of rows → entries → files of 45,000 → gzip.

    python bench/render.py [--rows 450000] [--rounds 5] [--check]

Prints rows a second (the best round: the machine may be shared) and how much longer it takes than gzip
of the same bytes alone. `--check` ends with 1 where a target is missed.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable

import pyarrow as pa

from sitemap_etl import elements, limits
from sitemap_etl.render import compress, urlset

FILE_ROWS = int(limits.SITEMAP_ROWS * 0.9)
TARGETS = {"plain": 2_500_000, "2 images, 3 alternates": 400_000}


def plain(rows: int) -> pa.Table:
    """Locs of about 70 characters and a lastmod on each."""
    locs = [
        f"https://www.shop.example/c/{n * 7_919 % 997:03}/red-wooden-chair-with-arms-{n * 40_503 % 99_991:05}-p{n:09}"
        for n in range(rows)
    ]
    lastmods = [
        f"2026-{n % 12 + 1:02}-{n * 7 % 28 + 1:02}T{n * 5 % 24:02}:{n * 11 % 60:02}:{n % 60:02}Z" for n in range(rows)
    ]
    return pa.table({"loc": locs, "lastmod": lastmods})


def nested(rows: int) -> pa.Table:
    """The same with two images and three alternates each."""
    table = plain(rows)
    locs = table.column("loc").to_pylist()
    images = [
        [f"https://img.shop.example/{n % 89}/{n:09}-{side}.jpg" for side in ("front", "back")] for n in range(rows)
    ]
    alternates = [
        [{"hreflang": tag, "href": loc.replace("/c/", f"/{tag}/c/")} for tag in ("de", "en", "fr-CA")] for loc in locs
    ]
    table = table.append_column("images", pa.array(images, elements.IMAGES))
    return table.append_column("alternates", pa.array(alternates, elements.ALTERNATES))


def files(table: pa.Table) -> list[list[bytes | memoryview]]:
    rendered = urlset.entries(table)
    prefixes = urlset.namespaces(table)
    starts = range(0, table.num_rows, FILE_ROWS)
    return [list(urlset.document(rendered.slice(at, min(at + FILE_ROWS, table.num_rows)), prefixes)) for at in starts]


def best(rounds: int, work: Callable[[], object]) -> float:
    """Seconds of the fastest round."""
    took = []
    for _ in range(rounds):
        begin = time.perf_counter()
        work()
        took.append(time.perf_counter() - begin)
    return min(took)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=450_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    missed = False
    for name, make in (("plain", plain), ("2 images, 3 alternates", nested)):
        rows = options.rows if name == "plain" else options.rows // 3
        table = make(rows)
        made = files(table)
        size = sum(len(part) for parts in made for part in parts)
        packed = sum(len(compress.gzip(parts)) for parts in made)
        gzip = best(options.rounds, lambda made=made: [compress.gzip(parts) for parts in made])
        render = best(options.rounds, lambda table=table: files(table))
        both = best(options.rounds, lambda table=table: [compress.gzip(parts) for parts in files(table)])
        speed = rows / both
        missed |= speed < TARGETS[name]
        print(
            f"{name}: {speed:,.0f} rows/s (target {TARGETS[name]:,}), {size / rows:.0f} bytes a row, "
            f"render {render / rows * 1e6:.2f} + gzip {gzip / rows * 1e6:.2f} µs a row, "
            f"{both / gzip:.2f} times gzip alone, ratio {packed / size:.3f}"
        )
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
