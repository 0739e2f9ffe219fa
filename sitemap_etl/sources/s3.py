"""Objects in S3 as source files: found with boto3, read through pyarrow with boto3's endpoint and credentials."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import pyarrow.fs

from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError, Unavailable

SCHEME: Final = "s3://"
_REFUSED: Final = frozenset({"403", "AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "AllAccessDisabled"})
_MISSING: Final = frozenset({"404", "NoSuchKey", "NotFound"})


def bucket(name: str) -> Bucket:
    """The bucket of that name, by the environment as it is: one client serves all files of a run."""
    settings = tuple(sorted((key, value) for key, value in os.environ.items() if key.startswith("AWS_")))
    return _bucket(name, hash(settings))


@lru_cache(maxsize=8)
def _bucket(name: str, _settings: int) -> Bucket:
    return Bucket(name)


class Bucket:
    """A bucket to read from. Its methods raise `InvalidSource`, `Refused` and `Unavailable`."""

    def __init__(self, name: str) -> None:
        import boto3
        from botocore.config import Config

        self.name = name
        self._session = boto3.Session()
        config = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard", "max_attempts": 3})
        try:
            self._client = self._session.client("s3", config=config)
        except Exception as error:
            raise _told(error, name) from error

    def objects(self, prefix: str) -> Iterator[tuple[str, int, str]]:
        """Key, bytes and ETag of every object under the prefix, by key."""
        try:
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix):
                for entry in page.get("Contents", ()):
                    yield entry["Key"], entry["Size"], entry["ETag"]
        except Exception as error:
            raise _told(error, self.name, prefix) from error

    def head(self, key: str) -> tuple[int, str] | None:
        """Bytes and ETag of an object, None where there is none."""
        try:
            found = self._client.head_object(Bucket=self.name, Key=key)
        except Exception as error:
            if _code(error) in _MISSING:
                return None
            raise _told(error, self.name, key) from error
        return found["ContentLength"], found["ETag"]

    def filesystem(self) -> pyarrow.fs.S3FileSystem:
        """The same store as pyarrow sees it, with the credentials as they are now."""
        credentials = self._session.get_credentials()
        options: dict[str, Any] = {"anonymous": True}
        if credentials is not None:
            frozen = credentials.get_frozen_credentials()
            options = {
                "access_key": frozen.access_key,
                "secret_key": frozen.secret_key,
                "session_token": frozen.token,
            }
        region = self._client.meta.region_name
        if region and region != "aws-global":
            options["region"] = region
        if ".amazonaws.com" not in self._client.meta.endpoint_url:
            options["endpoint_override"] = self._client.meta.endpoint_url
        retries = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=3)
        return pyarrow.fs.S3FileSystem(retry_strategy=retries, connect_timeout=10, request_timeout=60, **options)


def parts(url: str) -> tuple[str, str]:
    """Bucket and key of `s3://bucket/key`."""
    bucket, _, key = url.removeprefix(SCHEME).partition("/")
    if not bucket:
        raise InvalidSource(f"{url!r} names no bucket: expected s3://bucket/key")
    return bucket, key


def _code(error: Exception) -> str:
    response = getattr(error, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))


def _told(error: Exception, bucket: str, key: str = "") -> SitemapEtlError:
    import botocore.exceptions as raised

    where, code = f"{SCHEME}{bucket}/{key}", _code(error)
    if code == "NoSuchBucket":
        return Refused(f"there is no bucket {bucket!r} (reading {where})")
    if code in _REFUSED:
        return Refused(
            f"reading {where} is not allowed ({code}): these credentials need s3:GetObject and s3:ListBucket"
        )
    if isinstance(error, raised.NoCredentialsError | raised.PartialCredentialsError | raised.ProfileNotFound):
        return Refused(
            f"no AWS credentials were found for {where}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
        )
    if isinstance(error, raised.ParamValidationError | ValueError):
        return InvalidSource(f"{where} is not a place in S3: {error}")
    if isinstance(error, raised.ClientError) and error.response["ResponseMetadata"].get("HTTPStatusCode", 500) < 500:
        retried = {
            "SlowDown",
            "RequestTimeout",
            "RequestTimeTooSkewed",
            "ExpiredToken",
            "TooManyRequests",
            "Throttling",
        }
        if code not in retried:
            return Refused(f"the store refused to show {where} ({code})")
    return Unavailable(f"the store of {where} did not answer: {error}")
