"""The demo, as `make demo` runs it, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import unicodedata
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from demo.bucket import PRIVATE, PUBLIC, embedded
from demo.catalogue import SYLLABLES, make
from demo.surroundings import Home
from sitemap_etl.config import load
from tests.support.airflow import PROJECT


@pytest.mark.thorough
@pytest.mark.timeout(600)  # a run of Airflow
def test_a_run_shows_what_it_published(tmp_path: Path) -> None:
    bare = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "demo.run", "--home", str(tmp_path / "demo")]
    done = subprocess.run(command, cwd=PROJECT, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for shown in ("sitemap-places-00003.xml.gz", "<urlset", "# sitemap_etl demo begin", "94,974", "Published"):
        assert shown in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.thorough
def test_the_demo_ends_with_the_log_of_an_airflow_that_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "airflow").mkdir()
    (tmp_path / "airflow" / "airflow.db").write_text("no database")
    command = [sys.executable, "-m", "demo.run", "--home", str(tmp_path)]
    done = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "file is not a database" in done.stdout
    assert f"The demo failed (exit 1). The whole log: {tmp_path}/airflow.log" in done.stdout
    assert not done.stderr


@pytest.mark.thorough
def test_the_demo_catalogue_is_deterministic_and_has_many_scripts(tmp_path: Path) -> None:
    rows = make(tmp_path / "a")
    assert rows == make(tmp_path / "a") == make(tmp_path / "b")
    assert sum(rows.values()) >= 120_000
    for name in ("stories.csv.gz", "walks.parquet"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    letters = "".join(SYLLABLES.values()).replace(" ", "")
    scripts = {unicodedata.name(letter).split()[0] for letter in letters}
    assert {"LATIN", "CYRILLIC", "GREEK", "HEBREW", "ARABIC", "DEVANAGARI", "THAI", "CJK", "HANGUL"} <= scripts


@pytest.mark.thorough
def test_the_demo_catalogue_changes_from_day_to_day(tmp_path: Path) -> None:
    first, second = make(tmp_path / "a"), make(tmp_path / "b", day=2)
    assert second["places"] == first["places"] + 250
    one, other = (pq.read_table(tmp_path / day / "walks.parquet") for day in "ab")
    assert one.num_rows == other.num_rows
    assert one.column("title").equals(other.column("title"))
    assert not one.column("kilometres").equals(other.column("kilometres"))


@pytest.mark.thorough
def test_the_demo_bucket_is_restored_with_its_objects_and_headers(tmp_path: Path) -> None:
    key = "sitemaps/ü &é.xml"
    with embedded(tmp_path / "bucket") as bucket:
        bucket.client().put_object(Bucket=PUBLIC, Key=key, Body=b"one", ContentType="a/b", CacheControl="no-cache")
        bucket.client().put_object(Bucket=PRIVATE, Key="state/x", Body=b"")
        before = bucket.client().head_object(Bucket=PUBLIC, Key=key)
        keys = {name: bucket.keys(name) for name in (PUBLIC, PRIVATE)}
        bucket.keep()
        for name in (PUBLIC, PRIVATE):  # all gone, as it is for the next process
            for found, _ in keys[name]:
                bucket.client().delete_object(Bucket=name, Key=found)
        bucket.load()
        after = bucket.client().head_object(Bucket=PUBLIC, Key=key)
        assert {name: bucket.keys(name) for name in (PUBLIC, PRIVATE)} == keys
    assert [before[name] for name in ("ETag", "ContentType", "CacheControl")] == [
        after[name] for name in ("ETag", "ContentType", "CacheControl")
    ]


def test_the_site_file_of_the_demo_needs_no_environment() -> None:
    site = load(PROJECT / "sites" / "demo.yaml", environ={})
    assert list(site.sections) == ["places", "stories", "walks"]


def test_an_unwritable_folder_is_reported_with_the_option_to_choose_another(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit, match=r"file.*make demo FOLDER="), Home(tmp_path / "file" / "demo").locked():
        pass
