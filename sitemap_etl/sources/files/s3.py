"""Objects in S3 as source files: found by listing, and read in ranges of the version that was found.

Every request for bytes has the ETag, so the storage itself detects a changed object. Requests to a requester-pays
bucket say that we pay.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from botocore.exceptions import (
    ClientError,
    FlexibleChecksumError,
    HTTPClientError,
    IncompleteReadError,
    ResponseStreamingError,
)
from botocore.exceptions import (
    ConnectionError as BrokenConnection,
)

from sitemap_etl.errors import SitemapEtlError, Unavailable
from sitemap_etl.s3 import FAILURES, S3Client, status_of, translated
from sitemap_etl.sources.files.object_sums import Sum, sum_of
from sitemap_etl.sources.files.unsteady import changed, damaged, gone

_OPENERS: Final = 4
"""Pieces of an object that are fetched at the same time."""
_WHOLE: Final = 128 * 1024
"""Maximum bytes of an object that is read as a whole, because a request costs more than its bytes."""
_FIRST: Final = 1024 * 1024
_AHEAD: Final = 8 * 1024 * 1024
"""Bytes of the first and of further pieces of a stream. The first is small for callers that need only the beginning."""
_TRIES: Final = 3
"""Tries for reading a response. boto3 only retries requests."""
_BROKEN: Final = (BrokenConnection, HTTPClientError, IncompleteReadError, ResponseStreamingError)


def bucket(name: str, *, pays: bool = False, verify: bool = True) -> Bucket:
    """Return the bucket of that name with the current environment. One client serves all files of a run.

    `pays`: we pay for reading it. `verify`: stored checksums of objects must match.
    """
    settings = tuple(sorted((key, value) for key, value in os.environ.items() if key.startswith("AWS_")))
    return _bucket(name, hash(settings), pays=pays, verify=verify)


@lru_cache(maxsize=8)
def _bucket(name: str, _settings: int, *, pays: bool, verify: bool) -> Bucket:
    return Bucket(name, pays=pays, verify=verify)


class Bucket:
    """A bucket to read from. Its methods raise `ConfigError`, `Refused` and `Unavailable`."""

    def __init__(self, name: str, *, pays: bool, verify: bool = True) -> None:
        self.name = name
        self.verify = verify
        self._client = S3Client(checksums="when_supported" if verify else "when_required")
        self._payer = {"RequestPayer": "requester"} if pays else {}

    def objects(self, prefix: str) -> Iterator[tuple[str, int, str, float]]:
        """Yield key, bytes, ETag and modification time (epoch seconds) of every object under the prefix, by key."""
        asked = {"Bucket": self.name, "Prefix": prefix, **self._payer}
        while True:
            with self._errors("list", prefix):
                page = self._client.call("list_objects_v2", **asked)
            for entry in page.get("Contents", ()):
                yield entry["Key"], entry["Size"], entry["ETag"], entry["LastModified"].timestamp()
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def head(self, key: str) -> tuple[int, str, float] | None:
        """Return bytes, ETag and modification time (epoch seconds) of an object, or None if it doesn't exist."""
        with self._errors("read", key):
            try:
                found = self._client.call("head_object", Bucket=self.name, Key=key, **self._payer)
            except ClientError as error:
                if status_of(error) == 404:
                    return None
                raise
        return found["ContentLength"], found["ETag"], found["LastModified"].timestamp()

    def read(self, key: str, start: int, length: int, etag: str, *, whole: bool = False) -> bytes:
        """Read `length` bytes of an object from `start`. Raise Unavailable if it was changed or deleted.

        `whole`: these are all its bytes; then its checksum is verified, and InvalidSource raised if it differs.
        """
        url = f"s3://{self.name}/{key}"
        span = {} if whole else {"Range": f"bytes={start}-{start + length - 1}"}
        asked = {**span, "IfMatch": etag, **self._payer}
        with self._errors("read", key):
            for left in reversed(range(_TRIES)):
                try:
                    answer = self._client.call("get_object", Bucket=self.name, Key=key, **asked)
                    data: bytes = answer["Body"].read()
                except FlexibleChecksumError as error:
                    if not left:
                        raise damaged(url, str(error)) from error
                    continue
                except ClientError as error:
                    if status_of(error) == 412:
                        raise changed(url) from error
                    if status_of(error) == 404 and error.response["Error"].get("Code") != "NoSuchBucket":
                        raise gone(url) from error
                    raise
                except _BROKEN:
                    if not left:
                        raise
                    continue
                if answer["ETag"] != etag:  # a store that knows no condition
                    raise changed(url)
                if len(data) > length:  # a store that knows no ranges
                    data = data[start : start + length]
                why = self._difference(answer, data) if whole and len(data) == length else None
                if why is not None and not left:
                    raise damaged(url, why)
                if len(data) == length and why is None:
                    return data
        raise Unavailable(f"{url} came shorter than the store said. Try again")

    def _difference(self, answer: Mapping[str, Any], data: bytes) -> str | None:
        """Return the difference between a whole object and its checksum as text, or None."""
        kept = sum_of(answer) if self.verify else None
        if kept is None:
            return None
        kept.update(data)
        return kept.mismatch()

    def sum_of(self, key: str, etag: str) -> Sum | None:
        """Return the stored checksum of an object, or None if there is none."""
        if not self.verify:
            return None
        asked = {"IfMatch": etag, "ChecksumMode": "ENABLED", **self._payer}
        try:
            return sum_of(self._client.call("head_object", Bucket=self.name, Key=key, **asked))
        except FAILURES:
            return None  # the next request for bytes reports the error

    def open(self, key: str, size: int, etag: str) -> Object:
        """Return an object to read at any place, with its bytes and ETag as they were found."""
        return Object(self, key, size, etag)

    def translated(self, error: Exception, key: str, action: str = "read") -> SitemapEtlError:
        """Return an exception of boto3 about an object or a prefix as one of our errors."""
        url = f"s3://{self.name}/{key}"
        return translated(error, action, url, bucket=self.name, endpoint=self._client.address)

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except SitemapEtlError:
            raise
        except FAILURES as error:
            raise self.translated(error, key, action) from error


