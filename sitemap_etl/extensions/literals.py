"""Lists as text: JSON, Python's `repr`, and PostgreSQL arrays.

`as_json` converts simple lists of Python and PostgreSQL to JSON in whole columns. `value_of` reads the others.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of

BEGINS: Final = r"""^\s*(?:[\[{"]|\(\s*['")]|null\s*$)"""
"""Beginning of a text that holds a value instead of an address (RE2)."""

_PLAIN_PYTHON: Final = r"""^\s*[\[(]\s*'[^'"\\]*'\s*(?:,\s*'[^'"\\]*'\s*)*,?\s*[\])]\s*$"""
_PLAIN_POSTGRES: Final = r"""^\s*\{\s*[^{}'"\\\s][^{}'"\\]*\}\s*$"""
"""Non-empty, one-dimensional arrays without quotes. https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO"""
_MARKED: Final = "['{]"
"""Characters. A simple list of Python or PostgreSQL contains at least one of them."""

_PYTHON: Final = re.compile(
    r"""\s+
    | (?P<text> [uU]? (?: '(?P<single> [^'\\]*(?:\\.[^'\\]*)* )' | "(?P<double> [^"\\]*(?:\\.[^"\\]*)* )" ) )
    | (?P<word> True | False | None )
    | (?P<number> -?\d+(?:\.\d+)?(?:[eE][+-]?\d+)? )
    | (?P<mark> [\[\](){},:] )""",
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null", "(": "[", ")": "]"}
_ESCAPE: Final = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
_CONTROLS: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\n": ""}
_LAST_CODE_POINT: Final = 0x10FFFF

_ARRAY: Final = re.compile(r"(?:\[[+-]?\d+:[+-]?\d+\]\s*=\s*)?\{(.*)\}", re.DOTALL)
_ITEM: Final = re.compile(r"""\s*(?:"([^"\\]*(?:\\.[^"\\]*)*)"\s*|([^\s'"{},\\][^"{},\\]*))(?:,|$)""", re.DOTALL)
"""An element and the comma after it. Each character can match in one way only, so the time is linear.

Only an escape keeps a position to return to, which takes 130 bytes. Possessive repetitions are wrong before 3.11.5.
"""
_BARE: Final = re.compile(r"\[\s*((?:https?:/)?/[^\[\]{}'\"]*)\]", re.IGNORECASE)
"""Addresses in brackets without quotes, as Java and Hive print a list."""


def as_json(texts: pa.Array) -> pa.Array:
    """Return the texts with simple lists of Python and PostgreSQL as JSON: string.

    Simple lists contain text without escapes and quotes.
    """
    marked = pc.fill_null(pc.match_substring_regex(texts, _MARKED), False)
    if not pc.any(marked).as_py():
        return texts
    some = texts.filter(marked)
    python = pc.match_substring_regex(some, _PLAIN_PYTHON)
    if pc.any(python).as_py():
        lists = pc.replace_substring(some.filter(python), "'", '"')
        lists = pc.replace_substring_regex(lists, r"^\s*\(|^\s*\[", "[")
        some = pc.replace_with_mask(some, python, pc.replace_substring_regex(lists, r",?\s*[\])]\s*$", "]"))
    postgres = pc.match_substring_regex(some, _PLAIN_POSTGRES)
    if pc.any(postgres).as_py():
        lists = pc.replace_substring_regex(some.filter(postgres), r"^\s*\{\s*", '["')
        lists = pc.replace_substring_regex(lists, r"\s*\}\s*$", '"]')
        lists = pc.replace_substring_regex(lists, r"\s*,\s*", '","')
        some = pc.replace_with_mask(some, postgres, pc.replace_substring_regex(lists, '"(?i:null)"', "null"))
    return some if mask_of(marked).all() else pc.replace_with_mask(texts, marked, some)


def value_of(text: str) -> Any:
    """Return the value of one text.

    Raise ValueError if it is invalid, and RecursionError if it is nested too deeply.
    """
    for read in (_json, _python, _postgres):
        try:
            return read(text)
        except ValueError:
            continue
    bare = _BARE.fullmatch(text)
    if bare is None:
        raise ValueError("neither JSON nor a list of Python or PostgreSQL")
    return bare[1]


def constant(word: str) -> Any:
    """Raise ValueError: NaN and Infinity are not JSON."""
    raise ValueError(f"{word} is no JSON")


def _json(text: str) -> Any:
    return json.loads(text, parse_constant=constant)


def _python(text: str) -> Any:
    """Parse the output of Python's `repr` by converting it to JSON. Nothing is evaluated."""
    written: list[str] = []
    at = 0
    while at < len(text):
        token = _PYTHON.match(text, at)
        if token is None:
            raise ValueError("not a list as Python prints it")
        at = token.end()
        if token["text"] is not None:
            inner = token["single"] if token["single"] is not None else token["double"]
            written.append(json.dumps(_ESCAPE.sub(_unescaped, inner)))
        elif token.lastgroup is not None:
            if token[0] in (")", "]", "}") and written and written[-1] == ",":
                written.pop()
            written.append(_WORDS.get(token[0], token[0]))
    if written[:1] == ["{"] and ":" not in written:  # a set
        written = ["[", *written[1:-1], "]"]
    elif written and written[0].startswith('"'):  # a list without its brackets
        written = ["[", *written, "]"]
    return _json(" ".join(written))


def _unescaped(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if digits is None:
        return _CONTROLS.get(escape[4], escape[4])
    if int(digits, 16) > _LAST_CODE_POINT:
        raise ValueError("beyond Unicode")
    return chr(int(digits, 16))


def _postgres(text: str) -> list[str | None]:
    """Return the elements of a one-dimensional array."""
    array = _ARRAY.fullmatch(text)
    if array is None:
        raise ValueError("not an array of PostgreSQL")
    inner = array[1].strip()
    found: list[str | None] = []
    at = 0
    while at < len(inner):
        item = _ITEM.match(inner, at)
        if item is None:
            raise ValueError("not an array of one dimension")
        at = item.end()
        quoted, plain = item.groups()
        if quoted is not None:
            found.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            found.append(None if plain.strip().lower() == "null" else plain.strip())
    return found
