"""The generated parts of the documentation of `check`: codes, their explanations, and the keys of the JSON form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from sitemap_etl.check.codes import CODES, GROUPS
from sitemap_etl.check.explanations import explanations


def schema() -> dict[str, Any]:
    """The JSON Schema of what `check --json` prints."""
    found: dict[str, Any] = json.loads((files(__package__) / "report.schema.json").read_text("utf-8"))
    return found


def written_into(document: str) -> str:
    """Return the document with the parts between its markers renewed."""
    parts = {"codes": _codes, "keys": _keys, "explanations": _explanations}
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
    """One table for each group, in order."""
    parts = []
    for group, codes in GROUPS.items():
        head = f"### {group}\n\n| code | severity | effect | what it is | how to fix it |\n|---|---|---|---|---|\n"
        known = (CODES[code] for code in codes)
        rows = (
            f"| [`{c.code}`](reference/check-codes.md#{c.code}) | {c.severity} | {c.effect} "
            f"| {_cell(c.title)} | {_cell(c.fix)} |\n"
            for c in known
        )
        parts.append(head + "".join(rows))
    return "\n".join(parts)


def _explanations() -> str:
    """Return a section for each code, under the heading of its group."""
    parts = []
    for group, codes in GROUPS.items():
        parts.append(f"## {group}\n")
        for code in codes:
            known, explanation = CODES[code], explanations()[code]
            example = "\n".join([_labelled("before", explanation.before), _labelled("after", explanation.after)])
            parts.append(
                f"### `{code}`\n\n"
                f"{_cell(known.title)}. {_cell(explanation.reason)} "
                f"Severity: {known.severity}. Effect: `{known.effect}`.\n\n"
                f"```text\n{example}\n```\n\n"
                f"{_cell(known.fix)} [Source]({explanation.source})\n"
            )
    return "\n".join(parts)


def _labelled(name: str, text: str) -> str:
    return "\n".join(f"{(name if number == 0 else ''):8}{line}" for number, line in enumerate(text.split("\n")))


def _keys() -> str:
    """One row for each key of the JSON form."""
    rows = "".join(f"| `{path}` | {meaning} |\n" for path, meaning in keys(schema()))
    return f"| key | meaning |\n|---|---|\n{rows}"


def keys(part: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """(path, what it means) of each key below a part of the schema."""
    for name, about in part.get("properties", {}).items():
        here = f"{path}{name}"
        if "description" in about:
            yield here, about["description"]
        yield from keys(about, f"{here}.")
        yield from keys(about.get("items", {}), f"{here}[].")


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, with a capital."""
    escaped = text.replace("<", "\\<").replace(">", "\\>").replace("|", "\\|").replace("&", "&amp;")
    return escaped[:1].upper() + escaped[1:]
