"""A proxy in front of an HTTP server that fails on demand, and records every request.

    with fault_proxy(server.endpoint) as proxy:
        proxy.at(3, RESET_AFTER)          # the third request is applied, its response lost
        ...                               # the code under test, with AWS_ENDPOINT_URL=proxy.endpoint
        assert proxy.seen[2].fault == RESET_AFTER

Requests are numbered from 1 in the order of their arrival. Each retry has its own number.
"""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Fault:
    """What goes wrong. `applied`: the server behind gets the request first, only the answer suffers.

    kind: `answer` (this status and S3 error code instead, or this body), `reset` (the connection is torn down),
    `hang` (no answer until the other side gives up), `truncate` (half of the answer, then the end),
    `corrupt` (a byte of the request's body is changed on its way), `careless` (the request loses its conditions).
    """

    kind: str
    status: int = 0
    code: str = ""
    applied: bool = False
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    def __str__(self) -> str:
        return f"{self.status} {self.code}" if self.kind == "answer" else f"{self.kind}{' after' * self.applied}"


ERROR = Fault("answer", 500, "InternalError")
SLOW_DOWN = Fault("answer", 503, "SlowDown")
TIMEOUT = Fault("hang")
TIMEOUT_AFTER = Fault("hang", applied=True)
RESET = Fault("reset")
RESET_AFTER = Fault("reset", applied=True)
TRUNCATE = Fault("truncate", applied=True)
ERROR_AFTER = Fault("answer", 500, "InternalError", applied=True)
CORRUPT = Fault("corrupt", applied=True)
CARELESS = Fault("careless", applied=True)

FAULTS = (ERROR, SLOW_DOWN, TIMEOUT, RESET, TRUNCATE, RESET_AFTER, TIMEOUT_AFTER, ERROR_AFTER)
"""What an S3 that misbehaves, without lying, may do to any request."""


