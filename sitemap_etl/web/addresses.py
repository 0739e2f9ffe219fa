"""Functions on addresses: remove or read a password, recognize public ones. They load no HTTP library."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
"""Addresses that wrap an IPv4 address (RFC 6052)."""
_UNICAST: Final = ipaddress.ip_network("2000::/3")
"""All IPv6 addresses that were ever assigned to the public internet."""
_PRIVATE: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
            *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15"),
            *("198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4"),
            *("2001::/23", "2001:db8::/32", "3fff::/20"),
        ),
    )
)
"""Ranges that are not globally reachable, by IANA's registries of special-purpose addresses, and multicast.

Python's own table differs between its releases.
"""
_REACHABLE: Final = tuple(
    map(
        ipaddress.ip_network,
        (
            *("192.0.0.9/32", "192.0.0.10/32", "2001:1::1/128", "2001:1::2/128", "2001:1::3/128", "2001:3::/32"),
            *("2001:4:112::/48", "2001:20::/28", "2001:30::/28"),
        ),
    )
)
"""Parts of these ranges that are globally reachable."""


def shown_address(url: str) -> str:
    """Return the address without user name and password, for messages."""
    try:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url
    except ValueError:
        return url.rpartition("@")[2]


def credentials(url: str) -> tuple[str, str] | None:
    """Return the user name and the password in an address, or None. Raise `ValueError` if the address is invalid."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")


def is_public(address: str) -> bool:
    """Return True if an IP address is on the public internet, also if it wraps an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _NAT64:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        if ip not in _UNICAST:
            return False
    return not any(ip in network for network in _PRIVATE) or any(ip in network for network in _REACHABLE)
