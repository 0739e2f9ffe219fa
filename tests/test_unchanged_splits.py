"""Unchanged splits: raw rows of an earlier run with the same rules are not transformed, and its report is repeated."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.explain.explain import explain
from sitemap_etl.publish.publish import publish
from sitemap_etl.publish.summary import finish_run
from sitemap_etl.runs import tasks
from sitemap_etl.runs.build import build
from sitemap_etl.runs.local import Finished
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.run import Run, open_run
from sitemap_etl.state.lease import release_lease
from sitemap_etl.state.records import Options
from tests.support.sites import FIRST_NIGHT, TestSite, pages

ORIGIN = "https://shop.example"
OPEN = {"max_drop": 1, "max_growth": 1_000, "max_rejected": 1}
Rows = list[dict[str, Any]]


def blemished(first: int) -> Rows:
    """Return rows of a file: one each is rejected, excluded, noted for its lastmod, and a duplicate."""
    rows = pages(50, first, lastmod="2026-09-01", exclude=None)
    rows[3] |= {"loc": "https://other.example/"}
    rows[4] |= {"exclude": "sold out"}
    rows[5] |= {"lastmod": "someday"}
    rows[6] |= {"loc": rows[7]["loc"]}
    rows[8] |= {"loc": rows[8]["loc"].removeprefix("/")}
    return rows


class Export(TestSite):
    """A section of three Parquet files: three splits."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, gates=OPEN, urls={"respect_robots": False}, airflow={"small": 0})
        self.keys["sections"]["goods"] = {"from": {"parquet": "./export"}, "shards": {"rows": 20}}
        (folder / "export").mkdir()
        for at in range(3):
            self.put(at, blemished(at * 50))

    def start(self, number: int, **options: Any) -> Run:
        environment = self.at(FIRST_NIGHT + timedelta(days=number - 1))
        return start_run(self.load(), Options(**options), environment, split_rows=50)

    def night(self, number: int, **options: Any) -> Finished:
        run = self.start(number, **options)
        build(run, 1, {}, renew=lambda: None)
        published = publish(run)
        summary = finish_run(run, published)
        release_lease(run.work, run.run_id)
        return Finished(run, published, summary)

    def put(self, at: int, rows: Rows) -> None:
        schema = pa.schema([(name, pa.string()) for name in ("loc", "lastmod", "exclude")])
        pq.write_table(pa.Table.from_pylist(rows, schema), self.folder / "export" / f"{at}.parquet", compression="none")


@pytest.fixture
def site(tmp_path: Path) -> Export:
    return Export(tmp_path)


def unchanged(run: Run) -> list[bool]:
    """Return whether each split was unchanged when it was first read."""
    return [run.transformed(n).unchanged for n in range(len(run.plan.units))]


def test_unchanged_splits_store_only_a_task_result(site: Export) -> None:
    site.night(1)
    run = site.start(2)
    build(run, 1, {}, renew=lambda: None)
    assert unchanged(run) == [True] * 3
    assert {stat.key for stat in run.staging.list("transform/")} == {f"transform/{n}.json" for n in range(3)}


def test_an_unchanged_section_reports_its_earlier_counts_reasons_examples_and_gates(site: Export) -> None:
    first = site.night(1)
    for number in (2, 3):
        night = site.night(number)
        assert (night.summary.status, unchanged(night.run)) == ("unchanged", [True] * 3)
        counts, before = night.summary.sections["goods"], first.summary.sections["goods"]
        assert (counts.extracted, counts.carried, counts.rejected, counts.excluded, counts.duplicates) == (
            150,
            0,
            3,
            3,
            3,
        )
        assert counts.listed == before.listed
        assert night.summary.reasons == first.summary.reasons
        shown = [(gate.name, gate.status, gate.value) for gate in night.summary.gates if "rejected" in gate.name]
        assert shown == [
            (gate.name, gate.status, gate.value) for gate in first.summary.gates if "rejected" in gate.name
        ]
        for loc, answer in (("https://other.example/", "rejected"), (f"{ORIGIN}/p/000004", "excluded")):
            (found,) = explain(site.load(), [loc], site.environment)
            assert {(row.answer, row.run_id) for row in found.rows.shown} == {(answer, first.run.run_id)}
    full = site.night(4, full=True).summary
    assert (full.status, full.reasons) == ("unchanged", first.summary.reasons)
    assert full.sections["goods"] == counts


