"""Requests of a dead run that reach the store long after another run has published: they change no listed page.

This uses the real publish with a store in memory. A run dies at one of its writes. That request, and those of its other
threads, arrive before one of the requests of the next run, after it, or on a later day.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import DamagedState
from sitemap_etl.publish.claim import Overtaken
from sitemap_etl.publish.publish import publish
from sitemap_etl.publish.summary import finish_run
from sitemap_etl.runs.history import published_sets
from sitemap_etl.runs.local import run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.runs.verify import verify_state
from sitemap_etl.stages.run import open_run, open_work
from sitemap_etl.state.codec import seal, unseal
from sitemap_etl.state.lease import release_lease, take_lease
from sitemap_etl.state.records import Current, Manifest, Options
from sitemap_etl.state.store import State
from tests.support.crash import ORIGIN, listed, locs_of, prepare
from tests.support.examples import ALL
from tests.support.late import DAY, Request, Store
from tests.support.sites import FIRST_NIGHT, TestSite, content
from tests.support.storages import Died

Rows = list[dict[str, Any]]
LOOSE = {"max_drop": 1, "max_growth": 99, "min_urls": 0}
OLD, NEW = "2026-10-01", "2026-11-02"
STEP = int(os.environ.get("SITEMAP_ETL_LATE_STEP", "0"))
"""1 lets the requests arrive before every single request of the run that takes over."""


def family(prefix: str, numbers: Sequence[int], changed: Sequence[int] = ()) -> Rows:
    return [{"loc": f"/{prefix}/{n:04}", "lastmod": NEW if n in changed else OLD} for n in numbers]


BASE = {"p": family("p", range(0, 160, 4)), "q": family("q", range(20)), "gone": family("g", range(4))}
GROWN = {  # a split, an edit, rows that change places both ways, a section that goes
    "p": [*family("p", sorted({*range(0, 156, 4), *range(1, 60, 4)}), changed=[120]), *family("q", [3])],
    "q": [row for row in family("q", range(20)) if row["loc"] != "/q/0003"] + family("p", [156]),
}
OTHER = {  # another file is split, other rows move
    "p": [*family("p", sorted({*range(0, 160, 4), *range(101, 160, 4)}))[2:]],
    "q": family("q", range(20)) + family("p", [4]),
    "gone": family("g", range(4)),
}
CIRCLE = {  # a page of each goes to the next
    "p": [*family("p", range(0, 156, 4)), *family("q", [3])],
    "q": [row for row in family("q", range(20)) if row["loc"] != "/q/0003"] + family("g", [0]),
    "gone": family("g", range(1, 4)) + family("p", [156]),
}
EXCHANGED = locs_of(family("q", [3]), family("p", [4, 156]), family("g", [0]))
"""Pages that files give to each other. No file lists one of them until the last of these files is written."""
NIGHTS: dict[str, dict[str, Rows]] = {"base": BASE, "grown": GROWN, "other": OTHER, "circle": CIRCLE}


@dataclass
class World:
    """A site on the store. `kept`: the store after the first night."""

    site: TestSite
    store: Store
    kept: dict[str, Any] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    seen: dict[frozenset[tuple[str, str]], set[str]] = field(default_factory=dict)

    @property
    def environment(self) -> Any:
        return self.store.around(self.site.environment)

    @property
    def address(self) -> str:
        return str(self.site.folder / "public")

    def source(self, night: str) -> None:
        exports = NIGHTS[night]
        self.site.keys["sections"] = {}
        for name, rows in exports.items():
            keys: dict[str, Any] = {"shards": {"rows": 20, "fill": 0.9}, "gates": LOOSE}
            if name == "q":
                keys["formats"] = ["xml", "text"]
            if name == "gone":
                keys["feed"] = {"formats": ["rss"], "title": "Gone", "items": 3}
            self.site.section(name, rows, **keys)

    def prepare(self, name: str, night: str, day: int) -> None:
        """Render a run of a source; it can be published any number of times."""
        self.source(night)
        self.store.now = FIRST_NIGHT + day * DAY
        self.store.begin()
        staging = f"/staging/{name}"
        run = prepare(self.site.load(), self.environment, self.store.now, self.environment.open_storage(staging))
        release_lease(run.work, run.run_id)
        self.runs[name] = staging

    def publish(self, name: str, day: int, **how: Any) -> str:
        """Publish it, in a process of its own."""
        self.store.now = FIRST_NIGHT + day * DAY
        self.store.begin(**how)
        run = open_run("", self.environment, staging=self.environment.open_storage(self.runs[name]))
        try:
            take_lease(run.work, run.run_id)
            status = finish_run(run, publish(run)).status
            release_lease(run.work, run.run_id)
        except Died:
            return "died"
        except Overtaken:
            return "overtaken"
        return status

    def night(self, night: str, day: int) -> str:
        self.source(night)
        self.store.now = FIRST_NIGHT + day * DAY
        self.store.begin()
        return run_locally(self.site.load(), Options(), self.environment, jobs=1, now=self.store.now).summary.status

    def roll_back(self, day: int) -> str:
        self.store.now = FIRST_NIGHT + day * DAY
        self.store.begin()
        site = self.site.load()
        first = published_sets(site, self.environment)[-1].run_id
        return roll_back(site, first, self.environment, reason="test", now=self.store.now).summary.status

    def objects(self) -> dict[str, bytes]:
        return self.store.below(self.address)

    def listed(self) -> set[str]:
        """Return what a crawler finds. Raises AssertionError if an index names a missing or incomplete file."""
        below = f"{self.address}/"
        version = frozenset((url, found[1]) for url, found in self.store.objects.items() if url.startswith(below))
        if version not in self.seen:
            self.seen[version] = set(listed(self.store.below(self.address)))
        return self.seen[version]

    def state(self) -> tuple[Current, Manifest]:
        self.store.begin()
        site = self.site.load()
        state = State(open_work(site, self.environment), site.name, site.site)
        current = state.current()
        manifest = state.manifest(current.manifest)
        assert manifest is not None
        return current, manifest

    def agrees(self) -> None:
        """Check that every file of the manifest exists as recorded."""
        _, manifest = self.state()
        for file in manifest.files():
            found = self.store.stat(f"{self.address}/{file.key}")
            assert found is not None, file.key
            assert (found.etag, found.size) == (file.etag, file.stored), file.key


def locs(night: str) -> set[str]:
    return locs_of(*NIGHTS[night].values())


@pytest.fixture
def world(tmp_path: Path) -> World:
    site = TestSite(tmp_path, site=ORIGIN, gates=LOOSE)
    made = World(site, Store(FIRST_NIGHT))
    made.source("base")
    made.environment.open_storage(made.address).put("robots.txt", b"User-agent: *\n")
    assert made.night("base", 0) == "published"
    made.kept = made.store.keep()
    return made


@dataclass
class Trial:
    """Run a dies at one of its writes; its late requests arrive before a request of run b.

    `first`, `then`: their sources; a runs on day `day`, b on the next one.
    """

    world: World
    then: str
    first: str = "grown"
    day: int = 1
    late: list[Request] = field(default_factory=list)
    arrived: list[Request] = field(default_factory=list)
    pairs: int = 0
    landed: int = 0

    def __post_init__(self) -> None:
        before = self.world.listed()
        self.world.prepare("a", self.first, self.day)
        self.world.prepare("b", self.then, self.day + 1)
        self.kept = self.world.store.keep()
        assert self.world.publish("a", self.day) == "published"
        writes = self.world.store.writes
        self.deletes = [what.rpartition("/")[2] if what.startswith("-") else "" for what in writes]
        self.count = max(n for n, what in enumerate(writes, 1) if what.endswith("/current.json"))
        self.always = before & locs(self.first) & locs(self.then)

    def valid(self) -> None:
        missing = self.always - self.world.listed() - EXCHANGED
        assert not missing, sorted(missing)

    def die(self, kill: int) -> None:
        self.world.store.restore(self.kept)
        assert self.world.publish("a", self.day, kill=kill) == "died"
        self.late, self.broken = self.world.store.late, self.world.store.keep()
        self.valid()

    def arrive(self) -> None:
        self.arrived.extend(self.world.store.arrives_late(self.late))

    def take_over(self, at: int) -> bool:
        """Let requests arrive before request `at`; return whether there was such a request."""
        self.world.store.restore(self.broken)
        self.arrived.clear()
        status = self.world.publish("b", self.day + 1, at=at, then=self.arrive, after_write=self.valid)
        if at > self.world.store.requests:
            return False
        self.pairs += 1
        self.landed += bool(self.arrived)
        if status == "overtaken":  # the dead run's own claim, or its commit, was on its way
            assert any(request.url.endswith("/current.json") for request in self.arrived)
            assert self.world.night(self.then, self.day + 1) in ("published", "unchanged")
        else:
            assert status in ("published", "unchanged")
        assert self.world.listed() == locs(self.then), (at, self.late, self.arrived)
        self.world.agrees()
        return True


@pytest.mark.thorough
@pytest.mark.parametrize("then", ["base", "grown", "other"])
def test_late_requests_of_a_dead_run_are_harmless_between_any_requests_of_the_next_run(world: World, then: str) -> None:
    trial = Trial(world, then)
    step = STEP or 37
    for kill in range(1, trial.count + 1, 1 if STEP or ALL else 4):
        trial.die(kill)
        at = 1 + kill % step
        while trial.take_over(at):
            at += step
    print(f"{trial.pairs:,} pairs of a death and an arrival; in {trial.landed:,} of them a condition held")
    assert trial.landed


@pytest.mark.parametrize("conditional_delete", [True, pytest.param(False, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "then", ["base", *(pytest.param(then, marks=pytest.mark.thorough) for then in ("grown", "other"))]
)
def test_requests_that_arrive_after_the_next_run_change_no_listed_page(
    world: World, then: str, *, conditional_delete: bool
) -> None:
    """Nor in later runs: an unchanged one, one that restores bytes, a rollback. Then the record is deleted."""
    world.store.conditional_delete = conditional_delete
    trial = Trial(world, then)
    for kill in range(1, trial.count + 1, 1 if STEP else 3 if ALL else 7):
        trial.die(kill)
        assert world.publish("b", 2) in ("published", "unchanged")
        after = world.store.keep()
        nights: list[Callable[[], Any]] = [
            lambda: None,
            lambda: world.night(then, 3),
            lambda: world.night("base", 3),
            lambda: world.roll_back(3),
        ]
        for night in nights if STEP else nights[kill // 3 % 4 :][:1]:
            world.store.restore(after)
            night()
            before, said = world.listed(), world.state()[1]
            trial.arrive()
            assert world.listed() == before, (kill, trial.late)
            assert world.state()[1] == said
            world.agrees()
            # Whatever they left lying about is gone in the end, and nothing is suspect any more.
            for day in (5, 8, 11, 14):
                world.night("base", day)
                assert world.listed() == locs("base")
            current, manifest = world.state()
            assert (dict(current.suspect), current.pending, manifest.retired) == ({}, None, ())
            keys = {file.key for file in manifest.files()} | {"robots.txt"}
            assert world.objects().keys() == keys
            assert world.night("base", 15) == "unchanged"


@pytest.mark.thorough
def test_a_late_delete_does_not_remove_a_file_that_is_published_again(world: World) -> None:
    """The files have expired when run a deletes them; run b lists the feed again, with the same bytes."""
    assert world.night("grown", 1) == "published"
    trial = Trial(world, "base", day=4)
    step = STEP or 17
    for kill in range(1, trial.count + 1, 1 if STEP or ALL else 4):
        trial.die(kill)
        feed = world.objects().get("gone.rss.xml")
        at = 1 + kill % step
        while trial.take_over(at):
            at += step
            assert feed is None or content("gone.rss.xml", world.objects()["gone.rss.xml"]) == feed
    assert trial.landed


def test_a_file_deleted_late_by_a_store_without_conditions_is_written_by_the_next_run(world: World) -> None:
    world.store.conditional_delete = False
    assert world.night("grown", 1) == "published"
    trial = Trial(world, "base", day=4)
    trial.die(trial.deletes.index("gone.rss.xml") + 1)
    assert world.publish("b", 5) == "published"
    trial.arrive()
    assert "gone.rss.xml" not in world.objects()
    assert world.night("base", 6) == "published"
    assert "gone.rss.xml" in world.objects()
    world.agrees()


@pytest.mark.parametrize("night", ["grown", "circle"])
def test_only_pages_exchanged_between_files_can_be_unlisted_during_a_publish(world: World, night: str) -> None:
    """In both directions, and in a cycle of three."""
    always = locs("base") & locs(night)
    missing: set[str] = set()
    world.prepare("a", night, 1)
    status = world.publish("a", 1, after_write=lambda: missing.update(always - world.listed()))
    assert (status, world.listed()) == ("published", locs(night))
    assert missing <= EXCHANGED
    files = {file.key for file in world.state()[1].files()} | {item.key for item in world.state()[1].retired}
    assert world.objects().keys() == {*files, "robots.txt"}
    assert world.night(night, 2) == "unchanged"
    world.agrees()


def test_an_interrupted_publish_of_an_earlier_version_is_completed(world: World) -> None:
    """While pages changed places, that version listed a copy of a file under the section's next number."""
    world.prepare("a", "circle", 1)
    world.prepare("b", "circle", 2)
    kept = world.store.keep()
    assert world.publish("a", 1) == "published"
    first = next(n for n, url in enumerate(world.store.writes, 1) if url.startswith(world.address))
    world.store.restore(kept)
    assert world.publish("a", 1, kill=first) == "died"

    current, manifest = world.state()
    number = manifest.sections["p"].next_number
    copy = f"sitemap-p-{number:05}.xml.gz"
    intent = next(url for url in world.store.objects if url.endswith(f"/{current.pending}"))
    body = unseal(world.store.objects[intent][0], intent)
    hashes = {"old_etag": None, "old_sha256": None, "new_sha256": None}
    body |= {
        "format": 2,
        "writes": dict.fromkeys([copy, *body["writes"]], hashes),
        "numbers": {**body["numbers"], "p": number + 1},
    }
    index = world.objects()["sitemap.xml"]
    entry = f"<sitemap><loc>{ORIGIN}/{copy}</loc></sitemap></sitemapindex>".encode()
    for url, data in [
        (intent, seal(body)),
        (f"{world.address}/{copy}", world.objects()["sitemap-p-00001.xml.gz"]),
        (f"{world.address}/sitemap.xml", index.replace(b"</sitemapindex>", entry)),
    ]:
        world.store.arrive(Request(url, data, None))
    world.seen.clear()
    assert world.listed() >= locs("base")

    assert world.publish("b", 2) == "published"
    assert world.listed() == locs("circle")
    assert copy.encode() not in world.objects()["sitemap.xml"]
    assert world.state()[1].sections["p"].next_number == number + 1
    assert world.night("circle", 5) == "published"
    assert copy not in world.objects()
    world.agrees()


