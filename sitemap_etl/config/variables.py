"""Fill in `${NAME}` and `${NAME:-default}` inside text from the environment. `$${` is a literal `${`.

Most text is filled in when a file is loaded, secrets and parameters at the stage that uses them. The result is not
searched for variables again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_VARIABLE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-((?:(?!\$\{)[^}])*))?\}")


def expand(text: str, environ: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the text with its variables replaced, and the names of variables without a value or a default.

    As in a shell, a default is also used for a variable that is empty.
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


def values(text: str, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the values that the environment puts into the text."""
    found = (environ.get(match[2]) for match in _VARIABLE.finditer(text) if match[2] is not None)
    return tuple(value for value in found if value)


def malformed(text: str) -> str | None:
    """Return the first `${…` in the text that is not a valid variable, such as `${A B}` or `${A-x}`, or None."""
    start = _VARIABLE.sub(lambda match: "." * len(match[0]), text).find("${")
    if start < 0:
        return None
    end = text.find("}", start)
    while end >= 0 and text.count("${", start, end) > text.count("}", start, end + 1):
        end = text.find("}", end + 1)
    return text[start : end + 1] if end >= 0 else text[start : start + 20]
