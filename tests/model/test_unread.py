"""Sections that a run does not read, in the model and in the product: pages leave them for earlier sections."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.model.story import Story
from tests.model.world import Spec, World
from tests.support.examples import ALL

DAY = timedelta(days=1)
CLUSTER = {"group": "item", "hreflang": "lang", "cluster": "shop"}
KEYS: list[dict[str, Any]] = [
    {"shards": {"rows": 6}, "formats": ["xml", "text"], "feed": {"formats": ["rss"], "items": 3}},
    {"shards": {"rows": 10}, "alternates": CLUSTER},
    {"lastmod": {"fingerprint": ["body"], "first_seen": True}, "shards": {"rows": 7}},
    {"lastmod": "none", "alternates": CLUSTER},
]


@pytest.fixture(params=range(len(KEYS)))
def story(request: pytest.FixtureRequest, world: World) -> Story:
    """Pages 0 to 9 in section a, 10 to 39 in b, 40 to 49 in c; published."""
    keys = KEYS[request.param]
    world.site.keys["recent"] = "3d"
    for name, numbers in (("a", range(10)), ("b", range(10, 40)), ("c", range(40, 50))):
        own = {**keys, "gates": {"min_urls": 0}, "on_error": "keep"}
        world.specs[name] = Spec(name, rows=[world.row(number) for number in numbers], keys=own)
    story = Story(world)
    story.night(DAY, full=False, ping=False)
    return story


def copied(story: Story, to: str, numbers: list[int]) -> None:
    """Add some rows of b to a section."""
    rows = story.world.specs["b"].rows
    for number in numbers:
        story.world.ids += 1
        story.world.specs[to].rows.append({**rows[number], "id": story.world.ids})
    story.edited = True


def run_alone(story: Story, *sections: str, **options: Any) -> None:
    story._pass(DAY)
    story._night(only=sections, **options)
    story.edited = True


@pytest.mark.parametrize(("numbers", "full"), [([0, 7, 8, 29], False), ([3], True), (list(range(30)), False)])
def test_pages_leave_a_section_that_is_not_read_and_return(story: Story, numbers: list[int], full: bool) -> None:
    copied(story, "a", numbers)
    run_alone(story, "a", full=full)
    copied(story, "c", numbers[:1])
    run_alone(story, "c")
    story.quiet_night(DAY)
    del story.world.specs["a"].rows[10:]
    story.edited = True
    story.quiet_night(DAY)


def test_pages_leave_a_section_whose_source_is_broken(story: Story) -> None:
    copied(story, "a", [1, 2, 20])
    story.break_source(1, keep=True)
    story.night(DAY, full=False, ping=False)
    story.mend_source(1)
    story.quiet_night(DAY)


def test_sections_can_be_reordered_while_one_is_not_read(story: Story) -> None:
    copied(story, "c", [4, 5])
    story.night(DAY, full=False, ping=False)
    specs = story.world.specs
    story.world.specs = {name: specs[name] for name in ("c", "b", "a")}
    story.edited = True
    run_alone(story, "c")
    story.quiet_night(DAY)


@pytest.mark.thorough
@pytest.mark.parametrize("since", ["", "/intent-"])
@pytest.mark.parametrize("writes", range(0, 12, 3 if ALL else 6))
def test_a_killed_run_unlists_no_page_of_a_section_that_is_not_read(story: Story, writes: int, since: str) -> None:
    copied(story, "a", [0, 7, 8, 29])
    run_alone(story, "a", kill=(writes, since))
    story._pass(timedelta(minutes=21))
    run_alone(story, "a")
    story.quiet_night(DAY)
