"""Export files, local or in S3: find them by path, folder or pattern, open them, and detect changes while they are
read.

- A folder is read recursively, without names that begin with `.` or `_`. `key=value` folders: see `partitions`.
- In a pattern, `*` and `?` match within a folder, `**` crosses folders, and `[ab]` matches one of these.
- Files are read in the order of their names.
- A folder or a pattern must not read the files of a table (`sources.files.tables`); a file that is named itself can.
"""

from __future__ import annotations

import glob
import itertools
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.fs

from sitemap_etl import trail
from sitemap_etl.errors import Denied, InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.sources.files import tables
from sitemap_etl.sources.files.unsteady import changed, gone

if TYPE_CHECKING:
    from sitemap_etl.sources.files.s3 import Bucket, Object

S3: Final = "s3://"
_WILD: Final = re.compile(r"[*?\[]")
_OPENERS: Final = 16
"""Files opened at the same time, because requests over a network mostly wait."""
_LOOKED_AT: Final = 10_000
"""Names in a folder `metadata/` that are searched for Iceberg's files."""
_SMALL: Final = 1024 * 1024
"""Maximum bytes of a file that is fetched as a whole, ahead of its turn. Up to `_OPENERS` such files are in memory."""
_SHOWN: Final = 5
Note = Callable[[str], None]
"""Function that takes remarks for the user."""
_T = TypeVar("_T")
_R = TypeVar("_R")


class NothingFound(InvalidSource):
    """The file doesn't exist, or not yet. `pattern`: of the files of other names that its folder has, or ""."""

    pattern = ""

    @classmethod
    def among(cls, missing: str, folder: str, others: Sequence[str]) -> NothingFound:
        """Return the error for a folder that has only these files (relative paths)."""
        visible = [name for name in others if not any(part.startswith((".", "_")) for part in name.split("/"))]
        if not visible:
            return cls(missing)
        pattern = f"{folder.rstrip('/')}/{'**/' * any('/' in name for name in visible)}*"
        count = "1 file" if len(visible) == 1 else f"{len(visible):,} files"
        error = cls(
            f"{missing}. The folder has {count} of other names, such as {visible[0]}. To read them, write a pattern: "
            f"{pattern}"
        )
        error.pattern = pattern
        return error


class File(Frozen):
    """An export file. `mark` changes with its bytes (modification time or ETag).

    `pays`: we pay for reading the bucket. `verify`: its checksums must match. `modified`: modification time in epoch
    seconds by the storage's clock, only known for a file that was just found. `data`: its bytes, if they were fetched
    ahead.
    """

    path: str
    size: int
    mark: str
    pays: bool = False
    verify: bool = field(default=True, compare=False)
    modified: float = field(default=0.0, compare=False)
    data: bytes | None = field(default=None, compare=False, repr=False)

    def to_json(self) -> list[Any]:
        return [self.path, self.size, self.mark, self.pays, *([] if self.verify else [False])]

    @property
    def remote(self) -> bool:
        """True if its bytes are read over a network."""
        return self.path.startswith(S3)


Paths = str | Path | Sequence[str | Path | File]


def locate(
    paths: Paths,
    suffixes: tuple[str, ...],
    *,
    pays: bool = False,
    verify: bool = True,
    note: Note | None = None,
) -> list[File]:
    """Return the files of a path, a folder, a pattern or a list of these. `suffixes`: names to take from folders.

    Files that were found before are returned unchanged. `pays`: we pay for reading the bucket. `verify`: see `File`.
    `note` is called with files that are not read. Raise NothingFound, InvalidSource for files of a table, Denied if
    permission is denied, Unavailable.
    """

    def found_at(path: str | Path | File) -> tuple[list[File], list[str]]:
        if isinstance(path, File):
            return [path], []
        text = str(path)
        try:
            return _in_s3(text, suffixes, pays=pays) if text.startswith(S3) else _on_disk(text, suffixes)
        except OSError as error:
            raise translated(error, text) from error

    found: dict[str, File] = {}
    left: dict[str, None] = {}
    for files, others in each(found_at, [paths] if isinstance(paths, str | Path) else list(paths)):
        found |= {file.path: file for file in files}
        left |= dict.fromkeys(others)
    if not found:
        raise InvalidSource("no file is named: expected a path, a folder, a pattern or a list of these")
    names = [name for name in left if name not in found]
    if names and note is not None:
        more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
        count = "1 file is" if len(names) == 1 else f"{len(names):,} files are"
        note(f"{count} not read, of another kind, hidden or empty: {', '.join(names[:_SHOWN])}{more}")
    return list(found.values()) if verify else [replace(file, verify=False) for file in found.values()]


