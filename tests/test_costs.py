"""The costs of rows, counted and not timed, so that slow machines don't matter: calls and bytes per row are bounded.

A Python loop over rows would make a million calls for a million rows; one more copy of all locs would allocate a tenth
more. `bench/` measures the parts of these numbers.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sitemap_etl.config import load
from sitemap_etl.runs.local import run_locally
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options
from tests.support.sites import FIRST_NIGHT
from tests.support.storages import Counting

SITE = """
name: shop
site: https://www.shop.example
work: ./work
publish: ./public
sections:
  products:
    from: {parquet: ./export}
    lastmod: {fingerprint: [title, price]}
"""
FEW, MANY = 250_000, 500_000
"""Rows of the two sites whose difference is counted: what a run costs whatever it reads is no part of it."""
PER_MILLION = 1_000_000 / (MANY - FEW)


def export(folder: Path, rows: int) -> None:
    """Shuffled rows with 75 bytes a URL, in row groups of 50,000."""
    folder.mkdir()
    ids = np.random.default_rng(1).permutation(rows)
    numbers = pc.utf8_lpad(pa.array(ids).cast(pa.string()), 9, "0")
    table = pa.table(
        {
            "loc": pc.binary_join_element_wise("/products/some-category/item-name-", numbers, "-abcdefg", ""),
            "title": pc.binary_join_element_wise("Item", numbers, " "),
            "price": pa.array(ids % 1_000),
        }
    )
    pq.write_table(table, folder / "export.parquet", row_group_size=50_000)


def nights(rows: int) -> list[Counter[str]]:
    """Return the costs of a first run and of one without a change: calls of functions and storages, bytes of Arrow."""
    found = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "site.yaml").write_text(SITE)
        export(folder / "export", rows)
        site = load(folder / "site.yaml", environ={})
        for night in range(2):
            now = FIRST_NIGHT + timedelta(days=night)
            counting = Counting()
            environment = counting.around(replace(Environment(environ={}), clock=lambda: now))  # noqa: B023 - at once
            calls: Counter[str] = Counter()

            def count(_frame: Any, event: str, _argument: Any, calls: Counter[str] = calls) -> None:
                calls[event] += 1

            before = pa.default_memory_pool().total_bytes_allocated()
            threading.setprofile(count)
            sys.setprofile(count)
            try:
                done = run_locally(site, Options(reason="counted"), environment, jobs=1, now=now)
            finally:
                sys.setprofile(None)
                threading.setprofile(None)
            assert done.summary.sections["products"].listed == rows
            allocated = pa.default_memory_pool().total_bytes_allocated() - before
            found.append(Counter(python=calls["call"], storage=counting.calls.total(), bytes=allocated))
    return found


Growth = list[dict[str, float]]


@pytest.fixture(scope="module")
def growth() -> Growth:
    """Return the costs of a million more rows, run by run."""
    nights(1_000)  # what is done once in a process is no part of it either
    few, many = nights(FEW), nights(MANY)
    return [{kind: (many[n][kind] - few[n][kind]) * PER_MILLION for kind in many[n]} for n in range(2)]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("night", "kind", "most"),
    [
        (0, "python", 60_000),
        (0, "storage", 300),
        (0, "bytes", 1_550_000_000),
        (1, "python", 9_000),
        (1, "storage", 0),
        (1, "bytes", 380_000_000),
    ],
)
def test_the_cost_of_another_million_rows_is_bounded(
    night: int, kind: str, most: int, growth: list[dict[str, float]]
) -> None:
    print(growth)
    assert most / 2 <= growth[night][kind] <= most
