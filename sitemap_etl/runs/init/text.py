"""The text of a site file: YAML with comments, safe for any name of a column or file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_COMMENT_AT: Final = 43
_UNPRINTABLE: Final = re.compile(r"[^\S ]|[^\x20-\x7e\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
"""Characters that a line of YAML can't contain: line breaks of any kind, controls, marks of direction."""


def scalar(text: Any) -> str:
    """Return a text, a number or a list as a key or a value."""
    if isinstance(text, str) and _PLAIN.fullmatch(text) and yaml.safe_load(text) == text:
        return text
    return _dumped(text).removesuffix("\n...")


def written(value: str | list[str]) -> str:
    """Return a text, or a list of texts in one line, as a value."""
    return scalar(value) if isinstance(value, str) else _dumped(value)


def flow(mapping: Mapping[str, Any]) -> str:
    """Return a mapping in one line."""
    return _dumped(dict(mapping))


def block(text: str, indent: int) -> str:
    """Return a text of several lines as a value, indented by `indent` spaces."""
    if any(_UNPRINTABLE.search(line) for line in text.split("\n")):
        return scalar(text)
    return "|\n" + "\n".join(" " * indent + line for line in _literal(text).split("\n"))


def line(text: str, comment: str = "") -> str:
    """Return a line with its comment in the common column."""
    return f"{text:<{_COMMENT_AT}} # {one_line(comment)}" if comment else text


def shown(name: str) -> str:
    """Return a name for a sentence, in quotes if it begins or ends with a space."""
    return name if name == name.strip() else f'"{name}"'


def listed(names: Iterable[str]) -> str:
    """Return names as a list in a sentence."""
    return ", ".join(map(shown, names))


def one_line(text: str) -> str:
    """Return a text that is safe in a comment."""
    return _UNPRINTABLE.sub(" ", text)


class _Dumper(yaml.SafeDumper):
    """YAML dumper that writes text with unusual line breaks in double quotes, so that they survive."""


def _text(dumper: _Dumper, text: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if _UNPRINTABLE.search(text) else None)


_Dumper.add_representer(str, _text)


def _dumped(value: Any) -> str:
    dumped: str = yaml.dump(
        _literal(value), Dumper=_Dumper, default_flow_style=True, sort_keys=False, allow_unicode=True, width=2**31
    )
    return dumped.strip("\n")


def _literal(value: Any) -> Any:
    """Return the value with `${` escaped, so that it isn't read as a variable."""
    if isinstance(value, dict):
        return {_literal(key): _literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_literal(item) for item in value]
    return value.replace("${", "$${") if isinstance(value, str) else value