class Object(io.RawIOBase):
    """An object as a file. Read from its beginning on, the next piece is fetched while one is read."""

    def __init__(self, bucket: Bucket, key: str, size: int, etag: str) -> None:
        super().__init__()
        self._bucket = bucket
        self._key = key
        self._size = size
        self._etag = etag
        self._at = 0
        self._sum: Sum | None = None  # while it is read from its beginning on
        self._summed = 0  # bytes that it counted
        self._held: list[tuple[int, bytes]] = []  # starts of fetched pieces, by place
        self._ahead: Future[bytes] | None = None
        self._ahead_at = 0
        self._threads: ThreadPoolExecutor | None = None

    def fetch(self, spans: Sequence[tuple[int, int]]) -> None:
        """Fetch these ranges (start and end, in order), several at a time, instead of earlier ones."""
        if self._held and len(self._held[0][1]) == self._size:
            return  # a small object, which was fetched as a whole
        self._held = []
        pieces = [(at, min(at + _AHEAD, stop)) for start, stop in spans for at in range(start, stop, _AHEAD)]
        found = self._pool().map(lambda piece: self._get(*piece), pieces)
        self._held = [(start, data) for (start, _), data in zip(pieces, found, strict=True)]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return the next `size` bytes, fewer only at the end of the object."""
        stop = self._size if size < 0 else min(self._at + size, self._size)
        parts: list[bytes] = []
        while self._at < stop:
            part = self._piece(self._at, stop)[: stop - self._at]
            parts.append(part)
            self._at += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def readall(self) -> bytes:
        return self.read()

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Free all memory and threads."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._held, self._ahead = [], None
        super().close()

    def _piece(self, start: int, stop: int) -> bytes:
        """Return bytes from `start` on, at least one."""
        for begin, data in self._held:
            if begin <= start < begin + len(data):
                return data[start - begin :] if start > begin else data
        return self._streamed(start) if self._is_next(start) else self._fetched(start, stop)

    def _is_next(self, start: int) -> bool:
        """Return True if a position continues the stream: it is 0, or the end of the last piece."""
        return start == (self._held[-1][0] + len(self._held[-1][1]) if self._held else 0)

    def _streamed(self, start: int) -> bytes:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and self._ahead_at == start:
            data = ahead.result()
        else:
            data = self._get(start, min(start + (_AHEAD if start else _FIRST), self._size))
        following = start + len(data)
        self._count(start, data)
        self._held = [(start, data)]
        if start and following < self._size:
            self._ahead_at = following
            self._ahead = self._pool().submit(self._get, following, min(following + _AHEAD, self._size))
        return data

    def _count(self, start: int, data: bytes) -> None:
        """Add a piece of a stream to the object's checksum. Raise InvalidSource after the last one if it differs.

        The checksum is requested with the second piece, because callers that read only the beginning don't need it.
        """
        if start and not self._summed and self._held[0][0] == 0:  # the previous piece is the first one
            self._sum = self._bucket.sum_of(self._key, self._etag)
            self._summed = start
            if self._sum is not None:
                self._sum.update(self._held[0][1])
        if self._sum is None or self._summed != start:
            self._sum = None  # the object isn't read in order
            return
        self._sum.update(data)
        self._summed += len(data)
        why = self._sum.mismatch() if self._summed == self._size else None
        if why is not None:
            raise damaged(f"s3://{self._bucket.name}/{self._key}", why)

    def _fetched(self, start: int, stop: int) -> bytes:
        if self._size <= _WHOLE:
            self._held = [(0, self._get(0, self._size))]
            return self._held[0][1][start:]
        return self._get(start, stop)

    def _get(self, start: int, stop: int) -> bytes:
        whole = start == 0 and stop == self._size
        return self._bucket.read(self._key, start, stop - start, self._etag, whole=whole)

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_OPENERS)
        return self._threads
