"""Where files come from: a folder, a bucket, an address. All are read through the same two small protocols.

An HTTP request is tried up to three times; if it fails, that is a finding.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import unquote, urlsplit

from sitemap_etl.check.options import Objects, Options
from sitemap_etl.check.report import STDIN, Faults
from sitemap_etl.errors import ConfigError
from sitemap_etl.web import (
    REDIRECTS,
    Client,
    Fetched,
    InvalidAddress,
    PrivateAddress,
    Stopped,
    TooManyRedirects,
    Untrusted,
    WebError,
    shown_address,
)

_ENDINGS: Final = (".xml", ".xml.gz", ".txt", ".txt.gz", ".rss", ".rss.gz", ".atom", ".atom.gz")
_TRIES: Final = 3
_AGAIN: Final = frozenset({429, 502, 503, 504})
"""Statuses that are worth another try."""


@dataclass(frozen=True)
class Taken:
    """The bytes of a file as stored or sent, up to the limit.

    `address` is the final one, after redirects. `status` is 0 if it is not HTTP; `data` is empty unless it is 200.
    `nameless`: it has no name whose ending could say how it is compressed.
    """

    data: bytes
    address: str | None = None
    status: int = 0
    content_type: str = ""
    content_encoding: str = ""
    nameless: bool = False


class Source(Protocol):
    """One file. `name` is what a report calls it, `address` its public address where it is known."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str | None: ...
    def take(self, limit: int, faults: Faults) -> Taken | None:
        """At most `limit` bytes of it; None if it can't be read, and `faults` says why."""


class Shelf(Protocol):
    """A folder or bucket; `whole` if all of it is to be checked."""

    whole: bool

    def find(self, key: str) -> Source | None:
        """The file under a relative path, with "/" between segments."""

    def walk(self) -> Iterator[tuple[str, Source]]:
        """Every file that could be a sitemap by its name, with its relative path, in order."""


class Fetcher:
    """Fetches files. Safe for use by several threads.

    `timeout` in seconds for each step, ten times that for a whole file, redirects included. `client` asks, one of our
    own by default; `pause` waits between tries.
    """

    def __init__(
        self, timeout: float, *, client: Client | None = None, pause: Callable[[float], None] | None = None
    ) -> None:
        self._client = client or Client(step=timeout, purpose="check")
        self._pause = pause or self._client.sleep
        self._longest = 10 * timeout

    def close(self) -> None:
        self._client.close()

    def stop(self) -> None:
        """End the requests of other threads."""
        self._client.stop()

    def is_public(self, url: str) -> bool:
        """Whether the host of an address is on the public internet; True where that can't be known."""
        try:
            return self._client.is_public(url)
        except WebError:
            return True

    def get(self, url: str, limit: int, faults: Faults, *, guarded: bool) -> Taken | None:
        """The file, at most `limit` bytes of it; None where there is no answer, `faults` says why.

        `guarded`: only public addresses are asked.
        """
        try:
            found = self._tried(url, limit, guarded=guarded)
        except Stopped:
            raise
        except WebError as error:
            _report(error, url, faults)
            return None
        here = shown_address(found.url)
        if found.status != 200:
            faults.add("http-status", example=here, detail=f"status {found.status}")
            return Taken(b"", found.url, found.status)
        if found.hops:
            faults.add("redirect", example=shown_address(url), detail=f"to {here}")
        headers = found.headers
        return Taken(
            found.body, found.url, found.status, headers.get("content-type", ""), headers.get("content-encoding", "")
        )

    def _tried(self, url: str, limit: int, *, guarded: bool) -> Fetched:
        """The answer of the last try that was needed. Raises `WebError`."""
        for attempt in range(1, _TRIES + 1):
            try:
                found = self._client.request(
                    "GET",
                    url,
                    limit=limit,
                    seconds=self._longest,
                    redirects=REDIRECTS,
                    guarded=guarded,
                    encoded=True,
                )
            except (Stopped, InvalidAddress, PrivateAddress, TooManyRedirects, Untrusted):
                raise
            except WebError:
                if attempt == _TRIES:
                    raise
            else:
                if found.status not in _AGAIN or attempt == _TRIES:
                    return found
            self._pause(0.5 * 2**attempt)
        raise AssertionError("the last try returns or raises")


