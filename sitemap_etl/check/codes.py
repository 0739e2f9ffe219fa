"""Every problem that `check` can report: a stable code, its severity, what it is and how to fix it.

They are defined in `codes.toml`, from which the tables in `docs/checks.md` are generated.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, Literal

from sitemap_etl.frozen import Frozen

Severity = Literal["error", "warning", "info"]
Effect = Literal["file", "urls", "value"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Worst first."""
EFFECTS: Final[tuple[Effect, ...]] = ("file", "urls", "value")
"""Parts of a sitemap that readers can lose, the largest first."""


class Code(Frozen):
    """One kind of fault."""

    code: str
    severity: Severity
    effect: Effect
    title: str
    fix: str


_TABLE: Final = tomllib.loads((files(__package__) / "codes.toml").read_text("utf-8"))
GROUPS: Final[dict[str, tuple[str, ...]]] = {group: tuple(codes) for group, codes in _TABLE.items()}
CODES: Final = {code: Code(code, *said) for codes in _TABLE.values() for code, said in codes.items()}
"""All codes, in the order of the documentation."""
