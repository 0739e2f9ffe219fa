"""What the tests of the model share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.world import World


@pytest.fixture
def world() -> Iterator[World]:
    world = World()
    world.site.keys["gates"] = {"max_drop": 1, "max_growth": 99}
    yield world
    world.close()
