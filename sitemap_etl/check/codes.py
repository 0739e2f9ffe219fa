"""All problems that `check` can report, each with a stable code, a severity, a title and a fix.

They are defined in `codes.toml`, which also generates `docs/reference/check-codes.md`.
"""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Final, Literal

from sitemap_etl.frozen import Frozen

Severity = Literal["error", "warning", "info"]
Effect = Literal["file", "urls", "value"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Severities, worst first."""
EFFECTS: Final[tuple[Effect, ...]] = ("file", "urls", "value")
"""Parts of a sitemap that readers can lose, largest first."""


class Code(Frozen):
    """Kind of problem."""

    code: str
    severity: Severity
    effect: Effect
    title: str
    fix: str


_TABLE: Final = tomllib.loads((files(__package__) / "codes.toml").read_text("utf-8"))
GROUPS: Final[dict[str, tuple[str, ...]]] = {group: tuple(codes) for group, codes in _TABLE.items()}
CODES: Final = {code: Code(code, *said) for codes in _TABLE.values() for code, said in codes.items()}
"""All codes, in the order of the documentation."""
