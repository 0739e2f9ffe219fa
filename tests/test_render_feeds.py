"""RSS and Atom feeds of the most recently changed pages."""

from __future__ import annotations

import feedparser
import pyarrow as pa
import pytest

from sitemap_etl import limits
from sitemap_etl.render import feeds
from sitemap_etl.render.feeds import Feed
from tests.support.rendered import VIDEO, by_expat, by_lxml, rows

FEED = Feed(
    title="Shop & <news>",
    address="https://shop.example/articles.rss.xml?a&b",
    site="https://shop.example/",
    hubs=("https://hub.example/?a&b", "https://other.example/"),
    items=3,
)
MEDIA = {"media": "http://search.yahoo.com/mrss/", "dcterms": "http://purl.org/dc/terms/"}
FORMATS = pytest.mark.parametrize(("render", "version"), [(feeds.rss, "rss20"), (feeds.atom, "atom10")])


def table() -> pa.Table:
    return rows(
        {"loc": "https://shop.example/old", "lastmod": "2026-01-01"},
        {"loc": "https://shop.example/b?x=1&y='2'", "lastmod": "2026-01-03T04:05:06Z", "title": "Fish & <chips>"},
        {"loc": "https://shop.example/undated", "title": "No date"},
        {"loc": "https://shop.example/day", "lastmod": "2026-01-03"},
        {"loc": "https://shop.example/a", "lastmod": "2026-01-03T04:05:06Z", "videos": [VIDEO]},
    )


@FORMATS
def test_a_feed_has_the_newest_items_first_up_to_its_limit(render, version):
    read = feedparser.parse(render(FEED, table()))
    assert (read.bozo, read.version) == (0, version)
    assert [entry.link for entry in read.entries] == [
        "https://shop.example/a",
        "https://shop.example/b?x=1&y='2'",
        "https://shop.example/day",
    ]
    assert [entry.id for entry in read.entries] == [entry.link for entry in read.entries], "the loc is the identity"


@FORMATS
def test_a_feed_links_to_itself_its_site_and_its_hubs(render, version):
    read = feedparser.parse(render(FEED, table())).feed
    links = [(link.rel, link.href) for link in read.links]
    assert ("self", FEED.address) in links
    assert ("alternate", FEED.site) in links
    assert [href for rel, href in links if rel == "hub"] == list(FEED.hubs)


@FORMATS
def test_the_date_of_a_feed_is_the_date_of_its_newest_item(render, version):
    read = feedparser.parse(render(FEED, table()))
    assert tuple(read.feed.updated_parsed)[:6] == (2026, 1, 3, 4, 5, 6)
    dates = [tuple(entry.get("published_parsed") or entry.updated_parsed)[:6] for entry in read.entries]
    assert dates == [(2026, 1, 3, 4, 5, 6), (2026, 1, 3, 4, 5, 6), (2026, 1, 3, 0, 0, 0)]


@FORMATS
def test_an_item_without_a_title_shows_its_url(render, version):
    data = render(FEED, table())
    path = "channel/item/title" if version == "rss20" else "{*}entry/{*}title"
    expected = ["https://shop.example/a", "Fish & <chips>", "https://shop.example/day"]
    for read in (by_lxml, by_expat):
        assert [title.text for title in read(data).findall(path)] == expected


@FORMATS
def test_a_feed_has_the_same_bytes_for_any_order_of_rows(render, version):
    rows_given = table()
    backwards = rows_given.take(list(range(rows_given.num_rows))[::-1])
    assert render(FEED, rows_given) == render(FEED, backwards)
    assert render(FEED, rows_given) == render(FEED, pa.concat_tables([rows_given.slice(0, 2), rows_given.slice(2)]))


@FORMATS
def test_a_feed_without_dated_rows_is_valid_and_empty(render, version):
    for empty in (table().slice(2, 1), table().slice(0, 0), table().drop_columns(["lastmod"])):
        read = feedparser.parse(render(FEED, empty))
        assert (read.bozo, read.version, read.entries) == (0, version, [])


def test_ties_at_the_limit_of_a_feed_are_broken_by_loc():
    tied = rows(*({"loc": f"https://shop.example/{n}", "lastmod": "2026-01-01"} for n in (5, 3, 9, 1, 7)))
    assert feeds.newest(tied, 2).column("loc").to_pylist() == ["https://shop.example/1", "https://shop.example/3"]


def test_rss_lists_videos_as_media_rss():
    data = feeds.rss(FEED, table())
    item = by_lxml(data).find("channel/item")
    content = item.find("media:content", MEDIA)
    assert dict(content.attrib) == {"url": VIDEO["content_loc"], "medium": "video", "duration": "600"}
    assert content.find("media:player", MEDIA).get("url") == VIDEO["player_loc"]
    assert content.find("media:title", MEDIA).text == VIDEO["title"]
    assert content.find("media:description", MEDIA).text == VIDEO["description"]
    assert content.find("media:thumbnail", MEDIA).get("url") == VIDEO["thumbnail_loc"]
    assert content.find("media:keywords", MEDIA).text == "steak, fire & smoke"
    restriction = content.find("media:restriction", MEDIA)
    assert (restriction.get("relationship"), restriction.text) == ("allow", "DE GB")
    assert content.find("dcterms:valid", MEDIA).text == "end=2030-01-01; scheme=W3C-DTF"
    read = feedparser.parse(data).entries[0]
    assert read.media_content[0]["url"] == VIDEO["content_loc"]
    assert read.media_thumbnail[0]["url"] == VIDEO["thumbnail_loc"]


@pytest.mark.parametrize(("friendly", "suits"), [("yes", "nonadult"), ("no", "adult")])
def test_family_friendly_becomes_a_media_rating(friendly, suits):
    video = VIDEO | {"family_friendly": friendly}
    row = {"loc": "https://shop.example/v", "lastmod": "2026-01-01", "videos": [video]}
    content = by_lxml(feeds.rss(FEED, rows(row))).find("channel/item/media:content", MEDIA)
    assert content.find("media:rating", MEDIA).text == suits


def test_media_namespaces_are_declared_only_if_there_are_videos():
    assert b"mrss" in feeds.rss(FEED, table())
    assert b"mrss" not in feeds.rss(FEED, table().slice(0, 4))
    assert b"mrss" not in feeds.atom(FEED, table())


def test_a_feed_with_an_invalid_limit_is_refused():
    heavy = rows(*({"lastmod": "2026-01-01", "title": "x" * 2_000_000} for _ in range(30)))
    with pytest.raises(ValueError, match=f"at most {limits.SITEMAP_BYTES:,} are allowed"):
        feeds.atom(Feed("x", "https://shop.example/a.xml", "https://shop.example/", 100), heavy)
