"""Where most of a run's changes lie: what a person who is told of millions wants to see."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.pipeline.borders import NAME as PARTITION
from sitemap_etl.pipeline.moves import read_changes
from sitemap_etl.pipeline.run import Run


def most_of(run: Run, kind: str, section: str | None) -> tuple[str, int, str] | None:
    """The path prefix (two segments) that most changed rows of a kind share: (prefix, rows, an example)."""
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for table in changes_of(run, kind, section):
        loc = table.column("loc")
        prefix = pc.struct_field(pc.extract_regex(loc, r"^https?://[^/]+(?P<p>/[^/?]*/[^/?]*/|/[^/?]*/|/)"), "p")
        counted = (
            pa.table({"prefix": prefix, "loc": loc}).group_by("prefix").aggregate([("loc", "min"), ([], "count_all")])
        )
        for row in counted.to_pylist():  # one a prefix
            counts[row["prefix"]] += row["count_all"]
            examples.setdefault(row["prefix"], row["loc_min"])
    if not counts:
        return None
    prefix, count = max(counts.items(), key=lambda item: (item[1], item[0]))
    return prefix, count, examples[prefix]


def changes_of(run: Run, kind: str, section: str | None) -> list[pa.Table]:
    """The staged changes of a kind, of one section or of all."""
    planned = run.need(PARTITION)
    found = []
    for n, (name, _) in enumerate(planned["units"]):
        if section is None or name == section:
            table = read_changes(run, run.need(f"render/{n}"))
            if table is not None:
                found.append(table.filter(pc.equal(table.column("kind"), kind)))
    return found
