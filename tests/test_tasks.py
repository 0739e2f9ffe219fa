"""The stages as tasks of a scheduler: any of them may be killed and retried."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from sitemap_etl.config import Site, load
from sitemap_etl.errors import Refused, SitemapEtlError, Unavailable
from sitemap_etl.publish.claim import Claim
from sitemap_etl.publish.publish import publish as publish_run
from sitemap_etl.runs import tasks
from sitemap_etl.runs.bundles import MOST, bundles, called
from sitemap_etl.runs.local import publish_locally
from sitemap_etl.runs.status import status_of
from sitemap_etl.stages.run import Environment, new_run_id, open_run, open_work
from sitemap_etl.state import layout
from sitemap_etl.state.attempts import read_attempts
from sitemap_etl.state.lease import take_lease
from sitemap_etl.state.records import Options
from sitemap_etl.storage import Storage, open_storage
from tests.support.sites import FIRST_NIGHT
from tests.support.storages import Wrapped, Wrapping

OUTSIDE = Environment(environ={})
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
IN_ONE, IN_MANY = {"small": 1_000}, {"small": 0}


def site_in(folder: Path, sections: int = 1, database: dict[str, Any] | None = None, **keys: Any) -> Site:
    """Return a site with this many sections of two pages each, or with one section."""
    (folder / "sites").mkdir()
    for n in range(sections):
        (folder / f"pages{n}.csv").write_text(f"loc,lastmod\n/{n}/a,2026-01-01\n/{n}/b,2026-01-01\n")
    file = folder / "sites" / "shop.yaml"
    given = {
        "site": "http://127.0.0.1:1",
        "publish": "../public",
        "sections": {f"pages{n}": {"from": {"csv": f"../pages{n}.csv"}} for n in range(sections)},
    }
    if database is not None:
        given["sections"] = {"pages": database}
    file.write_text(yaml.safe_dump(given | keys))
    return load(file, environ={})


@pytest.fixture(params=["in one task", "in many tasks"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Site:
    return site_in(tmp_path, airflow=IN_ONE if request.param == "in one task" else IN_MANY)


def rendered(started: tasks.Started) -> list[Any]:
    """Run the tasks after plan up to render; return their results."""
    key = started.key
    if not started.bundles:
        return [tasks.build(key, OUTSIDE)]
    given: list[Any] = [tasks.extract(key, part, OUTSIDE) for part in started.bundles]
    return given + [tasks.render(key, part, OUTSIDE) for part in tasks.partition(key, OUTSIDE)]


def public_files(site: Site) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in Path(site.publish.to).glob("*")}


def lease(site: Site) -> Path:
    return Path(site.work) / "shop" / "state" / "lease.json"


def change(site: Site) -> None:
    """Add a page to the source."""
    (Path(site.publish.to).parent / "pages0.csv").write_text("loc,lastmod\n/0/a,2026-01-01\n/0/c,2026-01-01\n")


def until_rendered(site: Site, owner: str, *, dry_run: bool = False, **how: Any) -> str:
    """Run up to publish; return the key of the run."""
    started = tasks.start(site, Options(dry_run=dry_run), OUTSIDE, owner=owner, **how)
    rendered(started)
    return started.key


def test_a_second_try_of_the_plan_takes_over_the_lease_of_the_first(site: Site) -> None:
    tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    again = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    assert rendered(again)[0] == {"rows": 2, "inventory": 2, "excluded": 0, "rejected": 0}


def test_another_run_of_the_scheduler_waits_until_the_first_is_abandoned(site: Site) -> None:
    tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    with pytest.raises(Unavailable, match="shop/tonight"):
        tasks.start(site, Options(), OUTSIDE, owner="shop/tomorrow", patience=timedelta(0))
    tasks.abandon(site, "shop/tomorrow", OUTSIDE)  # not its lease
    said: list[str] = []

    def log(line: str) -> None:
        said.append(line)
        tasks.abandon(site, "shop/tonight", OUTSIDE)

    assert tasks.start(site, Options(), replace(OUTSIDE, log=log), owner="shop/tomorrow")
    assert [line.startswith("waiting: Another run is in progress") for line in said] == [True, False]


def test_a_run_takes_over_from_one_that_its_scheduler_reports_as_ended(site: Site) -> None:
    tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    asked: list[str] = []

    def has_ended(owner: str) -> bool:
        asked.append(owner)
        return True

    started = tasks.start(site, Options(), OUTSIDE, owner="shop/tomorrow", has_ended=has_ended)
    assert rendered(started)[0]["rows"] == 2
    assert asked == ["shop/tonight"]


def test_a_run_started_by_the_command_is_waited_for_in_any_case(site: Site) -> None:
    take_lease(open_work(site, OUTSIDE), "20261101T030000Z-beef", pid=os.getppid())
    with pytest.raises(Unavailable, match="Another run is in progress"):
        tasks.start(site, Options(), OUTSIDE, owner="shop/a", has_ended=lambda _: True, patience=timedelta(0))


def _export(site: Site, count: int) -> None:
    rows = "".join(f"/0/{n},2026-01-01\n" for n in range(count))
    (Path(site.publish.to).parent / "pages0.csv").write_text(f"loc,lastmod\n{rows}")


def test_a_refused_run_cleared_after_a_later_release_is_overtaken(site: Site) -> None:
    _export(site, 40)
    tasks.publish(until_rendered(site, "shop/1"), OUTSIDE)
    _export(site, 10)
    refused = until_rendered(site, "shop/2")
    with pytest.raises(Refused, match=r"would drop 30 of 40"):
        tasks.publish(refused, OUTSIDE)
    _export(site, 45)
    later = until_rendered(site, "shop/3")
    tasks.publish(later, OUTSIDE)
    with pytest.raises(Refused, match=r"Overtaken: this run started from .* Nothing public was touched; run again"):
        tasks.publish(refused, OUTSIDE)
    last = status_of(site, OUTSIDE, max_age=None).last
    assert last is not None
    assert (last.run_id, last.status) == (later.rpartition("/")[2], "published")


def test_a_refusal_names_the_site_file_that_the_run_was_planned_from(site: Site) -> None:
    _export(site, 40)
    tasks.publish(until_rendered(site, "shop/1"), OUTSIDE)
    _export(site, 10)
    started = tasks.start(site, Options(), replace(OUTSIDE, site_file="/opt/sites/shop.yaml"), owner="shop/2")
    rendered(started)
    way = r"in Airflow: trigger the DAG shop, with force \S+max_drop and a reason\n"
    with pytest.raises(Refused, match=way + r"  publish: sitemap-etl publish /opt/sites/shop\.yaml ") as refused:
        tasks.publish(started.key, OUTSIDE)
    assert "SITE.yaml" not in str(refused.value)


@pytest.mark.parametrize("first", [True, False])
def test_a_task_that_continues_after_its_run_has_ended_publishes_nothing(site: Site, first: bool) -> None:
    """After it is marked as failed, its process lives for a while: the run that took over decides, and succeeds."""
    if not first:
        tasks.publish(until_rendered(site, "shop/yesterday"), OUTSIDE)
        change(site)
    late = until_rendered(site, "shop/tonight")
    after = until_rendered(site, "shop/tomorrow", has_ended=lambda _: True)
    before = public_files(site)
    with pytest.raises(Refused, match=r"Another run is in progress: .* \(shop/tomorrow\)"):
        tasks.publish(late, OUTSIDE)
    with pytest.raises(Refused, match=r"Overtaken: run .* \(shop/tomorrow\), took over while run"):
        publish_run(open_run(late, OUTSIDE))  # it had renewed its lease just before
    assert public_files(site) == before
    assert tasks.publish(after, OUTSIDE)["status"] == "published"


@pytest.mark.parametrize("point", ["claim", "commit"])
def test_a_publish_under_way_when_another_run_takes_over_is_not_committed(site: Site, point: str) -> None:
    late = open_run(until_rendered(site, "shop/tonight"), OUTSIDE)
    claim = Claim(late, late.state.held())
    if point == "commit":
        claim.take()
    after = until_rendered(site, "shop/tomorrow", has_ended=lambda _: True)
    with pytest.raises(Refused, match="Overtaken: another run took over while run"):
        claim.take() if point == "claim" else claim.end("published", {}, {}, {}, "state/manifest-none.json")
    assert tasks.publish(after, OUTSIDE)["status"] == "published"


class _ReadsOfCurrent(Wrapped):
    def get(self, key: str) -> Any:
        self._outer.reads += key == layout.CURRENT
        return self._inner.get(key)

    def stat(self, key: str) -> Any:
        stat = self._inner.stat(key)
        return replace(stat, etag=f'W/"{stat.etag}"') if self._outer.weak and key == layout.CURRENT and stat else stat


class ReadsOfCurrent(Wrapping):
    """Counts reads of `current.json`. `weak`: the store gives it weak ETags."""

    storage = _ReadsOfCurrent

    def __init__(self, *, weak: bool) -> None:
        self.weak = weak
        self.reads = 0


@pytest.mark.parametrize("weak", [False, True])
def test_a_publish_reads_the_state_once_for_all_its_files_if_etags_are_strong(tmp_path: Path, weak: bool) -> None:
    site = site_in(tmp_path, sections=50, airflow=IN_MANY)
    key = until_rendered(site, "shop/tonight")
    store = ReadsOfCurrent(weak=weak)
    done = publish_run(open_run(key, store.around(OUTSIDE)))
    assert done.outcome.written == 51
    assert store.reads > 51 if weak else store.reads <= 2


def test_a_publish_killed_after_its_end_repeats_its_result_on_the_next_try(site: Site) -> None:
    key = until_rendered(site, "shop/tonight")
    first = tasks.publish(key, OUTSIDE)
    written = public_files(site)
    assert tasks.publish(key, OUTSIDE) == first
    assert public_files(site) == written
    assert first["status"] == "published"
    assert not lease(site).exists()


def test_a_task_of_a_run_that_was_published_does_nothing_and_says_so(site: Site) -> None:
    key = until_rendered(site, "shop/tonight")
    tasks.publish(key, OUTSIDE)
    said: list[str] = []
    labels: list[str] = []
    world = replace(OUTSIDE, log=said.append, label=labels.append)
    for task in (tasks.extract, tasks.merge, tasks.collect, tasks.render):
        assert task(key, [0, 1], world) == {}
    for whole in (tasks.build, tasks.align):
        assert whole(key, world) == {}
    for stage in (tasks.buckets, tasks.partition, tasks.clusters):
        assert stage(key, world) == []
    assert len(said) == 9
    assert set(labels) == {"already published"}
    assert all("was published already" in line and "trigger a new run" in line for line in said)
    assert not lease(site).exists()


@pytest.mark.parametrize("stage", ["extract", "render"])
def test_a_failed_task_is_recorded_with_its_error(tmp_path: Path, stage: str) -> None:
    site = site_in(tmp_path, airflow=IN_MANY)
    started = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    if stage == "render":
        tasks.extract(started.key, [0, 1], OUTSIDE)
        tasks.partition(started.key, OUTSIDE)
        for spool in Path(started.key).rglob("*.spool"):
            spool.unlink()
    (tmp_path / "pages0.csv").unlink()
    with pytest.raises(SitemapEtlError) as caught:
        getattr(tasks, stage)(started.key, [0, 1], OUTSIDE)
    (known,) = read_attempts(open_work(site, OUTSIDE), 1)
    assert known.error == str(caught.value)


@pytest.mark.parametrize("stage", ["extract", "merge", "collect", "render"])
def test_a_failed_stage_is_recorded_with_the_error_of_its_unit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    site = site_in(tmp_path, 2, airflow=IN_MANY)
    started = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")

    def refuse(_run: object, _stage: str, n: int, *_given: object, **_options: bool) -> None:
        raise Refused(f"unit {n} is broken")

    monkeypatch.setattr(tasks, "do_unit", refuse)
    monkeypatch.setattr(tasks, "units_of", lambda *_given: [("pages0", "1 of 1"), ("pages1", "1 of 1")])
    with pytest.raises(Refused):
        getattr(tasks, stage)(started.key, [0, 2], OUTSIDE)
    (known,) = read_attempts(open_work(site, OUTSIDE))
    assert (known.status, known.kind, known.error) == ("refused", "refused", "unit 0 is broken")


@pytest.mark.parametrize("kept", [True, False])
def test_a_published_scheduler_run_is_not_planned_again(site: Site, kept: bool) -> None:
    started = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    rendered(started)
    counts = tasks.publish(started.key, OUTSIDE)
    if not kept:  # after two weeks
        shutil.rmtree(started.key)
    change(site)
    before = public_files(site)
    parts = len(started.bundles)
    again = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight", again=LONG_AGO, parts=parts)
    assert again == tasks.Started(started.key, [[0, 0]] * parts)
    assert [tasks.extract(again.key, part, OUTSIDE) for part in again.bundles] == [{}] * parts
    assert tasks.publish(again.key, OUTSIDE) == counts
    assert tasks.engines(again.key, OUTSIDE) == []
    assert public_files(site) == before
    (known,) = read_attempts(open_work(site, OUTSIDE))
    within = datetime.fromisoformat(known.ended) + timedelta(milliseconds=900)
    assert tasks.is_done(site, "shop/tonight", within, OUTSIDE)
    # One that was deleted, and made anew.
    made = datetime.now(UTC) + timedelta(seconds=1)
    assert tasks.start(site, Options(), OUTSIDE, owner="shop/tonight").key != started.key
    assert tasks.start(site, Options(), OUTSIDE, owner="shop/tonight", again=made).key != started.key


def test_a_small_site_has_mapped_tasks_if_an_earlier_try_had_them(tmp_path: Path) -> None:
    """Airflow never starts a task after a mapped task that has lost its instances."""
    site = site_in(tmp_path, airflow=IN_ONE)
    assert tasks.start(site, Options(), OUTSIDE, owner="shop/tonight").bundles == []
    started = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight", parts=3)
    assert started.bundles
    rendered(started)
    assert tasks.publish(started.key, OUTSIDE)["status"] == "published"


def test_rows_read_before_a_later_unchanged_run_are_not_published(site: Site) -> None:
    tasks.publish(until_rendered(site, "shop/1"), OUTSIDE)
    before = public_files(site)
    change(site)
    older = until_rendered(site, "shop/2")
    tasks.abandon(site, "shop/2", OUTSIDE)
    (Path(site.publish.to).parent / "pages0.csv").write_text("loc,lastmod\n/0/a,2026-01-01\n/0/b,2026-01-01\n")
    tasks.publish(until_rendered(site, "shop/3"), OUTSIDE)
    with pytest.raises(Refused, match=r"Overtaken: run \S+, of .*, has read the sources since run .* run again"):
        tasks.publish(older, OUTSIDE)
    assert public_files(site) == before


def test_a_later_run_of_other_sections_does_not_overtake(tmp_path: Path) -> None:
    site = site_in(tmp_path, sections=2, airflow=IN_MANY)
    tasks.publish(until_rendered(site, "shop/1"), OUTSIDE)
    change(site)
    started = tasks.start(site, Options(sections=("pages0",)), OUTSIDE, owner="shop/2")
    rendered(started)
    tasks.abandon(site, "shop/2", OUTSIDE)
    other = tasks.start(site, Options(sections=("pages1",)), OUTSIDE, owner="shop/3")
    rendered(other)
    assert tasks.publish(other.key, OUTSIDE)["status"] == "unchanged"
    assert tasks.publish(started.key, OUTSIDE)["status"] == "published"


def test_ping_of_a_finished_run_whose_folder_is_gone_does_nothing(site: Site) -> None:
    key = until_rendered(site, "shop/1")
    tasks.publish(key, OUTSIDE)
    shutil.rmtree(key)
    assert tasks.ping(key, [0], OUTSIDE) == {}


def test_a_finished_dry_run_stays_as_shown_but_can_be_planned_again(site: Site) -> None:
    key = until_rendered(site, "shop/tonight", dry_run=True)
    shown = tasks.publish(key, OUTSIDE)
    assert tasks.render(key, [0, 1], OUTSIDE) == {}
    assert tasks.publish(key, OUTSIDE) == shown
    assert not lease(site).exists()
    again = tasks.start(site, Options(dry_run=True), OUTSIDE, owner="shop/tonight", again=LONG_AGO)
    assert again.key != key
    tasks.abandon(site, "shop/tonight", OUTSIDE)
    done = publish_locally(site, key.rpartition("/")[2], OUTSIDE, force=(), reason=None, adopt=False)
    assert done.summary.status == "published"


def test_every_task_can_be_repeated(site: Site) -> None:
    started = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight")
    assert rendered(started) == rendered(started)
    assert tasks.publish(started.key, OUTSIDE)["sections"]["pages0"]["listed"] == 2


def test_values_passed_between_tasks_are_json(site: Site) -> None:
    key = until_rendered(site, "shop/tonight")
    published = tasks.publish(key, OUTSIDE)
    assert json.loads(json.dumps(published)) == published
    assert tasks.engines(key, OUTSIDE) == []


def test_one_task_and_many_tasks_publish_the_same(tmp_path: Path) -> None:
    sets = []
    for keys in (IN_ONE, IN_MANY):
        folder = tmp_path / str(keys["small"])
        folder.mkdir()
        site = site_in(folder, 3, airflow=keys)
        started = tasks.start(site, Options(), OUTSIDE, most=2)
        assert len(started.bundles) == (0 if keys is IN_ONE else 2)
        rendered(started)
        tasks.publish(started.key, OUTSIDE)
        public = Path(site.publish.to)
        sets.append({path.name: path.read_bytes() for path in public.glob("sitemap-*")})
    assert sets[0] == sets[1]
    assert len(sets[0]) == 3


def test_the_task_for_clusters_returns_the_number_of_rows_in_clusters(tmp_path: Path) -> None:
    rule = {"group": "item", "hreflang": "lang"}
    site = site_in(tmp_path, airflow=IN_MANY, database={"from": {"csv": "../walks.csv"}, "alternates": rule})
    rows = "".join(f"/{lang}/{n},i{n},{lang}\n" for n in range(5) for lang in ("de", "en"))
    (tmp_path / "walks.csv").write_text(f"loc,item,lang\n{rows}/alone,,\n")
    started = tasks.start(site, Options(), OUTSIDE, owner="run-1")
    key = started.key
    for part in started.bundles:
        tasks.extract(key, part, OUTSIDE)
    tasks.partition(key, OUTSIDE)
    found = [tasks.collect(key, part, OUTSIDE) for part in tasks.clusters(key, OUTSIDE)]
    assert found == [{"members": 10}]


def test_a_dag_without_the_task_for_new_clusters_publishes_nothing(tmp_path: Path) -> None:
    """Tasks may read a site file with new `alternates` before the DAG is parsed again."""
    keys = {"alternates": {"group": "group", "hreflang": "language"}}
    site = site_in(tmp_path, airflow=IN_MANY, database={"from": {"csv": "../walks.csv"}, **keys})
    rows = "".join(f"/{language}/a,a,{language}\n" for language in ("de", "en"))
    (tmp_path / "walks.csv").write_text(f"loc,group,language\n{rows}")
    with pytest.raises(Refused, match=r"align\.json is missing: run .* did not get .*, or the site file was changed"):
        rendered(tasks.start(site, Options(), OUTSIDE, owner="shop/one"))


def test_ids_of_a_hundred_runs_in_one_second_are_in_order() -> None:
    ids = [""]
    for _ in range(100):
        ids.append(new_run_id(FIRST_NIGHT, after=ids[-1]))
    assert ids == sorted(set(ids))
    assert re.fullmatch(r"20261101T020000Z-[0-9a-f]{4}", ids[-1])


def test_the_state_folder_is_opened_with_durable_writes_by_default(tmp_path: Path) -> None:
    """With both in S3, conditional writes are off there too: it is probably the same store."""
    site = site_in(tmp_path, work="s3://bucket/work", publish={"to": "s3://bucket/www", "conditional_writes": False})
    asked: list[dict[str, Any]] = []

    def opened(url: str, **options: Any) -> Storage:
        asked.append(options)
        return open_storage(str(tmp_path / "there"))

    outside = replace(OUTSIDE, open_storage=opened)
    open_work(site, outside)
    open_work(site, outside, durable=False)
    open_work(site.model_copy(update={"work": str(tmp_path / "work")}), outside)
    assert [one["durable"] for one in asked] == [True, False, True]
    assert [one.get("conditional_writes") for one in asked] == [False, False, None]


def test_a_retried_task_does_only_the_remaining_work(tmp_path: Path) -> None:
    site = site_in(tmp_path, 3, airflow=IN_MANY)
    started = tasks.start(site, Options(), OUTSIDE, most=1)
    (tmp_path / "pages1.csv").rename(tmp_path / "away.csv")
    with pytest.raises(Unavailable, match="is gone"):
        rendered(started)
    first = Path(started.key) / "extract" / "0.json"
    left = first.read_bytes(), first.stat().st_mtime_ns
    (tmp_path / "away.csv").rename(tmp_path / "pages1.csv")
    assert rendered(started)[0]["rows"] == 6
    assert (first.read_bytes(), first.stat().st_mtime_ns) == left


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 1_000, 1_280, 12_800])
def test_a_stage_has_a_bounded_number_of_tasks_and_does_each_unit_once(count: int) -> None:
    found = bundles(count)
    assert [n for part in found for n in range(*part)] == list(range(count))
    assert len(found) == min(count, MOST)
    sizes = {past - first for first, past in found}
    assert max(sizes, default=0) - min(sizes, default=0) <= 1
    assert len(json.dumps(found)) < 4_000


@pytest.mark.parametrize(
    ("part", "name"),
    [
        ([0, 1], "a 1 of 3"),
        ([1, 3], "a 2-3 of 3"),
        ([2, 5], "a 3 of 3, b 1-2 of 2"),
        ([0, 8], "a 1-3 of 3, b 1-2 of 2, c 1 of 1 and 2 more"),
    ],
)
def test_a_task_is_named_after_its_sections_and_their_parts(part: list[int], name: str) -> None:
    assert called(["a", "a", "a", "b", "b", "c", "d", "e"], part) == name


def test_values_stored_by_a_scheduler_for_many_sections_are_small(tmp_path: Path) -> None:
    site = site_in(tmp_path, 60, airflow=IN_ONE)
    key = until_rendered(site, "shop/tonight")
    published = tasks.publish(key, OUTSIDE)
    assert published["total"]["listed"] == 120
    assert len(json.dumps(published)) < 4_000


@pytest.mark.parametrize("stage", ["partition", "render"])
def test_a_killed_single_task_has_all_rows_when_it_is_retried(tmp_path: Path, stage: str) -> None:
    class Killed(BaseException):
        pass

    def kill(name: str, _done: int, _total: int) -> None:
        if name == stage:
            raise Killed

    site = site_in(tmp_path, airflow=IN_ONE)
    key = tasks.start(site, Options(), OUTSIDE, owner="shop/tonight").key
    with pytest.raises(Killed):
        tasks.build(key, replace(OUTSIDE, advance=kill))
    tasks.build(key, OUTSIDE)
    tasks.publish(key, OUTSIDE)
    assert Path(site.publish.to, "sitemap-pages0-00001.xml.gz").exists()


def test_a_site_is_small_if_its_last_number_of_rows_was_small(tmp_path: Path) -> None:
    def is_small(site: Site) -> bool:
        return not tasks.start(site, Options(), OUTSIDE, owner="shop/tonight").bundles

    site = site_in(tmp_path, airflow={"small": 1})
    rows = "".join(f"/0/{n},2026-01-01\n" for n in range(10))
    (tmp_path / "pages0.csv").write_text(f"loc,lastmod\n{rows}")  # 10 rows, 190 bytes: about 4
    assert not is_small(site)
    small = site.model_copy(update={"airflow": site.airflow.model_copy(update={"small": 5})})
    assert is_small(small)
    key = tasks.start(small, Options(), OUTSIDE, owner="shop/tonight").key
    tasks.build(key, OUTSIDE)
    tasks.publish(key, OUTSIDE)
    assert not is_small(small)  # 10 rows were published


@pytest.mark.parametrize("parts", [1, 2])
def test_an_unpublished_database_source_counts_as_small_unless_it_is_split(tmp_path: Path, parts: int) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as database, database:
        database.execute("CREATE TABLE pages AS SELECT 1 AS id, '/a' AS loc UNION SELECT 2, '/b'")
    source = {"database": "shop", "query": "SELECT id, loc FROM pages", "split": {"column": "id", "parts": parts}}
    site = site_in(tmp_path, database={"from": source})
    world = Environment(environ={"AIRFLOW_CONN_SHOP": f"sqlite:///{tmp_path / 'shop.sqlite'}"})
    assert len(tasks.start(site, Options(), world).bundles) == (0 if parts == 1 else parts)
