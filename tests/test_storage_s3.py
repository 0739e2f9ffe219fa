"""Rules for buckets: headers, conditional responses of S3, and messages for its errors."""

from __future__ import annotations

import hashlib
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sitemap_etl.errors import ConfigError, Denied, Refused, SitemapEtlError, Unavailable
from sitemap_etl.storage import ABSENT, PreconditionFailed, Storage, open_storage, put_verified
from tests.support.proxy import CORRUPT, RESET_AFTER, TIMEOUT, Fault, FaultProxy
from tests.support.s3 import CREDENTIALS, S3Server

pytest_plugins = ["tests.support.fixtures"]

CONFLICT = Fault("answer", 409, "ConditionalRequestConflict")


@pytest.fixture
def storage(bucket: str) -> Storage:
    return open_storage(f"s3://{bucket}/p")


@pytest.fixture
def behind(proxy: FaultProxy, bucket: str) -> Storage:
    """The storage behind the proxy, after a first request to the bucket."""
    storage = open_storage(f"s3://{bucket}/p")
    assert storage.get("nothing") is None
    proxy.reset()
    return storage


def test_a_put_sends_the_requested_headers_and_no_content_encoding(storage: Storage, s3: S3Server, bucket: str) -> None:
    storage.put("a.xml.gz", b"\x1f\x8b", content_type="application/gzip", cache_control="public, max-age=600")
    head = s3.client().head_object(Bucket=bucket, Key="p/a.xml.gz")
    assert (head["ContentType"], head["CacheControl"]) == ("application/gzip", "public, max-age=600")
    # boto3 must not have named its own transfer an encoding of the content, which CDNs would pass on.
    assert "ContentEncoding" not in head


@pytest.mark.parametrize(
    ("sse", "expected"),
    [
        (None, {}),
        ("AES256", {"x-amz-server-side-encryption": "AES256"}),
        ("aws:kms", {"x-amz-server-side-encryption": "aws:kms"}),
        (
            "aws:kms:arn:aws:kms:eu-central-1:111122223333:key/1234",
            {
                "x-amz-server-side-encryption": "aws:kms",
                "x-amz-server-side-encryption-aws-kms-key-id": "arn:aws:kms:eu-central-1:111122223333:key/1234",
            },
        ),
    ],
)
def test_a_put_requests_the_configured_encryption(
    sse: str | None, expected: dict[str, str], proxy: FaultProxy, bucket: str
) -> None:
    open_storage(f"s3://{bucket}", sse=sse).sub("p").put("k", b"1")
    sent = {name.lower(): value for name, value in proxy.seen[0].headers.items()}
    assert {name: value for name, value in sent.items() if "encryption" in name} == expected


@pytest.mark.parametrize(("checksums", "sent"), [("when_supported", True), ("when_required", False)])
def test_newer_checksums_can_be_switched_off(checksums: str, sent: bool, proxy: FaultProxy, bucket: str) -> None:
    storage = open_storage(f"s3://{bucket}", checksums=checksums)
    storage.put("k", b"1", expect=ABSENT)
    assert storage.get("k").data == b"1"
    names = {name.lower() for seen in proxy.seen for name in seen.headers}
    assert any("checksum" in name for name in names) is sent


def test_conditions_are_evaluated_by_the_store(behind: Storage, proxy: FaultProxy) -> None:
    put = behind.put("k", b"1", expect=ABSENT)
    behind.put("k", b"2", expect=put.etag)
    first, second = [{name.lower(): value for name, value in seen.headers.items()} for seen in proxy.seen]
    assert first["if-none-match"] == "*"
    assert second["if-match"] == f'"{put.etag}"'


def test_without_conditional_writes_no_condition_is_sent(proxy: FaultProxy, bucket: str) -> None:
    storage = open_storage(f"s3://{bucket}", conditional_writes=False)
    put = storage.put("k", b"1", expect=ABSENT)
    storage.put("k", b"2", expect=put.etag)
    storage.delete("k", expect=storage.stat("k").etag)
    assert not storage.conditional
    assert not [name for seen in proxy.seen for name in seen.headers if name.lower().startswith("if-")]


