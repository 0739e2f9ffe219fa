"""The command as a user calls it: in this process if that suffices, else as a separate process."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from sitemap_etl.cli import main
from sitemap_etl.cli.app import app

PROGRAM = [sys.executable, "-c", "from sitemap_etl.cli import main; main()"]
RUN_KEYS = {
    *("run_id", "status", "sections", "files", "bytes", "index", "gates", "engines", "warnings", "error", "report"),
    "seconds",
}
"""What a run's JSON has in every case."""


@dataclass(frozen=True)
class Done:
    """Result of a call."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The only JSON object on stdout."""
        return json.loads(self.out)


def commands(group: click.Group = app, prefix: str = "") -> dict[str, click.Command]:
    """Return every command by its name. The names of subcommands begin with that of their group."""
    found = {}
    for name in group.list_commands(click.Context(group)):
        command = group.get_command(click.Context(group), name)
        assert command is not None
        if isinstance(command, click.Group):
            found |= commands(command, f"{prefix}{name} ")
        else:
            found[f"{prefix}{name}"] = command
    return found


def at(time: str) -> tuple[str, ...]:
    """Return the options for a run at this time, whatever the clocks say."""
    return "--now", time, "--reason", "a test's time"


def call(*arguments: object) -> Done:
    """Call the command in this process."""
    out, err = io.StringIO(), io.StringIO()
    code = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = int(ended.code or 0)
    return Done(code, out.getvalue(), err.getvalue())


def process(*arguments: object, cwd: Path, **environ: str) -> subprocess.Popen[str]:
    """Start the command as a separate process with its own process group."""
    return subprocess.Popen(
        [*PROGRAM, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONUNBUFFERED": "1", **environ},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
