"""Findings of the simulation: sections whose pages move, leave and return, and what engines are sent."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any

import pytest

from tests.model.nights import night, ping, two_sections, urls
from tests.model.world import Done, Spec, World

BODY = {"fingerprint": ["body"]}


def test_engines_are_sent_the_pages_of_a_section_removed_from_the_site_file(world: World) -> None:
    ping(world)
    two_sections(world)
    night(world)
    del world.specs["b"]
    assert sorted(night(world).posted) == sorted(urls(world, *range(11, 20)))


def test_a_rollback_counts_and_submits_the_undated_pages_that_it_changes(world: World) -> None:
    ping(world)
    first, _ = two_sections(world, lastmod="none")
    first.contract = {"images"}
    night(world)
    first.rows[0]["images"] = '["/i/1.jpg"]'
    assert night(world).posted == urls(world, 1)
    world.pass_time(timedelta(days=1))
    done = world.roll_back(None)
    assert done.summary is not None
    assert done.summary["sections"]["a"]["changed"] == 1
    assert (
        done.summary["engines"]["indexnow"]["details"]["changed"]
        + done.summary["engines"]["indexnow"]["details"]["left"]
        == 1
    )


def test_a_moved_page_is_not_an_example_of_added_or_removed_pages(world: World) -> None:
    first, second = two_sections(world)
    night(world)
    second.rows.append(first.rows.pop(0))
    summary = night(world).summary
    assert summary is not None
    assert summary["sections"]["a"]["removed"] == summary["sections"]["b"]["added"] == 0
    assert summary["examples"] == {}


def test_a_moved_page_with_other_images_is_changed_if_pages_have_no_dates(world: World) -> None:
    ping(world)
    first, second = two_sections(world, lastmod="none")
    first.contract = second.contract = {"images"}
    night(world)
    second.rows.append({**first.rows.pop(0), "images": '["/i/1.jpg"]'})
    done = night(world)
    assert done.summary is not None
    assert done.summary["sections"]["b"]["changed"] == 1
    assert done.posted == urls(world, 1)


def test_file_numbers_are_not_reused_after_their_section_was_removed(world: World) -> None:
    first, _ = two_sections(world, shards={"rows": 5})
    night(world)
    del world.specs["a"]
    night(world)
    world.specs["a"] = first
    night(world)
    assert sorted(world.look().section("a")) == [4, 5, 6]


def test_file_numbers_are_not_reused_after_their_section_was_a_view(world: World) -> None:
    first, _ = two_sections(world, shards={"rows": 5})
    night(world)
    given = set(world.look().section("a"))
    rows, first.rows, first.keys["view"] = first.rows, first.rows[:3], True
    night(world)
    night(world)
    assert set(world.look().section("a")) == {1}
    first.rows = rows
    del first.keys["view"]
    night(world)
    assert set(world.look().section("a")) & given == {1}


def test_a_page_that_only_moved_is_not_a_recent_change(world: World) -> None:
    world.site.keys["recent"] = "3d"
    first, second = two_sections(world)
    night(world)
    second.rows.append(first.rows.pop(0))
    night(world)
    assert not any("recent" in key for key in world.look().index)


@pytest.mark.parametrize("why", ["down", "left out"])
def test_pending_changes_are_sent_by_the_next_run_even_if_it_is_unchanged(world: World, why: str) -> None:
    ping(world)
    first, _ = two_sections(world, lastmod="updated")
    night(world)
    first.rows[0]["updated"] = "2021-03-02"
    world.up = why != "down"
    assert night(world, ping=why != "left out").posted == []
    world.up = True
    done = night(world)
    assert done.summary is not None
    assert done.summary["status"] == "unchanged"
    assert done.posted == urls(world, 1)


def night_of_a_move(world: World, **keys: Any) -> Done:
    """Move 15 of 40 pages of a, which has these keys, to b, under the default gates."""
    del world.site.keys["gates"]
    world.specs["a"] = first = Spec("a", rows=[world.row(number) for number in range(40)], keys=keys)
    world.specs["b"] = second = Spec("b", rows=[world.row(number) for number in range(40, 60)])
    night(world)
    second.rows += first.rows[:15]
    del first.rows[:15]
    return night(world)


def test_moving_pages_to_another_section_is_not_a_drop(world: World) -> None:
    done = night_of_a_move(world)
    assert done.summary is not None
    assert done.summary["status"] == "published", done.summary["error"]


def test_pages_that_lose_their_date_by_moving_to_another_section_count_as_undated(world: World) -> None:
    """A gate of the site counts over all sections: the pages had a lastmod, and have none now."""
    done = night_of_a_move(world, lastmod="updated")
    assert done.summary is not None
    assert done.summary["status"] == "refused"


def test_text_sitemaps_are_added_and_removed_with_their_setting(world: World) -> None:
    first, _ = two_sections(world)
    night(world)
    first.keys["formats"] = ["xml", "text"]
    night(world)
    assert set(world.look().texts) == {"sitemap-a-00001.txt.gz"}
    del first.keys["formats"]
    night(world)
    night(world, days=3)
    assert world.look().texts == {}


def test_a_section_that_stops_using_fingerprints_has_no_changed_pages(world: World) -> None:
    world.site.keys["recent"] = "3d"
    first, _ = two_sections(world, lastmod=BODY)
    night(world)
    first.keys["lastmod"] = "none"
    done = night(world)
    assert done.summary is not None
    assert done.summary["sections"]["a"]["changed"] == 0
    assert not any("recent" in key for key in world.look().index)


def test_an_unchanged_run_publishes_no_release_even_if_it_forgets_removed_pages(world: World) -> None:
    first, _ = two_sections(world, lastmod=BODY)
    night(world)
    first.rows.pop()
    night(world)
    sets = len(world.history())
    done = night(world, days=31)
    assert done.summary is not None
    assert done.summary["status"] == "unchanged"
    assert len(world.history()) == sets


def test_pending_pages_that_change_again_count_once_towards_max_share(world: World) -> None:
    ping(world, max_share=0.5)
    first, _ = two_sections(world, lastmod="updated")
    night(world)
    for row in first.rows[:5]:
        row["updated"] = "2021-03-02"
    night(world, ping=False)
    for row in first.rows[:5]:
        row["updated"] = "2021-03-03"
    assert sorted(night(world).posted) == sorted(urls(world, *range(1, 6)))  # 5 of 18


def test_a_page_that_changes_every_day_is_reported_for_every_day(world: World) -> None:
    ping(world)
    first, _ = two_sections(world, lastmod="updated")
    night(world)
    for day in (2, 3):
        first.rows[0]["updated"] = f"2021-03-{day:02}"
        assert night(world).posted == urls(world, 1)


def test_a_file_stays_two_days_after_it_left_the_index_however_old_its_run_is(world: World) -> None:
    first, _ = two_sections(world, shards={"rows": 5})
    night(world)
    del first.rows[2:]
    shown = night(world, dry_run=True).summary
    assert shown is not None
    world.pass_time(timedelta(days=5))
    world.publish(shown["run_id"])
    gone = "sitemap-a-00002.xml.gz"
    assert gone not in world.look().index
    night(world, days=1)
    assert gone in world.look().objects
    night(world, days=1.1)
    assert gone not in world.look().objects


def test_changed_priorities_alone_rewrite_no_file_of_a_view(world: World) -> None:
    first, second = two_sections(world)
    second.rows = [dict(row) for row in first.rows]
    second.keys = {"view": True, "priority": {"percentile_of": "sales"}}
    night(world)
    before = world.look().objects
    for row in second.rows:
        row["sales"] = row["sales"] * 17 % 41
    done = night(world)
    assert done.summary is not None
    assert done.summary["status"] == "unchanged"
    assert world.look().objects == before


def test_removing_a_view_from_the_site_file_removes_no_pages(world: World) -> None:
    first, second = two_sections(world)
    second.rows = [dict(row) for row in first.rows]
    second.keys = {"view": True}
    night(world)
    del world.specs["b"]
    world.specs["c"] = Spec("c", rows=[first.rows.pop(0)])
    summary = night(world).summary
    assert summary is not None
    assert [(counts["added"], counts["removed"]) for counts in summary["sections"].values()] == [(0, 0), (0, 0)]


def test_changed_priorities_do_not_rewrite_a_full_file_when_pages_are_appended(world: World) -> None:
    first, _ = two_sections(world, shards={"rows": 10, "fill": 0.9}, priority={"percentile_of": "sales"})
    first.rows = [world.row(number) for number in (11, 12, 14, 16, 19, 21, 22, 24, 26)]
    night(world)
    before = world.look().objects["sitemap-a-00001.xml.gz"]
    first.rows += [world.row(number) for number in (31, 32, 34, 36)]
    night(world)
    assert len(world.look().section("a")) == 2
    assert world.look().objects["sitemap-a-00001.xml.gz"] == before


# --- views ------------------------------------------------------------------------------------------


def test_no_release_lists_a_page_twice_outside_views(world: World) -> None:
    world.specs["a"] = Spec("a", rows=[world.row(number) for number in range(1, 5)])
    world.specs["b"] = Spec("b", rows=[world.row(number) for number in range(5, 7)])
    night(world)
    world.specs["a"].keys["view"] = True
    world.specs["b"].rows += [world.row(3), world.row(4)]
    with contextlib.suppress(AssertionError):  # it may well be refused
        night(world, sections=["b"])
    locs = [entry.loc for entries in world.look().entries.values() for entry in entries]
    assert sorted(locs) == sorted(set(locs))


def view_and_section(world: World, *, site: bool = True) -> tuple[Spec, Spec]:
    """Return pages 1 to 40 in section a, the first 30 of them (or others) shown by the view b; both published."""
    ping(world)
    del world.site.keys["gates"]
    world.specs["a"] = Spec("a", rows=[world.row(number) for number in range(1, 41)])
    shown = range(1, 31) if site else range(61, 91)
    world.specs["b"] = Spec("b", rows=[world.row(number) for number in shown], keys={"view": True})
    assert night(world).summary["status"] == "published"
    return world.specs["a"], world.specs["b"]


def changes(summary: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Return section → added, changed, removed."""
    return {name: (c["added"], c["changed"], c["removed"]) for name, c in summary["sections"].items()}


