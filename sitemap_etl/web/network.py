"""Connections that can be relied on to end: every wait stops at the deadline, and soon after an interruption.

**The deadline.** An HTTP library bounds each single read, so a server that sends a byte now and then is never cut off,
least of all within its headers. httpcore takes its sockets from a network backend, and these are ours: what it hands
them as `timeout` is the deadline of the whole request, a moment of `time.monotonic`, and every connection, handshake,
read and write waits for no more than what is left of it.

**Interruptions.** No wait lasts longer than half a second before it looks whether the client was stopped, which is how
threads come to an end; in the main thread a signal ends it at once. The system's resolver is one C call that nothing
can interrupt, so it runs in a thread of its own that nobody waits for.

**The guard.** A name is resolved here, its addresses are judged, and the connection goes to an address that was judged:
the name can't mean another one a moment later (DNS rebinding). TLS still checks the name.
"""

from __future__ import annotations

import os
import queue
import selectors
import socket
import ssl
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from errno import EINPROGRESS, EWOULDBLOCK
from functools import partial
from typing import Any, Final, TypeVar

import httpcore

SLICE: Final = 0.5
"""Seconds of the longest single wait."""
_ADDRESSES: Final = 4
"""Addresses of one host that are tried."""
_RECORD: Final = 16_384 + 512
"""Bytes of the largest TLS record."""
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)

Resolve = Callable[[str, int], list[str]]
"""(host, port) → IP addresses; raises OSError where there are none."""
IsPublic = Callable[[str], bool]
"""Whether an IP address is of the public internet."""
_T = TypeVar("_T")


class Halted(Exception):
    """The client was stopped while it waited."""


class Forbidden(Exception):
    """The host is at an address that may not be asked."""


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system finds them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Waits:
    """All waiting of a client. A wait ends at its step, at the request's deadline, or when the client is stopped."""

    def __init__(self, step: float) -> None:
        self._stopped = threading.Event()
        self._step = step

    def stop(self) -> None:
        """End all waits, in every thread; no other begins."""
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Wait for nothing. Raises `Halted`."""
        if self._stopped.wait(seconds):
            raise Halted("the client was stopped")

    def until(self, deadline: float | None) -> float:
        """The moment up to which a wait that begins now may last."""
        end = time.monotonic() + self._step
        return end if deadline is None else min(end, deadline)

    def next_slice(self, end: float) -> float:
        """Seconds to wait in one go. Raises TimeoutError when the end has come, and `Halted`."""
        self.sleep(0)
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError("no answer in time")
        return min(left, SLICE)

    def ready(self, connection: socket.socket, event: int, deadline: float | None) -> None:
        """Wait until a socket can be read or written."""
        end = self.until(deadline)
        with _Selector() as selector:
            selector.register(connection, event)
            while not selector.select(self.next_slice(end)):
                pass

    def resolve(self, resolve: Resolve, host: str, port: int, deadline: float | None = None) -> list[str]:
        """The addresses of a host. A resolver that hangs is left to itself."""
        answers: queue.SimpleQueue[list[str] | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(resolve(host, port))
            except Exception as error:  # noqa: BLE001 - raised again where it is waited for
                answers.put(error)

        threading.Thread(target=ask, daemon=True, name=f"resolve {host}").start()
        end = self.until(deadline)
        while True:
            try:
                found = answers.get(timeout=self.next_slice(end))
            except queue.Empty:
                continue
            if isinstance(found, Exception):
                raise found
            return found


@contextmanager
def _named(slow: type[Exception], broken: type[Exception]) -> Iterator[None]:
    """Errors of the system under httpcore's names."""
    try:
        yield
    except TimeoutError as error:
        raise slow(str(error)) from error
    except OSError as error:
        raise broken(error.strerror or str(error)) from error