def _report(error: WebError, url: str, faults: Faults) -> None:
    """Report a request that got no response."""
    asked = shown_address(url)
    if isinstance(error, PrivateAddress):
        faults.add("private-address", example=error.url, detail=error.words)
    elif isinstance(error, TooManyRedirects):
        faults.add("redirect-limit", example=asked, detail=f"more than {REDIRECTS}, the last one to {error.url}")
    elif isinstance(error, InvalidAddress) and error.hops and urlsplit(error.url).scheme not in {"http", "https"}:
        faults.add("redirect", example=asked, detail=f"to {error.url[:200]}, which is neither http nor https")
    elif isinstance(error, InvalidAddress):
        faults.add("loc-invalid", example=error.url, detail=str(error.__cause__ or error)[:200])
    else:
        faults.add("unreachable", example=error.url, detail=error.words[:300])


@dataclass(frozen=True)
class LocalFile:
    """A file on this machine."""

    path: Path
    address: str | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    def take(self, limit: int, faults: Faults) -> Taken | None:
        try:
            with self.path.open("rb") as file:
                return Taken(file.read(limit))
        except OSError as error:
            faults.add("unreachable", detail=f"{error.strerror or error}")
            return None


@dataclass(frozen=True)
class BucketFile:
    """An object; `url` is that of its prefix."""

    objects: Objects
    key: str
    url: str
    address: str | None = None

    @property
    def name(self) -> str:
        return f"{self.url}/{self.key}"

    def take(self, limit: int, faults: Faults) -> Taken | None:
        stat = self.objects.stat(self.key)
        if stat is None:
            faults.add("unreachable", detail="the object no longer exists")
            return None
        return Taken(self.objects.read(self.key, 0, min(stat.size, limit)))


@dataclass(frozen=True)
class WebFile:
    """A file behind an address. `guarded`: reached from the public internet, so private addresses are refused."""

    url: str
    fetcher: Fetcher
    guarded: bool

    @property
    def name(self) -> str:
        return shown_address(self.url)

    @property
    def address(self) -> str | None:
        return self.url

    def take(self, limit: int, faults: Faults) -> Taken | None:
        return self.fetcher.get(self.url, limit, faults, guarded=self.guarded)


@dataclass(frozen=True)
class Stdin:
    """Standard input: a file without a name of its own."""

    data: bytes
    address: str | None = None

    @property
    def name(self) -> str:
        return STDIN

    def take(self, limit: int, faults: Faults) -> Taken | None:  # noqa: ARG002 - the protocol has it
        return Taken(self.data[:limit], nameless=True)


class StdinShelf:
    """Standard input alone: there is nothing beside it."""

    whole = False

    def __init__(self, source: Stdin) -> None:
        self._source = source

    def find(self, key: str) -> Source | None:
        return self._source if key == STDIN else None

    def walk(self) -> Iterator[tuple[str, Source]]:
        yield from ()


class LocalShelf:
    """A folder on this machine."""

    def __init__(self, root: Path, *, whole: bool, at: str | None) -> None:
        self.root = root
        self.whole = whole
        self._at = at

    def find(self, key: str) -> Source | None:
        path = self.root / key
        return LocalFile(path, _joined(self._at, key)) if path.is_file() else None

    def walk(self) -> Iterator[tuple[str, Source]]:
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                if _could_be(name):
                    path = Path(folder) / name
                    key = path.relative_to(self.root).as_posix()
                    yield key, LocalFile(path, _joined(self._at, key))


class BucketShelf:
    """A bucket below a prefix."""

    def __init__(self, objects: Objects, url: str, *, whole: bool, at: str | None) -> None:
        self.whole = whole
        self._objects = objects
        self._url = url
        self._at = at

    def find(self, key: str) -> Source | None:
        if self._objects.stat(key) is None:
            return None
        return BucketFile(self._objects, key, self._url, _joined(self._at, key))

    def walk(self) -> Iterator[tuple[str, Source]]:
        for stat in self._objects.list(""):
            if _could_be(stat.key.rpartition("/")[2]):
                yield stat.key, BucketFile(self._objects, stat.key, self._url, _joined(self._at, stat.key))


