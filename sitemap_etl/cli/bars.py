"""Bars on a terminal, one a stage. Only terminals load this: the library is a tenth of what a small run costs."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from sitemap_etl.cli.words import duration


class _Left(ProgressColumn):
    """How long a stage may still take; nothing while nobody can know."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        return Text("" if left is None else f"{duration(left)} left", style="progress.remaining")


class Terminal:
    """Bars on stderr, and lines above them. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
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

    def start(self) -> None:
        """Show that something is about to begin."""
        self._progress.start()
        self._tasks[""] = self._progress.add_task("start", total=None, status="")

    def stop(self) -> None:
        """Remove the bars."""
        self._progress.stop()

    def status(self, stage: str) -> str:
        """What is shown beside the bar of a stage."""
        return str(self._progress.tasks[self._task(stage)].fields["status"])

    def show(self, stage: str, status: str, *, completed: int | None = None, total: int | None = None) -> None:
        """How far a stage is; None: as before."""
        self._progress.update(self._task(stage), status=status, completed=completed, total=total)

    def print(self, line: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _task(self, stage: str) -> TaskID:
        if stage not in self._tasks:
            if "" in self._tasks:  # the start is over
                self._progress.update(self._tasks.pop(""), visible=False)
            self._tasks[stage] = self._progress.add_task(stage, total=None, status="")
        return self._tasks[stage]
