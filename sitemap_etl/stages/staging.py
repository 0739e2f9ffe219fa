"""Stage the files of shards: their sitemaps, text sitemaps and snapshots.

Every shard is staged here, and `publish.drafts.draft_of` makes its entry. A field of an entry is set in these two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import single
from sitemap_etl.render import compress, text, urlset
from sitemap_etl.render.shards import Shard
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import StagedFile, StagedShard

_SAMPLED: Final = 1_000
"""Lastmods of a file that its deciles are calculated from."""


def stage_shard(
    run: Run, key: str, shard: Shard, *, with_text: bool = False, snapshot: str | None = None
) -> StagedShard:
    """Stage the files of a shard under keys that begin with `key`, and return its part of a task result.

    `with_text`: stage a text sitemap too. `snapshot`: key of its rows in the state; None: store them.
    """
    rows, entries = shard.rows, shard.entries
    locs = rows.column("loc")
    undated, days = _day_spread(rows.column("lastmod"))
    return StagedShard(
        low=shard.low,
        parent=shard.parent,
        reused=shard.reused,
        rows=rows.num_rows,
        first=locs[0].as_py(),
        last=locs[-1].as_py(),
        since=pc.max(rows.column("since")).as_py(),
        snapshot=run.state.put_snapshot(rows) if snapshot is None else snapshot,
        body=0 if entries is None else int(entries.sizes.sum()),
        xml=None if entries is None else stage_sitemap(run, f"{key}.xml", rows, entries),
        text=stage_text(run, f"{key}.txt", rows) if with_text else None,
        undated=undated,
        days=days,
    )


def stage_sitemap(run: Run, key: str, rows: pa.Table, entries: urlset.Entries) -> StagedFile:
    """Stage the sitemap of these rows. `entries`: the rendered rows."""
    return _put_staged(run, key, urlset.document(entries, urlset.namespaces(rows)))


def stage_text(run: Run, key: str, rows: pa.Table) -> StagedFile:
    """Stage the text sitemap of these rows."""
    return _put_staged(run, key, text.document(rows, 0, rows.num_rows))


def _put_staged(run: Run, key: str, parts: Iterable[bytes | memoryview]) -> StagedFile:
    """Stage one file's bytes. Return its sizes and hashes, inflated and as stored."""
    inflated = hashlib.sha256()
    sizes = []

    def hashed() -> Iterator[bytes | memoryview]:
        for part in parts:
            inflated.update(part)
            sizes.append(len(part))
            yield part

    gzipped = run.site.publish.names.file.endswith(".gz")
    data = compress.gzip(hashed()) if gzipped else b"".join(hashed())
    run.staging.put(key, data)
    return StagedFile(key, sum(sizes), inflated.hexdigest(), len(data), hashlib.sha256(data).hexdigest())


def _day_spread(dates: pa.ChunkedArray) -> tuple[int, tuple[int, ...] | None]:
    """Return the number of rows without a lastmod, and the minimum, deciles and maximum of the others, or None.

    They are in days since 1970.
    """
    there = dates.drop_null() if dates.null_count else dates
    if not len(there):
        return len(dates), None
    some = there.take(pa.array(np.unique(np.linspace(0, len(there) - 1, _SAMPLED).astype(np.int64))))
    ordered = np.sort(pc.utf8_slice_codeunits(single(some), 0, 10).cast(pa.date32()).cast(pa.int32()).to_numpy())
    return dates.null_count, tuple(ordered[np.linspace(0, len(ordered) - 1, 11).astype(np.int64)].tolist())