def test_a_page_that_leaves_a_view_for_a_section_is_new_even_when_the_view_becomes_a_section(world: World) -> None:
    _, shown = view_and_section(world, site=False)
    del shown.keys["view"]
    world.specs["c"] = Spec("c", rows=[shown.rows.pop(0)])
    done = night(world)
    assert changes(done.summary) == {"a": (0, 0, 0), "b": (29, 0, 0), "c": (1, 0, 0)}
    assert sorted(done.posted) == sorted(urls(world, *range(61, 91)))


def test_pages_of_a_view_are_not_lost_when_it_becomes_a_section(world: World) -> None:
    _, shown = view_and_section(world)
    del shown.keys["view"]
    del shown.rows[2:]  # others still list what it showed; here these two are duplicates
    shown.rows += [world.row(50)]
    done = night(world)
    assert done.summary["status"] == "published", done.summary["error"]
    assert changes(done.summary) == {"a": (0, 0, 0), "b": (1, 0, 0)}
    assert done.posted == urls(world, 50)


def test_a_view_that_becomes_a_section_and_takes_over_pages_adds_and_removes_none(world: World) -> None:
    listed, shown = view_and_section(world)
    del shown.keys["view"]
    shown.rows[0]["updated"] = "2021-03-01"
    del listed.rows[:30]
    done = night(world)
    assert done.summary["status"] == "published", done.summary["error"]
    assert changes(done.summary) == {"a": (0, 0, 0), "b": (0, 0, 0)}
    assert done.posted == []


