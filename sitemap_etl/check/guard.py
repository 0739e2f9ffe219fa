"""Whom a request may reach: a public sitemap must not make us ask machines of a private network.

The name is resolved here, its addresses are judged, and the connection goes to the judged address itself, so
that the name can't mean another one a moment later (DNS rebinding). TLS still checks the name.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import urllib.request
from collections.abc import Callable
from threading import Lock

import httpx

Resolve = Callable[[str, int], list[str]]
"""(host, port) → IP addresses; raises OSError where there are none."""
IsPublic = Callable[[str], bool]

_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class PrivateAddress(Exception):
    """The host is at an address that may not be asked."""


def resolved(host: str, port: int) -> list[str]:
    """The addresses of a host, as the system finds them."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: str) -> bool:
    """Whether an IP address is of the public internet, also where it wraps an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return inner.is_global and not inner.is_multicast
    return ip.is_global and not ip.is_multicast


class GuardedTransport(httpx.BaseTransport):
    """Sends requests to addresses that were judged first; one pool of connections for each host.

    A request with the extension `guarded` set goes to public addresses only, else `PrivateAddress` is raised.
    Where a proxy is set for the scheme (`HTTPS_PROXY` …), it makes the connection: the name is judged all
    the same, but the proxy resolves it again. `verify` as httpx has it.
    """

    def __init__(
        self, resolve: Resolve = resolved, public: IsPublic = is_public, *, verify: ssl.SSLContext | bool = True
    ) -> None:
        self._verify = verify
        self._resolve = resolve
        self._public = public
        self._pools: dict[tuple[str, str, int | None], httpx.HTTPTransport] = {}
        self._lock = Lock()

    def is_public(self, host: str, port: int) -> bool:
        """Whether all addresses of the host are public. Raises OSError where it has none."""
        return all(self._public(address) for address in self._resolve(host, port))

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        port = url.port or (443 if url.scheme == "https" else 80)
        proxy = _proxy(url)
        if proxy is not None and not request.extensions.get("guarded"):
            return self._pool(url, proxy).handle_request(request)
        try:
            addresses = self._resolve(url.host, port)
        except OSError as error:
            raise httpx.ConnectError(f"{url.host} can't be resolved: {error}", request=request) from error
        if request.extensions.get("guarded") and not all(self._public(address) for address in addresses):
            raise PrivateAddress(f"{url.host} is at {', '.join(addresses)}")
        if proxy is not None:
            return self._pool(url, proxy).handle_request(request)
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        problem: httpx.TransportError | None = None
        for address in addresses[:4]:
            request.url = url.copy_with(host=address)
            try:
                response = self._pool(url, None).handle_request(request)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problem = error
                continue
            finally:
                request.url = url
            return response
        raise problem or httpx.ConnectError(f"{url.host} has no address", request=request)

    def _pool(self, url: httpx.URL, proxy: str | None) -> httpx.HTTPTransport:
        """The connections of one host: TLS of one name never carries requests for another at the same address."""
        key = (url.scheme, url.host, url.port)
        with self._lock:
            if key not in self._pools:
                self._pools[key] = httpx.HTTPTransport(verify=self._verify, proxy=proxy)
            return self._pools[key]

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()


def _proxy(url: httpx.URL) -> str | None:
    """The proxy that the environment sets for this address."""
    proxies = urllib.request.getproxies()
    found = proxies.get(url.scheme) or proxies.get("all")
    if not found or urllib.request.proxy_bypass(url.host) or not _is_name(url.host):
        return None
    return found if "://" in found else f"http://{found}"


def _is_name(host: str) -> bool:
    """Whether a host is a name other than localhost: an address given as such is asked directly."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host != "localhost"
    return False
