"""Published files made again from their snapshots: after a broken-off publish, and for a rollback."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sitemap_etl.manifest import Entry, File
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.shards import put_staged
from sitemap_etl.render import text, urlset


@dataclass(frozen=True)
class Remade:
    """A file as it was published before, staged anew."""

    file: File
    data: Callable[[], bytes]


def rerender(run: Run, entry: Entry, kind: Literal["file", "text"] | str, key: str) -> Remade:
    """The sitemap (or text sitemap) of a published shard, from its snapshot, to be stored under `key`."""
    rows = run.state.snapshot(entry.snapshot)
    if kind == "text":
        parts = text.document(rows, 0, rows.num_rows)
    else:
        parts = urlset.document(urlset.entries(rows), 0, rows.num_rows, urlset.namespaces(rows))
    staged = put_staged(run, f"again/{key}", parts, gzipped=key.endswith(".gz"))
    published = entry.file if kind == "file" else entry.text
    assert published is not None
    file = File(
        key,
        staged["bytes"],
        staged["sha256"],
        staged["stored"],
        staged["stored_sha256"],
        None,
        published.lastmod if published.sha256 == staged["sha256"] else run.plan.now,
    )

    def data() -> bytes:
        stored = run.staging.get(staged["staged"])
        assert stored is not None
        return stored.data

    return Remade(file, data)
