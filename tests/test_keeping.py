"""What the state keeps: nothing that anything refers to is removed, and what nothing refers to is."""

from __future__ import annotations

import os
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from sitemap_etl.errors import ConfigError
from sitemap_etl.pipeline.history import published_sets, roll_back
from sitemap_etl.pipeline.local import publish_locally
from sitemap_etl.pipeline.retention import kept_manifests, snapshots_of
from tests.support.sites import FIRST_NIGHT, TestSite, pages

KEEP = 3
OPEN = {"max_drop": 1, "max_growth": 999, "min_urls": 0}


class Life:
    """A site whose state gets older as told: every file's time is set back."""

    def __init__(self, folder: Path) -> None:
        self.site = TestSite(folder, keep=KEEP, gates=OPEN)
        self.site.section("p", pages(20), shards={"rows": 10}, lastmod={"fingerprint": ["title"]})
        self.number = 0
        self.staged: list[str] = []

    def night(self, version: int, *, dry_run: bool = False) -> None:
        self.number += 1
        self.site.export("p", pages(15 + version, title=lambda n: f"{n}-{version if n % 7 == 0 else 0}"))
        done = self.site.night(self.number, dry_run=dry_run)
        if dry_run:
            self.staged.append(done.run.run_id)

    def back(self) -> None:
        self.number += 1
        try:
            now = FIRST_NIGHT + timedelta(days=self.number)
            roll_back(self.site.load(), None, self.site.outside, reason="test", now=now)
        except ConfigError:
            assert len(published_sets(self.site.load(), self.site.outside)) < 2 or self.number < 3

    def age(self, days: int) -> None:
        for path in (self.site.folder / "work").rglob("*"):
            if path.is_file():
                then = path.stat().st_mtime - days * 86_400
                os.utime(path, (then, then))
        self.staged = [run for run in self.staged if self.plan_age(run) < 13 * 86_400]

    def plan_age(self, run: str) -> float:
        plan = self.site.folder / "work/shop/runs" / run / "plan.json"
        return time.time() - plan.stat().st_mtime if plan.exists() else float("inf")

    def check(self) -> None:
        state = self.site.state()
        kept = kept_manifests(state, KEEP)
        assert state.current().manifest in kept or not kept
        for key in kept:
            manifest = state.manifest(key)
            assert manifest is not None
            for snapshot in snapshots_of(manifest):
                assert state.storage.stat(snapshot) is not None


STEP = st.one_of(
    st.tuples(st.just("night"), st.integers(0, 9)),
    st.tuples(st.just("dry"), st.integers(0, 9)),
    st.tuples(st.just("back"), st.just(0)),
    st.tuples(st.just("age"), st.integers(1, 6)),
)


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # a step is a whole run: shrinking takes minutes
)
@given(st.lists(STEP, min_size=4, max_size=10))
def test_no_state_that_anything_refers_to_is_ever_removed(steps: list[tuple[str, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        life = Life(Path(folder))
        life.night(0)
        for step, value in steps:
            match step:
                case "night":
                    life.night(value)
                case "dry":
                    life.night(value, dry_run=True)
                case "back":
                    life.back()
                case "age":
                    life.age(value)
            life.check()
        for entry in published_sets(life.site.load(), life.site.outside)[1:]:
            life.number += 1
            now = FIRST_NIGHT + timedelta(days=life.number)
            roll_back(life.site.load(), entry["run_id"], life.site.outside, reason="test", now=now)
            life.check()
            break  # that changes what is kept


def test_a_dry_run_can_be_published_days_later(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.night(0)
    life.night(3, dry_run=True)
    life.age(6)
    life.number += 1
    life.site.night(life.number, dry_run=True)
    done = publish_locally(life.site.load(), life.staged[0], life.site.outside, force=(), reason=None, adopt=False)
    assert done.summary["status"] == "published"
    assert len(life.site.public().locs()) == 18


def test_distinct_sets_are_counted_and_older_ones_forgotten(tmp_path: Path) -> None:
    life = Life(tmp_path)
    for version in range(6):
        life.night(version)
        life.night(version)  # the same again: no new set
        life.age(3)
    assert len(published_sets(life.site.load(), life.site.outside)) == KEEP
    state = life.site.state()
    referenced = {key for name in kept_manifests(state, KEEP) for key in snapshots_of(state.manifest(name))}  # type: ignore[arg-type]
    life.night(9)
    there = {stat.key for stat in state.storage.list("state/snapshots/")}
    assert referenced & there
    manifests = [stat.key for stat in state.storage.list("state/manifest-")]
    assert len(manifests) <= KEEP + 1
    assert len(there) < 25


def test_retired_files_are_deleted_after_two_days_and_only_ours(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.site.section("q", pages(10, start=100), lastmod="none")
    life.night(0)
    del life.site.keys["sections"]["q"]
    life.night(0)
    gone = tmp_path / "public" / "sitemap-q-00001.xml.gz"
    assert gone.exists()
    life.night(0)
    assert gone.exists()
    life.night(0)
    assert not gone.exists()


def test_a_retired_file_that_someone_replaced_is_left_there(tmp_path: Path) -> None:
    life = Life(tmp_path)
    life.site.section("q", pages(10, start=100), lastmod="none")
    life.night(0)
    del life.site.keys["sections"]["q"]
    life.night(0)
    gone = tmp_path / "public" / "sitemap-q-00001.xml.gz"
    gone.write_bytes(b"another's")
    life.number += 3
    life.night(1)
    assert gone.read_bytes() == b"another's"
