"""The lease keeps other runs away only as long as its holder lives."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.dates import instant
from sitemap_etl.errors import Refused, Unavailable
from sitemap_etl.stages.run import Environment
from sitemap_etl.state.layout import LEASE
from sitemap_etl.state.lease import AnotherRun, leased, release_lease, renewing, take_lease
from sitemap_etl.state.records import Lease
from sitemap_etl.state.store import parse_document, put_document
from sitemap_etl.storage import PreconditionFailed, Storage, open_storage
from tests.support.sites import FIRST_NIGHT
from tests.support.storages import Clocked

HERE = socket.gethostname()


@pytest.fixture
def work(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "work"))


def held(work: Storage) -> Lease | None:
    stored = work.get(LEASE)
    return None if stored is None else parse_document(stored.data, Lease, LEASE)


def hold(work: Storage, *, host: str = "elsewhere", pid: int = 7, minutes: float = 5, owner: str = "") -> Lease:
    """The lease of another run."""
    work.delete(LEASE)
    until = work.now() + timedelta(minutes=minutes)
    lease = Lease("other", instant(work.now()), instant(until), host, pid, owner)
    put_document(work, LEASE, lease)
    return lease


def ended() -> int:
    """Return the id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_a_lease_has_its_holder_start_and_expiry(work: Storage) -> None:
    take_lease(work, "r1")
    lease = held(work)
    assert lease is not None
    assert (lease.run_id, lease.host, lease.pid, lease.owner) == ("r1", HERE, os.getpid(), "")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", lease.since)
    assert lease.until > lease.since
    take_lease(work, "r1", pid=5, owner="dag")
    again = held(work)
    assert again is not None
    assert (again.since, again.pid, again.owner) == (lease.since, 5, "dag")


def test_a_live_run_blocks_others_and_is_named(work: Storage) -> None:
    lease = hold(work)
    with pytest.raises(Refused) as error:
        take_lease(work, "r1")
    assert str(error.value) == (
        f"Another run is in progress: run other, since {lease.since} (process 7 on elsewhere). Its lease ends "
        f"{lease.until}. Nothing was done; try again after it has ended"
    )
    assert held(work) == lease


@pytest.mark.parametrize(
    ("host", "pid", "minutes", "free"),
    [
        ("elsewhere", 7, 5, False),
        ("elsewhere", 7, -1, True),
        (HERE, 0, 5, False),
        (HERE, 2**40, 5, True),
    ],
)
def test_a_lease_is_free_if_it_expired_or_its_local_process_has_ended(
    host: str, pid: int, minutes: float, free: bool, work: Storage
) -> None:
    hold(work, host=host, pid=pid, minutes=minutes)
    if free:
        take_lease(work, "r1")
        assert held(work).run_id == "r1"  # type: ignore[union-attr]
    else:
        with pytest.raises(Refused):
            take_lease(work, "r1")


def test_a_live_process_of_this_host_keeps_its_lease(work: Storage) -> None:
    for living in (os.getppid(), 1):  # the first process is somebody else's, unless everything is
        hold(work, host=HERE, pid=living)
        with pytest.raises(Refused):
            take_lease(work, "r1")
    for gone in (ended(), os.getpid()):  # this very process is at r1 now
        hold(work, host=HERE, pid=gone)
        take_lease(work, "r1")
    hold(work, host="elsewhere", pid=ended())
    with pytest.raises(Refused):
        take_lease(work, "r1")


def test_a_zombie_process_has_lost_its_lease(work: Storage) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    hold(work, host=HERE, pid=pid)
    take_lease(work, "r1")
    os.waitpid(pid, 0)


def test_a_new_holder_starts_a_new_lease_time(work: Storage) -> None:
    lease = replace(hold(work, minutes=-1), since="2020-01-01T00:00:00Z")
    work.delete(LEASE)
    put_document(work, LEASE, lease)
    take_lease(work, "r1")
    assert held(work).since > "2021"  # type: ignore[union-attr]


