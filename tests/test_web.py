"""One request, and every way in which the server may fail it: slow, endless, broken, or hostile."""

from __future__ import annotations

import base64
import contextlib
import gzip
import logging
import select
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
import trustme

from sitemap_etl import web
from sitemap_etl.errors import Refused, Unavailable
from tests.support.command import process

MIB = 1 << 20
Script = Callable[[socket.socket, str], None]


class Raw:
    """A server on loopback that runs its script on each connection, once the head of the request has arrived."""

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.asked: list[str] = []
        self.connections = 0
        self.heard = threading.Event()
        self._context = context
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_exception: object) -> None:
        for open_socket in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)
            open_socket.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if self._context is not None:
                connection = self._context.wrap_socket(connection, server_side=True)
            self._open.append(connection)
            while head := self._head(connection):
                self.asked.append(head)
                self.heard.set()
                self.script(connection, head)

    @staticmethod
    def _head(connection: socket.socket) -> str:
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65_536)
            if not piece:
                return ""
            data += piece
        return data.decode("latin-1")


def says(*headers: str, body: bytes = b"", status: str = "200 OK") -> Script:
    """Answer with a Content-Length."""
    lines = [f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]
    return lambda connection, _head: connection.sendall("\r\n".join(lines).encode("latin-1") + body)


def drips(before: bytes) -> Script:
    """Send the beginning, then a byte now and then, forever."""

    def script(connection: socket.socket, _head: str) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(b"x")
            time.sleep(0.02)

    return script


def floods(before: bytes, piece: bytes) -> Script:
    """Send the beginning, then more without a pause."""

    def script(connection: socket.socket, _head: str) -> None:
        connection.sendall(before)
        while True:
            connection.sendall(piece)

    return script


def closes(before: bytes) -> Script:
    """Send the beginning and close."""

    def script(connection: socket.socket, _head: str) -> None:
        connection.sendall(before)
        connection.shutdown(socket.SHUT_RDWR)

    return script


def is_silent(connection: socket.socket, _head: str) -> None:
    """Never answer."""
    while connection.recv(65_536):
        pass


def get(url: str, *, limit: int = MIB, seconds: float = 30, **options: object) -> web.Fetched:
    with web.Client(step=20) as client:
        return client.request("GET", url, limit=limit, seconds=seconds, **options)  # type: ignore[arg-type]


HEAD = b"HTTP/1.1 200 OK\r\n"

