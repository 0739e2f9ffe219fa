"""What a user does to runs in Airflow's UI: no action turns a published run red, or blocks the next one.

The most frequent actions are in test_dag.py, and the tasks of finished runs in test_tasks.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.airflow import Airflow, DagRun
from tests.support.engines import Reply, Request, Side
from tests.support.examples import ALL
from tests.support.operator import Operator

pytestmark = [pytest.mark.thorough, pytest.mark.timeout(1_800)]

KEY = "0123456789abcdef0123456789abcdef"
STAGES = ["plan", "extract", "decide", "partition", "render", "publish", "ping"]
CLEARED = [(task, bool(downstream)) for task in STAGES for downstream in ((0, 1) if ALL else (STAGES.index(task) % 2,))]
"""Tasks that are cleared, alone or with those after them: in turn, or both ways if all is tried."""
WAYS = ["failed", "success", "deleted", "task failed", "task success"]
MARKED = [
    (how, before)
    for at, before in enumerate(STAGES[1:])
    for how in (WAYS if ALL or before == "publish" else [WAYS[at % len(WAYS)]])
]
"""How a run that is about to start a task is marked: each way before `publish`, one before each other task."""


class Desk(Operator):
    """A user of the UI, with a site of two sections and an engine that is sent changes."""

    def __init__(self, folder: Path, running: Airflow, engine: Side, **keys: Any) -> None:
        self.folder = folder
        self.public = folder / "public"
        self.engine = engine
        super().__init__(running, folder / "sites", f"shop{abs(hash(folder))}", {})  # all share a database
        given = {
            "site": engine.url,
            "publish": {"to": "../public", "at": f"{engine.url}/"},
            "work": "../work",
            "sections": {name: {"from": {"csv": f"../{name}.csv"}} for name in ("pages", "posts")},
            "airflow": {"small": 0},
            "ping": {"indexnow": {"key": KEY, "endpoint": f"{engine.url}/indexnow"}},
            **keys,
        }
        self.sites.mkdir()
        (self.sites / f"{self.dag}.yaml").write_text(yaml.safe_dump(given, sort_keys=False))
        self.pages(100)
        self.pages(30, "posts")
        self.parse()

    def pages(self, count: int, section: str = "pages") -> None:
        lines = [f"/{section}/{n},2026-01-01" for n in range(count)]
        (self.folder / f"{section}.csv").write_text("\n".join(["loc,lastmod", *lines, ""]))

    def counted(self, count: int) -> None:
        """Write this many pages to the file `counted.parquet`."""
        pq.write_table(pa.table({"loc": [f"/c/{n}" for n in range(count)]}), self.folder / "counted.parquet")

    def set(self) -> dict[str, tuple[bytes, int]]:
        """Return the published files with their modification times."""
        return {
            str(path.relative_to(self.public)): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in self.public.rglob("*")
            if path.is_file()
        }

    def posts(self) -> int:
        """Return the requests that submitted changes to the engine."""
        return len(self.engine.asked("POST"))

    def lease(self) -> Path:
        return self.folder / "work" / self.dag / "state" / "lease.json"

    def statuses(self) -> list[str]:
        """Return the outcomes of the runs of the site, in their order."""
        runs = sorted((self.folder / "work" / self.dag / "state" / "runs").glob("*.json"))
        return [json.loads(path.read_text())["status"] for path in runs]


@pytest.fixture
def desk(tmp_path: Path, airflow_process: Airflow) -> Iterator[Desk]:
    def answer(request: Request) -> Reply:
        if request.method == "GET":  # the site itself
            return Reply(200, KEY) if request.path == f"/{KEY}.txt" else Reply(404)
        return Reply(200)

    with Side(answer) as engine:
        yield Desk(tmp_path, airflow_process, engine)


def published(desk: Desk) -> DagRun:
    """Return a run that has published changes, which the engine was sent."""
    desk.run()
    desk.pages(105)
    run = desk.run()
    assert (run.state, run.states("ping"), desk.posts()) == ("success", ["success"], 1)
    return run


def test_cleared_tasks_of_a_published_run_succeed_without_doing_anything(desk: Desk) -> None:
    run = published(desk)
    desk.pages(120)  # the next run is to publish these
    before, posts = desk.set(), desk.posts()
    for task, downstream in CLEARED:
        desk.clear(run.run_id, task, downstream=downstream)
        again = desk.settle(run.run_id)
        assert (again.state, desk.set(), desk.posts()) == ("success", before, posts), (task, downstream)
        assert not desk.lease().exists()
    desk.clear(run.run_id)
    again = desk.settle(run.run_id)
    assert (again.state, desk.set(), desk.posts()) == ("success", before, posts)
    assert set(again.labels("extract")) == {"already published"}
    assert again.xcom("publish", "counts") == run.xcom("publish", "counts")
    desk.mark(run.run_id, "failed")
    after = desk.run()
    assert after.state == "success"
    assert after.xcom("publish", "counts")["sections"]["pages"]["added"] == 15
    assert desk.posts() == posts + 1
    assert desk.statuses() == ["published", "published", "published"]


def refused(desk: Desk) -> DagRun:
    """Return a run that a gate has refused."""
    desk.run()
    desk.pages(40)
    run = desk.run()
    assert (run.state, run.states("publish"), desk.posts()) == ("failed", ["failed"], 0)
    return run


def test_cleared_tasks_of_a_refused_run_are_refused_again_and_block_nothing(desk: Desk) -> None:
    run = refused(desk)
    before = desk.set()
    for task, downstream in CLEARED:
        if task == "plan":
            continue
        desk.clear(run.run_id, task, downstream=downstream)
        again = desk.settle(run.run_id)
        assert (again.state, again.states("publish"), desk.set()) == ("failed", ["failed"], before), task
        assert not desk.lease().exists()
    assert "pages would drop 60 of 100 URLs" in again.log or again.states("ping") == ["upstream_failed"]
    desk.pages(100)
    after = desk.run()
    assert after.state == "success"
    desk.clear(run.run_id, "publish")
    late = desk.settle(run.run_id)  # what it has rendered is of another set than the one that is public by now
    assert (late.state, desk.set(), desk.posts()) == ("failed", before, 0)
    desk.clear(run.run_id)  # all of it is a new run
    assert desk.settle(run.run_id).state == "success"
    assert desk.run().state == "success"


def test_a_cleared_large_run_starts_over_if_the_site_has_become_small(tmp_path: Path, airflow_process: Airflow) -> None:
    """Airflow marks former mapped tasks of extract as removed, not as skipped."""
    sections = {"counted": {"from": {"parquet": "../counted.parquet"}, "on_error": "keep"}}
    with Side(lambda _: Reply(404)) as engine:
        desk = Desk(tmp_path, airflow_process, engine, sections=sections, airflow={"small": 200}, ping={})
        desk.counted(150)
        assert desk.run().state == "success"
        desk.counted(500)
        run = desk.run()
        assert (run.state, run.states("extract")) == ("failed", ["success"])
        desk.counted(151)
        desk.clear(run.run_id)
        again = desk.settle(run.run_id)
        assert (again.state, again.xcom("publish", "counts")["total"]["listed"]) == ("success", 151)
        desk.clear(run.run_id)
        assert desk.settle(run.run_id).state == "success"
        desk.counted(500)
        run = desk.run()
        (tmp_path / "counted.parquet").unlink()  # the section is held: there is nothing to extract
        desk.clear(run.run_id)
        assert desk.settle(run.run_id).state == "success"


def test_a_large_run_that_ended_long_ago_succeeds_when_it_is_cleared(desk: Desk) -> None:
    run = published(desk)
    before = desk.set()
    shutil.rmtree(desk.folder / "work" / desk.dag / "runs")
    for task in (*STAGES, None):
        desk.clear(run.run_id, *([task] if task else []))
        assert (desk.settle(run.run_id).state, desk.set()) == ("success", before), task


def test_a_cleared_dry_run_shows_the_same_result_and_blocks_nothing(desk: Desk) -> None:
    desk.run()
    desk.pages(105)
    before = desk.set()
    run = desk.run(dry_run=True)
    for task, downstream in CLEARED:
        desk.clear(run.run_id, task, downstream=downstream)
        again = desk.settle(run.run_id)
        assert (again.state, desk.set(), desk.posts()) == ("success", before, 0), (task, downstream)
    desk.clear(run.run_id)
    assert desk.settle(run.run_id).xcom("publish", "counts")["status"] == "dry_run"
    after = desk.run()
    assert (after.state, desk.set() != before, desk.posts()) == ("success", True, 1)


@pytest.mark.parametrize("task", STAGES[:-1])
def test_a_running_dag_run_publishes_once_even_if_tasks_are_cleared(task: str, desk: Desk) -> None:
    desk.run()
    desk.pages(105)
    run_id = desk.trigger()
    later = STAGES[STAGES.index(task) + 1 :]
    for before in later if ALL else dict.fromkeys((later[0], later[-1])):
        desk.settle(run_id, before)
        desk.clear(run_id, task)
        desk.settle(run_id, before)
        desk.clear(run_id, task, downstream=True)
        desk.settle(run_id, before)
    run = desk.settle(run_id)
    assert (run.state, desk.posts(), len(list(desk.public.glob("*pages*")))) == ("success", 1, 1)
    assert desk.run().xcom("publish", "counts")["status"] == "unchanged"
    assert not desk.lease().exists()


@pytest.mark.parametrize(("how", "before"), MARKED)
def test_a_running_dag_run_that_is_marked_or_deleted_does_not_block_the_next(how: str, before: str, desk: Desk) -> None:
    run_id = desk.trigger()
    desk.settle(run_id, before)
    if how == "deleted":  # Airflow deletes no run that is under way
        desk.mark(run_id, "failed")
        desk.delete(run_id)
    elif how.startswith("task "):
        desk.mark(run_id, how.removeprefix("task "), before)
        left = desk.settle(run_id)
        assert left.state == ("failed" if before != "ping" or "failed" in how else left.state)
        assert "defect" not in left.log
    else:
        desk.mark(run_id, how)
    desk.pages(105)
    after = desk.run()
    assert after.state == "success", after.log[-4000:]
    assert after.xcom("publish", "counts")["sections"]["pages"]["listed"] == 105
    assert not desk.lease().exists()


def test_marking_a_finished_run_changes_nothing(desk: Desk) -> None:
    run = published(desk)
    before, posts = desk.set(), desk.posts()
    for state in ("failed", "success"):
        for task in (*STAGES, None):
            desk.mark(run.run_id, state, task)
            desk.settle(run.run_id)
            assert (desk.set(), desk.posts()) == (before, posts), task
    desk.mark(run.run_id, "failed")
    desk.clear(run.run_id)
    assert desk.settle(run.run_id).state == "success"
    assert (desk.set(), desk.posts()) == (before, posts)
    assert desk.run().state == "success"
