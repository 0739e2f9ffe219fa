"""A release in a bucket: the headers that readers get with each object."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.state import layout
from tests.support.s3 import S3Server
from tests.support.sites import TestSite, pages


@pytest.fixture
def site(tmp_path: Path, bucket: str) -> TestSite:
    publish = {
        "to": f"s3://{bucket}/maps",
        "at": "https://shop.example/maps/",
        "root": f"s3://{bucket}",
        "cache_control": "public, max-age=600",
        "sse": "AES256",
    }
    site = TestSite(tmp_path, publish=publish, work=f"s3://{bucket}-private/work")
    return site.section("p", pages(30), formats=["xml", "text"])


def test_objects_have_their_content_types_and_no_encoding(site: TestSite, s3: S3Server, bucket: str) -> None:
    s3.client().create_bucket(Bucket=f"{bucket}-private")
    site.night(1)
    heads = {key: s3.client().head_object(Bucket=bucket, Key=key) for key in keys(s3, bucket)}
    assert {key: head["ContentType"] for key, head in heads.items()} == {
        "maps/sitemap.xml": "application/xml",
        "maps/sitemap-p-00001.xml.gz": "application/gzip",
        "maps/sitemap-p-00001.txt.gz": "application/gzip",
        "robots.txt": "text/plain; charset=utf-8",
    }
    assert not any("ContentEncoding" in head for head in heads.values())
    assert all(h["CacheControl"] == "public, max-age=600" for key, h in heads.items() if key.startswith("maps/"))
    assert all(head["ServerSideEncryption"] == "AES256" for head in heads.values())


@pytest.mark.parametrize(
    ("key", "value", "header"),
    [("sse", "aws:kms", "ServerSideEncryption"), ("cache_control", "no-store", "CacheControl")],
)
@pytest.mark.parametrize("full", [False, True])
def test_objects_are_written_again_if_their_headers_change(
    site: TestSite, s3: S3Server, bucket: str, key: str, value: str, header: str, full: bool
) -> None:
    site.keys["work"] = "./work"  # requests to a bucket would take most of the time
    site.night(1)
    dates = {file.key: file.lastmod for file in site.manifest().files()}
    site.keys["publish"] = {**site.keys["publish"], key: value}
    assert site.night(2, dry_run=True).summary.files.to_write == 3
    done = site.night(3, full=full)
    assert done.summary.files.written == 3
    heads = {name: s3.client().head_object(Bucket=bucket, Key=name) for name in keys(s3, bucket)}
    assert {head.get(header) for name, head in heads.items() if name.startswith("maps/")} == {value}
    assert {file.key: file.lastmod for file in site.manifest().files()} == dates
    assert site.night(4).summary.status == "unchanged"


@pytest.mark.thorough
def test_a_run_works_with_state_and_staging_in_s3(site: TestSite, s3: S3Server, bucket: str) -> None:
    s3.client().create_bucket(Bucket=f"{bucket}-private")
    assert site.night(1).summary.status == "published"
    assert len(site.public().locs()) == 30
    site.export("p", pages(31))
    assert site.night(2, dry_run=True).summary.status == "dry_run"
    assert site.night(3).summary.sections["p"].added == 1
    assert site.night(4).summary.status == "unchanged"


def test_the_report_of_a_dry_run_keeps_its_rows_once_it_is_published(site: TestSite, s3: S3Server, bucket: str) -> None:
    from sitemap_etl.runs.local import publish_locally

    s3.client().create_bucket(Bucket=f"{bucket}-private")
    site.export("p", [*pages(30), {"loc": "https://elsewhere.example/p"}])
    shown = site.night(1, dry_run=True)
    environment = site.store.around(site.environment)
    publish_locally(site.load(), shown.run.run_id, environment, force=(), reason=None, adopt=False)
    stored = shown.run.work.get(layout.aside(shown.run.run_id, "rejected"))
    assert stored is not None
    assert pq.read_table(pa.BufferReader(stored.data)).column("loc").to_pylist() == ["https://elsewhere.example/p"]


@pytest.mark.thorough
def test_a_dry_run_is_published_later_exactly_as_it_was_shown(site: TestSite, s3: S3Server, bucket: str) -> None:
    from sitemap_etl.runs.local import publish_locally

    s3.client().create_bucket(Bucket=f"{bucket}-private")
    site.night(1)
    site.export("p", pages(20))
    refused = site.night(2)
    assert refused.summary.status == "refused"
    assert len(site.public().locs()) == 30
    site.export("p", pages(0))
    force = ("p.max_drop", "max_drop")
    done = publish_locally(site.load(), refused.run.run_id, site.environment, force=force, reason="sold", adopt=False)
    assert done.summary.status == "published"
    assert len(site.public().locs()) == 20


def test_a_missing_bucket_is_named(site: TestSite, s3: S3Server, bucket: str) -> None:
    s3.client().create_bucket(Bucket=f"{bucket}-private")
    s3.client().delete_bucket(Bucket=bucket)
    with pytest.raises(Refused, match=f"(?s){bucket}.*does not exist"):
        site.night(1)


def keys(s3: S3Server, bucket: str) -> list[str]:
    return [item["Key"] for item in s3.client().list_objects_v2(Bucket=bucket).get("Contents", [])]