class Network(httpcore.NetworkBackend):
    """Opens connections. `public`: what is asked of each address of a host before; None: any may be asked."""

    def __init__(self, waits: Waits, resolve: Resolve, public: IsPublic | None) -> None:
        self._waits = waits
        self._resolve = resolve
        self._public = public

    def addresses(self, host: str, port: int, deadline: float | None) -> list[str]:
        """The addresses of a host. Raises `Forbidden` where one of them may not be asked."""
        with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
            found = self._waits.resolve(self._resolve, host, port, deadline)
        if self._public is not None and not all(map(self._public, found)):
            raise Forbidden(f"is at {', '.join(found)}, which is not a public address")
        return found

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        del local_address, socket_options  # never set
        problem: Exception = httpcore.ConnectError(f"{host} has no address")
        for address in self.addresses(host, port, timeout)[:_ADDRESSES]:
            try:
                with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
                    return _Socket(self._connected(address, port, timeout), self._waits)
            except (httpcore.ConnectTimeout, httpcore.ConnectError) as error:
                problem = error
        raise problem

    def _connected(self, address: str, port: int, deadline: float | None) -> socket.socket:
        connection = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = connection.connect_ex((address, port))
            if code in (EINPROGRESS, EWOULDBLOCK):
                self._waits.ready(connection, selectors.EVENT_WRITE, deadline)
                code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        except BaseException:
            connection.close()
            raise
        if code:
            connection.close()
            raise OSError(code, os.strerror(code))
        return connection


class _Stream(httpcore.NetworkStream):
    """A connection by two verbs that raise OSError."""

    @abstractmethod
    def receive(self, most: int, deadline: float | None) -> bytes:
        """Up to `most` bytes, none where the other side has closed."""

    @abstractmethod
    def deliver(self, data: bytes, deadline: float | None) -> None:
        """Send all of it."""

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _named(httpcore.ReadTimeout, httpcore.ReadError):
            return self.receive(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _named(httpcore.WriteTimeout, httpcore.WriteError):
            self.deliver(buffer, timeout)

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        try:
            with _named(httpcore.ConnectTimeout, httpcore.ConnectError):
                return _Tls(self, ssl_context, server_hostname, timeout)
        except BaseException:
            self.close()
            raise


class _Socket(_Stream):
    """A TCP connection."""

    def __init__(self, connection: socket.socket, waits: Waits) -> None:
        self._connection = connection
        self._waits = waits

    def receive(self, most: int, deadline: float | None) -> bytes:
        # Waited for in any case: a server that never pauses must not get past the deadline.
        self._waits.ready(self._connection, selectors.EVENT_READ, deadline)
        return self._connection.recv(most)

    def deliver(self, data: bytes, deadline: float | None) -> None:
        left = memoryview(data)
        while left:
            self._waits.ready(self._connection, selectors.EVENT_WRITE, deadline)
            left = left[self._connection.send(left) :]

    def close(self) -> None:
        self._connection.close()

    def get_extra_info(self, info: str) -> Any:
        if info == "is_readable":  # asked of an idle connection: then the other side has closed it
            with _Selector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                return bool(selector.select(0))
        return None


class _Tls(_Stream):
    """TLS over another stream, which may be TLS itself: that of a proxy."""

    def __init__(self, below: _Stream, context: ssl.SSLContext, host: str | None, deadline: float | None) -> None:
        self._below = below
        self._received, self._sending = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sending, server_hostname=host)
        self._carried(self._tls.do_handshake, deadline)

    def _carried(self, act: Callable[[], _T], deadline: float | None) -> _T:
        """What an act of the protocol gives, once everything that it sends and waits for was carried."""
        while True:
            try:
                result, done = [act()], True
            except ssl.SSLWantReadError:
                result, done = [], False
            if self._sending.pending:
                self._below.deliver(self._sending.read(), deadline)
            if done:
                return result[0]
            data = self._below.receive(_RECORD, deadline)
            if data:
                self._received.write(data)
            else:
                self._received.write_eof()

    def receive(self, most: int, deadline: float | None) -> bytes:
        try:
            return self._carried(partial(self._tls.read, most), deadline)
        except ssl.SSLEOFError:
            return b""  # closed without a farewell, as many servers do; whether the answer is whole, HTTP says

    def deliver(self, data: bytes, deadline: float | None) -> None:
        left = memoryview(data)
        while left:
            left = left[self._carried(partial(self._tls.write, left), deadline) :]

    def close(self) -> None:
        self._below.close()

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._below.get_extra_info(info)
