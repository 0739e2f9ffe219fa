"""Kills at any write: the public files stay valid, and the next run ends like an undisturbed one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.runs.verify import verify_state
from tests.support.crash import Laboratory, World, listed, locs_of
from tests.support.examples import ALL, kind_of_key, sample
from tests.support.fixtures import reachable
from tests.support.s3 import S3Server

Rows = list[dict[str, Any]]
SMALL = {"rows": 20, "fill": 0.9}
LOOSE = {"max_drop": 1, "max_growth": 99, "min_urls": 0}
OLD, NEW = "2026-10-01", "2026-11-02"


@dataclass
class Scenario:
    """`before`: the exports of the earlier runs; `after`: those of the run that is killed.

    Sections in `without` are not in the site file of that run.
    """

    before: Sequence[dict[str, Rows]]
    after: dict[str, Rows]
    keys: Callable[[str], dict[str, Any]] = lambda _name: {}
    without: tuple[str, ...] = ()
    nights: tuple[int, ...] = (1,)
    night: int = 2
    site: Callable[[], dict[str, Any]] = dict

    def prepare(self, lab: Laboratory) -> None:
        """Return the earlier exports, and those of the run that is killed."""
        for number, exports in zip(self.nights, self.before, strict=True):
            self._export(lab, exports)
            if number == self.nights[0]:
                lab.robots("User-agent: *\nDisallow: /cart\n")
            assert lab.run(number).status == "published"
        self._export(lab, self.after)
        for name in self.without:
            del lab.site.keys["sections"][name]

    def _export(self, lab: Laboratory, exports: dict[str, Rows]) -> None:
        for name, rows in exports.items():
            lab.site.section(name, rows, **{"shards": SMALL, "gates": LOOSE, **self.keys(name)})


def page(path: str, lastmod: str = OLD) -> dict[str, Any]:
    return {"loc": path, "lastmod": lastmod}


def family(prefix: str, numbers: Sequence[int], changed: Sequence[int] = ()) -> Rows:
    return [page(f"/{prefix}/{n:04}", NEW if n in changed else OLD) for n in numbers]


def _grown() -> Scenario:
    """A split in the middle, rows at the end, an edit, moves between sections both ways."""
    products = family("p", range(0, 400, 10))
    archive = family("q", range(0, 400, 10))
    more = family(
        "p", sorted({*range(0, 400, 10), *range(1, 100, 5), *range(141, 240, 5), *range(400, 500, 10)}), changed=[300]
    )
    to_archive, to_products = page("/p/0200"), page("/q/0390")
    return Scenario(
        [{"products": products, "archive": archive, "articles": family("a", range(12))}],
        {
            "products": [row for row in more if row["loc"] != to_archive["loc"]] + [to_products],
            "archive": [row for row in archive if row["loc"] != to_products["loc"]] + [to_archive],
            "articles": family("a", range(14), changed=[3]),
        },
        keys=lambda name: (
            {"formats": ["xml", "text"]}
            if name == "products"
            else {"feed": {"formats": ["rss", "atom"], "title": "News", "items": 5}}
            if name == "articles"
            else {}
        ),
        site=lambda: {"recent": "3d"},
    )


def _shrunk() -> Scenario:
    """Merged files, a removed section whose rows another partly takes over, expired files."""
    products = family("p", range(100))
    gone = family("g", range(30))
    first = {"products": products + family("z", range(20)), "gone": gone}
    return Scenario(
        [first, {"products": products, "gone": gone}],
        {"products": [row for n, row in enumerate(products) if not 20 <= n < 57] + gone[:5]},
        without=("gone",),
        nights=(1, 2),
        night=6,
    )


def _small() -> Scenario:
    """One of each: a split, an edit, a move, a removed section."""
    products, archive = family("p", range(0, 200, 10)), family("q", range(3))
    return Scenario(
        [{"products": products, "archive": archive, "gone": family("g", range(2))}],
        {
            "products": [*products[1:], *family("p", range(1, 60, 10))],
            "archive": [products[0], *family("q", range(3), changed=[1])],
        },
        without=("gone",),
    )


GROWN, SHRUNK, SMALLER = _grown(), _shrunk(), _small()


@pytest.fixture
def laboratory(tmp_path: Path) -> Iterator[Callable[..., Laboratory]]:
    made: list[Laboratory] = []

    def make(s3: S3Server | None = None, **keys: Any) -> Laboratory:
        made.append(Laboratory(tmp_path / str(len(made)), s3=s3, gates=LOOSE, **keys))
        return made[-1]

    yield make
    for lab in made:
        lab.__exit__()


def check(world: World, before: set[str], source: set[str]) -> None:
    """Check that the public files are valid and list every page that was listed and is still in the source."""
    found = listed(world.objects)
    missing = (before & source) - found.keys()
    assert not missing, sorted(missing)
    assert found.keys() <= before | source


DECIDING = ("/current.json", "/sitemap.xml", "/robots.txt", "/notification.json")
"""Ends of the addresses whose writes decide what a stranger or the next run sees."""


def until_committed(writes: Sequence[str], *, every: int = 1, also: str = "") -> list[int]:
    """Return the numbers of all writes up to the commit, the one after it, and a few later ones.

    `every`: of writes that decide nothing, and don't have `also` in their address, only each `every`th.
    """
    commit = max(n for n, what in enumerate(writes, 1) if what.endswith("/current.json"))
    first = {
        n
        for n in range(1, min(commit + 2, len(writes)))
        if n % every == 0 or writes[n - 1].endswith(DECIDING) or (also and also in writes[n - 1])
    }
    # What was staged lies in a folder in any case.
    later = range(commit + 2, len(writes) + 1, 12 if every == 1 else len(writes))
    return sampled(writes, sorted({*first, *later, len(writes)}))


def sampled(writes: Sequence[str], numbers: Iterable[int], *, every: int = 1) -> list[int]:
    """Return the first write of each kind, and each `every`th of these writes, or a twelfth of that in CI."""
    return sample(numbers, lambda number: kind_of_key(writes[number - 1].partition("/live/")[2]), every=every)


def committed(writes: Sequence[str]) -> int:
    """Return the number of the write that commits the release. Deletes come after it, under their own claim."""
    manifest = next(n for n, what in enumerate(writes, 1) if "/state/manifest-" in what)
    return next(n for n, what in enumerate(writes, 1) if n > manifest and what.endswith("/current.json"))


def lists(world: World) -> dict[str, Any]:
    """Check that the files of the manifest exist."""
    assert world.manifest is not None
    return {key: world.manifest[key] for key in ("entries", "indexes", "extras", "retired", "sections", "numbers")}


def source_of(scenario: Scenario) -> set[str]:
    return locs_of(*scenario.after.values())


def prepared(lab: Laboratory, scenario: Scenario) -> tuple[set[str], World, list[str]]:
    """Return the pages listed before the run, the world after an undisturbed run, and the writes of its publish.

    The laboratory is left before the publish, with all earlier stages done.
    """
    scenario.prepare(lab)
    before = set(listed(lab.world().objects))
    assert lab.prepare(scenario.night).status == "prepared"
    lab.keep()
    assert lab.run(scenario.night).status == "published"
    world = lab.world()
    assert listed(world.objects).keys() == source_of(scenario)
    lab.restore()
    done = lab.publish()
    assert done.status == "published", done.error
    assert lab.world() == world
    return before, world, done.writes


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("scenario", "store"),
    [
        pytest.param(GROWN, "folder", id="grown-folder"),
        pytest.param(SHRUNK, "folder", id="shrunk-folder"),
        pytest.param(SMALLER, "moto", id="smaller-moto"),
        *([pytest.param(SMALLER, "seaweedfs", id="smaller-seaweedfs")] if ALL else []),
    ],
)
def test_a_publish_killed_after_any_write_leaves_valid_files_and_the_next_run_completes_it(
    laboratory: Callable[..., Laboratory],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Scenario,
    store: str,
) -> None:
    """In a folder after each write. In S3, which is far slower, after each that decides and a fifth of the rest."""
    server = None if store == "folder" else reachable(request.getfixturevalue(store), monkeypatch)
    lab = laboratory(server, **scenario.site())
    before, world, writes = prepared(lab, scenario)
    for at in until_committed(writes, every=1 if store == "folder" else 5):
        lab.restore()
        assert lab.publish(kill=at).killed
        check(lab.world(), before, source_of(scenario))
        assert lab.run(scenario.night).status in ("published", "unchanged")
        after = lab.world()
        assert (after.said, lists(after)) == (world.said, lists(world)), writes[at - 1]
        if at < committed(writes):
            assert after == world, writes[at - 1]


@pytest.mark.thorough
def test_a_publish_killed_just_before_a_deciding_write_is_completed_too(
    laboratory: Callable[..., Laboratory],
) -> None:
    lab = laboratory(**GROWN.site())
    before, world, writes = prepared(lab, GROWN)
    for at in [
        n for n, what in enumerate(writes, 1) if what.endswith(("current.json", "sitemap.xml", "/notification.json"))
    ]:
        lab.restore()
        assert lab.publish(kill=at, before=True).killed
        check(lab.world(), before, source_of(GROWN))
        assert lab.run(2).status == "published"
        assert lab.world() == world, writes[at - 1]


@pytest.mark.thorough
def test_a_killed_publish_is_completed_after_current_json_was_lost_and_repaired(
    laboratory: Callable[..., Laboratory],
) -> None:
    """`state verify --repair` makes `current.json` again, with the intent that it named."""
    lab = laboratory(**GROWN.site())
    before, world, writes = prepared(lab, GROWN)
    for at in until_committed(writes, every=4):
        lab.restore()
        assert lab.publish(kill=at).killed
        site, current = lab.site.load(), lab.site.state().current()
        Path(lab.site.state().storage.url, "state/current.json").unlink()
        assert verify_state(site, lab.site.environment, repair=True).sound, writes[at - 1]
        again = lab.site.state().current()
        assert again.manifest == current.manifest
        assert {again.pending, *again.suspect} >= {current.pending, *current.suspect} - {None}
        check(lab.world(), before, source_of(GROWN))
        assert lab.run(GROWN.night).status in ("published", "unchanged")
        after = lab.world()
        assert (after.said, lists(after)) == (world.said, lists(world)), writes[at - 1]


@pytest.mark.thorough
def test_a_run_killed_before_publishing_changes_no_public_file(laboratory: Callable[..., Laboratory]) -> None:
    lab = laboratory(**GROWN.site())
    GROWN.prepare(lab)
    lab.keep()
    before = lab.world()
    writes = lab.run(2).writes
    world = lab.world()
    first = next(n for n, what in enumerate(writes, 1) if "/intent-" in what)
    for at in sampled(writes, range(2, first), every=9):
        lab.restore()
        assert lab.run(2, kill=at).killed
        assert lab.world() == before
        assert lab.run(2).status == "published"
        assert lab.world() == world, writes[at - 1]


def other_night() -> dict[str, Rows]:
    """Another change from the same start as `GROWN`: another file is split, another row moves."""
    products, archive = GROWN.before[0]["products"], GROWN.before[0]["archive"]
    return {
        "products": [*products[:1], *products[2:], *family("p", range(301, 389, 4))],
        "archive": [*archive, products[1]],
        "articles": GROWN.before[0]["articles"],
    }


THEN = {"older": GROWN.before[0], "other": other_night()}


def what_is_listed(world: World) -> dict[str, bytes]:
    """Return the public objects except those to be deleted."""
    assert world.manifest is not None
    gone = {item["key"] for item in world.manifest["retired"]}
    return {key: data for key, data in world.said.items() if key not in gone}


@dataclass
class Elsewhere:
    """A laboratory whose run of `GROWN` can be killed, before runs of another source.

    `world`: after day 3, without a run on day 2; `later`: after day 8.
    """

    lab: Laboratory
    before: set[str]
    source: set[str]
    writes: list[str]
    world: World
    later: World

    def check(self) -> None:
        """Check that everything is as if the killed run had not happened."""
        after = self.lab.world()
        assert listed(after.objects) == listed(self.world.objects)
        assert what_is_listed(after) == what_is_listed(self.world)


def elsewhere(lab: Laboratory, then: str) -> Elsewhere:
    GROWN.prepare(lab)
    before = set(listed(lab.world().objects))
    assert lab.prepare(2).status == "prepared"
    lab.keep()
    writes = lab.publish().writes
    for name, rows in THEN[then].items():
        lab.site.export(name, rows)
    lab.restore()
    lab.run(3)
    world = lab.world()
    lab.run(8)
    return Elsewhere(lab, before, locs_of(*THEN[then].values()), writes, world, lab.world())


@pytest.mark.thorough
@pytest.mark.parametrize("then", THEN)
def test_after_a_killed_run_a_different_source_is_published_as_without_the_kill(
    laboratory: Callable[..., Laboratory], then: str
) -> None:
    """Files that this source does not change are restored from their snapshots."""
    it = elsewhere(laboratory(**GROWN.site()), then)
    commit = max(n for n, what in enumerate(it.writes, 1) if what.endswith("/current.json"))
    for at in sampled(it.writes, range(5, commit), every=3):
        it.lab.restore()
        assert it.lab.publish(kill=at).killed
        it.lab.run(3)
        it.check()
    it.lab.run(8)
    assert it.lab.world().said == it.later.said


@pytest.mark.thorough
def test_completing_a_killed_run_unlists_no_url(laboratory: Callable[..., Laboratory]) -> None:
    """The completing run is killed too, after each public or deciding write and a fifth of the others up to the commit.

    After the other writes the public files are the same as after the write before them.
    """
    it = elsewhere(laboratory(**GROWN.site()), "other")
    lab = it.lab
    final = [n for n, what in enumerate(it.writes, 1) if what.endswith("/sitemap.xml")][-1]
    lab.restore()
    assert lab.publish(kill=final - 1).killed
    now = set(listed(lab.world().objects))
    lab.keep()
    writes = lab.run(3, since="/intent-").writes
    assert len(writes) > committed(writes) > 20
    steps = range(1, committed(writes) + 2)
    seen = [at for at in steps if f"{lab.live}/public/" in writes[at - 1] or writes[at - 1].endswith(DECIDING)]
    for at in sorted({*sampled(writes, seen), *sampled(writes, steps, every=5)}):
        lab.restore()
        assert lab.run(3, kill=at, since="/intent-").killed
        found = listed(lab.world().objects).keys()
        assert now & it.source <= found <= it.before | source_of(GROWN) | it.source
        if at % 5 == 0:
            lab.run(3)
            it.check()


@pytest.mark.thorough
def test_a_rollback_killed_after_any_write_can_be_done_again(laboratory: Callable[..., Laboratory]) -> None:
    lab = laboratory(**GROWN.site())
    GROWN.prepare(lab)
    assert lab.run(2).status == "published"
    lab.keep()
    before = set(listed(lab.world().objects))
    done = lab.roll_back(3)
    assert done.status == "published", done.error
    world = lab.world()
    source = locs_of(*GROWN.before[0].values())
    assert listed(world.objects).keys() == source
    commit = max(n for n, what in enumerate(done.writes, 1) if what.endswith("/current.json"))
    for at in sampled(done.writes, range(2, commit), every=4):
        lab.restore()
        assert lab.roll_back(3, kill=at).killed
        check(lab.world(), before, source)
        assert lab.roll_back(3).status == "published"
        assert lab.world() == world, done.writes[at - 1]


def _full() -> Scenario:
    """The first index is nearly full: rows move to files that a second one lists."""
    rows, pages = family("p", range(1_970)), family("q", range(4))
    moved = rows[3:40:4]
    return Scenario(
        [{"products": rows, "pages": pages}],
        {"products": [row for row in rows if row not in moved] + family("r", range(8)), "pages": pages + moved},
        keys=lambda _name: {"shards": {"rows": 2, "fill": 1}},
    )


@pytest.mark.thorough
def test_robots_txt_names_a_second_index_before_rows_move_to_its_files(laboratory: Callable[..., Laboratory]) -> None:
    scenario = _full()
    lab = laboratory()
    before, world, writes = prepared(lab, scenario)
    assert "sitemap-2.xml" in world.objects
    named = next(n for n, what in enumerate(writes, 1) if what.endswith("/robots.txt"))
    assert sum(what.endswith(".xml.gz") for what in writes[named:]) >= 10  # of each pair of rows one moves
    for at in (named - 1, named, named + 5):
        lab.restore()
        assert lab.publish(kill=at).killed
        check(lab.world(), before, source_of(scenario))
    assert lab.run(2).status == "published"
    assert lab.world() == world


# --- a section that reads what changed -------------------------------------------------------------


def mirrored(lab: Laboratory) -> None:
    """A section over a table; its rows in the first night."""
    source = {
        "database": "catalog",
        "query": "SELECT id, loc, lastmod, gone FROM pages WHERE touched >= :since",
        "key": "id",
        "deleted": "gone",
    }
    lab.site.keys["sections"]["pages"] = {"from": source, "shards": SMALL, "gates": LOOSE}
    table(lab, "CREATE TABLE pages (id INTEGER, loc TEXT, lastmod TEXT, gone INTEGER, touched TEXT)")
    for n in range(60):
        table(lab, f"INSERT INTO pages VALUES ({n}, '/p/{n:04}', '{OLD}', 0, '2026-10-01')")


def table(lab: Laboratory, *statements: str) -> None:
    with closing(sqlite3.connect(lab.live / "catalog.db")) as database, database:
        for statement in statements:
            database.execute(statement)


def changed(lab: Laboratory, day: int, rows: range) -> None:
    """Rows renamed, deleted, added and touched between two runs."""
    touched = f"touched = '2026-11-{day:02} 01:00:00'"
    first = rows.start
    table(
        lab,
        f"UPDATE pages SET loc = loc || '-new', lastmod = '2026-11-{day:02}', {touched} WHERE id = {first}",
        f"UPDATE pages SET gone = 1, {touched} WHERE id = {first + 1}",
        f"UPDATE pages SET {touched} WHERE id = {first + 2}",
        *(
            f"INSERT INTO pages VALUES ({1_000 * day + n}, '/p/{n:04}-{day}', '{NEW}', 0, '2026-11-{day:02} 01:00:00')"
            for n in rows
        ),
    )


@pytest.mark.thorough
def test_an_incremental_publish_killed_after_any_write_is_completed_with_its_mirror(
    laboratory: Callable[..., Laboratory], tmp_path: Path
) -> None:
    """The run after a recovery reads from the right mirror: it publishes the same as without the kill.

    Killed after each write of the mirror and each that decides, and a third of the rest, which every publish has.
    """
    catalog = tmp_path / "0" / "live" / "catalog.db"
    lab = laboratory(env={"AIRFLOW_CONN_CATALOG": f"sqlite:///{catalog}"})
    mirrored(lab)
    lab.robots("User-agent: *\n")
    assert lab.run(1).status == "published"
    before = set(listed(lab.world().objects))
    changed(lab, 2, range(10, 30))
    assert lab.prepare(2).status == "prepared"
    lab.keep()
    paths = {f"/p/{n:04}" for n in range(60) if n not in (10, 11)} | {"/p/0010-new"}
    source = locs_of([page(path) for path in paths | {f"/p/{n:04}-2" for n in range(10, 30)}])
    assert lab.run(2).status == "published"
    world = lab.world()
    assert listed(world.objects).keys() == source
    changed(lab, 3, range(40, 45))
    assert lab.run(3).status == "published"
    third = lab.world()
    lab.restore()
    writes = lab.publish().writes
    assert any("mirror" in what for what in writes)
    for at in until_committed(writes, every=3, also="mirror"):
        lab.restore()
        assert lab.publish(kill=at).killed
        check(lab.world(), before, source)
        assert lab.run(2).status in ("published", "unchanged")
        assert lab.world() == world, writes[at - 1]
        changed(lab, 3, range(40, 45))
        assert lab.run(3).status == "published"
        assert lab.world() == third, writes[at - 1]
