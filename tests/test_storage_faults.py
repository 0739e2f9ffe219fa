"""A bucket behind a faulty connection: each fault at each request leaves old or new content, and is reported."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest

from sitemap_etl.errors import Unavailable
from sitemap_etl.storage import ABSENT, Storage, open_storage, put_verified
from tests.support.examples import ALL
from tests.support.fixtures import reachable
from tests.support.proxy import FAULTS, Fault, FaultProxy, fault_proxy
from tests.support.s3 import S3Server

pytest_plugins = ["tests.support.fixtures"]

OLD, NEW = b"the old content", b"the new content, longer"
BEFORE = {"old": OLD, "other": b"1"}
REPLACED = {**BEFORE, "old": NEW}
REMOVED = {"other": b"1"}

OPERATIONS: dict[str, tuple[Callable[[Storage, str], object], object, dict[str, bytes]]] = {
    "get": (lambda storage, known: storage.get("old").data, OLD, BEFORE),
    "get nothing": (lambda storage, known: storage.get("new"), None, BEFORE),
    "read": (lambda storage, known: storage.read("old", 4, 3), OLD[4:7], BEFORE),
    "stat": (lambda storage, known: storage.stat("old").size, len(OLD), BEFORE),
    "stat nothing": (lambda storage, known: storage.stat("new"), None, BEFORE),
    "list": (lambda storage, known: sorted(stat.key for stat in storage.list()), ["old", "other"], BEFORE),
    "put": (lambda storage, known: storage.put("old", NEW).size, len(NEW), REPLACED),
    "put absent": (
        lambda storage, known: storage.put("new", NEW, expect=ABSENT).size,
        len(NEW),
        {**BEFORE, "new": NEW},
    ),
    "put known": (lambda storage, known: storage.put("old", NEW, expect=known).size, len(NEW), REPLACED),
    "put verified": (lambda storage, known: put_verified(storage, "old", NEW, expect=known).size, len(NEW), REPLACED),
    "delete": (lambda storage, known: storage.delete("old"), True, REMOVED),
    "delete known": (lambda storage, known: storage.delete("old", expect=known), True, REMOVED),
}
"""What is done, what it answers, what the bucket holds afterwards."""
TRIES = 6
ONCE_MORE = 3
"""Requests that one fault may cost: the same again, a look at what its first try did, and what follows from that."""


def md5(data: bytes) -> str:
    """Return the etag that S3 gives to an object that was put in one request."""
    return hashlib.md5(data).hexdigest()


class Line:
    """A storage behind its own proxy, and the bucket behind it as a plain client sees it."""

    def __init__(self, client: Any, proxy: FaultProxy) -> None:
        self.proxy = proxy
        self.client = client
        self.bucket = f"line-{uuid.uuid4().hex}"
        client.create_bucket(Bucket=self.bucket)
        self.storage = open_storage(f"s3://{self.bucket}", endpoint=proxy.endpoint)

    def begin(self) -> str:
        """Return the etag of `old`, with the bucket as it is before each operation."""
        there = self.contents()
        for key in there.keys() - BEFORE.keys():
            self.client.delete_object(Bucket=self.bucket, Key=key)
        for key, data in BEFORE.items():
            if there.get(key) != data:
                self.client.put_object(Bucket=self.bucket, Key=key, Body=data)
        self.proxy.reset()
        return md5(OLD)

    def answer(self, run: Callable[[Storage, str], object], known: str) -> object:
        """Return the result without faults, retried: a busy machine may exceed the short timeout here."""
        while True:
            self.proxy.reset()
            with suppress(Unavailable):
                return run(self.storage, known)

    def contents(self) -> dict[str, bytes]:
        """Return the content, identified by etag: one request for all."""
        known = {md5(data): data for data in (OLD, NEW, *BEFORE.values())}
        found = self.client.list_objects_v2(Bucket=self.bucket).get("Contents", [])
        return {entry["Key"]: known.get(entry["ETag"].strip('"'), b"other bytes") for entry in found}


def each_fault(s3: S3Server, operation: str, work: Callable[[Line, Fault, int, int], None]) -> None:
    """Call `work` for each fault at each request of the operation: the faults in parallel, because they mostly wait.

    It gets the number of the request, and the number of requests without faults.
    """

    run, expected, _ = OPERATIONS[operation]
    client = s3.client()

    def undisturbed(line: Line) -> int:
        """Return the requests of the operation without faults."""
        known = line.begin()
        assert line.answer(run, known) in (expected, False)
        return len(line.proxy.seen)

    def all_requests(fault: Fault) -> None:
        with fault_proxy(s3.endpoint) as proxy:
            line = Line(client, proxy)
            undisturbed(line)  # it looks once whether the bucket is there
            for number in range(1, requests + 1):
                work(line, fault, number, requests)

    with fault_proxy(s3.endpoint) as proxy:
        line = Line(client, proxy)
        requests = min(undisturbed(line) for _ in range(4))  # a slow request is sent again
    assert requests >= 1
    with ThreadPoolExecutor(len(FAULTS)) as pool:
        list(pool.map(all_requests, FAULTS))


@pytest.fixture(params=["moto", "seaweedfs"] if ALL else ["moto"])
def behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> S3Server:
    """The server behind the proxy. The faults are the proxy's: a second server repeats them with ALL=1."""
    return reachable(request.getfixturevalue(request.param), monkeypatch)


