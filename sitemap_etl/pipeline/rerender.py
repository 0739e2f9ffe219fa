"""Published files made again from their snapshots: after a broken-off publish, under a new name, for a rollback."""

from __future__ import annotations

from typing import Literal, TypeAlias

from sitemap_etl.manifest import Entry
from sitemap_etl.pipeline.objects import Object
from sitemap_etl.pipeline.proposal import file_of
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.shards import put_staged
from sitemap_etl.render import text, urlset

Kind: TypeAlias = Literal["file", "text"]


def rerender(run: Run, entry: Entry, kind: Kind, key: str) -> Object:
    """The sitemap (or text sitemap) of a published shard, staged anew, to be stored under `key`.

    It keeps its lastmod where its bytes are those that the entry has. Raises Refused where the snapshot is gone.
    """
    rows = run.state.snapshot(entry.snapshot)
    if kind == "text":
        parts = text.document(rows, 0, rows.num_rows)
    else:
        parts = urlset.document(urlset.entries(rows), 0, rows.num_rows, urlset.namespaces(rows))
    staged = put_staged(run, f"again/{key}", parts, gzipped=key.endswith(".gz"))
    published = entry.file if kind == "file" else entry.text
    assert published is not None
    same = published.sha256 == staged["sha256"]

    def data() -> bytes:
        stored = run.staging.get(staged["staged"])
        assert stored is not None
        return stored.data

    return Object(file_of(key, staged, published.lastmod if same else run.plan.now), data)