def test_only_a_run_that_is_known_to_have_ended_loses_its_lease(work: Storage) -> None:
    lease = hold(work, owner="dag 2026-11-22")
    with pytest.raises(AnotherRun, match=r"\(dag 2026-11-22\)"):
        take_lease(work, "r1", owner="dag 2026-11-22")
    assert take_lease(work, "r1", owner="dag 2026-11-23", gives_way=lambda other: other == lease) == lease
    assert take_lease(work, "r1", owner="dag 2026-11-23") is None  # it was renewed
    assert held(work).owner == "dag 2026-11-23"  # type: ignore[union-attr]


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"format":2,"run_id":"x"}'])
def test_an_unreadable_lease_counts_as_expired(data: bytes, work: Storage) -> None:
    work.put(LEASE, data)
    take_lease(work, "r1")
    assert held(work).run_id == "r1"  # type: ignore[union-attr]


@pytest.mark.parametrize("until", ["soon", "2999-01-01T00:00:00"])
def test_a_lease_without_a_time_counts_as_expired(until: str, work: Storage) -> None:
    put_document(work, LEASE, Lease("other", "", until, "elsewhere", 7))
    take_lease(work, "r1")
    assert held(work).run_id == "r1"  # type: ignore[union-attr]


class Raced:
    """A store in which another run writes its lease just before ours."""

    def __init__(self, inner: Storage, lease: Lease | None) -> None:
        self.inner, self.lease = inner, lease

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def put(self, key: str, data: Any, **options: Any) -> Any:
        if self.lease is None:
            raise PreconditionFailed("gone again", None)  # type: ignore[arg-type]
        put_document(self.inner, LEASE, self.lease)
        return self.inner.put(key, data, **options)


@pytest.mark.parametrize(("run_id", "free"), [("other", False), ("r1", True)])
def test_of_two_simultaneous_attempts_one_gets_the_lease(run_id: str, free: bool, work: Storage) -> None:
    lease = Lease(run_id, "2026-11-01T02:00:00Z", "2999-01-01T00:00:00Z", "elsewhere", 7, "dag")
    raced: Any = Raced(work, lease)
    if free:
        take_lease(raced, "r1", owner="dag")
    else:
        with pytest.raises(Refused, match=r"^Another run is in progress: run other, since .*\. Nothing was done"):
            take_lease(raced, "r1", owner="dag")
    assert held(work) == lease


def test_a_lease_is_released_only_by_its_own_run(work: Storage) -> None:
    lease = hold(work)
    release_lease(work, "r1")
    assert held(work) == lease
    release_lease(work, "other")
    assert held(work) is None
    release_lease(work, "other")
    hold(work, owner="dag")
    release_lease(work, "r1", owner="dag")
    assert held(work) is None


def test_a_lease_expires_by_the_clock_of_the_store(tmp_path: Path) -> None:
    clock = Clocked(FIRST_NIGHT)
    work = clock.around(Environment()).open_storage(str(tmp_path / "work"))
    take_lease(work, "r1", pid=0)
    lease = held(work)
    assert lease is not None
    assert (lease.since, lease.until) == ("2026-11-01T02:00:00Z", "2026-11-01T02:20:00Z")
    clock.time += timedelta(minutes=20, seconds=-1)
    with pytest.raises(Refused):
        take_lease(work, "r2")
    clock.time += timedelta(seconds=1)
    take_lease(work, "r2")


def test_a_lease_is_renewed_during_long_work(work: Storage) -> None:
    renewed = threading.Event()

    def renew() -> None:
        take_lease(work, "a")
        renewed.set()
        raise Unavailable("the store is away, this once")  # the next time it may be there again

    with renewing(renew, every=timedelta(milliseconds=5)):
        assert renewed.wait(10)
        renewed.clear()
        assert renewed.wait(10)
    renewed.clear()
    assert not renewed.wait(0.1)


def test_a_lease_is_released_even_if_the_work_fails(work: Storage) -> None:
    def fail() -> None:
        lease = held(work)
        assert lease is not None
        assert lease.run_id == "a"
        raise Unavailable("the store is away")

    with pytest.raises(Unavailable), leased(work, "a"):
        fail()
    assert held(work) is None
