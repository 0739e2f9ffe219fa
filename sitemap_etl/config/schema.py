"""The JSON Schema of a site file, for editors."""

from __future__ import annotations

from typing import Any, Final

from sitemap_etl.settings import Site

_LIMITS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Pydantic leaves its own words where a limit stands behind a validator."""
_WORDS: Final = {**_LIMITS, "oneOf": "anyOf"}
"""oneOf too: a `${NAME}` fits both the number and the text that a key may be."""
_OWN: Final = frozenset({"type", "enum", "pattern", "const", *_LIMITS.values()})
"""What is said of a value itself."""
VARIABLE: Final = r"\$\{"
"""The pattern of text that stands for a number, true or false, one of several words, or text of some form."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a site file.

    Laxer than `load` where an editor can't know: a number or a word may be a `${NAME}`, null removes what a base has,
    and a file with `extends` may lack what its base has.
    """
    found = Site.model_json_schema(by_alias=True, mode="validation")
    required = found.pop("required")
    found["$defs"] = {name: _node(node) for name, node in found["$defs"].items()}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **_node(found, top=True),
        "title": "Site file of sitemap_etl",
        "if": {"not": {"required": ["extends"]}},
        "then": {"required": required},
    }


def _node(node: Any, *, top: bool = False) -> Any:
    """One node: JSON Schema's own words, variables in place of numbers, null in place of optional keys."""
    if isinstance(node, list):
        return [_node(item) for item in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for key, value in node.items():
        if key in ("title", "allow_inf_nan") or (top and key == "$defs"):
            continue
        if key == "properties":
            needed = node.get("required", ())
            made[key] = {name: _node(item) if name in needed else _or_null(_node(item)) for name, item in value.items()}
        elif key in ("default", "examples", "enum", "const", "$ref"):
            if not (
                key == "default" and (value in (None, "") or isinstance(value, dict))
            ):  # said by the keys themselves
                made[key] = value
        else:
            made[_WORDS.get(str(key), str(key))] = _node(value)
    if top:
        made["$defs"] = node["$defs"]
    if made.get("type") in ("integer", "number", "boolean") or {"enum", "pattern"} & made.keys():
        own = {key: made.pop(key) for key in [*made] if key in _OWN}
        made["anyOf"] = [own, {"type": "string", "pattern": VARIABLE}]
    return made


def _or_null(node: dict[str, Any]) -> dict[str, Any]:
    forms = node.get("anyOf")
    if isinstance(forms, list):
        return node if {"type": "null"} in forms else {**node, "anyOf": [*forms, {"type": "null"}]}
    said: dict[str, Any] = {key: node[key] for key in ("description", "default", "examples") if key in node}
    return {**said, "anyOf": [{key: value for key, value in node.items() if key not in said}, {"type": "null"}]}
