"""Single runs of a simulated site, for tests of particular events."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.model.world import Done, Spec, World, path_of


def night(world: World, days: float = 1, **options: Any) -> Done:
    """Run the site this many days later, and return the summary."""
    world.pass_time(timedelta(days=days))
    world.write()
    done = world.run(**options)
    assert done.summary is not None, done.error
    return done


def ping(world: World, max_share: float = 1) -> None:
    world.site.keys["ping"] = {
        "indexnow": {
            "key": "${INDEXNOW_KEY}",
            "endpoint": world.endpoint,
            "patience": 0,
            "max_share": max_share,
        }
    }


def two_sections(world: World, **keys: Any) -> tuple[Spec, Spec]:
    """Put pages 1 to 9 in section a, 11 to 19 in section b."""
    for name, start in (("a", 1), ("b", 11)):
        world.specs[name] = Spec(name, rows=[world.row(number) for number in range(start, start + 9)], keys=dict(keys))
    return world.specs["a"], world.specs["b"]


def urls(world: World, *numbers: int) -> list[str]:
    return [world.origin + path_of(number) for number in numbers]
