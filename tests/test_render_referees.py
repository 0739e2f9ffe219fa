"""Other software reads the published files: the XSDs in two engines, and common readers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import frames
from sitemap_etl.render import compress, index, text, urlset
from tests.support.examples import examples
from tests.support.rendered import VIDEO, document, everything, fault_by_xmllint, faults_by_lxml, rows

INDEX = index.document(
    [("https://shop.example/a.xml.gz?a&b='c'", "2026-01-02T03:04:05Z"), ("https://shop.example/b.xml.gz", None)]
)


def test_a_sitemap_with_every_element_is_valid(tmp_path):
    data = document(everything())
    assert faults_by_lxml(data, "all.xsd") == []
    assert fault_by_xmllint(data, "all.xsd", tmp_path) == ""


def test_every_single_row_is_valid_with_the_namespaces_it_needs(tmp_path):
    table = everything()
    for n in range(table.num_rows):
        assert faults_by_lxml(document(table.slice(n, 1)), "all.xsd") == []


def test_an_index_is_valid(tmp_path):
    assert faults_by_lxml(INDEX, "all-index.xsd") == []
    assert fault_by_xmllint(INDEX, "all-index.xsd", tmp_path) == ""


def test_the_validators_find_faults(tmp_path):
    """A validator that never objects would prove nothing."""
    broken = document(everything()).replace(b"<priority>1.0</priority>", b"<priority>1.1</priority>")
    assert faults_by_lxml(broken, "all.xsd")
    assert "priority" in fault_by_xmllint(broken, "all.xsd", tmp_path)


@pytest.mark.parametrize("name", [entry.name for entry in frames.VIDEO])
def test_a_video_is_valid_without_any_one_of_its_optional_elements(name):
    if name in ("thumbnail_loc", "title", "description"):
        video = {required: VIDEO[required] for required in ("thumbnail_loc", "title", "description", name)}
    else:
        video = {given: value for given, value in VIDEO.items() if given != name}
    assert faults_by_lxml(document(rows({"videos": [video]})), "all.xsd") == []


titles = st.text(max_size=100)


@settings(max_examples=examples(25))
@given(titles, titles)
def test_hostile_text_gives_a_valid_sitemap(one, other):
    """The extensions enforce Google's limits; this tests how rendering treats characters."""
    table = rows(
        {"videos": [VIDEO | {"title": one, "description": other, "tag": [one, other], "uploader": other}]},
        {"news": {"name": one, "language": "zh-cn", "publication_date": "2026-01-02", "title": other}},
    )
    assert faults_by_lxml(document(table), "all.xsd") == []


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Iterator[tuple[Path, str]]:
    """A folder and the address at which it is served."""
    folder = tmp_path_factory.mktemp("served")
    handler = type("Quiet", (SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(handler, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def many() -> pa.Table:
    """Rows of every kind, with locs that need escaping."""
    table = everything()
    more = rows(*({"loc": f"https://shop.example/?q={n}&x='{n}'", "lastmod": "2026-01-02"} for n in range(200)))
    return pa.concat_tables([table, more])


def test_ultimate_sitemap_parser_reads_every_url_back():
    import usp.tree

    table = many()
    pages = list(usp.tree.sitemap_from_str(document(table).decode()).all_pages())
    assert {page.url for page in pages} == set(table.column("loc").to_pylist())
    full = next(page for page in pages if page.url == "https://shop.example/9")
    assert [image.loc for image in full.images] == table.column("images")[9].as_py()
    assert (full.news_story.title, full.news_story.publication_name) == ("A & B", "The <Times>")
    assert float(full.priority) == 1.0


def test_ultimate_sitemap_parser_reads_a_text_sitemap_back():
    import usp.tree

    table = many()
    pages = usp.tree.sitemap_from_str(b"".join(text.document(table, 0, table.num_rows)).decode()).all_pages()
    assert {page.url for page in pages} == set(table.column("loc").to_pylist())


def test_scrapy_reads_every_url_back():
    from scrapy.utils.sitemap import Sitemap

    table = many()
    read = list(Sitemap(document(table)))
    assert [entry["loc"] for entry in read] == table.column("loc").to_pylist()
    assert [entry.get("lastmod") for entry in read] == table.column("lastmod").to_pylist()
    assert read[9]["alternate"] == ["https://shop.example/de?a&b", "https://shop.example/0"]
    listed = Sitemap(INDEX)
    assert listed.type == "sitemapindex"
    assert [entry["loc"] for entry in listed] == [
        "https://shop.example/a.xml.gz?a&b='c'",
        "https://shop.example/b.xml.gz",
    ]


def test_advertools_follows_the_index_to_every_gzipped_file(served):
    import advertools  # takes half a second, in every process that collects this file

    folder, address = served
    table = many()
    rendered = urlset.entries(table)
    middle = table.num_rows // 2
    for name, start, stop in (("a.xml.gz", 0, middle), ("b.xml.gz", middle, table.num_rows)):
        parts = urlset.document(rendered.slice(start, stop), urlset.namespaces(table.slice(start, stop - start)))
        (folder / name).write_bytes(compress.gzip(parts))
    (folder / "sitemap.xml").write_bytes(
        index.document([(f"{address}/{name}", None) for name in ("a.xml.gz", "b.xml.gz")])
    )
    read = advertools.sitemap_to_df(f"{address}/sitemap.xml", max_workers=1)
    assert set(read["loc"].dropna()) == set(table.column("loc").to_pylist())
