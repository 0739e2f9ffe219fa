"""A time limit for a whole request to S3, so that a store which sends one byte per minute does not block a run.

boto3's own timeouts apply from one byte to the next, even in headers, so a slow response has no end. Here a connection
is shut down when its time is over. boto3 sees a broken connection and repeats the request.
"""

from __future__ import annotations

import socket
import threading
import time
import weakref
from contextlib import suppress
from typing import Any, Final

from botocore.awsrequest import (
    AWSHTTPConnection,
    AWSHTTPConnectionPool,
    AWSHTTPSConnection,
    AWSHTTPSConnectionPool,
)

TIMES: Final = 5
"""Limit of a whole request, as a multiple of the timeout without data."""
RATE: Final = 1 << 18
"""Bytes per second that extend this limit, for the data sent and received. A slower line is too slow for a run."""


def bound(client: Any, timeout: float) -> None:
    """Limit the time of every request of a client. `timeout`: seconds that boto3 waits for the next byte."""
    seconds = timeout * TIMES

    class Plain(_Bounded, AWSHTTPConnection):  # type: ignore[misc] # no types there
        longest = seconds

    class Secure(_Bounded, AWSHTTPSConnection):  # type: ignore[misc] # as above
        longest = seconds

    class PlainPool(AWSHTTPConnectionPool):  # type: ignore[misc] # as above
        ConnectionCls = Plain

    class SecurePool(AWSHTTPSConnectionPool):  # type: ignore[misc] # as above
        ConnectionCls = Secure

    # boto3 has no public way to do this. A test with a slow response would notice if it stopped working.
    session = client._endpoint.http_session
    session._pool_classes_by_scheme = pools = {"http": PlainPool, "https": SecurePool}
    session._manager.pool_classes_by_scheme = pools


class _Bounded:
    """A connection that is shut down if a request takes too long. The time includes handshake, headers and bodies."""

    longest: float
    sock: Any
    _twin: socket.socket | None = None
    _answering = False

    def _new_conn(self) -> Any:
        made = super()._new_conn()  # type: ignore[misc] # urllib3's method
        # A duplicate of the socket, because TLS takes over the first one.
        self._twin = made.dup()
        _deadlines.set(self._twin, self.longest)
        return made

    def request(self, method: str, url: str, body: Any = None, headers: Any = None, *more: Any, **options: Any) -> Any:
        if self._twin is not None:
            _deadlines.set(self._twin, self.longest + _length(headers) / RATE)
        return super().request(method, url, body, headers, *more, **options)  # type: ignore[misc] # as above

    def getresponse(self, *more: Any, **options: Any) -> Any:
        self._answering = True
        try:
            answer = super().getresponse(*more, **options)  # type: ignore[misc] # as above
        finally:
            self._answering = False
        twin = self._twin
        if twin is not None:
            _deadlines.set(twin, self.longest + _length(answer.headers) / RATE)
            if self.sock is None:  # the last response of this connection, not yet read
                weakref.finalize(answer, _deadlines.forget, twin)
                self._twin = None
        return answer

    def close(self) -> None:
        super().close()  # type: ignore[misc] # as above
        if self._twin is not None and not self._answering:
            _deadlines.forget(self._twin)
            self._twin = None


def _length(headers: Any) -> int:
    text = str((headers or {}).get("Content-Length") or "")
    return int(text) if text.isdigit() else 0


class _Deadlines:
    """The time at which each connection is shut down, and the thread that does it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._until: dict[socket.socket, float] = {}
        self._next = float("inf")
        self._watching: threading.Thread | None = None

    def set(self, connection: socket.socket, seconds: float) -> None:
        with self._lock:
            self._until[connection] = until = time.monotonic() + seconds
            if self._watching is None or not self._watching.is_alive():  # a fork does not inherit threads
                self._watching = threading.Thread(target=self._watch, name="s3 deadlines", daemon=True)
                self._watching.start()
            if until < self._next:
                self._lock.notify()

    def forget(self, connection: socket.socket) -> None:
        with self._lock:
            self._until.pop(connection, None)
        connection.close()

    def _watch(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                over = [connection for connection, until in self._until.items() if until <= now]
                for connection in over:
                    del self._until[connection]
                    with suppress(OSError):  # it may have gone meanwhile
                        connection.shutdown(socket.SHUT_RDWR)
                self._next = min(self._until.values(), default=float("inf"))
                self._lock.wait(self._next - now if self._until else None)


_deadlines: Final = _Deadlines()
