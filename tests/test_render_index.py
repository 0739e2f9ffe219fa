"""The sitemap index and the text sitemap."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sitemap_etl.render import index, text
from tests.support.rendered import by_expat, by_lxml, values


def test_an_index_lists_files_in_the_order_given():
    data = index.document(
        [("https://shop.example/b.xml.gz?a&b", "2026-01-02T03:04:05Z"), ("https://shop.example/a.xml.gz", None)]
    )
    assert data.decode() == (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        "<sitemap><loc>https://shop.example/b.xml.gz?a&amp;b</loc><lastmod>2026-01-02T03:04:05Z</lastmod></sitemap>\n"
        "<sitemap><loc>https://shop.example/a.xml.gz</loc></sitemap>\n"
        "</sitemapindex>\n"
    )
    for read in (by_lxml, by_expat):
        assert values(read(data), "s:sitemap/s:loc") == [
            "https://shop.example/b.xml.gz?a&b",
            "https://shop.example/a.xml.gz",
        ]


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], "at least one"),
        ([("https://shop.example/a.xml", None)] * 50_001, "50,001 sitemaps, but at most 50,000"),
        ([("https://shop.example/" + "x" * 2_040, None)], "2,047 characters"),
        ([("https://shop.example/" + "&" * 2_000, None)] * 6_000, "at most 52,428,800"),
    ],
)
def test_an_invalid_index_is_refused(entries, said):
    with pytest.raises(ValueError, match=said):
        index.document(entries)


def test_a_full_index_is_within_the_limits():
    entries = [(f"https://shop.example/sitemap-products-{n:05}.xml.gz", "2026-01-02T03:04:05Z") for n in range(50_000)]
    assert len(values(by_expat(index.document(entries)), "s:sitemap/s:loc")) == 50_000


def test_a_text_sitemap_has_one_unescaped_url_per_line():
    table = pa.table({"loc": [f"https://shop.example/?a={n}&b='c'" for n in range(5)]})
    assert b"".join(text.document(table, 1, 3)) == b"https://shop.example/?a=1&b='c'\nhttps://shop.example/?a=2&b='c'\n"


def test_a_text_sitemap_does_not_depend_on_chunks():
    table = pa.table({"loc": [f"https://shop.example/{n}" for n in range(9)]})
    chunked = pa.concat_tables([table.slice(0, 4), table.slice(4, 1), table.slice(5)])
    assert b"".join(text.document(chunked, 2, 8)) == b"".join(text.document(table, 2, 8))


def test_a_text_sitemap_beyond_the_limits_is_refused():
    table = pa.table({"loc": [*(["https://shop.example/" + "x" * 2_000] * 50_000), None]})
    with pytest.raises(ValueError, match="52,428,800 bytes"):
        text.document(table, 0, 50_000)
    with pytest.raises(ValueError, match="50,000 entries"):
        text.document(table, 0, 50_001)
    with pytest.raises(ValueError, match="not 0"):
        text.document(table, 3, 3)
    with pytest.raises(ValueError, match="without a loc"):
        text.document(table, 49_990, 50_001)
