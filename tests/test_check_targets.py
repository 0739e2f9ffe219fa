"""Targets of a check: every target is reported, read once, and within the limits of the whole check."""

from __future__ import annotations

import gzip
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from broken_sitemaps import FINE, index, url, urlset
from test_check_edges import BAD, Object
from test_check_web import NOW

from sitemap_etl.check import Options, Report, check
from sitemap_etl.errors import ConfigError
from sitemap_etl.storage import open_storage
from tests.support.fixtures import bucket, moto, s3  # noqa: F401 - fixtures
from tests.support.s3 import S3Server


def checked(*targets: object, **options: object) -> Report:
    return check([str(target) for target in targets], options=Options(now=NOW, **options))  # type: ignore[arg-type]


def found(report: Report) -> list[tuple[str, str]]:
    return [(finding.code, Path(finding.file).name) for finding in report.findings]


# --- targets without a file ---


def test_a_folder_without_sitemaps_is_reported_along_with_another_target(tmp_path: Path) -> None:
    (tmp_path / "public-empty").mkdir()
    (tmp_path / "s.xml").write_bytes(FINE)
    report = checked(tmp_path / "public-empty", tmp_path / "s.xml")
    assert found(report) == [("sitemap-empty", "public-empty")]
    assert report.findings[0].detail == "there are no sitemaps in this folder"
    assert report.exit_code() == 1


@pytest.mark.parametrize("name", ["typo.xml", "no/such/prefix", "nothing/"])
def test_a_missing_object_is_reported_as_a_missing_target(
    name: str,
    s3: S3Server,  # noqa: F811
    bucket: str,  # noqa: F811
    tmp_path: Path,
) -> None:
    s3.client().put_object(Bucket=bucket, Key="typo.xml.bak", Body=FINE)
    (tmp_path / "s.xml").write_bytes(FINE)
    target = f"s3://{bucket}/{name}"
    report = checked(target, tmp_path / "s.xml", open_s3=open_storage)
    (finding,) = report.findings
    assert (finding.code, finding.file) == ("target-invalid", target)
    assert "neither an object nor a prefix of this name" in finding.detail
    assert report.exit_code() == 1
    with pytest.raises(ConfigError, match="neither an object nor a prefix of this name"):
        checked(target, open_s3=open_storage)


def test_a_prefix_without_sitemaps_is_reported(s3: S3Server, bucket: str, tmp_path: Path) -> None:  # noqa: F811
    s3.client().put_object(Bucket=bucket, Key="images/a.png", Body=b"png")
    (tmp_path / "s.xml").write_bytes(FINE)
    report = checked(f"s3://{bucket}/images", tmp_path / "s.xml", open_s3=open_storage)
    assert [(f.code, f.detail) for f in report.findings] == [
        ("sitemap-empty", "there are no sitemaps under this prefix")
    ]


# --- pipes ---


def poured(path: Path, data: bytes) -> None:
    """Return a named pipe into which this is written once."""

    def write() -> None:
        with suppress(BrokenPipeError):  # who reads may have had enough
            path.write_bytes(data)

    os.mkfifo(path)
    threading.Thread(target=write, daemon=True).start()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_once(packed: bool, tmp_path: Path) -> None:
    pages = "".join(url(f"https://shop.example/{n}") for n in range(5_000))
    data = urlset(pages)
    poured(tmp_path / "pipe", gzip.compress(data) if packed else data)
    report = checked(tmp_path / "pipe")
    assert {code for code, _ in found(report)} <= {"lastmod-missing"}
    assert [(stats.file, stats.rows) for stats in report.files] == [(str(tmp_path / "pipe"), 5_000)]


@pytest.mark.timeout(60)
def test_a_pipe_is_read_up_to_the_limit_of_bytes(tmp_path: Path) -> None:
    poured(tmp_path / "pipe", urlset("".join(url(f"https://shop.example/{n}") for n in range(5_000))))
    assert found(checked(tmp_path / "pipe", max_bytes=100_000)) == [("partly-read", "pipe")]


