"""Finished runs: if a task of one is cleared or tried again, it does nothing and logs that.

The outcome of a run is stored for a year, much longer than its staging. Refused and failed runs don't count as
finished, because their tasks can be tried again.
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
"""Outcome of a finished run as text."""


def ended_run(key: str, environment: Environment) -> Attempt | None:
    """Return the record of the run at `key` (`<work>/<name>/runs/<run_id>`), or None if it isn't finished."""
    work = environment.open_storage(posixpath.dirname(posixpath.dirname(key)))
    found = read_attempt(work, posixpath.basename(key))
    return found if found is not None and found.status in _WORDS else None


def published_by(owner: str, since: datetime, site: Site, environment: Environment) -> Attempt | None:
    """Return the record of the finished run of a scheduler's run, dry runs excluded, or None.

    `since`: creation time of the scheduler's run. An earlier record belongs to another run of the same name.
    """
    since = since.replace(microsecond=0)  # as in records: a quick run ends within a second
    for found in read_attempts(open_work(site, environment)):
        own = found.owner == owner and found.status in _WORDS and not found.dry_run
        if own and datetime.fromisoformat(found.ended or found.now) >= since:
            return found
    return None


def tell_over(ended: Attempt, environment: Environment) -> None:
    """Log that a task of a run that has ended does nothing."""
    environment.label("already published" if not ended.dry_run else "already over")
    environment.log(
        f"run {ended.run_id} {_WORDS[ended.status]}, {ended.ended}: this task does nothing. "
        "To read the sources again, trigger a new run"
    )
