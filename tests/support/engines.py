"""Search engines on loopback: they answer as documented, and fail on demand."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pyarrow as pa
import trustme

from sitemap_etl import engines, frames
from sitemap_etl.config import revealed
from sitemap_etl.connections import look_up
from sitemap_etl.settings import Ping


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.target).query)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def form(self) -> dict[str, list[str]]:
        return parse_qs(self.body.decode())


@dataclass(frozen=True)
class Reply:
    status: int = 200
    body: str | bytes = ""
    headers: dict[str, str] = field(default_factory=dict)
    fault: str | None = None  # slow, reset, echo


SLOW, RESET, ECHO = Reply(fault="slow"), Reply(fault="reset"), Reply(fault="echo")


class Side:
    """A server on 127.0.0.1. `faults` are used up first, on requests that `faulty` picks; then `answer` answers."""

    def __init__(
        self, answer: Callable[[Request], Reply], *, authority: trustme.CA | None = None, port: int = 0
    ) -> None:
        self.answer = answer
        self.faults: list[Reply] = []
        self.faulty: Callable[[Request], bool] = lambda _request: True
        self.requests: list[Request] = []
        self._released = threading.Event()
        side = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                request = Request(self.command, self.path, dict(self.headers.items()), body)
                side.requests.append(request)
                reply = side.faults.pop(0) if side.faults and side.faulty(request) else side.answer(request)
                if reply.fault == "slow":
                    side._released.wait(10)
                if reply.fault == "echo":
                    asked = f"{self.requestline} {self.headers.get('Authorization')}"
                    self.wfile.write(f"{asked}\r\n\r\n".encode())
                    self.close_connection = True
                    return
                if reply.fault:
                    # Closing with nothing to linger for sends a reset instead of an orderly end.
                    self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    self.close_connection = True
                    self.connection.close()
                    return
                data = reply.body.encode() if isinstance(reply.body, str) else reply.body
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_DELETE = handle_any

            def log_message(self, *_args: object) -> None:
                pass

            def finish(self) -> None:
                with contextlib.suppress(OSError, ValueError):  # the connection was cut on purpose
                    super().finish()

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass  # clients that refuse our certificate, and connections cut on purpose

        self._server = Server(("127.0.0.1", port), Handler)
        scheme = "http"
        if authority is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("127.0.0.1").configure_cert(context)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def __enter__(self) -> Side:
        return self

    def __exit__(self, *_exc: object) -> None:
        self._released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, method: str, path: str = "") -> list[Request]:
        return [request for request in self.requests if request.method == method and path in request.path]


class Time:
    """A clock that moves only when code sleeps or the test moves it."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 20, 2, 0, tzinfo=UTC)
        self.slept: list[float] = []

    def clock(self) -> datetime:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += timedelta(seconds=seconds)

    def pass_minutes(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)


class Memory:
    """A ledger that stores JSON text, as the state does."""

    def __init__(self) -> None:
        self.text = "{}"
        self.versions: list[str] = []

    def load(self) -> dict[str, Any]:
        return dict(json.loads(self.text))

    def save(self, data: dict[str, Any]) -> None:
        self.text = json.dumps(data)
        self.versions.append(self.text)


def changes(rows: list[tuple[str, str, str | None]]) -> pa.Table:
    """Return a table `frames.CHANGES` of (loc, kind, lastmod)."""
    columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(3)]
    return pa.table([*columns, pa.array(["pages"] * len(rows), pa.string())], schema=frames.CHANGES)


def submission(site: str, run_id: str = "20261120T020000Z-0001", **values: Any) -> engines.Submission:
    """Return a submission of one changed index, one feed and three changes for a site of 100 URLs.

    `values` replaces its fields.
    """
    rows = [
        (f"{site}/a", "added", "2026-11-19"),
        (f"{site}/b", "changed", "2026-11-19"),
        (f"{site}/c", "removed", None),
    ]
    given = {
        "name": "shop",
        "site": site,
        "run_id": run_id,
        "indexes": (engines.Index(f"{site}/sitemap.xml", True), engines.Index(f"{site}/sitemap-2.xml", False)),
        "feeds": (f"{site}/news.atom.xml",),
        "changes": changes(rows),
        "listed": 100,
    }
    return engines.Submission(**(given | values))


def made(
    name: str, keys: Mapping[str, Any], *, connection: str | None = None, environ: Mapping[str, str] | None = None
) -> engines.HttpEngine[Any]:
    """Return the engine for these keys below `ping.<name>`. `connection`: the URI of its connection."""
    engine = Ping.model_validate({name: keys}).engines()[name]
    found = None if connection is None else look_up("c", lambda _id: connection)
    return engines.engine(name, revealed(f"ping.{name}", engine, environ or {}), found)


def index_of(request: Request) -> str:
    """Return the index in a request to the Search Console API."""
    return unquote(request.path.rpartition("/")[2])
