"""Hostile text: with any title, two parsers read the file and return the text."""

from __future__ import annotations

import re

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sitemap_etl.render import escape, feeds, index
from tests.support.examples import examples
from tests.support.rendered import PREFIXES, VIDEO, by_expat, by_lxml, document, rows, values

FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
"""The complement of XML 1.0's Char production (section 2.2)."""

anything = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | st.text(
    st.sampled_from("&<>'\"]\r\n\t\x00\x01\x0b\x1f\x7f\x85\u2028\u202e\ufeff\ufffd\ufffe\uffff😀אب;#ax"), max_size=30
)
CASES = (
    "]]>", "<![CDATA[x]]>", "&amp;", "&#0;", "<!--", "-->", "<?x?>", "a\r\nb\rc\nd\te", "\x00\x1f\ufffe\uffff",
    "👩‍👩‍👧‍👦", "\u202eright to left\u202c", "שלום & مرحبا", "ï»¿", "\ufeffBOM", "\x7f\x80\x9f", "x" * 100_000,
    "&" * 20_000 + "<" * 20_000,
)  # fmt: skip


def with_cases(test):
    for case in CASES:
        test = example([case])(test)
    return test


def news(titles: list[str]) -> pa.Table:
    return rows(
        *({"news": {"name": t, "language": "en", "publication_date": "2026-01-02", "title": t}} for t in titles)
    )


@settings(max_examples=examples(150))
@given(st.lists(anything, min_size=1, max_size=5))
@with_cases
def test_two_parsers_read_back_any_title_without_characters_forbidden_in_xml(titles):
    data = document(news(titles))
    meant = [FORBIDDEN.sub("", title) for title in titles]
    for read in (by_lxml, by_expat):
        tree = read(data)
        assert values(tree, "s:url/news:news/news:title") == meant
        assert values(tree, "s:url/news:news/news:publication/news:name") == meant
    assert data.count(b"\n") == len(titles) + 3, "one entry is one line"


@settings(max_examples=examples(100))
@given(st.lists(anything, min_size=1, max_size=4))
@with_cases
def test_any_text_of_a_video_is_read_back_by_two_parsers(texts):
    videos = [VIDEO | {"title": t, "description": t, "tag": [t, "x"], "uploader": t} for t in texts]
    data = document(rows({"videos": videos}))
    meant = [FORBIDDEN.sub("", text) for text in texts]
    for read in (by_lxml, by_expat):
        tree = read(data)
        for name in ("title", "description", "uploader", "tag[1]"):
            assert values(tree, f"s:url/video:video/video:{name}") == meant


@settings(max_examples=examples(150))
@given(st.lists(anything | st.none(), max_size=6))
def test_a_column_is_escaped_like_its_single_texts(texts):
    column = pa.array(texts, pa.string())
    expected = [None if text is None else escape.escaped(text) for text in texts]
    assert escape.escaped_texts(column).to_pylist() == expected
    assert escape.escaped_texts(column.slice(1)).to_pylist() == expected[1:]


def test_the_five_characters_of_the_protocol_are_escaped():
    assert escape.escaped("&'\"<>") == "&amp;&apos;&quot;&lt;&gt;"


def test_surrogates_are_removed_from_single_strings():
    assert escape.escaped("a\ud83db\udc00") == "ab"


@settings(max_examples=examples(100))
@given(st.lists(st.text("abc&'?=/%;-._~", max_size=20), min_size=1, max_size=5))
def test_canonical_urls_are_read_back_unchanged_from_every_element(paths):
    urls = [f"https://shop.example/{path}" for path in paths]
    links = [{"hreflang": "en", "href": url} for url in urls]
    data = document(rows(*({"loc": url, "images": urls, "alternates": links} for url in urls)))
    for read in (by_lxml, by_expat):
        tree = read(data)
        assert values(tree, "s:url/s:loc") == urls
        assert values(tree, "s:url[1]/image:image/image:loc") == urls
        assert [link.get("href") for link in tree.findall("s:url[1]/xhtml:link", PREFIXES)] == urls
    assert values(by_expat(index.document([(url, None) for url in urls])), "s:sitemap/s:loc") == urls


@settings(max_examples=examples(80))
@given(anything, anything)
@example("]]>", "\x00")
@example("x" * 100_000, "\ufffe\r\n")
def test_any_text_of_a_feed_is_read_back_by_two_parsers(title, name):
    table = rows({"lastmod": "2026-01-02", "title": title, "videos": [VIDEO | {"title": title, "description": name}]})
    feed = feeds.Feed(name, "https://shop.example/feed?a&b='c'", "https://shop.example/", 100)
    loc = "https://shop.example/0"
    for read in (by_lxml, by_expat):
        tree = read(feeds.rss(feed, table))
        assert (tree.find("channel/title").text or "") == FORBIDDEN.sub("", name)
        assert tree.find("channel/item/title").text == FORBIDDEN.sub("", title.strip()).strip() or loc
        media = {"media": "http://search.yahoo.com/mrss/"}
        assert (tree.find("channel/item/media:content/media:title", media).text or "") == FORBIDDEN.sub("", title)
        tree = read(feeds.atom(feed, table))
        atom = {"a": "http://www.w3.org/2005/Atom"}
        assert (tree.find("a:title", atom).text or "") == FORBIDDEN.sub("", name)


def test_text_that_needs_no_escaping_is_not_copied():
    """The fast path: a column that needs no escaping is returned unchanged."""
    column = pa.array(["https://shop.example/a", "https://shop.example/b"])
    assert escape.escaped_urls(column) is column
    assert escape.escaped_texts(column) is column
