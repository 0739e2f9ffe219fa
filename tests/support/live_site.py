"""A web site on loopback whose every response a test decides."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HTML = {"Content-Type": "text/html; charset=utf-8"}
WORDS = "a lamp of brass with a shade of linen that fits any socket and lights a room of twenty square metres at night"


@dataclass(frozen=True)
class Asked:
    """A received request."""

    method: str
    path: str
    agent: str
    cookie: str = ""
    secret: str = ""


@dataclass(frozen=True)
class Answer:
    """A response. It waits for `hangs` first; `closes` closes the connection without a response."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: HTML)
    body: bytes = b""
    hangs: threading.Event | None = None
    closes: bool = False


@dataclass
class Website:
    """`answers`: by path, a response or a function that makes one of a request. Other paths answer `otherwise`."""

    server: ThreadingHTTPServer
    answers: dict[str, Answer | Callable[[Asked], Answer]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    otherwise: Answer | Callable[[Asked], Answer] = field(default_factory=lambda: Answer(404))

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def paths(self, method: str = "") -> list[str]:
        """The requested paths, in order."""
        return [asked.path for asked in self.asked if method in ("", asked.method)]

    def page(self, path: str, text: str = "", *, head: str = "", status: int = 200, **headers: str) -> None:
        """Add a page with its own text. Underscores in names of `headers` become hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.answers[path] = Answer(status, {**HTML, **named}, document(f"{path} {text or WORDS} {path}", head=head))


def document(text: str, *, head: str = "", title: str = "shop") -> bytes:
    return f"<!doctype html><html><head><title>{title}</title>{head}</head><body><p>{text}</p></body></html>".encode()


@contextlib.contextmanager
def website() -> Iterator[Website]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked = Asked(
                self.command,
                self.path,
                self.headers.get("User-Agent", ""),
                self.headers.get("Cookie", ""),
                self.headers.get("Authorization", ""),
            )
            made.asked.append(asked)
            answer = made.answers.get(self.path, made.otherwise)
            if callable(answer):
                answer = answer(asked)
            if answer.hangs is not None:
                answer.hangs.wait(60)
            if answer.closes:
                self.close_connection = True
                return
            self.send_response_only(answer.status)
            for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            with contextlib.suppress(OSError):  # who asked may be gone
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

        do_HEAD = do_GET

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        made = Website(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield made
        server.shutdown()
