"""Request one address, with limits on bytes, time and redirects, and without secrets in messages."""

from __future__ import annotations

import functools
import ipaddress
import logging
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Final, cast
from urllib.parse import unquote, urljoin, urlsplit

import httpcore

from sitemap_etl import __version__
from sitemap_etl.limits import PUBLIC_ROBOTS_BYTES
from sitemap_etl.web.addresses import is_public, shown_address
from sitemap_etl.web.answer import (
    REDIRECTS,
    Fetched,
    InvalidAddress,
    Misled,
    PrivateAddress,
    Stopped,
    TooLarge,
    TooManyRedirects,
    Unanswered,
    Unreachable,
    Untrusted,
    WebError,
)
from sitemap_etl.web.bare import httpx
from sitemap_etl.web.inflate import GZIP, inflated
from sitemap_etl.web.network import Forbidden, Halted, IsPublic, Network, Resolve, Waits, resolved

STEP: Final = 30.0
"""Time limit for connecting to an address, and between two pieces of an answer, in seconds."""
PAGE_BYTES: Final = 1 << 20
"""Bytes read of an answer that is not a success. It has a page for people."""
ROBOTS_SECONDS: Final = 15.0
"""Time limit for a site's robots.txt with redirects, in seconds. Each step has a third of it."""
MASK: Final = "•••"
"""Text that replaces a secret."""
_LOGGERS: Final = ("httpx", "httpcore.connection", "httpcore.http11", "httpcore.proxy")
_FAILURES: Final = (
    Forbidden,
    Halted,
    ValueError,
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.ProxyError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
    httpx.HTTPError,
    httpx.InvalidURL,
)
_UNSENT: Final = (httpcore.ConnectError, httpcore.ConnectTimeout, httpcore.ProxyError)
_NO_LOCATION: Final = "Invalid URL in location header"
"""Message of httpx for a redirect whose address it can't read. It has no error class for that."""
_NO_ADDRESS: Final = (ValueError, httpcore.UnsupportedProtocol, httpx.InvalidURL)

Redact = Callable[[str], str]
"""Returns a text without the secrets in it."""
Hop = Callable[[str], Mapping[str, str]]
"""Returns the headers for an address, called before each hop. It can wait."""


def public_robots(site: str, *, seconds: float = ROBOTS_SECONDS) -> Fetched:
    """Return the answer of a site (its origin) for robots.txt. 404 and 410 mean no rules (RFC 9309, 2.3.1.3).

    Raise `TooLarge` from 8 MiB on, and other `WebError`s if there is no readable answer. `slow` is True if it was late.
    """
    with Client(step=seconds / 3) as client:
        address = f"{site}/robots.txt"
        found = client.request("GET", address, limit=PUBLIC_ROBOTS_BYTES, seconds=seconds, redirects=REDIRECTS)
    if found.status == httpx.codes.OK and not found.whole:
        raise TooLarge(shown_address(found.url), f"is larger than {PUBLIC_ROBOTS_BYTES:,} bytes")
    if found.coding:
        raise Unanswered(
            shown_address(found.url), f"is sent with Content-Encoding {found.coding}, which was not requested"
        )
    return found


