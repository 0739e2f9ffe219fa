"""What became of every run: a small record each, kept for a year.

They are for people, and tell tasks that are tried again whether their run is over. No set rests on them, so one that is
damaged, or of a newer release, is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Final

from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.state import layout
from sitemap_etl.state.records import Attempt, AttemptStatus
from sitemap_etl.state.store import put_document, read_document
from sitemap_etl.storage import PreconditionFailed, Storage

KEPT: Final = timedelta(days=365)
_TRIES: Final = 5
_AT_ONCE: Final = 8
"""Records are small, and a bucket answers each after a while."""


def put_attempt(work: Storage, attempt: Attempt) -> None:
    """Keep what became of a run, in place of what was known of it; but for what people were told of it."""
    known = read_attempt(work, attempt.run_id)
    if known is not None:
        attempt = replace(attempt, alerted=known.alerted, alerted_status=known.alerted_status)
    put_document(work, layout.attempt(attempt.run_id), attempt)


def claim_alert(work: Storage, run_id: str, status: AttemptStatus, now: str) -> bool:
    """Whether the caller is the one to tell people that a run ended so.

    True once where a run is remembered, and once more where it was repaired or fails otherwise; true for runs that are
    not. Of several that ask at the same moment one is.
    """
    for _ in range(_TRIES):
        try:
            found = read_document(work, layout.attempt(run_id), Attempt)
        except (DamagedState, Refused):
            return True
        if found is None:
            return True
        known, etag = found
        if known.alerted is not None and known.alerted_status in (None, status):
            return False  # None: told by a release that did not keep what
        told = replace(known, alerted=now, alerted_status=status)
        try:
            put_document(work, layout.attempt(run_id), told, expect=etag)
        except PreconditionFailed:
            continue
        return True
    return False


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


def last_good(attempts: Iterable[Attempt]) -> Attempt | None:
    """Of runs, newest first, the last that did everything that it was to do."""
    return next((attempt for attempt in attempts if attempt.good), None)
