"""Defects planted in a store on purpose, to test that the simulation finds defects."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from sitemap_etl.stages.run import Environment
from sitemap_etl.state.codec import seal, unseal
from sitemap_etl.storage import ABSENT, Stat, Stored
from tests.support.storages import Wrapped, Wrapping


class _Forgetful(Wrapped):
    """Objects put under such a key disappear."""

    def put(self, key: str, data: Any, **options: Any) -> Any:
        stat = self._inner.put(key, data, **options)
        if "state/intent-" in key:
            self._inner.delete(key)
        return stat


class _Unconditional(Wrapped):
    """Conditions are ignored: existing objects are replaced or deleted."""

    def put(self, key: str, data: Any, *, expect: Any = None, **options: Any) -> Any:
        return self._inner.put(key, data, **options)

    def delete(self, key: str, *, expect: Any = None) -> bool:
        return bool(self._inner.delete(key))


class _Backwards(Wrapped):
    """New sitemaps appear only with the write after an index."""

    def put(self, key: str, data: Any, **options: Any) -> Any:
        held: dict[str, Any] = self._outer.held
        if key.endswith(".xml.gz") and options.get("expect") is ABSENT:
            held[key] = data, options
            return self._stored(key, data).stat
        if self._outer.due:
            self._outer.due, self._outer.held = False, {}
            for name, (bytes_, how) in held.items():
                self._inner.put(name, bytes_, **how)
        self._outer.due = self._outer.due or key == "sitemap.xml"
        return self._inner.put(key, data, **options)

    def get(self, key: str) -> Stored | None:
        held = self._outer.held.get(key)
        return self._inner.get(key) if held is None else self._stored(key, held[0])

    def _stored(self, key: str, data: bytes) -> Stored:
        return Stored(Stat(key, len(data), hashlib.sha256(data).hexdigest(), self._inner.now()), data)


class _Credulous(Wrapped):
    """A damaged manifest is accepted: its last entry is missing, and its checksum is right."""

    def get(self, key: str) -> Stored | None:
        stored = self._inner.get(key)
        if stored is None or "state/manifest-" not in key:
            return stored
        found = unseal(stored.data, key)
        return Stored(stored.stat, seal({**found, "entries": found["entries"][:-1]}))


def _wrapping(storage_: Callable[..., Any]) -> type[Wrapping]:
    class Planted(Wrapping):
        storage = storage_

        def __init__(self) -> None:
            self.held: dict[str, Any] = {}
            self.due = False

    return Planted


PLANTS: dict[str, type[Wrapping]] = {
    "intents are lost": _wrapping(_Forgetful),
    "conditions are dropped": _wrapping(_Unconditional),
    "indexes are written first": _wrapping(_Backwards),
    "a damaged manifest is believed": _wrapping(_Credulous),
}


def planted(name: str, environment: Environment) -> Environment:
    """Return the environment with the defect of this name, or unchanged without a name."""
    return PLANTS[name]().around(environment) if name else environment
