"""Entries of a manifest before their files are written."""

from __future__ import annotations

from sitemap_etl.frozen import Frozen
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Entry, File, StagedFile, StagedShard


class Draft(Frozen):
    """An entry before its file is written."""

    entry: Entry
    staged: StagedFile | None = None  # new sitemap file; None if the published one stays
    staged_text: StagedFile | None = None  # new text sitemap; None if the published one stays


def draft_of(
    run: Run, section: str, number: int, shard: StagedShard, published: Entry | None, *, low: str, index: int = 0
) -> Draft:
    """Return the entry of a staged shard; its file's ETag is known when it is written.

    `published`: the entry with this number in the last release. Files with the same bytes and keys stay. `index`: of a
    new entry; 0: chosen later.
    """
    names, now = run.site.publish.names, run.plan.now
    old, old_text = (None, None) if published is None else (published.file, published.text)
    file, staged = _file(names.file_name(section, number), shard.xml, old, now)
    text, staged_text = _file(names.text_name(section, number), shard.text, old_text, now)
    assert file is not None, "only a published file is reused"
    kept = published if shard.reused else None
    entry = Entry(
        section=section,
        number=number,
        low=low,
        first=shard.first,
        last=shard.last,
        rows=shard.rows,
        body=shard.body if kept is None else kept.body,
        index=published.index if published is not None else index,
        file=file,
        snapshot=shard.snapshot,
        since=shard.since,
        text=text,
        undated=shard.undated,
        days=shard.days,
        unknown={} if kept is None else kept.unknown,
    )
    return Draft(entry, staged, staged_text)


def _file(
    key: str, staged: StagedFile | None, published: File | None, now: str
) -> tuple[File | None, StagedFile | None]:
    """Return the record of a file, and the staged file if it has to be written."""
    if staged is None or (published is not None and (published.key, published.sha256) == (key, staged.sha256)):
        return published, None
    return file_of(key, staged, now, published), staged


def file_of(key: str, staged: StagedFile, now: str, published: File | None = None) -> File:
    """Return the record of a staged file. It keeps its lastmod if it has the same bytes as `published`."""
    lastmod = published.lastmod if published is not None and published.sha256 == staged.sha256 else now
    return File(key, staged.bytes, staged.sha256, staged.stored, staged.stored_sha256, None, lastmod)
