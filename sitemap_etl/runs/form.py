"""The form for triggering a run by hand: its fields, and strict reading of the submitted values.

A DAG file builds the form while it is parsed, so nothing here imports a stage.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from sitemap_etl.config import Site
from sitemap_etl.errors import ConfigError, nearest
from sitemap_etl.settings import Gates

TITLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "sections": "Sections",
        "full": "Full",
        "dry_run": "Dry run",
        "ping": "Ping",
        "force": "Force",
        "reason": "Reason",
        "now": "Now",
        "moved": "Moved",
    }
)
"""Title of each field in the form."""
_SCHEDULER_S: Final = "airflow/"
"""Prefix of keys that the scheduler adds, such as `airflow/task_span_detail_level`."""


def fields(site: Site) -> dict[str, dict[str, Any]]:
    """Return the JSON Schema of each field, with title, description and default."""
    names = list(site.sections)
    limits = list(Gates.model_fields)
    gates = [*limits, *(f"{name}.{gate}" for name in names for gate in limits)]
    text = {"default": None, "type": ["string", "null"]}
    found: dict[str, dict[str, Any]] = {
        "sections": {
            **_some_of(names),
            "description": "Read only these; the others stay as published. None: all of them.",
        },
        "full": _switch("Read everything, not only what came since."),
        "dry_run": _switch("Write nothing public."),
        "ping": _switch("Notify search engines of what changed.", on=True),
        "force": {**_some_of(gates), "description": "Gates to override. Requires a reason."},
        "reason": {**text, "description": "Why you override a gate or a clock; recorded in the manifest."},
        "now": {
            **text,
            "description": "The time of the run, in ISO 8601 (default: now). Far from the clocks, it needs a reason.",
        },
        "moved": _switch("Take over state that belongs to another site or publishes to another place."),
    }
    return {name: {**schema, "title": TITLES[name]} for name, schema in found.items()}


def _some_of(words: list[str]) -> dict[str, Any]:
    """Return the schema of a list that accepts any of these words, or none."""
    return {
        "default": [],
        "type": ["array", "null"],
        "items": {"type": "string", "enum": words},
        "examples": words,
    }


def _switch(description: str, *, on: bool = False) -> dict[str, Any]:
    return {"default": on, "type": "boolean", "description": description}


def filled_in(defaults: Mapping[str, Any], conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the value of every field: submitted in `conf`, or its default.

    Raise ConfigError if `conf` has an unknown key: because of a misspelled word, a dry run would publish.
    """
    asked = {key: value for key, value in (conf or {}).items() if not key.startswith(_SCHEDULER_S)}
    problems = [_unknown(key) for key in asked if key not in TITLES]
    if problems:
        raise ConfigError([*problems, f"Known are: {', '.join(TITLES)}. Nothing was done; trigger a new run"])
    return {**defaults, **asked}


def _unknown(key: str) -> str:
    near = nearest(key, TITLES)
    return f"conf: {key}: unknown key" + (f"; did you mean {near}?" if near is not None else "")
