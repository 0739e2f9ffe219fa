"""Which published file gives rows to which: what must be written before what, so that no URL is ever unlisted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.pipeline.objects import Object
from sitemap_etl.pipeline.run import Run
from sitemap_etl.pipeline.standing import Standing
from sitemap_etl.pipeline.wanted import Wanted


def with_standing_rows(
    run: Run, gives: Mapping[str, frozenset[str]], wanted: Wanted, changed: Mapping[str, Object], standing: Standing
) -> dict[str, frozenset[str]]:
    """`gives` (public key → keys of the files that list its URLs now), right also after a broken-off publish.

    It was found by comparing with the last manifest. Where a doubtful object is about to be replaced (`changed`, by
    key), its rows count as they stand. Memory holds the rows that leave such objects.
    """
    result: dict[str, set[str]] = defaultdict(set, {key: set(receivers) for key, receivers in gives.items()})
    doubtful = [key for key in changed if key in standing.doubtful]
    if not doubtful:
        return {key: frozenset(receivers) for key, receivers in result.items()}
    locs, keys = [], []
    for key in doubtful:
        result.pop(key, None)
        found = standing.locs(key)
        locs.append(pa.array(found, pa.string()))
        keys.append(pa.repeat(pa.scalar(key), len(found)))
    rows = pa.table({"loc": pa.chunked_array(locs, pa.string()), "key": pa.chunked_array(keys, pa.string())})
    for entry in wanted.entries:
        section = run.site.sections.get(entry.section)
        receiver = entry.file.key
        if receiver not in wanted.files or section is None or section.view:
            continue
        arrived = run.state.snapshot(entry.snapshot, ["loc"]).column("loc").combine_chunks()
        taken = rows.filter(pc.is_in(rows.column("loc"), arrived))
        for giver in pc.unique(taken.column("key")).to_pylist():  # one a doubtful file
            if giver != receiver:
                result[giver].add(receiver)
    return {key: frozenset(receivers) for key, receivers in result.items()}
