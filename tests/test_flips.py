"""Everything that is read is verified: a flipped bit in an object of `work` changes nothing, or is reported by name."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from sitemap_etl.errors import DamagedState, SitemapEtlError
from sitemap_etl.explain.explain import explain
from sitemap_etl.publish.publish import publish
from sitemap_etl.publish.summary import finish_run
from sitemap_etl.runs.history import published_sets
from sitemap_etl.runs.local import ping_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.runs.verify import verify_state
from sitemap_etl.stages.clusters import align, cluster_units, collect_members
from sitemap_etl.stages.extract import extract_split
from sitemap_etl.stages.merge import merge_bucket, plan_merge
from sitemap_etl.stages.partition import partition
from sitemap_etl.stages.plan import start_run
from sitemap_etl.stages.render import render_group
from sitemap_etl.stages.run import Run, open_run
from sitemap_etl.stages.transform import transform_split
from sitemap_etl.state import layout
from sitemap_etl.state.lease import release_lease
from sitemap_etl.state.records import Options
from tests.support.catalog import Catalog
from tests.support.examples import kind_of_key, sample
from tests.support.sites import FIRST_NIGHT, pages

READ_BY_PEOPLE = ("report.html", ".gitignore")
RULE = {"group": "pair", "hreflang": "lang"}


@pytest.fixture
def site(tmp_path: Path) -> Catalog:
    """Every kind of object: a mirror, clusters, percentiles, feeds, rows that are not listed, pending engines."""
    site = Catalog(tmp_path, gates={"max_drop": 1, "max_growth": 9, "max_rejected": 1})
    site.keys["ping"] = {"http_ping": {"url": "http://127.0.0.1:9/?s={sitemap}", "patience": 0}}
    site.table("pages", 60)
    site.sql("UPDATE pages SET pair = id / 2, lang = CASE id % 2 WHEN 0 THEN 'en' ELSE 'de' END")
    select = "SELECT id, loc, lastmod, exclude, sold, lang, pair FROM pages"
    site.read("pages", select, shards={"rows": 30}, priority={"percentile_of": "sold"}, alternates=RULE)
    site.section("news", [*NEWS, ELSEWHERE], feed={"title": "News", "items": 5})
    site.section("prints", [*PRINTS, *PRINTS[:3]], lastmod={"fingerprint": ["body"]}, formats=["xml", "text"])
    return site


ELSEWHERE = {"loc": "https://elsewhere.example/"}
NEWS = [*pages(30, lastmod="2026-10-01"), *pages(3, 30, exclude="sold out")]
PRINTS = pages(30, 900, body="x")

Stage = Callable[[Run], object]


def units(count: Callable[[Run], int], stage: Callable[[Run, int], object]) -> Stage:
    return lambda run: [stage(run, n) for n in range(count(run))]


STAGES: dict[str, Stage] = {
    "extract": units(lambda run: len(run.plan.units), extract_split),
    "transform": units(lambda run: len(run.plan.units), transform_split),
    "plan of merge": plan_merge,
    "merge": units(lambda run: len(plan_merge(run).units), merge_bucket),
    "partition": partition,
    "collect": lambda run: [collect_members(run, n) for n in cluster_units(run)],
    "align": align,
    "render": units(lambda run: len(partition(run).units), render_group),
    "publish": lambda run: finish_run(run, publish(run)),
}


class Place:
    """A folder that can be restored."""

    def __init__(self, site: Catalog, kept: Path) -> None:
        self.live = [site.folder / "work", site.folder / "public"]
        self.kept = kept

    def keep(self, name: str) -> None:
        for folder in self.live:
            if folder.exists():
                shutil.copytree(folder, self.kept / name / folder.name)

    def restore(self, name: str) -> None:
        for folder in self.live:
            shutil.rmtree(folder, ignore_errors=True)
            if (self.kept / name / folder.name).exists():
                shutil.copytree(self.kept / name / folder.name, folder)

    def files(self) -> dict[str, Path]:
        work = self.live[0]
        found = {str(path.relative_to(work)): path for path in sorted(work.rglob("*")) if path.is_file()}
        return {key: path for key, path in found.items() if not key.endswith(READ_BY_PEOPLE)}


def flip(path: Path, seed: object) -> None:
    data = bytearray(path.read_bytes())
    if data:
        bit = random.Random(f"{path.name.partition('-')[0]}{seed}").randrange(len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        path.write_bytes(data)


def told(act: Callable[[], object], key: str) -> bool:
    """Return whether the object was refused by its name; other errors are failures."""
    error: SitemapEtlError | None = None
    try:
        act()
    except SitemapEtlError as raised:
        error = raised
    assert error is None or (isinstance(error, DamagedState) and key.rpartition("/")[2] in str(error)), (key, error)
    return error is not None


def staged(site: Catalog, place: Place, night: int) -> Iterator[tuple[str, str, str]]:
    """Return the stages of a run one by one: the next action, an existing object, and the run's id."""
    now = site.store.time = FIRST_NIGHT + timedelta(days=night - 1)
    environment = site.store.around(site.environment)
    run = start_run(site.load(), Options(), environment, now=now)
    for stage, work in STAGES.items():
        place.keep(stage)
        yield from ((stage, key, run.run_id) for key in place.files())
        place.restore(stage)
        work(run)
        run = open_run(run.staging.url, environment, staging=run.staging)
    release_lease(run.work, run.run_id)


