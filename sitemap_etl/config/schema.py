"""JSON Schema of a site file, for editors."""

from __future__ import annotations

from typing import Any, Final

from sitemap_etl.settings import Site
from sitemap_etl.settings.kinds import Settings

_LIMITS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
"""Pydantic's names of limits, which it keeps if a validator precedes the limit, and their names in JSON Schema."""
_WORDS: Final = {**_LIMITS, "oneOf": "anyOf"}
"""Replacements of keywords. `oneOf` is replaced because `${NAME}` can match both a number and a text."""
_OWN: Final = frozenset({"type", "enum", "pattern", "const", *_LIMITS.values()})
"""Keywords that describe a value itself."""
VARIABLE: Final = r"\$\{"
"""Pattern of text with a variable, which can replace a number, true or false, or a word."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a site file.

    It accepts more than `load`, because an editor does not see bases and variables. A number or a word can be a
    `${NAME}`, any optional key can be null, and a file with `extends` can omit required keys.
    """
    _build(Settings)
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


def _build(model: type[Settings]) -> None:
    """Build the validators of all models below one. Pydantic 2.12 encodes default values only if they are built."""
    for kind in model.__subclasses__():
        kind.model_rebuild()
        _build(kind)


def _node(node: Any, *, top: bool = False) -> Any:
    """Return a node with JSON Schema's keywords that accepts variables, and null for optional keys."""
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
            if not (key == "default" and (value in (None, "") or isinstance(value, dict))):  # described by its keys
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
