"""What the public address answers after a publish: the bytes that were put, or others."""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

import httpx

from sitemap_etl.limits import SITEMAP_BYTES
from sitemap_etl.manifest import File, Manifest
from sitemap_etl.pipeline.run import Run

SECONDS: Final = 5.0
"""How long the public address is given to answer."""


def served_otherwise(run: Run, manifest: Manifest) -> list[str]:
    """Warnings where `publish.at` serves other bytes than were put: of the first index and one sitemap.

    An address that does not answer, or asks for a login, says nothing: a bucket may be private until a
    CDN is pointed at it.
    """
    files = [index.file for index in manifest.indexes[:1]] + [entry.file for entry in manifest.entries[:1]]
    warnings = []
    with httpx.Client(timeout=SECONDS, follow_redirects=True) as client:
        for file in files:
            warning = _compare(client, run.site.publish.at + file.key, file)
            if warning is not None:
                warnings.append(warning)
    return warnings


def _compare(client: httpx.Client, address: str, file: File) -> str | None:
    try:
        answer = client.get(address)
    except (httpx.HTTPError, httpx.InvalidURL):
        return None
    if answer.status_code != httpx.codes.OK:
        return None
    # httpx has undone a Content-Encoding; what is left may still be the gzip file itself.
    data = answer.content
    if hashlib.sha256(data).hexdigest() in (file.stored_sha256, file.sha256) or _inflated(data) == file.sha256:
        return None
    age = answer.headers.get("age")
    cached = f", {age} s old by its Age header" if age else ""
    return (
        f"{address} serves other bytes than were put: {len(data):,} bytes beginning {_start(data)!r}{cached}; "
        f"put were {file.stored:,} bytes with sha256 {file.stored_sha256[:16]}…. A cache, or a publish.at that leads "
        "elsewhere?"
    )


def _inflated(data: bytes) -> str | None:
    """The hash of a gzip file's content; None where it is none, or too large to be a sitemap."""
    if not data.startswith(b"\x1f\x8b"):
        return None
    try:
        plain = zlib.decompressobj(31).decompress(data, SITEMAP_BYTES + 1)
    except zlib.error:
        return None
    return hashlib.sha256(plain).hexdigest()


def _start(data: bytes) -> str:
    """The beginning of an answer, for a person."""
    return data[:60].decode("utf-8", "replace")
