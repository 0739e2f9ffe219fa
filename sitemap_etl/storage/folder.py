"""Write files in a folder that other processes read and write: temporary names, syncs, errors.

A file is first written under a hidden temporary name, and then renamed, so that it appears whole. A killed process
leaves a temporary file, which has no key and is removed after a day.

A durable write syncs the file before the rename and the folder after it. A new folder is synced into its parent.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import random
import re
import secrets
import stat as modes
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sitemap_etl.errors import Denied, SitemapEtlError, Unavailable
from sitemap_etl.storage.body import Body
from sitemap_etl.storage.protocol import Access

STALE_SECONDS: Final = 86_400
"""Age at which a temporary file belongs to no living writer."""

TURN_SECONDS: Final = 60.0
"""How long a writer waits for its turn; a turn takes the time of hashing one file and renaming another."""

_FIRST_PAUSE: Final = 0.001
_LONGEST_PAUSE: Final = 0.05

MISSING: Final = (FileNotFoundError, NotADirectoryError)
"""Exceptions for a path that does not exist."""

_TEMPORARY: Final = re.compile(r"\..*\.[0-9a-f]{16}\.tmp", re.DOTALL)
_NAME_BYTES: Final = 255
_RACES: Final = 100
"""Attempts to create a folder that others remove. A broken link makes all of them fail."""


def is_temporary(name: str) -> bool:
    """Return True for a temporary name: of a file that is being written, or whose writer was killed."""
    return _TEMPORARY.fullmatch(name) is not None


def temporary(path: Path) -> Path:
    """Return a unique temporary path in the same folder."""
    ending = f".{secrets.token_hex(8)}.tmp"
    begin = os.fsdecode(os.fsencode(path.name)[: _NAME_BYTES - len(ending) - 1])
    return path.with_name(f".{begin}{ending}")


_MODES: Final[dict[Access, tuple[int, int]]] = {"owner": (0o600, 0o700), "group": (0o640, 0o2750)}
"""Modes of new files and folders, whatever the umask is. A folder's group is also that of the files in it."""


def write_beside(
    path: Path, body: Body, *, root: Path, durable: bool, hashed: bool, access: Access
) -> tuple[Path, str | None]:
    """Write the bytes under a temporary name beside `path`. Return that name, and the SHA-256 of the bytes if `hashed`.

    Create the folders. The file gets the mode that `path` has, or the one of `access`. root: the folder that `access`
    is about, and what is in it. durable: also on the disk, folders and all. Raise OSError.
    """
    beside, file = _create_beside(path, root=root, durable=durable, access=access)
    digest = hashlib.sha256() if hashed else None
    try:
        with os.fdopen(file, "wb", buffering=0) as writer:
            for chunk in body.chunks():
                if digest is not None:
                    digest.update(chunk)
                left = chunk
                while left:
                    left = left[writer.write(left) :]
            with suppress(OSError):
                os.fchmod(file, modes.S_IMODE(path.stat().st_mode))
            if durable:
                os.fsync(file)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    return beside, None if digest is None else digest.hexdigest()


def _create_beside(path: Path, *, root: Path, durable: bool, access: Access) -> tuple[Path, int]:
    """Create a file under a temporary name. Return the name and its descriptor."""
    for _ in range(_RACES):
        _make(path.parent, root=root, durable=durable, access=access)
        beside = temporary(path)
        # A delete may have removed the empty folder in between.
        with suppress(FileNotFoundError):
            file = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o666 & ~_hidden(access))
            if access in _MODES:
                os.fchmod(file, _MODES[access][0])
            return beside, file
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path.parent))


def target_of(path: Path, root: Path) -> str | None:
    """Return where the path leads if it is a link to a file, else None. A missing file is fine.

    Raise `Denied` for a FIFO, a socket, a device and a link to nothing, before anything opens them. Raise it for a
    link that leads out of the folder that `root` is in, because its content could be private.
    """
    try:
        status = path.lstat()
    except MISSING:
        return None
    target = None
    if modes.S_ISLNK(status.st_mode):
        target = os.path.realpath(path)
        if not Path(target).is_relative_to(os.path.realpath(root.parent)):
            raise Denied(
                f"{path} is a link to {target}, outside of {root.parent}: that file could be private. Replace the link "
                "by a file, or remove it."
            )
        try:
            status = path.stat()
        except MISSING:
            raise Denied(f"{path} is a link to {target}, which does not exist. Remove the link.") from None
    if not modes.S_ISREG(status.st_mode) and not modes.S_ISDIR(status.st_mode):
        kind = next((name for is_kind, name in _SPECIAL if is_kind(status.st_mode)), "special file")
        raise Denied(f"{path} is a {kind}: expected a file or no file yet. Remove it.")
    return target


_SPECIAL: Final = (
    (modes.S_ISFIFO, "FIFO"),
    (modes.S_ISSOCK, "socket"),
    (modes.S_ISCHR, "device"),
    (modes.S_ISBLK, "device"),
)


def link_or_rename(beside: Path, path: Path) -> None:
    """Give the file its name, unless that name exists. This is safe against programs that don't lock the folder.

    Raise FileExistsError. On a file system without hard links, only the caller's lock protects the name.
    """
    try:
        os.link(beside, path)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS):
            raise
        beside.replace(path)


