"""What became of every run: a small record each, kept for a year.

They are for people. No run rests on them, so one that is damaged, or of a newer release, is passed over.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Final

from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.state import layout
from sitemap_etl.state.records import Attempt
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import Storage

KEPT: Final = timedelta(days=365)
_AT_ONCE: Final = 8
"""Records are small, and a bucket answers each after a while."""


def put_attempt(work: Storage, attempt: Attempt) -> None:
    """Keep what became of a run, in place of what was known of it."""
    put_document(work, layout.attempt(attempt.run_id), attempt)


def read_attempt(work: Storage, run_id: str) -> Attempt | None:
    """What became of a run; None where that is not known."""
    try:
        found = read_document(work, layout.attempt(run_id), Attempt)
    except (DamagedState, Refused):
        return None
    return None if found is None else found[0]


def read_attempts(work: Storage, most: int | None = None) -> list[Attempt]:
    """The last runs, newest first by the clock of the store: all that are remembered, or at most so many."""
    stats = [stat for stat in work.list(layout.ATTEMPTS) if stat.key.endswith(".json")]
    newest = sorted(stats, key=lambda stat: (stat.modified, stat.key), reverse=True)[:most]
    ids = [stat.key.removeprefix(layout.ATTEMPTS).removesuffix(".json") for stat in newest]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda run_id: read_attempt(work, run_id), ids)
        return [attempt for attempt in found if attempt is not None]
