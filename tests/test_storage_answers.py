"""The responses of AWS, Cloudflare R2, Google, MinIO and Ceph to conditional writes, and how each is interpreted.

The shapes are those of their documentation: Amazon S3 User Guide "Conditional requests" and API reference "Error
responses"; Cloudflare R2 "Error codes" and "Conditional operations"; Google Cloud Storage "HTTP status and error codes
for XML" and "Request preconditions"; MinIO "List of error responses"; Ceph Object Gateway "S3 error responses". Whole
runs with such a store are tested with moto and SeaweedFS.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from sitemap_etl.errors import Denied, Refused, SitemapEtlError, Unavailable
from sitemap_etl.state import layout
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage, open_storage
from tests.support.proxy import CARELESS, Fault, FaultProxy, Seen
from tests.support.s3 import S3Server
from tests.support.sites import TestSite, pages
from tests.support.slow import slow


def error(code: str, message: str = "", *more: str) -> bytes:
    """Return the body that all of them send."""
    said = f"<Message>{message}</Message>" if message else ""
    return f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>{said}{"".join(more)}</Error>'.encode()


HOLD = "At least one of the pre-conditions you specified did not hold"
HEADER = "A header you provided implies functionality that is not implemented"


@dataclass(frozen=True)
class Shape:
    """A response to a PUT that expects absence, and its interpretation. `tries`: PUTs that were sent."""

    name: str
    status: int
    body: bytes
    becomes: type[SitemapEtlError]
    says: str
    tries: int = 1
    headers: tuple[tuple[str, str], ...] = field(default=())

    @property
    def fault(self) -> Fault:
        return Fault("answer", self.status, headers=self.headers, body=self.body)


CONDITIONS = "set conditional_writes: false"
SHAPES = [
    Shape("AWS: a condition failed", 412, error("PreconditionFailed", HOLD, "<Condition>If-None-Match</Condition>"),
          PreconditionFailed, "expected nothing there"),
    Shape("AWS: another request was at it", 409, error("ConditionalRequestConflict", "The conditional request cannot "
          "succeed due to a conflicting operation against this resource."), PreconditionFailed, "expected nothing", 5),
    Shape("AWS: an operation is in progress", 409, error("OperationAborted", "A conflicting conditional operation is "
          "currently in progress against this resource. Try again."), PreconditionFailed, "expected nothing", 5),
    Shape("AWS: If-Match on a key that is gone", 404, error("NoSuchKey", "The specified key does not exist."),
          PreconditionFailed, "expected nothing there"),
    Shape("AWS: too many requests", 503, error("SlowDown", "Please reduce your request rate."),
          Unavailable, "Please reduce your request rate. Try again later", 2),
    Shape("AWS: a part that broke", 500, error("InternalError", "We encountered an internal error. Please try again."),
          Unavailable, "Try again later", 2),
    Shape("AWS: no such header", 501, error("NotImplemented", HEADER, "<Header>If-None-Match</Header>"),
          Denied, CONDITIONS),
    Shape("AWS: it took too long to come", 400, error("RequestTimeout", "Your socket connection to the server was not "
          "read from or written to within the timeout period."), Unavailable, "Try again later", 2),
    Shape("MinIO: a condition failed", 412, error("PreconditionFailed", HOLD, "<Resource>/b/k</Resource>"),
          PreconditionFailed, "expected nothing there"),
    Shape("MinIO: too many requests", 503, error("SlowDownWrite", "Resource requested is unwritable, please reduce "
          "your request rate"), Unavailable, "503 SlowDownWrite", 2),
    Shape("MinIO: it is starting", 503, error("XMinioServerNotInitialized", "Server not initialized yet, please try "
          "again."), Unavailable, "Server not initialized yet", 2),
    Shape("MinIO: no such header", 501, error("NotImplemented", HEADER), Denied, CONDITIONS),
    Shape("R2: a condition failed", 412, error("PreconditionFailed", HOLD), PreconditionFailed, "expected nothing"),
    Shape("R2: the same key too often", 429, error("TooManyRequests", "Reduce your concurrent request rate for the "
          "same object."), Unavailable, "Try again later", 2),
    Shape("R2: no credentials of it", 401, error("Unauthorized", "Unauthorized"), Denied, "Correct them"),
    Shape("R2: a clock that is wrong", 400, error("ExpiredRequest", "Request has expired"), Denied, "clock of this"),
    Shape("Ceph: a condition failed", 412, error("PreconditionFailed", "", "<RequestId>tx1</RequestId>"),
          PreconditionFailed, "expected nothing there"),
    Shape("Ceph: too many requests, without a word", 503, error("SlowDown", "", "<RequestId>tx1</RequestId>"),
          Unavailable, "answered 503 SlowDown. Try again later", 2),
    Shape("Google: a condition failed", 412, error("PreconditionFailed", HOLD, "<Details>If-Match</Details>"),
          PreconditionFailed, "expected nothing there"),
    Shape("Google: the same object too often", 429, error("SlowDown", "The rate of change requests to the object "
          "exceeds the rate limit."), Unavailable, "Try again later", 2),
    Shape("Google: no such header", 501, error("NotImplemented", HEADER), Denied, CONDITIONS),
    Shape("Google: no credentials of it", 401, error("AuthenticationRequired", "Authentication required."),
          Denied, "does not accept the credentials"),
    Shape("a condition failed, without a body", 412, b"", PreconditionFailed, "expected nothing there"),
    Shape("400 without a body", 400, b"", Denied, "answered 400: Bad Request. It gave no reason: look at the log"),
    Shape("501 without a body", 501, b"", Denied, CONDITIONS),
    Shape("503 of a load balancer", 503, b"<html><body>No server is available</body></html>", Unavailable, "503", 2),
]  # fmt: skip


@pytest.fixture
def behind(proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """The storage behind the proxy; boto3 tries twice."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    storage = open_storage(f"s3://{bucket}/p")
    assert storage.get("nothing") is None
    proxy.reset()
    return storage


