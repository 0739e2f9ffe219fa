"""Ctrl-C and SIGTERM: the first signal stops the current step in an orderly way, and any wait within two seconds.

Python runs signal handlers only in the main thread, between two bytecode instructions. Threads that wait for a store or
a database, and drivers in C, don't notice a signal. So a separate thread reads each signal when it arrives, and ends
the process once nothing is at work. Published files are valid at every instruction.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from sitemap_etl.cli.output import put_error

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_STEP: Final = 0.1
"""Seconds between two measurements of the process's activity."""
_STEPS: Final = 12
"""Consecutive idle measurements after which the process is ended."""
_AT_WORK: Final = 0.15
"""Minimum share of a processor that a working process uses, even if six processes share two processors.

A process that waits and shows its progress uses less.
"""
_SECOND: Final = 0.3
"""Seconds within which the main thread handles a second signal, unless a driver blocks it."""
_ONE: Final = 0.2
"""Seconds within which signals count as one: `timeout` and a supervisor send the same signal twice."""


class Interruption:
    """Signal handling while a command runs. `stop` reports the interruption and returns the exit code.

    `within`: seconds within which an interrupted command must end. For commands that leave nothing behind.
    """

    def __init__(self, stop: Callable[[], int], *, within: float = math.inf) -> None:
        self._stop = stop
        self._within = within
        self._ending = threading.Lock()
        self.asked = False
        self._first = 0.0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen until the end of the block."""
        reader, writer = os.pipe()
        os.set_blocking(writer, False)  # so wants `set_wakeup_fd`
        watching = threading.Thread(target=self._watch, args=(reader,), name="signals", daemon=True)
        before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        watching.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(wakeup)
            for number, handler in before.items():
                signal.signal(number, handler)
            os.write(writer, b"\0")
            watching.join()
            os.close(reader)
            os.close(writer)

    def over(self) -> None:
        """Ignore signals from now on, because the command has ended."""
        self._ending.acquire(blocking=False)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._ending.locked():
            return
        if self.asked:
            if time.monotonic() - self._first > _ONE:
                self._end()
            return
        self.asked, self._first = True, time.monotonic()
        if sys.stderr.isatty():
            put_error("")
            put_error("Stopping after the current step. Press Ctrl-C again to stop at once.")
        raise KeyboardInterrupt

    def _watch(self, reader: int) -> None:
        signals = 0
        used: deque[float] = deque(maxlen=_STEPS + 1)
        first = second = 0.0
        while True:
            ready, _, _ = select.select([reader], [], [], _STEP if signals else None)
            if ready:
                data = os.read(reader, 64)
                if 0 in data:
                    return
                now = time.monotonic()
                if first and now - first <= _ONE:
                    continue
                signals += 1
                first = first or now
                second = now if signals > 1 and not second else second
                continue
            used.append(time.process_time())
            idle = len(used) > _STEPS and used[-1] - used[0] < _AT_WORK * _STEPS * _STEP
            now = time.monotonic()
            if idle or now - first > self._within or (second and now - second > _SECOND):
                self._end()
                used.clear()

    def _end(self) -> None:
        """End the process at once, unless it is about to end. The lease of a dead process expires."""
        if self._ending.acquire(blocking=False):
            code = self._stop()
            sys.stdout.flush()
            os._exit(code)
