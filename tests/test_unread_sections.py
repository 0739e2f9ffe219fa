"""Sections that a run does not read: what the time and earlier sections decide about their pages applies."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.explain.explain import explain
from sitemap_etl.runs import tasks
from sitemap_etl.runs.local import Finished, publish_locally, run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.state.records import Options
from tests.support.catalog import Catalog
from tests.support.sites import FIRST_NIGHT, TestSite, pages

OPEN = {"max_drop": 1, "max_growth": 99, "min_urls": 0}
P, Q = {"loc": "/p", "lastmod": "2026-03-03"}, {"loc": "/q", "lastmod": "2026-04-04"}
A, B = {"loc": "/a", "lastmod": "2026-01-01"}, {"loc": "/b", "lastmod": "2026-01-02"}
ORIGIN = "https://shop.example"


def table(site: TestSite, name: str, rows: list[dict[str, Any]]) -> None:
    """Make a section a Delta table without key: an unchanged version is not read again."""
    deltalake = pytest.importorskip("deltalake")
    columns = {key: [row.get(key) for row in rows] for key in ("loc", "lastmod")}
    deltalake.write_deltalake(site.folder / name, pa.table(columns), mode="overwrite")
    site.keys["sections"][name]["from"] = {"delta": f"./{name}"}


WAYS = ("table", "one section", "held")


@pytest.fixture(params=WAYS)
def unread(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Finished]:
    """A site with the sections a and b; called with the rows of a, it runs without reading b."""
    site = TestSite(tmp_path, gates=OPEN)
    site.section("a", [A]).section("b", [P, Q, B], on_error="keep")
    if request.param == "table":
        table(site, "b", [P, Q, B])

    def run(number: int, rows: list[dict[str, Any]] | None = None, *, read: bool = False, **options: Any) -> Finished:
        if rows is not None:
            site.export("a", rows)
        export = site.folder / "b.csv"
        hidden = request.param == "held" and not read
        if hidden:
            export.rename(export.with_suffix(".away"))
        sections = ["a"] if request.param == "one section" and not read else []
        try:
            return site.night(number, sections=sections, **options)
        finally:
            if hidden:
                export.with_suffix(".away").rename(export)

    run.site = site  # type: ignore[attr-defined]
    run.way = request.param  # type: ignore[attr-defined]
    run(1, read=True)
    return run


def listed(site: TestSite) -> dict[str, set[str]]:
    """Return section → paths that its files list."""
    found: dict[str, set[str]] = {}
    for entry in site.public().entries():
        found.setdefault(entry.file.split("-")[1], set()).add(entry.loc.removeprefix(ORIGIN))
    return found


def counts(done: Finished, name: str, *kinds: str) -> tuple[int, ...]:
    return tuple(done.summary.sections[name].of(kind) for kind in kinds)


@pytest.mark.parametrize("full", [False, True])
def test_a_page_that_an_earlier_section_lists_leaves_a_section_that_is_not_read(unread: Any, full: bool) -> None:
    site = unread.site
    done = unread(2, [A, {**P, "lastmod": "2026-05-05"}], full=full and unread.way != "table")
    assert done.summary.status == ("partial" if unread.way == "held" else "published")
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/q", "/b"}}
    assert site.public().by_loc()[f"{ORIGIN}/p"].lastmod == "2026-05-05"
    assert counts(done, "a", "listed", "added", "changed", "duplicates") == (2, 0, 1, 0)
    assert counts(done, "b", "carried", "listed", "duplicates", "added", "removed") == (3, 2, 1, 0, 0)
    (reason,) = done.summary.reasons["b"]["duplicates"].ordered()
    assert (reason.text, reason.count, reason.examples) == ("listed already by section a", 1, (f"{ORIGIN}/p",))
    assert "added" not in done.summary.examples.get("a", {})
    assert unread(3).summary.published is False, "nothing more is left to do"
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/q", "/b"}}


def test_a_page_taken_from_a_section_returns_when_that_section_is_read(unread: Any) -> None:
    site = unread.site
    unread(2, [A, P])
    again = unread(3, [A], read=True)
    assert listed(site) == {"a": {"/a"}, "b": {"/p", "/q", "/b"}}
    assert counts(again, "b", "listed", "added", "changed") == (3, 0, 0)
    assert counts(again, "a", "removed") == (0,)
    assert unread(4, read=True).summary.status == "unchanged"


def test_all_pages_of_a_section_can_leave_and_return(unread: Any) -> None:
    site = unread.site
    done = unread(2, [A, P, Q, B])
    assert listed(site) == {"a": {"/a", "/p", "/q", "/b"}}
    assert counts(done, "b", "listed", "duplicates") == (0, 3)
    unread(3, [A], read=True)
    assert listed(site) == {"a": {"/a"}, "b": {"/p", "/q", "/b"}}


def test_explain_names_the_section_that_took_a_page(unread: Any) -> None:
    site = unread.site
    done = unread(2, [A, P])
    (answer,) = explain(site.load(), ["/p"], site.environment)
    assert answer.listed is not None
    assert answer.listed.section == "a"
    assert done.summary.run_id is not None


def test_a_dry_run_shows_pages_taken_from_unread_sections_and_can_be_published(unread: Any) -> None:
    site = unread.site
    before = site.public().objects()
    shown = unread(2, [A, P], dry_run=True)
    assert counts(shown, "b", "listed", "duplicates") == (2, 1)
    assert site.public().objects() == before
    environment = site.at(FIRST_NIGHT + timedelta(days=1, hours=1))
    done = publish_locally(site.load(), shown.summary.run_id, environment, force=(), reason=None, adopt=False)
    assert done.summary.published
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/q", "/b"}}


def test_a_moved_page_does_not_count_as_dropped(tmp_path: Path) -> None:
    """Half of a section moves to an earlier one while it is not read."""
    site = TestSite(tmp_path).section("a", pages(40, 500)).section("b", pages(40))
    site.night(1)
    site.export("a", [*pages(40, 500), *pages(20)])
    done = site.night(2, sections=["a"])
    assert done.summary.status == "published", done.summary.error
    assert counts(done, "b", "listed", "duplicates", "removed") == (20, 20, 0)
    assert {g.status for g in done.summary.gates if g.name in ("b.max_drop", "max_drop")} == {"ok"}


def test_an_earlier_section_that_is_not_read_keeps_its_pages(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN).section("a", [A, P]).section("b", [B])
    site.night(1)
    site.export("b", [B, P])
    done = site.night(2, sections=["b"])
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/b"}}
    assert counts(done, "b", "duplicates") == (1,)


@pytest.mark.parametrize("order", ["abc", "bac", "acb"])
def test_of_three_sections_the_first_in_the_file_lists_the_page(tmp_path: Path, order: str) -> None:
    """The section b has published the page and is not read; a and c get it."""
    site = TestSite(tmp_path, gates=OPEN)
    for name in order:
        site.section(name, [{"loc": f"/{name}"}, *([P] if name == "b" else [])])
    site.night(1)
    for name in "ac":
        site.export(name, [{"loc": f"/{name}"}, P])
    site.night(2, sections=["a", "c"])
    assert [name for name, found in listed(site).items() if "/p" in found] == [order[0]]
    before = listed(site)
    assert site.night(3).summary.sections[order[0]].listed == 2
    assert listed(site) == before


def test_views_take_no_pages_and_lose_none(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN)
    site.section("v", [{"loc": "/v"}], view=True).section("a", [A]).section("w", [P, Q], view=True)
    site.section("b", [P, B])
    site.night(1)
    site.section("v", [{"loc": "/v"}, P], view=True)
    site.night(2, sections=["v"])
    assert listed(site) == {"v": {"/v", "/p"}, "a": {"/a"}, "w": {"/p", "/q"}, "b": {"/p", "/b"}}
    site.export("a", [A, P, Q])
    site.night(3, sections=["a"])
    assert listed(site) == {"v": {"/v", "/p"}, "a": {"/a", "/p", "/q"}, "w": {"/p", "/q"}, "b": {"/b"}}


def test_only_files_with_a_page_taken_by_another_section_are_written(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN).section("a", [A])
    site.section("b", pages(1_000, lastmod="2026-10-01"), shards={"rows": 100}, formats=["xml", "text"])
    site.night(1)
    before = site.public().objects()
    names = {entry.file.key for entry in site.manifest().of("b") if f"{ORIGIN}/p/000350" >= entry.first}
    own = max(names)
    site.export("a", [A, {"loc": "/p/000350", "lastmod": "2026-10-01"}])
    site.night(2, sections=["a"])
    after = site.public().objects()
    changed = {key for key in before if before[key] != after.get(key) and "-b-" in key}
    assert changed == {own, own.replace(".xml", ".txt")}
    assert f"{ORIGIN}/p/000350" not in gzip.decompress(after[own.replace(".xml", ".txt")]).decode().split()
    entries = {entry.file.key: entry for entry in site.manifest().of("b")}
    recorded = entries[own]
    site.night(3)
    assert {entry.file.key: entry for entry in site.manifest().of("b")}[own].rows == recorded.rows
    assert {key: data for key, data in site.public().objects().items() if "-b-" in key} == {
        key: data for key, data in after.items() if "-b-" in key
    }, "a run that reads the section finds its files as they should be"


def test_fingerprint_dates_survive_moving_to_another_section_and_back(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN)
    rule = {"fingerprint": ["title"], "first_seen": True}
    one, other = {"loc": "/p", "title": "one"}, {"loc": "/b", "title": "b"}
    site.section("a", [{"loc": "/a", "title": "a"}], lastmod=rule).section("b", [one, other], lastmod=rule)
    site.night(1)
    changed = {**one, "title": "two"}
    site.export("b", [changed, other])
    site.night(2)
    site.export("a", [{"loc": "/a", "title": "a"}, changed])
    site.night(3, sections=["a"])
    site.export("a", [{"loc": "/a", "title": "a"}])
    site.night(4, sections=["a"])  # it left a, and b is not read: no section lists it
    assert f"{ORIGIN}/p" not in site.public().by_loc()
    site.night(5)
    assert site.public().by_loc()[f"{ORIGIN}/p"].lastmod == "2026-11-02T02:00:00Z"


def test_feeds_do_not_show_pages_that_left_their_section(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN).section("a", [A])
    site.section("b", [P, Q, B], feed={"formats": ["rss"], "items": 2})
    site.night(1)
    assert "/q</link>" in site.public().objects()["b.rss.xml"].decode()
    site.export("a", [A, Q])
    site.night(2, sections=["a"])
    feed = site.public().objects()["b.rss.xml"].decode()
    assert ("/q</link>" in feed, "/p</link>" in feed, "/b</link>" in feed) == (False, True, True)


def by_tasks(site: TestSite, number: int, *sections: str) -> dict[str, Any]:
    """Run every stage as tasks of a scheduler, which pass on only the key of the run; return the counts."""
    environment = site.at(FIRST_NIGHT + timedelta(days=number - 1))
    started = tasks.start(site.load(), Options(sections=sections), environment, owner=f"shop/{number}")
    key = started.key
    for bundle in started.bundles:
        tasks.extract(key, bundle, environment)
    for bundle in tasks.buckets(key, environment):
        tasks.merge(key, bundle, environment)
    groups = tasks.partition(key, environment)
    for bundle in tasks.clusters(key, environment):
        tasks.collect(key, bundle, environment)
    tasks.align(key, environment)
    for bundle in groups:
        tasks.render(key, bundle, environment)
    return tasks.publish(key, environment)


def test_scheduler_tasks_and_one_process_publish_the_same(tmp_path: Path) -> None:
    public = []
    for name in ("tasks", "local"):
        site = TestSite(tmp_path / name, gates=OPEN, airflow={"small": 0})
        rule = {"group": "item", "hreflang": "lang", "cluster": "shop"}
        rows = [{"loc": f"/{lang}/{n}", "item": n, "lang": lang} for n in range(30) for lang in ("de", "en")]
        site.section("a", [{"loc": "/a", "item": None, "lang": None}, *rows[::2]], alternates=rule)
        site.section("b", rows[1::2], alternates=rule, shards={"rows": 7}, feed={"formats": ["rss"]})
        run = by_tasks if name == "tasks" else TestSite.night
        run(site, 1)
        site.export("a", [{"loc": "/a", "item": None, "lang": None}, *rows[::2], *rows[11:30:4]])
        if name == "tasks":
            assert by_tasks(site, 2, "a")["sections"]["b"]["duplicates"] == 5
        else:
            site.night(2, sections=["a"])
        public.append({key: data for key, data in site.public().contents().items() if key != "robots.txt"})
    assert public[0] == public[1]


def test_a_page_of_an_incremental_section_leaves_and_returns(tmp_path: Path) -> None:
    """The section is incremental; none of its rows is read again when the page returns."""
    site = Catalog(tmp_path, gates=OPEN)
    site.table("pages", 10)
    site.section("a", [A])
    site.read("pages")
    site.night(1)
    site.export("a", [A, {"loc": "/pages/003", "lastmod": "2026-10-01"}])
    done = site.night(2, sections=["a"])
    assert counts(done, "pages", "listed", "duplicates", "removed") == (9, 1, 0)
    before = site.public().contents()
    done = site.night(3)
    assert counts(done, "pages", "extracted", "carried", "listed", "duplicates") == (0, 10, 9, 1)
    assert site.public().contents() == before
    site.export("a", [A])
    done = site.night(4)
    assert counts(done, "pages", "extracted", "listed", "duplicates") == (0, 10, 0)
    assert site.night(5).summary.status == "unchanged"


def test_a_page_of_a_table_with_a_key_leaves_and_returns(tmp_path: Path) -> None:
    site = TestSite(tmp_path, gates=OPEN).section("a", [A]).section("b", [])
    table(site, "b", [P, Q, B])
    site.keys["sections"]["b"]["from"]["key"] = "loc"
    site.night(1)
    site.export("a", [A, P])
    done = site.night(2)
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/q", "/b"}}
    assert counts(done, "b", "extracted", "carried", "listed", "duplicates") == (0, 3, 2, 1)
    site.night(3)
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/q", "/b"}}
    site.export("a", [A])
    site.night(4)
    assert listed(site) == {"a": {"/a"}, "b": {"/p", "/q", "/b"}}


def test_a_rollback_restores_a_page_taken_by_another_section(unread: Any) -> None:
    site = unread.site
    first = site.manifest().run_id
    unread(2, [A, P])
    roll_back(site.load(), first, site.at(FIRST_NIGHT + timedelta(days=2)), reason=None)
    assert listed(site) == {"a": {"/a"}, "b": {"/p", "/q", "/b"}}
    unread(4)
    assert listed(site) == {"a": {"/a", "/p"}, "b": {"/q", "/b"}}


NEWS = {"publication": "The Times", "language": "en"}


def news_site(folder: Path) -> TestSite:
    site = TestSite(folder, gates=OPEN)
    articles = [
        {"loc": f"/n/{n}", "title": f"Article {n}", "date": f"2026-11-01T0{n}:00:00Z", "lastmod": "2026-11-01"}
        for n in (0, 1)
    ] + [{"loc": "/n/9", "title": "Late", "date": "2026-10-30T09:00:00Z", "lastmod": "2026-11-01"}]
    site.section("c", [A])
    return site.section(
        "n", articles, news=NEWS, columns={"publication_date": "date"}, on_error="keep", feed={"formats": ["rss"]}
    )


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("held", [False, True])
def test_expired_articles_leave_a_section_that_is_not_read(tmp_path: Path, full: bool, held: bool) -> None:
    site = news_site(tmp_path)
    site.night(1)
    assert listed(site)["n"] == {"/n/0", "/n/1", "/n/9"}
    site.export("c", [A, B])
    if held:
        (tmp_path / "n.csv").unlink()
    done = site.night(2, sections=[] if held else ["c"], full=full)
    assert listed(site)["n"] == {"/n/0", "/n/1"}
    assert counts(done, "n", "carried", "listed", "excluded") == (3, 2, 1)
    assert "/n/9" not in site.public().objects()["n.rss.xml"].decode()
    site.night(9, sections=["c"], full=full)
    assert listed(site) == {"c": {"/a", "/b"}}


@pytest.mark.parametrize("full", [False, True])
def test_future_dates_are_removed_from_a_section_that_is_not_read(tmp_path: Path, full: bool) -> None:
    site = TestSite(tmp_path, gates={**OPEN, "max_undated": 1})
    far = "2027-10-01T00:00:00Z"
    site.section("b", [{"loc": "/f", "lastmod": far}, B], feed={"formats": ["rss"]}).section("c", [A])
    fast = FIRST_NIGHT + timedelta(days=400)
    run_locally(site.load(), Options(), site.at(fast), jobs=1)
    assert site.public().by_loc()[f"{ORIGIN}/f"].lastmod == far
    environment = site.at(FIRST_NIGHT)
    with pytest.raises(Refused):
        run_locally(site.load(), Options(sections=("c",), full=full), environment, jobs=1)
    options = Options(sections=("c",), full=full, reason="the clock was fast")
    run_locally(site.load(), options, environment, jobs=1, now=FIRST_NIGHT)
    assert site.public().by_loc()[f"{ORIGIN}/f"].lastmod is None
    assert far[:10] not in site.public().objects()["b.rss.xml"].decode()


@pytest.mark.parametrize("full", [False, True])
def test_future_articles_leave_a_section_that_is_not_read(tmp_path: Path, full: bool) -> None:
    """A fast clock had published them; they are not news yet."""
    site = news_site(tmp_path)
    later = [{"loc": "/n/later", "title": "Later", "date": "2026-12-01T00:00:00Z", "lastmod": "2026-12-01"}]
    site.export("n", [*later, {"loc": "/n/0", "title": "Now", "date": "2026-11-30T23:00:00Z", "lastmod": "2026-11-30"}])
    fast = FIRST_NIGHT + timedelta(days=30)
    run_locally(site.load(), Options(), site.at(fast), jobs=1)
    assert listed(site)["n"] == {"/n/later", "/n/0"}
    now = fast - timedelta(hours=2, minutes=30)
    options = Options(sections=("c",), full=full, reason="the clock was fast")
    run_locally(site.load(), options, site.at(now), jobs=1, now=now)
    assert listed(site)["n"] == {"/n/0"}
