"""Records of source data that is kept between runs: mirrors of rows, and robots.txt."""

from __future__ import annotations

from typing import ClassVar

from sitemap_etl.state.records.base import Document, Record, Summed


class MirrorFile(Record):
    """A Parquet file of a mirror. It is written once and never replaced."""

    key: str  # key in the state
    rows: int  # rows of the file
    bytes: int  # size of the file
    sha256: str  # SHA-256 of the file, checked before it is decoded


class MirrorBucket(Record):
    """The files of one bucket of a mirror: the rows whose keys have hashes in the bucket's range."""

    base: MirrorFile | None = None  # all rows at the last fold; None if the bucket has only deltas or nothing
    deltas: tuple[MirrorFile, ...] = ()  # rows read since then, oldest first; newer rows replace older ones

    def files(self) -> list[MirrorFile]:
        """Return the base, if there is one, and the deltas."""
        return [*([] if self.base is None else [self.base]), *self.deltas]


class Mirror(Document):
    """One version of a section's mirror: its rows as extracted, identified by key."""

    section: str
    run_id: str
    key: str  # the column with the kind of a row
    select: str  # hash of the SELECT's text
    params: str  # what tells its params from others (see stages.parameters)
    schema: str  # base64 of an Arrow schema
    read_at: str  # ISO 8601: from here on the next run asks for what changed
    full_at: str  # `now` of the last run that read everything
    buckets: tuple[MirrorBucket, ...]
    deleted: str | None = None  # the column that says that a row is gone: such rows are not in it
    version: str | None = None  # of the table that it mirrors
    table: str | None = None  # tells that from another table at its address

    title: ClassVar[str] = "mirror"


class Drift(Summed):
    """Rows of a full read that differ from the mirror and that incremental reads missed. Shown as warnings."""

    missing: int = 0  # rows in the source but not in the mirror
    stale: int = 0  # rows in both with different content
    gone: int = 0  # rows in the mirror but no longer in the source

    @property
    def total(self) -> int:
        return self.missing + self.stale + self.gone


class KnownRobots(Record):
    """The site's robots.txt as last read. It applies when robots.txt can't be read."""

    at: str  # time of the read, YYYY-MM-DDThh:mm:ssZ
    key: str | None = None  # key of the stored bytes; None if the site had no robots.txt
