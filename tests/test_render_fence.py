"""The fence: other bytes, another ETag, and the same content for every reader."""

from __future__ import annotations

import gzip
import io
import xml.etree.ElementTree as ET
import zlib

import pytest

from sitemap_etl.check.report import Faults
from sitemap_etl.check.text import check_text
from sitemap_etl.render import compress, fence
from sitemap_etl.render.index import document

MARKS = ("20261120T020000Z-7f3a", "20261120T020000Z-7f3a-2", "20261121T020000Z-0000")
URLSET = b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset><url><loc>https://a.example/</loc></url>\n</urlset>\n'
TEXT = b"https://a.example/\nhttps://a.example/b\n"
FILES = {
    "sitemap-p-00001.xml.gz": compress.gzip([URLSET]),
    "sitemap-p-00001.xml": URLSET,
    "sitemap.xml": document([("https://a.example/sitemap-p-00001.xml", "2026-11-01T00:00:00Z")]),
    "p.rss.xml": b'<?xml version="1.0"?>\n<rss version="2.0"><channel/></rss>\n',
    "sitemap-p-00001.txt.gz": compress.gzip([TEXT]),
    "sitemap-p-00001.txt": TEXT,
}


@pytest.mark.parametrize("key", FILES)
def test_every_fence_changes_the_bytes_but_not_the_content(key: str) -> None:
    plain = FILES[key]
    marked = [fence.fenced(key, plain, mark) for mark in MARKS]
    assert len({plain, *marked}) == 1 + len(MARKS)
    assert {fence.content(key, data) for data in (plain, *marked)} == {fence.content(key, plain)}
    assert all(len(data) - len(plain) <= 65 for data in marked)


@pytest.mark.parametrize("key", FILES)
def test_a_new_fence_replaces_the_old_one(key: str) -> None:
    once = fence.fenced(key, FILES[key], MARKS[0])
    assert fence.fenced(key, once, MARKS[1]) == fence.fenced(key, FILES[key], MARKS[1])


def test_a_fence_is_invisible_to_readers_of_gzip_and_xml() -> None:
    packed = fence.fenced("a.xml.gz", FILES["sitemap-p-00001.xml.gz"], MARKS[0])
    assert gzip.decompress(packed) == URLSET
    assert zlib.decompress(packed, 31) == URLSET
    assert gzip.GzipFile(fileobj=io.BytesIO(packed)).read() == URLSET
    assert MARKS[0].encode() in packed[:40], "it stands in the header's comment"
    for key in ("sitemap.xml", "p.rss.xml", "sitemap-p-00001.xml"):
        plain, marked = (ET.canonicalize(data) for data in (FILES[key], fence.fenced(key, FILES[key], MARKS[0])))
        assert plain == marked


def test_the_longest_fence_fits_its_reserved_size() -> None:
    longest = "20261120T020000Z-7f3a-99999999"
    assert len(fence.fenced("a.xml", b"", longest)) <= fence.FENCE_BYTES


def test_the_fence_of_a_text_sitemap_is_not_a_finding() -> None:
    faults = Faults("a.txt")
    locs, _ = check_text(fence.fenced("a.txt", TEXT, MARKS[0]), faults)
    assert locs.to_pylist() == TEXT.decode().split()
    assert not list(faults.findings())


def test_foreign_comments_are_not_fences() -> None:
    data = URLSET + b"<!-- made by hand -->\n"
    assert fence.content("a.xml", data) == data


def test_a_file_that_cannot_be_decompressed_has_no_content() -> None:
    assert fence.content("a.xml.gz", b"no gzip") is None
    assert fence.content("a.xml.gz", FILES["sitemap-p-00001.xml.gz"][:-9]) is None
