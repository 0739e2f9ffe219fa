"""One client for S3, and the translation of its errors.

Storages and sources use the same client, with the same endpoint, retries, timeouts, checksums, credentials and error
messages.
"""

from __future__ import annotations

import functools
import os
import re
import threading
from dataclasses import field
from typing import Any, Final, Literal
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore import exceptions as boto
from botocore.config import Config
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from sitemap_etl.errors import ConfigError, Denied, SitemapEtlError, Unavailable
from sitemap_etl.frozen import Frozen
from sitemap_etl.s3.bounds import bound

ATTEMPTS: Final = 5
"""Attempts of one request, with boto3's backoff. AWS_MAX_ATTEMPTS or the AWS configuration override it."""
TIMEOUT: Final = 60.0
"""Seconds without data after which an attempt ends. SITEMAP_ETL_S3_TIMEOUT overrides it. See also `bounds`."""
CONNECT_TIMEOUT: Final = 10.0
"""Seconds to establish a connection."""
CONNECTIONS: Final = 32
"""Open connections: more than the threads of a publish."""

_AWS: Final = re.compile(r"\.amazonaws\.com(\.cn)?$")

FAILURES: Final = (boto.ClientError, boto.BotoCoreError, ResponseParserError)
"""All that a call raises besides our own errors; `translated` has words for each."""


class Access(Frozen):
    """Connection settings for libraries that send their own requests. Times are in seconds.

    `key`: None for anonymous access. `endpoint`: None for AWS.
    """

    key: str | None
    secret: str | None = field(repr=False)
    token: str | None = field(repr=False)
    region: str | None
    endpoint: str | None = field(repr=False)
    timeout: float
    connect_timeout: float
    attempts: int
    ca_bundle: str | None


class S3Client:
    """Client that sends requests by name (`put_object`, …). Threads can share it.

    The first request reads credentials, region and endpoint: from the login, or else through boto3's chain.
    `endpoint`: address of the store; without it boto3 reads AWS_ENDPOINT_URL. `checksums`: `when_required` for stores
    that don't support the checksums that boto3 sends since 1.36. `login`: default: the login of the process, if any.
    """

    def __init__(
        self,
        *,
        endpoint: str | None = None,
        checksums: Literal["when_supported", "when_required"] = "when_supported",
    ) -> None:
        if checksums not in ("when_supported", "when_required"):
            raise ConfigError(f"checksums: expected when_supported or when_required, got {checksums!r}")
        self.buckets_seen: set[str] = set()
        """Known to exist: a 404 to HEAD, which has no body to say more, is then about the key."""
        self._endpoint = endpoint
        self._checksums = checksums
        self._lock = threading.Lock()
        self._session: Any = None
        self._made: Any = None

    def __repr__(self) -> str:
        return f"S3Client({self.address!r})"

    @property
    def address(self) -> str:
        """Address of the store for messages, without user and password."""
        return _public(self._made.meta.endpoint_url if self._made is not None else self._endpoint or "the S3 endpoint")

    @property
    def store(self) -> str | None:
        """Address of the store without user and password, or None for AWS, which has one namespace of buckets.

        Raise `ConfigError` or `Denied` if the configuration of boto3 can't be right.
        """
        try:
            endpoint = self._client().meta.endpoint_url
        except FAILURES as error:
            raise _unanswered(error, "S3 can't be used: ", self.address) from error
        return None if _AWS.search(urlsplit(endpoint).hostname or "") else _public(endpoint)

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """Return the response to one request, which boto3 may repeat. Raise the errors of boto3."""
        client = self._client()
        try:
            answer: dict[str, Any] = getattr(client, operation)(**arguments)
        except HTTPError as error:
            # The text of an error broke off. Only here does boto3 pass on an exception of its transport.
            raise boto.ResponseStreamingError(error=error) from error
        except ValueError as error:  # a truncated header is not a date or number, and boto3's parser raises this
            raise boto.ResponseStreamingError(error=error) from error
        return answer

    def access(self) -> Access:
        """Return the settings to reach the same store from other libraries, with the current credentials."""
        client = self._client()
        credentials = self._session.get_credentials()
        frozen = None if credentials is None else credentials.get_frozen_credentials()
        own = ".amazonaws.com" not in client.meta.endpoint_url
        timeout = _timeout()
        return Access(
            key=None if frozen is None else frozen.access_key,
            secret=None if frozen is None else frozen.secret_key,
            token=None if frozen is None else frozen.token,
            # A store of one's own has no region that anyone need look for.
            region=client.meta.region_name if own else self._session.get_config_variable("region"),
            endpoint=client.meta.endpoint_url if own else None,
            timeout=timeout,
            connect_timeout=min(CONNECT_TIMEOUT, timeout),
            attempts=_attempts(self._session) or ATTEMPTS,
            ca_bundle=self._session.get_config_variable("ca_bundle"),
        )

    def _client(self) -> Any:
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = self._make()
        return self._made

    def _make(self) -> Any:
        self._session = below = _session()
        session = boto3.session.Session(botocore_session=below)
        retries = {"total_max_attempts": ATTEMPTS} if _attempts(below) is None else None
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
            raise ConfigError("AWS_ENDPOINT_URL is not a URL: expected one such as https://s3.example:9000") from error
        bound(client, timeout)
        if urlsplit(client.meta.endpoint_url).username is not None:
            raise ConfigError(
                f"the endpoint {_public(client.meta.endpoint_url)} contains a user name, which S3 does not use: "
                "put credentials where boto3 finds them"
            )
        return client


