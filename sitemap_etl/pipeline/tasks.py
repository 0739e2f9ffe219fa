"""The stages as tasks of a scheduler: each takes a unit `{key, n}` and gives counts, never rows.

`key` is the address of the run's folder, `n` the number of the unit. What a task needs besides is in
the run's plan and in the receipts of the tasks before it, so that any machine can do any of them, and
do it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from sitemap_etl.errors import Refused
from sitemap_etl.pipeline.align import align as align_run
from sitemap_etl.pipeline.align import cluster_units, collect_members
from sitemap_etl.pipeline.borders import partition as partition_run
from sitemap_etl.pipeline.finish import add_answers, finish_run, put_summary, read_summary
from sitemap_etl.pipeline.inventory import transform_split
from sitemap_etl.pipeline.raw import extract_split
from sitemap_etl.pipeline.run import Options, Outside, Run, open_run
from sitemap_etl.pipeline.shards import render_group
from sitemap_etl.pipeline.stages import publish as publish_run
from sitemap_etl.pipeline.start import release_lease, start_run, take_lease
from sitemap_etl.pipeline.submission import engines_of, ping_engine
from sitemap_etl.site import Site

Unit = dict[str, Any]
NO_PROCESS: Final = 0
"""The lease of a scheduler's run belongs to no process: only its time can end it."""


def start(
    site: Site, options: Options, outside: Outside, *, now: datetime | None = None, final: bool = True
) -> list[Unit]:
    """Plan a run; gives the units of extract. `final`: no other attempt follows."""
    run = start_run(site, options, outside, now=now, final=final, pid=NO_PROCESS)
    return _units(run.work.url_of(f"runs/{run.run_id}"), len(run.plan.units) or 1)


def _units(key: str, count: int) -> list[Unit]:
    return [{"key": key, "n": n} for n in range(count)]


def _open(unit: Mapping[str, Any], outside: Outside) -> Run:
    run = open_run(unit["key"], outside)
    take_lease(run.work, run.run_id, pid=NO_PROCESS)
    return run


def extract(unit: Mapping[str, Any], outside: Outside, *, final: bool = True) -> dict[str, Any]:
    """Extract one split; gives its rows."""
    run = _open(unit, outside)
    if unit["n"] >= len(run.plan.units):  # every section is kept
        return {"rows": 0}
    receipt = extract_split(run, unit["n"], final=final)
    return {"rows": receipt.get("rows", 0), "label": run.plan.units[unit["n"]]["label"], "kept": receipt.get("kept")}


def transform(unit: Mapping[str, Any], outside: Outside, *, final: bool = True) -> dict[str, Any]:
    """Transform one split; gives its counts."""
    run = _open(unit, outside)
    if unit["n"] >= len(run.plan.units):
        return {"rows": 0}
    receipt = transform_split(run, unit["n"], final=final)
    counted = ("rows", "inventory", "excluded", "rejected", "kept")
    return {"label": run.plan.units[unit["n"]]["label"], **{name: receipt.get(name) for name in counted}}


def partition(unit: Mapping[str, Any], outside: Outside) -> list[Unit]:
    """Plan windows and groups; gives the units of render."""
    run = _open(unit, outside)
    return _units(unit["key"], len(partition_run(run)["units"]))


def clusters(unit: Mapping[str, Any], outside: Outside) -> list[Unit]:
    """The units of the sections with hreflang clusters; none where no section has them."""
    run = _open(unit, outside)
    return [{"key": unit["key"], "n": n} for n in cluster_units(run)]


def collect(unit: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """Find the listed members of clusters in one group."""
    return {"members": collect_members(_open(unit, outside), unit["n"])["members"]}


def align(unit: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """Close the clusters of every bucket; gives how many rows have alternates."""
    return {"aligned": align_run(_open(unit, outside))["aligned"]}


def render(unit: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """Render one group; gives its counts."""
    receipt = render_group(_open(unit, outside), unit["n"])
    return {"section": receipt["section"], **receipt["counts"]}


def publish(unit: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """Publish the run; gives its summary's counts. Raises Refused where a gate says no."""
    run = _open(unit, outside)
    published = publish_run(run)
    summary = finish_run(run, published)
    release_lease(run.work, run.run_id)
    if published.status == "refused":
        assert published.error is not None
        raise published.error
    return {
        "key": unit["key"],
        "status": summary["status"],
        "files": summary["files"],
        "sections": summary["sections"],
        "kept": summary["kept"],
        "report": summary["report"],
    }


def engines(published: Mapping[str, Any], outside: Outside) -> list[Unit]:
    """The units of ping: one an engine, none where nothing was published or the run is not to ping."""
    run = open_run(published["key"], outside)
    if published["status"] not in ("published", "partial") or not run.options.ping:
        return []
    summary = read_summary(run)
    if summary is None or not summary["published"]:
        return []
    return [{"key": published["key"], "n": n} for n in range(len(engines_of(run.site)))]


def ping(unit: Mapping[str, Any], outside: Outside) -> dict[str, Any]:
    """Tell one engine; gives its answer. Raises Unavailable or Refused where it was not accepted."""
    run = open_run(unit["key"], outside)
    engine = engines_of(run.site)[unit["n"]]
    try:
        answer = ping_engine(run.site, run.run_id, engine, outside)
    finally:
        summary = read_summary(run)
        if summary is not None:
            put_summary(run, add_answers(run, summary))
    if answer["status"] in ("partial", "refused"):
        raise Refused(f"{engine}: {answer['message']}")
    return answer


def abandon(key: str, outside: Outside) -> None:
    """Give the lease back after a task failed for good, so that a new run may start at once."""
    run = open_run(key, outside)
    release_lease(run.work, run.run_id)
