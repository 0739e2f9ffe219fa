"""Entries of a manifest before their files are written."""

from __future__ import annotations

from sitemap_etl.frozen import Frozen
from sitemap_etl.state.records import Entry, File, StagedFile


class Draft(Frozen):
    """An entry before its file is written."""

    entry: Entry
    staged: StagedFile | None = None  # new sitemap file; None if the published one stays
    staged_text: StagedFile | None = None  # new text sitemap; None if the published one stays


def file_of(key: str, staged: StagedFile, now: str, etag: str | None = None) -> File:
    """Return the record of a file as it was staged."""
    return File(key, staged.bytes, staged.sha256, staged.stored, staged.stored_sha256, etag, now)