class Client:
    """HTTP client for several threads.

    step: time limit for connecting to one address, and between two pieces of an answer, in seconds.
    purpose: a text for the User-Agent, unless `agent` replaces it.
    trust: the trusted certificates; by default, the usual ones.
    resolve, public: replace the system's resolver and the test for public addresses.

    A proxy of the environment (`HTTPS_PROXY`, `NO_PROXY` …) is used, except for localhost and numeric addresses.
    """

    def __init__(
        self,
        *,
        step: float = STEP,
        purpose: str = "",
        agent: str = "",
        trust: ssl.SSLContext | None = None,
        resolve: Resolve = resolved,
        public: IsPublic = is_public,
    ) -> None:
        self._waits = Waits(step)
        self._resolve = resolve
        self._public = public
        named = f"sitemap_etl/{__version__}"
        self._http = httpx.Client(
            transport=_Transport(Network(self._waits, resolve, None), Network(self._waits, resolve, public), trust),
            timeout=None,  # the deadline of each request limits it
            follow_redirects=False,
            trust_env=False,
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),  # like crawlers: each request is the first
            headers={
                "User-Agent": agent or (f"{named} ({purpose})" if purpose else named),
                "Accept-Encoding": "gzip",
            },
        )
        for name in _LOGGERS:
            logging.getLogger(name).addFilter(_HIDE)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop, and close all connections."""
        self.stop()
        self._http.close()

    def stop(self) -> None:
        """End all requests in every thread within a second, with `Stopped`. No other request can start."""
        self._waits.stop()

    def sleep(self, seconds: float) -> None:
        """Wait. Raise `Stopped` if the client is stopped."""
        try:
            self._waits.sleep(seconds)
        except Halted as halted:
            raise _stopped() from halted

    def is_public(self, url: str) -> bool:
        """Return True if a host is on the public internet. Raise `WebError` if that is unknown."""
        shown = shown_address(url)
        try:
            parts = urlsplit(url)
            port = parts.port or (443 if parts.scheme == "https" else 80)
            addresses = self._waits.resolve(self._resolve, parts.hostname or "", port)
        except Halted as halted:
            raise _stopped() from halted
        except ValueError as error:
            raise InvalidAddress(shown, "is not an http or https address") from error
        except OSError as error:
            raise Unreachable(shown, f"can't be reached ({error.strerror or error})") from error
        return all(self._public(address) for address in addresses)

    def request(
        self,
        method: str,
        url: str,
        *,
        limit: int,
        seconds: float,
        redirects: int = 0,
        guarded: bool = False,
        encoded: bool = False,
        redact: Redact = str,
        hop: Hop | None = None,
        **content: Any,
    ) -> Fetched:
        """Return the answer of an address, with any status. Raise `WebError` if there is none.

        limit: maximum bytes of the body, both as sent and decompressed.
        seconds: time limit, from the first connection to the last byte.
        redirects: maximum redirects. With 0, a redirect is the answer. User names and passwords in its target are
        dropped.
        guarded: every hop must be at public addresses.
        encoded: return the body as received; the caller decodes its Content-Encoding.
        redact: removes the secrets from messages, from the causes of errors, and from log records.
        hop: returns the headers of each request.
        content: httpx's `params`, `headers`, `auth`, `json`, `data` and `content`. Not allowed if redirects are
        followed.
        """
        assert not (redirects and content), "a redirect would carry it elsewhere"
        deadline = time.monotonic() + seconds
        hops: tuple[str, ...] = ()
        while True:
            if hop is not None:
                content["headers"] = hop(url)
            extensions = {"deadline": deadline, "guarded": guarded}
            hide = _hiding(redact, url)
            fault: WebError | None = None
            try:
                with _hidden(hide), self._http.stream(method, url, extensions=extensions, **content) as response:
                    follow = redirects > 0 and response.has_redirect_location
                    found = _answer(response, url, 0 if follow else limit, encoded=encoded, hops=hops)
            except _FAILURES as error:
                fault = _fault(error, url, hops, hide)
                fault.__cause__ = _cause(error, hide)
            # Outside of the handler, because the error's context could contain a secret.
            if fault is not None:
                raise fault
            if not follow:
                return found
            if len(hops) == redirects:
                words = f"redirects more than {redirects} times"
                raise TooManyRedirects(hide(shown_address(url)), words, hops=_shown(hops, hide))
            hops = (*hops, url)
            try:
                url = shown_address(urljoin(url, found.moved))
            except ValueError as error:  # brackets without an address
                words = "is not an http or https address"
                raise InvalidAddress(hide(shown_address(found.moved)), words, hops=_shown(hops, hide)) from error


def _answer(response: httpx.Response, url: str, limit: int, *, encoded: bool, hops: tuple[str, ...]) -> Fetched:
    """Return the answer, read up to the limit."""
    most = limit if response.is_success else min(limit, PAGE_BYTES)
    parts: list[bytes] = []
    size = 0
    for part in response.iter_raw() if most else ():
        parts.append(part)
        size += len(part)
        if size > most:
            break
    body, whole = b"".join(parts)[:most], size <= most
    codings = [coding.strip().lower() for coding in response.headers.get("content-encoding", "").split(",")]
    codings = [coding for coding in codings if coding not in ("", "identity")]
    while not encoded and body and codings and codings[-1] in ("gzip", "x-gzip"):
        codings.pop()
        if not body.startswith(GZIP):
            raise httpcore.RemoteProtocolError("it is said to be gzip data, and is not")
        unpacked = inflated(body, most + 1)
        if whole and unpacked.fault in ("truncated", "damaged"):
            raise httpcore.RemoteProtocolError(f"its gzip data is {unpacked.fault}: {unpacked.detail}")
        body, whole = unpacked.data[:most], whole and len(unpacked.data) <= most
    return Fetched(url, response.status_code, dict(response.headers), body, whole, ", ".join(codings), hops)


def _fault(error: Exception, url: str, hops: tuple[str, ...], redact: Redact) -> WebError:
    """Return the error of our tree for a failed request."""
    said = redact(str(error)) or type(error).__name__
    slow = isinstance(error, httpcore.TimeoutException)
    kind: type[WebError] = Unreachable if isinstance(error, _UNSENT) else Unanswered
    words = f"can't be reached ({said})" if kind is Unreachable else f"broke off ({said})"
    if slow:
        words = "did not answer in time"
    elif isinstance(error, Halted):
        return _stopped()
    elif isinstance(error, Forbidden):
        kind, words = PrivateAddress, said
    elif _NO_LOCATION in said:
        kind, words = Misled, "redirects to no valid address"
    elif isinstance(error, _NO_ADDRESS):
        kind, words = InvalidAddress, "is not an http or https address"
    elif _distrusted(error):
        kind, words = Untrusted, f"has a certificate that this machine does not trust ({said})"
    return kind(redact(shown_address(url)), words, hops=_shown(hops, redact), slow=slow)


def _shown(hops: tuple[str, ...], redact: Redact) -> tuple[str, ...]:
    return tuple(redact(shown_address(hop)) for hop in hops)


def _stopped() -> Stopped:
    return Stopped("the client", "was stopped")


def _distrusted(error: BaseException | None) -> bool:
    """Return True if the server has a certificate that this machine does not trust."""
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return True
        error = error.__cause__ or error.__context__
    return False


# --- secrets -------------------------------------------------------------------------------

_REDACT: Final[ContextVar[Redact | None]] = ContextVar("redact", default=None)
"""Redaction for the request in progress in this thread."""


def _hiding(redact: Redact, url: str) -> Redact:
    """Return `redact` extended by the password in an address."""
    try:
        password = urlsplit(url).password
    except ValueError:
        password = None
    if not password:
        return redact
    forms = {password, unquote(password)}

    def both(text: str) -> str:
        for form in forms:
            text = text.replace(f":{form}@", f":{MASK}@")
        return redact(text)

    return both


@contextmanager
def _hidden(redact: Redact) -> Iterator[None]:
    """Redact the libraries' log records of this thread while the context is open."""
    token = _REDACT.set(redact)
    try:
        yield
    finally:
        _REDACT.reset(token)