@contextmanager
def turn(folder: Path, *, seconds: float = TURN_SECONDS) -> Iterator[None]:
    """Hold the folder against other writers, threads and processes alike.

    Raise FileNotFoundError if there is no such folder, `Unavailable` where another writer holds it for
    longer than `seconds`, and `Denied` if it can't be locked.
    """
    stop = time.monotonic() + seconds
    while True:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _lock(file, folder, stop)
            # While we waited, a delete may have removed the folder, and a put made another.
            if os.path.samestat(os.fstat(file), folder.stat()):
                yield
                return
        finally:
            os.close(file)


def _lock(file: int, folder: Path, stop: float) -> None:
    """Lock the folder's descriptor, until `stop` by the monotonic clock."""
    pause = _FIRST_PAUSE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            # Not a blocking flock: a writer that is stopped in its turn would stop all others with it.
            if time.monotonic() > stop:
                raise Unavailable(
                    f"{folder} is locked by another process that does not finish writing. "
                    "Check for a stopped process, then try again."
                ) from error
        except OSError as error:
            raise Denied(
                f"{folder} is on a file system that can't lock a folder ({error.strerror}): "
                "set publish: {conditional_writes: false}, and make sure that only one run publishes at a time"
            ) from error
        else:
            return
        time.sleep(random.uniform(0, pause))  # noqa: S311 (spreads waiting writers, no secret)
        pause = min(2 * pause, _LONGEST_PAUSE)


def sync(folder: Path) -> None:
    """Sync the folder's directory entries to disk."""
    file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def prune(folder: Path, root: Path) -> None:
    """Remove `folder` and its parents below `root` while they are empty. A bucket has no empty folders either."""
    with suppress(OSError):
        while root in folder.parents:
            folder.rmdir()
            folder = folder.parent


def sweep(folder: Path) -> None:
    """Remove stale temporary files in the folder."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                remove_stale(Path(entry.path))


def remove_stale(path: Path) -> None:
    """Remove a temporary file whose writer must be dead."""
    with suppress(OSError):
        if time.time() - path.lstat().st_mtime > STALE_SECONDS:
            path.unlink()


_TRIES: Final = 100
"""Attempts to create a folder that another thread removes, or its parent, as empty. In /proc, all of them fail."""


def _make(folder: Path, *, root: Path, durable: bool, access: Access) -> None:
    """Create the folder and its parents, and sync each new one into its parent."""
    if not folder.is_relative_to(root):
        access = "public"  # other folders can be made in it
    for left in reversed(range(_TRIES)):
        try:
            folder.mkdir(0o777 & ~_hidden(access))
            if access in _MODES:
                folder.chmod(_MODES[access][1])
            if durable:
                sync(folder.parent)
        except FileExistsError:
            return  # that a file is there shows when it is written into
        except FileNotFoundError:  # its parent is missing, or another thread removed the new folder as empty
            if not left:
                raise
            _make(folder.parent, root=root, durable=durable, access=access)
        else:
            return


def _hidden(access: Access) -> int:
    """Return the bits that a new file or folder must not have, not even before its mode is set."""
    return 0 if access == "public" else 0o077


def exposed(folder: str, access: Access) -> Iterator[str]:
    """Yield the folders and files below a folder that are readable by others than `access` allows."""
    for path, folders, files in os.walk(folder):
        folders.sort()
        for name in ("", *sorted(files)):
            with suppress(FileNotFoundError):  # removed meanwhile
                mode = Path(path, name).lstat().st_mode
                if mode & (modes.S_IRWXO if access == "group" else modes.S_IRWXO | modes.S_IRWXG):
                    yield str(Path(path, name))


_NOT_A_FOLDER: Final = (Denied, "one of its parent folders is a file. Move that file away.")
_NO_SPACE: Final = (Unavailable, "there is no space left on the disk or in the quota. Free some space, then run again.")
_NO_RIGHT: Final = (Denied, "permission denied for {where}. Give user {user} access to it.")
_ERRORS: Final[dict[int, tuple[type[SitemapEtlError], str]]] = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.EROFS: (Denied, "the file system is read-only. Mount it writable or use another folder."),
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.ENOENT: (
        Denied,
        (
            "the folder {where} can't be created there: its parent allows no new folders, or is a broken "
            "link. Use another folder."
        ),
    ),
    errno.ENOTDIR: _NOT_A_FOLDER,
    errno.EISDIR: (Denied, "it is a folder, expected a file or no file yet."),
    errno.ENAMETOOLONG: (Denied, "the name is too long for the file system. Use shorter names."),
}


def translated(error: OSError, action: str, url: str) -> SitemapEtlError:
    """Return our error for an OSError. `action`: the failed operation on `url`, such as read or write."""
    kind, sentence = _ERRORS.get(
        error.errno or 0, (Unavailable, "{text}. Try again; if the error persists, check the disk.")
    )
    where = error.filename if isinstance(error.filename, str) else url
    return kind(
        f"can't {action} {url}: " + sentence.format(where=where, user=os.geteuid(), text=error.strerror or error)
    )
