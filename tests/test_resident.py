"""Rows that stay in memory between transform and render: lookups of ranges, and rows that don't fit."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import kernels, limits
from sitemap_etl.stages.resident import Resident
from tests.support.sites import TestSite, pages

LOCS = st.lists(st.text("ab/-0", max_size=6), min_size=1, max_size=30)


def table(locs: list[str]) -> pa.Table:
    return pa.table({"loc": pa.array([f"https://shop.example/{loc}" for loc in locs]), "row": range(len(locs))})


@given(
    st.lists(LOCS, min_size=1, max_size=4), st.text("ab/-0", max_size=4), st.text("ab/-0", max_size=4), st.booleans()
)
def test_rows_of_any_range_are_found_in_memory(batches: list[list[str]], low: str, high: str, compiled: bool) -> None:
    resident = Resident(1 << 20)
    bounds = f"https://shop.example/{low}" if low else "", f"https://shop.example/{high}" if high else None
    with nullcontext() if compiled else kernels.without():
        expected = []
        for batch in batches:
            ends = resident.keep("spool", table(batch))
            locs = table(batch).column("loc").to_pylist()
            assert ends == (min(locs), max(locs))
            expected += [
                (loc, row)
                for row, loc in enumerate(locs)
                if loc >= bounds[0] and (bounds[1] is None or loc < bounds[1])
            ]
        tables = list(resident.rows("spool", *bounds))
        found = [
            row
            for one in tables
            for row in zip(*(one.column(name).to_pylist() for name in ("loc", "row")), strict=True)
        ]
        assert sorted(found) == sorted(expected)
        assert all(one.column("loc").to_pylist() == sorted(one.column("loc").to_pylist()) for one in tables)
        for one in tables:
            one.validate(full=True)
        locs = [loc for one in resident.rows("spool", *bounds, ["loc"]) for loc in one.column("loc").to_pylist()]
        assert sorted(locs) == sorted(loc for loc, _ in expected)
        assert sum(one.num_rows for one in resident.rows("spool", *bounds, ["row"])) == len(expected)
        assert list(resident.rows("another", *bounds)) == []


def test_a_section_is_in_memory_completely_or_not_at_all() -> None:
    resident = Resident(1_000)
    assert resident.admits("first", 600)
    assert not resident.admits("second", 600)
    assert resident.admits("third", 400)
    assert resident.admits("first", 10_000)  # as it was said of its first split
    assert resident.keep("spool", table(["a", "b"])) is not None
    assert resident.keep("spool", table(["c" * 2_000, "d"])) is None
    assert [one.num_rows for one in resident.rows("spool", "", None)] == [2]
    resident.clear()
    assert list(resident.rows("spool", "", None)) == []
    assert resident.keep("spool", table(["a"])) is None


@pytest.mark.parametrize("room", [0, 30_000, 10**9], ids=["files", "some of both", "memory"])
def test_published_files_do_not_depend_on_whether_rows_stay_in_memory(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    def published(folder: str) -> dict[str, bytes]:
        site = TestSite(tmp_path_factory.mktemp(folder), gates={"max_drop": 1, "max_growth": 99})
        rows = [*pages(1_500, lastmod="2026-10-01"), *pages(200, lastmod="2026-10-02")]
        site.section("large", rows, shards={"rows": 400})
        site.section("small", pages(40, lastmod="2026-10-03"))
        site.night(1)
        site.export("large", [*rows[300:], {"loc": "/new", "lastmod": "2026-11-01"}])
        site.night(2)
        return site.public().objects()

    expected = published("as-it-is")
    monkeypatch.setattr(limits, "RESIDENT_BYTES", room)
    assert published("room") == expected


@pytest.mark.parametrize("room", [0, 10**9], ids=["files", "memory"])
def test_a_window_whose_rows_are_all_gone_has_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    monkeypatch.setattr(limits, "WINDOW_ROWS", 1_000)
    monkeypatch.setattr(limits, "RESIDENT_BYTES", room)
    site = TestSite(tmp_path, gates={"max_drop": 1})
    site.section("all", pages(5_000, sales=lambda n: n), priority={"percentile_of": "sales"}, shards={"rows": 500})
    site.night(1)
    site.export("all", pages(1_500, sales=lambda n: n))
    counts = site.night(2).summary.sections["all"]
    assert (counts.listed, counts.removed) == (1_500, 3_500)
    site.keys["gates"] = {}
    site.export("all", pages(300, sales=lambda n: n))
    assert site.night(3).summary.status == "refused"