def puts(proxy: FaultProxy) -> list[Seen]:
    return [seen for seen in proxy.seen if seen.method == "PUT"]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_each_response_to_a_conditional_request_is_interpreted(
    shape: Shape, behind: Storage, proxy: FaultProxy
) -> None:
    behind.put("k", b"theirs")
    proxy.reset()
    proxy.always(shape.fault, method="PUT")
    with pytest.raises(SitemapEtlError) as raised:
        behind.put("k", b"ours", expect=ABSENT)
    assert type(raised.value) is shape.becomes
    assert raised.value.ours
    assert shape.says in str(raised.value)
    assert f"{behind.url}/k" in str(raised.value)
    assert raised.value.__cause__ is not None
    assert len(puts(proxy)) == shape.tries
    proxy.reset()
    assert behind.get("k").data == b"theirs"


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape.tries > 1], ids=lambda shape: shape.name)
def test_a_temporary_error_response_is_retried(shape: Shape, behind: Storage, proxy: FaultProxy) -> None:
    proxy.once(shape.fault, method="PUT")
    assert behind.put("k", b"ours", expect=ABSENT).size == 4
    assert [seen.fault is None for seen in puts(proxy)] == [False, True]


@pytest.mark.parametrize("shape", SHAPES, ids=[shape.name for shape in SHAPES])
def test_a_write_that_happened_despite_an_error_response_is_recognized(
    shape: Shape, behind: Storage, proxy: FaultProxy
) -> None:
    """The write was done, but a proxy or a retry answers as if it was not."""
    proxy.once(Fault("answer", shape.status, headers=shape.headers, body=shape.body, applied=True), method="PUT")
    if shape.becomes is PreconditionFailed or shape.tries > 1:
        assert behind.put("k", b"ours", expect=ABSENT).size == 4
    else:
        with pytest.raises(shape.becomes):
            behind.put("k", b"ours", expect=ABSENT)
    proxy.reset()
    assert behind.put("k", b"ours", expect=ABSENT).etag == behind.stat("k").etag


MISSING = {
    "AWS": Fault("answer", 204),
    "of old": Fault("answer", 404, body=error("NoSuchKey", "The specified key does not exist.")),
    "SeaweedFS": Fault("answer", 412, body=error("PreconditionFailed", HOLD)),
}


@pytest.mark.parametrize("answer", MISSING.values(), ids=MISSING)
def test_a_conditional_delete_of_a_missing_object_succeeds(
    answer: Fault, behind: Storage, proxy: FaultProxy, s3: S3Server, bucket: str
) -> None:
    """Another writer was faster, or an earlier try of the same delete whose response was lost."""
    put = behind.put("k", b"1")
    proxy.reset()
    proxy.once(Fault("answer", answer.status, body=answer.body, applied=True), method="DELETE")
    assert behind.delete("k", expect=put.etag) in (True, False)
    assert behind.stat("k") is None


def test_a_denied_conditional_delete_is_not_a_failed_condition(behind: Storage, proxy: FaultProxy) -> None:
    put = behind.put("k", b"1")
    proxy.reset()
    proxy.once(Fault("answer", 403, body=error("AccessDenied", "Access Denied")), method="DELETE")
    with pytest.raises(Refused, match="AccessDenied"):
        behind.delete("k", expect=put.etag)
    assert behind.stat("k") is not None


# --- stores whose answers have no end ----------------------------------------------------------------

