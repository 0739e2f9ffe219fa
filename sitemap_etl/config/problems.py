"""Messages for mistakes in a site file: expected and actual value, the nearest known key, and how to fix it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any, Final

from pydantic_core import ErrorDetails

from sitemap_etl.config import tree
from sitemap_etl.config.reader import KeyPath
from sitemap_etl.errors import nearest
from sitemap_etl.settings import Settings, Written

_EXPECTED = {
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "tuple_type": "a list",
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
_PERCENT = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*%")
_CURLY = re.compile("[“”„‟‘’‚‛«»]")


def describe(error: ErrorDetails, root: type[Settings], secret: Collection[KeyPath]) -> str:
    """Return the message that follows the key path. Values at, above or below a path of `secret` are not shown."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    path = tree.key_path(error["loc"])
    hidden = any(tree.lies_at(path, [one[: len(path)]]) for one in secret)
    got = _got(value, hidden=hidden)
    if kind in _WORDED:
        return _WORDED[kind](error, root)
    if kind in ("dict_type", "model_type") and path == ("sections",) and isinstance(value, list):
        return "expected a mapping of names to sections, such as `pages: {from: …}`, got a list"
    if kind == "unlike":
        near = context.get("near")
        said = error["msg"] + got + (f"; did you mean {near}?" if near else _near_form(error, root))
    elif kind == "literal_error":
        words = [
            word.strip("'").replace("True", "true") for word in context["expected"].replace(" or ", ", ").split(", ")
        ]
        said = f"expected {_listed(words)}{got}" + (_near(value, words) if isinstance(value, str) else "")
    elif kind in _LIMITS:
        said = f"expected {_LIMITS[kind].format(**context)}{got}"
    elif kind in _EXPECTED:
        shown = ", got {…}" if kind == "string_type" and isinstance(value, dict) else got
        said = f"expected {_EXPECTED[kind]}{shown}"
    else:
        said = error["msg"] + got
    return said if hidden and kind != "string_type" else said + _trap(kind, path, context, value)


def meant(error: ErrorDetails, root: type[Settings]) -> KeyPath | None:
    """Return the path of the key that was probably meant by an unknown key, or None."""
    loc = error["loc"]
    near = nearest(str(loc[-1]), list(tree.known_keys(root, loc[:-1]))) if error["type"] == "extra_forbidden" else None
    return (*tree.key_path(loc)[:-1], near) if near else None


def _missing(error: ErrorDetails, root: type[Settings]) -> str:
    key = str(error["loc"][-1])
    example = tree.known_keys(root, error["loc"][:-1]).get(key)
    return f"is missing; write {key}: {example}" if example else "is missing"


def _unknown(error: ErrorDetails, root: type[Settings]) -> str:
    key = str(error["loc"][-1])
    known = list(tree.known_keys(root, error["loc"][:-1]))
    tag = error["loc"][-2] if len(error["loc"]) > 1 else ""
    others: dict[str, type[Settings]] = {}
    if tree.is_tag(tag):  # a form of several: the key may belong to another one
        others = tree.forms_at(root, error["loc"][:-2])
        mine = str(tag).strip("<>")
        if f"<{key}>" in others:
            return f"{mine} and {key} exclude each other; use one of them"
        for other, model in others.items():
            if key in tree.aliases(model):
                return f"belongs to {other.strip('<>')}, not to {mine}"
    near = _near(key, known) or _near(key, [name for model in others.values() for name in tree.aliases(model)])
    return f"unknown key{near}" if near else f"unknown key; allowed here: {', '.join(known)}"


def _near_form(error: ErrorDetails, root: type[Settings]) -> str:
    """Return a suggestion for a mapping that matches none of several forms: the key that was probably meant."""
    value = error["input"]
    if not isinstance(value, dict):
        return ""
    keys = [key for model in tree.forms_at(root, error["loc"]).values() for key in tree.aliases(model)]
    return next((near for key in value if (near := _near(key, keys))), "")


def _near(word: str, known: Collection[str]) -> str:
    found = nearest(word, known)
    return f"; did you mean {found}?" if found else ""


def _trap(kind: str, path: KeyPath, context: dict[str, Any], value: Any) -> str:
    """Return advice for a value that has another meaning than intended, such as `10%`, or ""."""
    if kind == "string_type" and isinstance(value, bool | int | float | dict | list):
        return "; if it is text, put it in quotes"
    if kind == "bool_type" and isinstance(value, str) and value.lower() in ("yes", "no", "on", "off", "y", "n"):
        return f"; write {'true' if value.lower() in ('yes', 'on', 'y') else 'false'} (in YAML 1.2, {value} is text)"
    if kind == "float_type" and isinstance(value, str) and (percent := _PERCENT.fullmatch(value.strip())):
        return f"; write {float(percent[1]) / 100:g}"
    is_share = kind == "less_than_equal" and context["le"] == 1 and str(path[-1]).startswith("max_")
    if is_share and isinstance(value, int | float) and value <= 100:
        return f"; write {value / 100:g} for {value:g} %"
    if isinstance(value, str) and (quote := _CURLY.match(value)):
        return f'; {quote[0]} is not a quotation mark in YAML, so use " or no quotes'
    return ""


def _got(value: Any, *, hidden: bool) -> str:
    """Return `, got …` with the value as written in the file. Values of variables and passwords are not shown."""
    if isinstance(value, dict):
        shown = "an empty mapping" if not value else f"a mapping of {', '.join(map(str, value))}"
    elif isinstance(value, list | tuple):
        shown = f"a list of {len(value)}" if value else "an empty list"
    elif value is None:
        shown = "nothing"
    elif hidden:
        return ""
    elif isinstance(value, Written) and value.filled:
        shown = f"the value of {_cut(value.template)}"
    elif isinstance(value, str):
        shown = f'"{_cut(value)}"'
    else:
        shown = str(value).lower() if isinstance(value, bool) else str(value)
    return f", got {shown}"


def _cut(text: str) -> str:
    """Return the text on one line, shortened, without the part before an @, which can be a password."""
    plain = re.sub(r"(\w+://|)\S+@", r"\1…@", " ".join(text.split()))
    return plain if len(plain) <= _SHOWN else plain[: _SHOWN - 1] + "…"


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


_WORDED: Final[dict[str, Callable[[ErrorDetails, type[Settings]], str]]] = {
    "wrong": lambda error, _: str(error["ctx"]["said"]),
    "missing": _missing,
    "extra_forbidden": _unknown,
}
