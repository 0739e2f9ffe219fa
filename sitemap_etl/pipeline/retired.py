"""Files of ours that no index lists any more: they wait two days for crawlers that are late, then they go."""

from __future__ import annotations

from collections.abc import Mapping

from sitemap_etl.manifest import Retired
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.standing import Standing
from sitemap_etl.pipeline.state import GRACE
from sitemap_etl.pipeline.wanted import Wanted


def retired_files(
    run: Run, wanted: Wanted, standing: Standing, foreign: Mapping[str, str | None]
) -> tuple[list[Retired], list[Retired]]:
    """Those that wait, and those whose grace is over: indexes first, before what they list.

    What a broken-off publish left is retired now, but not an object that was there before it (`foreign`: key →
    ETag). Where `publish.to` is another place than it was, what lies in the old one is not ours to delete.
    """
    base = run.base if not standing.moved_house else None
    kept, touched = wanted.keys(), standing.touched
    left = {key: file.etag for key, file in standing.files.items() if key not in touched}
    left |= {
        key: standing.there[key].etag
        for key in touched
        if key in standing.there and foreign.get(key, "") != standing.there[key].etag
    }
    waiting = [
        item
        for item in (base.retired if base is not None else ())
        if item.key not in kept and (item.key not in touched or left.get(item.key, "") == item.etag)
    ]
    known = {item.key for item in waiting}
    indexes = {index.file.key for index in base.indexes} if base is not None else set()
    waiting += [
        Retired(key, left[key], run.epoch)
        for key in sorted(left, key=lambda key: (key not in indexes, key))
        if key not in kept and key not in known
    ]
    limit = run.epoch - GRACE.total_seconds()
    return [item for item in waiting if item.at > limit], [item for item in waiting if item.at <= limit]
