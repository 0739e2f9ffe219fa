"""Sources of files: folders, buckets and addresses, behind two small protocols.

If a file can't be read, that is a finding of the file. No source raises for it.
"""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol
from urllib.parse import quote, unquote, urlsplit

from sitemap_etl.advice import shell_word
from sitemap_etl.check.fetch import Fetcher, Taken
from sitemap_etl.check.options import Objects, Options
from sitemap_etl.check.report import STDIN, Faults
from sitemap_etl.errors import ConfigError, SitemapEtlError
from sitemap_etl.frozen import Frozen
from sitemap_etl.urls import origin
from sitemap_etl.web import credentials, shown_address

_ENDINGS: Final = (".xml", ".xml.gz", ".txt", ".txt.gz", ".rss", ".rss.gz", ".atom", ".atom.gz")
_HOST: Final = re.compile(r"(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]/?", re.IGNORECASE)
"""Host name with a top-level domain, which people use to name a site."""
_FILE_TYPES: Final = frozenset({"csv", "gz", "htm", "html", "json", "jsonl", "parquet", "pdf", "toml", "zip"})
"""Endings of files that are not top-level domains."""
_URL_CHARACTERS: Final = "/:?#[]@!$&'()*+,;=%~"
"""Characters of an address besides letters and digits (RFC 3986, section 2)."""
ROOM: Final = 64 << 20
"""Bytes of uncompressed files in memory at a time. Processing takes about five times as much."""
UNKNOWN: Final = 8 << 20
"""Assumed bytes of a file whose size is unknown before it is read."""


class Source(Protocol):
    """One file. `name` identifies it in reports; `address` is its public address, if known."""

    @property
    def name(self) -> str: ...
    @property
    def address(self) -> str | None: ...
    @property
    def size(self) -> int:
        """Bytes as stored, or an estimate."""

    def take(self, limit: int, faults: Faults) -> Taken | None:
        """Return at most `limit` bytes of it, or None if it can't be read. `faults` then has the reason."""


class Shelf(Protocol):
    """A folder or bucket; `whole` if all of it is to be checked. `where`: words for the place of its files.

    `at`: the public address of the folder, with a final slash, or None if it is not known.
    """

    whole: bool
    where: str
    at: str | None

    def find(self, key: str) -> Source | None:
        """Return the file at a relative path, with "/" between segments, or None."""

    def walk(self, go_on: Callable[[], None]) -> Iterator[tuple[str, Source]]:
        """Yield every file whose name could be a sitemap's, with its relative path, in order.

        `go_on` is called before each file of any name. Its exception ends the walk.
        """


class Room:
    """Room for the bytes of files that are dealt with at a time. Safe for use by several threads.

    A file that finds no room waits, and holds none meanwhile, so that no two wait for each other. One that is larger
    than all the room has it for itself.
    """

    def __init__(self, size: int = ROOM) -> None:
        self._size = size
        self._used = 0
        self._changed = threading.Condition()

    @contextmanager
    def held(self) -> Iterator[Held]:
        """Reserve memory for one file until the end of the block. At first it is empty."""
        held = Held(self)
        try:
            yield held
        finally:
            self.resize(held, 0, wait=False)

    def resize(self, held: Held, size: int, *, wait: bool) -> None:
        """Let a file hold `size` bytes. `wait`: until there is room."""
        with self._changed:
            self._used -= held.size
            held.size = 0
            self._changed.notify_all()
            while wait and self._used and self._used + size > self._size:
                self._changed.wait()
            self._used += size
            held.size = size


class Held:
    """The room that a file takes, in bytes."""

    def __init__(self, room: Room) -> None:
        self.size = 0
        self._room = room

    def take(self, size: int) -> None:
        """Reserve `size` bytes in all, and wait for room if this is more than before."""
        self._room.resize(self, size, wait=size > self.size)

    def grow(self, size: int) -> None:
        """Reserve at least `size` bytes at once, because the file needed more."""
        self._room.resize(self, max(size, self.size), wait=False)


class LocalFile(Frozen):
    """File on this machine."""

    path: Path
    address: str | None = None

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except (OSError, ValueError):
            return 0

    def take(self, limit: int, faults: Faults) -> Taken | None:
        try:
            with self.path.open("rb") as file:
                return Taken(file.read(limit))
        except OSError as error:
            faults.add("unreachable", detail=f"{error.strerror or error}")
        except ValueError:  # a name that no file can have
            faults.add("unreachable", detail="no file can have this name")
        return None