@dataclass
class Seen:
    """A request that passed. `status`: the answer of the server behind, or 0 if it was not asked."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    size: int
    fault: Fault | None = None
    status: int = 0

    @property
    def writes(self) -> bool:
        return self.method in ("PUT", "POST", "DELETE")

    def __str__(self) -> str:
        return f"{self.number} {self.method} {self.path} → {self.fault or self.status}"


Plan = Callable[[Seen], Fault | None]


@dataclass
class FaultProxy:
    """The running proxy. `before` and `after` are called around each request that is forwarded, for example to kill."""

    endpoint: str
    upstream: str
    plan: Plan = lambda seen: None
    before: Callable[[Seen], None] = lambda seen: None
    after: Callable[[Seen], None] = lambda seen: None
    seen: list[Seen] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def at(self, number: int, fault: Fault, *, times: int = 1) -> None:
        """Let the requests `number` … `number + times - 1` fail."""
        self.plan = lambda seen: fault if number <= seen.number < number + times else None

    def always(self, fault: Fault, *, method: str | None = None, contains: str = "") -> None:
        """Let each request (with this method, with this text in its path) fail."""
        self.plan = lambda seen: fault if method in (None, seen.method) and contains in seen.path else None

    def once(self, fault: Fault, *, method: str | None = None, contains: str = "") -> None:
        """Let the first such request fail."""
        left = [fault]

        def plan(seen: Seen) -> Fault | None:
            fits = method in (None, seen.method) and contains in seen.path
            return left.pop() if left and fits else None

        self.plan = plan

    def reset(self) -> None:
        """Remove all faults, and start counting again."""
        with self.lock:
            self.plan = self.before = self.after = lambda seen: None
            self.seen.clear()

    def paths(self, *methods: str) -> list[str]:
        """Return the paths of the requests with these methods (any method by default), in order."""
        return [seen.path for seen in self.seen if not methods or seen.method in methods]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    proxy: FaultProxy

    def log_message(self, *arguments: object) -> None:
        """Log nothing: tests print what they need."""

    def handle(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            super().handle()

    def relay(self) -> None:
        body = self._body()
        proxy = self.proxy
        with proxy.lock:
            seen = Seen(len(proxy.seen) + 1, self.command, self.path, dict(self.headers), len(body))
            proxy.seen.append(seen)
            seen.fault = fault = proxy.plan(seen)
        if fault is not None and fault.kind == "corrupt" and body:
            body = body[:-1] + bytes([body[-1] ^ 1])
        if fault is not None and fault.kind == "careless":
            for name in ("If-Match", "If-None-Match"):
                del self.headers[name]
        answer: tuple[int, list[tuple[str, str]], bytes] | None = None
        if fault is None or fault.applied:
            proxy.before(seen)
            answer = self._ask(body)
            seen.status = answer[0]
            proxy.after(seen)
        if fault is None or fault.kind in ("corrupt", "careless"):
            assert answer is not None
            self._send(*answer)
        elif fault.kind == "answer":
            self._send(fault.status, [("Content-Type", "application/xml"), *fault.headers], _error_body(fault))
        elif fault.kind == "reset":
            self._tear_down()
        elif fault.kind == "hang":
            self._hang()
        elif fault.kind == "truncate":
            assert answer is not None
            self._send(*answer, half=True)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = relay

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline().split(b";")[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass  # trailers
        return body

    def _ask(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        at = urlsplit(self.proxy.upstream)
        connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
        try:
            headers = {
                name: value
                for name, value in self.headers.items()
                if name.lower() not in ("connection", "expect", "transfer-encoding", "content-length")
            }
            connection.request(self.command, self.path, body or None, {**headers, "Content-Length": str(len(body))})
            answer = connection.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        finally:
            connection.close()

    def _send(self, status: int, headers: list[tuple[str, str]], body: bytes, *, half: bool = False) -> None:
        own = ("connection", "transfer-encoding", "content-length")
        length = len(body)
        for name, value in headers:
            if name.lower() == "content-length" and self.command == "HEAD":
                length = int(value)
        lines = [f"HTTP/1.1 {status} {http.client.responses.get(status, '')}"]
        lines += [f"{name}: {value}" for name, value in headers if name.lower() not in own]
        bodiless = self.command == "HEAD" or status in (204, 304)
        if status not in (204, 304):
            lines.append(f"Content-Length: {length}")
        if bodiless:
            body = b""
        head = "\r\n".join(lines)
        if half:
            # An answer without a body is cut in its headers: all that is left to cut.
            cut = f"{head}\r\n\r\n".encode("latin-1") + body[: len(body) // 2]
            self.wfile.write(cut if body else head[: len(head) // 2].encode("latin-1"))
            self.close_connection = True
            return
        self.wfile.write(f"{head}\r\n\r\n".encode("latin-1") + body)

    def _tear_down(self) -> None:
        # Lingering for no time makes close() send RST instead of FIN.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wfile.flush()
        self.rfile.close()
        self.wfile.close()
        self.connection.close()
        self.close_connection = True

    def _hang(self) -> None:
        self.connection.settimeout(120)
        with suppress(OSError):
            while self.connection.recv(65_536):
                pass
        self.close_connection = True


def _error_body(fault: Fault) -> bytes:
    if fault.body is not None:
        return fault.body
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{fault.code}</Code>'
        f"<Message>{fault.code} made by the proxy</Message><RequestId>1</RequestId></Error>"
    ).encode()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore broken connections: this server makes them."""

    def shutdown_request(self, request: object) -> None:
        with suppress(OSError):
            super().shutdown_request(request)


@contextmanager
def fault_proxy(upstream: str) -> Iterator[FaultProxy]:
    """Run a proxy on a free port of 127.0.0.1 in front of `upstream`, until the end of the block."""
    handler = type("Handler", (_Handler,), {})
    server = _Server(("127.0.0.1", 0), handler)
    proxy = FaultProxy(f"http://127.0.0.1:{server.server_address[1]}", upstream)
    handler.proxy = proxy
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
