"""Advisory lock that stops a second run early.

The lease only saves work: publishing itself is protected by the claim (`publish.claim`). So an unreadable lease counts
as expired.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from sitemap_etl.dates import instant
from sitemap_etl.errors import DamagedState, Refused, SitemapEtlError, Unavailable
from sitemap_etl.state.layout import LEASE
from sitemap_etl.state.records import Lease
from sitemap_etl.state.store import parse_document, put_document
from sitemap_etl.storage import ABSENT, Expect, PreconditionFailed, Storage

LEASE_TIME: Final = timedelta(minutes=20)
"""Duration of a lease. A run that does not renew it in time loses it."""
_TRIES: Final = 3
"""Attempts to take the lease while other runs change it."""


class AnotherRun(Refused):
    """Another run holds the lease."""


def _nobody(_lease: Lease) -> bool:
    return False


def take_lease(
    work: Storage,
    run_id: str,
    *,
    pid: int | None = None,
    owner: str = "",
    gives_way: Callable[[Lease], bool] = _nobody,
) -> Lease | None:
    """Take the lease or renew it. Return the lease of another run that it was taken from, or None.

    A holder loses the lease when its time is over or its process on this host is gone. `gives_way`: returns True if
    another holder has ended too. Raise AnotherRun if another live run holds the lease.
    """
    for _ in range(_TRIES):
        now = work.now()
        held, expect = _held(work)
        mine = held is not None and held.run_id == run_id
        other = None if mine else held
        if other is not None and _is_alive(other, now) and not gives_way(other):
            raise AnotherRun(
                f"Another run is in progress: {other.describe()}. Its lease ends {other.until}. Nothing was done; "
                "try again after it has ended"
            )
        since = held.since if held is not None and mine else instant(now)
        until = instant(now + LEASE_TIME)
        lease = Lease(run_id, since, until, socket.gethostname(), os.getpid() if pid is None else pid, owner)
        try:
            put_document(work, LEASE, lease, expect=expect)
        except PreconditionFailed:
            faster, _ = _held(work)
            if faster is None or faster.run_id != run_id:
                continue
            # Another task of this run renewed it at the same moment.
        return other
    raise AnotherRun("Another run is in progress. Nothing was done; try again after it has ended")


def release_lease(work: Storage, run_id: str, *, owner: str = "") -> None:
    """Release the lease if this run still holds it.

    If the store does not allow it, the lease expires later. The result of the run is not affected.
    """
    with suppress(Refused, Unavailable):
        held, expect = _held(work)
        if held is not None and held.is_of(run_id, owner) and isinstance(expect, str):
            work.delete(LEASE, expect=expect)


@contextmanager
def leased(work: Storage, run_id: str) -> Iterator[None]:
    """Hold the lease within the block. Raise AnotherRun if another live run holds it."""
    take_lease(work, run_id)
    try:
        with renewing(lambda: take_lease(work, run_id)):
            yield
    finally:
        release_lease(work, run_id)


@contextmanager
def renewing(renew: Callable[[], object], every: timedelta = LEASE_TIME / 4) -> Iterator[None]:
    """Renew the lease periodically in a thread within the block, for work that can take longer than a lease.

    Errors are ignored. The run notices a lost lease when it renews the lease itself, or publishes.
    """
    over = threading.Event()

    def renew_until_then() -> None:
        while not over.wait(every.total_seconds()):
            with suppress(SitemapEtlError, OSError):
                renew()

    thread = threading.Thread(target=renew_until_then, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def holder(work: Storage) -> Lease | None:
    """Return the lease of a run in progress, or None."""
    held, _ = _held(work)
    return held if held is not None and _is_alive(held, work.now()) else None


def _held(work: Storage) -> tuple[Lease | None, Expect]:
    """Return the readable lease or None, and the condition for replacing it."""
    stored = work.get(LEASE)
    if stored is None:
        return None, ABSENT
    try:
        lease = parse_document(stored.data, Lease, work.url_of(LEASE))
        if datetime.fromisoformat(lease.until).tzinfo is None:
            return None, stored.stat.etag
    except (DamagedState, ValueError):
        return None, stored.stat.etag
    return lease, stored.stat.etag


def _is_alive(lease: Lease, now: datetime) -> bool:
    return datetime.fromisoformat(lease.until) > now and not _is_gone(lease)


def _is_gone(lease: Lease) -> bool:
    """Return True if the holder was a process of this host that no longer exists."""
    if lease.host != socket.gethostname():
        return False
    if lease.pid == os.getpid():
        return True
    try:
        os.kill(lease.pid, 0)  # 0, which is not a process, is this one's group: it is there
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it is somebody else's
        return False
    return _is_zombie(lease.pid)


def _is_zombie(pid: int) -> bool:
    """Return True if the process was killed, and its parent has not asked how it ended. Containers keep such ones."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace")
    except OSError:  # it is gone, or this is not Linux
        return False
    return status.rpartition(")")[2].split()[0] == "Z"