@pytest.mark.parametrize("expect", ["absent", "etag"])
def test_an_own_put_with_a_lost_response_is_not_a_conflict(
    expect: str, behind: Storage, proxy: FaultProxy, s3: S3Server, bucket: str
) -> None:
    condition = ABSENT if expect == "absent" else behind.put("k", b"old").etag
    proxy.reset()
    proxy.once(RESET_AFTER, method="PUT")
    put = behind.put("k", b"new", expect=condition)
    assert [seen.status for seen in proxy.seen if seen.method == "PUT"] == [200, 412]
    assert put == behind.stat("k")
    assert s3.client().get_object(Bucket=bucket, Key="p/k")["Body"].read() == b"new"


def test_a_foreign_put_after_a_lost_response_is_a_conflict(
    behind: Storage, proxy: FaultProxy, s3: S3Server, bucket: str
) -> None:
    """Applied, its response lost, and replaced by another writer before boto3's second try: the other content stays."""
    old = behind.put("k", b"old").etag
    proxy.reset()
    proxy.once(RESET_AFTER, method="PUT")
    proxy.after = lambda seen: (
        s3.client().put_object(Bucket=bucket, Key="p/k", Body=b"theirs") if seen.status == 200 else None
    )
    with pytest.raises(PreconditionFailed, match="found 6 bytes"):
        behind.put("k", b"new", expect=old)
    assert behind.get("k").data == b"theirs"


def test_a_409_of_concurrent_writes_is_retried(behind: Storage, proxy: FaultProxy) -> None:
    proxy.at(1, CONFLICT, times=3)
    behind.put("k", b"1", expect=ABSENT)
    assert [seen.fault for seen in proxy.seen] == [CONFLICT, CONFLICT, CONFLICT, None]


def test_a_persistent_409_is_a_failed_condition(behind: Storage, proxy: FaultProxy) -> None:
    proxy.always(CONFLICT, method="PUT")
    with pytest.raises(PreconditionFailed, match="expected nothing there, found nothing"):
        behind.put("k", b"1", expect=ABSENT)


def test_an_unconditional_put_with_a_409_can_be_retried(behind: Storage, proxy: FaultProxy) -> None:
    proxy.always(CONFLICT, method="PUT")
    with pytest.raises(Unavailable, match="Try again"):
        behind.put("k", b"1")


@pytest.mark.parametrize("checksums", ["when_supported", "when_required"])
def test_bytes_corrupted_in_transit_are_found_by_reading_back(checksums: str, proxy: FaultProxy, bucket: str) -> None:
    """moto, like some stores, accepts a body with a wrong checksum."""
    storage = open_storage(f"s3://{bucket}", checksums=checksums)
    proxy.once(CORRUPT, method="PUT")
    with pytest.raises(Unavailable) as raised:
        put_verified(storage, "k", b"good")
    if checksums == "when_required":
        # Else boto3 compares with the checksum that the store kept, and gives no bytes at all.
        found = storage.get("k").data
        assert found != b"good"
        expected, there = (hashlib.sha256(data).hexdigest() for data in (b"good", found))
        assert f"expected 4 bytes with sha256 {expected}, found 4 bytes with sha256 {there}" in str(raised.value)
    assert f"s3://{bucket}/k" in str(raised.value)


def test_an_object_that_vanished_is_found_by_reading_back(
    behind: Storage, proxy: FaultProxy, s3: S3Server, bucket: str
) -> None:
    proxy.after = lambda seen: seen.method == "PUT" and s3.client().delete_object(Bucket=bucket, Key="p/k")
    with pytest.raises(Unavailable, match="was accepted but could not be read back"):
        put_verified(behind, "k", b"good")


def test_a_verified_put_returns_the_same_as_a_put(storage: Storage, tmp_path: Path) -> None:
    for place in (storage, open_storage(tmp_path)):
        put = put_verified(place, "k", [b"a", b"b"], content_type="text/plain", expect=ABSENT)
        assert put == place.stat("k")
        with pytest.raises(PreconditionFailed):
            put_verified(place, "k", b"other", expect=ABSENT)


