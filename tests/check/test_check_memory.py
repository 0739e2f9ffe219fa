"""The memory of a check depends on the size of a file, whatever the file contains.

A file of 50 MB, the limit of the protocol, is checked in 400 MB. In proportion, the files here may add five bytes for
each byte to the memory of the process.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sitemap_etl.check import Options, Report, check
from sitemap_etl.limits import NS_IMAGE, NS_XHTML
from tests.support.broken_sitemaps import NS

SIZE = 12_000_000
"""Bytes of each file, which are also the largest that is allowed."""
BESIDE = 120_000_000
"""Bytes for code that is loaded, caches, blocks that are read at a time, 200,000 entries, and 50,000 hosts."""
CHILD = r"""
import os, re, sys
from sitemap_etl.check import Options, check

def kilobytes(name):
    return int(re.search(name + r":\s+(\d+)", open("/proc/self/status").read())[1])

options = Options(at="https://shop.example/", follow=False, jobs=1, max_bytes=int(sys.argv[1]), robots=False)
for path in sys.stdin:
    if os.fork():  # a process of its own for each file, which need not load the code again
        assert os.wait()[1] == 0, path
        continue
    begun = kilobytes("VmRSS")
    report = check([path.rstrip()], options=options)
    assert not any(finding.code == "defect" for finding in report.findings), report.findings
    print(1024 * (kilobytes("VmHWM") - begun), flush=True)
    os._exit(0)
