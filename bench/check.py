"""How fast `check` reads: files of 50,000 URLs, plain and with extensions, and a whole set in bounded memory.

    python bench/check.py [FILES]

Prints milliseconds a file (from disk to findings, gzip included) and, for an index of FILES files (default
100) of 50,000 URLs each, URLs a second and the peak memory of the process. The files are made on the fly.
"""

from __future__ import annotations

import gzip
import resource
import sys
import tempfile
import time
from pathlib import Path

from sitemap_etl.check import Options, check
from sitemap_etl.limits import NS_IMAGE, NS_SITEMAP, NS_XHTML

ROWS = 50_000
SPACES = f'xmlns="{NS_SITEMAP}" xmlns:image="{NS_IMAGE}" xmlns:xhtml="{NS_XHTML}"'
HEAD = f'<?xml version="1.0" encoding="UTF-8"?>\n<urlset {SPACES}>\n'


def plain(begin: int) -> str:
    return "".join(
        f"<url><loc>https://shop.example/products/{n:09}/a-name-of-a-product-as-they-are-in-shops</loc>"
        f"<lastmod>2025-{n % 12 + 1:02}-{n % 28 + 1:02}T10:20:30Z</lastmod><priority>0.5</priority></url>\n"
        for n in range(begin, begin + ROWS)
    )


def rich(begin: int) -> str:
    parts = []
    for n in range(begin, begin + ROWS // 3):
        pages = [f"https://shop.example/{tag}/products/{n:09}?color=red&amp;size=m" for tag in ("en", "de", "fr")]
        links = "".join(
            f'<xhtml:link rel="alternate" hreflang="{tag}" href="{page}"/>'
            for tag, page in zip(("en", "de", "fr"), pages, strict=True)
        )
        images = "".join(
            f"<image:image><image:loc>https://cdn.example/{n}-{i}.jpg</image:loc></image:image>" for i in "ab"
        )
        parts += [f"<url><loc>{page}</loc><lastmod>2026-01-02</lastmod>{images}{links}</url>\n" for page in pages]
    return "".join(parts)


def timed(path: Path) -> tuple[float, dict[str, int]]:
    best, found = 1e9, {}
    for _ in range(3):
        begun = time.perf_counter()
        report = check([str(path)], options=Options(jobs=1))
        best = min(best, time.perf_counter() - begun)
        found = {f.code: f.count for f in report.findings}
    return best, found


def main() -> None:
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        for n in range(files):
            data = (HEAD + plain(n * ROWS) + "</urlset>\n").encode()
            (folder / f"{n}.xml.gz").write_bytes(gzip.compress(data, 1))
        entries = "".join(f"<sitemap><loc>https://shop.example/{n}.xml.gz</loc></sitemap>\n" for n in range(files))
        (folder / "sitemap.xml").write_text(f'<sitemapindex xmlns="{NS_SITEMAP}">{entries}</sitemapindex>')
        for jobs in (2,):
            report = check([str(folder / "sitemap.xml")], options=Options(jobs=jobs))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            print(
                f"{files} files, {jobs} jobs: {report.seconds:.1f} s, {files * ROWS / report.seconds:,.0f} URLs/s, "
                f"peak {peak:,.0f} MB, {len(report.findings)} findings"
            )
        for name, body in (("plain", plain(0)), ("rich", rich(0)), ("spaces", plain(0).replace("-a", " a"))):
            path = folder / f"sitemap-{name}.xml.gz"
            data = (HEAD + body + "</urlset>\n").encode()
            path.write_bytes(gzip.compress(data, 1))
            seconds, found = timed(path)
            print(f"{name:8} {len(data) / 1e6:6.1f} MB  {seconds * 1000:6.0f} ms  {found}")
            path.unlink()


if __name__ == "__main__":
    main()
