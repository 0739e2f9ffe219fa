"""Every reader of bytes from outside, with a small input of its kind and inputs that grow.

`python -m tests.support.readers SEED SECONDS BYTES` reads mutants for this many seconds, and prints the errors that
escaped and its peak memory. `BYTES`: the longest repetition.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from sitemap_etl import robots, sources, urls
from sitemap_etl.check import Options, check
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.extensions import alternates, images, literals, videos
from sitemap_etl.frames import Tally
from sitemap_etl.lastmod import moments, texts
from sitemap_etl.pages.markup import read_markup
from sitemap_etl.settings import CsvExport, CsvFormat, JsonlExport
from sitemap_etl.urls import UrlRules

NOW: Final = datetime(2026, 11, 20, tzinfo=UTC)
RULES: Final = UrlRules("https://shop.example")
NS: Final = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
ADDRESS_SPACE: Final = 6 * 1024**3
"""Bytes a child can reserve, so that a reader without a bound fails instead of taking the machine."""


def _rows(plan: list[sources.Split]) -> None:
    for split in plan:
        for _ in sources.read(split):
            pass


def _export(name: str, plan: Callable[[str], list[sources.Split]]) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        with suppress(SitemapEtlError):
            _rows(plan(str(path)))

    return read


def _csv(name: str = "a.csv", **form: Any) -> Callable[[bytes, Path], None]:
    return _export(name, lambda path: sources.plan_csv(path, CsvFormat(**form)))


def _query(name: str, export: Callable[[str], Any]) -> Callable[[bytes, Path], None]:
    sql = "SELECT loc FROM source WHERE loc <> ''"
    return _export(name, lambda path: sources.plan_query({"source": export(path)}, sql))


def _checked(name: str) -> Callable[[bytes, Path], None]:
    def read(data: bytes, folder: Path) -> None:
        path = folder / name
        path.write_bytes(gzip.compress(data, 1) if name.endswith(".gz") else data)
        check([str(path)], options=Options(jobs=1))

    return read


def _robots(data: bytes, _folder: Path) -> None:
    locs = pa.array(["https://shop.example/a", "https://shop.example/aaaa?x=1"])
    robots.RobotsRules(data, "Googlebot").disallowed(locs)
    robots.CrawlRules(data).allows("https://shop.example/a", "aaa")
    robots.sitemaps(data)
    robots.find_unreadable(data)
    robots.named_in(data)
    with suppress(SitemapEtlError):
        robots.without_block(robots.with_block(data, "shop", ["https://shop.example/s.xml"]), "shop")


def _literals(data: bytes, _folder: Path) -> None:
    text = data.decode("utf-8", "replace")
    with suppress(ValueError, RecursionError):
        literals.value_of(text)
    literals.as_json(pa.array([text]))
    images(pa.array([text]), None, Tally(), rules=RULES)


def _videos(data: bytes, _folder: Path) -> None:
    column = pa.array([data.decode("utf-8", "replace")])
    loc = pa.array(["https://shop.example/a"])
    videos(column, loc, Tally(), rules=RULES)
    alternates(column, Tally(), loc=loc, rules=RULES)


def _addresses(data: bytes, _folder: Path) -> None:
    column = pa.array(data.decode("utf-8", "replace").split("\n", _CELLS))
    found = urls.canonicalize(column, RULES, "loc")
    for _ in urls.noted(found.loc.drop_null(), column.filter(found.loc.is_valid()), RULES):
        pass


def _dates(data: bytes, _folder: Path) -> None:
    column = pa.array(data.decode("utf-8", "replace").split("\n", _CELLS))
    with suppress(SitemapEtlError):
        texts(moments(column, name="updated", timezone="UTC", unit=None, read_at=NOW, tally=Tally()))


def _page(data: bytes, _folder: Path) -> None:
    read_markup(data, "text/html")


def _parquet() -> bytes:
    table = pa.table({"loc": [f"/{n}" for n in range(40)], "images": [["/a.jpg"]] * 40, "n": range(40)})
    written = io.BytesIO()
    pq.write_table(table, written, row_group_size=10, write_page_checksum=True)
    return written.getvalue()


_LINES: Final = b'loc,title\n/a,"x, ""y"""\n/b,2026-11-01\n'
_OBJECTS: Final = b'{"loc": "/a", "n": [1, {"b": null}]}\n{"loc": "/b", "n": "x"}\n'
_URLSET: Final = (
    f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {NS} '
    'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1"><url><loc>https://shop.example/a</loc>'
    "<lastmod>2026-11-01</lastmod><image:image><image:loc>https://shop.example/a.jpg</image:loc></image:image>"
    "</url></urlset>\n"
).encode()
_INDEX: Final = (
    f"<sitemapindex {NS}><sitemap><loc>https://shop.example/a.xml</loc></sitemap></sitemapindex>\n"
).encode()
_FEED: Final = (
    b'<rss version="2.0"><channel><title>a</title><link>https://shop.example/</link><description>d</description>'
    b"<item><link>https://shop.example/a</link><pubDate>Fri, 27 Nov 2026 10:00:00 +0000</pubDate></item>"
    b"</channel></rss>"
)
_PAGE: Final = (
    b'<html><head><meta charset="utf-8"><title>A</title><link rel="canonical" href="/a"></head><body>x</body></html>'
)
_TXT: Final = b"https://shop.example/a\nhttps://shop.example/b\n"
_ROBOTS: Final = b"User-agent: *\nDisallow: /*a$\nAllow: /a/\nSitemap: https://shop.example/s.xml\n"

