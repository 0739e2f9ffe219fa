"""Read responses of a store completely or not at all, and repeat requests whose outcome is open."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final, TypeVar

from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError, ResponseStreamingError
from botocore.parsers import ResponseParserError

from sitemap_etl.s3 import CONFLICTS, code_of
from sitemap_etl.storage.protocol import Stat

_BROKEN_TRIES: Final = 3
"""boto3 tries a request again, but not the reading of an answer's body."""
_CONFLICT_TRIES: Final = 5
_CONFLICT_SECONDS: Final = 0.05

T = TypeVar("T")


class Broken(Exception):
    """An answer lacks what every such answer has: it broke on the way."""


class Changed(Broken):
    """The object is not what its checksum says."""


_BROKEN: Final = (Broken, ResponseStreamingError, ResponseParserError)


def whole(ask: Callable[[], T]) -> T:
    """Return the result of `ask`, and repeat it if the answer broke off. For requests that change nothing."""
    for _ in range(_BROKEN_TRIES - 1):
        try:
            return ask()
        except _BROKEN:
            continue
    return ask()


def decided(ask: Callable[[], T]) -> T:
    """Return the result of `ask`, and repeat it after a 409: two requests met and neither was decided.

    S3's documentation of PutObject asks for this ("On a 409 failure, retry the upload").
    """
    for attempt in range(_CONFLICT_TRIES - 1):
        try:
            return ask()
        except ClientError as error:
            if code_of(error) not in CONFLICTS:
                raise
        time.sleep(random.uniform(0, _CONFLICT_SECONDS * 2**attempt))  # noqa: S311 (spreads writers, no secret)
    return ask()


def says_missing(error: ClientError) -> bool:
    """Return True if the error answer to a GET says that the key does not exist. Raise `Broken` for a 404 without its
    text, which may be about the bucket.
    """
    if code_of(error) == "404":
        raise Broken("a 404 without its text") from error
    return code_of(error) == "NoSuchKey"


def data_of(answer: dict[str, Any]) -> bytes:
    """Return the body of a GET. Raise `Broken` if it is not as long as the answer says, or the answer doesn't say, and
    `Changed` if its checksum differs.
    """
    etag_of(answer)  # an answer without it is not from an S3 store
    # Not `with answer["Body"]`: that gives the stream below, whose errors are not boto3's.
    with closing(answer["Body"]) as body:
        try:
            data: bytes = body.read()
        except FlexibleChecksumError as error:
            raise Changed(str(error)) from error
        except BotoCoreError as error:
            raise Broken(f"{type(error).__name__} in {answer.get('ContentLength')} bytes") from error
    if len(data) != answer.get("ContentLength"):
        raise Broken(f"{len(data):,} of {answer.get('ContentLength')} bytes")
    return data


def stat_of(key: str, answer: dict[str, Any]) -> Stat:
    """Return the facts in the headers of a GET or HEAD. Raise `Broken` if they are missing."""
    try:
        modified: datetime = answer["LastModified"]
        return Stat(key, int(answer["ContentLength"]), etag_of(answer), modified.astimezone(UTC))
    except KeyError as error:
        raise Broken(f"it lacks {error}") from error


def etag_of(answer: dict[str, Any]) -> str:
    """Return the etag without its quotes. Raise `Broken`."""
    if "ETag" not in answer:
        raise Broken("it lacks an ETag")
    return bare_etag(answer["ETag"])


def bare_etag(written: str) -> str:
    """Return an etag without its quotes, and without the mark of a weak one.

    Proxies that compress mark the etags of a store as weak. The store itself compares them without the mark.
    """
    return written.removeprefix("W/").strip('"')


def date_of(answer: dict[str, Any]) -> datetime:
    """Return the store's clock as it answered, in UTC, whole seconds. Raise `Broken`."""
    try:
        return parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"]).astimezone(UTC)
    except (KeyError, ValueError) as error:
        raise Broken("it lacks a Date") from error
