"""A bucket behind a line that goes wrong: each fault at each request leaves the old or the new, and says so."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sitemap_etl.errors import SitemapEtlError, Unavailable
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage, open_storage, put_verified
from tests.support.fixtures import bucket, moto, proxy, s3  # noqa: F401 (fixtures)
from tests.support.proxy import (
    CORRUPT,
    ERROR,
    FAULTS,
    RESET,
    RESET_AFTER,
    SLOW_DOWN,
    TIMEOUT,
    TIMEOUT_AFTER,
    TRUNCATE,
    Fault,
    FaultProxy,
)

OLD, NEW = b"the old content", b"the new content, longer"
KEYS = ("old", "other")


@pytest.fixture
def storage(proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A bucket behind the proxy, with an object in it; boto3 tries twice."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    storage = open_storage(f"s3://{bucket}/p")
    storage.put("old", OLD)
    storage.put("other", b"1")
    proxy.reset()
    return storage


def etag(storage: Storage) -> str:
    return storage.stat("old").etag


OPERATIONS: dict[str, Callable[[Storage, str], object]] = {
    "get": lambda storage, known: storage.get("old").data,
    "get nothing": lambda storage, known: storage.get("new"),
    "read": lambda storage, known: storage.read("old", 4, 3),
    "stat": lambda storage, known: storage.stat("old").size,
    "stat nothing": lambda storage, known: storage.stat("new"),
    "list": lambda storage, known: [stat.key for stat in storage.list()],
    "put": lambda storage, known: storage.put("old", NEW).size,
    "put absent": lambda storage, known: storage.put("new", NEW, expect=ABSENT).size,
    "put known": lambda storage, known: storage.put("old", NEW, expect=known).size,
    "put verified": lambda storage, known: put_verified(storage, "old", NEW, expect=known).size,
    "delete": lambda storage, known: storage.delete("old"),
    "delete known": lambda storage, known: storage.delete("old", expect=known),
}
EXPECTED = {
    "get": OLD,
    "get nothing": None,
    "read": OLD[4:7],
    "stat": len(OLD),
    "stat nothing": None,
    "list": list(KEYS),
    "put": len(NEW),
    "put absent": len(NEW),
    "put known": len(NEW),
    "put verified": len(NEW),
    "delete": True,
    "delete known": True,
}


def contents(s3: object, bucket: str) -> dict[str, bytes]:
    """What is in the bucket, looked at past the proxy and the code under test."""
    client = s3.client()
    found = client.list_objects_v2(Bucket=bucket).get("Contents", [])
    return {entry["Key"]: client.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read() for entry in found}


def states(operation: str) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """The bucket before and after the operation."""
    before = {"p/old": OLD, "p/other": b"1"}
    if operation == "put absent":
        return before, {**before, "p/new": NEW}
    if operation.startswith("put"):
        return before, {**before, "p/old": NEW}
    if operation.startswith("delete"):
        return before, {"p/other": b"1"}
    return before, before


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_one_fault_at_any_request_is_got_over(
    operation: str, fault: Fault, storage: Storage, proxy: FaultProxy, s3: object, bucket: str
) -> None:
    """Each request in turn goes wrong once: the operation succeeds all the same, and did what it says."""
    known = etag(storage)
    proxy.reset()
    OPERATIONS[operation](storage, known)
    requests = len(proxy.seen)
    before, after = states(operation)
    for number in range(1, requests + 1):
        proxy.reset()
        storage.delete("new")
        storage.put("old", OLD)
        proxy.reset()
        proxy.at(number, fault)
        answer = OPERATIONS[operation](storage, known)
        assert proxy.seen[number - 1].fault == fault
        if operation.startswith("delete"):
            # Where the answer to the delete was lost, the second try finds nothing: it is gone, by us or not.
            assert answer is True or fault.applied
        else:
            assert answer == EXPECTED[operation]
        assert contents(s3, bucket) == after
        assert before is not None


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_fault_that_stays_is_an_error_of_the_tree_and_leaves_old_or_new(
    operation: str, fault: Fault, storage: Storage, proxy: FaultProxy, s3: object, bucket: str
) -> None:
    """From each request in turn on, all go wrong."""
    known = etag(storage)
    proxy.reset()
    OPERATIONS[operation](storage, known)
    requests = len(proxy.seen)
    before, after = states(operation)
    for number in range(1, requests + 1):
        proxy.reset()
        storage.delete("new")
        storage.put("old", OLD)
        proxy.reset()
        proxy.at(number, fault, times=1_000)
        with pytest.raises(Unavailable) as raised:
            OPERATIONS[operation](storage, known)
        assert raised.value.__cause__ is not None
        assert f"s3://{bucket}/p" in str(raised.value)
        assert contents(s3, bucket) in (before, after)
        # Trying again, once the line is good, ends where an undisturbed try ends.
        proxy.reset()
        answer = OPERATIONS[operation](storage, known)
        assert answer in (EXPECTED[operation], False)
        assert contents(s3, bucket) == after