READERS: Final[dict[str, tuple[bytes, Callable[[bytes, Path], None]]]] = {
    "CSV": (_LINES, _csv()),
    "CSV, compressed": (_LINES, _csv("a.csv.gz")),
    "CSV, escapes": (_LINES.replace(b'""', b'\\"'), _csv(escape="\\")),
    "CSV, no quotes": (b"loc\ttitle\n/a\tx\\\ty\n", _csv(delimiter="\t", quote="none", escape="\\")),
    "CSV, UTF-16": (_LINES.decode().encode("utf-16"), _csv(encoding="utf-16")),
    "CSV, header": (_LINES, _csv(header=["loc", "title"], skip_rows=1)),
    "CSV, query": (_LINES, _query("a.csv", lambda path: CsvExport(csv=path))),
    "JSON lines": (_OBJECTS, _export("a.jsonl", sources.plan_jsonl)),
    "JSON lines, compressed": (_OBJECTS, _export("a.jsonl.gz", sources.plan_jsonl)),
    "JSON lines, query": (_OBJECTS, _query("a.jsonl", lambda path: JsonlExport(jsonl=path))),
    "Parquet": (_parquet(), _export("a.parquet", sources.plan_parquet)),
    "sitemap": (_URLSET, _checked("a.xml")),
    "sitemap, compressed": (_URLSET, _checked("a.xml.gz")),
    "index": (_INDEX, _checked("a.xml")),
    "feed": (_FEED, _checked("a.xml")),
    "text sitemap": (_TXT, _checked("a.txt")),
    "robots.txt": (_ROBOTS, _robots),
    "page": (_PAGE, _page),
    "lists": (b'{"https://shop.example/a.jpg", b, NULL}', _literals),
    "lists, Python": (b"['https://shop.example/a.jpg', u\"b\\n\", None]", _literals),
    "videos": (b'[{"title": "a", "thumbnail_loc": "/a.jpg", "content_loc": "/a.mp4"}]', _videos),
    "addresses": (b"/a\nhttps://shop.example/%C3%BC?x=1&amp;y\n/b#!/c\nC:\\d", _addresses),
    "dates": (b"2026-11-01\n2026-11-01T02:03:04+01:00\n0000-00-00\n1698796800", _dates),
}
"""Name: a valid input, and the function that reads one. It raises only what is a defect."""

