"""The stages of a run: one row each, which the runner, the tasks, their calls, the DAG and the demo read.

It imports no stage, because Airflow parses DAG files without the libraries of a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sitemap_etl.frozen import Frozen


class Stage(Frozen):
    """A stage. As a task of a scheduler it is the function of `runs.tasks` with its name.

    `page`: its documentation in Airflow, empty if another stage's task does it. `unit`, `units`: functions of
    `runs.units` that do one unit of a mapped stage, and list the section and label of each. `pooled`: its tasks read
    sources, and need a slot of `airflow.pool`.
    """

    page: str
    unit: str = ""
    units: str = ""
    pooled: bool = False


STAGES: Final[Mapping[str, Stage]] = {
    "wait": Stage("Wait for sources that are not there yet."),
    "plan": Stage("Fix what the run does, and divide it into the parts of `extract`. A small site has none."),
    "extract": Stage("Read parts of a source, and make their rows canonical.", "extract_split", "splits", pooled=True),
    "transform": Stage("", "transform_split", "splits"),
    "build": Stage("Do everything from `extract` to `render`, for a small site.", pooled=True),
    "buckets": Stage("Find the rows of each part of the mirrors, and divide them into the parts of `merge`."),
    "merge": Stage(
        "Merge what changed with what earlier runs read, and make the rows canonical.", "merge_bucket", "buckets"
    ),
    "decide": Stage("Find the sections that have changed, and their unchanged parts, for `retransform`."),
    "retransform": Stage(
        "Make the rows of unchanged parts canonical, because their section has changed.", "retransform", "unchanged"
    ),
    "partition": Stage("Divide the pages into the groups of `render`."),
    "clusters": Stage("Find the groups with hreflang clusters, for `collect`."),
    "collect": Stage("Find the listed members of clusters in groups.", "collect", "clustered"),
    "align": Stage("Close the clusters."),
    "render": Stage("Write the sitemaps of groups.", "render_group", "groups"),
    "publish": Stage("Ask the gates, and publish."),
    "ping": Stage("Notify search engines.", "notify"),
}
