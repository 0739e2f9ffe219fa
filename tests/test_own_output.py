"""Published files of every format, read by check, by the schemas and by other parsers."""

from __future__ import annotations

import os
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lxml import etree

from sitemap_etl import check
from tests.support.sites import TestSite, pages

NOW = datetime(2026, 11, 1, 3, tzinfo=UTC)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> TestSite:
    """A site with every extension, format and view, after its second run."""
    site = TestSite(tmp_path_factory.mktemp("everything"), recent="2d", gates={"max_growth": 9})
    site.section(
        "plain", pages(300, lastmod=lambda n: f"2026-09-{n % 28 + 1:02}"), shards={"rows": 100}, formats=["xml", "text"]
    )
    site.section("media", pages(1, start=900))
    site.keys["sections"]["media"]["from"] = {"parquet": "./media.parquet"}
    site.keys["sections"]["media"] |= {
        "lastmod": {"column": "updated"},
        "priority": {"depth": True},
        "changefreq": "weekly",
        "feed": {"formats": ["rss", "atom"], "title": "Mädia & mehr", "items": 7},
    }
    count = 40
    videos = [
        [
            {
                "thumbnail_loc": f"https://cdn.shop.example/t/{n}.jpg",
                "title": f"Film {n} <&> \"'",
                "description": "Ünïcode 日本語 🎬",
                "content_loc": f"https://cdn.shop.example/v/{n}.mp4",
                "duration": 60 + n,
                "tag": ["a", "b"],
                "family_friendly": True,
                "restriction": {"relationship": "allow", "value": "DE FR"},
                "live": False,
            }
        ]
        for n in range(count)
    ]
    table = pa.table(
        {
            "loc": [f"/media/{n}/Über-uns-{n}" for n in range(count)],
            "updated": pa.array([datetime(2026, 10, n % 28 + 1, 12, tzinfo=UTC) for n in range(count)]),
            "images": [[f"https://cdn.shop.example/i/{n}-{i}.jpg" for i in range(3)] for n in range(count)],
            "videos": videos,
            "title": [f"Seite {n}" for n in range(count)],
            "mobile": [n % 2 == 0 for n in range(count)],
        }
    )
    pq.write_table(table, site.folder / "media.parquet")
    rows = [
        {"loc": f"/{lang}/{n}", "lang": lang, "item": n, "lastmod": f"2026-08-{n + 1:02}"}
        for n in range(20)
        for lang in ("en", "de-AT", "fr")
    ]
    site.section("shops", rows, alternates={"group": "item", "hreflang": "lang", "x_default": "en"})
    news = [{"loc": f"/p/{n:06}", "title": f"News & {n}", "publication_date": "2026-10-31T20:00:00Z"} for n in range(5)]
    site.section("news", news, news={"publication": "The Times", "language": "en"})
    site.keys["sections"]["shops"]["from"] = {"csv": "./shops.csv"}
    site.night(1)
    site.export("plain", pages(303, lastmod=lambda n: "2026-11-01" if n in (5, 6) else f"2026-09-{n % 28 + 1:02}"))
    site.night(2)
    return site


def test_check_finds_nothing_in_published_files(everything: TestSite) -> None:
    """News are two hours short of two days old, and every file has what it should."""
    options = check.Options(now=datetime(2026, 11, 2, 3, tzinfo=UTC), at="https://shop.example/")
    report = check.check([str(everything.folder / "public")], options=options)
    told = [f"{f.code} {f.file}:{f.line} {f.example}" for f in report.findings if f.severity in ("error", "warning")]
    assert told == []
    assert len(report.files) >= 11


def test_every_published_file_is_valid_by_the_xml_schemas(everything: TestSite) -> None:
    schemas = os.environ.get("SITEMAP_ETL_XSD")
    if not schemas:
        pytest.skip("SITEMAP_ETL_XSD names no folder with the schemas")
    urlset = etree.XMLSchema(etree.parse(str(Path(schemas) / "all.xsd")))
    index = etree.XMLSchema(etree.parse(str(Path(schemas) / "all-index.xsd")))
    seen = 0
    for address in ["https://shop.example/sitemap.xml", *everything.public().files()]:
        name = address.rsplit("/", 1)[1]
        data = everything.public().read(address)
        path = everything.folder / f"plain-{name.removesuffix('.gz')}"
        import gzip

        path.write_bytes(gzip.decompress(data) if name.endswith(".gz") else data)
        schema = index if name == "sitemap.xml" else urlset
        schema.assertValid(etree.parse(str(path)))
        if shutil.which("xmllint"):
            xsd = "all-index.xsd" if name == "sitemap.xml" else "all.xsd"
            command = ["xmllint", "--nonet", "--noout", "--schema", str(Path(schemas) / xsd), str(path)]
            subprocess.run(command, check=True, capture_output=True)
        seen += 1
    assert seen >= 8


def test_another_parser_finds_the_same_urls(everything: TestSite) -> None:
    import gzip

    from scrapy.utils.sitemap import Sitemap

    found = set()
    for address in everything.public().files():
        if "-news-" not in address and "-recent-" not in address:
            sitemap = Sitemap(gzip.decompress(everything.public().read(address)))
            found |= {entry["loc"] for entry in sitemap}
    expected = {f"https://shop.example/p/{n:06}" for n in range(303)}
    expected |= {f"https://shop.example/media/{n}/%C3%9Cber-uns-{n}" for n in range(40)}
    expected |= {f"https://shop.example/{lang}/{n}" for n in range(20) for lang in ("en", "de-AT", "fr")}
    assert found == expected
