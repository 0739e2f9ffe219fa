"""A web site on loopback with a table of responses, which records its requests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from broken_sitemaps import url, urlset

Answer = tuple[int, dict[str, str], bytes]


@dataclass
class Website:
    """`answers` by path; `asked` has host and path of each request, `headers` its headers, names in lower case."""

    server: ThreadingHTTPServer
    answers: dict[str, Answer | Callable[[], Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def port(self) -> int:
        return int(self.server.server_address[1])

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def page(self, path: str = "/a") -> bytes:
        """Return a sitemap that lists one page of the site."""
        return urlset(url(self.root + path))


@contextmanager
def website() -> Iterator[Website]:
    """Run a site until the end of the block."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            found.asked.append(f"{self.headers['Host']}{self.path}")
            found.headers.append({name.lower(): value for name, value in self.headers.items()})
            answer = found.answers.get(self.path, (404, {}, b""))
            status, headers, body = answer() if callable(answer) else answer
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            with contextlib.suppress(OSError):  # who asked may be gone
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Website(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield found
        server.shutdown()
