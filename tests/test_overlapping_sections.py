"""A section with pages between those of another: what is found, and how much of the other one is read for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from sitemap_etl import limits
from sitemap_etl.stages import window
from sitemap_etl.stages.window import Reader
from sitemap_etl.state.store import State
from tests.support.sites import TestSite, pages

ORIGIN = "https://shop.example"


PAGE = {"loc": "/p", "title": "p"}


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A large section in ten files, and a small one after it that begins before it and ends after it."""
    site = TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 99})
    site.section("large", pages(1_000, lastmod="2026-10-01"), shards={"rows": 100})
    return site.section("small", [{"loc": "/about"}, {"loc": "/z"}])


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Sequence[str] | None]]:
    """The snapshots that were read, and which columns."""
    found: list[tuple[str, Sequence[str] | None]] = []
    snapshot = State.snapshot

    def noted(state: State, key: str, columns: Sequence[str] | None = None) -> pa.Table:
        found.append((key, columns))
        return snapshot(state, key, columns)

    monkeypatch.setattr(State, "snapshot", noted)
    return found


def test_only_locs_are_read_of_a_section_that_lost_no_page(
    site: TestSite, read: list[tuple[str, Sequence[str] | None]]
) -> None:
    site.night(1)
    large = {entry.snapshot for entry in site.manifest().of("large")}
    site.export("small", [{"loc": loc} for loc in ("/about", "/blog", "/p/000350-b", "/z", "/zz")])
    read.clear()
    site.night(2, sections=["small"])
    assert {tuple(columns or ()) for key, columns in read if key in large} == {("loc",)}


def test_only_the_file_that_lost_a_page_is_read_completely(
    site: TestSite, read: list[tuple[str, Sequence[str] | None]]
) -> None:
    site.night(1)
    large = {entry.snapshot for entry in site.manifest().of("large")}
    (own,) = [e for e in site.manifest().of("large") if e.first <= f"{ORIGIN}/p/000350" <= e.last]
    site.export("small", [{"loc": loc} for loc in ("/about", "/p/000350", "/z", "/zz")])
    read.clear()
    site.night(2, sections=["small"])
    assert {key for key, columns in read if key in large and columns is None} <= {own.snapshot}


def test_another_section_is_searched_only_within_the_range_of_the_own_pages(
    site: TestSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    stretches = []
    gather = Reader.gather

    def noted(
        reader: Reader, section: str, low: str, high: str | None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        if columns is not None:
            stretches.append((section, low, high))
        return gather(reader, section, low, high, columns)

    monkeypatch.setattr(Reader, "gather", noted)
    site.export("small", [{"loc": "/p/000400-b"}, {"loc": "/p/000410-b"}])
    site.night(1)
    ((section, low, high),) = set(stretches)
    assert section == "large"
    assert (low, high) == (f"{ORIGIN}/p/000400-b", f"{ORIGIN}/p/000410-b\0")


def test_no_more_rows_of_another_section_are_in_memory_than_of_a_window(
    site: TestSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WINDOW_ROWS", 1_000)
    monkeypatch.setattr(limits, "RESIDENT_BYTES", 0)  # as of a section that is written to files
    monkeypatch.setattr(window, "_EDGE_ROWS", 1_000)
    held = []
    gather = Reader.gather

    def noted(
        reader: Reader, section: str, low: str, high: str | None, columns: Sequence[str] | None = None
    ) -> Iterator[pa.Table]:
        before = pa.total_allocated_bytes()
        for table in gather(reader, section, low, high, columns):
            if columns is not None:
                held.append(pa.total_allocated_bytes() - before)
            yield table

    monkeypatch.setattr(Reader, "gather", noted)
    site.export("large", ({"loc": f"/p/{n:06}-{'x' * 1_000}"} for n in range(20_000)))
    site.night(1)
    assert len(held) >= 10
    assert max(held) < 10_000_000  # all are 20 MB


def test_pages_shared_by_a_small_and_a_large_section_are_found(site: TestSite) -> None:
    site.export("small", [{"loc": loc} for loc in ("/about", "/p/000007", "/p/000500/", "/p/000993", "/z", "/z")])
    done = site.night(1)
    assert done.summary.sections["small"].duplicates == 3
    assert done.summary.sections["small"].listed == 3


def test_pages_that_moved_out_of_a_large_section_keep_their_dates(site: TestSite) -> None:
    rule = {"fingerprint": ["title"]}
    rows = pages(1_000, title=lambda n: f"Page {n}")
    for name in ("large", "small"):
        site.keys["sections"][name]["lastmod"] = rule
    site.export("large", rows)
    site.export("small", [{"loc": "/about", "title": "About"}, {"loc": "/z", "title": "Z"}])
    site.night(1)
    rows[7]["title"] = rows[555]["title"] = "Changed"
    site.export("large", rows)
    site.night(2)
    before = site.public().by_loc()
    gone = (7, 8, 555, 999)
    site.export("large", [row for n, row in enumerate(rows) if n not in gone])
    site.export("small", [{"loc": "/about", "title": "About"}, *(rows[n] for n in gone), {"loc": "/z", "title": "Z"}])
    site.night(3)
    after = site.public().by_loc()
    assert {n: after[f"{ORIGIN}/p/{n:06}"].lastmod for n in gone} == {
        n: before[f"{ORIGIN}/p/{n:06}"].lastmod for n in gone
    }
    assert after[f"{ORIGIN}/p/000007"].lastmod == "2026-11-02T02:00:00Z"


def test_a_page_that_returns_in_another_section_has_its_last_date(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 99})
    rule = {"fingerprint": ["title"], "first_seen": True}
    site.section("a", [{"loc": "/z", "title": "z"}], lastmod=rule)
    site.section("b", [{"loc": "/same", "title": "A"}, {"loc": "/other", "title": "A"}, PAGE], lastmod=rule)
    site.night(1)
    site.export("b", [{"loc": "/same", "title": "B"}, {"loc": "/other", "title": "B"}, PAGE])
    site.night(2)
    site.export("b", [PAGE])
    site.night(5)
    site.export("a", [{"loc": "/z", "title": "z"}, {"loc": "/same", "title": "B"}, {"loc": "/other", "title": "C"}])
    site.night(6)
    found = {entry.loc.rsplit("/", 1)[1]: entry.lastmod for entry in site.public().entries()}
    assert found["same"] == "2026-11-02T02:00:00Z"
    assert found["other"] == "2026-11-06T02:00:00Z"


def test_a_page_that_moved_and_changes_back_is_dated_by_the_change(tmp_path: Path) -> None:
    """Its former section has a record of how it left, but now it is listed."""
    site = TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 99})
    rule = {"fingerprint": ["title"], "first_seen": True}
    site.section("a", [{"loc": "/z", "title": "z"}], lastmod=rule)
    site.section("b", [{"loc": "/moves", "title": "A"}, PAGE], lastmod=rule)
    site.night(1)
    for night, title in ((2, "A"), (3, "B"), (4, "A")):
        site.export("b", [PAGE])
        site.export("a", [{"loc": "/z", "title": "z"}, {"loc": "/moves", "title": title}])
        site.night(night)
    found = {entry.loc.rsplit("/", 1)[1]: entry.lastmod for entry in site.public().entries()}
    assert found["moves"] == "2026-11-04T02:00:00Z"
