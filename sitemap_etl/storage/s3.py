"""A bucket of any S3-compatible store as a storage, through boto3.

The store enforces conditions (If-None-Match: * and If-Match). boto3 can retry a request that succeeded and whose
response was lost. The second try then fails on the object that the first one wrote. So after a 412, the object is
read back, and our own bytes count as success.

One PutObject writes an object of up to 5 GiB. There is no multipart upload, because its parts would survive a killed
process. Credentials, region and endpoint come from boto3's own chain.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Literal

from botocore.exceptions import ClientError

from sitemap_etl.errors import ConfigError, Denied, Unavailable, of_ours
from sitemap_etl.limits import PUT_BYTES
from sitemap_etl.s3 import FAILURES, S3Client, code_of, condition_failed, status_of, translated
from sitemap_etl.storage.body import Body
from sitemap_etl.storage.protocol import (
    ABSENT,
    Data,
    Expect,
    Stat,
    Stored,
    Unreadable,
    check_key,
    check_prefix,
    join,
    precondition_failed,
)
from sitemap_etl.storage.s3_answers import (
    Broken,
    Changed,
    bare_etag,
    data_of,
    date_of,
    decided,
    etag_of,
    says_missing,
    stat_of,
    whole,
)


class S3Storage:
    """The keys below a prefix of a bucket. Storages made by `sub` share its client."""

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        conditional: bool = True,
        sse: str | None = None,
        checksums: Literal["when_supported", "when_required"] = "when_supported",
        endpoint: str | None = None,
        client: S3Client | None = None,
    ) -> None:
        self.bucket = bucket
        self.conditional = conditional
        self._prefix = join("", prefix)
        self._sse = sse
        self._encryption = _encryption(sse)
        self._client = client or S3Client(endpoint=endpoint, checksums=checksums)
        self.url = f"s3://{bucket}/{self._prefix}".rstrip("/")

    def __repr__(self) -> str:
        return f"S3Storage({self.url!r})"

    @property
    def place(self) -> str:
        store = self._client.store
        return self.url if store is None else f"{self.url} at {store}"

    def url_of(self, key: str) -> str:
        return f"{self.url}/{key}"

    def sub(self, prefix: str) -> S3Storage:
        return S3Storage(
            self.bucket,
            join(self._prefix, prefix),
            conditional=self.conditional,
            sse=self._sse,
            client=self._client,
        )

    def get(self, key: str) -> Stored | None:
        name = self._name(key)

        def read() -> Stored | None:
            try:
                answer = self._client.call("get_object", Bucket=self.bucket, Key=name)
            except ClientError as error:
                if says_missing(error):
                    return None
                raise
            return Stored(stat_of(key, answer), data_of(answer))

        with self._errors("read", key):
            return whole(read)

    def read(self, key: str, start: int, length: int) -> bytes:
        name = self._name(key)
        if length == 0:
            return b""

        def read() -> bytes:
            asked = f"bytes={start}-{start + length - 1}"
            try:
                answer = self._client.call("get_object", Bucket=self.bucket, Key=name, Range=asked)
            except ClientError as error:
                if says_missing(error):
                    say = f"{self.url_of(key)} does not exist: expected to read {length:,} bytes of it"
                    raise Denied(say) from error
                if status_of(error) == 416:
                    size = error.response.get("Error", {}).get("ActualObjectSize", "")
                    raise self._too_short(key, start, length, size) from error
                raise
            data = data_of(answer)
            if len(data) > length:
                # A store that ignores Range sends the whole object.
                data = data[start : start + length]
            if len(data) != length:
                raise self._too_short(key, start, length, answer.get("ContentRange", "").rpartition("/")[2])
            return data

        with self._errors("read", key):
            return whole(read)

    def stat(self, key: str) -> Stat | None:
        name = self._name(key)

        def look() -> Stat | None:
            try:
                answer = self._client.call("head_object", Bucket=self.bucket, Key=name)
            except ClientError as error:
                if status_of(error) == 404 and self.bucket in self._client.buckets_seen:
                    return None
                if status_of(error) in (301, 307, 400, 403, 404):
                    return self._explained(key, name)
                raise
            self._client.buckets_seen.add(self.bucket)
            return stat_of(key, answer)

        with self._errors("read", key):
            return whole(look)

    def put(
        self,
        key: str,
        data: Data,
        *,
        content_type: str = "application/octet-stream",
        cache_control: str | None = None,
        expect: Expect = None,
        sha256: str | None = None,  # noqa: ARG002 (an ETag is the store's)
    ) -> Stat:
        name = self._name(key)
        body = Body(data)
        if body.size > PUT_BYTES:
            raise Denied(
                f"can't write {self.url_of(key)}: it has {body.size:,} bytes, but one PUT takes at most {PUT_BYTES:,}"
            )
        options: dict[str, Any] = {"ContentType": content_type, **self._encryption}
        if cache_control is not None:
            options["CacheControl"] = cache_control
        with self._errors("write", key):
            if expect is not None and not self.conditional:
                ours = self._looked_before(key, body, expect)
                if ours is not None:
                    return ours
            elif expect is not None:
                options |= {"IfNoneMatch": "*"} if expect is ABSENT else {"IfMatch": f'"{expect}"'}
            try:
                answer = self._send(name, body, options)
            except ClientError as error:
                if expect is None or not condition_failed(error):
                    raise
                return self._settled(key, body, expect, error)
            try:
                return Stat(key, body.size, etag_of(answer), date_of(answer))
            except Broken:
                return self._settled(key, body, expect, None)

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        """Delete the object, after a check: some stores ignore If-Match on a delete, and no store reports whether
        the object existed.
        """
        name = self._name(key)
        found = self.stat(key)
        if found is None:
            return False
        if expect is not None and found.etag != expect:
            raise precondition_failed(self.url_of(key), key, expect, found)
        condition = {"IfMatch": f'"{expect}"'} if expect is not None and self.conditional else {}
        with self._errors("delete", key):
            try:
                decided(lambda: self._client.call("delete_object", Bucket=self.bucket, Key=name, **condition))
            except ClientError as error:
                if code_of(error) in ("NoSuchKey", "404"):
                    return False
                if expect is None or not condition_failed(error):
                    raise
                # If nothing is left, by an earlier try of this call, SeaweedFS says 412 and others 404 or 204.
                found = self.stat(key)
                if found is None:
                    return False
                raise precondition_failed(self.url_of(key), key, expect, found) from error
        return True

    def list(self, prefix: str = "") -> Iterator[Stat]:
        check_prefix(prefix)
        asked: dict[str, Any] = {"Bucket": self.bucket, "Prefix": self._prefix + prefix}

        def page() -> dict[str, Any]:
            answer = self._client.call("list_objects_v2", **asked)
            if "IsTruncated" not in answer or (answer["IsTruncated"] and not answer.get("NextContinuationToken")):
                raise Broken("no end of the list")
            return answer

        while True:
            with self._errors("list", prefix):
                answer = whole(page)
            for entry in answer.get("Contents", ()):
                if not entry["Key"].endswith("/"):  # consoles make such objects to show a folder
                    key = entry["Key"][len(self._prefix) :]
                    yield Stat(key, entry["Size"], bare_etag(entry["ETag"]), entry["LastModified"].astimezone(UTC))
            if not answer["IsTruncated"]:
                return
            asked["ContinuationToken"] = answer["NextContinuationToken"]

    def now(self) -> datetime:
        """Return the Date of the response to a HEAD request, in whole seconds, as in `modified`.

        The object of the request need not exist.
        """
        with self._errors("read", "now"):
            try:
                answer = self._client.call("head_object", Bucket=self.bucket, Key=f"{self._prefix}now")
            except ClientError as error:
                if status_of(error) not in (403, 404):
                    raise
                answer = error.response
            return date_of(answer)

    def _name(self, key: str) -> str:
        return check_key(f"{self._prefix}{check_key(key)}")

    def _send(self, name: str, body: Body, options: dict[str, Any]) -> dict[str, Any]:
        def send() -> dict[str, Any]:
            data = body.open()
            try:
                return self._client.call("put_object", Bucket=self.bucket, Key=name, Body=data, **options)
            finally:
                if not isinstance(data, bytes):
                    data.close()

        return decided(send)

    def _settled(self, key: str, body: Body, expect: Expect, error: ClientError | None) -> Stat:
        """Return the result of a put whose answer is a failed condition or missing: our bytes are there, or not."""
        found = self.stat(key)
        if found is not None and (ours := self._ours(found, body)):
            return ours
        if error is None:
            raise Unavailable(
                f"can't write {self.url_of(key)}: the response was interrupted and the object does not exist"
            )
        raise precondition_failed(self.url_of(key), key, expect, found) from error

    def _looked_before(self, key: str, body: Body, expect: Expect) -> Stat | None:
        """Return a store without conditions: the check before the write. The Stat if our bytes are there already."""
        found = self.stat(key)
        if (found is None) if expect is ABSENT else (found is not None and found.etag == expect):
            return None
        if found is not None and (ours := self._ours(found, body)):
            return ours
        raise precondition_failed(self.url_of(key), key, expect, found)

    def _ours(self, found: Stat, body: Body) -> Stat | None:
        """Return the object's Stat, if its bytes are those of the body."""
        there = self.get(found.key) if found.size == body.size else None
        return there.stat if there is not None and body.equals(there.data) else None

    def _explained(self, key: str, name: str) -> Stat | None:
        """Request one byte with GET to learn the error (no such bucket, expired token), which HEAD does not name."""
        try:
            answer = self._client.call("get_object", Bucket=self.bucket, Key=name, Range="bytes=0-0")
        except ClientError as error:
            if not says_missing(error):
                raise
            self._client.buckets_seen.add(self.bucket)
            return None
        answer["Body"].close()
        size = answer.get("ContentRange", "").rpartition("/")[2]
        return stat_of(key, answer | {"ContentLength": int(size) if size.isdigit() else answer.get("ContentLength")})

    def _too_short(self, key: str, start: int, length: int, size: str) -> Denied:
        return Denied(
            f"{self.url_of(key)} holds {size or 'fewer'} bytes: expected {length:,} from byte {start:,} on. "
            "It is not the object that was described."
        )

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        url = self.url_of(key)
        with of_ours():
            try:
                yield
            except Changed as error:
                say = f"can't {action} {url}: its content is not what its checksum says ({error}). Try again."
                raise Unreadable(say) from error
            except Broken as error:
                raise Unavailable(f"can't {action} {url}: the response was damaged ({error}). Try again.") from error
            except FAILURES as error:
                raise translated(error, action, url, bucket=self.bucket, endpoint=self._client.address) from error


def _encryption(sse: str | None) -> dict[str, str]:
    """Return the arguments of PutObject for `AES256`, `aws:kms` or `aws:kms:<key id>`."""
    if sse is None:
        return {}
    if sse in ("AES256", "aws:kms"):
        return {"ServerSideEncryption": sse}
    kind, _, key = sse.partition("aws:kms:")
    if kind or not key:
        raise ConfigError(f"sse: expected AES256, aws:kms or aws:kms:<key id>, got {sse!r}")
    return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
