"""`state verify` reads the whole state, reports damage and its consequences, and repairs what can be restored."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from sitemap_etl.errors import DamagedState, Refused
from sitemap_etl.runs.verify import Verified, verify_state
from sitemap_etl.state import layout
from sitemap_etl.state.codec import seal, unseal
from sitemap_etl.state.lease import take_lease
from sitemap_etl.state.records import KnownRobots
from tests.support.catalog import Catalog
from tests.support.command import call
from tests.support.kept import Kept
from tests.support.sites import TestSite, pages


@pytest.fixture(scope="module")
def after_three_nights(tmp_path_factory: pytest.TempPathFactory) -> Kept[Catalog]:
    site = Catalog(tmp_path_factory.mktemp("verify") / "site", gates={"max_drop": 1, "max_growth": 9})
    site.keys["ping"] = {"indexnow": {"key": "0123456789abcdef0123456789abcdef"}}
    site.table("pages", 60)
    site.read("pages", shards={"rows": 20})
    site.section("news", pages(30, lastmod="2026-10-01"), feed={"title": "News", "items": 5})
    site.section("prints", pages(30, 900, body="x"), lastmod={"fingerprint": ["body"]})
    site.night(1)
    site.sql("UPDATE pages SET lastmod = '2026-10-05', touched = '2026-11-01T12:00' WHERE id < 5")
    site.export("prints", pages(28, 900, body="x"))
    site.night(2)
    site.export("news", pages(31, lastmod="2026-10-02"))
    site.night(3)
    return Kept(site)


@pytest.fixture
def site(after_three_nights: Kept[Catalog]) -> Catalog:
    """A site with every kind of object in its state, after three nights."""
    return after_three_nights.put_back()


def verify(site: TestSite, *, repair: bool = False) -> Verified:
    return verify_state(site.load(), site.environment, repair=repair)


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def work_of(site: TestSite) -> Path:
    return Path(site.state().storage.url)


def test_an_intact_state_has_no_findings(site: Catalog) -> None:
    found = verify(site)
    assert found.sound
    assert found.broken == ()
    assert {"manifests", "snapshots", "mirrors", "files of mirrors", "notifications", "summaries"} <= found.whole.keys()


def test_one_flipped_bit_anywhere_is_found_and_reported_with_its_consequence(site: Catalog) -> None:
    """Return every object that a run reads: all are verified."""
    work = work_of(site)
    unverified = ("reports/", layout.ADOPTED)  # what people read, and copies of other programs' files
    files = [path for path in sorted(work.rglob("*")) if path.is_file() and path.name != ".gitignore"]
    for path in files:
        key = str(path.relative_to(work))
        if key.startswith(unverified):
            continue
        whole = path.read_bytes()
        damage(path)
        broken = verify(site).broken
        assert [one.key.endswith(key) for one in broken].count(True) == 1, key
        assert all(one.cost and one.problem for one in broken)
        path.write_bytes(whole)
    assert verify(site).sound


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_if_the_published_manifest_is_lost_the_previous_one_is_used(site: Catalog, how: str) -> None:
    """No run starts, and every command names the repair; pages that changed in that run change once more."""
    older, lost = sorted(work_of(site).glob("state/manifest-*"))[-2:]
    before = layout.run_of_manifest(layout.STATE + older.name)
    dates = {entry.loc: entry.lastmod for entry in site.public().entries()}
    damage(lost) if how == "damaged" else lost.unlink()
    for ask in ("run", "rollback", "history"):
        told = call(ask, site.path)
        assert (told.code, f"sitemap-etl state verify {site.path}" in told.err) == (65, True), ask
    shown = call("status", site.path).out
    assert lost.name in shown
    assert "nothing yet" not in shown
    (broken,) = verify(site).broken
    assert "none can start. Without a backup, --repair goes back to the release before" in broken.cost
    (broken,) = verify(site, repair=True).broken
    assert str(broken.repaired).startswith(f"made again: it names the release of run {before}, the last one known")
    assert verify(site).sound
    assert site.manifest().run_id == before
    assert site.night(4).summary.status == "published"
    assert site.night(5).summary.status == "unchanged"
    assert {entry.loc: entry.lastmod for entry in site.public().entries()} == dates


def test_without_a_release_the_message_says_what_to_do(site: Catalog) -> None:
    for manifest in work_of(site).glob("state/manifest-*"):
        manifest.unlink()
    (broken,) = verify(site, repair=True).broken
    assert broken.repaired is None
    (told,) = re.findall("move all of ([^ ]+) away", broken.cost)
    Path(told).rename(site.folder / "aside")
    assert site.night(4, adopt=True).summary.status == "published"
    assert site.night(5).summary.status == "unchanged"


@pytest.mark.parametrize("how", ["damaged", "gone"])
@pytest.mark.parametrize("which", [0, 1])
def test_the_loss_of_an_older_manifest_prevents_only_its_rollback(site: Catalog, how: str, which: int) -> None:
    sets = sorted(work_of(site).glob("state/manifest-*"))
    assert len(sets) == 3
    damage(sets[which]) if how == "damaged" else sets[which].unlink()
    lost, other = (layout.run_of_manifest(layout.STATE + sets[at].name) for at in (which, 1 - which))
    broken = verify(site).broken
    assert [one.cost.startswith(f"no rollback to run {lost}") for one in broken] == [True] * len(broken)
    assert len(broken) == (how == "damaged")
    shown = call("history", site.path)
    assert (shown.code, other in shown.out) == ((0, True) if how == "gone" else (65, False))
    assert site.night(4).summary.status == "unchanged"
    assert call("rollback", site.path, other, "--reason", "to try").code == 0
    assert verify(site, repair=True).sound
    assert verify(site).broken == ()
    assert call("history", site.path).code == 0


def test_a_feed_with_lost_rows_is_made_again_though_nothing_changed(site: Catalog) -> None:
    feed = site.public().objects()["news.rss.xml"]
    assert site.night(4).summary.status == "unchanged"
    top = site.manifest().sections["news"].top
    assert top is not None
    (work_of(site) / top).unlink()
    assert verify(site, repair=True).sound
    assert set(site.night(5).summary.quiet) == {"pages", "prints"}
    assert site.public().objects()["news.rss.xml"] == feed
    assert site.manifest().sections["news"].top == top


@pytest.mark.parametrize("how", ["damaged", "gone"])
def test_lost_snapshots_are_restored_from_the_published_files(site: Catalog, how: str) -> None:
    before = site.public().objects()
    for entry in site.manifest().entries:
        path = work_of(site) / entry.snapshot
        if how == "gone":
            path.unlink(missing_ok=True)
        elif path.exists():
            path.write_bytes(b"no rows")
    assert not verify(site).sound
    with pytest.raises(DamagedState):
        site.night(4, full=True)  # where nothing differs, other nights do not read them
    repaired = verify(site, repair=True)
    assert repaired.sound
    assert all("made again from" in str(one.repaired) for one in repaired.broken)
    assert verify(site).broken == ()
    done = site.night(5)
    assert done.summary.status in ("published", "unchanged")
    assert [(c.added, c.changed, c.removed) for c in done.summary.sections.values()] == [(0, 0, 0)] * 3
    assert {key: data for key, data in site.public().objects().items() if key in before} == before


def test_pages_of_restored_snapshots_are_not_recent_changes(tmp_path: Path) -> None:
    """Their times of change are not in the file: none gets the date of the one that changed last."""
    site = TestSite(tmp_path, recent="3d")
    site.section("p", pages(30, body="x"), lastmod={"fingerprint": ["body"]})
    site.night(1)
    site.export("p", pages(30, body=lambda n: "y" if n == 7 else "x"))
    site.night(2)
    assert [entry.loc[-6:] for entry in site.public().entries(views=True) if "recent" in entry.file] == ["000007"]
    (entry,) = site.manifest().of("p")
    (work_of(site) / entry.snapshot).write_bytes(b"")
    assert verify(site, repair=True).sound
    site.export("p", pages(31, body=lambda n: "y" if n == 7 else "x"))
    site.night(3)
    assert [entry.loc[-6:] for entry in site.public().entries(views=True) if "recent" in entry.file] == ["000030"]


def test_the_first_run_after_restoring_snapshots_records_their_fingerprints(tmp_path: Path) -> None:
    """It is not an unchanged run, so that a change in the next run is noticed."""
    site = TestSite(tmp_path).section("p", pages(30, body="x"), lastmod={"fingerprint": ["body"]})
    site.night(1)
    (entry,) = site.manifest().of("p")
    (work_of(site) / entry.snapshot).write_bytes(b"")
    assert verify(site, repair=True).sound
    (warning,) = site.night(2).summary.warnings
    assert "p: 30 pages had no fingerprint to compare with" in warning
    site.export("p", pages(30, body=lambda n: "y" if n == 7 else "x"))
    assert site.night(3).summary.sections["p"].changed == 1
    dated = {entry.loc[-6:]: entry.lastmod for entry in site.public().entries() if entry.lastmod}
    assert dated == {"000007": "2026-11-03T02:00:00Z"}


def test_a_snapshot_is_not_restored_from_an_altered_file(site: Catalog) -> None:
    entry = site.manifest().entries[0]
    (work_of(site) / entry.snapshot).unlink()
    (site.folder / "public" / entry.file.key).write_bytes(b"")
    found = verify(site, repair=True)
    assert not found.sound
    assert [one.repaired for one in found.broken] == [None]


def test_a_lost_mirror_is_dropped_and_the_section_read_in_full(site: Catalog) -> None:
    damage(next(path for path in (work_of(site) / "state/mirrors").rglob("*.parquet")))
    assert verify(site, repair=True).sound
    assert site.night(4).summary.sections["pages"].carried == 0
    assert verify(site).sound


def test_a_lost_current_json_is_restored(site: Catalog) -> None:
    manifest = site.state().current().manifest
    (work_of(site) / layout.CURRENT).write_bytes(b"{}")
    repaired = verify(site, repair=True)
    assert repaired.sound
    assert site.state().current().manifest == manifest
    assert site.night(4).summary.status == "unchanged"


def test_without_current_json_the_release_is_not_replaced_and_verify_is_suggested(site: Catalog) -> None:
    name = site.manifest().run_id
    before = site.public().objects()
    (work_of(site) / "state" / "current.json").unlink()
    for ask in ("run", "rollback", "history"):
        told = call(ask, site.path)
        assert told.code == 65
        assert f"sitemap-etl state verify {site.path} --repair" in told.err
    status = call("status", site.path)
    assert status.code == 1
    assert "is not known which one is public" in status.out
    assert site.public().objects() == before
    assert call("state", "verify", site.path, "--repair").code == 0
    assert site.manifest().run_id == name
    assert site.night(4).summary.status == "unchanged"


def test_damaged_changes_are_repaired_at_once(site: Catalog) -> None:
    for path in work_of(site).glob("state/changes/*/changes.parquet"):
        damage(path)
    assert not verify(site).sound
    assert verify(site, repair=True).sound
    assert verify(site).broken == ()


def test_a_repair_is_refused_during_a_run(site: Catalog) -> None:
    take_lease(site.state().storage, "20261120T020000Z-abcd", pid=0)
    assert verify(site).sound
    with pytest.raises(Refused, match="Another run is in progress"):
        verify(site, repair=True)


def test_the_state_of_an_unpublished_site_is_intact(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(3))
    site.environment = replace(site.environment)
    assert verify(site).sound


def test_random_damage_never_crashes_verify(site: Catalog) -> None:
    random_ = random.Random(7)
    files = [path for path in sorted(work_of(site).rglob("*")) if path.is_file()]
    for _ in range(30):
        path = random_.choice(files)
        whole = path.read_bytes()
        cut = random_.randrange(len(whole) + 1)
        path.write_bytes(random_.choice([whole[:cut], whole[cut:], b"", b"null", b"\xff" * 10, whole + b"x"]))
        verify(site)
        path.write_bytes(whole)


@pytest.mark.parametrize("repair", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize(
    "which", [layout.CURRENT, "state/manifest-*.json", "state/mirrors/*/*.json", "state/intent-*.json"]
)
def test_state_of_a_newer_version_is_refused_and_not_changed(site: Catalog, which: str, repair: bool) -> None:
    work = work_of(site)
    damage(max(work.glob("state/changes/*/notification.json")))  # which a repair would remove
    path = max(work.glob(which))
    body = unseal(path.read_bytes(), str(path))
    newest = body["format"]
    path.write_bytes(seal(body | {"format": newest + 1}))
    before = {file: file.read_bytes() for file in work.rglob("*") if file.is_file()}
    with pytest.raises(Refused, match=rf"{re.escape(str(path))}.*format {newest + 1}.*reads formats up to {newest}"):
        verify(site, repair=repair)
    assert {file: file.read_bytes() for file in work.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("gone", [True, False])
def test_a_changed_stored_robots_txt_is_reported(site: Catalog, named: bool, gone: bool) -> None:
    state = site.state()
    state.put_robots(b"User-agent: *\nDisallow: /p/000003\n")
    (path,) = (work_of(site) / layout.ROBOTS).iterdir()
    key = layout.ROBOTS + path.name
    if named:
        held = state.held()
        state.swap(held, replace(held.current, robots=KnownRobots("2026-11-03T02:00:00Z", key)))
    assert verify(site).whole["copies of robots.txt"] == 1
    if gone:
        path.unlink()
    else:
        damage(path)
    broken = verify(site).broken
    assert len(broken) == (named or not gone)
    assert verify(site, repair=True).sound
    assert state.current().robots is None
    assert verify(site).broken == ()
    site.night(4)
