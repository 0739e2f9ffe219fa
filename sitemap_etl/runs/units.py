"""Units of mapped stages: the functions that do one (`at`: its position), and those that list section and label."""

from __future__ import annotations

from sitemap_etl.stages.clusters import cluster_units, collect_members
from sitemap_etl.stages.decide import decide_sections
from sitemap_etl.stages.extract import extract_split
from sitemap_etl.stages.merge import merge_bucket
from sitemap_etl.stages.ping import notify
from sitemap_etl.stages.render import render_group
from sitemap_etl.stages.run import Run
from sitemap_etl.stages.transform import retransform_split, transform_split
from sitemap_etl.state.records import Collected, Transformed

__all__ = ["extract_split", "merge_bucket", "notify", "render_group", "transform_split"]

Units = list[tuple[str, str]]


def splits(run: Run) -> Units:
    """Return the splits of all sources."""
    return [(unit.section, unit.label) for unit in run.plan.units]


def buckets(run: Run) -> Units:
    """Return the buckets of mirrors that have new rows or rules."""
    merging = run.merging()
    return [(section, f"bucket {bucket + 1}") for section, bucket in merging.units[: merging.needed]]


def unchanged(run: Run) -> Units:
    """Return the unchanged splits and buckets of sections that have changed."""
    decided, planned = decide_sections(run), splits(run)
    late = [run.merging().units[n] for n in decided.merge]
    return [*(planned[n] for n in decided.again), *((section, f"bucket {bucket + 1}") for section, bucket in late)]


def retransform(run: Run, at: int, *, final: bool = True) -> Transformed:
    """Transform an unchanged split or bucket after all, and return its task result. `final`: as for merge."""
    decided = decide_sections(run)
    if at < len(decided.again):
        return retransform_split(run, decided.again[at])
    return merge_bucket(run, decided.merge[at - len(decided.again)], final=final)


def groups(run: Run) -> Units:
    """Return the groups of all sections."""
    return [(section, f"group {group + 1}") for section, group in run.partition().units]


def clustered(run: Run) -> Units:
    """Return the groups of sections with hreflang clusters."""
    return [groups(run)[n] for n in cluster_units(run)]


def collect(run: Run, at: int) -> Collected:
    """Find the members of clusters in a group, and return the task result."""
    return collect_members(run, cluster_units(run)[at])
