"""Every mistake of a site file in words: key path, what was expected, what was found, the nearest known key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection
from typing import Any, Final

from pydantic_core import ErrorDetails

from sitemap_etl.config import tree
from sitemap_etl.config.kinds import Expanded, Keys
from sitemap_etl.config.reader import KeyPath

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "too_short": "at least one",
}
_LIMITS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "{ge:g} or more",
    "less_than": "less than {lt:g}",
    "less_than_equal": "{le:g} or less",
}
_SHOWN = 60


def key_path(error: ErrorDetails) -> KeyPath:
    """The key path of pydantic's error: without the tags of unions."""
    return tuple(part for part in error["loc"] if part != "[key]" and not tree.is_tag(part))


def describe(error: ErrorDetails, root: type[Keys], secret: Collection[KeyPath]) -> str:
    """What is wrong, in words that follow the key path. Nothing at, above or below a path of `secret` is shown."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    path = key_path(error)
    found = _found(value, hidden=any(hidden[: len(path)] == path[: len(hidden)] for hidden in secret))
    if kind in _WORDED:
        return _WORDED[kind](error, root)
    if kind == "unlike":
        near = context.get("near")
        return error["msg"] + found + (f"; did you mean {near}?" if near else _near_form(error, root))
    if kind == "literal_error":
        words = [
            word.strip("'").replace("True", "true") for word in context["expected"].replace(" or ", ", ").split(", ")
        ]
        near = _near(value, words) if isinstance(value, str) else ""
        return f"expected {_listed(words)}{found}{near}"
    if kind in _LIMITS:
        return f"expected {_LIMITS[kind].format(**context)}{found}"
    if kind == "string_type" and isinstance(value, dict):
        found = ", found {…}"
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}{found}{_trap(kind, value)}"
    return error["msg"] + found


def meant(error: ErrorDetails, root: type[Keys]) -> KeyPath | None:
    """The path of the known key that an unknown one probably stands for."""
    loc = error["loc"]
    near = _nearest(str(loc[-1]), list(tree.known_keys(root, loc[:-1]))) if error["type"] == "extra_forbidden" else None
    return (*key_path(error)[:-1], near) if near else None


def _missing(error: ErrorDetails, root: type[Keys]) -> str:
    key = str(error["loc"][-1])
    example = tree.known_keys(root, error["loc"][:-1]).get(key)
    return f"is missing; write {key}: {example}" if example else "is missing"


def _unknown(error: ErrorDetails, root: type[Keys]) -> str:
    key = str(error["loc"][-1])
    known = list(tree.known_keys(root, error["loc"][:-1]))
    tag = error["loc"][-2] if len(error["loc"]) > 1 else ""
    if tree.is_tag(tag):  # a form of several: the key may belong to another one
        others = tree.forms_at(root, error["loc"][:-2])
        mine = str(tag).strip("<>")
        if f"<{key}>" in others:
            return f"{mine} and {key} exclude each other; keep one of the two"
        for other, model in others.items():
            if model is not None and key in tree.aliases(model):
                return f"goes with {other.strip('<>')}, not with {mine}"
    near = _near(key, known)
    return f"unknown key{near}" if near else f"unknown key; known here: {', '.join(known)}"


def _near_form(error: ErrorDetails, root: type[Keys]) -> str:
    """For a mapping that is none of several forms: the key that was probably meant."""
    value = error["input"]
    if not isinstance(value, dict):
        return ""
    keys = [key for model in tree.forms_at(root, error["loc"]).values() if model for key in tree.aliases(model)]
    return next((near for key in value if (near := _near(key, keys))), "")


def _near(word: str, known: Collection[str]) -> str:
    nearest = _nearest(word, known)
    return f"; did you mean {nearest}?" if nearest else ""


def _nearest(word: str, known: Collection[str]) -> str | None:
    folded = {name.casefold(): name for name in known}
    plain = word.casefold().replace("-", "_")
    nearest = [plain] if plain in folded else difflib.get_close_matches(plain, list(folded), n=1)
    return folded[nearest[0]] if nearest and folded[nearest[0]] != word else None


def _trap(kind: str, value: Any) -> str:
    """What YAML made of a value that was probably meant otherwise."""
    if kind == "string_type" and isinstance(value, bool | int | float | dict | list):
        return "; if it was meant as text, put it in quotes"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off", "y", "n"):
        return f"; write {'true' if value.lower() in ('yes', 'on', 'y') else 'false'} (in YAML 1.2, {value} is text)"
    return ""


def _found(value: Any, *, hidden: bool) -> str:
    """`, found …`, as the file has it: never what a variable stands for, never a password."""
    if isinstance(value, dict):
        shown = "an empty mapping" if not value else f"a mapping of {', '.join(map(str, value))}"
    elif isinstance(value, list):
        shown = f"a list of {len(value)}" if value else "an empty list"
    elif value is None:
        shown = "nothing"
    elif hidden:
        return ""
    elif isinstance(value, Expanded):
        shown = f"what {_cut(value.template)} stands for"
    elif isinstance(value, str):
        shown = f'the text "{_cut(value)}"'
    else:
        shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f", found {shown}"


def _cut(text: str) -> str:
    """The text on one line, not too long, without the password of an address."""
    plain = re.sub(r"://[^/\s]*@", "://…@", " ".join(text.split()))
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 1] + "…"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


_WORDED: Final[dict[str, Callable[[ErrorDetails, type[Keys]], str]]] = {
    "wrong": lambda error, _: str(error["ctx"]["said"]),
    "missing": _missing,
    "extra_forbidden": _unknown,
}
