"""A folder as a storage. Files appear whole, by rename, and conditions hold against other processes.

The etag is the SHA-256 of the content. `stat` reads the file to compute it; `list` leaves it out.
"""

from __future__ import annotations

import hashlib
import os
import stat as modes
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path

from sitemap_etl.errors import ConfigError, Denied, of_ours
from sitemap_etl.storage.body import Body
from sitemap_etl.storage.folder import (
    MISSING,
    is_temporary,
    link_or_rename,
    prune,
    remove_stale,
    sweep,
    sync,
    target_of,
    temporary,
    translated,
    turn,
    write_beside,
)
from sitemap_etl.storage.protocol import (
    ABSENT,
    Access,
    Data,
    Expect,
    Stat,
    Stored,
    check_key,
    check_prefix,
    join,
    precondition_failed,
)


class LocalStorage:
    """A folder. It need not exist: reading finds nothing there, the first put makes it.

    conditional: False takes no locks, for file systems that can't lock a folder (some network drives).
    durable: False leaves out the fsyncs, and the etag of what is put without a condition: that of a run's own staging
    is never asked for, and hashing it takes longer than writing it. access: who can read what is new. prefix: empty,
    or segments and a final slash.
    """

    def __init__(
        self, root: str | Path, *, conditional: bool, durable: bool, access: Access = "public", prefix: str = ""
    ) -> None:
        self._root = Path(root).absolute()
        self._prefix = prefix
        self._base = self._root / prefix
        self._durable = durable
        self._access: Access = access
        self._swept: set[Path] = set()
        self._sweeping = threading.Lock()
        self.conditional = conditional
        self.url = str(self._root / prefix)

    def __repr__(self) -> str:
        return f"LocalStorage({self.url!r})"

    @property
    def place(self) -> str:
        return os.path.realpath(self.url)

    def url_of(self, key: str) -> str:
        return f"{self.url.rstrip('/')}/{key}"

    def sub(self, prefix: str) -> LocalStorage:
        below = join(self._prefix, prefix)
        return LocalStorage(
            self._root, conditional=self.conditional, durable=self._durable, access=self._access, prefix=below
        )

    def get(self, key: str) -> Stored | None:
        with self._errors("read", key), self._opened(self._path(key)) as file:
            if file is None:
                return None
            with os.fdopen(file, "rb", buffering=0, closefd=False) as reader:
                data = reader.readall()
            sha256 = hashlib.sha256(data).hexdigest()
            link = target_of(self._path(key), self._root)
            return Stored(_stat(key, os.fstat(file), sha256, link), data, sha256)

    def read(self, key: str, start: int, length: int) -> bytes:
        with self._errors("read", key), self._opened(self._path(key)) as file:
            if file is None:
                raise Denied(f"{self.url_of(key)} does not exist: expected to read {length:,} bytes of it")
            parts: list[bytes] = []
            at, stop = start, start + length
            while at < stop and (part := os.pread(file, stop - at, at)):
                parts.append(part)
                at += len(part)
            if at < stop:
                raise Denied(
                    f"{self.url_of(key)} holds {os.fstat(file).st_size:,} bytes: "
                    f"expected {length:,} from byte {start:,} on. It is not the file that was described."
                )
            return parts[0] if len(parts) == 1 else b"".join(parts)

    def stat(self, key: str) -> Stat | None:
        path = self._path(key)
        with self._errors("read", key):
            return self._look(key, path)

    def put(
        self,
        key: str,
        data: Data,
        *,
        content_type: str = "application/octet-stream",  # noqa: ARG002 (a folder keeps no headers)
        cache_control: str | None = None,  # noqa: ARG002 (as above)
        expect: Expect = None,
        sha256: str | None = None,
    ) -> Stat:
        path = self._path(key)
        body = Body(data)
        with self._errors("write", key):
            hashed = sha256 is None and (self._durable or expect is not None)
            beside, found_sha256 = write_beside(
                path, body, root=self._root, durable=self._durable, hashed=hashed, access=self._access
            )
            etag = sha256 or found_sha256
            try:
                with self._turn(path.parent):
                    if expect is not None:
                        found = self._look(key, path)
                        if found is not None and (found.etag, found.size) == (etag, body.size):
                            return found  # our own bytes: an earlier try got this far
                        if (found is not None) if expect is ABSENT else (found is None or found.etag != expect):
                            raise precondition_failed(self.url_of(key), key, expect, found)
                    status = beside.stat()
                    self._place(key, path, beside, expect)
            finally:
                with suppress(FileNotFoundError):
                    beside.unlink()
            self._sweep(path.parent)
            return _stat(key, status, etag)

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        path = self._path(key)
        with self._errors("delete", key):
            try:
                with self._turn(path.parent):
                    if expect is not None:
                        found = self._look(key, path)
                        if found is not None and found.etag != expect:
                            raise precondition_failed(self.url_of(key), key, expect, found)
                    if path.is_dir():
                        return False  # the key of no file
                    path.unlink()
                    if self._durable:
                        sync(path.parent)
            except MISSING:
                return False
            prune(path.parent, self._root)
            return True

    def list(self, prefix: str = "") -> Iterator[Stat]:
        """Yield every object, with None as its etag, and remove stale temporary files on the way."""
        check_prefix(prefix)
        folder, _, begin = prefix.rpartition("/")
        with self._errors("list", prefix):
            yield from self._walk(self._base / folder, f"{folder}/" if folder else "", begin)

    def now(self) -> datetime:
        """Return the time of the clock that stamps files; on a network drive, that is the server's.

        Create a file to read its time. If that fails, return the time of this machine's clock.
        """
        probe = temporary(self._base / "now")
        try:
            file = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        except OSError:
            return datetime.now(UTC)
        try:
            return _time(os.fstat(file))
        finally:
            os.close(file)
            probe.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        check_key(key)
        if is_temporary(key.rpartition("/")[2]):
            raise ConfigError(f"{key!r} is not a valid key: such names are reserved for temporary files")
        return self._base / key

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int | None]:
        """Yield the file's descriptor, or None if the key names no file. Raise `Denied` if it is not a file."""
        target_of(path, self._root)
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # never waits for a FIFO that appears now
        except MISSING:
            self._check_root()
            yield None
            return
        try:
            yield None if modes.S_ISDIR(os.fstat(file).st_mode) else file
        finally:
            os.close(file)

    def _look(self, key: str, path: Path) -> Stat | None:
        with self._opened(path) as file:
            if file is None:
                return None
            with os.fdopen(file, "rb", buffering=0, closefd=False) as reader:
                digest = hashlib.file_digest(reader, "sha256").hexdigest()
            return _stat(key, os.fstat(file), digest)

    def _place(self, key: str, path: Path, beside: Path, expect: Expect) -> None:
        """Move the temporary file to its final path."""
        if path.is_dir():
            raise Denied(f"{path} is a folder: expected a file or no file yet. Move it away or use another name.")
        target = target_of(path, self._root)
        if target is not None:
            raise Denied(f"{path} is a link to {target}, and a link is never replaced. Remove it, then run again.")
        if expect is ABSENT and self.conditional:
            try:
                link_or_rename(beside, path)
            except FileExistsError as error:
                raise precondition_failed(self.url_of(key), key, expect, self._look(key, path)) from error
        else:
            beside.replace(path)
        if self._durable:
            sync(path.parent)

    def _turn(self, folder: Path) -> AbstractContextManager[None]:
        return turn(folder) if self.conditional else nullcontext()

    def _walk(self, folder: Path, top: str, begin: str) -> Iterator[Stat]:
        """Yield the files of a folder and its subfolders, as keys that begin with `top`."""
        try:
            with os.scandir(folder) as entries:
                found = [entry for entry in entries if entry.name.startswith(begin)]
        except MISSING:
            self._check_root()
            return
        # A folder sorts as its keys do: by its name and the slash that follows.
        found.sort(key=lambda entry: os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b""))
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                yield from self._walk(folder / entry.name, f"{top}{entry.name}/", "")
            elif is_temporary(entry.name):
                remove_stale(Path(entry.path))
            else:
                with suppress(FileNotFoundError):  # removed meanwhile
                    status = entry.stat()
                    if modes.S_ISREG(status.st_mode):
                        yield _stat(top + entry.name, status, None)

    def _sweep(self, folder: Path) -> None:
        """Remove stale temporary files, once for each folder that is written to."""
        with self._sweeping:
            if folder in self._swept:
                return
            self._swept.add(folder)
        sweep(folder)

    def _check_root(self) -> None:
        """Raise `Denied` if the folder is a file. A missing folder is fine: it is empty."""
        if self._root.exists() and not self._root.is_dir():
            raise Denied(f"{self._root} is a file: expected a folder, or no file yet")

    @contextmanager
    def _errors(self, action: str, key: str) -> Iterator[None]:
        with of_ours():
            try:
                yield
            except OSError as error:
                raise translated(error, action, self.url_of(key)) from error


def _stat(key: str, status: os.stat_result, etag: str | None, link: str | None = None) -> Stat:
    return Stat(key, status.st_size, etag, _time(status), link)


def _time(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime, UTC)
