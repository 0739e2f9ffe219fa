"""Ctrl-C and SIGTERM: the first ends what is under way in good order, and any wait within two seconds.

Python runs a signal's handler between two of its own instructions, and only in the main thread. A thread that waits for
a store or a database, or a driver in C, hears nothing of it. So a thread of its own reads each signal as it comes, and
ends the process where nothing is at work any more: whatever line it stops on, what is public is valid.
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

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_STEP: Final = 0.1
"""Seconds between two looks at what the process does."""
_STEPS: Final = 12
"""Looks in a row for which it must have done nothing."""
_AT_WORK: Final = 0.15
"""Share of a processor that a process at work uses at the least, which may have to share two of them with five others.
One that waits and shows its progress uses less.
"""
_SECOND: Final = 0.3
"""Seconds in which the main thread would have heard of a second signal, were it not in a driver."""


class Interruption:
    """What a signal does while a command runs. `stop` tells of it, and gives the exit code.

    `within`: seconds in which a command must have ended that leaves nothing behind, whatever it is at.
    """

    def __init__(self, stop: Callable[[], int], *, within: float = math.inf) -> None:
        self._stop = stop
        self._within = within
        self._ending = threading.Lock()
        self.asked = False

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
        """There is nothing left to interrupt: from now on a signal does nothing."""
        self._ending.acquire(blocking=False)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        if self._ending.locked():
            return
        if self.asked:
            self._end()
            return
        self.asked = True
        if sys.stderr.isatty():
            print("\nStopping after the current step. Press Ctrl-C again to stop at once.", file=sys.stderr, flush=True)
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
                signals += sum(byte in _SIGNALS for byte in data)
                first = first or time.monotonic()
                second = time.monotonic() if signals > 1 and not second else second
                continue
            used.append(time.process_time())
            idle = len(used) > _STEPS and used[-1] - used[0] < _AT_WORK * _STEPS * _STEP
            now = time.monotonic()
            if idle or now - first > self._within or (second and now - second > _SECOND):
                self._end()
                used.clear()

    def _end(self) -> None:
        """End the process at once, unless it is about to. A dead process holds no lease."""
        if self._ending.acquire(blocking=False):
            code = self._stop()
            sys.stdout.flush()
            os._exit(code)