def test_pages_of_a_section_that_becomes_a_view_move_to_the_section_that_lists_them(world: World) -> None:
    listed, shown = view_and_section(world, site=False)
    del shown.keys["view"]
    night(world)
    shown.keys["view"] = True
    listed.rows += [dict(row) for row in shown.rows]
    world.pass_time(timedelta(hours=1))
    done = night(world)
    assert done.summary["status"] == "published", done.summary["error"]
    assert changes(done.summary)["a"] == (0, 0, 0)
    assert done.posted == []


def test_engines_are_sent_pages_that_a_section_drops_when_it_becomes_a_view(world: World) -> None:
    listed, shown = view_and_section(world, site=False)
    del shown.keys["view"]
    night(world)
    world.site.keys["gates"] = {"max_drop": 1}
    shown.keys["view"] = True
    listed.rows.append(shown.rows.pop(0))
    del shown.rows[-2:]
    done = night(world)
    assert changes(done.summary) == {"a": (0, 0, 0), "b": (0, 0, 3)}
    assert set(done.summary["examples"]["b"]["removed"]) == set(urls(world, 89, 90))
    assert sorted(done.posted) == sorted(urls(world, 89, 90))


@pytest.mark.parametrize("how", ["held", "not read"])
def test_a_section_becomes_a_view_only_when_it_is_read(world: World, how: str) -> None:
    listed, shown = view_and_section(world, site=False)
    del shown.keys["view"]
    night(world)
    shown.keys |= {"view": True, "on_error": "keep"}
    shown.broken = how == "held"
    done = night(world, sections=["a"] if how == "not read" else [])
    assert done.summary["status"] == ("partial" if how == "held" else "unchanged"), done.summary["error"]
    assert done.summary["views"] == []
    shown.broken = False
    listed.rows += [dict(row) for row in shown.rows]
    done = night(world)
    assert done.summary["views"] == ["b"]
    assert changes(done.summary)["a"] == (0, 0, 0)
    assert done.posted == []


