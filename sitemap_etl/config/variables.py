"""`${NAME}` and `${NAME:-default}` inside text; `$${` stands for a `${` that is meant as such."""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ONLY_PLAIN = re.compile(r"(\$\{[A-Za-z_][A-Za-z0-9_]*\})+")


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """The text with its variables replaced, and the names that are neither set nor have a default.

    As in a shell, a default also stands in for a variable that is set but empty.
    """
    unset: list[str] = []

    def value(match: re.Match[str]) -> str:
        escaped, name, default = match.groups()
        if escaped:
            return "${"
        found = environ.get(name)
        if default is not None:
            return found or default
        if found is None:
            unset.append(name)
            return ""
        return found

    return _VARIABLE.sub(value, text), unset


def malformed(text: str) -> str | None:
    """A `${…` that is no variable (`${A B}`, `${A-x}`, `${`), where the text has one."""
    rest = _VARIABLE.sub("", text)
    start = rest.find("${")
    if start < 0:
        return None
    end = rest.find("}", start)
    return rest[start : end + 1] if end >= 0 else rest[start : start + 20]


def only_plain(text: str) -> bool:
    """Whether the text is nothing but `${NAME}`s: nothing of the value is written in the file."""
    return _ONLY_PLAIN.fullmatch(text) is not None
