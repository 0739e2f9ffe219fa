"""Messages for files that are not valid YAML, with advice.

They don't show the value, because it can be a secret.
"""

from __future__ import annotations

import re
import sys
from typing import Any, Final

import yaml

_KEY = re.compile(r"( *)([A-Za-z_][\w-]*)[ \t]*:(?:\s|$)")
_QUOTE: Final = "must be in quotes"
_UNFIT: Final = "the indentation does not match the lines above"
_NO_SPACE = re.compile(r"\s*(?:- )?[A-Za-z_][\w-]*:[^\s/]|\s*(?:- )?[A-Za-z_][\w-]*:/")

_SAID: Final = (
    # what PyYAML says, whether the place is where the value begins, what we say
    (r"'\t'", False, "a tab character; YAML allows only spaces"),
    ("alias", True, f'a value that begins with * {_QUOTE}: "*…"'),
    ("block scalar", True, f'a value that begins with > or | {_QUOTE}: ">…"'),
    ("escape", False, r"\ starts an escape sequence in double quotes; use single quotes"),
    ("quoted scalar", True, "the quotation mark that opens here is never closed"),
    ("found another document", False, "a second document begins here (---); write one site per file"),
    ("could not find expected ':'", True, "expected `key: value`, with a colon and a space after the key"),
)


def message(file: str, text: str, error: yaml.YAMLError) -> str:
    """Return `file:line: problem and advice` for the first position where parsing failed."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text[: error.position].count("\n") + 1
        character = ord(text[error.position]) if error.position < len(text) else 0
        return f"{file}:{line}: the character U+{character:04X} is not allowed in YAML; remove it"
    if not isinstance(error, yaml.MarkedYAMLError):
        return f"{file}: is not valid YAML: {error}"
    problem, context = error.problem or "", error.context or ""
    mark = error.problem_mark or error.context_mark
    begin = error.context_mark or mark
    if mark is None or begin is None:
        return f"{file}: is not valid YAML: {problem}"
    lines = [*text.split("\n"), ""]
    line, said = _explain(problem, context, mark, begin, lines)
    key = "" if said.startswith(("`", "indent `")) else _key_path(lines, line)  # it names its keys itself
    return f"{file}:{line + 1}: {key}: {said}" if key else f"{file}:{line + 1}: {said}"


def not_a_mapping(node: yaml.Node) -> str:
    """Return the message for a file that contains only a list or one text."""
    got = "a list" if isinstance(node, yaml.SequenceNode) else "a single text"
    return f"expected a mapping (site: …, publish: …, sections: …), got {got}; write a colon and a space after each key"


def _key_path(lines: list[str], line: int) -> str:
    """Return the key path of a line, judged by indentation alone, or "" if none is found."""
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
    """Return the line to report and its message."""
    both = f"{context} | {problem}"
    for needle, at_begin, said in _SAID:
        if needle in both:
            return (begin if at_begin else mark).line, said
    if "mapping values are not allowed" in problem:
        return _colon(mark, lines)
    if context.startswith("while parsing a flow"):
        return _flow(problem, mark, begin, lines)
    if "<block mapping start>" in problem:
        return _indented(mark.line, lines)
    before = lines[mark.line][: mark.column].rstrip()
    character = re.search(r"found (?:character )?'([^\w\s:?-])'", problem)
    if before.endswith(("}", "]")):
        said = f'text that begins with {{ or [ {_QUOTE}: "{{…}}…"'
    elif before.endswith(("'", '"')):
        said = (
            f"there is text after the closing quotation mark; the whole value {_QUOTE}, with quotation marks "
            "inside it doubled"
        )
    elif character:
        said = f'a value that begins with {character[1]} {_QUOTE}: "{character[1]}…"'
    elif "<block end>" in problem:
        said = _UNFIT
    else:
        said = f"is not valid YAML: {problem}"
    return mark.line, said


def _colon(mark: Any, lines: list[str]) -> tuple[int, str]:
    """Explain a `key:` in an invalid position: a colon inside text, a missing space above, or the indentation."""
    if re.search(r":\s", lines[mark.line][: mark.column]):
        return mark.line, f'text that contains ": " {_QUOTE}'
    above = next((number for number in range(mark.line - 1, -1, -1) if lines[number].strip()), None)
    if above is not None and _NO_SPACE.match(lines[above]):
        return above, "add a space after the colon of the key"
    return _indented(mark.line, lines)


def _indented(line: int, lines: list[str]) -> tuple[int, str]:
    """Explain a key in another column than its siblings: return the line to fix, and how."""
    here = _KEY.match(lines[line])
    above = [(number, found) for number in range(line) if (found := _KEY.match(lines[number])) is not None]
    if here is None or not above:
        return line, _UNFIT
    number, last = above[-1]
    owner = above[-2][1] if len(above) > 1 else None
    bare = owner is not None and above[-2][1].string[owner.end() :].strip() == ""
    if owner is not None and bare and owner[1] == last[1]:
        return number, f"indent `{last[2]}:` under `{owner[2]}:`"
    spaces = f"{len(here[1])} space{'' if len(here[1]) == 1 else 's'}"
    return line, (
        f"`{here[2]}:` is indented by {spaces}, but `{last[2]}:` on line {number + 1} by {len(last[1])}; "
        "the keys of a mapping must start in the same column"
    )


def _flow(problem: str, mark: Any, begin: Any, lines: list[str]) -> tuple[int, str]:
    """Explain a mistake inside {…} or […]: nearly always one that is not closed, or text that needs quotes."""
    opened, indent = lines[begin.line], len(lines[begin.line]) - len(lines[begin.line].lstrip())
    next_key = _KEY.match(lines[mark.line])
    outside = mark.line > begin.line and next_key is not None and len(next_key[1]) <= indent
    other = re.search(r"but got '([\]}])'", problem)
    if outside or other or "stream end" in problem or mark.line > begin.line + 5:
        bracket = opened[begin.column : begin.column + 1]
        shown = bracket if bracket in ("{", "[") else "{ or ["
        return begin.line, f"the {shown} that opens here is never closed; if it is text, it {_QUOTE}"
    example = ': "sitemap-{section}…"' if "file:" in lines[mark.line] else ""
    return mark.line, f"text that contains {{ }} [ ] or , {_QUOTE} inside {{…}} and […]{example}"
