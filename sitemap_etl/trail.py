"""A note of what this process works on, for the process that supervises it, which reads it if this one dies.

The note is JSON in a file in memory that both share. Without a supervisor nothing is written. Imports little, because
the supervisor has to start in milliseconds.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Trail(NamedTuple):
    """`site_file` and `run_id`: None if they are not known yet. `metrics`: the file for metrics of the run.

    `last`: the source's file that was opened last. `files`: those that are being read, the newest last.
    """

    site_file: str | None = None
    run_id: str | None = None
    dry_run: bool = False
    metrics: str | None = None
    last: str | None = None
    files: list[str] = []  # noqa: RUF012 - replaced, and never changed


_trail = Trail()
_descriptor: int | None = None
_lock = threading.Lock()


def begin(descriptor: int) -> None:
    """Write the note to this file descriptor from now on."""
    global _descriptor  # noqa: PLW0603 - a process has one supervisor
    _descriptor = descriptor
    _note()


def works_on(**what: str | bool | None) -> None:
    """Note what this process works on: fields of `Trail`."""
    _note(**what)


def opens(file: str) -> None:
    """Note that a source's file was opened, if nobody knows when it will be closed."""
    _note(last=file)


@contextmanager
def reads(file: str) -> Iterator[None]:
    """Note that a source's file is being read until the end of the block."""
    if _descriptor is None:
        yield
        return
    with _lock:
        _put(last=file, files=[*_trail.files, file])
    try:
        yield
    finally:
        with _lock:
            at = _trail.files.index(file)
            _put(files=_trail.files[:at] + _trail.files[at + 1 :])


def read(descriptor: int) -> Trail:
    """Return the note. It is empty if the process died before it wrote one, or while it did."""
    import json

    size = os.fstat(descriptor).st_size
    try:
        return Trail(**json.loads(os.pread(descriptor, size, 0).partition(b"\n")[0]))
    except (ValueError, TypeError):
        return Trail()


def _note(**what: Any) -> None:
    if _descriptor is not None:
        with _lock:
            _put(**what)


def _put(**what: Any) -> None:
    import json

    global _trail  # noqa: PLW0603 - as above
    _trail = _trail._replace(**what)
    assert _descriptor is not None
    os.pwrite(_descriptor, json.dumps(_trail._asdict()).encode() + b"\n", 0)
