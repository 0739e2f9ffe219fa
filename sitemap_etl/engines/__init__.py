"""Notify search engines. Each engine is a module named after its key under `ping:`, with one class.

docs/reference/engines.md describes the engines and their setup. The ping stage creates an engine from its settings,
passes it the submission and a ledger, and gets an `Answer` or an error:

    engine = engines.engine("indexnow", settings, connection)
    answer = engine.submit(submission, ledger, client)

Secrets appear in the settings and in requests only, never in a repr, message, answer, ledger or log line.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from sitemap_etl.connections import Connection
from sitemap_etl.engines.engine import HttpEngine
from sitemap_etl.engines.exchange import Clock, Sleep, open_client
from sitemap_etl.engines.ledger import Ledger
from sitemap_etl.engines.submission import Answer, Index, Submission
from sitemap_etl.settings import Engine

__all__ = [
    "Answer",
    "Clock",
    "HttpEngine",
    "Index",
    "Ledger",
    "Sleep",
    "Submission",
    "engine",
    "named",
    "open_client",
]


def named(name: str) -> type[HttpEngine[Any]]:
    """Return the class of the engine with this name."""
    kinds = vars(import_module(f"{__name__}.{name}")).values()
    found: type[HttpEngine[Any]] = next(
        kind for kind in kinds if isinstance(kind, type) and issubclass(kind, HttpEngine) and kind.name == name
    )
    return found


def engine(name: str, settings: Engine, connection: Connection | None = None) -> HttpEngine[Any]:
    """Return the engine of `ping.<name>`.

    `settings`: must contain their secrets. `connection`: the connection that they name. Raise ConfigError if a secret
    is missing or invalid.
    """
    return named(name)(settings, connection)
