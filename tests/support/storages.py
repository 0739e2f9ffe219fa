"""Storages that misbehave on purpose, at our own protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sitemap_etl.stages.run import Environment
from sitemap_etl.state.codec import seal, unseal
from sitemap_etl.storage import Storage, Stored


class Wrapped:
    """A storage around another; subclasses change what they like. `sub` is wrapped too."""

    def __init__(self, inner: Storage, outer: Wrapping) -> None:
        self._inner = inner
        self._outer = outer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def sub(self, prefix: str) -> Any:
        return self._outer.wrap(self._inner.sub(prefix))


class Wrapping:
    """Wraps every storage that a run opens."""

    storage: Callable[[Storage, Any], Any] = Wrapped

    def wrap(self, storage: Storage) -> Any:
        return type(self).storage(storage, self)

    def around(self, environment: Environment) -> Environment:
        opened = environment.open_storage
        return replace(environment, open_storage=lambda url, **options: self.wrap(opened(url, **options)))


class _Broken(Wrapped):
    def get(self, key: str) -> Stored | None:
        stored = self._inner.get(key)
        outer: Any = self._outer
        if stored is None or not key.endswith(outer.key):
            return stored
        data = unseal(stored.data, key)
        data.get("counts", data)[outer.counter] += 1
        return Stored(stored.stat, seal(data))


class BrokenReceipts(Wrapping):
    """A receipt whose counter is one too high whenever it is read."""

    storage = _Broken

    def __init__(self, key: str, counter: str) -> None:
        self.key = key
        self.counter = counter


class _Counting(Wrapped):
    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._outer.counted(name, found) if callable(found) and not name.endswith("url_of") else found


class Counting(Wrapping):
    """Counts the calls of a run's storages: what a store would be asked."""

    storage = _Counting

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return call(*arguments, **options)

        return counting
