"""What nights cost: first, quiet and normal ones, by the shape of the URLs, as ratios to a floor and to a script.

    python bench/nights.py [ROWS] [--urls plain,slug,sorted,unicode,real] [--rounds 3] [--no-script] [--markdown]

Every figure is the processor time of a whole process tree: the command `sitemap-etl run` with its imports, its state
and its report. In each round a site has a first night, a night without a change, and one on which 1 % of the rows were
updated, 0.1 % added and 0.1 % removed. `noted` is a night without a change of another site, of whose rows 1 % are
rejected, excluded, warned of or duplicates. Then what they are compared with does its work in a process of its own:

floor    decodes the same Parquet and compresses the same bytes, the better of two times: no design can do less
script   what a good engineer writes in an hour: pandas, f-strings, gzip; no checks, no duplicates, no state. It holds
         all rows at once: a hundred million take more memory than most machines have

`real` are the packages of a Linux distribution and the places of the world, from the folder that
SITEMAP_ETL_REAL_DATA names, as paths, as often as it takes.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SITE = """
name: bench
site: https://www.shop.example
work: ./work
publish: ./public
gates: {max_growth: 1000}
sections:
  products:
    from: {parquet: ./export}
    lastmod: {column: lastmod}
    priority: {percentile_of: sales}