LATE: dict[str, Script] = {
    "drips its headers": drips(HEAD + b"X-Long: "),
    "drips its status": drips(b"HTTP/1.1 200 "),
    "drips its body": drips(HEAD + b"Content-Length: 1000000\r\n\r\n"),
    "drips a body without a length": drips(HEAD + b"\r\n"),
    "drips the size of a chunk": drips(HEAD + b"Transfer-Encoding: chunked\r\n\r\n5;"),
    "says nothing": is_silent,
    "promises an answer for ever": floods(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
}


@pytest.mark.parametrize("script", LATE.values(), ids=LATE)
def test_a_response_that_is_incomplete_at_the_deadline_is_discarded(script: Script) -> None:
    with Raw(script) as server, pytest.raises(web.Unanswered, match="did not answer in time") as caught:
        get(server.url, seconds=0.7)
    assert caught.value.slow


def test_a_slow_tls_response_ends_at_the_deadline() -> None:
    server_side, trusting = tls()
    with Raw(drips(HEAD + b"X-Long: "), server_side) as server, web.Client(trust=trusting) as client:
        with pytest.raises(web.Unanswered) as caught:
            client.request("GET", server.url, limit=MIB, seconds=0.7)
    assert caught.value.slow


def test_an_endless_tls_handshake_ends_before_the_request_is_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(web.Unreachable) as caught:
            get(f"https://127.0.0.1:{listener.getsockname()[1]}", seconds=0.7)
    assert caught.value.slow


def test_the_step_limits_the_time_between_two_chunks() -> None:
    with Raw(is_silent) as server, web.Client(step=0.3) as client, pytest.raises(web.Unanswered) as caught:
        client.request("GET", server.url, limit=MIB, seconds=600)
    assert caught.value.slow


def test_redirects_share_the_deadline() -> None:
    def script(connection: socket.socket, _head: str) -> None:
        time.sleep(0.4)
        says("Location: /again", status="302 Found")(connection, "")

    with Raw(script) as server, pytest.raises(web.Unanswered) as caught:
        get(server.url, seconds=1, redirects=50)
    assert caught.value.slow
    assert len(caught.value.hops) in (1, 2)


@pytest.mark.parametrize("headers", [b"", b"Content-Length: 1000000000\r\n", b"Transfer-Encoding: chunked\r\n"])
def test_a_huge_response_is_cut_off_at_the_limit(headers: bytes) -> None:
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n" if b"chunked" in headers else b"x" * 65_536
    with Raw(floods(HEAD + headers + b"\r\n", piece)) as server:
        found = get(server.url, limit=200_000)
    assert (len(found.body), found.whole) == (200_000, False)


def test_a_response_with_huge_headers_is_discarded() -> None:
    with Raw(floods(HEAD, b"X-More: xxxxxxxxxxxxxxxxxxxxxxxx\r\n" * 1000)) as server:
        with pytest.raises(web.Unanswered, match="broke off") as caught:
            get(server.url)
    assert not caught.value.slow


def test_only_the_beginning_of_an_error_page_is_read() -> None:
    with Raw(floods(b"HTTP/1.1 500 Oh\r\n\r\n", b"x" * 65_536)) as server:
        found = get(server.url, limit=1 << 30)
    assert (found.status, len(found.body)) == (500, MIB)


EARLY: dict[str, bytes] = {
    "at once": b"",
    "in the status": b"HTTP/1.1 2",
    "in the headers": HEAD + b"Content-Le",
    "in the body": HEAD + b"Content-Length: 10\r\n\r\nhalf",
    "in a chunk": HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhal",
}


@pytest.mark.parametrize("before", EARLY.values(), ids=EARLY)
def test_an_early_close_counts_as_no_answer(before: bytes) -> None:
    with Raw(closes(before)) as server, pytest.raises(web.Unanswered, match="broke off") as caught:
        get(server.url)
    assert not caught.value.slow


def test_a_gzip_bomb_is_cut_off_at_the_limit() -> None:
    once = gzip.compress(b"\0" * 64 * MIB)
    for codings, body in (("gzip", once), ("gzip, gzip", gzip.compress(once)), ("gzip", b"".join([once] * 16))):
        with Raw(says(f"Content-Encoding: {codings}", body=body)) as server:
            found = get(server.url, limit=MIB)
        assert (found.body, found.whole) == (b"\0" * MIB, False)


def test_complete_gzip_is_decompressed_unless_the_caller_wants_it_raw() -> None:
    with Raw(says("Content-Encoding: GZip", body=gzip.compress(b"hello"))) as server:
        assert get(server.url).body == b"hello"
        assert gzip.decompress(get(server.url, encoded=True).body) == b"hello"
    with Raw(says("Content-Encoding: gzip", body=gzip.compress(b"hello")[:-4])) as server:
        with pytest.raises(web.Unanswered, match="gzip data is truncated"):
            get(server.url)
    with Raw(says("Content-Encoding: br", body=b"\x0b\x02\x80hello\x03")) as server:
        assert get(server.url).coding == "br"


def test_redirects_are_followed_up_to_the_given_number() -> None:
    def script(connection: socket.socket, head: str) -> None:
        left = int(head.split()[1].strip("/"))
        answer = says(f"Location: {left - 1}", status="302 Found") if left else says(body=b"there")
        answer(connection, head)

    with Raw(script) as server:
        found = get(f"{server.url}/3", redirects=3)
        assert (found.body, found.hops) == (b"there", tuple(f"{server.url}/{left}" for left in (3, 2, 1)))
        first = get(f"{server.url}/3")
        assert (first.status, first.moved) == (302, "2")
        with pytest.raises(web.TooManyRedirects) as caught:
            get(f"{server.url}/9", redirects=3)
    assert (caught.value.url, len(caught.value.hops)) == (f"{server.url}/6", 3)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "ftp://shop.example/"])
def test_a_redirect_to_an_unsupported_address_is_reported(location: str) -> None:
    with Raw(says(f"Location: {location}", status="302 Found")) as server, pytest.raises(Refused) as caught:
        get(server.url, redirects=3)
    assert isinstance(caught.value, web.InvalidAddress)


