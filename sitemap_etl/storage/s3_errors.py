"""What an S3 store, or boto3 on the way to it, can answer: each as an error of our tree.

`Refused` where trying again can't help, `Unavailable` where it may, `ConfigError` where the call itself
could never work. No message repeats what could hold a secret: of a store's answer only code and text,
of an endpoint the address without what stands before an @.
"""

from __future__ import annotations

from typing import Any, Final

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from sitemap_etl.errors import ConfigError, Refused, SitemapEtlError, Unavailable

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
    ((boto.NoCredentialsError,), Refused, f"no AWS credentials were found. {_WHERE_CREDENTIALS}"),
    ((boto.PartialCredentialsError,), Refused, f"only a part of the AWS credentials is set. {_WHERE_CREDENTIALS}"),
    (
        (boto.ProfileNotFound, boto.ConfigParseError, boto.ConfigNotFound, boto.InvalidConfigError),
        Refused,
        "the AWS configuration is wrong: {error}",
    ),
    (
        (boto.TokenRetrievalError, boto.SSOError, boto.LoginError, boto.NoAuthTokenError),
        Refused,
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
_THROTTLED: Final = 429
_SERVER_FAULT: Final = 500


def code_of(error: boto.ClientError) -> str:
    """The store's error code; for an answer without a body (to HEAD) its status as text."""
    return str(error.response.get("Error", {}).get("Code", ""))


def status_of(error: boto.ClientError) -> int:
    """The HTTP status of the answer."""
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def condition_failed(error: boto.ClientError) -> bool:
    """Whether a conditional request was answered with 412, with the 404 of If-Match on nothing, or an undecided 409."""
    return status_of(error) == 412 or code_of(error) in ("NoSuchKey", "404", *CONFLICTS)


def translated(error: Exception, action: str, url: str, *, bucket: str, endpoint: str) -> SitemapEtlError:
    """The error of our tree for what boto3 raised.

    action: read, write, delete or list. url: of the object or prefix it was about. endpoint: where the
    store is, for messages about not reaching it.
    """
    say = f"can't {action} {url}: "
    if isinstance(error, boto.ClientError):
        return _answered(error, action, say, url, bucket)
    return _unanswered(error, say, endpoint)


def _answered(error: boto.ClientError, action: str, say: str, url: str, bucket: str) -> SitemapEtlError:
    """The store did answer, with an error."""
    status = status_of(error)
    code = "NotImplemented" if status == 501 else code_of(error)  # an answer to HEAD can't say it in words
    text = str(error.response.get("Error", {}).get("Message", "")).strip()
    answer = f"{status} {code}".removesuffix(f" {status}")
    if code == "NoSuchBucket":
        return Refused(f"{say}bucket {bucket} does not exist. Create it, or correct its name in the site file.")
    if code in _CODES:
        return Refused(f"{say}{_CODES[code]}")
    if code in _REDIRECTS or status in (301, 307):
        return Refused(f"{say}bucket {bucket} is in {_region(error)}. Set AWS_REGION to that.")
    if status == 403:
        return _forbidden(action, f"{say}the store answered {answer}", url, bucket)
    kind: type[SitemapEtlError] = Refused
    advice = ""
    if status >= _SERVER_FAULT or status == _THROTTLED or code in _PASSING:
        kind, advice = Unavailable, " Try again later."
    return kind(f"{say}the store answered {answer}{f': {text}' if text else ''}.{advice}")


def _forbidden(action: str, say: str, url: str, bucket: str) -> Refused:
    """A 403 that says nothing more: it need not mean that the object is there, nor that the bucket is."""
    right = _RIGHTS[action]
    if action == "list":
        return Refused(
            f"{say}: the credentials may not list the bucket. "
            f"Allow them {right} on {bucket}, or correct the bucket's name if it isn't yours."
        )
    if action == "read":
        return Refused(
            f"{say}. Either the credentials may not read it (allow {right} on {url}), or it "
            f"isn't there and they may not list the bucket: S3 then says 403 instead of 404 (allow s3:ListBucket on "
            f"{bucket}), or the bucket isn't yours."
        )
    return Refused(
        f"{say}: the credentials may not do that. Allow them {right} on {url} "
        "(a condition also needs s3:GetObject, an encryption key kms:GenerateDataKey), or correct the bucket's name."
    )


def _region(error: boto.ClientError) -> str:
    """Where the store says the bucket is."""
    headers: dict[str, Any] = error.response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    region = error.response.get("Error", {}).get("Region") or headers.get("x-amz-bucket-region")
    if region:
        return f"region {region}"
    return f"another region ({error.response.get('Error', {}).get('Endpoint', 'the store does not say which')})"


def _unanswered(error: Exception, say: str, endpoint: str) -> SitemapEtlError:
    """boto3 gave up before, during or after the request, without an error of the store."""
    if isinstance(error, boto.SSLError) and "CERTIFICATE_VERIFY_FAILED" in str(error):
        return Refused(
            f"{say}the certificate of {endpoint} is not trusted. Name its authority in AWS_CA_BUNDLE, "
            "or correct the endpoint."
        )
    for raised, kind, sentence in _RAISED:
        if isinstance(error, raised):
            # The text of a mistaken call ends with the line that names it.
            return kind(say + sentence.format(endpoint=endpoint, error=str(error).splitlines()[-1]))
    return Refused(f"{say}{type(error).__name__}: {error}")
