"""Connections that always end: every wait stops at the deadline, and soon after an interruption.

**Deadline.** HTTP libraries limit each single read, so a server that sends a byte now and then can keep a request open
forever, above all within its headers. httpcore takes its sockets from a network backend, and this module is one. Its
`timeout` is the deadline of the whole request, a moment of `time.monotonic`. Every connection, handshake, read and
write waits at most until then.

**Interruptions.** A wait checks at least every half second if the client was stopped. That ends threads. In the main
thread, a signal ends it at once. The system's resolver is one C call that can't be interrupted, so it runs in a thread
that nothing waits for.

**Guard.** A name is resolved here, its addresses are checked, and the connection goes to a checked address. The name
can't resolve to another one a moment later (DNS rebinding). TLS still verifies the name.
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
"""Longest single wait in seconds."""
_ADDRESSES: Final = 4
"""Maximum number of addresses of a host that are tried."""
_RECORD: Final = 16_384 + 512
"""Bytes of the largest TLS record."""
_Selector: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)

Resolve = Callable[[str, int], list[str]]
"""(host, port) → IP addresses; raises OSError if there are none."""
IsPublic = Callable[[str], bool]
"""Returns whether an IP address is on the public internet."""
_T = TypeVar("_T")


class Halted(Exception):
    """The client was stopped while it waited."""


class Forbidden(Exception):
    """The host has an address that can't be requested."""


def resolved(host: str, port: int) -> list[str]:
    """Return the addresses of a host from the system's resolver."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Waits:
    """Waits of a client. A wait ends after its step, at the request's deadline, or when the client is stopped."""

    def __init__(self, step: float) -> None:
        self._stopped = threading.Event()
        self._step = step

    def stop(self) -> None:
        """End all waits in every thread, and prevent new ones."""
        self._stopped.set()

    def sleep(self, seconds: float) -> None:
        """Sleep in slices, so that the main thread handles each signal. Raise `Halted` if the client is stopped."""
        end = time.monotonic() + seconds
        while not self._stopped.wait(min(max(0.0, end - time.monotonic()), SLICE)):
            if time.monotonic() >= end:
                return
        raise Halted("the client was stopped")

    def until(self, deadline: float | None) -> float:
        """Return the end of a wait that begins now."""
        end = time.monotonic() + self._step
        return end if deadline is None else min(end, deadline)

    def next_slice(self, end: float) -> float:
        """Return the seconds of the next wait. Raise TimeoutError at the end, and `Halted` if the client is stopped."""
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
        """Return the addresses of a host. A resolver that hangs keeps its thread."""
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
    """Raise errors of the system as errors of httpcore."""
    try:
        yield
    except TimeoutError as error:
        raise slow(str(error)) from error
    except OSError as error:
        raise broken(error.strerror or str(error)) from error


class Network(httpcore.NetworkBackend):
    """Network backend. `public` checks each address of a host; None allows all."""

    def __init__(self, waits: Waits, resolve: Resolve, public: IsPublic | None) -> None:
        self._waits = waits
        self._resolve = resolve
        self._public = public

    def addresses(self, host: str, port: int, deadline: float | None) -> list[str]:
        """Return the addresses of a host. Raise `Forbidden` if one of them is not allowed."""
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
    """Connection with two methods that raise OSError."""

    @abstractmethod
    def receive(self, most: int, deadline: float | None) -> bytes:
        """Return up to `most` bytes, or none if the other side closed the connection."""

    @abstractmethod
    def deliver(self, data: bytes, deadline: float | None) -> None:
        """Send all of the data."""

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
        # Always wait, so that a server that never pauses can't exceed the deadline.
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
        if info == "is_readable":  # asked for an idle connection: if readable, the other side has closed it
            with _Selector() as selector:
                selector.register(self._connection, selectors.EVENT_READ)
                return bool(selector.select(0))
        return None


class _Tls(_Stream):
    """TLS over another stream, which can be TLS itself, such as a proxy's."""

    def __init__(self, below: _Stream, context: ssl.SSLContext, host: str | None, deadline: float | None) -> None:
        self._below = below
        self._received, self._sending = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._received, self._sending, server_hostname=host)
        self._carried(self._tls.do_handshake, deadline)

    def _carried(self, act: Callable[[], _T], deadline: float | None) -> _T:
        """Return the result of a TLS operation, after all its data was sent and received."""
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
            return b""  # closed without close_notify, as many servers do; HTTP detects an incomplete answer

    def deliver(self, data: bytes, deadline: float | None) -> None:
        left = memoryview(data)
        while left:
            left = left[self._carried(partial(self._tls.write, left), deadline) :]

    def close(self) -> None:
        self._below.close()

    def get_extra_info(self, info: str) -> Any:
        return self._tls if info == "ssl_object" else self._below.get_extra_info(info)
