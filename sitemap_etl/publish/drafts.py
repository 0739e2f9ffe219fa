"""Entries of a manifest before their files are written."""

from __future__ import annotations

from sitemap_etl.frozen import Frozen
from sitemap_etl.state.records import Entry, File, StagedFile


class Draft(Frozen):
    """An entry before its file is written: `staged` is None if the published file stays."""

    entry: Entry
    staged: StagedFile | None = None
    staged_text: StagedFile | None = None


def file_of(key: str, staged: StagedFile, now: str, etag: str | None = None) -> File:
    """Return the record of a file as it was staged."""
    return File(key, staged.bytes, staged.sha256, staged.stored, staged.stored_sha256, etag, now)