def test_every_version_of_current_json_has_different_bytes(world: World) -> None:
    """Otherwise the condition of a late claim, or a late commit, would be met."""
    versions: list[str] = []

    def note() -> None:
        found = [(url, value[1]) for url, value in world.store.objects.items() if url.endswith("/state/current.json")]
        if not versions or versions[-1] != found[0][1]:
            versions.append(found[0][1])

    world.prepare("a", "base", 1)
    world.prepare("b", "base", 2)
    kept = world.store.objects
    staged = {url: value for url, value in kept.items() if url.startswith("/staging/")}
    for name, day in (("a", 1), ("b", 2), ("a", 1), ("b", 2), ("a", 1)):
        world.store.objects.update(staged)
        assert world.publish(name, day, after_write=note) == "unchanged"
    assert len(versions) == len(set(versions)) == 6


def test_a_damaged_record_of_an_interrupted_publish_is_reported_and_forgotten_by_a_repair(world: World) -> None:
    trial = Trial(world, "other")
    trial.die(trial.count - 1)
    assert world.publish("b", 2) == "published"
    (key,) = world.state()[0].suspect
    url = next(url for url in world.store.objects if url.endswith(key))
    data, etag, modified = world.store.objects[url]
    world.store.objects[url] = (data[:-20], etag, modified)
    with pytest.raises(DamagedState, match="intent-"):
        world.night("other", 3)
    world.store.begin()
    site = world.site.load()
    found = verify_state(site, world.environment)
    assert [broken.key for broken in found.broken] == [url]
    assert verify_state(site, world.environment, repair=True).sound
    assert not world.state()[0].suspect
    assert world.night("other", 3) == "unchanged"


def test_keys_of_an_interrupted_publish_are_verified_until_two_days_later(world: World) -> None:
    trial = Trial(world, "other")
    trial.die(trial.count - 1)
    assert world.publish("b", 2) == "published"
    assert len(world.state()[0].suspect) == 1
    assert world.night("other", 3) == "unchanged"
    assert len(world.state()[0].suspect) == 1
    url = f"{world.address}/sitemap-q-00001.xml.gz"
    world.store.objects[url] = (b"something", "other", world.store.now)
    assert world.night("other", 5) == "published", "repaired, by a run that did not see it clean"
    assert world.listed() == locs("other")
    assert len(world.state()[0].suspect) == 1
    assert world.night("other", 6) in ("unchanged", "published")
    assert not world.state()[0].suspect
