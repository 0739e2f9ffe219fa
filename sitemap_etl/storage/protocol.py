"""What a storage is: keys to bytes, each write and delete with an optional condition.

Two things fulfil it: a folder (`local`) and a bucket (`s3`). They agree on everything a test can see,
so that a run in a folder proves something about a run in a bucket:

- A key is text of segments joined by `/`, as in S3: no leading slash, no empty, `.` or `..` segment.
- A put is all or nothing, also for a reader who looks meanwhile and after a kill.
- A put that finds its own bytes under the key has succeeded, whatever it expected: the answer to an
  earlier try of it may have been lost. Who needs to know that *they* wrote puts their name into the bytes.
- `list` gives every key once, in an order of the store's own: AWS goes by the keys' bytes, SeaweedFS folder by folder.
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
"""What can be put: bytes, buffers to be written one after the other, or a local file's path."""


class Absent(Enum):
    """The type of `ABSENT`."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""Expect that nothing is under the key."""

Expect: TypeAlias = "str | Literal[Absent.ABSENT] | None"
"""What must be under a key for a write to happen: this etag, nothing, or whatever (None)."""


@dataclass(frozen=True, slots=True)
class Stat:
    """What is known of an object without reading it. `size` in bytes, `modified` by the store's clock, in UTC.

    `etag` stands for the content; a folder's `list` leaves it None, for it would have to read every file.
    """

    key: str
    size: int
    etag: str | None
    modified: datetime


@dataclass(frozen=True, slots=True)
class Stored:
    """An object that was read whole. `known_sha256`: of its data, where the store has taken it of what it read."""

    stat: Stat
    data: bytes
    known_sha256: str | None = None

    @property
    def sha256(self) -> str:
        """The SHA-256 of the data, in hexadecimal."""
        return self.known_sha256 or hashlib.sha256(self.data).hexdigest()


class PreconditionFailed(Refused):
    """Something else is under the key than was expected. `found` is what is there, None where nothing is."""

    def __init__(self, message: str, *, key: str = "", found: Stat | None = None) -> None:
        super().__init__(message)
        self.key = key
        self.found = found


class Unreadable(Unavailable):
    """What is stored under a key is not what its checksum says: it was changed on its way there, or since."""


class Storage(Protocol):
    """An object store or a folder. Safe for use by several threads.

    Any method may raise `Unavailable` where the store does not answer (a put may then have happened or
    not) and `Refused` where it says no; `ConfigError` where a key can't be one.
    """

    @property
    def url(self) -> str:
        """Where it is, for messages: `s3://bucket/prefix` or the folder's path, without a final slash."""

    @property
    def place(self) -> str:
        """Where it really is, to be compared: a bucket's with its store's address, a folder's without links."""

    @property
    def conditional(self) -> bool:
        """Whether the store itself enforces `expect`. If not, a look before the write stands in for it:
        two writers at the same moment can then both succeed.
        """

    def url_of(self, key: str) -> str:
        """The whole address of a key, for messages."""

    def get(self, key: str) -> Stored | None:
        """The object; None where there is none."""

    def read(self, key: str, start: int, length: int) -> bytes:
        """Exactly `length` bytes from byte `start` on. Raises `Refused` where the object lacks them or is missing."""

    def stat(self, key: str) -> Stat | None:
        """Size, etag and time; None where there is none."""

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
        """Write the object. Raises `PreconditionFailed` where something else is there than `expect`.

        `sha256`: that of the data, in hexadecimal, where it is known: it need not be taken again.
        """

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        """Whether this call removed it: False where it was gone already (also by an earlier try of this call).

        Raises `PreconditionFailed` where another object than `expect` is there.
        """

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Every object whose key begins with `prefix` (text, not a folder), once, in the store's order."""

    def now(self) -> datetime:
        """The time by the store's clock, in UTC: what `modified` can be compared with."""

    def sub(self, prefix: str) -> Storage:
        """The part of this storage below `prefix/`."""


_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


def check_key(key: str) -> str:
    """The key, where it can be one. Raises `ConfigError`: keys come from names in the site file."""
    if not key:
        raise ConfigError("a key can't be empty: expected a name such as sitemap.xml")
    check_prefix(key)
    if key.endswith("/"):
        raise ConfigError(f"{key!r} is not a valid key: it ends with a slash")
    return key


def check_prefix(prefix: str) -> str:
    """The prefix, where keys can begin with it. Raises `ConfigError`."""
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
    """`prefix` (empty, or ending in a slash) with the segments of `more` and a final slash."""
    more = more.strip("/")
    if not more:
        return prefix
    return f"{prefix}{check_key(more)}/"


def precondition_failed(url: str, key: str, expect: Expect, found: Stat | None) -> PreconditionFailed:
    """The error that says what was expected under the key and what is there."""
    expected = "nothing there" if expect is ABSENT else f"etag {expect}"
    there = "nothing"
    if found is not None:
        there = f"{found.size:,} bytes, etag {found.etag}, written {found.modified:%Y-%m-%dT%H:%M:%SZ}"
    return PreconditionFailed(
        f"{url} was changed by someone else: expected {expected}, found {there}. It was not overwritten.",
        key=key,
        found=found,
    )
