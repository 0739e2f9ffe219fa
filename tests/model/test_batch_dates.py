"""Dates of one batch job, by the model and by the product."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.model.story import Story
from tests.model.world import Spec, World


@pytest.mark.parametrize("count", [1_100, 999])
@pytest.mark.parametrize("gates", [{}, {"max_same_hour": 0.5}, {"max_same_hour": 1}])
@pytest.mark.parametrize("share", [0.4, 0.9])
def test_dates_of_one_batch_job_are_refused_or_a_warning(
    world: World, count: int, gates: dict[str, Any], share: float
) -> None:
    world.site.keys["gates"] |= gates
    world.specs["a"] = spec = Spec("a", rows=[world.row(number) for number in range(count)])
    spec.keys["lastmod"] = "first"
    for number, row in enumerate(spec.rows):
        row["first"] = f"{world.now - timedelta(hours=number + 2):%Y-%m-%dT%H:%M:%SZ}"
    story = Story(world)
    story.night(timedelta(days=1), full=False, ping=False)
    begin = world.now.replace(minute=55, second=0)
    for number, row in enumerate(spec.rows[: int(count * share)]):
        row["first"] = f"{begin + timedelta(seconds=number):%Y-%m-%dT%H:%M:%SZ}"
    story.edited = True
    story.night(timedelta(days=1), full=False, ping=False)
    refused = count >= 1_000 and share > 0.5 and gates.get("max_same_hour") == 0.5
    assert (story.refused != ()) == refused
    if refused:
        story.forced(timedelta(hours=1))
        assert story.refused == ()
