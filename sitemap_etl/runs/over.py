"""Runs that are over: a task of one that is cleared, or tried once more, does nothing and says so.

What became of a run is remembered for a year, much longer than what it staged. A run that was refused or that failed
is not over in this sense: its tasks may be tried again.
"""

from __future__ import annotations

import posixpath
from datetime import datetime
from typing import Final

from sitemap_etl.config import Site
from sitemap_etl.stages.run import Environment, open_work
from sitemap_etl.state.attempts import read_attempt, read_attempts
from sitemap_etl.state.records import Attempt

_WORDS: Final = {
    "published": "was published already",
    "partial": "was published already",
    "unchanged": "found already that nothing had changed",
    "dry_run": "was a dry run that is over",
}
"""What became of a run that is over, in words."""


def ended_run(key: str, environment: Environment) -> Attempt | None:
    """What became of the run at `key` (`<work>/<name>/runs/<run_id>`); None where it is not over, or not remembered."""
    work = environment.open_storage(posixpath.dirname(posixpath.dirname(key)))
    found = read_attempt(work, posixpath.basename(key))
    return found if found is not None and found.status in _WORDS else None


def published_by(owner: str, since: datetime, site: Site, environment: Environment) -> Attempt | None:
    """What became of the run that a scheduler's run has brought to its end; None where there is none, or a dry one.

    `since`: for when the scheduler made its run. What ended before was another one, of the same name.
    """
    since = since.replace(microsecond=0)  # as what is remembered: a quick run ends within the second
    for found in read_attempts(open_work(site, environment)):
        own = found.owner == owner and found.status in _WORDS and not found.dry_run
        if own and datetime.fromisoformat(found.ended or found.now) >= since:
            return found
    return None


def tell_over(ended: Attempt, environment: Environment) -> None:
    """Say that there is nothing to do for a task of a run that is over."""
    environment.label("already published" if not ended.dry_run else "already over")
    environment.log(
        f"run {ended.run_id} {_WORDS[ended.status]}, {ended.ended}: this task does nothing. "
        "To read the sources again, trigger a new run"
    )
