"""The form of a run that a person triggers: its fields, and what they filled in, read strictly.

A DAG file shows the fields while it is parsed, so nothing here imports a stage.
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
"""Field → what the form calls it."""
_SCHEDULER_S: Final = "airflow/"
"""How keys begin that the scheduler puts there itself, such as `airflow/task_span_detail_level`."""


def fields(site: Site) -> dict[str, dict[str, Any]]:
    """Field → its JSON Schema, with its title, description and default."""
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
    """A list of which any may be chosen, or none."""
    return {
        "default": [],
        "type": ["array", "null"],
        "items": {"type": "string", "enum": words},
        "examples": words,
    }


def _switch(description: str, *, on: bool = False) -> dict[str, Any]:
    return {"default": on, "type": "boolean", "description": description}


def filled_in(defaults: Mapping[str, Any], conf: Mapping[str, Any] | None) -> dict[str, Any]:
    """Every field with its value: of `conf`, what a run was triggered with, else its default.

    Raises ConfigError where `conf` has a key that is no field: a run that was meant to be dry must not publish because
    of a misspelt word.
    """
    asked = {key: value for key, value in (conf or {}).items() if not key.startswith(_SCHEDULER_S)}
    problems = [_unknown(key) for key in asked if key not in TITLES]
    if problems:
        raise ConfigError([*problems, f"Known are: {', '.join(TITLES)}. Nothing was done; trigger a new run"])
    return {**defaults, **asked}


def _unknown(key: str) -> str:
    near = nearest(key, TITLES)
    return f"conf: {key}: unknown key" + (f"; did you mean {near}?" if near is not None else "")
