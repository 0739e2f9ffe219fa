"""Progress on stderr: bars on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn


class Bars(AbstractContextManager["Bars"]):
    """Shows how far each stage is. `advance` may be called from several threads."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self._console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._said: dict[str, int] = {}
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

    def advance(self, stage: str, done: int, total: int) -> None:
        """`done` of `total` units of a stage; a total of 0 is unknown."""
        with self._lock:
            if self._terminal:
                if stage not in self._tasks:
                    self._tasks[stage] = self._progress.add_task(stage, total=total or None)
                self._progress.update(self._tasks[stage], completed=done, total=total or None)
            elif total and (done == total or done * 10 // total > self._said.get(stage, -1)):
                self._said[stage] = done * 10 // total
                print(f"{stage}: {done} of {total}", file=sys.stderr, flush=True)
