"""Runs that read no row of a section: its mirror is not opened, unless there is another reason."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.explain.explain import explain
from sitemap_etl.publish.proposal import propose
from sitemap_etl.runs import tasks
from sitemap_etl.runs.local import Finished, copy_staging
from sitemap_etl.stages.run import open_run
from sitemap_etl.state import layout
from sitemap_etl.state.records import Counts, Options, Transformed
from sitemap_etl.storage import open_storage
from tests.support.catalog import SELECT, SHOP, Catalog, of_pages
from tests.support.sites import FIRST_NIGHT


@pytest.fixture
def site(tmp_path: Path) -> Catalog:
    return of_pages(tmp_path)


def shelves(site: Catalog) -> None:
    """Return pages, of which one is excluded, one rejected, and one a duplicate."""
    site.sql("UPDATE pages SET exclude = 'sold out' WHERE id = 7")
    site.sql("UPDATE pages SET loc = 'ftp://elsewhere' WHERE id = 8")
    site.sql("UPDATE pages SET loc = '/pages/010' WHERE id = 9")
    site.keys["gates"] = {"max_drop": 1, "max_growth": 10}


def before_them(site: Catalog) -> None:
    """Return a section that lists two of the pages first."""
    site.section("first", [{"loc": "/pages/003"}, {"loc": "/pages/004"}])
    site.keys["sections"] = dict(reversed(site.keys["sections"].items()))


def untouched(night: Finished) -> tuple[str, ...]:
    """Return the sections to whose rows no rule was applied."""
    merging = night.run.merging()
    assert all(
        night.run.receipt(layout.merge(n), Transformed) is None for n in range(merging.needed, len(merging.units))
    )
    return merging.untouched


def test_the_mirror_is_not_opened_if_nothing_was_read_and_no_rule_changed(site: Catalog) -> None:
    shelves(site)
    first = site.night(1)
    for number in (2, 3):
        night = site.night(number)
        assert (untouched(night), night.summary.status) == (("pages",), "unchanged")
        assert night.summary.sections["pages"] == Counts(carried=100, listed=97, duplicates=1, excluded=1, rejected=1)
        assert night.summary.reasons == first.summary.reasons
        assert site.mirror().read_at.startswith(f"2026-11-0{number}T02:00:00")
        for loc, answer in (("/pages/007", "excluded"), ("/pages/010", "duplicate")):
            (found,) = explain(site.load(), [SHOP + loc], site.environment)
            assert [(row.answer, row.run_id) for row in found.rows.shown] == [(answer, first.run.run_id)]
    site.sql("UPDATE pages SET lastmod = '2026-11-03', touched = '2026-11-03T12:00:00' WHERE id = 20")
    night = site.night(4)
    assert (untouched(night), night.summary.sections["pages"].changed) == ((), 1)
    assert untouched(site.night(5)) == ("pages",)
    anew = site.night(6, full=True)
    assert (untouched(anew), anew.summary.status) == ((), "unchanged")


def test_rows_of_the_mirror_are_transformed_again_if_their_result_is_lost(
    site: Catalog,
) -> None:
    shelves(site)
    first = site.night(1)
    site.state().storage.delete(layout.summary(first.run.run_id))
    night = site.night(2)
    assert "pages" not in night.summary.quiet
    assert (night.summary.status, night.summary.reasons) == ("unchanged", first.summary.reasons)
    assert untouched(site.night(3)) == ("pages",)


OTHERWISE: dict[str, Callable[[Catalog], object]] = {
    "an exclude": lambda site: site.keys.update(urls={"exclude": ["/pages/03"]}),
    "a rule of the section": lambda site: site.keys["sections"]["pages"].update(lastmod="none"),
    "another SELECT": lambda site: site.read("pages", SELECT.replace("lastmod,", "'2026-10-05' AS lastmod,")),
}


@pytest.mark.parametrize("edit", OTHERWISE)
def test_a_changed_rule_is_applied_to_rows_of_the_mirror(site: Catalog, edit: str) -> None:
    shelves(site)
    site.night(1)
    OTHERWISE[edit](site)
    night = site.night(2)
    assert (untouched(night), night.summary.status) == ((), "published")
    assert site.night(3, full=True).summary.status == "unchanged"


@pytest.mark.parametrize(
    "rule",
    [{"where": "lastmod < current_date::VARCHAR"}, {"transform": "tests.model.hooks:shouted"}],
    ids=["where", "hook"],
)
def test_rules_that_depend_on_the_time_are_applied_by_every_run(site: Catalog, rule: dict[str, Any]) -> None:
    site.read("pages", SELECT.replace("exclude", "loc AS title"), **rule)
    site.night(1)
    assert untouched(site.night(2)) == ()


def test_a_future_date_is_evaluated_by_every_incremental_run(site: Catalog) -> None:
    site.sql("UPDATE pages SET lastmod = '2026-11-03T12:00:00Z' WHERE id = 7")
    site.night(1)
    assert untouched(site.night(2)) == ()
    assert site.night(4).summary.sections["pages"].changed == 1
    assert untouched(site.night(5)) == ("pages",)


def test_rows_dropped_while_reading_are_reported_once(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, lastmod, gone FROM pages", source={"deleted": "gone"})
    site.night(1)
    site.sql("UPDATE pages SET gone = 1, touched = '2026-11-01T12:00:00' WHERE id = 7")
    assert site.night(2).summary.sections["pages"].excluded == 1
    night = site.night(3)
    assert (untouched(night), night.summary.sections["pages"].excluded) == ((), 0)
    assert untouched(site.night(4)) == ("pages",)


def test_a_page_that_another_section_drops_is_listed_though_nothing_was_read(site: Catalog) -> None:
    before_them(site)
    site.night(1)
    assert untouched(site.night(2)) == ("pages",)
    site.export("first", [{"loc": "/pages/003"}])
    night = site.night(3)
    assert (night.summary.quiet, night.summary.sections["pages"].listed) == ({}, 99)
    assert "/pages/004" in site.locs()
    assert site.night(4, full=True).summary.status == "unchanged"


def test_a_dry_run_of_an_unchanged_mirror_is_published_as_shown_even_from_a_bucket(site: Catalog) -> None:
    before_them(site)
    site.night(1)
    site.export("first", [{"loc": "/pages/003"}])
    dry = site.night(2, dry_run=True)
    copy = open_storage(site.folder / "copy")
    copy_staging(dry.run.staging, copy)
    run = open_run(dry.run.staging.url, site.at(FIRST_NIGHT + timedelta(days=1)), staging=copy)
    assert propose(run).counts == dry.summary.sections
    assert (dry.run.merging().untouched, dry.summary.sections["pages"].listed) == (("pages",), 99)


def test_scheduler_tasks_open_a_mirror_only_if_it_must_be_merged(site: Catalog) -> None:
    site.keys["airflow"] = {"small": 0}
    before_them(site)
    site.night(1)
    for number, status in ((2, "unchanged"), (3, "published")):
        environment = site.at(FIRST_NIGHT + timedelta(days=number - 1))
        started = tasks.start(site.load(), Options(), environment, owner=f"dag/{number}")
        for bundle in started.bundles:
            tasks.extract(started.key, bundle, environment)
        assert tasks.buckets(started.key, environment) == []
        for bundle in tasks.decide(started.key, environment):
            tasks.retransform(started.key, bundle, environment)
        for bundle in tasks.partition(started.key, environment):
            tasks.render(started.key, bundle, environment)
        assert tasks.publish(started.key, environment)["status"] == status
        site.export("first", [{"loc": "/pages/003"}])
    assert "/pages/004" in site.locs()
    assert site.night(4, full=True).summary.status == "unchanged"