KNOWN: Final = (
    ("CSV", b"loc\n/a\n" + b'"' * 10_000_000),
    ("sitemap", _URLSET.replace(b"encoding", b"encoding" + b"https://" * 400_000)),
    ("lists", b'{"' + b"a" * 3_000_000 + b'"}'),
    ("lists", b'{"' + b"\\a" * 1_500_000 + b'"}'),
    *(
        ("JSON lines", b'{"loc": "/' + b"a" * at + "😀".encode() * 250_000 + b'", "n": x}\n' + _OBJECTS)
        for at in range(4)
    ),
)
"""Inputs that took too much memory, or were a defect."""
_CELLS: Final = 10_000
_SHOWN: Final = 80
TOKENS: Final = [
    *(b'"', b"'", b"\\", b",", b"\n", b"\r", b"\0", b" ", b"\t", b";", b"[", b"{", b"}", b"]", b"(", b"<", b">"),
    *(b"&", b"&amp;", b"<a>", b"</a>", b"<!--", b"<![CDATA[", b"<!DOCTYPE a [", b"<?a", b"#", b"%", b"%25", b"*", b"$"),
    *(b"/", b"//", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\x1f\x8b", b"PK\x03\x04", b"\xc3\xa4", b"\xf0\x9f\x98\x80"),
    *(
        b"1",
        b"-",
        b"e9",
        b"null",
        b'{"a":',
        b'"a":1,',
        b"User-agent: a\n",
        b"Disallow: /*a*b\n",
        b"https://",
        b"a,",
        b"..",
    ),
    *(
        b"<url><loc>https://shop.example/</loc></url>",
        b' xmlns:a="b"',
        b"+01:00",
        b"2026-",
        b"NULL,",
        b'""',
        b"\\u0000",
    ),
]
"""Pieces of every kind of input, which mutants repeat."""


def mutant(data: bytes, random_: random.Random, longest: int) -> bytes:
    """Return the bytes with a few changes, one of which can repeat a piece up to `longest` bytes."""
    changed = bytearray(data)
    for _ in range(random_.randint(1, 3)):
        at = random_.randint(0, len(changed))
        end = min(len(changed), at + random_.choice([1, 1, 4, 20]))
        kind = random_.randrange(5)
        token = random_.choice(TOKENS)
        if kind == 0:
            changed[at:end] = token
        elif kind == 1:
            del changed[at:end]
        elif kind == 2:
            changed[at:at] = changed[at:end] * random_.choice([2, 50])
        elif kind == 3 and at < len(changed):
            changed[at] ^= 1 << random_.randrange(8)
        else:
            size = random_.choice([100, 10_000, longest // 10, longest])
            changed[at:at] = token * (size // len(token))
    return bytes(changed)


def _peak() -> int:
    """Return the peak memory of this process in MB."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text("utf-8"))
    assert found is not None
    return int(found[1]) // 1024


def main(seed: int, seconds: float, longest: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    random_ = random.Random(seed)
    escaped: dict[str, str] = {}
    highest: dict[str, int] = {}
    tried = dict.fromkeys(READERS, 0)
    known = list(KNOWN)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        while time.monotonic() - begun < seconds or not all(tried.values()):
            if known:
                name, data = known.pop()
            else:
                name = min(tried, key=tried.__getitem__)
                valid = READERS[name][0]
                data = mutant(valid, random_, longest) if tried[name] else valid
                tried[name] += 1
            before = _peak()
            try:
                READERS[name][1](data, Path(scratch))
            except Exception:  # noqa: BLE001 - what this is looking for
                escaped[f"{name}: {len(data):,} bytes {data[:_SHOWN]!r}"] = traceback.format_exc(limit=-3)
            if _peak() > before:
                highest = {f"{name}: {len(data):,} bytes {data[:_SHOWN]!r}": _peak()}
    print(json.dumps({"tried": tried, "escaped": escaped, "highest": highest}))


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