@functools.cache
def _loader() -> Any:
    """Return boto3's service descriptions. Reading them once makes later clients ten times cheaper."""
    return botocore.session.Session().get_component("data_loader")


def _session() -> Any:
    """Return a session with the current environment and AWS configuration."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    return session


def _attempts(session: Any) -> int | None:
    """Return the attempts per request set in the environment or the AWS configuration, or None if unset."""
    try:
        found: int | None = session.get_config_variable("max_attempts")
    except ValueError as error:
        raise ConfigError(
            "AWS_MAX_ATTEMPTS, or max_attempts in the AWS configuration, is not a number: expected one such as 5"
        ) from error
    return found


def _timeout() -> float:
    text = os.environ.get("SITEMAP_ETL_S3_TIMEOUT", "")
    if not text:
        return TIMEOUT
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise ConfigError(f"SITEMAP_ETL_S3_TIMEOUT: expected seconds, such as 60, got {text!r}")
    return seconds


def _public(address: str) -> str:
    """Return the address without user and password."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl() if "@" in parts.netloc else address


_WHERE_CREDENTIALS: Final = (
    "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or give the machine a role "
    "(boto3 looks in all these places)."
)

_CODES: Final[dict[str, str]] = {
    "InvalidAccessKeyId": f"the store doesn't know the access key. Correct the credentials. {_WHERE_CREDENTIALS}",
    "SignatureDoesNotMatch": (
        "the signature is wrong, so the secret key is not that of the access key. Correct AWS_SECRET_ACCESS_KEY "
        "(a proxy that changes requests shows in the same way)."
    ),
    "ExpiredToken": "the session token has expired. Get new credentials, or use a role that renews them by itself.",
    "TokenRefreshRequired": "the session token has expired. Get new credentials.",
    "InvalidToken": "the session token is not valid. Correct AWS_SESSION_TOKEN, or unset it.",
    "RequestTimeTooSkewed": "the clock of this machine is wrong by more than the store allows. Set it.",
    "Unauthorized": f"the store does not accept the credentials. Correct them. {_WHERE_CREDENTIALS}",
    "ExpiredRequest": "the request was too old on arrival: the clock of this machine is wrong. Set it.",
    "RequestExpired": "the request was too old on arrival: the clock of this machine is wrong. Set it.",
    "AllAccessDisabled": "all access to it has been disabled. Ask the account's owner.",
    "AccountProblem": "there is a problem with the AWS account. Ask its owner.",
    "InvalidObjectState": "the object is archived. Restore it, and keep it out of archive classes.",
    "EntityTooLarge": "it is larger than the store takes in one put.",
    "NotImplemented": (
        "the store doesn't know a header of the request. If it is about conditions, set conditional_writes: false; "
        "if about checksums, set checksums: when_required."
    ),
    "XAmzContentSHA256Mismatch": "the store misreads the request's checksums. Set checksums: when_required.",
    "KMS.DisabledException": "the KMS key of publish.sse is disabled. Enable it or name another.",
    "KMS.NotFoundException": "the KMS key of publish.sse does not exist. Correct it.",
}

