"""Encode text for output. A source, a file or a server can write values that act on a terminal or on a CI service."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

_COMMANDS: Final = "|".join(
    (
        *("add-mask", "add-matcher", "add-path", "debug", "echo", "endgroup", "error", "group", "notice"),
        *("remove-matcher", "save-state", "set-env", "set-output", "stop-commands", "warning"),
    )
)
_ACTS: Final = re.compile(rf":(?=:(?:{_COMMANDS})(?: [^\n]*?)?::)|#(?=#(?:vso|teamcity)?\[)")
"""First character of a command of GitHub Actions (`::error::`, `##[error]`), Azure Pipelines or TeamCity."""
_BMP: Final = 0xFFFF


def visible(text: str) -> str:
    """Return the text in one line. Invisible characters and the first one of a CI command are code points."""
    return _encoded(text, _code_point)


def visible_lines(text: str) -> str:
    """Return the text with its line breaks, otherwise as `visible` does. Lines after the first one are indented.

    So a value with a line break can't look like a message.
    """
    first, *more = map(visible, text.split("\n"))
    return "\n".join([first, *(line if line.startswith(" ") or not line else f"  {line}" for line in more)])


def visible_json(value: object, *, ascii_only: bool = False) -> str:
    """Return the value as JSON in one line, with the same characters escaped. Every parser reads the same value."""
    return _encoded(json.dumps(value, ensure_ascii=ascii_only, default=str), _json_escape)


def _encoded(text: str, escape: Callable[[str], str]) -> str:
    if not text.isprintable():
        text = "".join(c if c.isprintable() else escape(c) for c in text)
    return _ACTS.sub(lambda found: escape(found[0]), text) if "::" in text or "##" in text else text


def _code_point(character: str) -> str:
    number = ord(character)
    return f"\\u{number:04x}" if number <= _BMP else f"\\U{number:08x}"


def _json_escape(character: str) -> str:
    return _code_point(character) if ord(character) <= _BMP else json.dumps(character)[1:-1]