@pytest.mark.parametrize("view", ["at first", "in between"])
def test_a_rollback_past_a_section_that_became_a_view_counts_pages_outside_views(world: World, view: str) -> None:
    """Both releases have the same files; in one of them their pages belong to another section."""
    first, second = two_sections(world)
    ping(world)
    other = [dict(row) for row in first.rows]
    if view == "at first":
        first.keys, second.rows = {"view": True}, [*second.rows, *other]
    night(world)
    before = world.current()
    if view == "at first":
        first.keys, second.rows = {}, second.rows[:-9]
    else:
        first.keys, second.rows = {"view": True}, [*second.rows, *other]
    night(world)
    world.pass_time(timedelta(hours=1))
    done = world.roll_back(before)
    assert done.summary is not None
    assert changes(done.summary) == {"a": (0, 0, 0), "b": (0, 0, 0)}
    assert done.summary["views"] == (["a"] if view == "at first" else [])
    assert done.posted == []


def test_a_page_that_left_with_its_view_returns_with_its_date(world: World) -> None:
    _, shown = two_sections(world)
    shown.keys = {"view": True, "lastmod": {"fingerprint": ["body"], "until_changed": "updated"}}
    night(world)
    shown.rows[0]["body"] = "another"
    night(world)
    (dated,) = (entry.lastmod for entry in world.look().section("b")[1] if entry.loc == urls(world, 11)[0])
    gone = shown.rows.pop(0)
    del shown.keys["view"]
    night(world)
    shown.rows.append(gone)
    night(world)
    (now,) = (entry.lastmod for entry in world.look().section("b")[1] if entry.loc == urls(world, 11)[0])
    assert now == dated