_RAISED: Final[tuple[tuple[tuple[type[Exception], ...], type[SitemapEtlError], str], ...]] = (
    ((boto.NoCredentialsError,), Denied, f"no AWS credentials were found. {_WHERE_CREDENTIALS}"),
    ((boto.PartialCredentialsError,), Denied, f"only a part of the AWS credentials is set. {_WHERE_CREDENTIALS}"),
    (
        (boto.ProfileNotFound, boto.ConfigParseError, boto.ConfigNotFound, boto.InvalidConfigError),
        Denied,
        "the AWS configuration is wrong: {error}",
    ),
    (
        (boto.TokenRetrievalError, boto.SSOError, boto.LoginError, boto.NoAuthTokenError),
        Denied,
        "the AWS login has expired. Log in again (aws sso login).",
    ),
    (
        (boto.CredentialRetrievalError, boto.MetadataRetrievalError),
        Unavailable,
        "the AWS credentials could not be fetched: {error}",
    ),
    (
        (boto.ConnectTimeoutError, boto.ReadTimeoutError),
        Unavailable,
        "{endpoint} did not answer in time. Try again later.",
    ),
    (
        (boto.EndpointConnectionError,),
        Unavailable,
        "{endpoint} can't be reached. Is AWS_ENDPOINT_URL right, and the store running?",
    ),
    ((boto.ProxyConnectionError,), Unavailable, "the proxy of HTTPS_PROXY or HTTP_PROXY can't be reached."),
    (
        (boto.IncompleteReadError, boto.ResponseStreamingError, boto.FlexibleChecksumError),
        Unavailable,
        "the answer of {endpoint} arrived broken. Try again.",
    ),
    ((boto.HTTPClientError, boto.ConnectionError), Unavailable, "the connection to {endpoint} broke. Try again."),
    (
        (ResponseParserError,),
        Unavailable,
        "the answer of {endpoint} is not one of an S3 store. Is AWS_ENDPOINT_URL right?",
    ),
    (
        (
            boto.ParamValidationError,
            boto.ValidationError,
            boto.UnsupportedS3ArnError,
            boto.UnsupportedS3ConfigurationError,
            boto.EndpointProviderError,
            boto.UnknownEndpointError,
        ),
        ConfigError,
        "{error}",
    ),
)
"""What boto3 raises of itself; the first line that fits counts."""

CONFLICTS: Final = ("ConditionalRequestConflict", "OperationAborted")
"""Codes of a 409: two requests met and neither was decided."""

_REDIRECTS: Final = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException", "301")
_PASSING: Final = (*CONFLICTS, "SlowDown", "Throttling", "RequestTimeout")
_RIGHTS: Final = {"read": "s3:GetObject", "write": "s3:PutObject", "delete": "s3:DeleteObject", "list": "s3:ListBucket"}
_BAD_REQUEST: Final = 400
_THROTTLED: Final = 429
_SERVER_FAULT: Final = 500


def code_of(error: boto.ClientError) -> str:
    """Return the store's error code. A response without a body (to HEAD) has its status as text."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: boto.ClientError) -> int:
    """Return the HTTP status of the response."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def condition_failed(error: boto.ClientError) -> bool:
    """Return True for a failed condition: a 412, the 404 of If-Match on a missing object, or an undecided 409."""
    return status_of(error) == 412 or code_of(error) in ("NoSuchKey", "404", *CONFLICTS)


