"""Files of ours that no index lists any more: they wait two days for crawlers that are late, then they go."""

from __future__ import annotations

from sitemap_etl.manifest import Retired
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.standing import Standing
from sitemap_etl.pipeline.state import GRACE
from sitemap_etl.pipeline.wanted import Wanted
from sitemap_etl.storage import PreconditionFailed, Storage


def retired_files(run: Run, wanted: Wanted, standing: Standing) -> tuple[list[Retired], list[Retired]]:
    """Those that wait, and those whose grace is over: indexes first, before what they list.

    What a broken-off publish left is retired now. Files in another place than `publish.to` are not ours to delete.
    """
    base = run.base
    if base is None or standing.moved_house:
        before, indexes = [], set()
    else:
        before, indexes = list(base.retired), {index.file.key for index in base.indexes}
    kept = wanted.keys()
    doubtful = standing.doubtful if not standing.moved_house else standing.doubtful - {f.key for f in _files(run)}
    waiting = [item for item in before if item.key not in kept and not _replaced(item, standing)]
    known = {item.key for item in waiting}
    left = {key: file.etag for key, file in standing.files.items() if key not in doubtful}
    left |= {key: stat.etag for key, stat in standing.there.items() if key in doubtful}
    waiting += [
        Retired(key, left[key], run.epoch)
        for key in sorted(left, key=lambda key: (key not in indexes, key))
        if key not in kept and key not in known
    ]
    limit = run.epoch - GRACE.total_seconds()
    due = [item for item in waiting if item.at <= limit]
    return [item for item in waiting if item.at > limit], due
