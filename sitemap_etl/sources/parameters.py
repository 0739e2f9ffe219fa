"""Replace `:name` in a SELECT by the driver's placeholders. Comments, quotes and casts stay unchanged."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Final, Literal

from sitemap_etl.errors import ConfigError
from sitemap_etl.frozen import Frozen

Value = None | bool | int | float | Decimal | str | date | datetime
"""Types of values that can be bound."""

_NAME: Final = r"(?<![\w:\])\"'`]):(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
"""A parameter. After a word, a bracket or a quote, a colon is a slice (`a[x:y]`) or a path instead."""
_COMMON: Final = (r"--[^\n]*", r"::", r'"(?:[^"]|"")*"')
_STANDARD_TEXT: Final = r"'(?:[^']|'')*'"
_ESCAPED_TEXT: Final = r"'(?:[^'\\]|\\.|'')*'"
_SYNTAX: Final[dict[str, tuple[str, ...]]] = {
    "postgresql": (r"(?<!\w)[eE]" + _ESCAPED_TEXT, _STANDARD_TEXT, *_COMMON, r"(?<!\w)\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"),
    "sqlite": (_STANDARD_TEXT, *_COMMON, r"`[^`]*`", r"\[[^\]]*\]"),
    "duckdb": (r"(?<!\w)[eE]" + _ESCAPED_TEXT, _STANDARD_TEXT, *_COMMON, r"(?<!\w)\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"),
    "mysql": (_ESCAPED_TEXT, r"#[^\n]*", r"--[^\n]*", r'"(?:[^"\\]|\\.|"")*"', r"`[^`]*`"),
}
_OTHER: Final = (_STANDARD_TEXT, *_COMMON)


class Part(Frozen):
    """A part of SQL. The text of a name includes its colon."""

    kind: Literal["code", "name", "quoted", "comment"]
    text: str


def parts(sql: str, dialect: str) -> Iterator[Part]:
    """Yield the SQL divided at its parameters, quotes and comments. Joined, they are the same text."""
    pattern = re.compile("|".join((*_SYNTAX.get(dialect, _OTHER), r"(?P<block>/\*)", _NAME)), re.DOTALL | re.ASCII)
    at = 0
    while (match := pattern.search(sql, at)) is not None:
        if match.start() > at:
            yield Part("code", sql[at : match.start()])
        end = _block_end(sql, match.start(), nested=dialect == "postgresql") if match["block"] else match.end()
        text = sql[match.start() : end]
        comment = text.startswith(("--", "#", "/*"))
        yield Part("name" if match["name"] else "comment" if comment else "quoted", text)
        at = end
    if at < len(sql):
        yield Part("code", sql[at:])


def one_statement(sql: str, dialect: str, *, label: str) -> str:
    """Return the SQL without its closing semicolon, so that it can be put in parentheses. Line numbers stay the same.

    Raise ConfigError unless there is exactly one statement.
    """
    out: list[str] = []
    ended = said = False
    for part in parts(sql, dialect):
        text, more = part.text, ""
        if part.kind == "code":
            before, semicolon, after = ("", "", text) if ended else text.partition(";")
            ended = ended or bool(semicolon)
            more = after.replace(";", "") if ended else ""
            text = before + more
        elif ended and part.kind != "comment":
            more = text
        if more.strip():
            raise ConfigError(f"{label} holds more than one statement: one SELECT is expected")
        said = said or (part.kind != "comment" and bool(text.strip()))
        out.append(text)
    if not said:
        raise ConfigError(f"{label} is empty: a SELECT is expected")
    return "".join(out)


def bind(
    sql: str, values: Mapping[str, Value], dialect: str, placeholder: Callable[[str], str], *, label: str
) -> tuple[str, list[str]]:
    """Return the SQL with `placeholder(name)` for each `:name`, and the names in the order of their first occurrence.

    Raise ConfigError for names without a value.
    """
    used: dict[str, None] = {}
    out: list[str] = []
    for part in parts(sql, dialect):
        if part.kind == "name":
            used[part.text[1:]] = None
            out.append(placeholder(part.text[1:]) if part.text[1:] in values else part.text)
        else:
            out.append(part.text)
    unknown = [name for name in used if name not in values]
    if unknown:
        raise ConfigError([_unknown(name, values, label) for name in unknown])
    return "".join(out), list(used)


def names(sql: str, dialect: str) -> set[str]:
    """Return the names of the parameters in the SQL."""
    return {part.text[1:] for part in parts(sql, dialect) if part.kind == "name"}


def quoted(name: str, dialect: str) -> str:
    """Return the quoted name of a column or table, whatever characters it has.

    SQLite reads an unknown name in double quotes as text, so it gets backticks.
    """
    mark = "`" if dialect in ("mysql", "sqlite") else '"'
    return mark + name.replace(mark, mark * 2) + mark


def _unknown(name: str, values: Mapping[str, Value], label: str) -> str:
    known = ", ".join(f":{known}" for known in sorted(values)) or "none"
    near = difflib.get_close_matches(name, values, n=1)
    hint = f" (did you mean :{near[0]}?)" if near else ""
    return f"{label} names the parameter :{name}, which has no value{hint}; known are {known}. Give it under params:"


def _block_end(sql: str, start: int, *, nested: bool) -> int:
    """Return the end of the comment that begins at `start`. Comments of PostgreSQL can be nested."""
    depth, at = 1, start + 2
    while depth:
        match = re.compile(r"/\*|\*/").search(sql, at)
        if match is None:
            return len(sql)
        if match.group() == "*/":
            depth -= 1
        elif nested:
            depth += 1
        at = match.end()
    return at
