"""Everything that the command prints. No other module prints, so no text reaches a stream without its encoding."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from sitemap_etl.cli.streams import is_unicode
from sitemap_etl.visible import visible, visible_json, visible_lines

if TYPE_CHECKING:
    from rich.console import Console

_PAPER: Final = 200
"""Columns of a file or pipe, whose lines are not wrapped."""


def put(*lines: str) -> None:
    """Print lines on stdout."""
    for line in lines:
        print(visible(line))


def put_text(text: str) -> None:
    """Print a message, which can have several lines, on stdout."""
    print(visible_lines(text))


def put_headline(text: str, rest: str = "") -> None:
    """Print a line on stdout. `text` is in bold if the output can show it."""
    bold = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
    print((click.style(visible(text), bold=True) if bold else visible(text)) + visible(rest))


def put_error(text: str) -> None:
    """Print a message, which can have several lines, on stderr."""
    print(visible_lines(text), file=sys.stderr, flush=True)


def put_json(data: Any) -> None:
    """Print one JSON object, which says the same on a stream that takes only ASCII."""
    put_raw(visible_json(data, ascii_only=not is_unicode()))


def put_log(line: Any) -> None:
    """Print one JSON object on stderr."""
    print(visible_json(line, ascii_only=True), file=sys.stderr, flush=True)


def put_raw(text: str) -> None:
    """Print a document on stdout that is encoded already: JSON, XML, a script, lines of a CI service."""
    print(text)


def console() -> Console:
    """Return the console for tables, as wide as the terminal."""
    from rich.console import Console

    paper = Console()
    return paper if paper.is_terminal else Console(width=_PAPER)


def width() -> int:
    """Return the number of columns of a line on this terminal, file or pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _PAPER
