"""The memory of a check follows from the size of a file, whatever is in it.

The bound is that of a file of the protocol's 50 MB in 400 MB, in proportion: five bytes for each byte of a file, beside
what the process has before.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_sitemaps import NS

from sitemap_etl.check import Options, check

SIZE = 12_000_000
"""Bytes of each file, which are also the largest that is allowed."""
BESIDE = 45_000_000
"""Bytes for code that is loaded, caches, and blocks that are read at a time."""
CHILD = r"""
import os, re, sys
from sitemap_etl.check import Options, check

def kilobytes(name):
    return int(re.search(name + r":\s+(\d+)", open("/proc/self/status").read())[1])

size, *paths = sys.argv[1:]
options = Options(at="https://shop.example/", follow=False, jobs=1, max_bytes=int(size), robots=False)
for path in paths:
    if os.fork():  # a process of its own for each file, which need not load the code again
        assert os.wait()[1] == 0, path
        continue
    begun = kilobytes("VmRSS")
    report = check([path], options=options)
    assert not any(finding.code == "defect" for finding in report.findings), report.findings
    print(1024 * (kilobytes("VmHWM") - begun), flush=True)
    os._exit(0)
"""

IMAGE = 'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"'
XML = f'<urlset xmlns="{NS}" {IMAGE}>', "</urlset>"
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
    "declared elements": ("xml", ("<!DOCTYPE urlset [", "]>" + "".join(XML)), lambda i: f"<!ELEMENT a{i} ANY>"),
    "empty items of a feed": ("xml", RSS, lambda _: "<item/>" * 8),
    "other elements of a feed": ("xml", RSS, lambda _: "<a><b/></a>" * 4),
    "files of an index": (
        "xml",
        (f'<sitemapindex xmlns="{NS}">', "</sitemapindex>"),
        lambda i: f"<sitemap><loc>https://a.b/{i}.xml</loc></sitemap>",
    ),
    "lines": ("txt", ("", ""), lambda i: f"https://a.b/{i}\n"),
    "empty lines": ("txt", ("https://a.b/", "\n"), lambda _: "\n" * 64),
    "rules of a robots.txt": ("robots.txt", ("User-agent: *\n", ""), lambda i: f"Disallow: /{i}*\n"),
}


@pytest.fixture(scope="module")
def peaks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Bytes that the check of each kind takes at most, beside what the process has before."""
    folder = tmp_path_factory.mktemp("kinds")
    paths = []
    for number, (name, (begin, end), piece) in enumerate(KINDS.values()):
        pieces = [piece(i) for i in range(10_000, 10_100)]
        count = (SIZE - len(begin) - len(end) - 100) // (max(map(len, pieces)) + 2)
        (folder / str(number)).mkdir()
        path = folder / str(number) / (name if "." in name else f"s.{name}")
        path.write_text(begin + "".join(map(piece, range(count))) + end, "utf-8")
        paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", CHILD, str(SIZE), *paths], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return dict(zip(KINDS, map(int, done.stdout.split()), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_check_takes_five_bytes_for_each_byte_of_a_file(kind: str, peaks: dict[str, int]) -> None:
    print(f"{kind}: {peaks[kind] / 1e6:.0f} MB")
    assert peaks[kind] < 5 * SIZE + BESIDE


@pytest.mark.parametrize(
    ("number", "piece", "detail"),
    [
        (70_000, "<a/>", "it has more than 65,536 tags"),
        (35_000, "<url><loc>/</loc></url>", "it has more than 65,536 tags"),
        (70_000, ">", "it has more than 65,536 tags"),
    ],
)
def test_what_a_file_has_too_much_of_is_reported(number: int, piece: str, detail: str, tmp_path: Path) -> None:
    (tmp_path / "s.xml").write_text(XML[0] + "".join(PAGE) + piece * number + XML[1], "utf-8")
    report = check([str(tmp_path)], options=Options(max_bytes=1_000_000, robots=False))
    assert [one.detail for one in report.findings if one.code == "partly-read"] == [detail]
    assert report.urls


def test_a_line_behind_the_limit_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("".join(f"https://shop.example/{i}\n" for i in range(70_000)), "utf-8")
    report = check([str(tmp_path)], options=Options(max_bytes=2_000_000))
    assert [one.detail for one in report.findings if one.code == "partly-read"] == ["it has more than 65,536 lines"]
    assert 60_000 < report.urls <= 65_536
    assert "text-not-url" not in {one.code for one in report.findings}, "a line was cut"


def test_urls_on_more_hosts_than_any_site_has_are_reported(tmp_path: Path) -> None:
    (tmp_path / "s.txt").write_text("".join(f"https://h{i}.example/\n" for i in range(10_100)), "utf-8")
    report = check([str(tmp_path)], options=Options(at="https://h0.example/", robots=False))
    (found,) = [one for one in report.findings if one.code == "partly-read"]
    assert (found.detail, report.urls) == ("its URLs are on more than 10,000 hosts", 10_100)
    assert 50 < found.count < 110


@pytest.mark.parametrize(("outer", "inner"), [("urlset", "url"), ("sitemapindex", "sitemap")])
def test_entries_beyond_four_times_the_limit_are_reported(outer: str, inner: str, tmp_path: Path) -> None:
    files = "".join(f"<{inner}><loc>https://shop.example/{i}</loc></{inner}>" for i in range(200_001))
    (tmp_path / "s.xml").write_text(f'<{outer} xmlns="{NS}">{files}</{outer}>', "utf-8")
    report = check([str(tmp_path / "s.xml")], options=Options(robots=False, follow=False))
    found = [(one.detail, one.line) for one in report.findings if one.code == "partly-read"]
    assert found == [("it has more than 200,000 entries", 1)]
    assert report.rows == 200_000
