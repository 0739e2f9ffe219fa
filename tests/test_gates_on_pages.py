"""The gate on new pages: a sample of them is visited before they are listed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.pages import visits
from sitemap_etl.publish.gates import Visited, evaluate
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.settings import Gates, NewPages
from sitemap_etl.state import layout
from tests.support.gates import NONE, by_name, counts
from tests.support.live_site import WORDS, Answer, Website, document, website
from tests.support.sites import TestSite, pages


@pytest.fixture
def live() -> Iterator[Website]:
    with website() as made:
        made.otherwise = lambda asked: Answer(
            200 if asked.path.startswith("/p/0") and len(asked.path) == len("/p/000000") else 404,
            body=document(f"{WORDS} {asked.path}"),
        )
        made.answers["/robots.txt"] = Answer(404)
        yield made


def visiting(folder: Path, live: Website, **gate: Any) -> TestSite:
    keys = {"gates": {"pages": {"sample": 50, **gate}, "max_growth": 99}, "site": live.root, "name": "shop"}
    site = TestSite(folder, **keys)
    site.environment = replace(site.environment, visits=partial(visits, delay=0))
    return site


def asked_pages(live: Website) -> set[str]:
    return {path for path in live.paths() if path.startswith("/p/0")}


def broken(live: Website, *numbers: int, status: int = 404) -> None:
    live.answers |= {f"/p/{n:06}": Answer(status) for n in numbers}


def test_a_release_with_failing_new_pages_is_refused_and_names_them(tmp_path: Path, live: Website) -> None:
    site = visiting(tmp_path, live).section("p", pages(30))
    assert site.night(1).summary.status == "published"
    site.export("p", pages(60))
    broken(live, *range(40, 43))
    live.answers["/p/000050"] = Answer(301, {"Location": "/p/000051"})
    before = site.public().objects()
    refused = site.night(2)
    assert refused.summary.status == "refused"
    assert refused.summary.error is not None
    assert (
        "Refused: p would list 4 bad pages among 30 new ones that were visited (13.3 %, max_bad is 2 %). "
        "Nothing public was touched.\n"
        f"  error status: 3    e.g. {live.root}/p/000040 (status 404)\n"
        f"  redirect: 1    e.g. {live.root}/p/000050 (status 301 to {live.root}/p/000051)\n" in refused.summary.error
    )
    assert refused.summary.error.count("Refused:") == 1
    assert "--force p.pages --reason" in refused.summary.error
    assert site.public().objects() == before
    gate = by_name(refused)["p.pages"]
    assert (gate.status, gate.value, gate.limit) == ("refused", 4 / 30, 0.02)
    told = refused.summary.reasons["p"]["pages"]
    assert told.counts == {"error status": 3, "redirect": 1}
    page = site.state().storage.get(layout.report(refused.run.run_id))
    assert page is not None
    assert b"Visited new pages" in page.data


def test_only_new_pages_are_requested(tmp_path: Path, live: Website) -> None:
    site = visiting(tmp_path, live).section("p", pages(30)).section("q", [])
    site.keys["gates"]["min_urls"] = 0
    site.night(1)
    live.asked.clear()
    broken(live, *range(30))
    site.export("p", pages(25, start=5, lastmod="2026-10-01") + pages(2, start=100))
    site.export("q", pages(5))  # moves there
    site.keys["gates"]["max_drop"] = 1
    assert site.night(2).summary.status == "published"
    assert asked_pages(live) == {"/p/000100", "/p/000101"}


def test_pages_of_a_first_release_are_visited(tmp_path: Path, live: Website) -> None:
    broken(live, *range(100))
    site = visiting(tmp_path, live, sample=40).section("p", pages(100))
    refused = site.night(1)
    assert refused.summary.status == "refused"
    assert "40 bad pages among 40 new ones" in str(refused.summary.error)
    assert "of all 100 new pages 91.2 % to 100 % with 95 % confidence" in str(refused.summary.error)
    assert len(asked_pages(live)) == 40


def test_the_visited_pages_do_not_depend_on_the_number_of_tasks(tmp_path: Path, live: Website) -> None:
    drawn = []
    for rows in (7, 100):
        live.asked.clear()
        site = visiting(tmp_path / str(rows), live, sample=20).section("p", pages(100), shards={"rows": rows})
        assert site.night(1, dry_run=True).summary.status == "dry_run"
        drawn.append(asked_pages(live))
    assert len(drawn[0]) == 20
    assert drawn[0] == drawn[1]


def test_temporary_failures_of_pages_are_only_a_warning(tmp_path: Path, live: Website) -> None:
    broken(live, *range(10), status=500)
    site = visiting(tmp_path, live).section("p", pages(50))
    done = site.night(1)
    assert done.summary.status == "published"
    gate = by_name(done)["p.pages"]
    assert gate.status == "warned"
    assert "p would list 0 bad pages among 40 new ones" in gate.message
    assert "10 more could not be judged (status 500: 10)" in gate.message
    assert done.summary.reasons["p"]["pages"].counts == {"could not be judged: status 500": 10}


def test_a_site_that_is_down_does_not_prevent_publishing(tmp_path: Path, live: Website) -> None:
    live.server.server_close()
    site = visiting(tmp_path, live).section("p", pages(50))
    done = site.night(1)
    assert done.summary.status == "published"
    assert by_name(done)["p.pages"].status == "warned"


def test_the_gate_on_pages_can_be_forced_with_a_reason(tmp_path: Path, live: Website) -> None:
    broken(live, *range(50))
    site = visiting(tmp_path, live).section("p", pages(50))
    refused = site.night(1, dry_run=True)
    assert (refused.summary.status, by_name(refused)["p.pages"].status) == ("dry_run", "refused")
    assert "Refused: p would list 50 bad pages" in str(refused.summary.error)
    done = site.night(2, force=("p.pages",), reason="they go live at six")
    assert done.summary.status == "published"
    assert by_name(done)["p.pages"].status == "forced"
    assert site.manifest().forced == ("p.pages",)


def test_pages_of_a_refused_run_are_visited_again_when_it_is_published(tmp_path: Path, live: Website) -> None:
    broken(live, *range(50))
    site = visiting(tmp_path, live).section("p", pages(50))
    refused = site.night(1)
    run_id, environment = refused.run.run_id, site.environment
    again = publish_locally(site.load(), run_id, environment, force=(), reason=None, adopt=False)
    assert again.summary.status == "refused"
    for n in range(50):
        del live.answers[f"/p/{n:06}"]
    done = publish_locally(site.load(), run_id, environment, force=(), reason=None, adopt=False)
    assert done.summary.status == "published"


def test_pages_of_views_are_not_visited(tmp_path: Path, live: Website) -> None:
    site = visiting(tmp_path, live).section("p", pages(5)).section("v", pages(30, start=100), view=True)
    broken(live, *range(100, 130))
    done = site.night(1)
    assert done.summary.status == "published"
    assert asked_pages(live) == {f"/p/{n:06}" for n in range(5)}


@pytest.mark.parametrize("view", [True, False])
def test_moved_pages_are_not_sampled_as_new_ones(tmp_path: Path, live: Website, view: bool) -> None:
    site = visiting(tmp_path, live)
    site.section("p", pages(300)).section("q", pages(300 if view else 1, start=0 if view else 900), view=view)
    site.night(1)
    broken(live, *range(500, 525))
    site.section("p", pages(1, start=950)).section("q", pages(300) + pages(25, start=500))
    done = site.night(2, force=("p.max_drop", "max_drop"), reason="they moved")
    assert done.summary.status == "refused"
    assert by_name(done)["q.pages"].status == "refused"


def test_new_pages_of_all_sections_are_visited_together(tmp_path: Path, live: Website) -> None:
    site = visiting(tmp_path, live)
    for n, name in enumerate("abc"):
        site.section(name, pages(10, start=100 * n))
        broken(live, 100 * n)
    refused = site.night(1)
    assert [gate.name for gate in refused.summary.gates if gate.status == "refused"] == ["pages"]
    assert "the site would list 3 bad pages among 30 new ones" in str(refused.summary.error)
    assert "error status: 3    e.g. " in str(refused.summary.error)


def test_a_section_can_be_excluded_from_the_visits(tmp_path: Path, live: Website) -> None:
    broken(live, *range(50))
    site = visiting(tmp_path, live).section("p", pages(50), gates={"pages": {"sample": 0}})
    done = site.night(1)
    assert done.summary.status == "published"
    assert "p.pages" not in by_name(done)
    assert asked_pages(live) == set()


def test_without_the_gate_on_pages_no_page_is_requested(tmp_path: Path, live: Website) -> None:
    site = TestSite(tmp_path, site=live.root).section("p", pages(50))
    done = site.night(1)
    assert not any(name.endswith("pages") for name in by_name(done))
    assert asked_pages(live) == set()


@given(
    bad=st.integers(0, 60),
    good=st.integers(0, 60),
    unknown=st.integers(0, 60),
    limit=st.sampled_from([0.0, 0.02, 0.5, 1.0]),
)
def test_only_enough_bad_pages_refuse_a_run(bad: int, good: int, unknown: int, limit: float) -> None:
    seen = Visited(500, bad + good + unknown, bad + good, bad, unknown)
    (gate,) = (
        gate
        for gate in evaluate("p", counts(pages=seen), Gates(pages=NewPages(max_bad=limit)), NONE)
        if gate.name == "p.pages"
    )
    assert (gate.status == "refused") == (bad + good >= 20 and bad > limit * (bad + good))


@pytest.mark.parametrize(("bad", "status"), [(1, "ok"), (2, "warned"), (3, "refused")])
def test_bad_pages_are_a_warning_above_half_the_limit(bad: int, status: str) -> None:
    seen = counts(pages=Visited(500, 100, 100, bad))
    found = evaluate("p", seen, Gates(pages=NewPages(max_bad=0.02)), NONE)
    assert [gate.status for gate in found if gate.name == "p.pages"] == [status]


@pytest.mark.parametrize(("unknown", "status"), [(2, "ok"), (3, "warned")])
def test_pages_that_could_not_be_judged_are_a_warning_above_the_limit(unknown: int, status: str) -> None:
    seen = counts(pages=Visited(500, 100, 100 - unknown, 0, unknown))
    found = evaluate("p", seen, Gates(pages=NewPages(max_bad=0.02)), NONE)
    assert [gate.status for gate in found if gate.name == "p.pages"] == [status]
