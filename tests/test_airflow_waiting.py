"""Waiting for an export without a worker: when it is polled again, and when the wait is over."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.providers.standard.triggers.temporal import DateTimeTrigger
from airflow.sdk.exceptions import TaskDeferred

from sitemap_etl.airflow.waiting import AwaitSources
from sitemap_etl.runs.waits import next_look
from sitemap_etl.state.records import Options
from tests.support.sites import TestSite, pages

BEGAN = datetime(2026, 11, 22, 2, 0, tzinfo=UTC)


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A site with an export without its marker that it waits for."""
    made = TestSite(tmp_path).section("products", pages(10))
    made.keys["sections"]["products"]["from"]["expect"] = {"marker": "_SUCCESS", "wait": "2h"}
    return made


def look(site: TestSite, after: timedelta, **options: tuple[str, ...]) -> timedelta | None:
    """Return when the export is polled again, after the start of the wait, if it is polled after this time."""
    world = replace(site.environment, clock=lambda: BEGAN + after)
    found = next_look(site.load(), Options(**options), world, began=BEGAN)
    return None if found is None else found - BEGAN


def test_a_missing_export_is_polled_every_five_minutes_until_the_wait_ends(site: TestSite) -> None:
    said: list[str] = []
    site.environment = replace(site.environment, log=said.append)
    minute = timedelta(minutes=1)
    assert look(site, 0 * minute) == 5 * minute
    assert look(site, 60 * minute) == 65 * minute
    assert look(site, 118 * minute) == 120 * minute
    assert look(site, 120 * minute) is None
    assert said[0].startswith("section products: waiting for its source until 04:00:00 UTC: ")
    assert "_SUCCESS" in said[0]


def test_a_task_does_not_wait_for_an_export_that_is_there(site: TestSite) -> None:
    (site.folder / "_SUCCESS").touch()
    assert look(site, timedelta(0)) is None


def test_a_task_does_not_wait_for_sections_that_are_not_read(site: TestSite) -> None:
    site.section("other", pages(10, start=100))
    assert look(site, timedelta(0), sections=("other",)) is None


def test_a_waiting_task_frees_its_worker_until_the_next_poll() -> None:
    looks = [datetime(2026, 11, 22, 2, 5, tzinfo=UTC), None]
    task = AwaitSources(task_id="wait", look=lambda _context: looks.pop(0))
    with pytest.raises(TaskDeferred) as deferred:
        task.execute({})
    assert isinstance(deferred.value.trigger, DateTimeTrigger)
    assert deferred.value.trigger.moment == datetime(2026, 11, 22, 2, 5, tzinfo=UTC)
    task.resume_execution(deferred.value.method_name, {"event": "the moment has come"}, {})
    assert looks == []
