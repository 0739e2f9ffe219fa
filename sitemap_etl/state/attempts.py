"""Store the history of runs: one small record per run, kept for a year.

People read them, and retried tasks check them to see if their run has ended. No release depends on them, so a damaged
record, or one of a newer version, counts as missing.
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
"""Records to read in parallel: they are small, and each request to a bucket takes a while."""


def put_attempt(work: Storage, attempt: Attempt) -> None:
    """Store the record of a run in place of its earlier one. Information about sent alerts is kept."""
    known = read_attempt(work, attempt.run_id)
    if known is not None:
        attempt = replace(attempt, alerted=known.alerted, alerted_status=known.alerted_status)
    put_document(work, layout.attempt(attempt.run_id), attempt)


def claim_alert(work: Storage, run_id: str, status: AttemptStatus, now: str) -> bool:
    """Return True if the caller has to send the alert about the end of a run.

    The result is True once per run, and once more if the run was repaired or fails in another way. If several callers
    ask at the same moment, only one gets True. Without a readable record the result is always True.
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
            return False  # None: an early version sent the alert and did not record its status
        told = replace(known, alerted=now, alerted_status=status)
        try:
            put_document(work, layout.attempt(run_id), told, expect=etag)
        except PreconditionFailed:
            continue
        return True
    return False


def read_attempt(work: Storage, run_id: str) -> Attempt | None:
    """Return the record of a run, or None if it is missing or unreadable."""
    try:
        found = read_document(work, layout.attempt(run_id), Attempt)
    except (DamagedState, Refused):
        return None
    return None if found is None else found[0]


def read_attempts(work: Storage, most: int | None = None) -> list[Attempt]:
    """Return the records of the last runs, newest first by the store's clock: all of them, or at most `most`."""
    stats = [stat for stat in work.list(layout.ATTEMPTS) if stat.key.endswith(".json")]
    newest = sorted(stats, key=lambda stat: (stat.modified, stat.key), reverse=True)[:most]
    ids = [stat.key.removeprefix(layout.ATTEMPTS).removesuffix(".json") for stat in newest]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda run_id: read_attempt(work, run_id), ids)
        return [attempt for attempt in found if attempt is not None]


def last_good(attempts: Iterable[Attempt]) -> Attempt | None:
    """Return the most recent successful run, or None. `attempts`: newest first."""
    return next((attempt for attempt in attempts if attempt.good), None)
