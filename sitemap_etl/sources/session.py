"""A statement on a database: what its session is told, and that nobody waits for it in vain.

A driver in C hears neither Ctrl-C nor that the run has failed elsewhere, and a server that has stopped says nothing for
ever. So the driver reads in a thread of its own, a batch at a time when one is asked for, and who waits for the batch
does hear: whatever ends the wait, the statement is cancelled on the server.
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
"""Seconds that a server has beyond a time limit, to end the statement itself and say so in its own words."""
_LOOK: Final = 0.1
"""Seconds between two looks whether the run has ended."""
_FAREWELL: Final = 1.0
"""Seconds that a statement has to end which nobody waits for; after them it is left to the end of the process."""
Limit = Literal["timeout", "lock_timeout"]
_LOCKED: Final = "Another session holds a lock on what is read: run again when it is done, or raise the limit"
_T = TypeVar("_T")


class Session(Frozen):
    """What a database is told of those who read it; each dialect renders it in its own statements.

    `name`: who reads what, for the administrator. `timeout`, `lock_timeout`: how long a statement may take, and may
    wait for a lock; a shorter limit of the server's own holds. `fetch_rows`: rows fetched at a time. None: as the
    server and the driver have it. `stopping`: set when nobody wants the rows any more. `notice` takes what the server
    says of the rows that were read: the kind, how many, and examples.
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
        """What follows the words of a server that has ended a statement, for a time limit or not."""
        limit = {"timeout": self.timeout, "lock_timeout": self.lock_timeout, None: None}[key]
        if limit is None:
            return ""
        more = "Read it in more splits, or raise the limit" if key == "timeout" else _LOCKED
        return f" ({key} of the source is {duration_text(limit)}, the server's own may be shorter). {more}"


class Stopped(Exception):
    """The run has ended elsewhere, so that the rows are not wanted any more."""


class Statement:
    """One statement of a session; the driver's thread says how it is cancelled, any other thread cancels it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._changing = threading.Lock()
        self._cancel: Callable[[], object] | None = None
        self._cancelled = False

    @contextmanager
    def cancelled_by(self, cancel: Callable[[], object]) -> Iterator[None]:
        """While the block runs, `cancel` ends the statement on the server. It is called from another thread."""
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
        """End it, and let none begin after it."""
        with self._changing:
            self._cancelled = True
            if self._cancel is not None:
                with suppress(Exception):  # a server that is gone: the reason to cancel is the one to tell
                    self._cancel()


class _Driver(threading.Thread, Generic[_T]):
    """Reads on demand. A daemon: a driver that never returns does not keep the process."""

    def __init__(self, read: Callable[[Statement], Iterator[_T]], session: Session) -> None:
        super().__init__(name="database", daemon=True)
        self.statement = Statement(session)
        self.asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.found: queue.SimpleQueue[tuple[_T] | BaseException | None] = queue.SimpleQueue()
        self._read = read

    def run(self) -> None:
        """Put the next item whenever asked for one, None at the end, or the error that ended it."""
        rows: Iterator[_T] = iter(())
        try:
            rows = self._read(self.statement)
            while self.asked.get():
                try:
                    self.found.put((next(rows),))
                except StopIteration:
                    self.found.put(None)
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised where the rows are wanted
            self.found.put(error)
        finally:
            if isinstance(rows, Generator):
                with suppress(Exception):  # the end was told already
                    rows.close()

    def end(self) -> None:
        """Cancel what it does until it ends: between two statements nothing is cancelled, and the next one follows."""
        for _ in range(int(GRACE / _LOOK)):
            self.statement.cancel()
            self.join(_LOOK)
            if not self.is_alive():
                return


def answered(ask: Callable[[Statement], _T], session: Session, *, label: str) -> _T:
    """What `ask` returns, attended likewise."""
    (found,) = attended(lambda statement: iter([ask(statement)]), session, label=label)
    return found


def attended(read: Callable[[Statement], Iterator[_T]], session: Session, *, label: str) -> Generator[_T]:
    """What `read` yields, read in a thread of its own; the statement is cancelled where this ends early.

    Raises what `read` raises, `Unavailable` where nothing came within the session's timeout, `Stopped`.
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
        # While the process ends no thread can be started any more, and whoever tried would wait for ever.
        if not over and not sys.is_finalizing():
            # It takes a connection of its own: a server that is gone must not keep us either.
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
