"""Addresses by themselves: fit to be shown, with or without a password, public or not. Loads no HTTP library."""

from __future__ import annotations

import ipaddress
from typing import Final
from urllib.parse import unquote, urlsplit, urlunsplit

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")


def shown_address(url: str) -> str:
    """The address without user name and password, fit for a message."""
    try:
        parts = urlsplit(url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])) if "@" in parts.netloc else url
    except ValueError:
        return url.rpartition("@")[2]


def credentials(url: str) -> tuple[str, str] | None:
    """The user name and the password in an address; None where it has none. Raises `ValueError` for no address."""
    parts = urlsplit(url)
    if parts.username is None and parts.password is None:
        return None
    return unquote(parts.username or ""), unquote(parts.password or "")


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