def translated(error: Exception, action: str, url: str, *, bucket: str, endpoint: str) -> SitemapEtlError:
    """Return the error of our tree for what boto3 raised (`FAILURES`).

    action: read, write, delete or list. url: of the object or prefix it was about. endpoint: address of the
    store is, for messages about not reaching it.
    """
    say = f"can't {action} {url}: "
    if isinstance(error, boto.ClientError):
        # An answer to HEAD can't say in words that something is not implemented.
        code = "NotImplemented" if status_of(error) == 501 else code_of(error)
        text = str(error.response.get("Error", {}).get("Message", "")).strip(" .\n")
        return _answered(code, status_of(error), text, action, say, url, bucket, _region(error))
    return _unanswered(error, say, endpoint)


def _answered(
    code: str, status: int, text: str, action: str, say: str, url: str, bucket: str, region: str
) -> SitemapEtlError:
    """Return our error for an error response of the store."""
    answer = f"{status} {code}".removesuffix(f" {status}")
    if code == "NoSuchBucket":
        return Denied(f"{say}bucket {bucket} does not exist. Create it, or correct its name.")
    if code in _CODES:
        return Denied(f"{say}{_CODES[code]}")
    if code in _REDIRECTS or status in (301, 307):
        return Denied(f"{say}bucket {bucket} is in {region}. Set AWS_REGION to that.")
    if status == 401:
        return Denied(f"{say}{_CODES['Unauthorized']}")
    if status == 403:
        return _forbidden(action, f"{say}the store answered {answer}", url, bucket)
    kind: type[SitemapEtlError] = Denied
    # A response without a body has its status as its code. It may come from a proxy.
    advice = (
        "" if code != str(status) else " It gave no reason: look at the log of the store, and of any proxy before it."
    )
    if status >= _SERVER_FAULT or status == _THROTTLED or code in _PASSING:
        kind, advice = Unavailable, " Try again later."
    elif status == _BAD_REQUEST and "checksum" in f"{code} {text}".lower():
        advice = " The store doesn't know the checksums of the request. Set publish: {checksums: when_required}."
    return kind(f"{say}the store answered {answer}{f': {text}' if text else ''}.{advice}")


def _forbidden(action: str, say: str, url: str, bucket: str) -> Denied:
    """Return our error for a 403 without details. The object and even the bucket may not exist."""
    right = _RIGHTS[action]
    if action == "list":
        return Denied(
            f"{say}: the credentials may not list the bucket. "
            f"Allow them {right} on {bucket}, or correct the bucket's name if it isn't yours."
        )
    if action == "read":
        return Denied(
            f"{say}. Either the credentials may not read it (allow {right} on {url}), or it "
            f"isn't there and they may not list the bucket: S3 then says 403 instead of 404 (allow s3:ListBucket on "
            f"{bucket}), or the bucket isn't yours."
        )
    return Denied(
        f"{say}: the credentials may not do that. Allow them {right} on {url} "
        "(a condition also needs s3:GetObject, an encryption key kms:GenerateDataKey), or correct the bucket's name."
    )


def _region(error: boto.ClientError) -> str:
    """Return the region of the bucket, as named in the response."""
    headers: dict[str, Any] = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region = error.response.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region")
    if region:
        return f"region {region}"
    return f"another region ({error.response.get('Error', {}).get('Endpoint', 'the store does not say which')})"


def _unanswered(error: Exception, say: str, endpoint: str) -> SitemapEtlError:
    """Return an error for a request that boto3 gave up without an answer from the store."""
    if isinstance(error, boto.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return Denied(
            f"{say}the certificate of {endpoint} is not trusted. Name its authority in AWS_CA_BUNDLE, "
            "or correct the endpoint."
        )
    for raised, kind, sentence in _RAISED:
        if isinstance(error, raised):
            # The text of a mistaken call ends with the line that names it.
            return kind(say + sentence.format(endpoint=endpoint, error=str(error).splitlines()[-1]))
    return Denied(f"{say}{type(error).__name__}: {error}")
