"""A server that accepts any request and answers one byte at a time, or never."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class Slow:
    """The running server. `asked`: set once a client has connected. `said`: sent one byte per `step` seconds."""

    def __init__(self, said: bytes, step: float) -> None:
        self.said = said
        self.step = step
        self.asked = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self._over = threading.Event()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.asked.set()
                threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def _drip(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(65_536)
            for byte in self.said:
                connection.sendall(bytes([byte]))
                if self._over.wait(self.step):
                    return
            self._over.wait()

    def close(self) -> None:
        self._over.set()
        self._server.close()


@contextmanager
def slow(said: bytes = b"", *, step: float = 1.0) -> Iterator[Slow]:
    """Run the server until the end of the block."""
    server = Slow(said, step)
    try:
        yield server
    finally:
        server.close()
