"""Progress on stderr: bars on a terminal, plain lines, or JSON lines. With --quiet, only warnings."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from sitemap_etl.cli.logs import put_line
from sitemap_etl.cli.output import put_error
from sitemap_etl.cli.words import duration
from sitemap_etl.visible import visible_lines

if TYPE_CHECKING:
    from sitemap_etl.cli.bars import Terminal

_PAUSE: Final = 15.0
"""Seconds between plain lines that only count rows."""
_GUESS: Final = 10.0
"""Seconds after which a plain line estimates the time that a stage still needs."""
_WARNING: Final = "warning: "


class Bars(AbstractContextManager["Bars"]):
    """Progress of each stage, removed at the end. Thread-safe.

    `quiet`: print only warnings. `verbose`: also print each finished task. `as_json`: print JSON lines, which always
    include each finished task. `clock` returns seconds.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        verbose: bool = False,
        as_json: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quiet = quiet
        self.as_json = as_json
        self._verbose = verbose
        self._clock = clock
        self._terminal: Terminal | None = None
        if sys.stderr.isatty() and not quiet and not as_json:
            from sitemap_etl.cli.bars import Terminal

            self._terminal = Terminal(clock)
        self._said: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._rows: dict[tuple[str, int], int] = {}  # rows of each thread's current split
        self._read: dict[str, int] = {}  # rows of finished splits
        self._last = self._clock()
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        if self._terminal:
            self._terminal.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._terminal:
            self._terminal.stop()

    def say(self, line: str) -> None:
        """Print a line above the bars. Lines that begin with `warning: ` are printed even if quiet."""
        warning = line.removeprefix(_WARNING) if line.startswith(_WARNING) else None
        with self._lock:
            if warning is not None:
                self._warned.add(warning)
            elif self.quiet:
                return
            if self.as_json:
                put_line("info" if warning is None else "warning", line if warning is None else warning)
            else:
                self._print(line)

    def warn(self, text: str) -> None:
        """Print a warning, unless it was printed before."""
        if text not in self._warned:
            self.say(f"{_WARNING}{text}")

    def detail(self, line: str, **facts: Any) -> None:
        """Print a finished task, if verbose or JSON. `facts`: its fields in JSON."""
        with self._lock:
            if self.as_json and not self.quiet:
                put_line("info", line, **facts)
            elif self._verbose:
                self._print(line)

    def advance(self, stage: str, done: int, total: int) -> None:
        """Report `done` of `total` tasks of a stage.

        If `total` is 0, `done` is the number of rows that this thread has read of its task.
        """
        with self._lock:
            self._began.setdefault(stage, self._clock())
            if not total:
                self._count(stage, done)
            elif self._terminal:
                self._terminal.show(stage, self._status(stage, done, total), completed=done, total=total)
            elif done == total or done * 10 // total > self._said.get(stage, 0):
                self._said[stage] = done * 10 // total
                self._line(f"{stage}: {done:,} of {total:,}{self._left(stage, done, total)}")

    def _left(self, stage: str, done: int, total: int) -> str:
        took = self._clock() - self._began[stage]
        if done == total or took < _GUESS:
            return ""
        return f", about {duration(took / done * (total - done))} left"

    def _count(self, stage: str, rows: int) -> None:
        here = (stage, threading.get_ident())
        before = self._rows.get(here, 0)
        if rows < before:  # the thread has started another split
            self._read[stage] = self._read.get(stage, 0) + before
        self._rows[here] = rows
        if self._terminal:
            status = self._terminal.status(stage).partition("  ")[0]
            self._terminal.show(stage, f"{status}  {self._sum(stage):,} rows")
        elif self._clock() - self._last > _PAUSE:
            text = f"{stage}: {self._sum(stage):,} rows so far"
            if self.as_json and not self.quiet:
                self._last = self._clock()
                put_line("info", text, rows=self._sum(stage))
            else:
                self._line(text)

    def _sum(self, stage: str) -> int:
        return self._read.get(stage, 0) + sum(n for (of, _), n in self._rows.items() if of == stage)

    def _status(self, stage: str, done: int, total: int) -> str:
        rows = self._sum(stage)
        return f"{done:,} of {total:,}" + (f"  {rows:,} rows" if rows else "")

    def _line(self, line: str) -> None:
        """Print a line of progress."""
        self._last = self._clock()
        if not self.quiet and not self.as_json:  # the JSON log has a line for each task
            self._print(line)

    def _print(self, line: str) -> None:
        if self._terminal:
            self._terminal.print(visible_lines(line))
        else:
            put_error(line)
