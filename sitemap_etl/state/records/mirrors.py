"""What a site keeps of its sources between runs: mirrors of rows, and robots.txt."""

from __future__ import annotations

from typing import ClassVar

from sitemap_etl.state.records.base import Document, Record, Summed


class MirrorFile(Record):
    """A Parquet file of a mirror, put once. `sha256` is that of its bytes."""

    key: str
    rows: int
    bytes: int
    sha256: str


class MirrorBucket(Record):
    """The rows of a mirror whose keys share some bits of their hash: a base, and what changed since, oldest first."""

    base: MirrorFile | None = None
    deltas: tuple[MirrorFile, ...] = ()

    def files(self) -> list[MirrorFile]:
        """All of them."""
        return [*([] if self.base is None else [self.base]), *self.deltas]


class Mirror(Document):
    """A section's rows as they were extracted, by key: one generation of them."""

    section: str
    run_id: str
    key: str  # the column that says what a row is
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
    """How a full read differed from the mirror where the watermark had shown nothing, in rows."""

    missing: int = 0  # in the source, not in the mirror
    stale: int = 0  # in both, and not the same
    gone: int = 0  # in the mirror, no longer in the source

    @property
    def total(self) -> int:
        return self.missing + self.stale + self.gone


class KnownRobots(Record):
    """A site's robots.txt as it was last read. `key`: of its bytes in the state; None: the site has none."""

    at: str  # YYYY-MM-DDThh:mm:ssZ
    key: str | None = None
