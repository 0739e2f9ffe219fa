"""The tables of keys in the documentation, made from the settings.

python -m sitemap_etl.config.reference docs/*/*.md

puts them in, between their markers: `<!-- keys: MAPPING -->`, `<!-- keys: MAPPING & MAPPING -->` for the keys that both
have, `<!-- keys: MAPPING - MAPPING -->` for the keys that only the first one has.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from pydantic_core import PydanticUndefined

from sitemap_etl.config import tree
from sitemap_etl.config.schema import VARIABLE, schema
from sitemap_etl.settings import Settings, Site
from sitemap_etl.settings.kinds import duration_text

_MARKED: Final = re.compile(r"(<!-- keys: ([^>]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, type[Settings]]:
    """Return every mapping of a site file, by the name in its marker.

    The name is the key path, which begins at the section for keys of sections. A mapping that is one of several forms
    is named by its key and the key that marks the form. Examples: `site`, `publish.names`, `from csv`, `split`,
    `lastmod fingerprint`, `ping.indexnow`.
    """
    return {"site": Site, **dict(_below(Site, ""))}


def _below(model: type[Settings], prefix: str) -> Iterator[tuple[str, type[Settings]]]:
    for key, forms in tree.mappings(model):
        for form, below in forms.items():
            several = len(forms) > 1
            name = f"{prefix}{key} {form}" if several else f"{prefix}{key}"
            yield name, below
            yield from _below(below, "" if several or key == "sections" else f"{name}.")


def described(marker: str) -> list[tuple[str, str]]:
    """Return each mapping and key that the table of a marker describes. KeyError for a name without a mapping.

    Mappings share a key if its description is the same.
    """
    names, _, without = marker.partition(" - ")
    several = names.split(" & ")
    common = set.intersection(*map(_keys, several)) - (_keys(without) if without else set())
    return [(name, key) for name in several for key, _ in common]


def _keys(name: str) -> set[tuple[str, str | None]]:
    """Return the keys of a mapping with their descriptions."""
    return {(field.alias or key, field.description) for key, field in tables()[name].model_fields.items()}


def table(marker: str) -> str:
    """Return a Markdown table with one row per key."""
    shown = described(marker)
    name = shown[0][0]
    model = tables()[name]
    form = _schema()
    nodes = form["properties"] if model is Site else form["$defs"][model.__name__]["properties"]
    rows = ["| key | takes | default | |", "|---|---|---|---|"]
    for field_name, field in sorted(model.model_fields.items(), key=lambda item: not item[1].is_required()):
        key = field.alias or field_name
        if (name, key) in shown:
            takes = "secret" if tree.is_secret(field) else _takes(nodes[key])
            cells = (f"`{key}`", takes, _default(field), field.description or "")
            rows.append("| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


@functools.cache
def _schema() -> dict[str, Any]:
    return schema()


def with_tables(text: str) -> str:
    """Return the text with each table put in between its markers. KeyError for a marker without a mapping."""
    return _MARKED.sub(lambda match: match[1] + table(match[2]) + match[3], text)


def _default(field: Any) -> str:
    if field.is_required():
        return "**needed**"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, Settings) or value in ("", (), {}):
        return ""
    if isinstance(value, timedelta):
        value = duration_text(value)
    shown = f"[{', '.join(value)}]" if isinstance(value, tuple) else value
    return f"`{str(shown).lower() if isinstance(value, bool) else shown}`"


def _takes(node: dict[str, Any]) -> str:
    """Return the type of a node of the schema in a few words."""
    kind = str(node.get("type"))
    if "anyOf" in node:
        forms = [form for form in node["anyOf"] if form.get("type") != "null" and form.get("pattern") != VARIABLE]
        said = ", ".join(dict.fromkeys(map(_takes, forms)))
    elif "enum" in node or "const" in node:
        said = " ".join(f"`{str(word).lower()}`" for word in node.get("enum", [node.get("const")]))
    elif kind == "array":
        items = _takes(node["items"])
        said = f"list of {items}" if items.startswith("`") else "list"
    elif kind in ("integer", "number"):
        said = _range(node)
    elif kind == "string":
        said = "duration" if "pattern" in node else "text"
    else:
        said = "`true` `false`" if kind == "boolean" else "mapping"
    return said


def _range(node: dict[str, Any]) -> str:
    low = node.get("minimum", node.get("exclusiveMinimum"))
    high = node.get("maximum")
    name = "whole number" if node["type"] == "integer" else "number"
    if low is not None and high is not None:
        return f"{name}, {low} to {high}"
    return f"{name}, {low} or more" if low is not None else name


if __name__ == "__main__":
    for file in map(Path, sys.argv[1:]):
        file.write_text(with_tables(file.read_text(encoding="utf-8")), encoding="utf-8")