def check_unchanged(files: Sequence[File]) -> None:
    """Raise Unavailable if a file has changed since it was found, because its rows could be from two versions.

    For files in S3, every read checks this itself.
    """
    for file in files:
        if not file.remote:
            now = _look(file.path)
            if now is None:
                raise gone(file.path)
            if now != file:
                raise changed(file.path)


class RemoteFile(pa.PythonFile):  # type: ignore[misc] # pyarrow ships no types
    """A file in S3 as an Arrow file."""

    def __init__(self, made: Object, _mode: str) -> None:  # what `PythonFile` takes, it takes in `__cinit__`
        self.object = made


@contextmanager
def reading(file: File, *, stream: bool = False) -> Iterator[pa.NativeFile]:
    """Open the file for random access, or as a stream of its bytes.

    Errors of the file become Denied, Unavailable or InvalidSource.
    """
    with trail.reads(file.path):
        yield from _opened(file, stream=stream)


def _opened(file: File, *, stream: bool) -> Iterator[pa.NativeFile]:
    if file.data is not None:
        with pa.BufferReader(file.data) as buffer:
            yield buffer
        return
    if file.remote:
        with _object(file) as made, RemoteFile(made, "r") as remote:
            yield remote
        return
    local = pa.fs.LocalFileSystem(use_mmap=False)  # read with pread, not mapped
    try:
        opened = local.open_input_stream(file.path, compression=None) if stream else local.open_input_file(file.path)
    except OSError as error:
        raise translated(error, file.path) from error
    with opened:
        yield opened


def ahead(files: Sequence[File]) -> Iterator[File]:
    """Yield the files. Small files in S3 come with their bytes, which are fetched while earlier files are read.

    Raise Denied, Unavailable.
    """
    if not any(file.remote for file in files[1:]):
        yield from files
        return
    pool = ThreadPoolExecutor(_OPENERS)
    try:
        coming = deque(pool.submit(_fetched, file) for file in files[:_OPENERS])
        for file in (*files[_OPENERS:], *(None for _ in coming)):
            yield coming.popleft().result()
            if file is not None:
                coming.append(pool.submit(_fetched, file))
    finally:
        pool.shutdown(cancel_futures=True)


def _fetched(file: File) -> File:
    if not file.remote or file.size > _SMALL:
        return file
    with _object(file) as made:
        return replace(file, data=made.read())


def _object(file: File) -> Object:
    bucket, key = _bucket_of(file.path, pays=file.pays, verify=file.verify)
    return bucket.open(key, file.size, file.mark)


def system_of(files: Sequence[File]) -> pa.fs.FileSystem:
    """Return a file system that opens these files by their paths, for a dataset."""
    return pa.fs.PyFileSystem(_Files(files))


class _Files(pa.fs.FSSpecHandler):  # type: ignore[misc] # pyarrow ships no types
    """Random access to files, local or in S3, as a dataset needs it.

    A dataset opens one file after the other. Meanwhile, the next small files in S3 are fetched.
    """

    def __init__(self, files: Sequence[File]) -> None:
        super().__init__(None)
        self._files = list(files)
        self._places = {file.path: at for at, file in enumerate(files)}
        self._coming: dict[int, Future[File]] = {}
        self._lock = Lock()
        self._pool = ThreadPoolExecutor(_OPENERS)
        self._local = pa.fs.LocalFileSystem(use_mmap=False)

    def get_type_name(self) -> str:
        return "exports"

    def open_input_file(self, path: str) -> pa.NativeFile:
        at = self._places[path]
        trail.opens(path)
        if not self._files[at].remote:
            return self._local.open_input_file(path)
        with self._lock:
            near = range(at, min(at + _OPENERS, len(self._files)))
            self._coming = {n: self._coming.get(n) or self._pool.submit(_fetched, self._files[n]) for n in near}
            coming = self._coming[at]
        file = coming.result()
        return RemoteFile(_object(file), "r") if file.data is None else pa.BufferReader(file.data)


