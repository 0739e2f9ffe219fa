"""Progress on stderr: bars on a terminal, plain lines elsewhere, or one JSON object a line; or nothing but warnings."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from sitemap_etl.cli.logs import put_line

_PAUSE: Final = 15.0
"""Seconds between plain lines that only count rows."""
_GUESS: Final = 10.0
"""Seconds of a stage from which on a plain line says how long the rest may take."""
_WARNING: Final = "warning: "


class _Left(ProgressColumn):
    """How long a stage may still take; nothing while nobody can know."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        return Text("" if left is None else f"{_duration(left)} left", style="progress.remaining")


def _duration(seconds: float) -> str:
    """As 45 s, 12 min, 3 h 20 min."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Bars(AbstractContextManager["Bars"]):
    """Progress of each stage, removed at the end. May be called from several threads.

    `quiet`: only warnings. `verbose`: every part of the work, too. `as_json`: lines for a collector of logs, which
    always have every part. `clock`: seconds.
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
        self._terminal = sys.stderr.isatty() and not quiet and not as_json
        self._progress = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            _Left(),
            console=Console(stderr=True),
            transient=True,
            get_time=clock,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, int] = {}
        self._began: dict[str, float] = {}
        self._rows: dict[tuple[str, int], int] = {}  # of the split that a thread is reading
        self._read: dict[str, int] = {}  # of the splits it has read
        self._last = self._clock()
        self._lock = threading.Lock()
        self._warned: set[str] = set()

    def __enter__(self) -> Self:
        if self._terminal:
            self._progress.start()
            self._tasks[""] = self._progress.add_task("start", total=None, status="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._terminal:
            self._progress.stop()

    def say(self, line: str) -> None:
        """Print a line above the bars. One that begins with `warning: ` is printed in any case."""
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
        """Print what a part of the work came to, where that is asked for. `facts`: the same for a collector."""
        with self._lock:
            if self.as_json and not self.quiet:
                put_line("info", line, **facts)
            elif self._verbose:
                self._print(line)

    def advance(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` units of a stage; with a total of 0, rows that the thread has read of a unit."""
        with self._lock:
            self._began.setdefault(stage, self._clock())
            if not total:
                self._count(stage, done)
            elif self._terminal:
                self._progress.update(
                    self._task(stage), completed=done, total=total, status=self._status(stage, done, total)
                )
            elif done == total or done * 10 // total > self._said.get(stage, 0):
                self._said[stage] = done * 10 // total
                self._line(f"{stage}: {done:,} of {total:,}{self._left(stage, done, total)}")

    def _left(self, stage: str, done: int, total: int) -> str:
        took = self._clock() - self._began[stage]
        if done == total or took < _GUESS:
            return ""
        return f", about {_duration(took / done * (total - done))} left"

    def _count(self, stage: str, rows: int) -> None:
        here = (stage, threading.get_ident())
        before = self._rows.get(here, 0)
        if rows < before:  # another unit
            self._read[stage] = self._read.get(stage, 0) + before
        self._rows[here] = rows
        if self._terminal:
            task = self._task(stage)
            status = self._progress.tasks[task].fields["status"].partition("  ")[0]
            self._progress.update(task, status=f"{status}  {self._sum(stage):,} rows")
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

    def _task(self, stage: str) -> TaskID:
        if stage not in self._tasks:
            if "" in self._tasks:  # the start is over
                self._progress.update(self._tasks.pop(""), visible=False)
            self._tasks[stage] = self._progress.add_task(stage, total=None, status="")
        return self._tasks[stage]

    def _line(self, line: str) -> None:
        """A line of progress."""
        self._last = self._clock()
        if not self.quiet and not self.as_json:  # a collector has a line of each part
            self._print(line)

    def _print(self, line: str) -> None:
        if self._terminal:
            self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
        else:
            print(line, file=sys.stderr, flush=True)
