"""Compare the files at the public address with those that were written."""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from typing import Final

from sitemap_etl import web
from sitemap_etl.limits import SITEMAP_BYTES
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import File, Manifest
from sitemap_etl.web import REDIRECTS, WebError, inflated

STEP: Final = 5.0
"""Seconds for each step of an answer."""
SECONDS: Final = 60.0
"""Seconds for a whole file."""


def served_otherwise(run: Run, manifest: Manifest) -> list[str]:
    """Return warnings if `publish.at` does not serve the first index and the first sitemap as they were written.

    A missing file (404, 410) and different bytes are warnings. An address that does not answer, or asks for a login,
    proves nothing: a bucket can be private until a CDN is pointed at it.
    """
    files = [index.file for index in manifest.indexes[:1]] + [entry.file for entry in manifest.entries[:1]]
    warnings = []
    with web.Client(step=STEP) as client:
        for file in files:
            warning = _compare(client, run.site.publish.at + file.key, file, run.site.publish.to)
            if warning is not None:
                warnings.append(warning)
    return warnings


def _compare(client: web.Client, address: str, file: File, written_to: str) -> str | None:
    """Return a warning about one address, or None. `written_to`: the folder or bucket that has the file."""
    try:
        answer = client.request("GET", address, limit=SITEMAP_BYTES, seconds=SECONDS, redirects=REDIRECTS)
    except WebError:
        return None
    if answer.status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        return (
            f"{address} answers {answer.status}, though {file.key} was written to {written_to}: search engines can't "
            "read it. Check that publish.at is the public address of publish.to. If it is not public yet, write "
            "publish: {check: false}"
        )
    if answer.status != HTTPStatus.OK:
        return None
    # The client removes a Content-Encoding. The body can still be the gzip file itself.
    data = answer.body
    hashes = {hashlib.sha256(plain).hexdigest() for plain in (data, inflated(data, SITEMAP_BYTES).data)}
    if not hashes.isdisjoint((file.stored_sha256, file.sha256)):
        return None
    age = answer.headers.get("age")
    cached = f", {age} s old by its Age header" if age else ""
    length = f"{len(data):,}" if answer.whole else f"more than {len(data):,}"
    return (
        f"{address} serves different bytes than were published: {length} bytes beginning {_start(data)!r}{cached}; "
        f"published were {file.stored:,} bytes with sha256 {file.stored_sha256[:16]}…. Check for a cache in between, "
        "or for a publish.at that leads elsewhere"
    )


def _start(data: bytes) -> str:
    """Return the beginning of an answer for a message."""
    return data[:60].decode("utf-8", "replace")