class BucketFile(Frozen):
    """Object; `url` is the address of its prefix. The headers that it is served with are unknown."""

    objects: Objects
    key: str
    url: str
    address: str | None = None

    @property
    def name(self) -> str:
        return f"{self.url}/{self.key}"

    @property
    def size(self) -> int:
        try:
            found = self.objects.stat(self.key)
        except SitemapEtlError:
            return 0
        return found.size if found is not None else 0

    def take(self, limit: int, faults: Faults) -> Taken | None:
        try:
            found = self.objects.stat(self.key)
            if found is not None:
                return Taken(self.objects.read(self.key, 0, min(found.size, limit)), untold=True)
        except SitemapEtlError as error:
            faults.add("unreachable", detail=str(error)[:300])
        else:
            faults.add("unreachable", detail="the object no longer exists")
        return None


class WebFile(Frozen):
    """File at a web address. `guarded`: it is on the public internet, so private addresses are refused."""

    url: str
    fetcher: Fetcher
    guarded: bool

    @property
    def name(self) -> str:
        return shown_address(self.url)

    @property
    def address(self) -> str | None:
        return self.url

    @property
    def size(self) -> int:
        return UNKNOWN

    def take(self, limit: int, faults: Faults) -> Taken | None:
        return self.fetcher.get(self.url, limit, faults, guarded=self.guarded)


class Piped(Frozen):
    """Content of a pipe, which can be read only once: standard input, or a named pipe."""

    name: str
    data: bytes
    address: str | None = None

    @property
    def size(self) -> int:
        return len(self.data)

    def take(self, limit: int, faults: Faults) -> Taken | None:  # noqa: ARG002 - the protocol has it
        return Taken(self.data[:limit], untold=True)


class PipedShelf:
    """Source of the content of a pipe, which has nothing beside it."""

    whole = False
    where = "in this pipe"
    at: str | None = None

    def __init__(self, source: Piped) -> None:
        self._source = source

    def find(self, key: str) -> Source | None:
        return self._source if key == self._source.name else None

    def walk(self, go_on: Callable[[], None]) -> Iterator[tuple[str, Source]]:  # noqa: ARG002 - required by the protocol
        yield from ()


class LocalShelf:
    """A folder on this machine."""

    where = "in this folder"

    def __init__(self, root: Path, *, whole: bool, at: str | None) -> None:
        self.root = root
        self.whole = whole
        self.at = at

    def find(self, key: str) -> Source | None:
        path = self.root / key
        return LocalFile(path, _joined(self.at, key)) if _is(path, stat.S_ISREG) else None

    def walk(self, go_on: Callable[[], None]) -> Iterator[tuple[str, Source]]:
        for folder, folders, files in os.walk(self.root):
            go_on()
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(files):
                go_on()
                path = Path(folder) / name
                if _could_be(name) and not _is(path, stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISCHR, stat.S_ISBLK):
                    key = path.relative_to(self.root).as_posix()
                    yield key, LocalFile(path, _joined(self.at, key))


class BucketShelf:
    """A bucket below a prefix."""

    where = "under this prefix"

    def __init__(self, objects: Objects, url: str, *, whole: bool, at: str | None) -> None:
        self.whole = whole
        self._objects = objects
        self._url = url
        self.at = at

    def find(self, key: str) -> Source | None:
        if self._objects.stat(key) is None:
            return None
        return BucketFile(self._objects, key, self._url, _joined(self.at, key))

    def walk(self, go_on: Callable[[], None]) -> Iterator[tuple[str, Source]]:
        for found in self._objects.list(""):
            go_on()
            if _could_be(found.key.rpartition("/")[2]):
                yield found.key, BucketFile(self._objects, found.key, self._url, _joined(self.at, found.key))


@dataclass
class Given:
    """One target, with the name that was given, without a password.

    A shelf with the key of the one file ("" for all of it), or an address with the user name and password that it is
    asked with; else `problem` says why it can't be read.
    """

    name: str
    shelf: Shelf | None = None
    key: str = ""
    url: str = ""
    credentials: tuple[str, str] | None = None
    problem: SitemapEtlError | None = None


def given(targets: Sequence[str], options: Options) -> list[Given]:
    """Return the sources of the targets. Raise `ConfigError` with all problems if no target can be read.

    If only a bucket that does not answer was given, its error is raised.
    """
    found: list[Given] = []
    errors: list[SitemapEtlError] = []
    if not targets:
        raise ConfigError(
            "PATH_OR_URL is missing: pass a file, a folder, a home page, or an s3://, http:// or https:// address"
        )
    for target in map(str, targets):
        try:
            found.append(_given(target, options))
        except SitemapEtlError as error:
            errors.append(error)
            found.append(Given(shown_address(target), problem=error))
    if len(errors) == len(found):
        raise next(
            (error for error in errors if not isinstance(error, ConfigError)),
            ConfigError([problem for error in errors if isinstance(error, ConfigError) for problem in error.problems]),
        )
    return found