@pytest.mark.timeout(60)
def test_a_pipe_that_an_index_lists_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.xml")
    (tmp_path / "sitemap.xml").write_bytes(index("https://shop.example/a.xml"))
    assert found(checked(tmp_path)) == [("index-file-missing", "sitemap.xml")]


# --- limits of the whole check ---


def test_no_more_files_of_a_folder_are_read_than_allowed(tmp_path: Path) -> None:
    for n in range(5):
        (tmp_path / f"sitemap-{n}.xml").write_bytes(urlset(url(f"https://shop.example/{n}")))
    report = checked(tmp_path, max_files=2)
    assert [Path(stats.file).name for stats in report.files] == ["sitemap-0.xml", "sitemap-1.xml"]
    assert found(report) == [("files-not-read", tmp_path.name)]
    assert report.findings[0].detail.startswith("the limit is 2")
    assert checked(tmp_path, max_files=5).findings == []


def test_the_limit_of_files_applies_to_all_targets_and_counts_repeated_ones_once(tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"s{n}.xml").write_bytes(urlset(url(f"https://shop.example/{n}")))
    paths = [tmp_path / f"s{n}.xml" for n in range(3)]
    assert found(checked(*paths, max_files=2)) == [("files-not-read", "s2.xml")]
    assert checked(paths[0], paths[0], paths[1], max_files=2).findings == []


def test_a_file_listed_beyond_the_limit_of_files_is_not_reported_as_unlisted(tmp_path: Path) -> None:
    names = ["z.xml", "a.xml"]
    (tmp_path / "b-sitemap.xml").write_bytes(index(*(f"https://shop.example/{name}" for name in names)))
    for name in names:
        (tmp_path / name).write_bytes(urlset(url(f"https://shop.example/{name}")))
    assert {code for code, _ in found(checked(tmp_path, max_files=2))} == {"files-not-read"}


class Counted:
    """A bucket that counts how often each of its objects is read."""

    def __init__(self, objects: dict[str, bytes]) -> None:
        self.objects = objects
        self.reads: Counter[str] = Counter()

    def stat(self, key: str) -> Object | None:
        return Object(key, len(self.objects[key])) if key in self.objects else None

    def read(self, key: str, start: int, length: int) -> bytes:
        self.reads[key] += 1
        return self.objects[key][start : start + length]

    def list(self, prefix: str = "") -> Iterable[Object]:
        return [Object(key, len(data)) for key, data in self.objects.items() if key.startswith(prefix)]


def test_a_file_is_probed_once_before_it_is_read() -> None:
    held = Counted({"notes.txt": b"We made this.\n", "page.xml": BAD, "robots.txt": b"User-agent: *\n"})
    checked("s3://bucket", open_s3=lambda _url: held)
    assert held.reads == {"notes.txt": 1, "page.xml": 2, "robots.txt": 2}


class Endless(Counted):
    """A bucket whose listing never ends, and has no sitemap."""

    def list(self, prefix: str = "") -> Iterator[Object]:
        while True:
            yield Object("picture.png", 1)


@pytest.mark.timeout(60)
def test_the_time_limit_of_the_check_includes_listing_files(tmp_path: Path) -> None:
    report = checked("s3://bucket", open_s3=lambda _url: Endless({}), max_time=0.2)
    assert found(report) == [("not-finished", "bucket")]
    assert report.ended == "the time limit is 0.2 seconds"


# --- what a bucket does not tell ---


def test_the_name_of_an_object_with_content_encoding_gzip_is_not_reported(s3: S3Server, bucket: str) -> None:  # noqa: F811
    put = s3.client().put_object
    put(Bucket=bucket, Key="p/s.xml", Body=gzip.compress(FINE), ContentEncoding="gzip", ContentType="application/xml")
    put(Bucket=bucket, Key="q/s.xml.gz", Body=FINE)
    assert checked(f"s3://{bucket}/p", open_s3=open_storage).findings == []
    assert found(checked(f"s3://{bucket}/q", open_s3=open_storage)) == [("gzip-missing", "s.xml.gz")]
