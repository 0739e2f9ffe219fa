"""Files that repeat what sections list: news, recent changes, feeds, views; and text sitemaps."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import feedparser
import pytest

from sitemap_etl import limits
from sitemap_etl.explain.explain import explain
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.state import layout
from sitemap_etl.state.records import PastRuns
from sitemap_etl.state.store import read_document
from tests.support.sites import FIRST_NIGHT, TestSite, pages, parse

NEWS_NS = "{http://www.google.com/schemas/sitemap-news/0.9}"


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path, gates={"max_drop": 1, "max_growth": 99})


def article(name: str, published: str) -> dict[str, Any]:
    return {"loc": f"/news/{name}", "title": name.title(), "publication_date": published}


def names(site: TestSite) -> list[str]:
    return [address.rsplit("/", 1)[1] for address in site.public().files()]


AGES = {"mid": "2026-11-01T00:00:00Z", "new": "2026-11-01T01:00:00Z", "old": "2026-10-30T12:00:00Z"}
NEWS = {"news": {"publication": "The Times", "language": "en"}}


def test_news_has_the_articles_of_the_last_48_hours_to_the_second(site: TestSite) -> None:
    site.section("all", pages(5))
    rows = [
        article("in", "2026-10-30T02:00:00Z"),
        article("out", "2026-10-30T01:59:59Z"),
        article("now", "2026-11-01T02:00:00Z"),
        article("future", "2026-11-01T02:00:01Z"),
    ]
    site.section("news", rows, **NEWS)
    done = site.night(1)
    listed = {entry.loc.rsplit("/", 1)[1] for entry in site.public().entries() if "news" in entry.file}
    assert listed == {"in", "now"}
    assert done.summary.sections["news"].excluded == 2


def test_run_records_count_pages_repeated_by_views_once(site: TestSite) -> None:
    """News may repeat pages that another section lists."""
    site.section("all", pages(5))
    site.section("news", [article(f"a{n}", "2026-11-01T01:00:00Z") for n in range(3)], **NEWS)
    site.night(1)
    site.export("all", pages(6))
    site.night(2)
    remembered = read_document(site.state().storage, layout.PAST_RUNS, PastRuns)
    assert remembered is not None
    assert [(run.listed, run.added) for run in remembered[0].runs] == [(5, 5), (6, 1)]


def test_more_than_a_thousand_articles_get_several_files(site: TestSite) -> None:
    site.section("all", pages(5))
    site.section("news", [article(f"a{n}", "2026-11-01T01:00:00Z") for n in range(1_500)], **NEWS)
    site.night(1)
    files = [name for name in names(site) if "-news-" in name]
    assert files == ["sitemap-news-00001.xml.gz", "sitemap-news-00002.xml.gz"]


def test_expired_articles_leave_and_an_empty_file_leaves_the_index(site: TestSite) -> None:
    site.section("all", pages(5))
    site.section("news", [article("a", "2026-11-01T01:00:00Z")], **NEWS)
    site.night(1)
    assert "sitemap-news-00001.xml.gz" in names(site)
    done = site.night(4)
    assert "sitemap-news-00001.xml.gz" not in names(site)
    assert done.summary.status == "published"


@pytest.mark.parametrize("why", ["held", "not asked for"])
def test_expired_articles_leave_a_news_section_that_is_not_read(site: TestSite, why: str) -> None:
    site.section("all", pages(5))
    rows = [article(f"{name}{n:03}", when) for name, when in AGES.items() for n in range(600)]
    site.section("news", rows, on_error="keep", formats=["xml", "text"], **NEWS)
    site.night(1)
    (site.folder / "news.csv").unlink()
    sections = ["all"] if why == "not asked for" else []
    done = site.night(2, sections=sections)
    assert done.summary.status == ("partial" if why == "held" else "published")
    listed = Counter(entry.loc.rsplit("/", 1)[1][:3] for entry in site.public().entries() if "news" in entry.file)
    assert listed == {"mid": 600, "new": 600}
    counts = done.summary.sections["news"]
    assert (counts.carried, counts.listed, counts.excluded) == (1_800, 1_200, 600)
    assert site.night(2, sections=sections, reason="again").summary.sections["news"].excluded == 0
    texts = [data for key, data in site.public().objects().items() if "news" in key and key.endswith(".txt.gz")]
    assert len(b"".join(map(gzip.decompress, texts)).splitlines()) == 1_200
    (answer,) = explain(site.load(), ["https://shop.example/news/old007"], site.environment)
    assert answer.kind == "excluded"
    assert "older than 48 hours, or without what news needs (as it was published: section news was not read)" in (
        answer.sentence()
    )
    site.night(9, sections=sections)
    assert not any("news" in name for name in names(site))
    site.export("news", [article("back", "2026-11-09T01:00:00Z")])
    site.night(10)
    assert [name for name in names(site) if "news" in name] == ["sitemap-news-00001.xml.gz"]


def test_a_view_repeats_pages_of_other_sections_without_counting_them_twice(site: TestSite) -> None:
    site.section("all", pages(20))
    site.section("again", pages(20), view=True)
    done = site.night(1)
    assert done.summary.sections["again"].listed == 20
    assert done.summary.sections["again"].duplicates == 0
    assert site.manifest().listed == 20


def test_recent_changes_are_first_in_the_index_in_a_small_file(site: TestSite) -> None:
    site.keys["recent"] = "3d"
    site.section("all", pages(200, lastmod="2026-10-01"))
    site.night(1)
    assert not any("recent" in name for name in names(site))
    rows = pages(205, lastmod=lambda n: "2026-11-02" if n in (7, 9) else "2026-10-01")
    site.export("all", rows)
    site.night(2)
    assert names(site)[0] == "sitemap-recent-00001.xml.gz"
    recent = parse(site.public().read("https://shop.example/sitemap-recent-00001.xml.gz"), "r.gz")
    assert len(recent) == 7
    site.night(3)
    assert any("recent" in name for name in names(site))
    site.night(6)
    assert not any("recent" in name for name in names(site))


def test_each_file_has_a_text_sitemap_that_no_index_lists(site: TestSite) -> None:
    site.section("all", pages(25), formats=["xml", "text"], shards={"rows": 10})
    site.night(1)
    objects = site.public().objects()
    texts = sorted(key for key in objects if key.endswith(".txt.gz"))
    assert texts == [f"sitemap-all-{n:05}.txt.gz" for n in (1, 2, 3)]
    lines = b"".join(gzip.decompress(objects[key]) for key in texts).decode().splitlines()
    assert lines == [f"https://shop.example/p/{n:06}" for n in range(25)]
    assert not any(name.endswith(".txt.gz") for name in names(site))


def test_feeds_list_the_newest_pages_and_their_hub(site: TestSite) -> None:
    site.keys["ping"] = {"websub": {"hub": "https://hub.example/"}}
    rows = pages(50, lastmod=lambda n: f"2026-10-{n % 28 + 1:02}T00:00:00Z", title=lambda n: f"Page & {n}")
    site.section("all", rows, feed={"formats": ["rss", "atom"], "title": "Shop", "items": 10})
    site.night(1, ping=False)
    objects = site.public().objects()
    for key in ("all.rss.xml", "all.atom.xml"):
        feed = feedparser.parse(objects[key])
        assert not feed.bozo
        assert len(feed.entries) == 10
        assert feed.entries[0].title == "Page & 27"
        assert any(link["rel"] == "hub" and link["href"] == "https://hub.example/" for link in feed.feed.links)
    assert site.night(2, ping=False).summary.status == "unchanged"


def test_a_feed_of_a_section_that_is_not_read_stays_published(site: TestSite) -> None:
    feed = {"formats": ["rss"], "title": "Shop"}
    site.section("a", pages(5, lastmod="2026-10-01"), feed=feed).section("b", pages(5, start=50))
    site.night(1)
    before = site.public().objects()["a.rss.xml"]
    site.export("b", pages(6, start=50))
    site.night(2, sections=["b"])
    assert site.public().objects()["a.rss.xml"] == before


@pytest.mark.parametrize("how", ["not read", "rolled back"])
def test_a_feed_added_to_a_published_section_lists_its_newest_pages(site: TestSite, how: str) -> None:
    dated = pages(50, lastmod=lambda n: f"2026-{9 + n // 30:02}-{n % 30 + 1:02}")
    site.section("a", dated, shards={"rows": 20}).section("b", pages(5, start=50))
    site.night(1)
    site.section("a", feed={"formats": ["rss"], "title": "News", "items": 7})
    if how == "not read":
        site.night(2, sections=["b"])
    else:
        site.export("a", pages(48, lastmod="2026-10-30"))
        site.night(2)
        roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=2)), reason="x")
    shown = re.findall(r"<link>https://shop.example(/p/[0-9]+)</link>", site.public().objects()["a.rss.xml"].decode())
    assert shown == [row["loc"] for row in reversed(dated[-7:])]
    assert site.night(4).summary.status == ("unchanged" if how == "not read" else "published")


def test_an_unchanged_file_of_recent_changes_keeps_its_lastmod(tmp_path: Path) -> None:
    site = TestSite(tmp_path, recent="7d").section("p", pages(40))
    site.night(1)
    site.export("p", pages(42))
    site.night(2)
    site.export("p", pages(41, start=1))
    done = site.night(3)
    assert (done.summary.status, done.summary.sections["p"].removed) == ("published", 1)
    (recent,) = [entry for entry in site.manifest().entries if entry.section == "recent"]
    assert (recent.rows, recent.file.lastmod) == (2, "2026-11-02T02:00:00Z")
    site.export("p", pages(42, start=1))
    site.night(4)
    (recent,) = [entry for entry in site.manifest().entries if entry.section == "recent"]
    assert (recent.rows, recent.file.lastmod) == (3, "2026-11-04T02:00:00Z")


@pytest.mark.thorough
def test_an_index_stays_within_its_limit_when_half_a_million_pages_changed(tmp_path: Path) -> None:
    """The first ten files of recent changes have reserved places in the first index, others use free ones."""
    site = TestSite(tmp_path, recent="7d").section("p", pages(550_000), shards={"rows": 500})
    site.night(1)
    site.export("p", pages(550_000, lastmod="2026-11-01"))
    site.night(2)
    in_index = Counter((entry.index, entry.section) for entry in site.manifest().entries)
    assert (in_index[1, "p"], in_index[1, "recent"]) == (limits.INDEX_FILES - 10, 10)
    assert in_index[2, "recent"] >= 1
    recent = [entry for entry in site.manifest().entries if entry.section == "recent"]
    bounds = [loc for entry in recent for loc in (entry.first, entry.last)]
    assert bounds == sorted(set(bounds))
    assert sum(entry.rows for entry in recent) == 550_000


def test_recent_changes_are_sorted_across_sections(tmp_path: Path) -> None:
    """Shards are read one after the other, in the order of their first page."""
    site = TestSite(tmp_path, recent="7d", gates={"max_growth": 99})
    rows = {name: pages(1_200)[at::3] for at, name in enumerate("abc")}
    for at, name in enumerate("abc"):
        site.section(name, rows[name][::9], shards={"rows": 7 + at, "fill": 1})
    site.night(1)
    for at, name in enumerate("abc"):
        site.export(name, rows[name][:: 1 + at % 2 * 2])
    done = site.night(2)
    (recent,) = [entry for entry in site.manifest().entries if entry.section == "recent"]
    shown = [entry.loc for entry in parse(site.public().read(f"https://shop.example/{recent.file.key}"), "r.gz")]
    assert shown == sorted(set(shown))
    assert len(shown) == sum(done.summary.sections[name].added for name in "abc") > 600
