"""Export files, local or in S3: found by path, folder or pattern; opened; seen to stay the same while they are read.

- A folder is read recursively, without names that begin with `.` or `_`; `key=value` folders add no columns.
- In a pattern `*` and `?` stay within a folder, `**` crosses folders, `[ab]` is one of these.
- Files are taken in the order of their names.
- A folder or a pattern must not read the files of a table (`sources.tables`); a file that is named itself may be one.
"""

from __future__ import annotations

import glob
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
import pyarrow.fs

from sitemap_etl.errors import InvalidSource, Refused, SitemapEtlError, Unavailable
from sitemap_etl.sources import tables

if TYPE_CHECKING:
    from sitemap_etl.sources.s3 import Bucket

S3: Final = "s3://"
_WILD: Final = re.compile(r"[*?\[]")
_OPENERS: Final = 16
"""Footers read at once: over a network, looking takes time and no work."""
_LOOKED_AT: Final = 10_000
"""Names in a folder `metadata/` among which one of Iceberg's is looked for."""
_T = TypeVar("_T")
_R = TypeVar("_R")


@dataclass(frozen=True)
class File:
    """A file as it was found: `mark` changes when its bytes do (the time it was modified, or its ETag)."""

    path: str
    size: int
    mark: str

    def to_json(self) -> list[Any]:
        return [self.path, self.size, self.mark]


def locate(paths: str | Path | Sequence[str | Path], suffixes: tuple[str, ...]) -> list[File]:
    """The files of a path, a folder, a pattern or a list of these; `suffixes` are the names taken from folders.

    Raises `InvalidSource` where nothing is found, or the files of a table, `Refused` where it may not be read,
    `Unavailable`.
    """
    found: dict[str, File] = {}
    for path in [paths] if isinstance(paths, str | Path) else paths:
        text = str(path)
        try:
            more = _in_s3(text, suffixes) if text.startswith(S3) else _on_disk(text, suffixes)
        except OSError as error:
            raise translated(error, text) from error
        found |= {file.path: file for file in more}
    if not found:
        raise InvalidSource("no file is named: expected a path, a folder, a pattern or a list of these")
    return list(found.values())


def check_unchanged(files: Sequence[File]) -> None:
    """Raises `Unavailable` where a file is not the one that was found: what was read of it may be of two versions."""
    for file, now in zip(files, each(_look, [file.path for file in files]), strict=True):
        if now is None:
            raise Unavailable(f"{file.path} was there when it was planned and is gone: the export may be under way")
        if now != file:
            raise Unavailable(f"{file.path} changed while it was read: the export may still be under way")


@contextmanager
def reading(file: File, *, stream: bool = False) -> Iterator[pa.NativeFile]:
    """The file open for reading: at random places, or as a stream of its bytes as they are.

    Errors of the file itself become `Refused`, `Unavailable` or `InvalidSource`.
    """
    system, name = system_of(file.path)
    try:
        opened = system.open_input_stream(name, compression=None) if stream else system.open_input_file(name)
    except OSError as error:
        raise translated(error, file.path) from error
    with opened:
        yield opened


def system_of(path: str) -> tuple[pa.fs.FileSystem, str]:
    """The file system of a path, and the path's name in it. Local files are read with pread, not mapped."""
    if path.startswith(S3):
        bucket, key = _bucket_of(path)
        return bucket.filesystem(), f"{bucket.name}/{key}"
    return pa.fs.LocalFileSystem(use_mmap=False), path