class _Hide(logging.Filter):
    """Filter that removes secrets from log records. The libraries log every address, with its keys."""

    def filter(self, record: logging.LogRecord) -> bool:
        redact = _REDACT.get()
        if redact is not None:  # otherwise it is not our request
            record.msg, record.args = redact(record.getMessage()), ()
        return True


_HIDE: Final = _Hide()


def _cause(error: Exception, redact: Redact) -> Exception:
    """Return the error, or a replacement if the error or its causes would print a secret."""
    link: BaseException | None = error
    while link is not None:
        if redact(str(link)) != str(link):
            return RuntimeError(f"{type(error).__name__}: {redact(str(error))}")
        link = link.__cause__ or link.__context__
    return error


# --- httpx over our own connections ----------------------------------------------------------


class _Transport(httpx.BaseTransport):
    """Transport of httpx's requests, with a pool of connections for each route to a host."""

    def __init__(self, network: Network, guarded: Network, trust: ssl.SSLContext | None) -> None:
        self._network = network
        self._guarded = guarded
        self._trust = trust
        self._pools: dict[tuple[bool, bool, str], httpcore.ConnectionPool] = {}
        self._lock = threading.Lock()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url, deadline = request.url, request.extensions["deadline"]
        port = url.port or (443 if url.scheme == "https" else 80)
        if url.scheme not in ("http", "https") or not url.host or not 0 < port < 1 << 16:
            raise httpcore.UnsupportedProtocol("it is not an http:// or https:// address with a host")
        guarded, proxy = request.extensions["guarded"], _proxy(url)
        if guarded and proxy:
            # The proxy connects and resolves the name again. The addresses are checked anyway.
            self._guarded.addresses(url.host, port, deadline)
        response = self._pool((guarded and not proxy, url.scheme == "https", proxy)).handle_request(
            httpcore.Request(
                request.method,
                httpcore.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                headers=request.headers.raw,
                content=request.stream,
                extensions={"timeout": dict.fromkeys(("connect", "read", "write"), deadline)},
            )
        )
        return httpx.Response(response.status, headers=response.headers, stream=_Body(response))

    def _pool(self, key: tuple[bool, bool, str]) -> httpcore.ConnectionPool:
        """Return the connections for (guarded, over TLS, proxy)."""
        guarded, secure, proxy = key
        with self._lock:
            if key not in self._pools:
                trust = self._trust
                if (secure or proxy.startswith("https://")) and trust is None:
                    trust = cast("ssl.SSLContext", _Trusted())
                network = self._guarded if guarded else self._network
                self._pools[key] = _opened(proxy, trust, network)
            return self._pools[key]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


