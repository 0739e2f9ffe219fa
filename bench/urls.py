"""Rows a second through `sitemap_etl.urls`, on one core: clean columns, and columns whose rows all need care.

    python bench/urls.py [--rows 500000]

Prints the best of five by processor time for each kind of column, beside the promise where there is one: 3 million a
second for clean rows, 200 thousand where every row is normalized. Exits 1 where a promise is not kept.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from urllib.parse import quote

import pyarrow as pa

from sitemap_etl import robots
from sitemap_etl.urls import UrlRules, canonical_urls, canonicalize, excluded

SITE = "https://shop.example"
STRIP = frozenset({"tracking", "sessions"})
CLEAN, NORMALIZED = 3.0, 0.2
"""Promised million rows a second."""
WORDS = ("города", "東京都", "مدينة", "köln", "αθήνα", "ירושלים", "दिल्ली")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    rows = parser.parse_args().rows
    pa.set_cpu_count(1)
    numbers = range(rows)
    clean = [f"{SITE}/category-{i % 97:02d}/lamps/product-{i:08d}-a-lamp-with-a-long-name.html" for i in numbers]
    clean = [url[:70] + ".html" for url in clean]
    query = [f"{SITE}/catalogue/item.html?id={i:010d}&page=3&colour=red-and-blue&size=10" for i in numbers]
    raw = [f"{SITE}/{WORDS[i % 7]}/{WORDS[i % 5]} {WORDS[i % 3]}/{i:08d}" for i in numbers]
    escaped = [SITE + quote(url[len(SITE) :]) for url in raw]
    site, stripped, same = UrlRules(SITE), UrlRules(SITE, strip=STRIP), UrlRules(SITE, ("http://shop.example",))
    print(f"{rows:,} rows of {sum(map(len, clean)) / rows:.0f} characters; million rows a second")
    kept = [
        _canonical("clean, absolute", clean, site, CLEAN),
        _canonical("clean, absolute, strip on", clean, stripped, CLEAN),
        _canonical("clean, with a query, strip on", query, stripped, CLEAN),
        _canonical("clean, relative with /", [url[len(SITE) :] for url in clean], site, CLEAN),
        _canonical("clean, relative without /", [url[len(SITE) + 1 :] for url in clean], site, CLEAN),
        _canonical("same_as, all rows", [url.replace("https", "http") for url in clean], same, CLEAN),
        _canonical("canonical %XX in all rows", escaped, site, NORMALIZED),
        _canonical("%xx in lower case", [SITE + url[len(SITE) :].lower() for url in escaped], site, NORMALIZED),
        _canonical("raw Unicode", raw, site, NORMALIZED),
        _canonical("spaces", [url.replace("-", " ") for url in clean], site, NORMALIZED),
        _canonical("fragments", [url + "#top" for url in clean], site, NORMALIZED),
        _canonical("host in upper case", [url.replace("shop", "SHOP") for url in clean], site, NORMALIZED),
        _canonical("dot segments", [url.replace("/lamps", "/./x/../lamps") for url in clean], site, NORMALIZED),
        _canonical("default port", [url.replace("example", "example:443") for url in clean], site, NORMALIZED),
        _canonical("unreserved as %xx", [url.replace("a-lamp", "%61-lamp") for url in clean], site, NORMALIZED),
        _canonical("tracking", [url + "?a=1&utm_source=x&utm_medium=y" for url in clean], stripped, NORMALIZED),
        _canonical("foreign origin", [url.replace("https", "http") for url in clean], site, NORMALIZED),
        _rate(
            "images on three hosts", [url.replace("shop", f"cdn{i % 3}") for i, url in enumerate(clean)], _any, CLEAN
        ),
        _rate("exclude, four patterns", clean, _exclude, None),
        _rate("robots.txt, few candidates", clean, _robots, None),
        _rate("robots.txt, all candidates", clean[:50_000], _robots_all, None),
    ]
    return 0 if all(kept) else 1


def _canonical(name: str, urls: list[str], rules: UrlRules, promise: float) -> bool:
    return _rate(name, urls, lambda column: canonicalize(column, rules), promise)


def _any(column: pa.Array) -> object:
    return canonical_urls(column)


def _exclude(column: pa.Array) -> object:
    return excluded(column, ["/internal/*", "*?sort=", "/cart$", "*.pdf$"])


def _robots(column: pa.Array) -> object:
    text = (
        b"User-agent: *\nDisallow: /checkout\nDisallow: /*?sort=\nDisallow: /category-13/\nAllow: /category-13/lamps\n"
    )
    return robots.disallowed(column, text)


def _robots_all(column: pa.Array) -> object:
    return robots.disallowed(column, b"User-agent: *\nDisallow: /\nAllow: /category\n")


def _rate(name: str, urls: list[str], function: Callable[[pa.Array], object], promise: float | None) -> bool:
    column = pa.array(urls)
    best = float("inf")
    for _ in range(5):
        begin = time.process_time()
        function(column)
        best = min(best, time.process_time() - begin)
    rate = len(urls) / best / 1e6
    print(f"  {name:30s} {rate:7.2f}" + (f"   promised {promise:.1f}" if promise else ""))
    return promise is None or rate >= promise


if __name__ == "__main__":
    sys.exit(main())