def each(look: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
    """`look` at every item, several at a time, in order."""
    if len(items) < 2:
        return [look(item) for item in items]
    with ThreadPoolExecutor(min(_OPENERS, len(items))) as pool:
        return list(pool.map(look, items))


def translated(error: BaseException, path: str) -> SitemapEtlError:
    """An error of reading a file as one of ours: the file's data, our rights, or the place it is in."""
    text = str(error).partition(". Detail:")[0]
    if isinstance(error, SitemapEtlError):
        return error
    if isinstance(error, FileNotFoundError):
        return InvalidSource(f"there is no file {path}")
    if isinstance(error, PermissionError):
        return Refused(f"{path} may not be read by this user")
    if "AWS Error" in text and isinstance(error, OSError):
        bucket, key = _bucket_of(path)
        return bucket.translated(error, key)
    if getattr(error, "errno", None) is not None:
        return Unavailable(f"{path} can't be read now: {text}")
    return InvalidSource(f"{path} can't be read: {text}")


def _bucket_of(url: str) -> tuple[Bucket, str]:
    """The bucket of `s3://bucket/key`, and the key."""
    from sitemap_etl.sources import s3  # boto3 is slow to import, and most sources need none

    name, _, key = url.removeprefix(S3).partition("/")
    if not name:
        raise InvalidSource(f"{url!r} names no bucket: expected s3://bucket/key")
    return s3.bucket(name), key


def _on_disk(text: str, suffixes: tuple[str, ...]) -> list[File]:
    path = Path(text)
    if path.is_dir():
        names = sorted(str(found) for found in path.rglob("*") if _taken(found.relative_to(path).as_posix(), suffixes))
        missing = f"no file matches {text}/**/*{suffixes[0]}"
    elif _WILD.search(text) and not path.exists():
        names = sorted(glob.glob(text, recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
        missing = f"no file matches {text}"
    else:
        names, missing = [text], f"there is no file {text}"
    files = [file for name in names if (file := _look(name)) is not None]
    if not files:
        raise InvalidSource(missing)
    table = tables.table_on_disk(file.path for file in files) if names != [text] else None
    if table is not None:
        raise tables.refused(text, table)
    return files


def _in_s3(text: str, suffixes: tuple[str, ...]) -> list[File]:
    bucket, key = _bucket_of(text)
    wild = _WILD.search(key)
    if not wild and key and not key.endswith("/"):
        exact = bucket.head(key)
        if exact is not None:
            return [File(text, *exact)]
    prefix = key[: wild.start()] if wild else f"{key.rstrip('/')}/" if key else ""
    pattern = re.compile(_pattern(key)) if wild else None
    taken: dict[str, File] = {}
    in_tables: dict[str, str] = {}
    for found, size, mark in bucket.objects(prefix):
        table = tables.table_of(found)
        if table is not None:
            in_tables.setdefault(*table)
        if pattern.fullmatch(found) if pattern else _taken(found[len(prefix) :], suffixes):
            taken[found] = File(f"{S3}{bucket.name}/{found}", size, mark)
    if not taken:
        raise InvalidSource(
            f"no file matches {text}" if wild else f"there is no file {text}, and no folder with *{suffixes[0]}"
        )
    for folder in tables.folders_of(taken):
        kind = in_tables.get(folder) or (_kind_in_s3(bucket, folder) if prefix.startswith(folder) else None)
        if kind is not None:
            raise tables.refused(text, (f"{S3}{bucket.name}/{folder}", kind))
    return list(taken.values())


def _kind_in_s3(bucket: Bucket, folder: str) -> str | None:
    """The kind of table that a folder is, which was not listed as a whole; None also where it may not be listed."""
    with suppress(Refused):
        for marker in tables.FOLDERS:
            for name, _, _ in itertools.islice(bucket.objects(folder + marker), _LOOKED_AT):
                table = tables.table_of(name)
                if table is not None and table[0] == folder:
                    return table[1]
    return None


def _look(path: str) -> File | None:
    """The file as it is now, None where there is none."""
    if path.startswith(S3):
        bucket, key = _bucket_of(path)
        found = bucket.head(key)
        return None if found is None else File(path, *found)
    place = Path(path)
    try:
        stat = place.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise translated(error, path) from error
    return File(path, stat.st_size, str(stat.st_mtime_ns)) if place.is_file() else None


def _taken(name: str, suffixes: tuple[str, ...]) -> bool:
    return name.endswith(suffixes) and not any(part.startswith((".", "_")) for part in name.split("/"))


def _pattern(wild: str) -> str:
    """The regular expression of a pattern."""
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
