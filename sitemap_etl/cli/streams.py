"""Standard streams for a job that continues when nobody reads them any more.

None of these ends a command or changes its exit code: a reader that stops reading, a full disk under a log, a stream
that was closed before the start, and a terminal that can't show a character.
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
    """A file descriptor to which every write succeeds.

    `lost`: the first error that lost bytes. A closed pipe doesn't count.
    """

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
    """Make the standard streams resilient while a command runs. Streams that a test has replaced are left alone."""
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
    """Return the error that lost output on stdout. Return None if all was written or the reader closed the pipe."""
    sys.stdout.flush()
    raw = getattr(sys.stdout, "buffer", None)
    return raw.lost if isinstance(raw, _Lasting) else None


def is_unicode() -> bool:
    """Return True if stdout can encode any character."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().startswith("utf")


def _open_the_closed() -> None:
    """Open closed standard streams on the null device, so that no file of ours gets their numbers."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one


def _last(stream: TextIO | Any, fd: int) -> TextIO:
    if stream is not None and type(stream) is not io.TextIOWrapper:
        return stream
    encoding = "utf-8" if stream is None else stream.encoding
    eager = stream is not None and stream.write_through
    lines = stream is not None and stream.line_buffering
    return io.TextIOWrapper(
        _Lasting(fd),  # no buffer below the text layer, as in Python's unbuffered streams
        encoding,
        errors="replace",
        line_buffering=lines,
        write_through=eager,
    )
