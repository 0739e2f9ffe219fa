"""Generated parts of the documentation of `check`: the codes with their explanations, and the keys of the JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from sitemap_etl.check.codes import CODES, GROUPS
from sitemap_etl.check.explanations import explanations


def schema() -> dict[str, Any]:
    """Return the JSON Schema of `check --json`."""
    found: dict[str, Any] = json.loads((files(__package__) / "report.schema.json").read_text("utf-8"))
    return found


def written_into(document: str) -> str:
    """Return the document with the parts between its markers replaced. Raise ValueError if it has no markers."""
    parts = {"codes": _codes, "keys": _keys}
    marked = [name for name in parts if f"<!-- {name} begin -->" in document]
    if not marked:
        raise ValueError(f"the document needs the markers of one of {', '.join(parts)}")
    for name in marked:
        document = _between(document, name, parts[name]())
    return document


def _between(document: str, name: str, text: str) -> str:
    before, begin, rest = document.partition(f"<!-- {name} begin -->\n")
    _, end, after = rest.partition(f"<!-- {name} end -->")
    if not end:
        raise ValueError(f"the document needs the markers <!-- {name} begin --> and <!-- {name} end -->")
    return f"{before}{begin}\n{text}\n{end}{after}"


def _codes() -> str:
    """Return a section for each code, under the heading of its group."""
    parts = []
    for group, codes in GROUPS.items():
        parts.append(f"## {group}\n")
        for code in codes:
            known, explanation = CODES[code], explanations()[code]
            example = "\n".join([_labeled("before", explanation.before), _labeled("after", explanation.after)])
            parts.append(
                f"### `{code}`\n\n"
                f"{known.severity.capitalize()} · effect: {known.effect} · [source]({explanation.source})\n\n"
                f"{_cell(known.title)}. {_cell(explanation.reason)}\n\n"
                f"```text\n{example}\n```\n\n"
                f"**Fix:** {_cell(known.fix)}\n"
            )
    return "\n".join(parts)


def _labeled(name: str, text: str) -> str:
    """Return the lines of an example, indented, with the name before the first one."""
    return "\n".join(f"{(name if number == 0 else ''):8}{line}" for number, line in enumerate(text.split("\n")))


def _keys() -> str:
    """Return a table with one row for each key of the JSON form."""
    rows = "".join(f"| `{path}` | {meaning} |\n" for path, meaning in keys(schema()))
    return f"| key | meaning |\n|---|---|\n{rows}"


def keys(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the description of each key below a part of the schema."""
    for name, about in part.get("properties", {}).items():
        here = f"{path}{name}"
        if "description" in about:
            yield here, about["description"]
        yield from keys(about, f"{here}.")
        yield from keys(about.get("items", {}), f"{here}[].")


def _cell(text: str) -> str:
    """Return the text escaped for Markdown, with a capital."""
    escaped = text.replace("<", "\\<").replace(">", "\\>").replace("|", "\\|").replace("&", "&amp;")
    return escaped[:1].upper() + escaped[1:]
