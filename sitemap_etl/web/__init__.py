"""All HTTP requests of the product, with limits on bytes, time and redirects, and without secrets in messages.

`Client` sends requests. An answer with any status is a `Fetched`. A `WebError` means that there is no answer. Nothing
else imports an HTTP library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sitemap_etl.web.addresses import credentials, is_public, shown_address
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
from sitemap_etl.web.charsets import charset_of, codec_of, decoded
from sitemap_etl.web.inflate import GZIP, Inflated, inflated, undeflated

if TYPE_CHECKING:
    from sitemap_etl.web.client import Client, public_robots

__all__ = [
    "GZIP",
    "REDIRECTS",
    "Client",
    "Fetched",
    "Inflated",
    "InvalidAddress",
    "Misled",
    "PrivateAddress",
    "Stopped",
    "TooLarge",
    "TooManyRedirects",
    "Unanswered",
    "Unreachable",
    "Untrusted",
    "WebError",
    "charset_of",
    "codec_of",
    "credentials",
    "decoded",
    "inflated",
    "is_public",
    "public_robots",
    "shown_address",
    "undeflated",
]


def __getattr__(name: str) -> Any:
    """Load the client on first use, because its HTTP library takes a tenth of a second to load."""
    if name in ("Client", "public_robots"):
        from sitemap_etl.web import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
