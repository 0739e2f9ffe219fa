"""A clock that is behind that of the run before: a little of it is made up for, more is refused."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.limits import CLOCK_SKEW
from sitemap_etl.runs.local import Finished, run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.state.records import Options
from tests.support.sites import FIRST_NIGHT, TestSite, pages

LITTLE, FAR = timedelta(seconds=CLOCK_SKEW - 1), timedelta(seconds=CLOCK_SKEW)
RULE = {"fingerprint": ["title"], "until_changed": "at"}


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A site that was published at FIRST_NIGHT."""
    site = TestSite(tmp_path).section("p", titled(1), lastmod=RULE)
    site.night(1)
    return site


def titled(edition: int) -> list[dict[str, str]]:
    return pages(30, title=lambda n: f"{n} {edition if n == 7 else 1}", at="2026-10-01")


def run(site: TestSite, behind: timedelta) -> Finished:
    return run_locally(site.load(), Options(), site.environment, jobs=1, now=FIRST_NIGHT - behind)


def test_a_clock_that_is_a_little_behind_counts_as_that_of_the_set_in_place(site: TestSite) -> None:
    site.export("p", titled(2))
    before = site.manifest()
    done = run(site, LITTLE)
    assert done.summary.status == "published"
    assert done.summary.now == before.now
    assert done.summary.run_id is not None
    assert done.summary.run_id > before.run_id
    assert site.public().by_loc()[f"{site.origin}/p/000007"].lastmod == before.now


def test_a_clock_that_is_far_behind_is_refused_with_both_times_before_anything_is_written(site: TestSite) -> None:
    site.export("p", titled(2))
    before = {path: path.read_bytes() for path in site.folder.rglob("*") if path.is_file()}
    with pytest.raises(Refused) as refused:
        run(site, FAR)
    for shown in ("2026-11-01T01:50:00Z", "2026-11-01T02:00:00Z", site.manifest().run_id, "--now"):
        assert shown in str(refused.value)
    assert {path: path.read_bytes() for path in site.folder.rglob("*") if path.is_file()} == before


def test_after_a_rollback_the_time_is_that_of_the_rollback(site: TestSite) -> None:
    site.export("p", titled(2))
    site.night(2)
    later = FIRST_NIGHT + timedelta(days=3)
    roll_back(site.load(), None, site.environment, reason=None, now=later)
    with pytest.raises(Refused, match="the published set is from 2026-11-04T02:00:00Z"):
        site.night(3)
    assert site.night(5).summary.status == "published"


def test_a_set_of_a_clock_that_was_fast_gets_the_right_time_as_the_message_says(site: TestSite) -> None:
    site.export("p", titled(2))
    site.night(4_000)
    with pytest.raises(Refused) as refused:
        site.night(2)
    fast = site.manifest()
    assert f"rollback SITE.yaml {fast.run_id}" in str(refused.value)
    now = FIRST_NIGHT + timedelta(days=1)
    roll_back(site.load(), fast.run_id, site.environment, reason="the clock was fast", now=now)
    assert site.night(3).summary.status == "unchanged"
