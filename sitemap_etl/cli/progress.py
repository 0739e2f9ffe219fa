"""Progress on stderr: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

_PAUSE: Final = 15.0
"""Seconds between plain lines that only count rows."""


class Bars(AbstractContextManager["Bars"]):
    """Progress of each stage, removed at the end. `advance` may be called from several threads."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._progress = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[status]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, int] = {}
        self._rows: dict[tuple[str, int], int] = {}  # of the split that a thread is reading
        self._read: dict[str, int] = {}  # of the splits it has read
        self._last = time.monotonic()
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        if self._terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._terminal:
            self._progress.stop()

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        with self._lock:
            if self._terminal:
                self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)
            else:
                print(line, file=sys.stderr, flush=True)

    def advance(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` units of a stage; with a total of 0, rows that the thread has read of a unit."""
        with self._lock:
            if not total:
                self._count(stage, done)
            elif self._terminal:
                self._progress.update(
                    self._task(stage), completed=done, total=total, status=self._status(stage, done, total)
                )
            elif done == total or done * 10 // total > self._said.get(stage, -1):
                self._said[stage] = done * 10 // total
                self._print(f"{stage}: {done:,} of {total:,}")

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
        elif time.monotonic() - self._last > _PAUSE:
            self._print(f"{stage}: {self._sum(stage):,} rows so far")

    def _sum(self, stage: str) -> int:
        return self._read.get(stage, 0) + sum(n for (of, _), n in self._rows.items() if of == stage)

    def _status(self, stage: str, done: int, total: int) -> str:
        rows = self._sum(stage)
        return f"{done:,} of {total:,}" + (f"  {rows:,} rows" if rows else "")

    def _task(self, stage: str) -> TaskID:
        if stage not in self._tasks:
            self._tasks[stage] = self._progress.add_task(stage, total=None, status="")
        return self._tasks[stage]

    def _print(self, line: str) -> None:
        self._last = time.monotonic()
        print(line, file=sys.stderr, flush=True)
