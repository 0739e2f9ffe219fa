"""The stages as tasks of a scheduler: any of them may be killed, and is then tried again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from sitemap_etl.config import Site, load
from sitemap_etl.errors import Refused
from sitemap_etl.runs import tasks
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options

OUTSIDE = Environment(environ={})


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "pages.csv").write_text("loc,lastmod\n/a,2026-01-01\n/b,2026-01-01\n")
    (tmp_path / "sites").mkdir()
    file = tmp_path / "sites" / "shop.yaml"
    given: dict[str, Any] = {
        "site": "http://127.0.0.1:1",
        "publish": "../public",
        "sections": {"pages": {"from": {"csv": "../pages.csv"}}},
    }
    file.write_text(yaml.safe_dump(given))
    return load(file, environ={})


def until_rendered(site: Site, owner: str) -> dict[str, Any]:
    """A run up to publish; gives the unit of publish."""
    units = tasks.start(site, Options(), OUTSIDE, owner=owner)
    for stage in (tasks.extract, tasks.transform):
        for unit in units:
            stage(unit, OUTSIDE)
    for unit in tasks.partition(units[0], OUTSIDE):
        tasks.render(unit, OUTSIDE)
    return units[0]


def test_a_second_try_of_the_plan_takes_over_the_lease_of_the_first(site: Site) -> None:
    tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    units = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    assert tasks.extract(units[0], OUTSIDE) == {"rows": 2}


def test_another_run_of_the_scheduler_is_refused_until_the_first_is_abandoned(site: Site) -> None:
    tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    with pytest.raises(Refused, match="shop/tonight"):
        tasks.start(site, Options(), OUTSIDE, owner="shop/tomorrow")
    tasks.abandon(site, "shop/tomorrow", OUTSIDE)  # not its lease
    with pytest.raises(Refused):
        tasks.start(site, Options(), OUTSIDE, owner="shop/tomorrow")
    tasks.abandon(site, "shop/tonight", OUTSIDE)
    assert tasks.start(site, Options(), OUTSIDE, owner="shop/tomorrow")


def test_publish_killed_after_its_end_says_on_the_next_try_what_it_did(site: Site) -> None:
    unit = until_rendered(site, "shop/tonight")
    first = tasks.publish(unit, OUTSIDE)
    written = {path: path.stat().st_mtime_ns for path in Path(site.publish.to).iterdir()}
    assert tasks.publish(unit, OUTSIDE) == first
    assert {path: path.stat().st_mtime_ns for path in Path(site.publish.to).iterdir()} == written
    assert first["status"] == "published"
    assert not (Path(site.work) / "shop" / "state" / "lease.json").exists()


def test_every_task_may_be_done_twice(site: Site) -> None:
    units = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    once = [tasks.extract(units[0], OUTSIDE), tasks.transform(units[0], OUTSIDE), tasks.partition(units[0], OUTSIDE)]
    again = [tasks.extract(units[0], OUTSIDE), tasks.transform(units[0], OUTSIDE), tasks.partition(units[0], OUTSIDE)]
    assert once == again
    (group,) = once[2]
    assert tasks.render(group, OUTSIDE) == tasks.render(group, OUTSIDE)
    assert tasks.publish(units[0], OUTSIDE)["sections"]["pages"]["listed"] == 2


def test_what_goes_between_tasks_is_json(site: Site) -> None:
    unit = until_rendered(site, "shop/tonight")
    published = tasks.publish(unit, OUTSIDE)
    assert json.loads(json.dumps(published)) == published
    assert tasks.engines(published, OUTSIDE) == []
