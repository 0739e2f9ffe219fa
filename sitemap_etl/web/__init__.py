"""Every HTTP request of the product: bounded in bytes, in time and in redirects, and silent about secrets.

`Client` asks; an answer is a `Fetched`, whatever its status, and a `WebError` says why there is none. Nothing else
imports an HTTP library.
"""

from __future__ import annotations

from sitemap_etl.web.client import (
    REDIRECTS,
    Client,
    Fetched,
    InvalidAddress,
    PrivateAddress,
    Stopped,
    TooLarge,
    TooManyRedirects,
    Unanswered,
    Unreachable,
    Untrusted,
    WebError,
    public_robots,
    shown_address,
)
from sitemap_etl.web.inflate import GZIP, Inflated, inflated
from sitemap_etl.web.network import is_public

__all__ = [
    "GZIP",
    "REDIRECTS",
    "Client",
    "Fetched",
    "Inflated",
    "InvalidAddress",
    "PrivateAddress",
    "Stopped",
    "TooLarge",
    "TooManyRedirects",
    "Unanswered",
    "Unreachable",
    "Untrusted",
    "WebError",
    "inflated",
    "is_public",
    "public_robots",
    "shown_address",
]
