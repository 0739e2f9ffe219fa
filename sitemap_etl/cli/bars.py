"""Progress bars on a terminal, one per stage.

Imported only for terminals: loading the library takes a tenth of the time of a small run.
"""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn, TimeElapsedColumn
from rich.text import Text

from sitemap_etl.cli.words import duration


class _Left(ProgressColumn):
    """Estimated time that a stage still needs; empty if there is no estimate."""

    max_refresh = 0.5

    def render(self, task: Task) -> Text:
        left = None if task.finished else task.time_remaining
        return Text("" if left is None else f"{duration(left)} left", style="progress.remaining")


class Terminal:
    """Progress bars on stderr, with lines printed above them. `clock` returns seconds."""

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
        """Show an indeterminate bar until the first stage begins."""
        self._progress.start()
        self._tasks[""] = self._progress.add_task("start", total=None, status="")

    def stop(self) -> None:
        """Remove the bars."""
        self._progress.stop()

    def status(self, stage: str) -> str:
        """Return the text beside the bar of a stage."""
        return str(self._progress.tasks[self._task(stage)].fields["status"])

    def show(self, stage: str, status: str, *, completed: int | None = None, total: int | None = None) -> None:
        """Update the bar of a stage. None leaves a value unchanged."""
        self._progress.update(self._task(stage), status=status, completed=completed, total=total)

    def print(self, line: str) -> None:
        """Print a line above the bars."""
        self._progress.console.print(line, highlight=False, markup=False, soft_wrap=True)

    def _task(self, stage: str) -> TaskID:
        if stage not in self._tasks:
            if "" in self._tasks:  # the first stage begins
                self._progress.update(self._tasks.pop(""), visible=False)
            self._tasks[stage] = self._progress.add_task(stage, total=None, status="")
        return self._tasks[stage]
