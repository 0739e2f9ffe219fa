"""Rows a second of the lastmod, fingerprint, priority and changefreq rules on one core.

Each is also given as a ratio to a plain Arrow cast of a column of the same rows, timed in the same run:
text to timestamp for what reads text, timestamp to text for the rest. Ratios carry over between
machines, seconds do not.

    python bench/lastmod.py [rows]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import lastmod, priority
from sitemap_etl.frames import Tally

READ_AT = datetime(2026, 11, 20, 2, tzinfo=UTC)
ROUNDS = 5


def seconds(work: Callable[[], object]) -> float:
    """The best of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return best


def main(rows: int) -> None:
    pa.set_cpu_count(1)
    random = np.random.default_rng(1)
    micros = pa.array(random.integers(1_500_000_000_000_000, 1_760_000_000_000_000, rows))
    naive = micros.cast(pa.timestamp("us"))
    zoned = micros.cast(pa.timestamp("us", "UTC"))
    whole = naive.cast(pa.timestamp("s"), safe=False)
    plain = whole.cast(pa.string())
    dates = whole.cast(pa.date32())
    zulu = pc.binary_join_element_wise(pc.replace_substring(plain, " ", "T"), "Z", "")
    fractions = pc.binary_join_element_wise(naive.cast(pa.string()), "+01", "")
    odd = pc.if_else(pa.array(random.random(rows) < 0.01), " 2026-01-02 ", zulu)
    wrong = pc.if_else(pa.array(random.random(rows) < 0.01), "0000-00-00", zulu)
    holes = pc.if_else(pa.array(random.random(rows) < 0.2), None, zoned)
    title = pc.binary_join_element_wise("Lampe ", micros.cast(pa.string()), " aus Holz", "")
    price = pc.divide(pc.cast(pc.bit_wise_and(micros, 0xFFFF), pa.float64()), 100.0)
    decimals = pc.bit_wise_and(micros, 0xFFFF).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2))
    locs = pc.binary_join_element_wise("https://shop.example/de/p/", micros.cast(pa.string()), "")
    scores = pa.array(random.random(rows))
    words = pa.array(np.array(["daily", "weekly", "Monthly"])[random.integers(0, 3, rows)])
    table = pa.table({"title": title, "price": price, "updated": zoned, "amount": decimals, "id": micros})
    fingerprints = lastmod.fingerprint(table, ["id"])
    known = pa.repeat(pa.scalar(value=True), rows)
    bins = priority.signal_bins(scores)
    percentiles = priority.percentile_table(priority.histogram(bins))

    def column(values: pa.Array, *, timezone: str | None = None, unit: str | None = None) -> Callable[[], object]:
        return lambda: lastmod.texts(
            lastmod.moments(values, name="updated", timezone=timezone, unit=unit, read_at=READ_AT, tally=Tally())
        )

    def resolve() -> object:
        return lastmod.resolve(
            fingerprints, None, fingerprints, zulu, known,
            now_text="2026-11-20T02:00:00Z", reset=False, first_seen=False, first_publish=False,
        )  # fmt: skip

    read = seconds(lambda: plain.cast(pa.timestamp("s")))
    write = seconds(lambda: whole.cast(pa.string()))
    print(f"{rows:,} rows, one core; text to timestamp {rows / read:,.0f} rows/s, back {rows / write:,.0f} rows/s")
    cases: list[tuple[str, float, Callable[[], object]]] = [
        ("date", write, column(dates)),
        ("timestamp with zone", write, column(zoned)),
        ("timestamp with zone, 20 % null", write, column(holes)),
        ("timestamp, Europe/Berlin", write, column(naive, timezone="Europe/Berlin")),
        ("epoch, unit us", write, column(micros, unit="us")),
        ("text ...T...Z", read, column(zulu)),
        ("text with fraction and +01", read, column(fractions)),
        ("text, 1 % to be trimmed", read, column(odd)),
        ("text, 1 % no date", read, column(wrong)),
        ("text without zone, Europe/Berlin", read, column(plain, timezone="Europe/Berlin")),
        ("newest_of two", write, lambda: lastmod.newest_of([micros, micros])),
        ("fingerprint of an int", write, lambda: lastmod.fingerprint(table, ["id"])),
        ("fingerprint of a text", write, lambda: lastmod.fingerprint(table, ["title"])),
        ("fingerprint of a decimal", write, lambda: lastmod.fingerprint(table, ["amount"])),
        ("fingerprint of five columns", write, lambda: lastmod.fingerprint(table, table.column_names)),
        ("resolve, nothing changed", write, resolve),
        ("priority column", write, lambda: priority.from_column(scores, Tally())),
        ("priority by depth", write, lambda: priority.depth(locs)),
        ("signal bins", write, lambda: priority.signal_bins(scores)),
        ("percentiles of bins", write, lambda: priority.apply_table(bins, percentiles)),
        ("changefreq", write, lambda: priority.changefreq(words, Tally())),
    ]
    for name, cast, work in cases:
        took = seconds(work)
        print(f"{name:36} {rows / took:>14,.0f} rows/s {took / rows * 1e6:7.3f} us/row {took / cast:6.1f} x the cast")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500_000)
