"""The text of a site file: YAML with comments, whatever is in the names of columns and files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENT_AT: Final = 43
_UNPRINTABLE: Final = re.compile(r"[^\S ]|[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""What a line of YAML can't hold as it is: line breaks of any kind, controls, marks of direction."""


def scalar(text: Any) -> str:
    """Return a text, a number or a list as a key or a value."""
    if isinstance(text, str) and _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return _dumped(text).removesuffix("\n...")


def written(value: str | list[str]) -> str:
    """Return a text, or a list of texts in one line, as a value."""
    return scalar(value) if isinstance(value, str) else _dumped(value)


def flow(mapping: Mapping[str, Any]) -> str:
    """A mapping in one line."""
    return _dumped(dict(mapping))


def block(text: str, indent: int) -> str:
    """A text of several lines as a value, its lines indented by so many spaces."""
    if any(_UNPRINTABLE.search(line) for line in text.split("\n")):
        return scalar(text)
    return "|\n" + "\n".join(" " * indent + line for line in _literal(text).split("\n"))


def line(text: str, comment: str = "") -> str:
    """A line, its comment where those of the others begin."""
    return f"{text:<{_COMMENT_AT}} # {one_line(comment)}" if comment else text


def shown(name: str) -> str:
    """A name as a sentence has it: in quotes where it begins or ends with a space, which nobody would see."""
    return name if name == name.strip() else f'"{name}"'


def listed(names: Iterable[str]) -> str:
    """Return names as a sentence has them."""
    return ", ".join(map(shown, names))


def one_line(text: str) -> str:
    """A text for a comment."""
    return _UNPRINTABLE.sub(" ", text)


class _Dumper(yaml.SafeDumper):
    """Writes text with odd line breaks in double quotes: in single ones PyYAML leaves them as they are, and folds them
    when it reads.
    """


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _UNPRINTABLE.search(text) else None)


_Dumper.add_representer(str, _text)


def _dumped(value: Any) -> str:
    dumped: str = yaml.dump(
        _literal(value), Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=2**31
    )
    return dumped.strip("\n")


def _literal(value: Any) -> Any:
    """The value with `${` marked as what it is: a site file would take it for a variable."""
    if isinstance(value, dict):
        return {_literal(key): _literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(item) for item in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