def _given(target: str, options: Options) -> Given:
    if target == "-":
        return _stdin(options)
    scheme, mark, rest = target.partition("://")
    if mark and scheme.lower() in {"http", "https"}:
        return _address(target)
    if mark and scheme.lower() == "s3":
        return _bucket(target, options)
    if mark and scheme.lower() == "file":
        target = rest
    elif mark:
        shown = shown_address(target)
        raise ConfigError(f"{shown}: {scheme}:// is not supported; expected a path, s3://, http:// or https://")
    if target.lower().endswith((".yaml", ".yml")):
        raise ConfigError(
            f"{target} is a site file, not a sitemap. To check it: sitemap-etl validate {shell_word(target)}"
        )
    return _local(target, options)


def _local(target: str, options: Options) -> Given:
    """Return a path on this machine as a target, or the home page of a host if there is no such path."""
    path = Path(target)
    if _is(path, stat.S_ISDIR):
        return Given(target, shelf=LocalShelf(path, whole=True, at=_folder(options.at)))
    try:
        path.stat()
    except FileNotFoundError:
        if _is_host(target):
            return _address(f"https://{target}")
        raise ConfigError(f"{target}: no such file or folder") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{target}: {getattr(error, 'strerror', None) or 'no file can have this name'}") from error
    if _is(path, stat.S_ISFIFO):
        return _pipe(target, path, options)
    at = options.at
    if at is not None and not at.endswith("/"):
        at = at.rpartition("/")[0] + "/"
    return Given(target, shelf=LocalShelf(path.parent, whole=False, at=at), key=path.name)


def _is_host(target: str) -> bool:
    """Return True if a target without a file names a host, such as shop.example."""
    last = target.rstrip("/").rpartition(".")[2].lower()
    return bool(_HOST.fullmatch(target)) and last not in _FILE_TYPES and not _could_be(target.rstrip("/"))


def _stdin(options: Options) -> Given:
    if options.open_stdin is None:
        raise ConfigError("-: standard input is not available here")
    return _piped(STDIN, options.open_stdin(), options)


def _pipe(target: str, path: Path, options: Options) -> Given:
    """Read a named pipe, such as `<(command)` in a shell."""
    try:
        with path.open("rb") as pipe:
            return _piped(target, pipe, options)
    except OSError as error:
        raise ConfigError(f"{target}: the pipe can't be read: {error.strerror or error}") from error


def _piped(name: str, pipe: BinaryIO, options: Options) -> Given:
    data = pipe.read(options.max_bytes + 1)
    return Given(name, shelf=PipedShelf(Piped(name, data, options.at)), key=name)


def _address(target: str) -> Given:
    shown = shown_address(target)
    try:
        if not urlsplit(target).hostname:
            raise ConfigError(f"{shown}: the address has no host")
        origin(shown)
        return Given(shown, url=shown, credentials=credentials(target))
    except ValueError as error:
        raise ConfigError(f"{shown}: this is not an http or https address ({error})") from error


def _is(path: Path, *kinds: Callable[[int], bool]) -> bool:
    """Return True if a path exists and is of one of these kinds."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return any(kind(mode) for kind in kinds)


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
    objects = options.open_s3(url)
    if url.count("/") > 2 and next(iter(objects.list("")), None) is None:
        raise ConfigError(f"{target}: there is neither an object nor a prefix of this name in the bucket")
    return Given(target, shelf=BucketShelf(objects, url, whole=True, at=_folder(options.at)))


def _folder(at: str | None) -> str | None:
    return at if at is None or at.endswith("/") else at + "/"


def _joined(at: str | None, key: str) -> str | None:
    return None if at is None else at + quote(os.fsencode(key), safe=_URL_CHARACTERS)


def _could_be(name: str) -> bool:
    return name.lower().endswith(_ENDINGS) and not name.startswith(".")


def keys_of(url: str, beside: str, at: str | None = None) -> list[str]:
    """Return the possible relative paths of an address's file, the most likely first.

    beside: the path of the file that names it.
    at: the public address of the folder, with a final slash. On its host, an address has exactly one path. On other
    hosts, files are searched by name.

    Paths outside the folder are excluded.
    """
    try:
        parts = urlsplit(url)
        base = urlsplit(at or "")
        host, home = parts.hostname, base.hostname
    except ValueError:  # brackets without an address
        return []
    segments = _segments(parts.path)
    if not segments or any(part in {".", ".."} or "/" in part or "\\" in part or "\0" in part for part in segments):
        return []
    if home is not None and host == home:
        above = _segments(base.path)
        below = segments[len(above) :]
        return ["/".join(below)] if below and segments[: len(above)] == above else []
    folder = beside.rpartition("/")[0]
    tails = ["/".join(segments[begin:]) for begin in range(len(segments))]
    keys = [f"{folder}/{tail}" for tail in tails] if folder else []
    return [*keys, *tails]


def _segments(path: str) -> list[str]:
    """Return the segments of a path of a URL that are not empty, decoded."""
    return [part for part in map(unquote, path.split("/")) if part]
