"""A statement on a database: session settings, time limits and cancellation.

A driver in C doesn't notice Ctrl-C or a failure in another thread, and a dead server never responds. So the driver
reads in a separate thread, one batch per request, and the waiting thread stays responsive. Whatever ends the wait, the
statement is cancelled on the server.
"""

from __future__ import annotations

import math
import queue
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from datetime import timedelta
from typing import Final, Generic, Literal, TypeVar

from sitemap_etl.errors import Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.settings.kinds import duration_text

GRACE: Final = 5.0
"""Seconds after a time limit in which the server can end the statement and report it itself."""
_LOOK: Final = 0.1
"""Seconds between checks for the end of the run."""
_FAREWELL: Final = 1.0
"""Seconds to wait for an abandoned statement. After that, it is left to the end of the process."""
Limit = Literal["timeout", "lock_timeout"]
_LOCKED: Final = "Another session holds a lock on what is read: run again when it is done, or raise the limit"
_T = TypeVar("_T")


class Session(Frozen):
    """Settings for sessions of a database, which each dialect sets with its own statements.

    `name`: reader and purpose, for administrators. `timeout`, `lock_timeout`: maximum time of a statement, and of
    waiting for a lock; a shorter limit of the server applies. `fetch_rows`: rows fetched at a time. None: default of
    server or driver. `stopping`: set when the rows are no longer needed.
    """

    name: str = "sitemap_etl"
    timeout: timedelta | None = None
    lock_timeout: timedelta | None = None
    fetch_rows: int | None = None
    stopping: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)
    notice: Callable[[str, int, Iterable[str]], None] = field(
        default=lambda _kind, _count, _examples: None, repr=False, compare=False
    )

    def hint(self, key: Limit | None) -> str:
        """Return the text to append to the message of a server that has ended a statement because of a limit."""
        limit = {"timeout": self.timeout, "lock_timeout": self.lock_timeout, None: None}[key]
        if limit is None:
            return ""
        more = "Read it in more splits, or raise the limit" if key == "timeout" else _LOCKED
        return f" ({key} of the source is {duration_text(limit)}, the server's own may be shorter). {more}"


class Stopped(Exception):
    """The client was stopped while it waited."""


class SnapshotGone(Unavailable):
    """The server doesn't have the snapshot, or no longer."""


class Statement:
    """A statement of a session. The driver's thread defines its cancellation; any thread can cancel it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._changing = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self._cancelled = False

    @contextmanager
    def cancelled_by(self, cancel: Callable[[], object]) -> Iterator[None]:
        """Use `cancel` to end the statement on the server while the block runs. It is called from another thread."""
        with self._changing:
            if self._cancelled:
                raise Stopped
            self._cancel = cancel
        try:
            yield
        finally:
            with self._changing:
                self._cancel = None

    def cancel(self) -> None:
        """End the statement, and prevent later ones."""
        with self._changing:
            self._cancelled = True
            if self._cancel is not None:
                with suppress(Exception):  # the server can be gone, and the first error matters
                    self._cancel()


class _Driver(threading.Thread, Generic[_T]):
    """Thread that reads on demand. A daemon, so that a hanging driver doesn't keep the process alive."""

    def __init__(self, read: Callable[[Statement], Iterator[_T]], session: Session) -> None:
        super().__init__(name="database", daemon=True)
        self.statement = Statement(session)
        self.asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.found: queue.SimpleQueue[tuple[_T] | BaseException | None] = queue.SimpleQueue()
        self._read = read

    def run(self) -> None:
        """Put an item for each request, None at the end, or the error."""
        rows: Iterator[_T] = iter(())
        try:
            rows = self._read(self.statement)
            while self.asked.get():
                try:
                    self.found.put((next(rows),))
                except StopIteration:
                    self.found.put(None)
                    return
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            self.found.put(error)
        finally:
            if isinstance(rows, Generator):
                with suppress(Exception):  # the result is already delivered
                    rows.close()

    def end(self) -> None:
        """Cancel repeatedly until the thread ends, because between two statements a cancellation has no effect."""
        for _ in range(int(GRACE / _LOOK)):
            self.statement.cancel()
            self.join(_LOOK)
            if not self.is_alive():
                return


def answered(ask: Callable[[Statement], _T], session: Session, *, label: str) -> _T:
    """Return the result of `ask`, attended like a reader."""
    (found,) = attended(lambda statement: iter([ask(statement)]), session, label=label)
    return found


def attended(read: Callable[[Statement], Iterator[_T]], session: Session, *, label: str) -> Generator[_T]:
    """Yield the items of `read`, which runs in a separate thread. If this ends early, the statement is cancelled.

    Raises errors of `read`, Unavailable if nothing arrives within the session's timeout, and ReadStopped.
    """
    driver = _Driver(read, session)
    until = math.inf if session.timeout is None else time.monotonic() + session.timeout.total_seconds() + GRACE
    driver.start()
    over = False
    try:
        while True:
            driver.asked.put(True)
            item = _awaited(driver, until, label)
            if not isinstance(item, tuple):
                over = True
                if item is None:
                    return
                raise item
            yield item[0]
    finally:
        driver.asked.put(False)
        # While the process exits, starting a thread would wait forever.
        if not over and not sys.is_finalizing():
            # Cancelling needs another connection, which can hang if the server is gone.
            threading.Thread(target=driver.end, name="cancel", daemon=True).start()
        if not sys.is_finalizing():
            driver.join(_FAREWELL)


def _awaited(driver: _Driver[_T], until: float, label: str) -> tuple[_T] | BaseException | None:
    session = driver.statement.session
    while True:
        if session.stopping.is_set():
            raise Stopped
        try:
            return driver.found.get(timeout=_LOOK)
        except queue.Empty:
            if session.timeout is not None and time.monotonic() > until:
                raise Unavailable(
                    f"{label}: the database did not answer within {duration_text(session.timeout)}, the timeout of "
                    "the source. Make sure that the server works, or raise timeout:, and run again"
                ) from None