@pytest.mark.parametrize(
    "operation",
    [pytest.param(one, marks=[] if one in ("put", "list") else [pytest.mark.thorough]) for one in OPERATIONS],
)
def test_one_fault_at_any_request_is_retried(operation: str, behind: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request in turn fails once: the operation succeeds, and has its documented result.

    If the machine is so busy that another request took too long as well, it is retried.
    """
    monkeypatch.setenv("SITEMAP_ETL_S3_TIMEOUT", "0.5")
    run, expected, after = OPERATIONS[operation]

    def work(line: Line, fault: Fault, number: int, requests: int) -> None:
        for _ in range(TRIES):
            known = line.begin()
            line.proxy.at(number, fault)
            answer: object = Unavailable
            with suppress(Unavailable):
                answer = run(line.storage, known)
            seen = list(line.proxy.seen)
            if len(seen) <= requests + ONCE_MORE:
                break
        assert len(seen) <= requests + ONCE_MORE, [str(each) for each in seen]
        assert fault in [each.fault for each in seen]
        # A delete whose answer was lost finds nothing at its second try: gone, by us or not.
        assert answer == expected or (expected is True and fault.applied), [str(each) for each in seen]
        assert line.contents() == after

    each_fault(behind, operation, work)


@pytest.mark.thorough
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_persistent_fault_is_reported_as_unavailable_and_leaves_old_or_new_content(
    operation: str, behind: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests from each one on fail; a retry without faults has the same result as an undisturbed try."""
    monkeypatch.setenv("SITEMAP_ETL_S3_TIMEOUT", "0.5")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    run, expected, after = OPERATIONS[operation]

    def work(line: Line, fault: Fault, number: int, _requests: int) -> None:
        known = line.begin()
        line.proxy.at(number, fault, times=1_000)
        try:
            answer = run(line.storage, known)
        except Unavailable as error:
            told = (error.__cause__, str(error))
        else:
            told = None
        if told:
            assert told[0] is not None
            assert f"s3://{line.bucket}" in told[1]
            assert line.contents() in (BEFORE, after)
        else:
            # Where there is no body to cut, the part of the answer that arrived may say all.
            assert fault.kind == "truncate"
            assert answer == expected
            assert line.contents() == after
        assert line.answer(run, known) in (expected, False)
        assert line.contents() == after

    each_fault(behind, operation, work)
