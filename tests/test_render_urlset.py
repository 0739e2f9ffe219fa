"""Entries and sitemaps of whole columns."""

from __future__ import annotations

import gzip as stdlib_gzip
import zlib

import pyarrow as pa
import pytest

from sitemap_etl import frames, limits
from sitemap_etl.render import compress, urlset
from sitemap_etl.render.fence import FENCE_BYTES
from tests.support.rendered import by_expat, by_lxml, document, everything, rows, values


def texts(entries: urlset.Entries) -> list[str]:
    found: list[str] = entries.joined().to_pylist()
    return found


def test_an_entry_has_its_elements_in_the_order_of_the_xsd():
    table = rows({"loc": "https://shop.example/a", "lastmod": "2026-01-02", "changefreq": "daily", "priority": 8})
    assert texts(urlset.entries(table)) == [
        (
            "<url><loc>https://shop.example/a</loc><lastmod>2026-01-02</lastmod>"
            "<changefreq>daily</changefreq><priority>0.8</priority></url>\n"
        )
    ]


def test_a_null_value_has_no_element():
    table = rows({"lastmod": "2026-01-02"}, {"changefreq": "never"}, {"priority": 10}, {})
    assert texts(urlset.entries(table)) == [
        "<url><loc>https://shop.example/0</loc><lastmod>2026-01-02</lastmod></url>\n",
        "<url><loc>https://shop.example/1</loc><changefreq>never</changefreq></url>\n",
        "<url><loc>https://shop.example/2</loc><priority>1.0</priority></url>\n",
        "<url><loc>https://shop.example/3</loc></url>\n",
    ]


def test_every_priority_has_one_decimal():
    table = rows(*({"priority": tenths} for tenths in range(11)))
    assert values(by_lxml(document(table)), "s:url/s:priority") == [
        "0.0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7", "0.8", "0.9", "1.0",
    ]  # fmt: skip


def test_missing_columns_count_as_null():
    assert texts(urlset.entries(pa.table({"loc": ["https://shop.example/"]}))) == [
        "<url><loc>https://shop.example/</loc></url>\n"
    ]


def test_ampersand_and_apostrophe_of_a_url_are_escaped():
    table = rows({"loc": "https://shop.example/?a=1&b=it's&amp;c"})
    assert texts(urlset.entries(table)) == [
        "<url><loc>https://shop.example/?a=1&amp;b=it&apos;s&amp;amp;c</loc></url>\n"
    ]
    assert values(by_expat(document(table)), "s:url/s:loc") == ["https://shop.example/?a=1&b=it's&amp;c"]


def test_each_extension_is_rendered_only_for_pages_that_have_it():
    table = everything()
    entries = texts(urlset.entries(table))
    marks = ("<image:image>", "<video:video>", "<news:news>", "<xhtml:link ", "<mobile:mobile/>")
    assert [[entry.count(mark) for mark in marks] for entry in entries] == [
        [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0],
        [2, 0, 0, 0, 0], [0, 2, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 2, 0], [0, 0, 0, 0, 1],
        [2, 2, 1, 2, 1], [0, 0, 0, 0, 0],
    ]  # fmt: skip


def test_a_video_has_every_element_in_the_order_of_the_xsd():
    video = by_lxml(document(everything())).find(
        "s:url[6]/video:video", {"s": limits.NS_SITEMAP, "video": limits.NS_VIDEO}
    )
    assert [child.tag.split("}")[1] for child in video] == [
        "thumbnail_loc", "title", "description", "content_loc", "player_loc", "duration", "expiration_date", "rating",
        "view_count", "publication_date", "tag", "tag", "family_friendly", "restriction", "requires_subscription",
        "uploader", "platform", "live",
    ]  # fmt: skip


def test_a_namespace_is_declared_only_if_it_is_used():
    table = everything()
    assert urlset.namespaces(table) == ("image", "video", "news", "xhtml", "mobile")
    assert [urlset.namespaces(table.slice(n, 1)) for n in (0, 4, 5, 6, 7, 8)] == [
        (), ("image",), ("video",), ("news",), ("xhtml",), ("mobile",),
    ]  # fmt: skip
    header, footer = urlset.wrapper(("xhtml",))
    assert header == (
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:xhtml="http://www.w3.org/1999/xhtml">\n'
    )
    assert footer == b"</urlset>\n"
    assert urlset.namespaces(table.slice(10)) == (), "empty lists and false use nothing"


def test_the_reserved_size_of_root_element_and_fence_is_right():
    assert sum(map(len, urlset.wrapper(urlset.namespaces(everything())))) + FENCE_BYTES == urlset.WRAPPER_BYTES


def test_the_predicted_size_of_entries_is_exact():
    table = everything()
    rendered = urlset.entries(table)
    sizes = rendered.sizes.tolist()
    assert sizes == [len(entry.encode()) for entry in texts(rendered)]
    for start, stop in ((0, table.num_rows), (3, 7), (10, 11)):
        parts = urlset.document(rendered.slice(start, stop), ("image",))
        assert sum(map(len, parts)) == sum(sizes[start:stop]) + sum(map(len, urlset.wrapper(("image",))))


