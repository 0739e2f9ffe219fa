"""Inputs of gates and their results."""

from __future__ import annotations

from typing import Any

from sitemap_etl.publish.gates import Scope

NONE: frozenset[str] = frozenset()
"""No gate is forced."""


def counts(**values: Any) -> Scope:
    """Return the counts of a section, with one listed page by default."""
    plain: dict[str, Any] = dict.fromkeys(
        ["published", "largest", "listed", "added", "removed", "extracted", "rejected"], 0
    )
    return Scope(**{**plain, "listed": 1, **values})


def by_name(done: Any) -> dict[str, Any]:
    """Return the gates of a finished run."""
    return {gate.name: gate for gate in done.summary.gates}
