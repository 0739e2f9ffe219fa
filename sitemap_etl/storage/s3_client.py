"""The boto3 client of a store: made at the first request, shared by threads."""

from __future__ import annotations

import functools
import os
import threading
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from sitemap_etl.errors import ConfigError

ATTEMPTS: Final = 5
"""Tries of one request, boto3's backoff between them; AWS_MAX_ATTEMPTS or the AWS configuration override it."""
TIMEOUT: Final = 60.0
"""Seconds without a byte before a try is given up; SITEMAP_ETL_S3_TIMEOUT overrides it."""
CONNECT_TIMEOUT: Final = 10.0
"""Seconds for a connection."""
CONNECTIONS: Final = 32
"""Kept open: more than the threads a publish uses."""


class S3Client:
    """Sends requests by name (`put_object`, …). Making it reads credentials, region and endpoint by boto3's chain."""

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        checksums: Literal["when_supported", "when_required"] = "when_supported",
    ) -> None:
        if checksums not in ("when_supported", "when_required"):
            raise ConfigError(f"checksums is {checksums!r}: expected when_supported or when_required")
        self.buckets_seen: set[str] = set()
        """Known to exist: a 404 to HEAD, which has no body to say more, is then about the key."""
        self._endpoint = endpoint
        self._checksums = checksums
        self._lock = threading.Lock()
        self._made: Any = None

    def __repr__(self) -> str:
        return f"S3Client({self.address!r})"

    @property
    def address(self) -> str:
        """Where the store is, for messages: without a user or password."""
        return _public(self._made.meta.endpoint_url if self._made is not None else self._endpoint or "the S3 endpoint")

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The answer to one request, tried again by boto3 where that may help. Raises what boto3 raises."""
        from botocore.exceptions import ResponseStreamingError
        from urllib3.exceptions import HTTPError

        try:
            answer: dict[str, Any] = getattr(self._client(), operation)(**arguments)
        except HTTPError as error:
            # The text of an error broke off: the one place where boto3 lets its transport's own exception through.
            raise ResponseStreamingError(error=error) from error
        return answer

    def _client(self) -> Any:
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def _make(self) -> Any:
        import boto3  # a third of a second, only where a bucket is used
        from botocore.config import Config

        below = _session()
        session = boto3.session.Session(botocore_session=below)
        retries = {"total_max_attempts": ATTEMPTS} if below.get_config_variable("max_attempts") is None else None
        timeout = _timeout()
        try:
            client = session.client(
                "s3",
                endpoint_url=self._endpoint,
                # A store of one's own has no region; AWS itself redirects from this one.
                region_name=session.region_name or "us-east-1",
                config=Config(
                    retries=retries,
                    connect_timeout=min(CONNECT_TIMEOUT, timeout),
                    read_timeout=timeout,
                    max_pool_connections=CONNECTIONS,
                    tcp_keepalive=True,
                    request_checksum_calculation=self._checksums,
                    response_checksum_validation=self._checksums,
                    user_agent_extra="sitemap_etl",
                ),
            )
        except ValueError as error:
            # boto3's word for an endpoint without a scheme; not repeated, a password may stand in it.
            raise ConfigError("AWS_ENDPOINT_URL is no URL: expected one such as https://s3.example:9000") from error
        if urlsplit(client.meta.endpoint_url).username is not None:
            raise ConfigError(
                f"the endpoint {_public(client.meta.endpoint_url)} has a user in it, which S3 has no use for: "
                "put credentials where boto3 looks for them"
            )
        return client


@functools.cache
def _loader() -> Any:
    """boto3's descriptions of the services: read once, which makes every client after the first ten times cheaper."""
    import botocore.session

    return botocore.session.Session().get_component("data_loader")


def _session() -> Any:
    """What the environment and the AWS configuration say now."""
    import botocore.session

    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    return session


def _timeout() -> float:
    text = os.environ.get("SITEMAP_ETL_S3_TIMEOUT", "")
    if not text:
        return TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"SITEMAP_ETL_S3_TIMEOUT is {text!r}: expected seconds, such as 60")
    return seconds


def _public(address: str) -> str:
    """The address without what stands before an @."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else address
