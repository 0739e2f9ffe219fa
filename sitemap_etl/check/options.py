"""Options and limits of a check."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Final, Protocol

from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen
from sitemap_etl.limits import SITEMAP_BYTES
from sitemap_etl.urls import origin

_LARGEST = 2**31 - 2**20
"""Bytes of the largest file that can be checked: Arrow's string offsets have 31 bits."""
_NAME: Final = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
"""Pattern of a header's name (RFC 9110, 5.1)."""
_VALUE: Final = re.compile(r"[!-~](?:[ \t!-~]*[!-~])?")
_OURS: Final = frozenset({"accept-encoding", "connection", "content-length", "host", "transfer-encoding"})


def _is_address(text: str) -> bool:
    try:
        return bool(origin(text))
    except ValueError:
        return False


class ObjectStat(Protocol):
    """Metadata of an object."""

    @property
    def key(self) -> str: ...
    @property
    def size(self) -> int: ...


class Objects(Protocol):
    """Read-only part of an object store. The storages of this package implement it."""

    def stat(self, key: str) -> ObjectStat | None:
        """Return the metadata of the object, or None if it does not exist."""

    def read(self, key: str, start: int, length: int) -> bytes:
        """Return exactly `length` bytes from byte `start`."""

    def list(self, prefix: str = "") -> Iterable[ObjectStat]:
        """Return every object whose key begins with `prefix`."""


class Options(Frozen):
    """Options of a check.

    at: the public address of the given folder or file. Scopes and hosts are judged by it.
    follow: read the files that an index or robots.txt lists.
    jobs: files that are read in parallel.
    max_bytes: uncompressed bytes to read of a file. The protocol's limit is reported anyway.
    max_files: maximum number of files.
    allow_private: follow public sitemaps to private, loopback and link-local addresses.
    robots: fetch robots.txt of the hosts.
    timeout: seconds for a file over HTTP, with headers, redirects and retries.
    max_time: seconds for the whole check.
    delay: seconds between two requests to a host.
    headers: names and values of headers for the origins of the targets only.
    user_agent: the User-Agent; None is the name and version of this program.
    pages: pages of each file to visit.
    pages_budget: seconds for all visits.
    seed: seed of the samples of pages.
    crawler: a crawler to imitate, a key of `pages.CRAWLERS`, or None.
    now: the moment for judging dates (with a zone); None is the clock.
    open_s3: opens an `s3://bucket/prefix` address.
    scratch: a folder for data that does not fit into memory; None is the system's.
    open_stdin: opens the target `-`.
    examples: occurrences of a problem in a file to show; None is all.
    """

    at: str | None = None
    follow: bool = True
    jobs: int = 4
    max_bytes: int = SITEMAP_BYTES
    max_files: int = 60_000
    allow_private: bool = False
    robots: bool = True
    timeout: float = 120.0
    max_time: float | None = None
    delay: float = 0.0
    headers: tuple[tuple[str, str], ...] = ()
    user_agent: str | None = None
    pages: int = 0
    pages_budget: float = 600.0
    seed: int = 0
    crawler: str | None = None
    now: datetime | None = None
    open_s3: Callable[[str], Objects] | None = None
    scratch: Path | None = None
    open_stdin: Callable[[], BinaryIO] | None = None
    examples: int | None = 1

    def __post_init__(self) -> None:
        problems = []
        if self.at is not None and not _is_address(self.at):
            problems.append(f"at: expected a public address such as https://shop.example/sitemaps/, got {self.at!r}")
        if self.jobs < 1:
            problems.append(f"jobs: expected 1 or more, got {self.jobs}")
        if self.examples is not None and self.examples < 1:
            problems.append(f"examples: expected 1 or more, got {self.examples}")
        if not 0 < self.max_bytes <= _LARGEST:
            problems.append(f"max_bytes: expected 1 to {_LARGEST:,}, got {self.max_bytes:,}")
        problems += [*self._of_requests(), *self._of_visits()]
        if self.now is not None and self.now.tzinfo is None:
            problems.append("now: the time needs a zone, such as 2026-11-21T02:00:00Z")
        if problems:
            raise ConfigError(problems)

    def _of_requests(self) -> list[str]:
        """Return the problems of the options for requests."""
        problems = []
        for name, seconds in (("timeout", self.timeout), ("max_time", self.max_time)):
            if seconds is not None and not 0 < seconds < math.inf:
                problems.append(f"{name}: expected seconds, more than 0, got {seconds}")
        if not 0 <= self.delay < math.inf:
            problems.append(f"delay: expected seconds, 0 or more, got {self.delay}")
        for header, value in self.headers:
            if not _NAME.fullmatch(header) or not _VALUE.fullmatch(value):
                problems.append(
                    f"headers: expected a name and a value of printable ASCII, got {header[:40]!r} (value hidden)"
                )
            elif header.lower() in _OURS:
                problems.append(f"headers: {header} is set for each request and can't be given")
        if self.user_agent is not None and not _VALUE.fullmatch(self.user_agent):
            problems.append("user_agent: expected printable ASCII")
        return problems

    def _of_visits(self) -> Iterator[str]:
        """Yield the problems of the options for visits."""
        if self.pages < 0:
            yield f"pages: expected 0 or more, got {self.pages}"
        if not 0 < self.pages_budget < math.inf:
            yield f"pages_budget: expected seconds, more than 0, got {self.pages_budget}"
        if self.user_agent is not None and self.crawler is not None:
            yield "crawler: it has a User-Agent of its own, so there can be no user_agent beside it"