@pytest.mark.thorough
def test_a_flipped_bit_between_stages_is_reported_or_changes_no_published_byte(site: Catalog, tmp_path: Path) -> None:
    place = Place(site, tmp_path / "kept")
    site.night(1)
    change(site)
    seen = list(staged(site, place, 2))
    finished = site.public().contents()
    # What lay there at the stage before is no other object now, and is read by the same code.
    first = {key: stage for stage, key, _ in reversed(seen)}
    cases = [(stage, key) for stage, key, _ in seen if stage in (first[key], "publish")]
    refused: set[str] = set()
    for stage, key in sample(cases, lambda case: (case[0] == "publish", kind_of_key(case[1]))):
        # A bit of a spool may lie in what nobody reads, such as its end.
        for seed in range(3 if key.endswith((".spool", ".index")) else 1):
            place.restore(stage)
            flip(place.files()[key], seed)
            if told(lambda at=stage: go_on(site, seen[0][2], at), key):  # type: ignore[misc]
                refused.add(key)
                break
            assert site.public().contents() == finished, (stage, key)
    endings = {key.rpartition("-")[2] if key.endswith(".parquet") else key.rpartition(".")[2] for key in refused}
    assert {"spool", "json", "index", "signals", "xml", "txt"} <= endings
    assert {"excluded.parquet", "rejected.parquet", "duplicates.parquet", "top.parquet"} <= endings
    assert [key for key in refused if "/extract/" in key and key.endswith(".parquet")], "raw rows"
    assert {"arrow", "changes.parquet"} <= endings


def go_on(site: Catalog, run_id: str, stage: str) -> None:
    """Complete a run from this stage on, in a process that has read nothing yet."""
    environment = site.store.around(site.environment)
    staging = environment.open_storage(str(site.folder / "work" / "shop" / layout.run_folder(run_id)))
    names = list(STAGES)
    for name in names[names.index(stage) :]:
        STAGES[name](open_run(staging.url, environment, staging=staging))


def change(site: Catalog) -> None:
    """Make the changes before the second run."""
    site.sql("UPDATE pages SET lastmod = '2026-10-05', touched = '2026-11-01T12:00' WHERE id < 5")
    site.sql("UPDATE pages SET sold = 99, touched = '2026-11-01T12:00' WHERE id = 50")
    site.export("prints", [*PRINTS[2:], *PRINTS[2:5]])
    site.export("news", [*NEWS, *pages(1, 40, lastmod="2026-10-30"), ELSEWHERE])


