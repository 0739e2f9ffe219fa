"""Real input, end to end: every city of the world from PostgreSQL, every package of a distribution from a CSV.

Other parsers read the published files back, and other code derives the expected URLs from the source:
`urllib.parse.quote`, lxml and xmllint with the XSDs of the protocol, Scrapy's reader.
"""

from __future__ import annotations

import csv
import gzip
import os
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.command import Done, at, call
from tests.support.postgres import Postgres
from tests.support.rendered import fault_by_xmllint, faults_by_lxml
from tests.support.s3 import S3Server

SITE = "https://atlas.example"
CITIES = 234_908
PACKAGES = 63_666
PCHAR = "/!$&'()*+,;=:@-._~"
"""What RFC 3986 lets stand in a path."""
SELECT = """\
SELECT id, '/city/' || country || '/' || replace(name, '?', '%3F') || '-' || id AS loc, population, country, name
FROM city
"""


@pytest.fixture(scope="module")
def data() -> Path:
    """Return the folder of real data; skip if the machine has none."""
    folder = os.environ.get("SITEMAP_ETL_REAL_DATA")
    if not folder:
        pytest.skip("SITEMAP_ETL_REAL_DATA names no folder of real data")
    return Path(folder).resolve()


def name_of(city: dict[str, Any]) -> str:
    """Return one of the city's names, in any script, without names that copying from the web has damaged."""
    names = [city["name"], *(city["alternate_names"] or [])]
    chosen: str = names[city["geonameid"] % len(names)]
    odd = any(unicodedata.category(c) in ("Cc", "Cf") and c not in "\u200c\u200d" for c in chosen)
    return city["name"] if odd else chosen


@pytest.fixture(scope="module")
def cities(data: Path) -> list[tuple[int, str, str, int]]:
    """Yield id, country, name, population."""
    rows = pq.read_table(data / "cities.parquet").to_pylist()
    return [(row["geonameid"], row["country"], name_of(row), row["population"]) for row in rows]


@pytest.fixture(scope="module")
def expected(data: Path, cities: list[tuple[int, str, str, int]]) -> set[str]:
    """Return every URL of the site, as encoded by the standard library."""
    paths = [f"/city/{country}/{name}-{number}" for number, country, name, _ in cities]
    with gzip.open(data / "packages.csv.gz", "rt", encoding="utf-8", newline="") as file:
        paths += [f"/package/{row['package']}" for row in csv.DictReader(file)]
    return {SITE + quote(path, safe=PCHAR) for path in paths}


@pytest.fixture
def atlas(
    postgres: Postgres,
    cities: list[tuple[int, str, str, int]],
    data: Path,
    bucket: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return the site file after loading its database."""
    with psycopg.connect(postgres.uri, autocommit=True) as connection:
        connection.execute("CREATE TABLE city (id int PRIMARY KEY, country text, name text, population bigint)")
        with connection.cursor().copy("COPY city FROM STDIN") as copy:
            for row in cities:
                copy.write_row(row)
    monkeypatch.setenv("AIRFLOW_CONN_ATLAS", postgres.uri)
    (tmp_path / "cities.sql").write_text(SELECT)
    keys = {
        "name": "atlas",
        "site": SITE,
        "work": "./work",
        "publish": {"to": f"s3://{bucket}/maps", "at": f"{SITE}/", "root": f"s3://{bucket}/maps"},
        "sections": {
            "cities": {
                "from": {"database": "atlas", "sql": "./cities.sql", "split": {"column": "id", "parts": 4}},
                "priority": {"percentile_of": "population"},
                "lastmod": {"fingerprint": ["country", "name"]},
            },
            "packages": {
                "from": {
                    "csv": str(data / "packages.csv.gz"),
                    "query": "SELECT '/package/' || package AS loc, version, sha256 FROM source",
                },
                "lastmod": {"fingerprint": ["version", "sha256"]},
            },
        },
    }
    path = tmp_path / "atlas.yaml"
    path.write_text(yaml.safe_dump(keys, sort_keys=False))
    return path


def run(path: Path, day: int) -> Done:
    done = call("run", path, "--json", *at(f"2026-11-{day:02}T02:00:00Z"))
    assert done.code == 0, done.err
    return done


class Published:
    """Return what a plain S3 client sees."""

    def __init__(self, s3: S3Server, bucket: str) -> None:
        self.client = s3.client()
        self.bucket = bucket

    def get(self, key: str) -> bytes:
        return self.client.get_object(Bucket=self.bucket, Key=f"maps/{key}")["Body"].read()

    def etags(self) -> dict[str, str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket)
        return {item["Key"]: item["ETag"] for page in pages for item in page.get("Contents", ())}

    def files(self) -> Iterator[tuple[str, bytes]]:
        """Return every sitemap that the index lists."""
        from scrapy.utils.sitemap import Sitemap

        for entry in Sitemap(self.get("sitemap.xml")):
            key = entry["loc"].removeprefix(f"{SITE}/")
            yield key, gzip.decompress(self.get(key))


@pytest.mark.thorough
def test_every_page_of_real_sources_is_listed_once_in_valid_files(
    atlas: Path, expected: set[str], s3: S3Server, bucket: str, tmp_path: Path
) -> None:
    from scrapy.utils.sitemap import Sitemap

    assert len(expected) == CITIES + PACKAGES
    done = run(atlas, 1)
    counts = done.json["sections"]
    assert (counts["cities"]["listed"], counts["packages"]["listed"]) == (CITIES, PACKAGES)
    assert sum(counts[name][kind] for name in counts for kind in ("duplicates", "excluded", "rejected")) == 0
    published = Published(s3, bucket)
    listed: list[str] = []
    for key, data in published.files():
        assert faults_by_lxml(data, "all.xsd") == [], key
        assert fault_by_xmllint(data, "all.xsd", tmp_path) == "", key
        assert len(data) <= 52_428_800
        locs = [entry["loc"] for entry in Sitemap(data)]
        assert len(locs) <= 50_000
        listed += locs
    assert len(listed) == len(expected)
    assert set(listed) == expected
    index = published.get("sitemap.xml")
    assert faults_by_lxml(index, "all-index.xsd") == []
    assert fault_by_xmllint(index, "all-index.xsd", tmp_path) == ""
    assert f"Sitemap: {SITE}/sitemap.xml" in published.get("robots.txt").decode()


@pytest.mark.thorough
def test_a_second_run_writes_nothing_and_a_changed_row_only_its_file(
    atlas: Path, postgres: Postgres, s3: S3Server, bucket: str
) -> None:
    run(atlas, 1)
    published = Published(s3, bucket)
    before = published.etags()
    quiet = run(atlas, 2).json
    assert (quiet["status"], quiet["files"]["written"]) == ("unchanged", 0)
    assert published.etags() == before
    postgres.execute("UPDATE city SET population = population + id % 1000")  # only signals move
    assert run(atlas, 3).json["status"] == "unchanged"
    postgres.execute("UPDATE city SET country = 'XX' WHERE id = (SELECT min(id) FROM city)")
    edited = run(atlas, 4).json
    assert (edited["sections"]["cities"]["added"], edited["sections"]["cities"]["removed"]) == (1, 1)
    after = published.etags()
    assert set(after) == set(before)
    changed = {key for key in after if after[key] != before[key]}
    assert len(changed) <= 3  # the file it leaves, the one it goes to, the index
    assert "maps/sitemap.xml" in changed
