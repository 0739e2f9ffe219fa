"""Objects in S3 as source files: found through boto3, read through Arrow with the same settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import pyarrow.fs
from botocore.exceptions import ClientError

from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.s3 import FAILURES, S3Client, status_of, translated


def bucket(name: str) -> Bucket:
    """The bucket of that name, by the environment as it is: one client serves all files of a run."""
    settings = tuple(sorted((key, value) for key, value in os.environ.items() if key.startswith("AWS_")))
    return _bucket(name, hash(settings))


@lru_cache(maxsize=8)
def _bucket(name: str, _settings: int) -> Bucket:
    return Bucket(name)


class Bucket:
    """A bucket to read from. Its methods raise `ConfigError`, `Refused` and `Unavailable`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._client = S3Client()

    def objects(self, prefix: str) -> Iterator[tuple[str, int, str]]:
        """Key, bytes and ETag of every object under the prefix, by key."""
        asked = {"Bucket": self.name, "Prefix": prefix}
        while True:
            with self._errors("list", prefix):
                page = self._client.call("list_objects_v2", **asked)
            for entry in page.get("Contents", ()):
                yield entry["Key"], entry["Size"], entry["ETag"]
            if not page.get("IsTruncated"):
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]

    def head(self, key: str) -> tuple[int, str] | None:
        """Bytes and ETag of an object, None where there is none."""
        with self._errors("read", key):
            try:
                found = self._client.call("head_object", Bucket=self.name, Key=key)
            except ClientError as error:
                if status_of(error) == 404:
                    return None
                raise
        return found["ContentLength"], found["ETag"]

    def filesystem(self) -> pyarrow.fs.FileSystem:
        """The same store as Arrow sees it, with the credentials as they are now."""
        with self._errors("read", ""):
            return self._client.filesystem()

    def translated(self, error: Exception, key: str, action: str = "read") -> SitemapEtlError:
        """What boto3 or Arrow raised over an object or a prefix as one of our errors."""
        url = f"s3://{self.name}/{key}"
        return translated(error, action, url, bucket=self.name, endpoint=self._client.address)

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        try:
            yield
        except FAILURES as error:
            raise self.translated(error, key, action) from error