def test_one_changed_row_transforms_the_other_splits_too(site: Export) -> None:
    site.night(1)
    site.night(2)
    rows = blemished(50)
    rows[9]["lastmod"] = "2026-09-09"
    site.put(1, rows)
    night = site.night(3)
    assert (night.summary.status, unchanged(night.run)) == ("published", [True, False, True])
    counts = night.summary.sections["goods"]
    assert (counts.extracted, counts.rejected, counts.excluded, counts.duplicates, counts.changed) == (150, 3, 3, 3, 1)
    assert site.night(4, full=True).summary.status == "unchanged"


def test_a_changed_row_that_is_not_listed_is_counted_and_publishes_nothing(site: Export) -> None:
    site.night(1)
    rows = blemished(50)
    rows[9]["exclude"] = None
    rows[4]["exclude"] = "gone"
    site.put(1, rows)
    night = site.night(2)
    assert (night.summary.status, unchanged(night.run)) == ("unchanged", [True, False, True])
    excluded = night.summary.reasons["goods"]["excluded"].counts
    assert excluded == {"sold out": 2, "gone": 1}
    for number, again in ((3, False), (4, True)):
        night = site.night(number)
        assert unchanged(night.run) == [again] * 3
        assert night.summary.reasons["goods"]["excluded"].counts == excluded


def test_a_section_without_rows_is_unchanged_until_rows_appear(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates={**OPEN, "min_urls": 0}).section("goods", [{"loc": "/a"}]).section("none", [])
    (tmp_path / "none.csv").write_text("loc\n")
    site.night(1)
    assert unchanged(site.night(2).run) == [True, True]
    (tmp_path / "none.csv").write_text("loc\n/b\n")
    assert site.night(3).summary.sections["none"].listed == 1


def test_a_section_stays_unchanged_if_its_first_and_last_page_are_duplicates(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN)
    site.section("first", [{"loc": "/p/000000"}, {"loc": "/p/000029"}]).section("second", pages(30))
    first = site.night(1)
    night = site.night(2)
    assert unchanged(night.run) == [True, True]
    assert night.summary.quiet == dict.fromkeys(("first", "second"), first.run.run_id)
    assert night.summary.sections["second"].duplicates == 2
    site.export("first", [{"loc": "/p/000029"}])
    night = site.night(3)
    assert (unchanged(night.run), night.summary.sections["second"].duplicates) == ([False, True], 1)
    assert f"{ORIGIN}/p/000000" in site.public().locs()
    assert site.night(4, full=True).summary.status == "unchanged"


def test_a_section_with_unchanged_splits_can_take_a_page_of_an_unchanged_one(site: Export) -> None:
    """Only the digests of two splits of the section that lists it now are known."""
    site.section("second", [*pages(5, 40), *pages(5, 200)])
    first = site.night(1)
    assert first.summary.sections["second"].duplicates == 5
    rows = blemished(50)
    rows[9]["loc"] = "/p/000202"
    site.put(1, rows)
    night = site.night(2)
    assert unchanged(night.run) == [True, False, True, True]
    assert night.summary.sections["second"].duplicates == 6
    locs = site.public().locs()
    assert len(locs) == len(set(locs))
    assert site.night(3, full=True).summary.status == "unchanged"


def test_a_section_stays_unchanged_if_only_dates_of_an_earlier_section_differ(site: Export) -> None:
    site.section("second", [*pages(5, 40), *pages(5, 200)])
    first = site.night(1)
    rows = blemished(50)
    rows[9]["lastmod"] = "2026-09-09"
    site.put(1, rows)
    night = site.night(2)
    assert unchanged(night.run) == [True, False, True, True]
    assert night.summary.quiet == {"second": first.run.run_id}
    assert site.night(3, full=True).summary.status == "unchanged"


def test_rows_mostly_on_another_site_are_a_warning_on_every_run(tmp_path: Path) -> None:
    rows = [{"loc": f"https://other.example/{n}"} for n in range(30)]
    site = TestSite(tmp_path, gates=OPEN).section("goods", [*rows, *pages(10)])
    for number in (1, 2, 3):
        night = site.night(number)
        assert any("30 of 40 rows are on https://other.example" in text for text in night.summary.warnings)
        assert unchanged(night.run) == [False]


