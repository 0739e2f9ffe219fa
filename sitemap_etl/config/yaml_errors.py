"""What is wrong with a file that is not YAML, said in terms of what to write instead.

Never shows the value itself: it may be a secret.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

import yaml

_KEY = re.compile(r"( *)([A-Za-z_][\w-]*)[ \t]*:(?:\s|$)")
_QUOTE: Final = "must be in quotes"
_NO_SPACE = re.compile(r"\s*(?:- )?[A-Za-z_][\w-]*:[^\s/]|\s*(?:- )?[A-Za-z_][\w-]*:/")

_SAID: Final = (
    # what PyYAML says, whether the place is where the value begins, what we say
    (r"'\t'", False, "a tab; YAML is indented and spaced with spaces only"),
    ("alias", True, f'a value that begins with * {_QUOTE}: "*…"'),
    ("block scalar", True, f'a value that begins with > or | {_QUOTE}: ">…"'),
    ("escape", False, r"in double quotes \ begins an escape; put the value in single quotes"),
    ("quoted scalar", True, "a quote that is opened here is never closed"),
    ("found another document", False, "a second document begins here (---); one file is one site"),
    ("could not find expected ':'", True, "expected key: value; a key is followed by a colon and a space"),
)


def message(file: str, text: str, error: yaml.YAMLError) -> str:
    """`file:line: what is wrong and what to write`, for the first place where reading failed."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text[: error.position].count("\n") + 1
        character = ord(text[error.position]) if error.position < len(text) else 0
        return f"{file}:{line}: the character U+{character:04X} is not allowed in YAML; remove it"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{file}: is not YAML: {error}"
    problem, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    begin = error.context_mark or mark
    if mark is None or begin is None:
        return f"{file}: is not YAML: {problem}"
    lines = [*text.split("\n"), ""]
    line, said = _explain(problem, context, mark, begin, lines)
    key = _key_path(lines, line)
    return f"{file}:{line + 1}: {key}: {said}" if key else f"{file}:{line + 1}: {said}"


def not_a_mapping(node: yaml.Node) -> str:
    """What to say of a file whose whole content is a list or one text."""
    found = "a list" if isinstance(node, yaml.SequenceNode) else "one text"
    return (
        f"expected a mapping (site: …, publish: …, sections: …), found {found}; "
        "a key is followed by a colon and a space"
    )


def _key_path(lines: list[str], line: int) -> str:
    """The key path that the line belongs to, judged by indentation alone; "" where none is seen."""
    keys: list[str] = []
    indent = sys.maxsize
    for text in reversed(lines[: line + 1]):
        key = _KEY.match(text)
        if key is None:
            continue
        if len(key[1]) < indent:
            indent = len(key[1])
            keys.append(key[2])
        if indent == 0:
            break
    return ".".join(reversed(keys))


def _explain(problem: str, context: str, mark: Any, begin: Any, lines: list[str]) -> tuple[int, str]:
    """The line and what to say of it."""
    both = f"{context} | {problem}"
    for needle, at_begin, said in _SAID:
        if needle in both:
            return (begin if at_begin else mark).line, said
    if "mapping values are not allowed" in problem:
        return _colon(mark, lines)
    if context.startswith("while parsing a flow"):
        return _flow(problem, mark, begin)
    before = lines[mark.line][: mark.column].rstrip()
    character = re.search(r"found (?:character )?'([^\w\s:?-])'", problem)
    if before.endswith(("}", "]")):
        said = f'a value that begins with {{ or [ {_QUOTE} where it is text: "{{…}}…"'
    elif before.endswith(("'", '"')):
        said = f"text goes on after the closing quote; the whole value {_QUOTE}, with quotes in it doubled"
    elif character:
        said = f'a value that begins with {character[1]} {_QUOTE}: "{character[1]}…"'
    elif "<block end>" in problem:
        said = "the indentation does not fit the lines above"
    else:
        said = f"is not YAML: {problem}"
    return mark.line, said


def _colon(mark: Any, lines: list[str]) -> tuple[int, str]:
    """A `key:` where none can stand: a colon inside text, a forgotten space above, or the indentation."""
    if re.search(r":\s", lines[mark.line][: mark.column]):
        return mark.line, f'text that holds ": " {_QUOTE}'
    above = next((number for number in range(mark.line - 1, -1, -1) if lines[number].strip()), None)
    if above is not None and _NO_SPACE.match(lines[above]):
        return above, "a space is missing after the colon of the key"
    return mark.line, "the indentation does not fit the lines above"


def _flow(problem: str, mark: Any, begin: Any) -> tuple[int, str]:
    if "stream end" in problem or mark.line > begin.line + 5:
        return begin.line, f"a {{ or [ that is opened here is never closed; where it is text, it {_QUOTE}"
    return mark.line, f'text that holds {{ }} [ ] or , {_QUOTE} inside {{…}} and […]: "sitemap-{{section}}…"'
