"""Power losses: what a folder holds afterwards, if everything is gone that was not synced.

A program runs with `power.c`, which logs its changes. `Disk` replays a part of the log. As POSIX has it, an fsync of a
file makes its bytes durable, and an fsync of a folder the names in it.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).with_name("power.c")


class Change(NamedTuple):
    """An entry of the log."""

    kind: str
    path: Path
    other: Path
    data: bytes


@dataclass(eq=False)
class File:
    """A file, with the bytes that are durable."""

    durable: bytes = b""


@dataclass(eq=False)
class Folder:
    """A folder: the names in it, and those that are durable."""

    names: dict[str, File | Folder] = field(default_factory=dict)
    durable: dict[str, File | Folder] = field(default_factory=dict)
    lost: list[dict[str, File | Folder]] = field(default_factory=list)
    """The names after each change since the last sync."""


def built(into: Path) -> Path:
    """Compile `power.c`. Return the library to preload."""
    library = into / "power.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


def changes(log: Path) -> list[Change]:
    """Return the entries of a log."""
    return list(_changes(log.read_bytes()))


def _changes(data: bytes) -> Iterator[Change]:
    while data:
        kind, path, other, size, data = data.split(b"\0", 4)
        length = int(size)
        yield Change(kind.decode(), Path(path.decode()), Path(other.decode()), data[:length])
        data = data[length:]


class Disk:
    """A folder as it is on the disk. It begins with what `root` holds, all of which is durable."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = _read(root)

    def apply(self, change: Change) -> None:
        """Make a change."""
        if change.kind == "sync folder":
            folder = self._at(change.path)
            folder.durable, folder.lost = dict(folder.names), []
            return
        folder, name = self._at(change.path.parent), change.path.name
        touched = [folder]
        match change.kind:
            case "create":
                folder.names.setdefault(name, File())
            case "mkdir":
                folder.names[name] = Folder()
            case "unlink" | "rmdir":
                del folder.names[name]
            case "rename" | "link":
                touched.append(self._at(change.other.parent))
                touched[1].names[change.other.name] = folder.names[name]
                if change.kind == "rename":
                    del folder.names[name]
            case "sync file":
                file = folder.names[name]
                assert isinstance(file, File)
                file.durable, touched = change.data, []
        for found in touched:
            found.lost.append(dict(found.names))

    def fail(self, chance: random.Random) -> None:
        """Cut the power: put into the folder what is durable.

        Of the changes of names in a folder since its last sync, a random number is there, in their order.
        """
        shutil.rmtree(self._root)
        _write(self._root, self._top, chance)

    def _at(self, path: Path) -> Folder:
        found: File | Folder = self._top
        for name in path.relative_to(self._root).parts:
            assert isinstance(found, Folder)
            found = found.names[name]
        assert isinstance(found, Folder)
        return found


def _read(path: Path) -> Folder:
    names = {one.name: _read(one) if one.is_dir() else File(one.read_bytes()) for one in path.iterdir()}
    return Folder(names, dict(names))


def _write(path: Path, folder: Folder, chance: random.Random) -> None:
    path.mkdir()
    for name, found in chance.choice([folder.durable, *folder.lost]).items():
        if isinstance(found, Folder):
            _write(path / name, found, chance)
        else:
            (path / name).write_bytes(found.durable)
