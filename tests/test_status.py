"""Run records, and what `status` and `history` show of them."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.cli.status import sparkline
from sitemap_etl.errors import Denied, SitemapEtlError, Unavailable
from sitemap_etl.runs import tasks
from sitemap_etl.runs.status import SiteStatus, past_runs, status_of
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import read_attempts
from sitemap_etl.state.records import Attempt, Lease, Options
from sitemap_etl.state.store import put_document
from tests.support.command import call
from tests.support.sites import FIRST_NIGHT, TestSite, pages

DAY = timedelta(days=1)
CLOSED = "http://127.0.0.1:1/ping?sitemap={sitemap}"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("products", pages(100, lastmod="2026-10-01"))


def statuses(site: TestSite) -> list[str]:
    return [one.status for one in past_runs(site.load(), site.environment)]


def last(site: TestSite) -> Attempt:
    return past_runs(site.load(), site.environment)[0]


def look(site: TestSite, night: int, hours: int = 6, max_age: timedelta | None = timedelta(hours=36)) -> SiteStatus:
    """Return the status some hours after a run."""
    environment = site.at(FIRST_NIGHT + (night - 1) * DAY + timedelta(hours=hours))
    return status_of(site.load(), environment, max_age=max_age)


def fails(site: TestSite, night: int, **options: object) -> SitemapEtlError:
    with pytest.raises(SitemapEtlError) as raised:
        site.night(night, **options)  # type: ignore[arg-type]
    return raised.value


# --- what is remembered -------------------------------------------------------------------------------


def test_every_run_is_recorded_whatever_its_outcome(site: TestSite) -> None:
    site.night(1)
    site.night(2)
    site.export("products", pages(10, lastmod="2026-10-01"))
    site.night(3)  # the gate
    (site.folder / "products.csv").unlink()
    fails(site, 4)
    site.export("products", pages(100, lastmod="2026-10-02"))
    site.night(5, dry_run=True)
    site.night(6)
    assert statuses(site) == ["published", "dry_run", "failed", "refused", "unchanged", "published"]


def test_a_run_record_has_counts_gates_seconds_and_rejected_rows(site: TestSite) -> None:
    site.export("products", [*pages(100), {"loc": "https://other.example/x"}])
    site.night(1)
    found = last(site)
    assert (found.published, found.listed) == (True, 100)
    assert found.sections["products"].rejected == 1
    assert sum(found.rejected["products"].values()) == 1
    assert set(found.seconds) >= {"extract", "render", "publish", "total"}
    site.export("products", pages(10))
    refused = site.night(2)
    found = last(site)
    assert [gate.name for gate in found.gates] == ["products.max_drop", "max_drop"]
    assert found.error == str(refused.published.error)
    assert found.report == refused.summary.report


def test_a_run_that_fails_early_is_recorded_with_its_error(site: TestSite) -> None:
    (site.folder / "products.csv").write_text("url\n/a\n")
    error = fails(site, 1)
    found = last(site)
    assert (found.status, found.kind, found.error) == ("failed", "source", str(error))
    assert found.run_id == error.run_id


def test_a_run_stopped_by_an_object_not_managed_is_recorded_as_refused(site: TestSite) -> None:
    (site.folder / "public").mkdir()
    (site.folder / "public" / "sitemap.xml").write_text("<theirs/>")
    error = site.night(1).summary.error
    assert error is not None
    assert (last(site).status, last(site).error) == ("refused", error)


def test_a_run_that_may_not_write_to_its_target_is_recorded_as_failed(site: TestSite) -> None:
    (site.folder / "public").write_text("not a folder")
    error = fails(site, 1)
    assert (type(error), error.exit_code) == (Denied, 1)
    assert (last(site).status, last(site).kind) == ("failed", "refused")


def test_a_run_with_an_unreachable_target_is_recorded_if_the_state_is_writable(site: TestSite) -> None:
    site.night(1)
    opened = site.environment.open_storage

    def open_storage(url: str | Path, **options: object) -> object:
        if str(url).endswith("public"):
            raise Unavailable("the store does not answer")
        return opened(url, **options)

    site.environment = replace(site.environment, open_storage=open_storage)  # type: ignore[arg-type]  # as it is called
    fails(site, 2)
    assert "the store does not answer" in str(last(site).error)


def test_a_run_with_a_failed_engine_is_recorded_as_partial_with_the_answer(site: TestSite) -> None:
    site.keys["ping"] = {"http_ping": {"url": CLOSED, "patience": 0}}
    assert call("run", site.path).code == 3
    found = last(site)
    assert found.status == "partial"
    assert found.engines["http_ping"].failed
    status = status_of(site.load(), site.environment, max_age=None)
    assert status.pending == {"http_ping": (found.run_id,)}
    assert status.problems[0].startswith("http_ping failed: ")


def test_a_killed_run_counts_as_interrupted_once_its_lease_is_free(site: TestSite) -> None:
    site.night(1)
    tasks.start(site.load(), Options(), site.at(FIRST_NIGHT + DAY), owner="shop/tonight")
    assert look(site, 2, hours=0).running is not None
    assert [one.status for one in past_runs(site.load(), site.at(FIRST_NIGHT + DAY))] == ["running", "published"]
    found = look(site, 2)
    assert found.running is None
    assert [one.status for one in found.failed] == ["interrupted"]
    assert found.problems[0].startswith("the last run was interrupted: ")
    assert "after it had published" not in found.problems[0]


def test_a_run_killed_after_its_commit_is_shown_as_such(site: TestSite) -> None:
    """Otherwise its status would contradict the release that is published."""
    site.night(1)
    done = last(site)
    put_document(site.state().storage, layout.attempt(done.run_id), replace(done, status="running", ended=""))
    assert look(site, 1).problems[0] == (
        "the last run was interrupted: It was killed, or its machine went down, after it had published; "
        "the next run does what was left"
    )
    (told,) = past_runs(site.load(), site.environment)
    assert (told.status, told.published) == ("interrupted", True)


def test_a_run_that_the_scheduler_abandons_is_recorded_as_failed(site: TestSite) -> None:
    tasks.start(site.load(), Options(), site.environment, owner="shop/tonight")
    tasks.abandon(site.load(), "shop/tonight", site.environment)
    assert (last(site).status, last(site).owner) == ("failed", "shop/tonight")


def test_a_failed_task_records_its_error_until_a_later_try_succeeds(site: TestSite) -> None:
    world = site.environment
    (site.folder / "products.csv").write_text('loc,lastmod\n/a,2026-01-01\n"/b\n')
    started = tasks.start(site.load(), Options(), world, owner="shop/tonight")
    with pytest.raises(SitemapEtlError) as raised:
        tasks.build(started.key, world)
    assert (last(site).status, last(site).error) == ("failed", str(raised.value))
    tasks.abandon(site.load(), "shop/tonight", world)
    assert last(site).error == str(raised.value)
    site.export("products", pages(5))
    started = tasks.start(site.load(), Options(), world, owner="shop/tonight")
    tasks.build(started.key, world)
    tasks.publish(started.key, world)
    assert last(site).status == "published"


def test_a_published_run_whose_task_is_tried_again_stays_published(site: TestSite) -> None:
    world = site.environment
    key = tasks.start(site.load(), Options(), world, owner="shop/tonight").key
    tasks.build(key, world)
    tasks.publish(key, world)
    tasks.render(key, [0, 1], world)  # its staging is gone
    assert last(site).status == "published"


def test_a_run_ended_by_ctrl_c_is_recorded(site: TestSite) -> None:
    def interrupted(_stage: str, _done: int, _total: int) -> None:
        raise KeyboardInterrupt

    site.environment = replace(site.environment, advance=interrupted)
    with pytest.raises(KeyboardInterrupt):
        site.night(1)
    assert (last(site).status, last(site).kind) == ("interrupted", "interrupted")


def test_invalid_calls_and_failed_dry_runs_are_not_recorded(site: TestSite) -> None:
    site.night(1)
    assert call("run", site.path, "--section", "nope").code == 2
    (site.folder / "products.csv").unlink()
    assert call("run", site.path, "--dry-run").code == 2
    assert statuses(site) == ["published"]


def test_runs_are_not_recorded_in_the_state_of_another_site(site: TestSite) -> None:
    site.night(1)
    site.keys["site"] = "https://other.example"
    fails(site, 2)
    site.keys["site"] = TestSite.origin
    assert statuses(site) == ["published"]


@pytest.mark.thorough
def test_records_are_kept_for_a_year(site: TestSite) -> None:
    site.night(1)
    site.night(2)
    site.night(300)
    assert len(statuses(site)) == 3
    site.night(366)
    assert [one.now[:10] for one in past_runs(site.load(), site.environment)] == [
        "2027-11-01",
        "2027-08-27",
        "2026-11-02",
    ]


def test_a_damaged_record_hides_no_other_and_is_found_by_verify(site: TestSite) -> None:
    site.night(1)
    site.night(2)
    key = layout.attempt(last(site).run_id)
    path = site.folder / "work" / "shop" / key
    path.write_bytes(path.read_bytes()[:-9])
    assert statuses(site) == ["published"]
    done = call("state", "verify", site.path)
    assert done.code == 65
    assert key in done.out
    assert call("state", "verify", site.path, "--repair").code == 0
    assert not path.exists()


def test_a_forgotten_row_is_removed_from_run_records(site: TestSite) -> None:
    site.night(1)
    site.export("products", pages(10, start=90))
    site.night(2)  # refused, with an example
    assert "/p/0000" in str(last(site).error)
    site.night(3, force=("products.max_drop",), reason="meant")
    gone = str(read_attempts(site.state().storage)[1].error).split("e.g. ")[1].split()[0]
    assert call("state", "forget", site.path, "--url", gone).code == 0
    texts = [path.read_text() for path in (site.folder / "work" / "shop" / "state" / "runs").iterdir()]
    assert len(texts) == 3
    assert not any(json.dumps(gone)[1:-1] in text for text in texts)


# --- how a site is ------------------------------------------------------------------------------------


def test_a_site_that_the_last_run_published_is_healthy(site: TestSite) -> None:
    site.night(1)
    found = look(site, 1)
    assert found.healthy
    assert found.published is not None
    assert (found.published.listed, found.trend) == (100, (100,))


def test_a_site_that_was_never_run_is_not_healthy(site: TestSite) -> None:
    found = look(site, 1)
    assert found.problems == ("it was never run",)


def test_a_missing_scheduled_run_is_noticed(site: TestSite) -> None:
    site.night(1)
    assert look(site, 2, hours=6).healthy
    found = look(site, 3, hours=6)
    assert found.problems == ("the last run that ended well was 54 hours ago (limit 36 hours)",)
    assert look(site, 3, hours=6, max_age=None).healthy


def test_failures_are_counted_until_a_run_succeeds(site: TestSite) -> None:
    site.night(1)
    site.export("products", pages(10))
    site.night(2)
    site.night(3)
    found = look(site, 3)
    assert [one.status for one in found.failed] == ["refused", "refused"]
    assert found.problems[0].startswith("the last run was refused: products would drop 90 of 100 URLs")
    site.night(4, force=("products.max_drop",), reason="meant")
    found = look(site, 4)
    assert found.healthy
    assert found.trend == (100, 10)


def test_a_kept_section_needs_attention(site: TestSite) -> None:
    site.section("blog", pages(30, start=500), on_error="keep")
    site.night(1)
    (site.folder / "blog.csv").unlink()
    site.night(2)
    found = look(site, 2)
    assert found.problems[0].startswith("section blog stays as published: ")


def test_obstacles_to_the_next_run_are_reported(site: TestSite) -> None:
    site.night(1)
    early = status_of(site.load(), site.at(FIRST_NIGHT - 2 * DAY), max_age=None)
    assert early.problems[0].startswith("the next run is blocked: The clock of this run says")
    path = site.folder / "work" / "shop" / "state" / "current.json"
    path.write_bytes(path.read_bytes()[:-5])
    found = look(site, 1)
    assert "the next run is blocked" in found.problems[0]
    assert "current.json" in found.problems[0]
    assert found.last is not None  # and what is known is still told


def test_an_unreachable_store_is_a_problem_and_not_a_crash(site: TestSite) -> None:
    site.keys["work"] = "s3://nowhere/work"

    def open_storage(*_given: object, **_options: object) -> Any:
        raise Unavailable("it does not answer")

    site.environment = replace(site.environment, open_storage=open_storage)
    found = status_of(site.load(), site.environment, max_age=None)
    assert found.problems == ("the next run is blocked: it does not answer",)


def test_the_last_run_of_a_version_without_run_records_is_known(site: TestSite) -> None:
    site.night(1)
    for path in (site.folder / "work" / "shop" / "state" / "runs").iterdir():
        path.unlink()
    found = look(site, 1)
    assert found.healthy
    assert found.last is not None
    assert found.last.status == "published"
    assert found.trend == (100,)


def test_the_lease_of_a_run_under_way_is_shown_and_not_a_problem(site: TestSite) -> None:
    site.night(1)
    now = FIRST_NIGHT + timedelta(hours=6)
    put_document(
        site.state().storage, layout.LEASE, Lease("r", now.isoformat(), (now + DAY).isoformat(), "elsewhere", 0, "dag")
    )
    found = look(site, 1)
    assert found.healthy
    assert "dag" in str(found.running)


# --- the command --------------------------------------------------------------------------------------


def test_status_shows_one_screen_per_site_and_ends_with_1_if_one_is_unhealthy(tmp_path: Path) -> None:
    good = TestSite(tmp_path / "a", name="good").section("products", pages(40))
    bad = TestSite(tmp_path / "b", name="bad").section("products", pages(40))
    assert call("run", good.path).code == 0
    done = call("status", good.path)
    assert done.code == 0
    assert done.out.startswith("OK  good  https://shop.example\n  last run   published, just now  ")
    assert "published  40 URLs in 2 files, just now" in done.out
    done = call("status", good.path, bad.path)
    assert done.code == 1
    assert "\nNEEDS ATTENTION  bad  https://shop.example\n  ! it was never run\n" in done.out
    assert max(len(line) for line in done.out.splitlines() if "/" not in line) <= 80


def test_status_accepts_folders_and_reports_unreadable_files(tmp_path: Path) -> None:
    site = TestSite(tmp_path / "sites").section("products", pages(40))
    assert call("run", site.path).code == 0
    assert call("status", site.folder).code == 0
    (site.folder / "other.yaml").write_text("site: nonsense\n")
    done = call("status", site.folder)
    assert done.code == 1
    assert "OK  shop" in done.out
    assert "other.yaml" in done.out
    (tmp_path / "empty").mkdir()
    assert "has no site files" in call("status", tmp_path / "empty").out
    assert "no such file" in call("status", tmp_path / "nope.yaml").out


def test_status_as_json_has_every_site(site: TestSite) -> None:
    assert call("run", site.path).code == 0
    done = call("status", site.path, "--json")
    (found,) = done.json["sites"]
    assert (done.code, done.json["status"], found["healthy"]) == (0, "done", True)
    assert found["file"] == str(site.path)
    assert found["last"]["sections"]["products"]["listed"] == 100
    (site.folder / "products.csv").unlink()
    call("run", site.path)
    done = call("status", site.path, "--json")
    assert (done.code, done.json["status"], done.json["exit"]) == (1, "failed", 1)
    assert done.json["error"] == f"needs attention: {site.path}"


def test_history_shows_failed_runs_and_kept_releases(site: TestSite) -> None:
    assert call("run", site.path).code == 0
    (site.folder / "products.csv").unlink()
    assert call("run", site.path).code == 2
    done = call("history", site.path)
    _, failed, published = done.out.splitlines()
    assert " failed " in failed
    assert "there is no file" in failed
    assert published.split()[1:] == ["published", "100", "2", "current"]
    data = call("history", site.path, "--json").json
    assert [one["status"] for one in data["runs"]] == ["failed", "published"]
    assert len(data["sets"]) == 1


def test_history_shows_a_release_of_a_run_killed_after_its_commit_in_order(site: TestSite) -> None:
    for rows in (100, 99, 98):
        site.export("products", pages(rows))
        assert call("run", site.path).code == 0
    runs = [one["run_id"] for one in call("history", site.path, "--json").json["runs"]]
    for lost in ((runs[1],), (runs[0],), tuple(runs)):
        for run_id in lost:
            site.state().storage.delete(layout.attempt(run_id))
        shown = [line.split()[0] for line in call("history", site.path).out.splitlines()[1:]]
        assert shown == runs
    assert call("history", site.path, "--json").json["runs"] == []


@pytest.mark.parametrize(
    ("values", "line"),
    [((1, 2, 3), "_#@"), ((5, 5), "##"), ((7,), "#"), ((0, 100, 49, 50), "_@_#"), ((3, 2, 1), "@#_")],
)
def test_a_sparkline_spans_the_least_to_the_greatest_value(values: tuple[int, ...], line: str) -> None:
    assert sparkline(values, "_#@") == line
