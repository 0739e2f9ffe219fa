"""Storages that misbehave on purpose, at the level of the storage protocol."""

from __future__ import annotations

import resource
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatch
from typing import Any

from sitemap_etl.stages.run import Environment
from sitemap_etl.state.codec import seal, unseal
from sitemap_etl.storage import Stat, Storage, Stored


class Wrapped:
    """A storage around another; subclasses change its behavior. `sub` is wrapped too."""

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
    """Task results are read with one of their counts increased by one."""

    storage = _Broken

    def __init__(self, key: str, counter: str) -> None:
        self.key = key
        self.counter = counter


class _Full(Wrapped):
    def put(self, key: str, *arguments: Any, **options: Any) -> Stat:
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        if fnmatch(key, self._outer.pattern):
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
        try:
            stat: Stat = self._inner.put(key, *arguments, **options)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        return stat


class Full(Wrapping):
    """Folders without space for objects whose key matches this pattern."""

    storage = _Full

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern


class _Counting(Wrapped):
    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._outer.counted(name, found) if callable(found) and not name.endswith("url_of") else found


class Counting(Wrapping):
    """Counts the requests of a run to its storages."""

    storage = _Counting

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def counted(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return call(*arguments, **options)

        return counting


class Died(BaseException):
    """The process has died: none of its later requests reaches a storage."""


class _Clocked(Wrapped):
    def now(self) -> datetime:
        return self._outer.time

    def put(self, key: str, *arguments: Any, **options: Any) -> Stat:
        url = self._inner.url_of(key)
        return self._dated(self._outer.write(url, lambda: self._inner.put(key, *arguments, **options)))

    def delete(self, key: str, **options: Any) -> bool:
        url = f"-{self._inner.url_of(key)}"
        return bool(self._outer.write(url, lambda: self._inner.delete(key, **options)))

    def get(self, key: str) -> Stored | None:
        self._outer.alive()
        stored = self._inner.get(key)
        return None if stored is None else Stored(self._dated(stored.stat), stored.data)

    def stat(self, key: str) -> Stat | None:
        self._outer.alive()
        stat = self._inner.stat(key)
        return None if stat is None else self._dated(stat)

    def list(self, prefix: str = "") -> Iterator[Stat]:
        self._outer.alive()
        return (self._dated(stat) for stat in self._inner.list(prefix))

    def _dated(self, stat: Stat) -> Stat:
        return replace(stat, modified=self._outer.written.get(self._inner.url_of(stat.key), self._outer.start))


class Clocked(Wrapping):
    """Storages whose time passes only on request, and whose process can die at a write.

    `around` gives the environment the same clock. Objects written by others are as old as `start`.
    """

    storage = _Clocked

    def __init__(self, start: datetime) -> None:
        self.start = self.time = start
        self.written: dict[str, datetime] = {}
        self._lock = threading.Lock()
        self.revive()

    def around(self, environment: Environment) -> Environment:
        return replace(super().around(environment), clock=lambda: self.time)

    def die(self, writes: int, *, since: str = "") -> None:
        """Let the process die after this many more writes, counted from the first whose address contains `since`."""
        self._left, self._since = writes, since

    def revive(self) -> None:
        """Start the next process."""
        self._left: int | None = None
        self._since = ""
        self._dead = False

    def alive(self) -> None:
        if self._dead:
            raise Died

    def write(self, url: str, act: Callable[[], Any]) -> Any:
        with self._lock:
            self.alive()
            if self._left is not None and self._since in url:
                self._since = ""
                self._left -= 1
                self._dead = self._left < 0
            self.alive()
        done = act()
        self.written[url] = self.time
        return done