"""

XML = f'<urlset xmlns="{NS}" xmlns:image="{NS_IMAGE}" xmlns:x="{NS_XHTML}">', "</urlset>"
PAGE = "<url><loc>https://shop.example/1</loc>", "</url>"
RSS = '<rss version="2.0"><channel>', "</channel></rss>"
PAGED = XML[0] + PAGE[0], PAGE[1] + XML[1]

KINDS: dict[str, tuple[str, tuple[str, str], Callable[[int], str]]] = {
    "whitespace": ("xml", ("", "".join(XML)), lambda _: " " * 64),
    "newlines": ("xml", PAGED, lambda _: "\n" * 64),
    "comments": ("xml", PAGED, lambda _: "<!---->" * 8),
    "comments before the root": ("xml", ("", "".join(XML)), lambda _: "<!---->" * 8),
    "processing instructions": ("xml", PAGED, lambda _: "<?a?>" * 8),
    "empty elements": ("xml", PAGED, lambda _: "<a/>" * 8),
    "different elements": ("xml", PAGED, lambda i: f"<n{i}/>"),
    "namespaces": ("xml", ("<urlset", f' xmlns="{NS}"/>'), lambda i: f' xmlns:p{i}="urn:{i}"'),
    "attributes": ("xml", ("<urlset", f' xmlns="{NS}"/>'), lambda i: f" a{i}=''"),
    "greater-than signs": ("xml", PAGED, lambda _: ">" * 64),
    "texts between elements": ("xml", XML, lambda i: f"<url/>{i}"),
    "locs": ("xml", XML, lambda i: f"<url><loc>https://a.b/{i}</loc></url>"),
    "images": ("xml", PAGED, lambda i: f"<image:image><image:loc>https://a.b/{i}</image:loc></image:image>"),
    "alternates": ("xml", PAGED, lambda i: f'<x:link rel="alternate" hreflang="de" href="https://a.b/{i}"/>'),
    "hosts of images": ("xml", PAGED, lambda i: f"<image:image><image:loc>https://{i}.b/</image:loc></image:image>"),
    "declared elements": ("xml", ("<!DOCTYPE urlset [", "]>" + "".join(XML)), lambda i: f"<!ELEMENT a{i} ANY>"),
    "empty items of a feed": ("xml", RSS, lambda _: "<item/>" * 8),
    "other elements of a feed": ("xml", RSS, lambda _: "<a><b/></a>" * 4),
    "files of an index": (
        "xml",
        (f'<sitemapindex xmlns="{NS}">', "</sitemapindex>"),
        lambda i: f"<sitemap><loc>https://a.b/{i}.xml</loc></sitemap>",
    ),
    "lines": ("txt", ("", ""), lambda i: f"https://a.b/{i}\n"),
    "long lines on hosts of their own": ("txt", ("", ""), lambda i: f"https://{i}.b/{'a' * 230}\n"),
    "locs with entities": ("xml", XML, lambda i: f"<url><loc>https://{i}.b/?a&amp;{'a' * 180}</loc></url>"),
    "hosts and languages of alternates": (
        "xml",
        PAGED,
        lambda i: f'<x:link rel="alternate" hreflang="l{i}" href="https://{i}.b/"/>',
    ),
    "empty lines": ("txt", ("https://a.b/", "\n"), lambda _: "\n" * 64),
    "rules of a robots.txt": ("robots.txt", ("User-agent: *\n", ""), lambda i: f"Disallow: /{i}*\n"),
}


@pytest.fixture(scope="module")
def checker() -> Iterator[subprocess.Popen[str]]:
    """A process that reads paths and prints how many bytes the check of each takes at most, beside what it had."""
    command = [sys.executable, "-c", CHILD, str(SIZE)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_takes_five_bytes_for_each_byte_of_a_file(
    kind: str, checker: subprocess.Popen[str], tmp_path: Path
) -> None:
    name, (begin, end), piece = KINDS[kind]
    pieces = [piece(i) for i in range(10_000, 10_100)]
    count = (SIZE - len(begin) - len(end) - 100) // (max(map(len, pieces)) + 2)
    path = tmp_path / (name if "." in name else f"s.{name}")
    path.write_text(begin + "".join(map(piece, range(count))) + end, "utf-8")
    assert checker.stdin
    assert checker.stdout
    print(path, file=checker.stdin, flush=True)
    peak = int(checker.stdout.readline())
    print(f"{kind}: {peak / 1e6:.0f} MB")
    assert peak < 5 * SIZE + BESIDE


PIECES: dict[str, tuple[int, Callable[[int], str], str]] = {
    "empty elements": (700_000, lambda _: "<a/>", "more than 32,768 elements"),
    "entries": (700_000, lambda _: "<url><loc>/</loc></url>", "more than 32,768 elements"),
    "greater-than signs": (700_000, lambda _: ">", "more than 32,768 elements"),
    "attributes": (700_000, lambda i: f" a{i}=''" if i else "<a", "an element with more than 10,000 attributes"),
    "different elements": (6_000_000, lambda i: f"<n{i}/>", "more than 10,000 different names"),
    "different attributes": (6_000_000, lambda i: f"<a b{i}='1'/>", "more than 10,000 different names"),
    "different namespaces": (9_000_000, lambda i: f"<a xmlns='a:{i}'/>", "more than 10,000 different names"),
}


@pytest.mark.parametrize("kind", PIECES)
def test_the_limit_that_a_document_exceeds_is_reported(kind: str, tmp_path: Path) -> None:
    max_bytes, piece, limit = PIECES[kind]
    text = XML[0] + "".join(PAGE) + "".join(map(piece, range(max_bytes * 9 // 10 // len(piece(10_000))))) + XML[1]
    (tmp_path / "s.xml").write_text(text, "utf-8")
    report = check([str(tmp_path)], options=Options(max_bytes=max_bytes, robots=False))
    assert partly_read(report) == [f"it has {limit}"]
    assert report.urls


def partly_read(report: Report) -> list[str]:
    return [one.detail for one in report.findings if one.code == "partly-read"]


def test_no_line_is_cut(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("".join(f"https://shop.example/{i}\n" for i in range(200_100)), "utf-8")
    report = check([str(tmp_path)], options=Options(robots=False))
    assert partly_read(report) == ["it has more than 200,000 lines"]
    assert report.urls == 200_000
    assert "text-not-url" not in {one.code for one in report.findings}


def test_a_file_that_is_larger_in_utf8_is_reported(tmp_path: Path) -> None:
    pages = "".join(f"<url><loc>https://shop.example/{i}\u00e9</loc></url>" for i in range(1_000))
    data = f'<?xml version="1.0" encoding="ISO-8859-1"?>{XML[0]}{pages}{XML[1]}'.encode("latin-1")
    (tmp_path / "s.xml").write_bytes(data)
    report = check([str(tmp_path)], options=Options(max_bytes=len(data), robots=False))
    assert partly_read(report) == [f"it has more than {len(data):,} bytes in UTF-8"]
    assert 900 < report.urls < 1_000


def test_a_large_file_has_one_finding_for_each_fault(tmp_path: Path) -> None:
    beginnings = (
        "https://shop.example/{}/",
        "HTTPS://shop.example/{}/",
        "https://shop.io/{}/",
        "https://shop.example/{}/#",
    )
    lines = "".join(f"{beginnings[i % 4].format(i)}{'a' * 280}\n" for i in range(40_000))
    (tmp_path / "s.txt").write_text(lines, "utf-8")
    report = check([str(tmp_path)], options=Options(at="https://shop.example/", robots=False))
    found = {one.code: (one.count, one.line, one.detail) for one in report.findings}
    canonical = f"the canonical form is https://shop.example/1/{'a' * 280}"
    assert found.pop("loc-not-canonical") == (10_000, 2, canonical)
    assert {code: place for code, (*place, _) in found.items()} == {
        "foreign-host": [10_000, 3],
        "loc-fragment": [10_000, 4],
    }
    assert len(report.findings) == 3


HOSTS = {
    "s.txt": ("", "https://h{}.example/\n", ""),
    "s.xml": (
        "".join((XML[0], PAGE[0])),
        "<image:image><image:loc>https://h{}.example/</image:loc></image:image>",
        "".join((PAGE[1], XML[1])),
    ),
}


@pytest.mark.parametrize("name", HOSTS)
def test_urls_on_more_hosts_than_the_limit_are_reported(name: str, tmp_path: Path) -> None:
    begin, piece, end = HOSTS[name]
    (tmp_path / name).write_text(begin + "".join(map(piece.format, range(50_100))) + end, "utf-8")
    report = check([str(tmp_path)], options=Options(at="https://shop.example/", robots=False))
    (found,) = [one for one in report.findings if one.code == "partly-read"]
    assert found.detail == "it has URLs on more than 50,000 hosts"
    assert 90 < found.count <= 100


ENTRIES = {
    "sitemap": (f'<urlset xmlns="{NS}">', "<url><loc>https://shop.example/{}</loc></url>", "</urlset>"),
    "index": (
        f'<sitemapindex xmlns="{NS}">',
        "<sitemap><loc>https://shop.example/{}</loc></sitemap>",
        "</sitemapindex>",
    ),
    "feed": (RSS[0], "<item><link>https://shop.example/{}</link></item>", RSS[1]),
}


@pytest.mark.parametrize("kind", ENTRIES)
def test_entries_beyond_four_times_the_limit_are_reported(kind: str, tmp_path: Path) -> None:
    begin, entry, end = ENTRIES[kind]
    (tmp_path / "s.xml").write_text(begin + "".join(map(entry.format, range(200_001))) + end, "utf-8")
    report = check([str(tmp_path / "s.xml")], options=Options(robots=False, follow=False))
    found = [(one.detail, one.line) for one in report.findings if one.code == "partly-read"]
    assert found == [("it has more than 200,000 entries", 1)]
    assert report.rows == 200_000


def test_sitemaps_behind_500_kib_of_a_robots_txt_are_not_read_and_counted(tmp_path: Path) -> None:
    lines = "Sitemap: https://shop.example/a.xml\n", "# comment\n" * 52_000, "sitemap: https://shop.example/b.xml\n" * 2
    (tmp_path / "robots.txt").write_text("".join(lines), "utf-8")
    report = check([str(tmp_path / "robots.txt")], options=Options(follow=False))
    (found,) = [one for one in report.findings if one.code == "robots-large"]
    assert found.detail.endswith(" bytes, and crawlers ignore 2 Sitemap lines")
    assert (report.rows, partly_read(report)) == (1, [])


IMAGES = "<i:image><i:loc>https://a.io/{}</i:loc></i:image>"
LINK = '<x:link rel="alternate" hreflang="de" href="https://a.io/{}"/>'
VALID = {
    "images.xml": [f"<url><loc>https://a.io/</loc>{''.join(map(IMAGES.format, range(1_000)))}</url>"] * 57,
    "alternates.xml": [f"<url><loc>https://a.io/</loc>{''.join(map(LINK.format, range(100)))}</url>"] * 450,
    "urls.xml": [f"<url><loc>https://h{i}.a.io/</loc></url>" for i in range(50_000)],
    "urls.txt": [f"https://h{i}.a.io/\n\n\n" for i in range(50_000)],
}


@pytest.mark.parametrize("name", VALID)
def test_a_file_within_the_limits_of_the_protocol_is_never_cut(name: str, tmp_path: Path) -> None:
    body = "".join(VALID[name])
    uris = (f'xmlns:{prefix}="{uri}"' for prefix, uri in (("i", NS_IMAGE), ("x", NS_XHTML)))
    text = body if name.endswith(".txt") else f'<urlset xmlns="{NS}" {" ".join(uris)}>{body}</urlset>'
    (tmp_path / name).write_text(text, "utf-8")
    assert 1_000_000 < len(text) < 3_000_000
    report = check([str(tmp_path)], options=Options(max_bytes=3_000_000, robots=False))
    assert partly_read(report) == []
    assert report.urls == len(VALID[name])