def each(look: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """Call `look` for every item, several at a time, and return the results in order."""
    if len(items) < 2:
        return [look(item) for item in items]
    with ThreadPoolExecutor(min(_OPENERS, len(items))) as pool:
        return list(pool.map(look, items))


def translated(error: BaseException, path: str) -> SitemapEtlError:
    """Translate an error of reading a file: invalid data, missing permission, or an unavailable location."""
    text = str(error).partition(". Detail:")[0]
    if isinstance(error, SitemapEtlError):
        return error
    if isinstance(error, FileNotFoundError):
        return InvalidSource(f"there is no file {path}")
    if isinstance(error, PermissionError):
        return Denied(f"{path} may not be read by this user")
    if getattr(error, "errno", None) is not None:
        return Unavailable(f"{path} can't be read now: {text}")
    return InvalidSource(f"{path} can't be read: {text}")


def _bucket_of(url: str, *, pays: bool = False, verify: bool = True) -> tuple[Bucket, str]:
    """Return the bucket and key of `s3://bucket/key`."""
    from sitemap_etl.sources.files import s3  # boto3 is slow to import, and most sources need none

    name, _, key = url.removeprefix(S3).partition("/")
    if not name:
        raise InvalidSource(f"{url!r} names no bucket: expected s3://bucket/key")
    return s3.bucket(name, pays=pays, verify=verify), key


def _on_disk(text: str, suffixes: tuple[str, ...]) -> tuple[list[File], list[str]]:
    """Return the files of a path, and the names beside them that are not taken."""
    path = Path(text)
    others: list[str] = []
    if path.is_dir():
        below = sorted(found for found in path.rglob("*") if not found.is_dir())
        names = [str(found) for found in below if _taken(found.relative_to(path).as_posix(), suffixes)]
        others = [found.relative_to(path).as_posix() for found in below if str(found) not in set(names)]
        missing = f"no file matches {text}/**/*{suffixes[0]}"
    elif _WILD.search(text) and not path.exists():
        names = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        missing = f"no file matches {text}"
    else:
        names, missing = [text], f"there is no file {text}"
    found = {name: _look(name) for name in names}
    files = [file for file in found.values() if file is not None]
    odd = [name for name, file in found.items() if file is None and Path(name).exists() and not Path(name).is_dir()]
    if odd and not files:
        raise InvalidSource(f"{odd[0]} is a named pipe, a device or a socket: expected a file")
    others += odd
    if not files:
        raise NothingFound.among(missing, text, others)
    table = tables.table_on_disk(file.path for file in files) if names != [text] else None
    if table is not None:
        raise tables.refused(text, table)
    return (files, others) if names == [text] else _filled(files, others)


def _in_s3(text: str, suffixes: tuple[str, ...], *, pays: bool) -> tuple[list[File], list[str]]:
    """Return the objects of an address, and the names beside them that are not read."""
    bucket, key = _bucket_of(text, pays=pays)
    wild = _WILD.search(key)
    if not wild and key and not key.endswith("/"):
        exact = bucket.head(key)
        if exact is not None:
            size, mark, modified = exact
            return [File(text, size, mark, pays, modified=modified)], []
    prefix = key[: wild.start()] if wild else f"{key.rstrip('/')}/" if key else ""
    pattern = re.compile(_pattern(key)) if wild else None
    taken: dict[str, File] = {}
    others: list[str] = []
    in_tables: dict[str, str] = {}
    for found, size, mark, modified in bucket.objects(prefix):
        table = tables.table_of(found)
        if table is not None:
            in_tables.setdefault(*table)
        if pattern.fullmatch(found) if pattern else _taken(found[len(prefix) :], suffixes):
            taken[found] = File(f"{S3}{bucket.name}/{found}", size, mark, pays, modified=modified)
        elif not pattern and not found.endswith("/"):
            others.append(found[len(prefix) :])
    if not taken:
        missing = f"no file matches {text}" if wild else f"there is no file {text}, and no folder with *{suffixes[0]}"
        raise NothingFound.among(missing, text, others)
    for folder in tables.folders_of(taken):
        kind = in_tables.get(folder) or (_kind_in_s3(bucket, folder) if prefix.startswith(folder) else None)
        if kind is not None:
            raise tables.refused(text, (f"{S3}{bucket.name}/{folder}", kind))
    return _filled(list(taken.values()), others)


def _filled(files: list[File], others: list[str]) -> tuple[list[File], list[str]]:
    """Move empty files to the others, unless all are empty."""
    filled = [file for file in files if file.size]
    return (filled, [*others, *(file.path for file in files if not file.size)]) if filled else (files, others)


def _kind_in_s3(bucket: Bucket, folder: str) -> str | None:
    """Return the kind of table that an S3 folder contains. None if it isn't one or can't be listed."""
    with suppress(Denied):
        for marker in tables.FOLDERS:
            for name, *_ in itertools.islice(bucket.objects(folder + marker), _LOOKED_AT):
                table = tables.table_of(name)
                if table is not None and table[0] == folder:
                    return table[1]
    return None


def _look(path: str) -> File | None:
    """Return the local file, or None if it doesn't exist."""
    place = Path(path)
    try:
        stat = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise translated(error, path) from error
    return File(path, stat.st_size, str(stat.st_mtime_ns), modified=stat.st_mtime) if place.is_file() else None


def look_at(path: str, *, pays: bool = False) -> File | None:
    """Return the file or object, or None if it doesn't exist. Raise Denied, Unavailable."""
    if not path.startswith(S3):
        return _look(path)
    bucket, key = _bucket_of(path, pays=pays)
    found = bucket.head(key)
    if found is None:
        return None
    size, mark, modified = found
    return File(path, size, mark, pays, modified=modified)


def folder_of(text: str, found: Sequence[File]) -> str:
    """Return the folder of a path, folder or pattern, with a slash at its end. `found`: its files."""
    if [file.path for file in found] == [text]:
        return f"{text.rpartition('/')[0]}/"
    wild = _WILD.search(text)
    return f"{text[: wild.start()].rpartition('/')[0]}/" if wild else f"{text.rstrip('/')}/"


def everything_in(folder: str, *, pays: bool = False) -> Iterator[File]:
    """Yield every file below a folder, whatever its name. Raise Denied, Unavailable."""
    if folder.startswith(S3):
        bucket, prefix = _bucket_of(folder, pays=pays)
        for key, size, mark, modified in bucket.objects(prefix):
            yield File(f"{S3}{bucket.name}/{key}", size, mark, pays, modified=modified)
        return
    try:
        for path in sorted(Path(folder).rglob("*")):
            file = _look(str(path))
            if file is not None:
                yield file
    except OSError as error:
        raise translated(error, folder) from error


def _taken(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.endswith(suffixes) and not any(part.startswith((".", "_")) for part in name.split("/"))


def _pattern(wild: str) -> str:
    """Return the regular expression of a pattern."""
    out, at = "", 0
    while at < len(wild):
        rest = wild[at:]
        if rest.startswith("**/"):
            out, at = out + "(?:.*/)?", at + 3
        elif rest.startswith("**"):
            out, at = out + ".*", at + 2
        elif rest[0] == "*":
            out, at = out + "[^/]*", at + 1
        elif rest[0] == "?":
            out, at = out + "[^/]", at + 1
        elif rest[0] == "[" and "]" in rest[2:]:
            end = rest.index("]", 2)
            inside = rest[1:end].replace("\\", "\\\\")
            out, at = out + f"[{'^' + inside[1:] if inside[0] == '!' else inside}]", at + end + 1
        else:
            out, at = out + re.escape(rest[0]), at + 1
    return out
