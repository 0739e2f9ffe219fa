"""Each way in which all lastmods of a site could become wrong, and that it is prevented."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.runs.rollback import roll_back
from tests.support.sites import FIRST_NIGHT, TestSite, pages

PRINT = {"fingerprint": ["title"]}
OPEN = {"max_drop": 1, "max_growth": 99, "max_rejected": 1, "min_urls": 0}
SECOND, THIRD = "2026-11-02T02:00:00Z", "2026-11-03T02:00:00Z"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, gates=OPEN)


def titled(count: int = 40, start: int = 0, **changed: str) -> list[dict[str, Any]]:
    """Pages with a title; `changed` gives other titles by number, as p7="new"."""
    return pages(count, start, title=lambda n: changed.get(f"p{n}", f"T{n}"))


def dates(site: TestSite) -> dict[str | None, int]:
    """Return lastmod → how many URLs have it."""
    found: dict[str | None, int] = {}
    for entry in site.public().entries():
        found[entry.lastmod] = found.get(entry.lastmod, 0) + 1
    return found


@pytest.mark.parametrize("first_seen", [False, True])
def test_a_first_release_dates_no_page(site: TestSite, first_seen: bool) -> None:
    site.section("a", titled(), lastmod={**PRINT, "first_seen": first_seen})
    site.night(1)
    assert dates(site) == {None: 40}


def test_a_first_release_has_the_dates_of_the_source(site: TestSite) -> None:
    rows = [{**row, "published": "2026-03-04"} for row in titled()]
    site.section("a", rows, lastmod={**PRINT, "until_changed": "published"})
    site.night(1)
    assert dates(site) == {"2026-03-04": 40}


def test_a_changed_page_gets_the_time_of_the_run_and_keeps_it(site: TestSite) -> None:
    site.section("a", titled(), lastmod=PRINT)
    site.night(1)
    site.export("a", titled(p7="new"))
    site.night(2)
    assert dates(site) == {None: 39, SECOND: 1}
    for night in range(3, 8):
        assert site.night(night).summary.status == "unchanged"
    assert site.public().by_loc()["https://shop.example/p/000007"].lastmod == SECOND


def test_new_pages_are_dated_only_if_configured(site: TestSite) -> None:
    site.section("a", titled(), lastmod={**PRINT, "first_seen": True})
    site.night(1)
    site.export("a", titled(45))
    site.night(2)
    assert dates(site) == {None: 40, SECOND: 5}


def test_changed_fingerprint_columns_date_no_page_and_are_reported(site: TestSite) -> None:
    rows = [{**row, "price": "1"} for row in titled()]
    site.section("a", rows, lastmod=PRINT)
    site.night(1)
    site.section("a", lastmod={"fingerprint": ["title", "price"]})
    done = site.night(2)
    assert dates(site) == {None: 40}
    assert any("fingerprints reset" in warning for warning in done.summary.warnings)
    assert done.summary.sections["a"].changed == 0
    site.export("a", [{**row, "price": "2" if row["loc"] == "/p/000003" else "1"} for row in titled()])
    site.night(3)
    assert dates(site) == {None: 39, THIRD: 1}


def test_switching_to_fingerprints_keeps_the_dates_of_the_column(site: TestSite) -> None:
    rows = [{**row, "lastmod": "2026-05-06"} for row in titled()]
    site.section("a", rows)
    site.night(1)
    site.section("a", lastmod=PRINT)
    site.night(2)
    assert dates(site) == {"2026-05-06": 40}


def test_after_a_lost_state_no_page_is_dated(site: TestSite) -> None:
    site.section("a", titled(), lastmod={**PRINT, "first_seen": True})
    site.night(1)
    shutil.rmtree(site.folder / "work")
    done = site.night(2, adopt=True)
    assert dates(site) == {None: 40}
    assert site.state().current().manifest is not None
    assert any("there was no state, and 2 existing files were replaced" in w for w in done.summary.warnings)


def test_a_rollback_and_the_run_after_it_keep_every_date(site: TestSite) -> None:
    site.section("a", titled(), lastmod=PRINT)
    site.night(1)
    site.export("a", titled(**{f"p{n}": "new" for n in range(30)}))
    site.night(2)
    expected = dates(site)
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=1, hours=8)), reason="test")
    assert dates(site) == {None: 40}
    site.night(3)
    assert dates(site) == expected == {None: 10, SECOND: 30}


@pytest.mark.parametrize("between", [{}, {"p7": "other"}], ids=["as it is published", "as it never was"])
def test_releases_reverted_by_a_rollback_count_until_the_section_is_read(
    site: TestSite, between: dict[str, str]
) -> None:
    """A page that has changed since then has the date of the run that finds it, not its former one."""
    site.section("a", titled(), lastmod=PRINT)
    site.night(1)
    site.export("a", titled(p7="new"))
    site.night(2)
    page = "https://shop.example/p/000007"
    assert site.public().by_loc()[page].lastmod == SECOND
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=1, hours=8)), reason="test")
    assert site.manifest().sections["a"].undone is not None
    site.export("a", titled(**between))
    site.night(3)
    assert site.public().by_loc()[page].lastmod == (THIRD if between else None)
    assert site.manifest().sections["a"].undone is None
    site.export("a", titled(p7="new"))
    site.night(4)
    assert site.public().by_loc()[page].lastmod == "2026-11-04T02:00:00Z"


def test_after_two_rollbacks_the_last_read_rows_count(site: TestSite) -> None:
    site.section("a", titled(), lastmod=PRINT)
    first = site.night(1)
    site.export("a", titled(p7="new", p8="new"))
    second = site.night(2)
    for hours, to in ((4, first), (8, second)):
        roll_back(site.load(), to.run.run_id, site.at(FIRST_NIGHT + timedelta(days=1, hours=hours)), reason="test")
    site.export("a", titled(p7="new"))
    site.night(3)
    found = site.public().by_loc()
    assert found["https://shop.example/p/000007"].lastmod == SECOND
    assert found["https://shop.example/p/000008"].lastmod == THIRD, "it is as it was two nights ago, and has changed"


def test_a_page_restored_by_a_rollback_is_dated_when_it_changes(site: TestSite) -> None:
    site.section("a", titled(), lastmod=PRINT)
    first = site.night(1)
    site.export("a", titled(p7="new"))
    site.night(2)
    site.export("a", [row for row in titled() if not row["loc"].endswith("7")])
    site.night(3)
    roll_back(site.load(), first.run.run_id, site.at(FIRST_NIGHT + timedelta(days=3)), reason="test")
    site.export("a", titled())
    site.night(5)
    site.export("a", titled(p7="new"))
    site.night(6)
    assert site.public().by_loc()["https://shop.example/p/000007"].lastmod == "2026-11-06T02:00:00Z"


@pytest.mark.parametrize("first_seen", [False, True])
def test_pages_that_move_between_sections_keep_their_dates(site: TestSite, first_seen: bool) -> None:
    rule = {**PRINT, "first_seen": first_seen}
    site.section("a", titled(), lastmod=rule).section("b", titled(5, start=100), lastmod=rule)
    site.night(1)
    site.export("a", titled(**{f"p{n}": "new" for n in range(20)}))
    site.night(2)
    assert dates(site) == {None: 25, SECOND: 20}
    moved = titled(**{f"p{n}": "new" for n in range(20)})
    site.export("a", moved[35:])
    site.export("b", moved[:35] + titled(5, start=100))
    done = site.night(3)
    assert dates(site) == {None: 25, SECOND: 20}
    counts = done.summary.sections
    assert [(counts[name].added, counts[name].removed, counts[name].changed) for name in "ab"] == [(0, 0, 0)] * 2


def test_a_renamed_section_keeps_its_dates(site: TestSite) -> None:
    rule = {**PRINT, "first_seen": True}
    site.section("a", titled(), lastmod=rule)
    site.night(1)
    site.export("a", titled(p1="new"))
    site.night(2)
    del site.keys["sections"]["a"]
    site.section("b", titled(p1="new"), lastmod=rule)
    site.night(3)
    assert dates(site) == {None: 39, SECOND: 1}
    assert {entry.file for entry in site.public().entries()} == {"sitemap-b-00001.xml.gz"}


@pytest.mark.parametrize("first_seen", [False, True])
def test_pages_that_return_unchanged_keep_their_dates(site: TestSite, first_seen: bool) -> None:
    site.section("a", titled(), lastmod={**PRINT, "first_seen": first_seen})
    site.night(1)
    site.export("a", titled(p1="new"))
    site.night(2)
    site.export("a", titled(p1="new")[5:])
    site.night(3)
    site.export("a", titled(p1="new"))
    site.night(4)
    assert dates(site) == {None: 39, SECOND: 1}


def test_a_page_that_returns_changed_is_dated(site: TestSite) -> None:
    site.section("a", titled(), lastmod=PRINT)
    site.night(1)
    site.export("a", titled()[5:])
    site.night(2)
    site.export("a", titled(p1="new"))
    site.night(3)
    assert dates(site) == {None: 39, THIRD: 1}


def test_a_page_with_an_invalid_date_is_listed_without_a_date(site: TestSite) -> None:
    rows = [
        {"loc": f"/{n}", "lastmod": text}
        for n, text in enumerate(["2929-01-01", "0000-00-00", "-001-11-30", "2026-02-30", "1970-01-01", "2026-10-01"])
    ]
    site.section("a", rows)
    done = site.night(1)
    assert dates(site) == {None: 5, "2026-10-01": 1}
    notes = done.summary.reasons["a"]["notes"]
    assert notes.total == 5


def test_equal_dates_of_all_pages_are_a_warning(site: TestSite) -> None:
    site.section("a", pages(100, lastmod="2026-10-31T23:00:00Z"))
    done = site.night(1)
    assert any("100 % of 100 new lastmods are 2026-10-31T23:00:00Z" in warning for warning in done.summary.warnings)


def test_in_a_section_with_dates_only_a_changed_date_is_a_change(site: TestSite) -> None:
    rows = pages(50, lastmod="2026-10-01", images=lambda n: f'["https://shop.example/i/{n}.jpg"]')
    site.section("a", rows)
    site.night(1)
    rows[3]["images"] = '["https://shop.example/i/other.jpg"]'
    site.export("a", rows)
    done = site.night(2)
    assert done.summary.sections["a"].changed == 0
    assert done.summary.status == "published"
    assert site.public().by_loc()["https://shop.example/p/000003"].images == ["https://shop.example/i/other.jpg"]


def test_in_a_section_without_dates_a_changed_image_is_a_change(site: TestSite) -> None:
    rows = pages(50, images=lambda n: f'["https://shop.example/i/{n}.jpg"]')
    site.section("a", rows)
    site.night(1)
    rows[3]["images"] = '["https://shop.example/i/other.jpg"]'
    site.export("a", rows)
    assert site.night(2).summary.sections["a"].changed == 1


def test_recently_removed_pages_lose_their_fingerprints_when_the_rule_changes(tmp_path: Path) -> None:
    """A page that returns is compared with its former content only if the columns are the same."""
    site = TestSite(tmp_path, gates={"max_drop": 1})
    site.section("p", pages(30, title="t", text="x"), lastmod={"fingerprint": ["title"]})
    site.night(1)
    site.export("p", pages(25, title="t", text="x"))
    site.night(2)
    kept = []
    for columns in (["title"], ["title", "text"]):
        site.section("p", lastmod={"fingerprint": columns})
        site.night(3 + len(kept))
        key = site.manifest().sections["p"].removed_lately
        assert key is not None
        rows = site.state().snapshot(key)
        kept.append((rows.num_rows, rows.column("fingerprint").null_count))
    assert kept == [(5, 0), (5, 5)]
