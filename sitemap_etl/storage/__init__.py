"""Folders and buckets behind one protocol with conditional writes."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sitemap_etl.errors import ConfigError
from sitemap_etl.storage.protocol import (
    ABSENT,
    Access,
    Data,
    Expect,
    PreconditionFailed,
    Stat,
    Storage,
    Stored,
    Unreadable,
)
from sitemap_etl.storage.verify import put_verified

if TYPE_CHECKING:
    from sitemap_etl.storage.local import LocalStorage
    from sitemap_etl.storage.s3 import S3Storage

__all__ = [
    "ABSENT",
    "Data",
    "Expect",
    "PreconditionFailed",
    "Stat",
    "Storage",
    "Stored",
    "Unreadable",
    "open_storage",
    "put_verified",
]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def open_storage(
    url: str | Path,
    *,
    conditional_writes: bool = True,
    sse: str | None = None,
    checksums: Literal["when_supported", "when_required"] = "when_supported",
    endpoint: str | None = None,
    durable: bool = True,
    access: Access = "owner",
) -> Storage:
    """Return the storage at `url`: `s3://bucket/prefix`, a folder's path or `file:///folder`. Send no request yet.

    conditional_writes: False for a store that ignores or refuses If-Match; each object is read before
        it is written instead, which doesn't stop two writers at the same moment.
    sse: server-side encryption of a bucket: `AES256`, `aws:kms` or `aws:kms:<key id>`.
    checksums: `when_required` for S3 stores that don't know the checksums boto3 sends since 1.36.
    endpoint: address of an S3 store; without it boto3 reads AWS_ENDPOINT_URL.
    durable: False leaves out the fsyncs in a folder: for scratch that need not outlive a power cut.
    access: who can read new files and folders of a folder.

    Raise `ConfigError` if the url names no storage or an option has no such value.
    """
    scheme = _SCHEME.match(url) if isinstance(url, str) else None
    if scheme is None or scheme[1].lower() == "file":
        return _folder(url, scheme, conditional=conditional_writes, durable=durable, access=access)
    if scheme[1].lower() != "s3":
        raise ConfigError(
            f"{scheme[1]}:// is not supported: expected s3://bucket/prefix or a folder. "
            "For S3-compatible stores, use s3:// and set AWS_ENDPOINT_URL."
        )
    return _bucket(str(url)[scheme.end() :], conditional_writes, sse, checksums, endpoint)


def _folder(
    url: str | Path, scheme: re.Match[str] | None, *, conditional: bool, durable: bool, access: Access
) -> LocalStorage:
    from sitemap_etl.storage.local import LocalStorage

    text = os.fspath(url)[scheme.end() if scheme else 0 :]
    if not text or (scheme and not text.startswith("/")):
        raise ConfigError(f"{os.fspath(url)!r} is not a folder: expected a path such as ./public or file:///srv/public")
    return LocalStorage(Path(text).expanduser(), conditional=conditional, durable=durable, access=access)


def _bucket(
    address: str,
    conditional: bool,  # noqa: FBT001 (passed on by the one caller above)
    sse: str | None,
    checksums: Literal["when_supported", "when_required"],
    endpoint: str | None,
) -> S3Storage:
    from sitemap_etl.storage.s3 import S3Storage

    bucket, _, prefix = address.partition("/")
    if "@" in bucket:
        # Not repeated: what stands before the @ is most likely a secret.
        raise ConfigError("an s3:// address must not contain credentials: put them where boto3 finds them")
    if not bucket:
        raise ConfigError("s3:// needs a bucket name: expected s3://bucket/prefix")
    return S3Storage(bucket, prefix, conditional=conditional, sse=sse, checksums=checksums, endpoint=endpoint)