def test_a_long_list_is_read_in_pages(behind: Storage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOTO_S3_DEFAULT_MAX_KEYS", "2")
    names = [f"a/{number}" for number in range(5)]
    for name in names:
        behind.put(name, b"")
    proxy.reset()
    assert [stat.key for stat in behind.list()] == names
    assert len(proxy.seen) == 3


def test_folder_markers_of_consoles_are_not_objects(storage: Storage, s3: S3Server, bucket: str) -> None:
    s3.client().put_object(Bucket=bucket, Key="p/", Body=b"")
    s3.client().put_object(Bucket=bucket, Key="p/a/", Body=b"")
    storage.put("a/b", b"1")
    assert [stat.key for stat in storage.list()] == ["a/b"]


def test_a_prefix_that_begins_like_the_storage_is_not_part_of_it(bucket: str) -> None:
    open_storage(f"s3://{bucket}/p2").put("k", b"1")
    assert list(open_storage(f"s3://{bucket}/p").list()) == []
    assert [stat.key for stat in open_storage(f"s3://{bucket}/").list()] == ["p2/k"]


def test_the_time_of_the_store_is_known_even_if_it_is_empty(storage: Storage) -> None:
    assert abs(storage.now() - datetime.now(UTC)) < timedelta(minutes=1)


@pytest.mark.parametrize("status", [403, 404])
def test_the_time_of_the_store_is_known_even_without_the_right_to_list(
    behind: Storage, proxy: FaultProxy, status: int
) -> None:
    """Without the right to list, a HEAD for a missing object is answered 403: its Date header is still right."""
    date = ("Date", "Sat, 21 Nov 2026 02:00:00 GMT")
    proxy.always(Fault("answer", status, "AccessDenied", headers=(date,)), method="HEAD")
    assert behind.now() == datetime(2026, 11, 21, 2, tzinfo=UTC)


def test_a_conditional_delete_of_a_replaced_object_is_refused(
    behind: Storage, proxy: FaultProxy, s3: S3Server, bucket: str
) -> None:
    """Replaced between HEAD and DELETE: the store answers 412."""
    put = behind.put("k", b"1")
    proxy.always(Fault("answer", 412, "PreconditionFailed"), method="DELETE")
    with pytest.raises(PreconditionFailed):
        behind.delete("k", expect=put.etag)


def test_an_object_too_large_for_a_put_is_refused_before_it_is_sent(storage: Storage, tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(5 * 1024**3 + 1)
    with pytest.raises(Refused, match=r"5,368,709,121 bytes, but one PUT takes at most 5,368,709,120"):
        storage.put("k", tmp_path / "sparse")


OPERATIONS = {
    "get": lambda storage: storage.get("k"),
    "read": lambda storage: storage.read("k", 0, 1),
    "stat": lambda storage: storage.stat("k"),
    "put": lambda storage: storage.put("k", b"1", expect=ABSENT),
    "delete": lambda storage: storage.delete("k"),
    "list": lambda storage: list(storage.list()),
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_missing_bucket_is_named(operation: str, s3: S3Server) -> None:
    with pytest.raises(Refused, match=r"bucket no-such-bucket does not exist\. Create it, or correct its name"):
        OPERATIONS[operation](open_storage("s3://no-such-bucket/p"))


def answer(status: int, code: str, *headers: tuple[str, str]) -> Fault:
    return Fault("answer", status, code, headers=headers)


ANSWERS = [
    (answer(403, "InvalidAccessKeyId"), Denied, "doesn't know the access key. Correct the credentials"),
    (answer(403, "SignatureDoesNotMatch"), Denied, "Correct AWS_SECRET_ACCESS_KEY"),
    (answer(400, "ExpiredToken"), Denied, "the session token has expired. Get new credentials"),
    (answer(400, "InvalidToken"), Denied, "Correct AWS_SESSION_TOKEN"),
    (answer(403, "RequestTimeTooSkewed"), Denied, "the clock of this machine is wrong"),
    (
        answer(301, "PermanentRedirect", ("x-amz-bucket-region", "eu-west-1")),
        Denied,
        "is in region eu-west-1. Set AWS",
    ),
    (answer(400, "AuthorizationHeaderMalformed"), Denied, "is in another region"),
    (answer(501, "NotImplemented"), Denied, "set conditional_writes: false; if about checksums"),
    (answer(400, "XAmzContentSHA256Mismatch"), Denied, "Set checksums: when_required"),
    (answer(500, "InternalError"), Unavailable, "the store answered 500"),
    (answer(503, "SlowDown"), Unavailable, "the store answered 503"),
    (answer(429, "TooManyRequests"), Unavailable, "the store answered 429"),
    (answer(418, "Teapot"), Denied, "the store answered 418"),
]


@pytest.fixture
def impatient(proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> Storage:
    """A storage behind the proxy, with an object in it; boto3 tries once."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    storage = open_storage(f"s3://{bucket}/p")
    storage.put("k", b"1")
    return storage


@pytest.mark.parametrize(("fault", "kind", "text"), ANSWERS, ids=[str(fault) for fault, *_ in ANSWERS])
def test_each_error_response_of_a_store_is_reported_with_what_to_do(
    fault: Fault, kind: type[SitemapEtlError], text: str, proxy: FaultProxy, impatient: Storage
) -> None:
    proxy.always(fault)
    for name, operation in OPERATIONS.items():
        with pytest.raises(SitemapEtlError) as raised:
            operation(impatient)
        assert type(raised.value) is kind, name
        assert text in str(raised.value), name
        assert f"{impatient.url}/" in str(raised.value)
        assert raised.value.__cause__ is not None


def test_a_403_is_not_reported_as_a_missing_bucket(behind: Storage, proxy: FaultProxy, bucket: str) -> None:
    """For a missing key, S3 answers 403 to those who may not list: either reason is possible."""
    proxy.always(answer(403, "AccessDenied"))
    expected = {
        "get": ("allow s3:GetObject", "S3 then says 403 instead of 404 (allow s3:ListBucket"),
        "read": ("allow s3:GetObject", "s3:ListBucket"),
        "stat": ("allow s3:GetObject", "s3:ListBucket"),
        "put": ("Allow them s3:PutObject", "a condition also needs s3:GetObject"),
        "delete": ("allow s3:GetObject", "s3:ListBucket"),
        "list": ("Allow them s3:ListBucket", "if it isn't yours"),
    }
    for name, operation in OPERATIONS.items():
        with pytest.raises(Refused) as raised:
            operation(behind)
        assert "does not exist" not in str(raised.value)
        for text in expected[name]:
            assert text in str(raised.value), name


@pytest.mark.parametrize("data", [b"1", b"12345678901"])
def test_if_head_is_refused_an_object_is_described_by_reading_its_first_byte(
    data: bytes, behind: Storage, proxy: FaultProxy
) -> None:
    put = behind.put("k", data)
    proxy.always(answer(403, "AccessDenied"), method="HEAD")
    found = behind.stat("k")
    assert found is not None
    assert (found.key, found.size, found.etag) == ("k", len(data), put.etag)
    assert proxy.paths("GET") != []
    assert behind.stat("other") is None


def test_missing_credentials_are_reported_with_what_to_set(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Refused, match=r"no AWS credentials were found\. Set AWS_ACCESS_KEY_ID and"):
        open_storage(f"s3://{bucket}").get("k")


def test_incomplete_credentials_are_reported(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(Refused, match="only a part of the AWS credentials is set"):
        open_storage(f"s3://{bucket}").get("k")


def test_a_missing_profile_is_named(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(Refused, match=r"the AWS configuration is wrong: .*nobody"):
        open_storage(f"s3://{bucket}").get("k")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("AWS_PROFILE", "nobody", r"S3 can't be used: the AWS configuration is wrong: .*nobody"),
        ("AWS_SECRET_ACCESS_KEY", None, "S3 can't be used: only a part of the AWS credentials is set"),
        ("AWS_MAX_ATTEMPTS", "x", "AWS_MAX_ATTEMPTS, or max_attempts in the AWS configuration, is not a number"),
    ],
)
def test_errors_in_the_s3_configuration_are_reported_without_a_request(
    bucket: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str | None, said: str
) -> None:
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    with pytest.raises((Refused, ConfigError), match=said):
        _ = open_storage(f"s3://{bucket}").place


def test_a_store_that_refuses_connections_can_be_retried(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    for operation in OPERATIONS.values():
        with pytest.raises(Unavailable, match=r"http://127.0.0.1:9 can't be reached. Is AWS_ENDPOINT_URL right"):
            operation(open_storage(f"s3://{bucket}"))


def test_a_store_that_does_not_answer_can_be_retried(
    proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    proxy.always(TIMEOUT)
    with pytest.raises(Unavailable, match="did not answer in time"):
        open_storage(f"s3://{bucket}").get("k")


def test_a_server_that_is_not_an_s3_store_is_reported(proxy: FaultProxy) -> None:
    """A web server at the endpoint: it answers every request with 200 and a page."""
    for body in (b"<!doctype html><p>Welcome<br>", b"<html></html>", b""):
        proxy.always(Fault("answer", 200, body=body))
        for operation in OPERATIONS.values():
            with pytest.raises(Unavailable, match=r"was damaged|is not one of an S3 store|answered 500"):
                operation(open_storage("s3://bucket/p"))


@pytest.mark.parametrize("endpoint", ["localhost:9000", "http://user:hunter2@127.0.0.1:9", "not a url"])
def test_an_invalid_endpoint_is_an_error_of_the_configuration(
    endpoint: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(ConfigError) as raised:
        open_storage("s3://bucket/p").get("k")
    assert "hunter2" not in "".join(traceback.format_exception(raised.value))


def test_an_invalid_bucket_name_is_an_error_of_the_site_file(s3: S3Server) -> None:
    with pytest.raises(ConfigError, match="Invalid bucket name"):
        open_storage("s3://Not A Bucket/p").get("k")


def test_no_secret_is_in_any_message_or_repr(proxy: FaultProxy, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token-that-must-never-show")
    secrets = (CREDENTIALS["AWS_ACCESS_KEY_ID"], CREDENTIALS["AWS_SECRET_ACCESS_KEY"], "token-that-must-never-show")
    storage = open_storage(f"s3://{bucket}/p")
    storage.put("k", b"1")
    for fault, *_ in ANSWERS:
        proxy.always(fault)
        for operation in OPERATIONS.values():
            with pytest.raises(SitemapEtlError) as raised:
                operation(storage)
            told = "".join(traceback.format_exception(raised.value)) + repr(raised.value) + repr(storage)
            assert not any(secret in told for secret in secrets)


def test_a_region_is_not_needed(s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert open_storage(f"s3://{bucket}").put("k", b"1").size == 1


def test_an_endpoint_can_be_an_argument_instead_of_a_variable(
    s3: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert open_storage(f"s3://{bucket}", endpoint=s3.endpoint).put("k", b"1").size == 1


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_an_invalid_timeout_is_an_error(text: str, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SITEMAP_ETL_S3_TIMEOUT", text)
    with pytest.raises(ConfigError, match=r"SITEMAP_ETL_S3_TIMEOUT: expected seconds"):
        open_storage("s3://bucket").get("k")


@pytest.mark.parametrize(
    ("url", "options", "text"),
    [
        ("gs://bucket/p", {}, "gs:// is not supported"),
        ("s3://", {}, "s3:// needs a bucket"),
        ("s3:///p", {}, "s3:// needs a bucket"),
        ("s3://key:hunter2@bucket/p", {}, "must not contain credentials"),
        ("s3://bucket/a/../b", {}, "not a valid key"),
        ("", {}, "is not a folder"),
        ("file://host/p", {}, "is not a folder"),
        ("s3://bucket", {"sse": "rot13"}, "sse: expected AES256"),
        ("s3://bucket", {"sse": "aws:kms:"}, "expected AES256"),
        ("s3://bucket", {"checksums": "never"}, "checksums: expected when_supported or when_required"),
    ],
)
def test_an_invalid_storage_address_is_an_error_of_the_site_file(url: str, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        open_storage(url, **options)
    assert text in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_opening_a_storage_sends_no_request(proxy: FaultProxy) -> None:
    open_storage("s3://bucket/p").sub("q")
    assert proxy.seen == []


def test_a_failed_condition_survives_pickling() -> None:
    """An executor may pass an error from one process to another."""
    import pickle

    error = pickle.loads(pickle.dumps(PreconditionFailed("no", key="k")))
    assert (str(error), error.key, error.found) == ("no", "k", None)