"""
NOTED = f"{SITE}urls: {{exclude: [/excluded/*]}}\n"
FILE_ROWS = 1_000_000
GROUP_ROWS = 250_000
MOST_MB, MOST_ROWS = 900, 5_000_000
"""What a process of a run takes at most, up to this many rows."""
NIGHTS = ("first", "quiet", "normal")
OLD = 86_400  # a date that no page has
WORDS = ("red", "large", "organic", "vintage", "wireless", "waterproof", "classic", "premium", "light", "deluxe")
THINGS = (
    "shoes",
    "phone-cases",
    "garden-chairs",
    "led-lamps",
    "winter-jackets",
    "puzzles",
    "protein-bars",
    "yoga-mats",
)
SHELVES = ("electronics", "home-and-garden", "toys", "clothing-women", "clothing-men", "sports-outdoors", "books")
UMLAUTS = ("schuhe", "für-größe", "lämpchen", "crème-brûlée", "東京", "München", "smörgås", "наушники")


# --- rows --------------------------------------------------------------------------------------------


def locs(kind: str, ids: np.ndarray) -> pa.Array:
    """One URL for each id."""
    numbers = pc.utf8_lpad(pa.array(ids).cast(pa.string()), 9, "0")
    if kind in ("plain", "sorted"):
        return _joined("https://www.shop.example/products/some-category/item-name-", numbers, "-abcde")
    if kind == "real":
        return _joined("https://www.shop.example/", _names(ids), "/", numbers)
    things = UMLAUTS if kind == "unicode" else THINGS
    parts = [_some(SHELVES, ids, 1), "/", _some(things, ids, 7), "/", _some(WORDS, ids, 13), "-", _some(WORDS, ids, 29)]
    return _joined("https://www.shop.example/", *parts, "-", _some(things, ids, 31), "-", numbers)


def _joined(*parts: pa.Array | str) -> pa.Array:
    return pc.binary_join_element_wise(*parts, "")


def _some(words: Sequence[str], ids: np.ndarray, salt: int) -> pa.Array:
    """One of the words for each id, as by chance."""
    mixed = (ids.astype(np.uint64) + np.uint64(salt)) * np.uint64(0x9E3779B97F4A7C15)
    return pa.array(words).take(pa.array((mixed >> np.uint64(33)) % np.uint64(len(words))))


def _names(ids: np.ndarray) -> pa.Array:
    import pyarrow.csv

    folder = Path(os.environ["SITEMAP_ETL_REAL_DATA"])
    packages = pyarrow.csv.read_csv(folder / "packages.csv.gz").select(["section", "package"])
    places = pq.read_table(folder / "cities.parquet", columns=["country", "name"])
    found = pa.concat_arrays(
        [_joined(*(c.combine_chunks() for c in t.columns), "") for t in (_paths(packages), _paths(places))]
    )
    return found.take(pa.array(ids % len(found)))


def _paths(table: pa.Table) -> pa.Table:
    first, second = (pc.fill_null(column, "") for column in table.columns)
    return pa.table({"path": pc.binary_join_element_wise(first, pc.replace_substring(second, "/", "-"), "/")})


def export(folder: Path, kind: str, ids: np.ndarray, updated: np.ndarray, *, noted: bool = False) -> None:
    """The rows of these ids in files of a million. `updated`: ids whose page was changed today. `noted`: see above."""
    folder.mkdir()
    for at in range(0, len(ids), FILE_ROWS):
        some = ids[at : at + FILE_ROWS]
        seconds = 1_600_000_000 + some * 60 % 150_000_000 + np.isin(some, updated) * 40_000_000
        urls = locs(kind, some)
        if noted:
            urls, seconds = spoilt(urls, seconds)
        table = pa.table(
            {
                "loc": urls,
                "lastmod": pa.array(seconds.astype("datetime64[s]")).cast(pa.timestamp("us", "UTC")),
                "sales": pa.array(some % 10_007),
            }
        )
        pq.write_table(table, folder / f"{at // FILE_ROWS:05}.parquet", row_group_size=GROUP_ROWS)


def spoilt(urls: pa.Array, seconds: np.ndarray) -> tuple[pa.Array, np.ndarray]:
    """The columns with one row of 400 each on another site, excluded, with an impossible date, and listed twice."""
    at = np.arange(len(urls)) % 400
    elsewhere, excluded, old, twice = (pa.array(at == n) for n in range(4))
    paths = pc.replace_substring(urls, "https://www.shop.example", "", max_replacements=1)
    urls = pc.if_else(elsewhere, _joined("https://other.example", paths), urls)
    urls = pc.if_else(excluded, _joined("https://www.shop.example/excluded", paths), urls)
    urls = pc.if_else(twice, urls.take(pa.array(np.maximum(np.arange(len(urls)) - 1, 0))), urls)
    return urls, np.where(old, OLD, seconds)


def exports(folder: Path, kind: str, rows: int) -> None:
    """`a`: the rows of two nights; `b`: those of the third; `c`: those of `a` with 1 % spoilt."""
    rng = np.random.default_rng(1)
    ids = np.arange(rows) if kind == "sorted" else rng.permutation(rows)
    export(folder / "a", kind, ids, np.empty(0, np.int64))
    export(folder / "c", kind, ids, np.empty(0, np.int64), noted=True)
    stay = ids[rng.permutation(rows)[rows // 1000 :]] if kind != "sorted" else ids[: rows - rows // 1000]
    export(
        folder / "b", kind, np.concatenate([stay, rows + np.arange(rows // 1000)]), rng.permutation(rows)[: rows // 100]
    )


# --- what nights are compared with --------------------------------------------------------------------


def floor(folder: Path) -> None:
    """Decode the export, and compress what was published."""
    from sitemap_etl.render import compress

    pa.set_cpu_count(1)
    for path in sorted((folder / "a").glob("*.parquet")):
        for _ in pq.ParquetFile(path).iter_batches(500_000):
            pass
    for path in sorted((folder / "first").glob("*.xml")):
        compress.gzip([path.read_bytes()])


def script(folder: Path) -> None:
    """A sitemap generator as it is written in an hour."""
    import pandas as pd

    frame = pd.concat([pd.read_parquet(path) for path in sorted((folder / "a").glob("*.parquet"))])
    frame["priority"] = (frame["sales"].rank(pct=True) * 10).round() / 10
    frame["lastmod"] = frame["lastmod"].dt.strftime("%Y-%m-%dT%H:%M:%SZ")
    frame = frame.sort_values("loc")
    (folder / "script").mkdir(exist_ok=True)
    for number, at in enumerate(range(0, len(frame), 50_000)):
        part = frame.iloc[at : at + 50_000]
        with gzip.open(
            folder / "script" / f"sitemap-{number:05}.xml.gz", "wt", encoding="utf-8", compresslevel=6
        ) as file:
            file.write(
                '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
            )
            for loc, lastmod, priority in zip(part["loc"], part["lastmod"], part["priority"], strict=True):
                file.write(
                    f"<url><loc>{escape(loc)}</loc><lastmod>{lastmod}</lastmod><priority>{priority}</priority></url>\n"
                )
            file.write("</urlset>\n")


# --- measuring ---------------------------------------------------------------------------------------


@dataclass
class Cost:
    """What one process tree took, in seconds, its largest resident set in MB, and what it printed."""

    processor: float
    wall: float
    peak: int
    said: str


def cost(command: list[str], cwd: Path) -> Cost:
    """Run a command to its end; gives what it cost."""
    started = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert process.stdout is not None
    said = process.stdout.read().decode()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}:\n{said}")
    return Cost(used.ru_utime + used.ru_stime, time.perf_counter() - started, used.ru_maxrss // 1024, said)


def round_of(folder: Path, jobs: int, others: Sequence[str]) -> dict[str, Cost]:
    """One round in a folder that has its exports. `others`: what nights are compared with."""
    found = {}
    command = [str(Path(sys.executable).with_name("sitemap-etl")), "run", "site.yaml", "--no-ping", "--jobs", str(jobs)]
    site = fresh(folder)
    for day, night in enumerate(NIGHTS, 1):
        (site / "export").unlink(missing_ok=True)
        (site / "export").symlink_to(folder / ("b" if night == "normal" else "a"))
        found[night] = cost([*command, "--now", f"2026-11-{day:02}T02:00:00Z", "--reason", "bench"], site)
        if night == "first":
            plain(site / "public", folder / "first")
    site = fresh(folder, NOTED)
    (site / "export").symlink_to(folder / "c")
    for day in (1, 2):
        found["noted"] = cost([*command, "--now", f"2026-11-{day:02}T02:00:00Z", "--reason", "bench"], site)
    for name in others:
        found[name] = cost([sys.executable, __file__, "--child", name, "--folder", str(folder)], folder)
        found[name].processor = float(found[name].said)  # without starting Python: it is no part of a floor
    return found


def fresh(folder: Path, written: str = SITE) -> Path:
    """A site that was never published. It stays until all rounds are over: for a minute after files were deleted,
    ext4 looks past each of them for every file that is made.
    """
    site = Path(tempfile.mkdtemp(dir=folder))
    (site / "site.yaml").write_text(written)
    return site


def plain(public: Path, to: Path) -> None:
    """What was published, uncompressed, for the floor to compress."""
    to.mkdir(exist_ok=True)
    for path in public.glob("*.xml.gz"):
        (to / path.name.removesuffix(".gz")).write_bytes(gzip.decompress(path.read_bytes()))


def report(kind: str, rows: int, rounds: list[dict[str, Cost]], *, markdown: bool) -> None:
    """Print the figures of one kind of URLs: the least and the median, and the ratios of the least."""
    least = {name: min(one[name].processor for one in rounds) for name in rounds[0]}
    middle = {name: median(one[name].processor for one in rounds) for name in rounds[0]}
    micro = 1e6 / rows
    line = "| {} | {} | {} | {} | {} | {} |" if markdown else "{:8} {:7} {:>16} {:>9} {:>9} {:>12}"
    for name in rounds[0]:
        wall = min(one[name].wall for one in rounds)
        print(
            line.format(
                kind,
                name,
                f"{least[name] * micro:.2f} ({middle[name] * micro:.2f})",
                f"{least[name] / least['floor']:.1f}",
                f"{least[name] / least['first']:.2f}",
                f"{rows / wall / 1e6:.2f}",
            )
        )
    peak = max(one[name].peak for one in rounds for name in NIGHTS)
    print(f"{kind}: at most {peak:,} MB in a night", file=sys.stderr, flush=True)
    if peak > MOST_MB and rows <= MOST_ROWS:
        raise SystemExit(f"{kind}: a process took {peak:,} MB for {rows:,} rows, more than {MOST_MB:,} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=int, default=1_000_000)
    parser.add_argument("--urls", default="plain")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-script", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    parser.add_argument("--child", choices=("exports", "floor", "script"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child == "exports":
        exports(arguments.folder, arguments.urls, arguments.rows)
        return
    if arguments.child:
        work = {"floor": floor, "script": script}[arguments.child]
        took = []
        for _ in range(2 if work is floor else 1):  # the second time with memory that the system has cleared already
            before = time.process_time()
            work(arguments.folder)
            took.append(time.process_time() - before)
        print(min(took))
        return
    head = ("URLs", "what", "µs a row, least (median)", "× floor", "× first", "million rows/s")
    if arguments.markdown:
        print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for kind in arguments.urls.split(","):
        if kind == "real" and "SITEMAP_ETL_REAL_DATA" not in os.environ:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            # In a process of its own: the peak of a process counts what its parent held when it began.
            own = [sys.executable, __file__, str(arguments.rows), "--urls", kind, "--child", "exports"]
            cost([*own, "--folder", scratch], Path(scratch))
            others = ("floor",) if arguments.no_script else ("floor", "script")
            rounds = [round_of(Path(scratch), arguments.jobs, others) for _ in range(arguments.rounds)]
            report(kind, arguments.rows, rounds, markdown=arguments.markdown)
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    versions = f"Python {platform.python_version()}, pyarrow {pa.__version__}"
    print(f"\n{arguments.rows:,} rows; {machine}; {versions}")


if __name__ == "__main__":
    main()