@pytest.mark.thorough
def test_a_flipped_bit_in_the_state_is_reported_or_changes_nothing(site: Catalog, tmp_path: Path) -> None:
    """Run everything that reads it: the next run, explain, history, a rollback, state verify."""
    place = Place(site, tmp_path / "kept")
    first = ping_locally(site.night(1), site.environment)
    change(site)
    ping_locally(site.night(2), site.environment)
    assert first.status == "partial", "the engine does not answer"
    place.keep("two nights")
    site.export("news", NEWS)
    urls = [f"{site.origin}/p/000031", f"{site.origin}/pages/003", "/p/000000"]
    oldest = published_sets(site.load(), site.environment)[-1].run_id

    def roll() -> object:
        environment = site.store.around(site.environment)
        return roll_back(site.load(), oldest, environment, reason="x", now=FIRST_NIGHT + timedelta(days=2))

    acts: dict[str, Callable[[], object]] = {
        "night": lambda: ping_locally(site.night(3), site.environment),
        "rollback": roll,
        "explain": lambda: explain(site.load(), urls, site.environment),
        "history": lambda: published_sets(site.load(), site.environment),
    }
    wanted, answers = {}, {}
    for name, act in acts.items():
        answers[name] = repr(act())
        wanted[name] = site.public().contents()
        place.restore("two nights")
    refused = set()
    # One flip may be in what nobody reads: of what people or other nights read all objects are tried.
    whole = ("/mirrors/", f"/{layout.REPORTS}")
    for key in sample(place.files(), lambda key: key if any(part in key for part in whole) else kind_of_key(key)):
        for name, act in acts.items():
            flip(place.files()[key], name)
            answer: list[object] = []
            if told(lambda act=act, answer=answer: answer.append(act()), key):  # type: ignore[misc]
                refused.add(key)
            else:
                assert site.public().contents() == wanted[name], (name, key)
                # Nothing rests on what explain says: it knows less of a run whose report, or rows, are damaged.
                less = name == "explain" and (f"/{layout.REPORTS}" in key or f"/{layout.SNAPSHOTS}" in key)
                assert name in ("night", "rollback") or less or repr(answer[0]) == answers[name], (name, key)
            place.restore("two nights")
        flip(place.files()[key], "verify")
        broken = verify_state(site.load(), site.environment).broken
        assert {one.key.endswith(key.partition("/")[2]) for one in broken} <= {True}, key
        place.restore("two nights")
    assert {key.split("/")[2] for key in refused if "/state/" in f"/{key}"} >= {"snapshots", "mirrors", "current.json"}
    assert {"rejected.parquet", "excluded.parquet"} <= {key.rpartition("/")[2] for key in refused}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b'{"waiting":[{"run":"r"}]}',
        *(
            pytest.param(body, marks=pytest.mark.thorough)
            for body in (b"", b"[]", b'{"format":7}', b'{"waiting":7}', b'{"owed":{"x":["y"]}}')
        ),
    ],
)
def test_a_broken_ledger_never_fails_a_run_that_published(site: Catalog, body: bytes) -> None:
    site.keys["ping"]["indexnow"] = {"key": "0123456789abcdef", "endpoint": "http://127.0.0.1:9/", "patience": 0}
    lines: list[str] = []
    site.environment = replace(site.environment, log=lines.append)
    for night in (1, 2):
        ping_locally(site.night(night), site.environment)
        ledgers = site.folder / "work" / "shop" / "state" / "ledger"
        ledgers.mkdir(exist_ok=True)
        for engine in ("indexnow", "http_ping"):
            (ledgers / f"{engine}.json").write_bytes(body)
        change(site)
    done = site.night(3)
    assert done.summary.status in ("published", "unchanged")
    assert ping_locally(done, site.environment).status == "partial"
