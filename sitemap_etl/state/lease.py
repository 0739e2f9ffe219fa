"""The lease: who is at a site, so that two runs spare each other the same work."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from sitemap_etl.dates import instant
from sitemap_etl.errors import Refused
from sitemap_etl.state.store import dumps
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage

LEASE: Final = "state/lease.json"
LEASE_TIME: Final = timedelta(minutes=20)
"""How long a run that gives no sign of life keeps others from starting."""


@dataclass(frozen=True)
class Lease:
    """Who is at this site, since when, until when (by the store's clock)."""

    run_id: str
    since: str
    until: str
    host: str
    pid: int
    owner: str = ""

    def describe(self) -> str:
        who = self.owner or f"process {self.pid} on {self.host}"
        return f"run {self.run_id}, since {self.since} ({who})"

    def is_of(self, run_id: str, owner: str) -> bool:
        """Whether this is the run's own lease, or that of an earlier try of it."""
        return self.run_id == run_id or (owner != "" and self.owner == owner)


def take_lease(work: Storage, run_id: str, *, pid: int | None = None, owner: str = "") -> None:
    """Take the lease, or renew it. Raises Refused where another live run holds it.

    It only spares two runs the same work: what is published rests on the claim. A holder whose time is
    over, or whose process on this host is gone, has lost it.
    """
    now = work.now()
    stored = work.get(LEASE)
    held = None if stored is None else Lease(**json.loads(stored.data))
    mine = held is not None and held.is_of(run_id, owner)
    if held is not None and not mine and datetime.fromisoformat(held.until) > now and not _is_gone(held):
        raise Refused(
            f"Another run is under way: {held.describe()}. Its lease ends {held.until}. Nothing was done; "
            "start again when it is through"
        )
    since = held.since if held is not None and mine else instant(now)
    pid = os.getpid() if pid is None else pid
    lease = Lease(run_id, since, instant(now + LEASE_TIME), socket.gethostname(), pid, owner)
    body = dumps({**asdict(lease)})
    try:
        work.put(LEASE, body, content_type="application/json", expect=ABSENT if stored is None else stored.stat.etag)
    except PreconditionFailed:
        stored = work.get(LEASE)
        other = None if stored is None else Lease(**json.loads(stored.data))
        if other is not None and other.is_of(run_id, owner):
            return  # another task of this run renewed it at the same moment
        who = "another run" if other is None else other.describe()
        raise Refused(f"Another run is under way: {who}. Nothing was done; start again when it is through") from None


def release_lease(work: Storage, run_id: str, *, owner: str = "") -> None:
    """Give the lease back, if it is still this run's."""
    stored = work.get(LEASE)
    if stored is not None and Lease(**json.loads(stored.data)).is_of(run_id, owner):
        try:
            work.delete(LEASE, expect=stored.stat.etag)
        except PreconditionFailed:
            return


def _is_gone(lease: Lease) -> bool:
    """Whether the holder was a process of this host that is no longer there."""
    if lease.host != socket.gethostname() or lease.pid == 0:
        return False
    if lease.pid == os.getpid():
        return True
    return not Path(f"/proc/{lease.pid}").exists() if Path("/proc").is_dir() else not _answers(lease.pid)


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