LATE = b'Last-Modified: Wed, 01 Oct 2025 00:00:00 GMT\r\nETag: "0"\r\n'
DRIPS = {
    "headers": b"HTTP/1.1 200 OK\r\n" + LATE + b"X-Pad: " + b"x" * 900 + b"\r\nContent-Length: 1\r\n\r\n1",
    "a body": b"HTTP/1.1 200 OK\r\n" + LATE + b"Content-Length: 900\r\n\r\n" + b"x" * 900,
    "the last body": b"HTTP/1.1 200 OK\r\nConnection: close\r\n" + LATE + b"Content-Length: 900\r\n\r\n" + b"x" * 900,
}


@pytest.mark.thorough
@pytest.mark.parametrize(
    "said",
    [pytest.param(said, id=name) for name, said in DRIPS.items()],
)
def test_a_response_that_arrives_too_slowly_counts_as_none(
    said: bytes, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every byte arrives in time, but the whole would take a minute."""
    monkeypatch.setenv("SITEMAP_ETL_S3_TIMEOUT", "0.4")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with slow(said, step=0.06) as server:
        storage = open_storage("s3://bucket/p", endpoint=f"http://127.0.0.1:{server.port}")
        with pytest.raises(Unavailable, match="p/k"):
            storage.get("k")


@pytest.mark.thorough
def test_a_connection_idle_beyond_its_timeout_is_replaced(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is closed while it is idle."""
    monkeypatch.setenv("SITEMAP_ETL_S3_TIMEOUT", "0.4")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    storage = open_storage(f"s3://{bucket}/p")
    for number in range(3):
        storage.put("k", b"%d" % number)
        time.sleep(2.2)
    assert storage.get("k").data == b"2"


# --- stores that take a condition and don't keep to it ------------------------------------------------


def site_in(tmp_path: Path, work: str, to: str) -> TestSite:
    return TestSite(tmp_path, work=work, publish={"to": to}, site="http://127.0.0.1:9").section("p", pages(30))


IGNORED = {"If-None-Match": "If-None-Match: *", "If-Match": "If-Match"}


@pytest.mark.parametrize("header", IGNORED)
def test_a_store_that_ignores_conditions_is_detected_before_the_run_relies_on_them(
    header: str, tmp_path: Path, proxy: FaultProxy, bucket: str
) -> None:
    proxy.plan = lambda seen: CARELESS if header in seen.headers and seen.writes else None
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    open_storage(f"s3://{bucket}/public").put("robots.txt", b"")
    with pytest.raises(Refused, match=r"ignores If-.*conditional_writes: false") as raised:
        site.night(1)
    assert f"ignores {IGNORED[header]}:" in str(raised.value)
    state = open_storage(f"s3://{bucket}/work").sub("shop")
    # That there was such a run, and why it was refused.
    assert {stat.key.rpartition("/")[0] for stat in state.list()} == {"reports", "state/runs"}
    assert [stat.key for stat in open_storage(f"s3://{bucket}/public").list()] == ["robots.txt"]


def test_a_public_store_that_ignores_conditions_is_detected_separately_from_the_state(
    tmp_path: Path, proxy: FaultProxy, bucket: str
) -> None:
    proxy.plan = lambda seen: CARELESS if seen.writes else None
    open_storage(f"s3://{bucket}/public").put("robots.txt", b"")
    site = site_in(tmp_path, "./work", f"s3://{bucket}/public")
    with pytest.raises(Refused, match="/public ignores If-None-Match"):
        site.night(1)
    assert [stat.key for stat in open_storage(f"s3://{bucket}").list()] == ["public/robots.txt"]
    assert site.state().current().manifest is None
    proxy.reset()
    assert site.night(1).summary.status == "published"
    assert not [key for key in site.public().objects() if "probe" in key]


@pytest.mark.thorough
def test_the_result_of_testing_conditions_is_remembered_for_two_days(
    tmp_path: Path, proxy: FaultProxy, bucket: str
) -> None:
    open_storage(f"s3://{bucket}/public").put("robots.txt", b"")
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    tried = []
    for night in (1, 2, 3, 4, 5, 6):
        proxy.reset()
        site.export("p", pages(30 + night))
        site.night(night)
        tried.append(any(layout.PROBE in seen.path for seen in proxy.seen))
    assert tried == [True, False, False, True, False, False]


def test_conditions_are_not_tested_if_conditional_writes_is_false(
    tmp_path: Path, proxy: FaultProxy, bucket: str
) -> None:
    proxy.plan = lambda seen: CARELESS if seen.writes else None
    open_storage(f"s3://{bucket}/public").put("robots.txt", b"")
    site = site_in(tmp_path, f"s3://{bucket}/work", f"s3://{bucket}/public")
    site.keys["publish"]["conditional_writes"] = False
    done = site.night(1)
    assert done.summary.status == "published"
    assert any("conditional_writes is false" in warning for warning in done.summary.warnings)
    assert not [seen for seen in proxy.seen if layout.PROBE in seen.path]
