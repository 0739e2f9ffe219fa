"""States of an earlier version are continued: nothing is written without a change, and one file for one changed row."""

from __future__ import annotations

from pathlib import Path

import pytest

from sitemap_etl.explain.explain import explain
from sitemap_etl.runs.history import published_sets
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.runs.verify import verify_state
from tests.support.saved import MAKERS, PUBLIC, SavedSite, saved
from tests.support.sites import FIRST_NIGHT

CHANGED = "UPDATE goods SET title = 'Other', lastmod = '2026-11-08', touched = '2026-11-11' WHERE id = 19"
ADDRESS = "https://shop.example/goods/019"


def written(site: SavedSite, night: int) -> tuple[str, set[str]]:
    """Run a night. Return its status and the keys of the sitemaps that it wrote or deleted."""
    site.store.written.clear()
    status = site.night(night).summary.status
    keys = {url.removeprefix(f"{PUBLIC}/") for url in site.store.written if PUBLIC in url}
    return status, {key for key in keys if key.startswith("sitemap-")}


@pytest.mark.parametrize("name", MAKERS)
def test_a_saved_state_of_an_earlier_version_is_continued(tmp_path: Path, name: str) -> None:
    site = saved(tmp_path, name)
    if name == "interrupted":
        copy = "sitemap-goods-00002.xml.gz"  # of a file, for the time in which two files exchange pages
        assert copy in site.public().objects()
        assert [written(site, night)[0] for night in (6, 8)] == ["published", "published"]
        assert copy not in site.public().objects()
    locs, dates = site.public().locs(), site.public().by_loc()
    before = site.public().contents()
    assert written(site, 10) == ("unchanged", set())
    assert site.public().contents() == before

    site.sql(CHANGED)
    status, keys = written(site, 11)
    assert (status, len(keys)) == ("published", 1)
    after = site.public().by_loc()
    assert {loc for loc in after if after[loc].lastmod != dates[loc].lastmod} == {ADDRESS}

    (answer,) = explain(site.load(), [ADDRESS], site.at(FIRST_NIGHT))
    assert answer.listed is not None
    earlier = published_sets(site.load(), site.environment)[1].run_id
    back = roll_back(site.load(), earlier, site.at(FIRST_NIGHT.replace(day=12)), reason="the former title")
    assert back is not None
    assert back.summary.status == "published"
    assert site.public().locs() == locs
    assert site.public().by_loc()[ADDRESS].lastmod == dates[ADDRESS].lastmod
    assert verify_state(site.load(), site.environment).sound
