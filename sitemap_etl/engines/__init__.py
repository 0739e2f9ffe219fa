"""Telling the engines: each is one module, one class and one line of `ENGINES`.

What listens in 2026, and how to set it up, is in docs/engines.md. The pipeline makes an engine of its settings,
gives it the submission and a ledger, and gets an `Answer` or an error:

    engine = ping.engine("indexnow", settings, secret, connections)
    answer = engine.submit(submission, ledger, client)

Secrets go into `from_settings` and out in requests only: no repr, message, answer, ledger or log line holds one.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from sitemap_etl.engines.bing import Bing
from sitemap_etl.engines.engine import Connections, Engine, HttpEngine, Secrets, ask
from sitemap_etl.engines.exchange import Clock, Sleep, open_client
from sitemap_etl.engines.http_ping import HttpPing, dead_ping
from sitemap_etl.engines.indexnow import IndexNow, key_file
from sitemap_etl.engines.ledger import Ledger
from sitemap_etl.engines.search_console import SearchConsole
from sitemap_etl.engines.submission import Answer, Index, Submission
from sitemap_etl.engines.websub import WebSub
from sitemap_etl.errors import ConfigError

ENGINES: Final[dict[str, type[HttpEngine]]] = {
    "indexnow": IndexNow,
    "search_console": SearchConsole,
    "bing": Bing,
    "websub": WebSub,
    "http_ping": HttpPing,
}

__all__ = [
    "ENGINES",
    "Answer",
    "Clock",
    "Connections",
    "Engine",
    "HttpEngine",
    "Index",
    "IndexNow",
    "Ledger",
    "Secrets",
    "Sleep",
    "Submission",
    "ask",
    "dead_ping",
    "engine",
    "key_file",
    "open_client",
    "problems",
]


def engine(name: str, settings: Mapping[str, Any], secret: Secrets, connections: Connections) -> HttpEngine:
    """The engine of `ping.<name>`. Raises `ConfigError` with every mistake in its settings."""
    if name not in ENGINES:
        raise ConfigError(_unknown(name))
    return ENGINES[name].from_settings(settings, secret, connections)


def problems(settings: Mapping[str, Any]) -> list[str]:
    """What is wrong with the mapping `ping:` as far as it can be told without a secret: one line a mistake."""
    found = []
    for name, engine_settings in settings.items():
        if name not in ENGINES:
            found.append(_unknown(name))
        elif not isinstance(engine_settings, Mapping):
            found.append(f"ping.{name}: expected a mapping")
        else:
            found += ENGINES[name].problems(engine_settings)
    return found


def _unknown(name: str) -> str:
    near = get_close_matches(name, ENGINES, 1)
    return f"ping.{name}: no such engine" + (
        f"; did you mean {near[0]}?" if near else f"; there are {', '.join(ENGINES)}"
    )
