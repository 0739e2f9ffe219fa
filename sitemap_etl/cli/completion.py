"""Completion of commands, options and paths by a shell."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click
import shellingham
from click.shell_completion import ShellComplete, get_completion_class, shell_complete

from sitemap_etl.cli.endings import COMPLETE, PROGRAM
from sitemap_etl.cli.output import put
from sitemap_etl.errors import ConfigError

_SHELLS: Final = ("bash", "zsh", "fish")


def complete(command: click.Command, instruction: str) -> int:
    """Print the answer for a shell, and return the exit code."""
    return shell_complete(command, {}, PROGRAM, COMPLETE, instruction)


def shell() -> str:
    """Return the name of the shell that runs the command. Raise ConfigError if it has no completion."""
    try:
        name, _ = shellingham.detect_shell()
    except shellingham.ShellDetectionFailure:
        name = "this shell"
    if name not in _SHELLS:
        raise ConfigError(f"No completion for {name}: expected one of {', '.join(_SHELLS)}")
    return str(name)


def script(command: click.Command, name: str) -> str:
    """Return the script that makes a shell complete the command."""
    kind: type[ShellComplete] | None = get_completion_class(name)
    assert kind is not None
    return kind(command, {}, PROGRAM, COMPLETE).source().strip()


def install(command: click.Command) -> None:
    """Write the script for the current shell into the home folder, and have the shell load it."""
    name, home = shell(), Path.home()
    file = (
        home
        / {
            "bash": f".bash_completions/{PROGRAM}.sh",
            "zsh": f".zfunc/_{PROGRAM}",
            "fish": f".config/fish/completions/{PROGRAM}.fish",
        }[name]
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{script(command, name)}\n")
    if name == "bash":
        _add_line(home / ".bashrc", f"source '{file}'")
    elif name == "zsh":
        _add_line(home / ".zshrc", "fpath+=~/.zfunc; autoload -Uz compinit; compinit")
    put(f"{name} completion installed in {file}", "Completion will take effect once you restart the terminal")


def _add_line(file: Path, line: str) -> None:
    """Append a line to a file, unless the file has it."""
    if not file.is_file() or line.encode() not in file.read_bytes().splitlines():
        with file.open("a") as end:
            end.write(f"\n{line}\n")
