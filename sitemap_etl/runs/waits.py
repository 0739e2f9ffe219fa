"""Time that a scheduler waits for the sources of a run. Each check returns the time of the next one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from sitemap_etl.config import Site
from sitemap_etl.stages.arrival import not_yet
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.records import Options

LOOK_EVERY: Final = timedelta(minutes=5)
"""Between two looks: each costs a task, and so the seconds of its imports."""


def next_look(site: Site, options: Options, environment: Environment, *, began: datetime) -> datetime | None:
    """Return the time of the next check of the sources that a run waits for, or None if it need not wait.

    `began`: of the wait. What is not there at its end is for the plan to tell.
    """
    now = environment.clock()
    ends = []
    for name, waiting in not_yet(site, options, environment).items():
        if (end := began + waiting.wait) > now:
            environment.log(f"section {name}: waiting for its source until {end:%H:%M:%S} UTC: {waiting.why}")
            ends.append(end)
    return min(now + LOOK_EVERY, max(ends)) if ends else None
