"""Another target, other names: the release is published there completely, and the dates of its files stay."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from sitemap_etl.publish.plan import in_slots
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.state.records import Entry, File
from tests.support.crash import listed
from tests.support.sites import FIRST_NIGHT, TestSite, pages

SMALL = {"rows": 20, "fill": 0.9}
AT = "http://127.0.0.1:9/"


def shop(folder: Path) -> TestSite:
    site = TestSite(folder, site="http://127.0.0.1:9", recent="3d")
    site.section("a", pages(40, lastmod="2026-10-01"), shards=SMALL, formats=["xml", "text"])
    site.section("b", pages(5, 100, lastmod="2026-10-01"), feed={"formats": ["rss", "atom"], "title": "B", "items": 3})
    site.night(1)
    return site


def test_a_release_is_written_completely_to_a_new_target(tmp_path: Path) -> None:
    """Although nothing changed: files, texts, feeds, index and robots.txt. The old target stays as it is."""
    site = shop(tmp_path)
    old = site.public().objects()
    dates = {entry.file.key: entry.file.lastmod for entry in site.manifest().entries}
    site.keys["publish"] = "./elsewhere"
    assert site.night(9, moved=True).summary.status == "published"
    assert site.public().objects().keys() == old.keys()
    assert {k: v for k, v in site.public().objects().items() if k.endswith(".gz")} == {
        k: v for k, v in old.items() if k.endswith(".gz")
    }
    assert {entry.file.key: entry.file.lastmod for entry in site.manifest().entries} == dates
    assert {path.name: path.read_bytes() for path in (tmp_path / "public").iterdir()} == old
    assert site.night(10).summary.status == "unchanged"
    assert {path.name: path.read_bytes() for path in (tmp_path / "public").iterdir()} == old


def test_files_copied_to_a_new_target_are_not_written_again(tmp_path: Path) -> None:
    site = shop(tmp_path)
    (tmp_path / "public").rename(tmp_path / "elsewhere")
    before = {path.name: path.stat().st_ino for path in (tmp_path / "elsewhere").iterdir()}
    site.keys["publish"] = "./elsewhere"
    done = site.night(2, moved=True)
    assert done.summary.files.written == 0
    assert {path.name: path.stat().st_ino for path in (tmp_path / "elsewhere").iterdir()} == before
    assert site.manifest().to == str(tmp_path / "elsewhere")


def test_a_feed_restored_by_a_rollback_is_written_to_a_new_target(tmp_path: Path) -> None:
    """The stored file has a fence: its bytes differ from those that are written."""
    site = shop(tmp_path)
    first = site.manifest().run_id
    old = site.public().contents()["b.rss.xml"]
    site.export("b", pages(6, 100, lastmod="2026-10-02"))
    site.night(2)
    roll_back(site.load(), first, site.at(FIRST_NIGHT + timedelta(days=1, hours=2)), reason="by mistake")
    assert site.public().objects()["b.rss.xml"] != old
    assert site.public().contents()["b.rss.xml"] == old
    site.export("b", pages(5, 100, lastmod="2026-10-01"))
    site.keys["publish"] = "./elsewhere"
    assert site.night(4, moved=True).summary.status == "published"
    assert site.public().contents()["b.rss.xml"] == old


def test_with_other_names_every_file_is_written_and_the_old_ones_are_retired(tmp_path: Path) -> None:
    site = shop(tmp_path)
    before = set(site.public().objects())
    site.keys["publish"] = {"to": "./public", "names": {"file": "map-{section}-{number}.xml"}}
    site.night(2)
    objects = site.public().objects()
    now = {"map-a-1.xml", "map-a-1.txt", "map-a-2.xml", "map-a-2.txt", "map-a-3.xml", "map-a-3.txt", "map-b-1.xml"}
    assert objects.keys() - before == now
    assert len(listed(objects, AT)) == 45
    site.night(6)
    assert not [key for key in site.public().objects() if key.startswith("sitemap-")]


def test_the_first_index_is_never_empty() -> None:
    """Its address is the one that engines know."""

    def entry(number: int, index: int) -> Entry:
        file = File(f"{number}.xml", 1, "", 1, "", None, "2026-11-01T00:00:00Z")
        return Entry("a", number, "", "", "", 1, 1, index, file, "")

    assert [e.index for e in in_slots([entry(1, 2), entry(2, 3), entry(3, 3)])] == [2, 1, 1]
    assert [e.index for e in in_slots([entry(1, 1), entry(2, 3), entry(3, 0)])] == [1, 3, 1]
