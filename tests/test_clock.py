"""The time of a run against two clocks, those of the release and of the store; and dates in the future."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.dates import instant
from sitemap_etl.errors import ConfigError, Refused
from sitemap_etl.limits import CLOCK_OFF, CLOCK_SKEW
from sitemap_etl.runs import tasks
from sitemap_etl.runs.history import published_sets
from sitemap_etl.runs.local import Finished, run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.stages.clock import moment_of, read_moment, written
from sitemap_etl.state.records import Options
from tests.support.sites import FIRST_NIGHT, TestSite, pages

LITTLE, FAR = timedelta(seconds=CLOCK_SKEW - 1), timedelta(seconds=CLOCK_SKEW)
RULE = {"fingerprint": ["title"], "until_changed": "at"}
YEAR = 366
OPEN = {"max_drop": 1, "max_growth": 99, "min_urls": 0}


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    """A site that was published at FIRST_NIGHT."""
    site = TestSite(tmp_path, gates=OPEN).section("p", titled(1), lastmod=RULE)
    site.night(1)
    return site


def titled(edition: int, *, of: int = 7) -> list[dict[str, str]]:
    return pages(30, title=lambda n: f"{n} {edition if n == of else 1}", at="2026-10-01")


def run(site: TestSite, time: datetime, *, given: datetime | None = None, **options: Any) -> Finished:
    """Run at this time by every clock; `given`: the option --now."""
    return run_locally(site.load(), Options(**options), site.at(time), jobs=1, now=given)


def files(site: TestSite) -> dict[Path, bytes]:
    """Return everything except run records, which include refused runs."""
    kept = (
        path for path in site.folder.rglob("*") if path.is_file() and not re.search("/(state/runs|reports)/", str(path))
    )
    return {path: path.read_bytes() for path in kept}


def public(site: TestSite) -> str:
    """Return all files of the release as text, without files that wait to be deleted."""
    objects = site.public().objects()
    data = {file.key: objects[file.key] for file in site.manifest().files()}
    return "\n".join((gzip.decompress(d) if key.endswith(".gz") else d).decode() for key, d in data.items())


# --- against the published set -----------------------------------------------------------------------


def test_a_clock_slightly_behind_takes_the_time_of_the_published_release(site: TestSite) -> None:
    site.export("p", titled(2))
    before = site.manifest()
    done = run(site, FIRST_NIGHT - LITTLE)
    assert done.summary.status == "published"
    assert done.summary.now == before.now
    assert done.summary.run_id is not None
    assert done.summary.run_id > before.run_id
    assert site.public().by_loc()[f"{site.origin}/p/000007"].lastmod == before.now


def test_a_clock_far_behind_is_refused_with_both_times_before_anything_is_changed(site: TestSite) -> None:
    site.export("p", titled(2))
    before = files(site)
    with pytest.raises(Refused) as refused:
        run(site, FIRST_NIGHT - FAR)
    for shown in ("2026-11-01T01:50:00Z", "2026-11-01T02:00:00Z", site.manifest().run_id, "--now", "--reason"):
        assert shown in str(refused.value)
    assert files(site) == before


def test_after_a_rollback_the_clock_is_compared_with_the_time_of_the_rollback(site: TestSite) -> None:
    site.export("p", titled(2))
    site.night(2)
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=3)), reason=None)
    with pytest.raises(Refused, match="the last release is from 2026-11-04T02:00:00Z"):
        site.night(3)
    assert site.night(5).summary.status == "published"


# --- against the clock of the store -------------------------------------------------------------------


@pytest.mark.parametrize("off", [CLOCK_OFF + 60, -CLOCK_OFF - 60])
def test_a_clock_far_from_that_of_the_store_is_refused_with_both_times(site: TestSite, off: int) -> None:
    """The time of the store is after the release, so that the release is not the reason for the refusal."""
    before = files(site)
    environment = site.at(FIRST_NIGHT + timedelta(days=2))
    wrong = FIRST_NIGHT + timedelta(days=2, seconds=off)
    with pytest.raises(Refused) as refused:
        run_locally(site.load(), Options(), replace(environment, clock=lambda: wrong), jobs=1)
    for shown in (f"The clock of this run says {instant(wrong)}", "says 2026-11-03T02:00:00Z", "of this machine"):
        assert shown in str(refused.value)
    assert "the last release" not in str(refused.value)
    assert files(site) == before


@pytest.mark.parametrize("off", [CLOCK_OFF - 60, 60 - CLOCK_OFF])
def test_a_clock_less_than_an_hour_from_that_of_the_store_is_accepted(site: TestSite, off: int) -> None:
    environment = site.at(FIRST_NIGHT + timedelta(days=2))
    now = FIRST_NIGHT + timedelta(days=2, seconds=off)
    done = run_locally(site.load(), Options(), replace(environment, clock=lambda: now), jobs=1)
    assert done.summary.now == instant(now)


def test_the_clock_of_a_folder_is_the_clock_of_its_file_system(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(30))
    wrong = datetime.now(UTC) + timedelta(hours=2)
    with pytest.raises(Refused, match=r"the clock of .*/work/shop says "):
        run_locally(site.load(), Options(), replace(site.environment, clock=lambda: wrong), jobs=1)
    assert run_locally(site.load(), Options(), site.environment, jobs=1).summary.status == "published"


def test_rollbacks_and_scheduler_tasks_compare_the_clock_of_the_store_too(site: TestSite) -> None:
    site.export("p", titled(2))
    site.night(2)
    environment = site.at(FIRST_NIGHT + timedelta(days=2))
    wrong = replace(environment, clock=lambda: FIRST_NIGHT + timedelta(days=4))
    with pytest.raises(Refused, match="The clock of this run says 2026-11-05T02:00:00Z, but the clock of"):
        roll_back(site.load(), None, wrong, reason="a reason alone is not enough")
    with pytest.raises(Refused, match="The clock of this run says 2026-11-05T02:00:00Z, but the clock of"):
        tasks.start(site.load(), Options(reason="nor here"), wrong)


def test_the_option_now_requires_a_reason_that_manifest_and_history_record(site: TestSite) -> None:
    site.export("p", titled(2))
    time, given = FIRST_NIGHT + timedelta(days=9), FIRST_NIGHT + timedelta(days=3)
    for reason in (None, "", " "):
        with pytest.raises(Refused, match=r"--now says 2026-11-04T02:00:00Z, but .* say why; the manifest keeps"):
            run(site, time, given=given, reason=reason)
    done = run(site, time, given=given, reason="the export is of Wednesday")
    assert (done.summary.status, done.summary.now) == ("published", "2026-11-04T02:00:00Z")
    assert done.summary.reason == site.manifest().reason == "the export is of Wednesday"
    assert published_sets(site.load(), site.environment)[0].reason == "the export is of Wednesday"
    assert site.public().by_loc()[f"{site.origin}/p/000007"].lastmod == "2026-11-04T02:00:00Z"


def test_the_option_now_needs_no_reason_if_it_agrees_with_the_clocks(site: TestSite) -> None:
    time = FIRST_NIGHT + timedelta(days=9)
    assert run(site, time, given=time - timedelta(minutes=50)).summary.status == "unchanged"


def test_a_scheduler_passes_time_and_reason_as_the_command_does(site: TestSite) -> None:
    time = FIRST_NIGHT + timedelta(days=9)
    given = written("2026-11-04T02:00:00")
    with pytest.raises(Refused, match="in a DAG, the parameters now and reason"):
        tasks.start(site.load(), Options(), site.at(time), now=given)
    started = tasks.start(site.load(), Options(reason="as of Wednesday"), site.at(time), now=given)
    assert "/20261104T020000Z-" in started.key


@pytest.mark.parametrize("text", [None, "", " "])
def test_an_empty_time_parameter_means_the_current_time(text: str | None) -> None:
    assert written(text) is None


def test_an_invalid_time_is_an_error_of_the_call() -> None:
    with pytest.raises(ConfigError, match="--now noon: expected a time in ISO 8601"):
        written("noon")


def test_since_is_no_later_than_either_clock() -> None:
    """A worker with a fast clock must not accept dates that are in the future for the store."""
    now = FIRST_NIGHT
    later, next_year = now + timedelta(minutes=20), now + timedelta(days=YEAR)
    assert read_moment(now, later, next_year) == later
    assert read_moment(now, next_year, later) == later
    assert read_moment(now, next_year, next_year) == now
    assert read_moment(now, now - timedelta(minutes=5), later) == now


@pytest.mark.parametrize(("beyond", "named"), [(0, False), (1, True)])
def test_a_release_over_an_hour_ahead_of_the_store_is_reported_with_the_clock_of_the_store(
    beyond: int, named: bool
) -> None:
    placed = FIRST_NIGHT + timedelta(seconds=CLOCK_OFF + beyond)
    with pytest.raises(Refused) as caught:
        moment_of(FIRST_NIGHT, FIRST_NIGHT, "s3://here", given=None, reason=None, placed=placed, run_id="r1")
    assert ("the clock of s3://here says" in str(caught.value)) == named


def test_with_a_reason_a_run_can_have_a_time_before_the_release() -> None:
    times = {"clock": FIRST_NIGHT, "store": FIRST_NIGHT, "where": "work", "given": FIRST_NIGHT}
    placed = FIRST_NIGHT + timedelta(days=YEAR)
    assert moment_of(**times, reason="it was fast", placed=placed) == FIRST_NIGHT


# --- a set that was published a year ahead ------------------------------------------------------------


@pytest.fixture
def fast(tmp_path: Path) -> TestSite:
    """Return a site published on day 1, and on day 2 by a clock that was a year fast: page 7 has a date of then."""
    keys: dict[str, Any] = {"feed": {"formats": ["rss", "atom"], "title": "P", "items": 5}}
    site = TestSite(tmp_path, gates=OPEN, recent="3d").section("p", titled(1), lastmod=RULE, **keys)
    site.section("q", pages(25, 100, title="q", at="2026-10-01"), lastmod=RULE)
    site.night(1)
    site.export("p", titled(2))
    run(site, FIRST_NIGHT + timedelta(days=YEAR))
    assert "2027-11-02" in public(site)
    return site


def test_a_run_after_a_release_from_the_future_is_refused_with_the_ways_to_fix_it(fast: TestSite) -> None:
    with pytest.raises(Refused) as refused:
        fast.night(3)
    told = str(refused.value)
    assert "the last release is from 2027-11-02T02:00:00Z" in told
    assert "says 2026-11-03T02:00:00Z" in told
    assert f"rollback SITE.yaml {fast.manifest().run_id}" in told
    assert '--now 2026-11-03T02:00:00Z --reason "…"' in told


def test_a_rollback_to_the_previous_release_fixes_a_release_from_the_future(fast: TestSite) -> None:
    done = roll_back(fast.load(), None, fast.at(FIRST_NIGHT + timedelta(days=2)), reason="the clock was fast")
    assert done.summary.status == "published"
    assert "2027" not in public(fast)
    for night in (4, 5, 6):
        fast.export("p", titled(2 if night == 4 else night))
        assert fast.night(night).summary.status == "published"
        assert "2027" not in public(fast)


def test_publishing_a_release_from_the_future_again_fixes_its_time(fast: TestSite) -> None:
    """Its pages stay, but no date is in the future: page 7 has that of the source again."""
    again = fast.manifest().run_id
    roll_back(fast.load(), again, fast.at(FIRST_NIGHT + timedelta(days=2)), reason="the clock was fast")
    assert "2027" not in public(fast)
    assert fast.public().by_loc()[f"{fast.origin}/p/000007"].lastmod is None
    assert len(fast.public().locs()) == 55
    assert fast.night(4).summary.status in ("published", "unchanged")
    assert fast.public().by_loc()[f"{fast.origin}/p/000007"].lastmod == "2026-10-01"
    assert fast.night(5).summary.status == "unchanged"
    fast.export("p", titled(3))
    fast.night(6)
    assert fast.public().by_loc()[f"{fast.origin}/p/000007"].lastmod == "2026-11-06T02:00:00Z"


@pytest.mark.parametrize("sections", [(), ("q",), ("p",)], ids=["all", "the other one", "the one with the date"])
def test_a_run_with_a_reason_fixes_a_release_from_the_future(fast: TestSite, sections: tuple[str, ...]) -> None:
    """Even if the section with the date is not read: otherwise it stays as published."""
    time = FIRST_NIGHT + timedelta(days=2)
    done = run(fast, time, given=time, reason="the clock was fast", sections=sections)
    assert done.summary.status == "published"
    assert "2027" not in public(fast)
    assert len(fast.public().locs()) == 55
    state = fast.state()
    since = [at for e in fast.manifest().of("p") for at in state.snapshot(e.snapshot).column("since").to_pylist()]
    assert since.count(None) == 29  # as the first publish brought them
    assert all(at is None or at <= time.timestamp() for at in since)
    for night in (4, 5):
        fast.night(night)
        assert "2027" not in public(fast)
    assert fast.night(6).summary.status == "unchanged"


def test_no_gate_refuses_the_removal_of_future_dates(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN).section("p", pages(30, title="1"), lastmod={"fingerprint": ["title"]})
    site.night(1)
    site.export("p", pages(30, title="2"))
    run(site, FIRST_NIGHT + timedelta(days=YEAR))
    time = FIRST_NIGHT + timedelta(days=2)
    done = run(site, time, given=time, reason="the clock was fast")
    assert done.summary.status == "published"
    assert {entry.lastmod for entry in site.public().entries()} == {None}


@pytest.mark.parametrize("how", ["rollback", "reason"])
def test_a_page_removed_by_a_release_from_the_future_returns_without_its_date(fast: TestSite, how: str) -> None:
    """Page 7, dated by the fast clock, is not in the next release, and returns the day after."""
    fast.export("p", [row for row in titled(2) if "000007" not in row["loc"]])
    time = FIRST_NIGHT + timedelta(days=2)
    if how == "rollback":
        run(fast, FIRST_NIGHT + timedelta(days=YEAR + 1))
        roll_back(fast.load(), None, fast.at(time), reason="the clock was fast")
    else:
        run(fast, time, given=time, reason="the clock was fast")
    fast.export("p", titled(2))
    for night in (4, 5):
        fast.night(night)
        assert "2027" not in public(fast)


def test_the_option_now_decides_which_dates_are_in_the_future(site: TestSite) -> None:
    rows = pages(30, lastmod=lambda n: "2026-11-09T00:00:00Z" if n % 2 else "2026-10-01")
    site.section("n", rows)
    given = FIRST_NIGHT + timedelta(days=3)
    done = run(site, FIRST_NIGHT + timedelta(days=20), given=given, reason="as of then")
    assert done.summary.reasons["n"]["notes"].to_json()["lastmod in the future"]["count"] == 15
    assert "2026-11-09" not in public(site)


def test_the_history_of_seven_days_excludes_releases_from_the_future(fast: TestSite) -> None:
    time = FIRST_NIGHT + timedelta(days=2)
    run(fast, time, given=time, reason="the clock was fast")
    assert all(size.at <= instant(time) for size in fast.manifest().history)