@dataclass
class Given:
    """One target, named as it was given: a shelf with the key of the one file ("" for all of it), or an address."""

    name: str
    shelf: Shelf | None = None
    key: str = ""
    url: str = ""


def given(targets: Sequence[str], options: Options) -> list[Given]:
    """What the targets are. Raises `ConfigError` with all that can't be read."""
    found: list[Given] = []
    problems: list[str] = []
    if not targets:
        problems.append("nothing to check: pass a file, a folder, or an s3://, http:// or https:// address")
    for target in targets:
        try:
            found.append(_given(str(target), options))
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError(problems)
    return found


def _given(target: str, options: Options) -> Given:
    if target == "-":
        return _stdin(options)
    scheme, mark, rest = target.partition("://")
    if mark and scheme.lower() in {"http", "https"}:
        if not urlsplit(target).hostname:
            raise ConfigError(f"{target}: the address has no host")
        return Given(target, url=target)
    if mark and scheme.lower() == "s3":
        return _bucket(target, options)
    if mark and scheme.lower() == "file":
        target = rest
    elif mark:
        raise ConfigError(f"{target}: {scheme}:// is not supported; expected a path, s3://, http:// or https://")
    if target.lower().endswith((".yaml", ".yml")):
        raise ConfigError(f"{target} is a site file, not a sitemap. Did you mean: sitemap-etl validate {target}?")
    path = Path(target)
    if path.is_dir():
        return Given(target, shelf=LocalShelf(path, whole=True, at=_folder(options.at)))
    if not path.exists():
        raise ConfigError(f"{target}: no such file or folder")
    at = options.at
    if at is not None and not at.endswith("/"):
        at = at.rpartition("/")[0] + "/"
    return Given(target, shelf=LocalShelf(path.parent, whole=False, at=at), key=path.name)


def _stdin(options: Options) -> Given:
    if options.open_stdin is None:
        raise ConfigError("-: standard input is not available here")
    data = options.open_stdin().read(options.max_bytes + 1)
    return Given(STDIN, shelf=StdinShelf(Stdin(data, options.at)), key=STDIN)


def _bucket(target: str, options: Options) -> Given:
    if options.open_s3 is None:
        raise ConfigError(f"{target}: s3:// addresses are not available here")
    prefix, _, name = target.rstrip("/").rpartition("/")
    if not target.endswith("/") and prefix.count("/") >= 2:
        objects = options.open_s3(prefix)
        if objects.stat(name) is not None:
            at = options.at.rpartition("/")[0] + "/" if options.at else None
            return Given(target, shelf=BucketShelf(objects, prefix, whole=False, at=at), key=name)
    url = target.rstrip("/")
    return Given(target, shelf=BucketShelf(options.open_s3(url), url, whole=True, at=_folder(options.at)))


def _folder(at: str | None) -> str | None:
    return at if at is None or at.endswith("/") else at + "/"


def _joined(at: str | None, key: str) -> str | None:
    return None if at is None else at + key


def _could_be(name: str) -> bool:
    return name.lower().endswith(_ENDINGS) and not name.startswith(".")


def keys_of(url: str, beside: str) -> list[str]:
    """The relative paths under which the file of an address may lie, the likeliest first.

    `beside`: the path of the file that names it. Paths that would leave the folder are left out.
    """
    segments = [unquote(part) for part in urlsplit(url).path.split("/")]
    segments = [part for part in segments if part]
    if not segments or any(part in {".", ".."} or "/" in part or "\\" in part or "\0" in part for part in segments):
        return []
    folder = beside.rpartition("/")[0]
    tails = ["/".join(segments[begin:]) for begin in range(len(segments))]
    keys = [f"{folder}/{tail}" for tail in tails] if folder else []
    return [*keys, *tails]
