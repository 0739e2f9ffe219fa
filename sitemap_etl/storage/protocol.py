"""The protocol of a storage: keys and their bytes, with an optional condition for each write and delete.

A folder (`local`) and a bucket (`s3`) implement it. They behave the same in every test, so that a run in a folder
proves something about a run in a bucket:

- A key consists of segments joined by `/`, as in S3: no leading slash, no empty, `.` or `..` segment.
- A put is all or nothing, for concurrent readers and after a kill.
- A put that finds its own bytes under the key has succeeded, whatever it expected: the response to an earlier try may
  have been lost. A writer that must distinguish its writes puts its name into the bytes.
- A put or a delete is durable when it returns: a later power failure does not take it back. So a failure leaves what
  some moment of the run had, and the order of publishing is all that protects a release. A folder that is opened with
  `durable=False` promises nothing after a power failure.
- `list` yields every key once. AWS sorts keys by bytes, SeaweedFS lists folder by folder.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from sitemap_etl.errors import ConfigError, Refused, Unavailable
from sitemap_etl.limits import KEY_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer

Data: TypeAlias = "bytes | bytearray | memoryview | Sequence[Buffer] | Path"
"""Data to put: bytes, buffers to write one after the other, or the path of a local file."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""The expectation that the key does not exist."""

Access: TypeAlias = 'Literal["public", "owner", "group"]'
"""Who can read new files and folders: whom the umask allows, the owner alone, or also the group."""

Expect: TypeAlias = "str | Literal[Absent.ABSENT] | None"
"""The condition of a write: this etag, no object (`ABSENT`), or no condition (None)."""


@dataclass(frozen=True, slots=True)
class Stat:
    """The metadata of an object. `size` in bytes, `modified` by the store's clock, in UTC.

    `etag` identifies the content. It is None in the `list` of a folder, which would have to read every file. `link`:
    where `get` found the content, if the object is a symbolic link. Links are read and never replaced.
    """

    key: str
    size: int
    etag: str | None
    modified: datetime
    link: str | None = None


@dataclass(frozen=True, slots=True)
class Stored:
    """An object with its data. `known_sha256`: the SHA-256 of the data, if the store has computed it already."""

    stat: Stat
    data: bytes
    known_sha256: str | None = None

    @property
    def sha256(self) -> str:
        """SHA-256 of the data, in hexadecimal."""
        return self.known_sha256 or hashlib.sha256(self.data).hexdigest()


class PreconditionFailed(Refused):
    """The object under a key differs from the expected one. `found`: that object, or None if there is none."""

    def __init__(self, message: str, *, key: str = "", found: Stat | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.found = found


class Unreadable(Unavailable):
    """The stored object does not match its checksum: it was changed during or after its upload."""


class Storage(Protocol):
    """An object store or a folder. Several threads can use it.

    Any method can raise `Unavailable` if the store does not answer (a put may or may not have happened), `Denied` if
    the store refuses, and `ConfigError` if a key is not valid.
    """

    @property
    def url(self) -> str:
        """Address for messages: `s3://bucket/prefix` or the folder's path, without a final slash."""

    @property
    def place(self) -> str:
        """Address for comparisons: of a bucket with the address of its store, of a folder without links."""

    @property
    def conditional(self) -> bool:
        """True if the store itself enforces `expect`.

        If not, the object is checked before the write, and two writers at the same moment can both succeed.
        """

    def url_of(self, key: str) -> str:
        """Return the full address of a key, for messages."""

    def get(self, key: str) -> Stored | None:
        """Return the object, or None if there is none."""

    def read(self, key: str, start: int, length: int) -> bytes:
        """Return exactly `length` bytes from byte `start`. Raise `Denied` if the object is missing or too short."""

    def stat(self, key: str) -> Stat | None:
        """Return the metadata of the object, or None if there is none."""

    def put(
        self,
        key: str,
        data: Data,
        *,
        content_type: str = "application/octet-stream",
        cache_control: str | None = None,
        expect: Expect = None,
        sha256: str | None = None,
    ) -> Stat:
        """Write the object and return its metadata. Raise `PreconditionFailed` if `expect` does not hold.

        `sha256`: the SHA-256 of the data in hexadecimal, if it is known, so that it is not computed again.
        """

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        """Delete the object. Return False if it was already gone, even by an earlier try of this call.

        Raise `PreconditionFailed` if the object has another etag than `expect`.
        """

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Yield every object whose key begins with `prefix` (text, not a folder), once, in the store's order."""

    def now(self) -> datetime:
        """Return the time of the store's clock, in UTC, for comparisons with `modified`."""

    def sub(self, prefix: str) -> Storage:
        """Return the part of this storage below `prefix/`."""


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_key(key: str) -> str:
    """Return the key. Raise `ConfigError` if it is not valid, because keys come from names in the site file."""
    if not key:
        raise ConfigError("a key can't be empty: expected a name such as sitemap.xml")
    check_prefix(key)
    if key.endswith("/"):
        raise ConfigError(f"{key!r} is not a valid key: it ends with a slash")
    return key


def check_prefix(prefix: str) -> str:
    """Return the prefix. Raise `ConfigError` if no valid key can begin with it."""
    problem = None
    segments = prefix.split("/")
    if prefix.startswith("/"):
        problem = "it begins with a slash, expected a key relative to the storage"
    elif "" in segments[:-1]:
        problem = "it has an empty segment (two slashes)"
    elif "." in segments or ".." in segments:
        problem = "it has a segment of dots, which could lead outside the storage"
    elif _CONTROL.search(prefix):
        problem = "it contains a control character"
    elif len(prefix.encode("utf-8", "surrogateescape")) > KEY_BYTES:
        problem = f"it is longer than {KEY_BYTES:,} bytes"
    if problem:
        raise ConfigError(f"{prefix[:200]!r} is not a valid key: {problem}")
    return prefix


def join(prefix: str, more: str) -> str:
    """Return `prefix` (empty, or ending in a slash) with the segments of `more` and a final slash."""
    more = more.strip("/")
    if not more:
        return prefix
    return f"{prefix}{check_key(more)}/"


def precondition_failed(url: str, key: str, expect: Expect, found: Stat | None) -> PreconditionFailed:
    """Return the error that names the expected and the actual object."""
    expected = "nothing there" if expect is ABSENT else f"etag {expect}"
    there = "nothing"
    if found is not None:
        there = f"{found.size:,} bytes, etag {found.etag}, written {found.modified:%Y-%m-%dT%H:%M:%SZ}"
    return PreconditionFailed(
        f"{url} was changed by someone else: expected {expected}, found {there}. It was not overwritten.",
        key=key,
        found=found,
    )
