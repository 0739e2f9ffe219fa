"""Every problem that `check` can report: a stable code, its severity, what it is and how to fix it.

They are defined in `codes.toml`, from which the tables in `docs/checks.md` are generated.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Worst first."""


@dataclass(frozen=True)
class Code:
    """One kind of fault."""

    code: str
    severity: Severity
    title: str
    fix: str


_TABLE: Final = tomllib.loads((files(__package__) / "codes.toml").read_text("utf-8"))
GROUPS: Final[dict[str, tuple[str, ...]]] = {group: tuple(codes) for group, codes in _TABLE.items()}
CODES: Final = {code: Code(code, *said) for codes in _TABLE.values() for code, said in codes.items()}
"""All codes, in the order of the documentation."""


def as_markdown() -> str:
    """The tables of `docs/checks.md`: one for each group, in order."""
    parts = []
    for group, codes in GROUPS.items():
        parts.append(f"### {group}\n\n| code | severity | what it is | how to fix it |\n|---|---|---|---|\n")
        known = (CODES[code] for code in codes)
        parts += [f"| `{c.code}` | {c.severity} | {_cell(c.title)} | {_cell(c.fix)} |\n" for c in known]
        parts.append("\n")
    return "".join(parts)


def _cell(text: str) -> str:
    """Text that Markdown shows as it is, with a capital."""
    escaped = text.replace("<", "\\<").replace(">", "\\>").replace("|", "\\|").replace("&", "&amp;")
    return escaped[:1].upper() + escaped[1:]


def written_into(document: str) -> str:
    """The document with the tables between its two marks renewed."""
    before, begin, rest = document.partition("<!-- codes begin -->\n")
    _, end, after = rest.partition("<!-- codes end -->")
    if not end:
        raise ValueError("the document needs the markers <!-- codes begin --> and <!-- codes end -->")
    return f"{before}{begin}\n{as_markdown()}{end}{after}"