def test_slices_and_chunks_of_a_table_render_the_same_entries():
    table = everything()
    expected = texts(urlset.entries(table))
    for start in range(table.num_rows):
        assert texts(urlset.entries(table.slice(start))) == expected[start:]
    chunked = pa.concat_tables([table.slice(n, 1) for n in range(table.num_rows)])
    assert texts(urlset.entries(chunked)) == expected
    sliced = urlset.entries(table).slice(4, 9)
    assert texts(sliced) == expected[4:9]
    assert b"".join(sliced.slice(1, 3).chunks()).decode() == "".join(expected[5:7])


def test_list_values_under_a_null_are_not_rendered():
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 2, 4, 5], pa.int32()), pa.array(list("abcde")), mask=pa.array([False, True, False])
    )
    table = pa.table({"loc": ["https://shop.example/"] * 3, "images": hidden})
    assert [entry.count("<image:image>") for entry in texts(urlset.entries(table))] == [2, 0, 1]


def test_null_elements_of_a_list_are_not_rendered():
    table = rows(
        {
            "images": [None, "https://i.example/1"],
            "alternates": [None, {"hreflang": "en", "href": None}],
            "videos": [None],
        }
    )
    (entry,) = texts(urlset.entries(table))
    assert "xhtml:link" not in entry
    assert "video:video" not in entry
    assert entry.count("<image:image>") == 1


def test_a_row_over_the_size_limit_can_be_rendered_without_extensions():
    table = everything()
    mask = pa.array([n == 9 for n in range(table.num_rows)])
    entries, lighter = (texts(urlset.entries(t)) for t in (table, urlset.without_extensions(table, mask)))
    assert lighter[9] == (
        "<url><loc>https://shop.example/9</loc><lastmod>2026-01-02T03:04:05Z</lastmod>"
        "<changefreq>daily</changefreq><priority>1.0</priority></url>\n"
    )
    assert lighter[:9] + lighter[10:] == entries[:9] + entries[10:]
    assert urlset.without_extensions(table, mask).schema == frames.PUBLISHED


def test_entries_that_could_overflow_a_string_array_are_rendered_in_halves():
    table = everything()
    rendered, whole = urlset.entries(table, largest=20_000), urlset.entries(table)
    chunks = [part.num_chunks for part in rendered.parts if isinstance(part, pa.ChunkedArray)]
    assert chunks
    assert min(chunks) > 1
    assert not any(isinstance(part, pa.ChunkedArray) for part in whole.parts)
    assert texts(rendered) == texts(whole)
    assert rendered.sizes.tolist() == whole.sizes.tolist()
    for start, stop in ((0, 3), (4, 9)):
        cut = [b"".join(urlset.document(e.slice(start, stop), ())) for e in (rendered, whole)]
        assert cut[0] == cut[1]
    assert texts(urlset.entries(table.slice(3, 1), largest=1)) == texts(whole)[3:4]


def test_a_table_without_rows_has_no_entries():
    none = urlset.entries(frames.PUBLISHED.empty_table())
    assert len(none) == 0
    assert texts(none) == []


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pa.table({"loc": pa.array([None], pa.string())}), "without a loc"),
        (pa.table({"loc": ["https://a.example/", None]}), "without a loc"),
        (pa.table({"loc": ["https://a.example/"], "priority": pa.array([11], pa.int8())}), "tenths from 0 to 10"),
        (pa.table({"loc": ["https://a.example/"], "priority": pa.array([-1], pa.int8())}), "tenths from 0 to 10"),
    ],
)
def test_rows_that_can_not_be_published_are_refused(table, said):
    with pytest.raises(ValueError, match=said):
        urlset.entries(table)


def test_a_file_beyond_the_limits_of_the_protocol_is_refused():
    rendered = urlset.entries(pa.table({"loc": [f"https://shop.example/{n}" for n in range(50_001)]}))
    assert len(b"".join(urlset.document(rendered.slice(0, 50_000), ())).splitlines()) == 50_003
    with pytest.raises(ValueError, match="50,000 entries, not 50,001"):
        urlset.document(rendered.slice(0, 50_001), ())
    with pytest.raises(ValueError, match="not 0"):
        urlset.document(rendered.slice(5, 5), ())
    heavy = urlset.entries(rows(*({"images": ["https://i.example/" + "x" * 2_000] * 1_000} for _ in range(26))))
    with pytest.raises(ValueError, match="52,428,800 bytes"):
        urlset.document(heavy, ("image",))


def test_gzip_output_is_deterministic_without_time_or_name():
    parts = list(urlset.document(urlset.entries(everything()).slice(0, 5), ("image",)))
    packed = compress.gzip(parts)
    assert packed == compress.gzip([bytes(part) for part in parts])
    assert packed[:4] == b"\x1f\x8b\x08\x00", "no flags: no name, no comment"
    assert packed[4:8] == bytes(4), "the time is 0"
    assert stdlib_gzip.decompress(packed) == zlib.decompress(packed, 31) == b"".join(parts)
