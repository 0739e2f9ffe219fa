"""A store in memory that can delay requests of a dead process and let them arrive at any time."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sitemap_etl.stages.run import Environment
from sitemap_etl.storage import ABSENT, Expect, PreconditionFailed, Stat, Stored
from sitemap_etl.storage.body import Body
from sitemap_etl.storage.protocol import check_key, check_prefix, join, precondition_failed
from tests.support.storages import Died


@dataclass(frozen=True)
class Request:
    """A put, or a delete (`data` is None), on its way."""

    url: str
    data: bytes | None
    expect: Expect

    @property
    def name(self) -> str:
        return ("-" if self.data is None else "") + self.url


class Store:
    """Objects by address. Every request of a process goes through `passes`, and the process may die there.

    `kill`: number of the write at which the process dies; that write and all later requests of the process are
    `late`. `at`, `then`: before which request (reads counted too) something happens. `conditional_delete`: whether
    a delete's condition is respected. `after_write`: called after each write.
    """

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.objects: dict[str, tuple[bytes, str, datetime]] = {}
        self.conditional_delete = True
        self._lock = threading.RLock()
        self.begin()

    def begin(
        self,
        *,
        kill: int = 0,
        at: int = 0,
        then: Callable[[], None] = lambda: None,
        after_write: Callable[[], None] = lambda: None,
    ) -> None:
        """Start the next process."""
        self.kill, self.at, self.then, self.after_write = kill, at, then, after_write
        self.requests = 0
        self.writes: list[str] = []
        self.late: list[Request] = []

    def keep(self) -> dict[str, tuple[bytes, str, datetime]]:
        return dict(self.objects)

    def restore(self, kept: dict[str, tuple[bytes, str, datetime]]) -> None:
        self.objects = dict(kept)

    def around(self, environment: Environment) -> Environment:
        return replace(
            environment, open_storage=lambda url, **_: Memory(self, str(url).rstrip("/")), clock=lambda: self.now
        )

    def passes(self) -> None:
        """Let a request reach the store if its process is alive."""
        with self._lock:
            self.requests += 1
            if self.requests == self.at:
                self.then()
            if self.late:
                raise Died

    def write(self, request: Request) -> Any:
        with self._lock:
            self.requests += 1
            if self.requests == self.at:
                self.then()
            if not self.late:
                self.writes.append(request.name)
            if self.late or len(self.writes) == self.kill:
                self.late.append(request)
                raise Died
            done = self.arrive(request)
            self.after_write()
            return done

    def arrive(self, request: Request) -> Any:
        """Apply a write, whoever sent it and whenever. Raises PreconditionFailed."""
        with self._lock:
            there = self.stat(request.url)
            if request.data is None:
                if there is not None and self.conditional_delete and request.expect not in (None, there.etag):
                    raise precondition_failed(request.url, request.url, request.expect, there)
                return self.objects.pop(request.url, None) is not None
            etag = hashlib.sha256(request.data).hexdigest()
            if request.expect is not None and (there is None or there.etag != etag):
                fits = there is None if request.expect is ABSENT else there is not None and there.etag == request.expect
                if not fits:
                    raise precondition_failed(request.url, request.url, request.expect, there)
            self.objects[request.url] = (request.data, etag, self.now)
            return self.stat(request.url)

    def arrives_late(self, requests: list[Request]) -> list[Request]:
        """Let requests of a dead process arrive; return those whose condition was met."""
        held = []
        for request in requests:
            try:
                self.arrive(request)
            except PreconditionFailed:
                continue
            held.append(request)
        return held

    def stat(self, url: str) -> Stat | None:
        found = self.objects.get(url)
        return None if found is None else Stat(url, len(found[0]), found[1], found[2])

    def below(self, url: str) -> dict[str, bytes]:
        """Return the objects below an address, by key."""
        found = sorted(self.objects.items())
        return {key.removeprefix(f"{url}/"): value[0] for key, value in found if key.startswith(f"{url}/")}


class Memory:
    """A part of a store with the interface of a storage."""

    conditional = True

    def __init__(self, store: Store, url: str, prefix: str = "") -> None:
        self._store, self._root, self._prefix = store, url, prefix
        self.url = f"{url}/{prefix}".rstrip("/")
        self.place = self.url

    def url_of(self, key: str) -> str:
        return f"{self.url}/{key}"

    def sub(self, prefix: str) -> Memory:
        return Memory(self._store, self._root, join(self._prefix, prefix))

    def get(self, key: str) -> Stored | None:
        self._store.passes()
        found = self._store.objects.get(self.url_of(check_key(key)))
        return None if found is None else Stored(Stat(key, len(found[0]), found[1], found[2]), found[0])

    def read(self, key: str, start: int, length: int) -> bytes:
        found = self.get(key)
        assert found is not None, key
        return found.data[start : start + length]

    def stat(self, key: str) -> Stat | None:
        self._store.passes()
        found = self._store.stat(self.url_of(check_key(key)))
        return None if found is None else replace(found, key=key)

    def put(self, key: str, data: Any, *, expect: Expect = None, **_: Any) -> Stat:
        body = b"".join(Body(data).chunks())
        stat: Stat = self._store.write(Request(self.url_of(check_key(key)), body, expect))
        return replace(stat, key=key)

    def delete(self, key: str, *, expect: str | None = None) -> bool:
        return bool(self._store.write(Request(self.url_of(check_key(key)), None, expect)))

    def list(self, prefix: str = "") -> Iterator[Stat]:
        self._store.passes()
        found = self._store.below(self.url)
        for key in sorted(key for key in found if key.startswith(check_prefix(prefix))):
            stat = self._store.stat(self.url_of(key))
            if stat is not None:
                yield replace(stat, key=key)

    def now(self) -> datetime:
        return self._store.now


DAY = timedelta(days=1)