class _Trusted:
    """Certificate authorities of this machine, read when the first host was reached. Reading takes as long as some
    requests.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(_trusted(), name)


@functools.cache
def _trusted() -> ssl.SSLContext:
    return httpx.create_ssl_context()


def _opened(proxy: str, trust: ssl.SSLContext | None, network: Network) -> httpcore.ConnectionPool:
    shared: dict[str, Any] = {
        "ssl_context": trust,
        "network_backend": network,
        "max_connections": None,
        "max_keepalive_connections": 20,
        "keepalive_expiry": 5.0,
    }
    if not proxy:
        return httpcore.ConnectionPool(**shared)
    by = httpx.Proxy(proxy)
    if by.url.scheme not in ("http", "https"):
        raise httpcore.ProxyError(f"the proxy {by.url.host} is neither http:// nor https://")
    if by.url.scheme == "https":
        shared["proxy_ssl_context"] = trust
    address = httpcore.URL(scheme=by.url.raw_scheme, host=by.url.raw_host, port=by.url.port, target=by.url.raw_path)
    return httpcore.HTTPProxy(address, by.raw_auth, proxy_headers=by.headers.raw, **shared)


class _Body(httpx.SyncByteStream):
    """Body of an httpcore answer."""

    def __init__(self, response: httpcore.Response) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        yield from self._response.iter_stream()

    def close(self) -> None:
        self._response.close()


def _proxy(url: httpx.URL) -> str:
    """Return the proxy of the environment for an address, or ""."""
    proxies = urllib.request.getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(url.host) or not _is_name(url.host):
        return ""
    return found if "://" in found else f"http://{found}"


def _is_name(host: str) -> bool:
    """Return True if a host is a name other than localhost."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host != "localhost"
    return False