@pytest.mark.parametrize(
    "url", ["nothing", "ftp://shop.example/", "http://[::1", "http://shop.example:99999/", "http://"]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(web.InvalidAddress, match="is not an http or https address"):
        get(url)


def test_an_unknown_host_is_distinguished_from_one_that_does_not_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(web.Unreachable, match="Connection refused") as caught:
        get(f"http://127.0.0.1:{port}/")
    assert not caught.value.slow

    def nobody(_host: str, _port: int) -> list[str]:
        raise OSError(-2, "Name or service not known")

    with web.Client(resolve=nobody) as client, pytest.raises(web.Unreachable, match="Name or service not known"):
        client.request("GET", "http://shop.example/", limit=1, seconds=5)


def test_another_ip_address_of_the_host_is_tried_if_the_first_is_unreachable() -> None:
    with Raw(says(body=b"here")) as server, web.Client(resolve=lambda *_: ["127.0.0.9", "127.0.0.1"]) as client:
        found = client.request("GET", f"http://shop.test:{server.port}/", limit=10, seconds=5)
    assert found.body == b"here"


def test_a_connection_is_reused_until_the_server_closes_it() -> None:
    with Raw(says(body=b"a")) as server, web.Client() as client:
        for _ in range(3):
            client.request("GET", server.url, limit=10, seconds=5)
        assert server.connections == 1
    closed = threading.Event()

    def script(connection: socket.socket, head: str) -> None:
        closes(HEAD + b"Content-Length: 1\r\n\r\na")(connection, head)
        closed.set()

    with Raw(script) as server, web.Client() as client:
        for _ in range(3):
            closed.clear()
            assert client.request("GET", server.url, limit=10, seconds=5).body == b"a"
            assert closed.wait(10)
        assert server.connections == 3


def tls() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a TLS context of a server for 127.0.0.1 and shop.test, and one of a client that trusts it."""
    authority = trustme.CA()
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1", "shop.test").configure_cert(server)
    authority.configure_trust(client)
    return server, client


def test_an_untrusted_certificate_is_distinguished_from_other_errors() -> None:
    server_side, trusting = tls()
    with Raw(says(body=b"secure"), server_side) as server:
        with pytest.raises(web.Untrusted, match="certificate"):
            get(server.url)
        with web.Client(trust=trusting) as client:
            assert client.request("GET", server.url, limit=10, seconds=5).body == b"secure"
        with web.Client(trust=trusting, resolve=lambda *_: ["127.0.0.1"]) as client, pytest.raises(web.Untrusted):
            client.request("GET", f"https://other.test:{server.port}", limit=10, seconds=5)
        assert len(server.asked) == 1


def test_a_large_tls_response_is_read_completely() -> None:
    server_side, trusting = tls()
    body = bytes(range(256)) * 20_000
    with Raw(says(body=body), server_side) as server, web.Client(trust=trusting) as client:
        assert client.request("GET", server.url, limit=len(body), seconds=30).body == body


@pytest.mark.thorough
def test_a_server_without_the_expected_tls_is_unreachable() -> None:
    with Raw(says(body=b"plain")) as server, pytest.raises(web.Unreachable) as caught:
        get(server.url.replace("http://", "https://"), seconds=5)
    assert not isinstance(caught.value, web.Untrusted)


# --- whom it may ask ---


def test_every_redirect_is_checked_for_private_addresses() -> None:
    """127.0.0.1 is the public network, 127.0.0.2 the private one; both reach the same server."""

    def script(connection: socket.socket, head: str) -> None:
        away = f"Location: http://intranet.test:{server.port}/secret"
        (says(body=b"secret") if "/secret" in head else says(away, status="302 Found"))(connection, head)

    addresses = {"shop.test": ["127.0.0.1"], "intranet.test": ["127.0.0.1", "127.0.0.2"]}

    def client() -> web.Client:
        return web.Client(resolve=lambda host, _port: addresses[host], public=lambda ip: ip == "127.0.0.1")

    with Raw(script) as server, client() as asking:
        url = f"http://shop.test:{server.port}/"
        with pytest.raises(web.PrivateAddress, match=r"intranet\.test.* is at 127\.0\.0\.1, 127\.0\.0\.2"):
            asking.request("GET", url, limit=10, seconds=5, redirects=3, guarded=True)
        assert not any("/secret" in head for head in server.asked)
        assert asking.request("GET", url, limit=10, seconds=5, redirects=3).body == b"secret"
        # A connection that was opened without the guard serves no guarded request.
        with pytest.raises(web.PrivateAddress):
            asking.request("GET", f"http://intranet.test:{server.port}/secret", limit=10, seconds=5, guarded=True)
        assert (asking.is_public(url), asking.is_public("http://intranet.test/")) == (True, False)


def forwards(connection: socket.socket, head: str) -> None:
    """A proxy: it opens a tunnel, or requests an absolute address itself. All names are 127.0.0.1 here."""
    method, target, _ = head.splitlines()[0].split()
    port = int(target.rpartition(":")[2].partition("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as there:
        if method == "CONNECT":
            connection.sendall(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            there.sendall(head.encode("latin-1"))
        pump(connection, there)


def pump(one: socket.socket, other: socket.socket) -> None:
    """Pass bytes in both directions until a side closes."""
    while True:
        ready = [side for side in (one, other) if isinstance(side, ssl.SSLSocket) and side.pending()]
        for side in ready or select.select([one, other], [], [])[0]:
            data = side.recv(65_536)
            if not data:
                return
            (other if side is one else one).sendall(data)


@pytest.mark.parametrize("secure_proxy", [False, True], ids=["http proxy", "https proxy"])
@pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, secure: bool, secure_proxy: bool) -> None:
    server_side, trusting = tls()
    with (
        Raw(says(body=b"behind"), server_side if secure else None) as server,
        Raw(forwards, server_side if secure_proxy else None) as proxy,
        web.Client(trust=trusting, resolve=lambda *_: ["127.0.0.1"], public=lambda _ip: False) as client,
    ):
        credentials = proxy.url.replace("://", "://me:pass@")
        monkeypatch.setenv("HTTPS_PROXY" if secure else "HTTP_PROXY", credentials)
        url = f"http{'s' if secure else ''}://shop.test:{server.port}/"
        assert client.request("GET", url, limit=10, seconds=10).body == b"behind"
        assert proxy.asked[0].startswith(f"CONNECT shop.test:{server.port}" if secure else f"GET {url}")
        assert base64.b64encode(b"me:pass").decode() in proxy.asked[0]
        asked = len(proxy.asked)
        with pytest.raises(web.PrivateAddress):
            client.request("GET", url, limit=10, seconds=10, guarded=True)
        assert len(proxy.asked) == asked


def test_an_ip_address_is_requested_without_resolving(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    with Raw(says(body=b"direct")) as server:
        assert get(server.url).body == b"direct"


def test_an_unsupported_kind_of_proxy_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy.test:1080")
    with pytest.raises(web.Unreachable, match=r"proxy\.test is neither http:// nor https://"):
        get("http://shop.test/")


# --- what it may say ---


@pytest.mark.parametrize("status", ["401 No", "302 Found"])
def test_a_password_in_an_address_is_sent_and_never_shown(caplog: pytest.LogCaptureFixture, status: str) -> None:
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, "httpx")
    with Raw(says("Location: /elsewhere", status=status)) as server:
        url = server.url.replace("://", "://me:pa%2Fss@")
        found = get(url, redirects=1) if status.startswith("401") else None
        if found is None:
            with pytest.raises(web.TooManyRedirects) as caught:
                get(url, redirects=1)
            assert "pa%2Fss" not in f"{caught.value} {caught.value.hops}"
    assert base64.b64encode(b"me:pa/ss").decode() in server.asked[0]
    assert "pa%2Fss" not in caplog.text
    assert "HTTP Request" in caplog.text


def test_log_records_of_other_http_clients_are_not_changed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "httpx")
    with web.Client():
        logging.getLogger("httpx").info("%s", "theirs")
    assert caplog.records[-1].args == ("theirs",)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7.0),
        (" 7 ", 7.0),
        ("Fri, 20 Nov 2026 02:01:30 GMT", 90.0),
        ("Fri, 20 Nov 2026 03:01:30 +0100", 90.0),
        ("999999999", 86_400.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("0", None),
        ("-3", None),
        ("soon", None),
        ("Fri, 20 Nov 2026 01:00:00 GMT", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, seconds: float | None) -> None:
    answer = web.Fetched("http://shop.example/", 429, {"retry-after": text}, b"")
    assert answer.retry_after(datetime(2026, 11, 20, 2, tzinfo=UTC)) == seconds


# --- robots.txt ---


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "410 Gone", "403 Forbidden", "503 Busy"])
def test_an_unavailable_robots_txt_is_reported_with_its_status(status: str) -> None:
    with Raw(says(body=b"User-agent: *\n", status=status)) as server:
        answer = web.public_robots(server.url)
    assert (answer.status, answer.body) == (int(status[:3]), b"User-agent: *\n")
    assert "GET /robots.txt " in server.asked[0]


def test_an_invalid_robots_txt_is_reported_with_the_problem() -> None:
    with Raw(floods(HEAD + b"\r\n", b"#" * 65_536)) as server, pytest.raises(web.TooLarge):
        web.public_robots(server.url)
    with Raw(drips(HEAD + b"\r\n")) as server, pytest.raises(Unavailable) as late:
        web.public_robots(server.url, seconds=0.6)
    assert isinstance(late.value, web.WebError)
    assert late.value.slow
    with Raw(says("Content-Encoding: br", body=b"\x0b\x02\x80hello\x03")) as server:
        with pytest.raises(web.Unanswered, match="Content-Encoding br"):
            web.public_robots(server.url)
    with Raw(closes(b"")) as server, pytest.raises(web.Unanswered) as broken:
        web.public_robots(server.url)
    assert not broken.value.slow
    with Raw(says("Location: /robots.txt", status="301 Moved")) as server, pytest.raises(web.TooManyRedirects):
        web.public_robots(server.url)


# --- interruptions ---


def test_stopping_a_client_ends_requests_in_other_threads() -> None:
    with Raw(drips(HEAD + b"X-Long: ")) as server, web.Client() as client, ThreadPoolExecutor(2) as pool:
        asking = pool.submit(client.request, "GET", server.url, limit=10, seconds=600)
        sleeping = pool.submit(client.sleep, 600)
        server.heard.wait(10)
        client.stop()
        for waiting in (asking, sleeping):
            with pytest.raises(web.Stopped):
                waiting.result(timeout=30)
        with pytest.raises(web.Stopped):
            client.request("GET", server.url, limit=10, seconds=5)


WAITS = {
    "headers": "client.request('GET', url, limit=10, seconds=600)",
    "connection": "client.request('GET', 'https' + url[4:], limit=10, seconds=600)",
    "resolver": "web.Client(step=600, resolve=lambda *_: time.sleep(600)).request('GET', url, limit=9, seconds=600)",
    "sleep": "client.sleep(600)",
}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("wait", WAITS)
def test_a_signal_ends_a_wait_long_before_its_deadline(wait: str, how: signal.Signals) -> None:
    program = (
        "import signal, sys, time\n"
        "from sitemap_etl import web\n"
        "def stop(*_): raise KeyboardInterrupt\n"
        "for number in (signal.SIGINT, signal.SIGTERM): signal.signal(number, stop)\n"
        "url, client = sys.argv[1], web.Client(step=600)\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        f"    {WAITS[wait]}\n"
        "except KeyboardInterrupt:\n"
        "    sys.exit(130)\n"
    )
    with Raw(drips(HEAD + b"X-Long: ")) as server:
        child = subprocess.Popen([sys.executable, "-c", program, server.url], stdout=subprocess.PIPE, text=True)
        with child:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
            if wait == "headers":
                assert server.heard.wait(30)
            child.send_signal(how)
            assert child.wait(timeout=30) == 130


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_a_check_with_several_threads_ends_when_it_is_interrupted(tmp_path: Path, how: signal.Signals) -> None:
    with Raw(drips(HEAD + b"X-Long: ")) as server:
        child = process("check", server.url, "--no-robots", "--jobs", "3", cwd=tmp_path)
        with child:
            assert server.heard.wait(60)
            child.send_signal(how)
            assert child.wait(timeout=30) == 130


def test_a_signal_handled_by_another_thread_ends_the_sleep_of_the_main_thread() -> None:
    """Nothing wakes the main thread then: it has to poll."""
    program = """
import os, signal, threading, time
from sitemap_etl.web.network import Waits

def stop(_number, _frame):
    os._exit(7)

signal.signal(signal.SIGUSR1, stop)
sends = threading.Thread(target=lambda: (time.sleep(0.3), os.kill(os.getpid(), signal.SIGUSR1)))
sends.start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
Waits(1).sleep(600)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 7
