"""The standard streams as they must be for a job that goes on when nobody reads it any more.

A reader who has had enough, a disk that is full under a log, a stream that was closed before we started, a terminal
that can't show a character: none of them ends a command or turns its exit code.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class _Lasting(io.RawIOBase):
    """A file descriptor to which any write succeeds. `lost`: why bytes were lost; a reader who left is no reason."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.name = fd
        self.lost: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def isatty(self) -> bool:
        return os.isatty(self._fd)

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        rest = view
        while rest:
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                select.select([], [self._fd], [])
            except OSError as error:
                if error.errno != errno.EPIPE and self.lost is None:
                    self.lost = error
                break
        return len(view)


@contextmanager
def lasting() -> Iterator[None]:
    """Let the streams of this process last while a command runs. Streams that a test put there are left alone."""
    _open_the_closed()
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = _last(sys.stdout, 1), _last(sys.stderr, 2)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        sys.stdout, sys.stderr = before


def lost_output() -> OSError | None:
    """Why something that was written to stdout did not get there; None where all did, or its reader had enough."""
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    return raw.lost if isinstance(raw, _Lasting) else None


def is_unicode() -> bool:
    """Whether stdout takes any character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _open_the_closed() -> None:
    """Lead a standard stream that was closed nowhere, before a file of ours gets its number and is written into."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def _last(stream: TextIO | Any, fd: int) -> TextIO:
    if stream is not None and type(stream) is not io.TextIOWrapper:
        return stream
    encoding = "utf-8" if stream is None else stream.encoding
    eager = stream is not None and stream.write_through
    lines = stream is not None and stream.line_buffering
    return io.TextIOWrapper(
        _Lasting(fd),  # as in Python's own unbuffered streams, there is no buffer below the text
        encoding,
        errors="replace",
        line_buffering=lines,
        write_through=eager,
    )