def test_a_future_date_is_evaluated_by_every_run(site: Export) -> None:
    rows = blemished(50)
    rows[9]["lastmod"] = "2026-11-03T12:00:00Z"
    site.put(1, rows)
    site.night(1)
    assert unchanged(site.night(2).run) == [False] * 3
    night = site.night(4)
    assert night.summary.sections["goods"].changed == 1
    assert unchanged(site.night(5).run) == [False] * 3  # after a run with changes
    assert unchanged(site.night(6).run) == [True] * 3


def _excluded(site: Export) -> None:
    site.keys["urls"]["exclude"] = ["/p/000012"]


def _dated(site: Export) -> None:
    site.keys["sections"]["goods"]["lastmod"] = "none"


@pytest.mark.parametrize("edit", [_excluded, _dated])
def test_changed_rules_are_applied_to_unchanged_rows(site: Export, edit: Callable[[Export], None]) -> None:
    site.night(1)
    site.night(2)
    edit(site)
    night = site.night(3)
    assert (night.summary.status, unchanged(night.run)) == ("published", [False] * 3)
    assert site.night(4, full=True).summary.status == "unchanged"


def test_after_a_rollback_unchanged_rows_are_published_again(site: Export) -> None:
    first = site.night(1)
    rows = blemished(50)
    rows[9]["lastmod"] = "2026-09-09"
    site.put(1, rows)
    site.night(2)
    assert unchanged(site.night(3).run) == [False] * 3
    roll_back(site.load(), first.run.run_id, site.at(FIRST_NIGHT + timedelta(days=2, hours=1)), reason=None)
    night = site.night(4)
    assert (night.summary.status, unchanged(night.run)) == ("published", [False] * 3)
    assert site.public().by_loc()[f"{ORIGIN}/p/000059"].lastmod == "2026-09-09"
    assert site.night(5, full=True).summary.status == "unchanged"


def test_a_run_of_other_sections_keeps_the_recorded_inputs_of_a_section(site: Export) -> None:
    site.section("notes", [{"loc": "/z"}])
    first = site.night(1)
    site.export("notes", [{"loc": "/z"}, {"loc": "/y"}])
    site.night(2, sections=("notes",))
    night = site.night(3, sections=("goods",))
    assert (unchanged(night.run), night.summary.reasons["goods"]) == ([True] * 3, first.summary.reasons["goods"])


# --- tasks of a scheduler ---------------------------------------------------------------------------------------------


@pytest.fixture
def started(site: Export) -> Callable[[], str]:
    """After the first run, extract a second one, in which one row of the second file has changed."""
    site.night(1)
    rows = blemished(50)
    rows[9]["lastmod"] = "2026-09-09"
    site.put(1, rows)

    def start() -> str:
        run = site.start(2)
        for n in range(3):
            tasks.extract(run.staging.url, [n, n + 1], run.environment)
        return run.staging.url

    return start


def test_unchanged_splits_of_a_changed_section_are_tasks_of_their_own(site: Export, started: Callable[[], str]) -> None:
    key, environment = started(), site.environment
    bundles = tasks.decide(key, environment)
    assert bundles == tasks.decide(key, environment) == [[0, 1], [1, 2]]
    assert [tasks.retransform(key, bundle, environment)["inventory"] for bundle in bundles] == [48, 48]
    for bundle in tasks.partition(key, environment):
        tasks.render(key, bundle, environment)
    assert tasks.publish(key, environment)["status"] == "published"
    assert site.night(3, full=True).summary.status == "unchanged"


def test_windows_are_planned_only_after_all_splits_of_a_changed_section_were_transformed(
    site: Export, started: Callable[[], str]
) -> None:
    key, environment = started(), site.environment
    first, _ = tasks.decide(key, environment)
    tasks.retransform(key, first, environment)
    with pytest.raises(Refused, match=r"again/2\.json is missing"):
        tasks.partition(key, environment)


def test_rows_that_change_between_two_reads_of_a_file_end_the_run(site: Export, started: Callable[[], str]) -> None:
    """Neither size nor time of the file shows the change."""
    key, environment = started(), site.environment
    first, second = tasks.decide(key, environment)
    tasks.retransform(key, first, environment)
    path = site.folder / "export" / "2.parquet"
    before = path.stat()
    rows = blemished(100)
    rows[9]["loc"] = "/p/000999"
    site.put(2, rows)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    with pytest.raises(Refused, match=r"goods: .*2\.parquet.* was changed while it was read"):
        tasks.retransform(key, second, environment)
    run = open_run(key, environment)
    release_lease(run.work, run.run_id)
    assert site.night(3).summary.status == "published"
    assert site.night(4, full=True).summary.status == "unchanged"
