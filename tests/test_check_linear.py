"""check takes linear time: a file that is four times as large takes about four times as long, whatever is in it.

This compares processor time at one size and at four times that, each the minimum of some tries. Linear time gives a
ratio of 4, quadratic time 16. Busy machines get another try.
"""

from __future__ import annotations

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from broken_sitemaps import NS, urlset

LIMIT = 8.0
PROGRAM = """
import os, sys, time
from sitemap_etl.check import Options, check

def seconds(path):
    begun = time.process_time()
    check([path], options=Options(jobs=1, follow=os.path.isdir(path)))
    return time.process_time() - begun

limit, warm, small, large = sys.argv[1:]
seconds(warm)
least = {small: float("inf"), large: float("inf")}
for _ in range(8):
    least = {path: min(before, seconds(path)) for path, before in least.items()}
    if least[large] < float(limit) * least[small]:
        break
print(*least.values())
"""


def page(n: int) -> str:
    return f"<url><loc>https://shop.example/{n}</loc></url>\n"


def rooted(attributes: str, inner: str) -> bytes:
    return f'<urlset xmlns="{NS}" {attributes}>{inner}</urlset>'.encode()


def many(text: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: "".join(map(text, range(n)))


EMPTY = gzip.compress(b"", 1)
XHTML = 'xmlns:xhtml="http://www.w3.org/1999/xhtml"'
LINKS = many(
    lambda n: (
        f'<url><loc>https://a.b/{n}</loc><xhtml:link rel="alternate" hreflang="x{n}" href="https://a.b/{n}"/></url>'
    )
)

FILES: dict[str, tuple[str, int, Callable[[int], bytes]]] = {
    "empty gzip members": ("s.xml.gz", 30_000, lambda n: EMPTY * n + gzip.compress(urlset(page(1)))),
    "gzip members of a byte": ("s.txt.gz", 10_000, lambda n: gzip.compress(b"\n") * n),
    "different elements": ("s.xml", 60_000, lambda n: rooted("", many(lambda i: f"<n{i}/>")(n))),
    "different elements in entries": (
        "s.xml",
        25_000,
        lambda n: urlset(many(lambda i: f"<url><loc>https://a.b/{i}</loc><a{i}>x</a{i}></url>")(n)),
    ),
    "namespaces on the root": (
        "s.xml",
        30_000,
        lambda n: rooted(many(lambda i: f' xmlns:p{i}="urn:{i}"')(n), page(1)),
    ),
    "namespaces on the root, used": (
        "s.xml",
        8_000,
        lambda n: rooted(many(lambda i: f' xmlns:p{i}="urn:{i}"')(n), many(lambda i: f"<p{i}:x/>")(n)),
    ),
    "a namespace for each entry": (
        "s.xml",
        8_000,
        lambda n: urlset(many(lambda i: f'<url><loc>https://a.b/{i}</loc><x xmlns="urn:{i}"/></url>')(n)),
    ),
    "a prefix that moves": (
        "s.xml",
        8_000,
        lambda n: urlset(many(lambda i: f'<url><loc>https://a.b/{i}</loc><p:x xmlns:p="urn:{i}"/></url>')(n)),
    ),
    "prefixes without a namespace": (
        "s.xml",
        12_000,
        lambda n: urlset(many(lambda i: f"<url><loc>https://a.b/{i}</loc><p{i}:x/></url>")(n)),
    ),
    "xmlns in a text": (
        "s.xml",
        300_000,
        lambda n: urlset(page(1) + f"<url><lastmod>{' xmlns:a=1' * n}</lastmod></url>"),
    ),
    "attributes": ("s.xml", 60_000, lambda n: rooted(many(lambda i: f" a{i}='1'")(n), page(1))),
    "comments": ("s.xml", 40_000, lambda n: urlset(many(lambda i: f"{page(i)}<!-- < -->")(n))),
    "texts between elements": ("s.xml", 40_000, lambda n: urlset(many(lambda i: f"{page(i)}x{i}")(n))),
    "entities": ("s.xml", 30_000, lambda n: urlset(many(lambda i: page(i).replace("</loc>", "&#65;</loc>"))(n))),
    "languages": ("s.xml", 15_000, lambda n: rooted(XHTML, LINKS(n))),
    # Of hosts there are more than are remembered, at either size.
    "hosts": ("s.txt", 24_000, lambda n: many(lambda i: f"https://h{i}.example/\n")(n).encode()),
    "schemes": ("s.txt", 24_000, lambda n: many(lambda i: f"s{i}://h.example/\n")(n).encode()),
    "an index of hosts": (
        "s.xml",
        24_000,
        lambda n: (
            f'<sitemapindex xmlns="{NS}">'
            + many(lambda i: f"<sitemap><loc>https://h{i}.example/s.xml</loc></sitemap>")(n)
            + "</sitemapindex>"
        ).encode(),
    ),
    "a folder without the files of its index": (
        "s.xml",
        2_000,
        lambda n: (
            f'<sitemapindex xmlns="{NS}">'
            + many(lambda i: f"<sitemap><loc>https://shop.example/{i}.xml</loc></sitemap>")(n)
            + "</sitemapindex>"
        ).encode(),
    ),
    "an encoding that is none of the web": (
        "s.xml",
        100_000,
        lambda n: (
            b'<?xml version="1.0" encoding="punycode"?>'
            + urlset(page(1).replace("1<", "x" * n + "-" + "A" * n + "<"), head="")
        ),
    ),
    "comments in a document type that never ends": ("s.xml", 300_000, lambda n: b"<!DOCTYPE urlset [" + b"<!--" * n),
    "quotes in a document type that never ends": ("s.xml", 300_000, lambda n: b"<!DOCTYPE urlset [" + b"\"'<" * n),
    "one long URL": ("s.txt", 10_000_000, lambda n: b"https://shop.example/" + b"x" * n),
    "one long loc": ("s.xml", 5_000_000, lambda n: urlset(page(1).replace("1<", "x" * n + "<"))),
    "rules of a robots.txt": (
        "robots.txt",
        2_000,
        lambda n: b"User-agent: *\n" + many(lambda i: f"Disallow: /a{i}*b$\n")(n).encode(),
    ),
}


@pytest.mark.alone
@pytest.mark.thorough
@pytest.mark.parametrize("kind", FILES)
def test_check_takes_linear_time(kind: str, tmp_path: Path) -> None:
    name, size, made = FILES[kind]
    paths = []
    for factor in (0.1, 0.5, 2):
        folder = tmp_path / str(factor)
        folder.mkdir()
        (folder / name).write_bytes(made(int(size * factor)))
        paths.append(str(folder if kind.startswith("a folder") else folder / name))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(LIMIT), *paths], capture_output=True, text=True, check=True
    )
    small, large = map(float, done.stdout.split())
    print(f"{kind}: {small:.3f} s, {large:.3f} s")
    assert large < LIMIT * small + 0.1
