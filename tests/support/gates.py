"""What gates are asked about, and what they answered."""

from __future__ import annotations

from typing import Any

from sitemap_etl.publish.gates import Scope

NONE: frozenset[str] = frozenset()
"""No gate is forced."""


def counts(**values: Any) -> Scope:
    """The counts of a section, of which one page is listed where nothing else is said."""
    plain: dict[str, Any] = dict.fromkeys(
        ["published", "largest", "listed", "added", "removed", "extracted", "rejected"], 0
    )
    return Scope(**{**plain, "listed": 1, **values})


def by_name(done: Any) -> dict[str, Any]:
    """The gates of a finished run."""
    return {gate.name: gate for gate in done.summary.gates}
