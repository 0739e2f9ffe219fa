"""Changes of names and targets, and public files changed by others."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.runs.rollback import roll_back
from tests.support.sites import FIRST_NIGHT, TestSite, pages


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path).section("p", pages(250, lastmod="2026-10-01"), shards={"rows": 100})


def test_published_files_have_the_configured_names(site: TestSite) -> None:
    names = {"index": "sitemap_index.xml", "file": "{section}-sitemap{number}.xml"}
    site.keys["publish"] = {"to": "./public", "names": names}
    site.night(1)
    assert {path.name for path in (site.folder / "public").glob("*.xml")} == {
        "sitemap_index.xml",
        "p-sitemap1.xml",
        "p-sitemap2.xml",
        "p-sitemap3.xml",
    }
    assert (site.folder / "public" / "p-sitemap1.xml").read_bytes().startswith(b"<?xml")


def test_changed_names_apply_to_all_files_at_once(site: TestSite) -> None:
    site.night(1)
    site.keys["publish"] = {"to": "./public", "names": {"file": "{section}-{number}.xml.gz"}}
    done = site.night(2)
    assert done.summary.files.written == 4
    assert {entry.file for entry in site.public().entries()} == {f"p-{n}.xml.gz" for n in (1, 2, 3)}
    assert (site.folder / "public" / "sitemap-p-00001.xml.gz").exists()  # until the grace is over
    assert site.night(3).summary.status == "unchanged"
    site.night(6)
    assert not (site.folder / "public" / "sitemap-p-00001.xml.gz").exists()


def test_a_rollback_past_changed_names_keeps_unchanged_files(site: TestSite) -> None:
    site.night(1)
    site.keys["publish"] = {"to": "./public", "names": {"file": "{section}-{number}.xml.gz"}}
    site.export("p", pages(260, lastmod="2026-10-01"))
    site.night(2)
    before = {entry.file.key: entry.file.lastmod for entry in site.manifest().entries}
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=1, hours=8)), reason="test")
    after = {entry.file.key: entry.file.lastmod for entry in site.manifest().entries}
    assert after.keys() == before.keys()
    assert [file for file in after if after[file] != before[file]] == ["p-3.xml.gz"]


def test_a_new_target_gets_every_file(site: TestSite) -> None:
    site.night(1)
    before = site.public().objects()
    site.keys["publish"] = "./elsewhere"
    site.night(2, moved=True)
    assert site.public().objects() == before


def test_a_published_file_changed_by_others_is_not_replaced(site: TestSite) -> None:
    site.night(1)
    (site.folder / "public" / "sitemap-p-00001.xml.gz").write_bytes(b"tampered")
    site.export("p", pages(251, lastmod=lambda n: "2026-10-02" if n == 0 else "2026-10-01"))
    done = site.night(2)
    assert done.summary.status == "refused"
    assert "sitemap-p-00001.xml.gz" in (done.summary.error or "")


def test_full_restores_missing_public_files(site: TestSite) -> None:
    site.night(1)
    before = site.public().contents()
    for path in (site.folder / "public").glob("sitemap*"):
        path.unlink()
    assert site.night(2).summary.status == "unchanged"
    site.night(3, full=True)
    assert site.public().contents() == before


def test_the_state_of_another_site_is_refused(site: TestSite) -> None:
    site.night(1)
    site.keys["site"] = "https://other.example"
    with pytest.raises(Refused, match=r"is the state of shop \(https://shop\.example\)"):
        site.night(2)
