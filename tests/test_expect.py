# ruff: noqa: F811 - fixtures are imported and asked for by name
"""An incomplete, old or unfinished export is refused or waited for, and never published."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import ConfigError, InvalidSource, Refused, Unavailable
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.settings import CsvExport, ParquetExport
from sitemap_etl.sources.files.completeness import Expected, Readiness, readiness
from sitemap_etl.sources.files.files import File
from sitemap_etl.sources.files.manifests import Listed, Manifest, parse_manifest
from sitemap_etl.stages.arrival import not_yet
from sitemap_etl.state.records import Options
from tests.support.command import process
from tests.support.fixtures import bucket, moto, s3  # noqa: F401 - fixtures
from tests.support.s3 import S3Server
from tests.support.sites import FIRST_NIGHT, TestSite

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
ANY = Expected()
EXPORTS: dict[str, Any] = {"csv": CsvExport, "parquet": ParquetExport}


def parquet(rows: int, start: int = 0) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table({"loc": [f"/p/{n}" for n in range(start, start + rows)]}), out)
    return out.getvalue()


class Folder:
    """A folder with an export; `put` writes a file with a time this many hours before noon."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def put(self, name: str, data: bytes | str = b"", *, hours: float = 1) -> str:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        written = (NOON - timedelta(hours=hours)).timestamp()
        os.utime(path, (written, written))
        return str(path)

    def ready(self, expected: Expected = ANY, paths: str = "", kind: Any = "parquet") -> Readiness:
        return readiness(EXPORTS[kind](**{kind: f"{self.path}{paths}"}), expected, NOON)

    def whole(self, expected: Expected = ANY, paths: str = "", kind: Any = "parquet") -> set[str]:
        found = self.ready(expected, paths, kind)
        assert found.verdict == "whole", found
        return {file.path.removeprefix(f"{self.path}/") for file in found.files}

    def why(self, expected: Expected = ANY, paths: str = "", kind: Any = "parquet") -> str:
        found = self.ready(expected, paths, kind)
        assert found.verdict == "not yet", found
        return found.why.replace(f"{self.path}/", "")


@pytest.fixture
def export(tmp_path: Path) -> Folder:
    folder = Folder(tmp_path / "export")
    folder.put("a.parquet", parquet(10))
    folder.put("deep/b.parquet", parquet(10, 10))
    return folder


# --- markers and ages -------------------------------------------------------------------------------

MARKED = Expected(marker="_SUCCESS")


@pytest.mark.parametrize("paths", ["", "/**/*.parquet", "/*.parquet", "/a.parquet"])
def test_an_export_without_its_marker_is_not_complete(export: Folder, paths: str) -> None:
    assert "a.parquet has no marker _SUCCESS beside it or above it" in export.why(MARKED, paths)
    export.put("_SUCCESS", hours=0.9)
    assert "a.parquet" in export.whole(MARKED, paths)


def test_each_folder_can_have_its_own_marker(export: Folder) -> None:
    export.put("deep/_SUCCESS", hours=0.5)
    assert export.whole(MARKED, "/deep/*.parquet") == {"deep/b.parquet"}
    assert "a.parquet has no marker" in export.why(MARKED)
    export.put("_SUCCESS", hours=0.5)
    assert export.whole(MARKED) == {"a.parquet", "deep/b.parquet"}


def test_a_marker_can_be_elsewhere(export: Folder, tmp_path: Path) -> None:
    elsewhere = Expected(marker=str(tmp_path / "done" / "products"))
    assert "no marker" in export.why(elsewhere)
    Folder(tmp_path / "done").put("products", hours=0.5)
    assert len(export.whole(elsewhere)) == 2


def test_a_file_newer_than_the_marker_belongs_to_the_next_export(export: Folder) -> None:
    export.put("_SUCCESS", hours=2)
    assert "is newer than the marker _SUCCESS: the next export is being written" in export.why(MARKED)


def test_an_export_older_than_max_age_is_late(export: Folder) -> None:
    assert len(export.whole(Expected(max_age=timedelta(hours=1)))) == 2
    why = export.why(Expected(max_age=timedelta(minutes=59)))
    assert "its newest file, is 60 minutes old, and max_age is 59 minutes" in why
    export.put("_SUCCESS", hours=0.1)
    assert len(export.whole(Expected(marker="_SUCCESS", max_age=timedelta(minutes=10)))) == 2
    for name in ("a.parquet", "deep/b.parquet", "_SUCCESS"):
        export.put(name, parquet(1), hours=31)
    why = export.why(Expected(marker="_SUCCESS", max_age=timedelta(hours=30)))
    assert "_SUCCESS is 31 hours old, and max_age is 30 hours" in why


# --- what is being written --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "_temporary/0/_temporary/attempt_1/part-0.parquet",
        ".spark-staging-7/part-0.parquet",
        ".hive-staging_1/x",
        "deep/c.parquet.tmp",
        "c.parquet.part",
        ".c.parquet.inprogress",
        "c.parquet._COPYING_",
    ],
)
def test_unfinished_files_of_a_writer_are_waited_for(export: Folder, name: str) -> None:
    export.put(name)
    assert f"{name} is there: the export is still being written" in export.why()
    assert name in export.why(paths="/**/*.parquet") or name.startswith(".spark")
    export.put(name, hours=100)  # of a job that died days ago
    assert export.whole() >= {"a.parquet", "deep/b.parquet"}


def test_an_unfinished_file_older_than_the_marker_is_ignored(export: Folder) -> None:
    export.put("_temporary/0/x", hours=0.5)
    export.put("_SUCCESS", hours=0.7)
    assert "still being written" in export.why(MARKED)
    export.put("_SUCCESS", hours=0.4)
    assert len(export.whole(MARKED)) == 2


def test_a_file_changed_seconds_ago_is_not_complete_without_marker_or_manifest(export: Folder) -> None:
    export.put("a.parquet", parquet(10), hours=3 / 3600)
    found = export.ready()
    assert (found.verdict, round(found.settles)) == ("not yet", 7)
    assert "a.parquet changed 3 seconds ago" in found.why
    export.put("_SUCCESS", hours=2 / 3600)
    assert len(export.whole(MARKED)) == 2
    export.put("list.txt", "a.parquet", hours=1 / 3600)
    assert export.whole(Expected(manifest="list.txt")) == {"a.parquet"}


def test_a_truncated_parquet_file_is_not_complete_yet(export: Folder) -> None:
    export.put("a.parquet", parquet(10)[:-9])
    assert "a.parquet is not a whole Parquet file" in export.why()


def test_a_missing_export_is_waited_for_but_not_a_folder_that_is_a_table(export: Folder) -> None:
    assert "no file matches" in export.why(paths="/none*.parquet")
    export.put("_delta_log/00000000000000000000.json")
    assert export.ready().verdict == "never"


# --- manifests --------------------------------------------------------------------------------------

A = hashlib.sha256(parquet(10)).hexdigest()
LISTED = Listed("a.parquet", 10, len(parquet(10)))


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"files": [{"path": "a.parquet", "rows": 10, "bytes": LISTED.bytes}]}),
        json.dumps([{"File": "a.parquet", "record_count": 10, "size": LISTED.bytes}]),
        json.dumps({"entries": [{"url": "a.parquet", "meta": {"content_length": LISTED.bytes, "record_count": 10}}]}),
        f"FILE_NAME,FILE_SIZE,ROW_COUNT\na.parquet,{LISTED.bytes},10\n",
        f'"name";"bytes";"rows"\r\n"a.parquet";{LISTED.bytes};10\r\n',
    ],
    ids=["files", "list", "redshift", "snowflake", "csv"],
)
def test_manifests_of_many_tools_are_read_alike(text: str) -> None:
    assert parse_manifest(text.encode(), "m") == Manifest((LISTED,), 10)


@pytest.mark.parametrize("text", ["a.parquet\n\n", '["a.parquet"]', '{"files": ["a.parquet"]}', "path\na.parquet"])
def test_a_manifest_can_be_a_list_of_names(text: str) -> None:
    assert parse_manifest(text.encode(), "m") == Manifest((Listed("a.parquet"),))


def test_a_checksum_file_is_read_as_a_manifest() -> None:
    digest = "d41d8cd98f00b204e9800998ecf8427e"
    found = parse_manifest(f"{A}  a.parquet\n{digest.upper()} *b c.parquet\n".encode(), "m")
    assert [file.hash for file in found.files] == [("sha256", A), ("md5", digest)]
    assert found.files[1].name == "b c.parquet"


@pytest.mark.parametrize(
    ("text", "error", "said"),
    [
        ('{"files": [', Unavailable, "is not complete JSON, it may still be written"),
        pytest.param("[" * 100_000, Unavailable, "is not complete JSON", id="nested"),
        pytest.param('{"rows": ' + "9" * 5_000, Unavailable, "is not complete JSON", id="a long number"),
        ("", Unavailable, "names no file"),
        ('{"files": []}', Unavailable, "names no file"),
        ('{"parts": ["a"]}', InvalidSource, 'expected "files" or "entries", got parts'),
        ('[{"rows": 3}]', InvalidSource, "lists a file without a name"),
        ('[{"name": "a", "rows": "many"}]', InvalidSource, "gives 'many' for a number of rows or bytes"),
        ("[7]", InvalidSource, "lists 7: expected the name of a file"),
        (b"\xff\xfe", InvalidSource, "is not UTF-8"),
    ],
)
def test_an_unusable_manifest_is_reported(text: str | bytes, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        parse_manifest(text.encode() if isinstance(text, str) else text, "m")


def manifest(export: Folder, *files: dict[str, Any], hours: float = 0.5) -> Expected:
    export.put("manifest.json", json.dumps({"files": files}), hours=hours)
    return Expected(manifest="manifest.json")


def test_only_the_files_of_the_manifest_are_read(export: Folder) -> None:
    assert "its manifest manifest.json is not there" in export.why(Expected(manifest="manifest.json"))
    expected = manifest(export, {"name": "deep/b.parquet"})
    found = export.ready(expected)
    assert export.whole(expected) == {"deep/b.parquet"}
    assert [Path(path).name for path in found.unlisted] == ["a.parquet"]


def test_a_missing_or_different_file_of_the_manifest_is_reported(export: Folder) -> None:
    expected = manifest(export, {"name": "a.parquet"}, {"name": "c.parquet"}, {"name": "d.parquet"})
    assert "not all of the 3 files that manifest.json names are there: c.parquet and 1 more" in export.why(expected)
    expected = manifest(export, {"name": "a.parquet", "bytes": 3})
    assert f"a.parquet has {LISTED.bytes} bytes, and its manifest says 3" in export.why(expected)
    expected = manifest(export, {"name": "a.parquet", "rows": 11})
    assert "a.parquet has 10 rows, and its manifest says 11" in export.why(expected)
    expected = manifest(export, {"name": "a.parquet", "sha256": A[::-1]})
    assert f"the sha256 of a.parquet is {A}, and its manifest says {A[::-1]}" in export.why(expected)
    assert export.whole(manifest(export, {"name": "a.parquet", "sha256": A.upper(), "rows": 10})) == {"a.parquet"}
    assert "not complete JSON" in export.why(Expected(manifest=export.put("half.json", '{"files": [')))
    assert export.ready(Expected(manifest=export.put("odd.json", "{}"))).verdict == "never"


def test_a_manifest_can_name_files_with_any_characters(export: Folder) -> None:
    export.put("unload/0000_part_00", "loc\n/a\n")
    export.put("unload/manifest", json.dumps({"entries": [{"url": f"{export.path}/unload/0000_part_00"}]}))
    assert export.whole(Expected(manifest="manifest"), "/unload", "csv") == {"unload/0000_part_00"}
    elsewhere = Expected(manifest=export.put("list/snow.csv", "FILE_NAME,ROW_COUNT\nstage/0000_part_00,1\n"))
    assert "stage/0000_part_00" in export.why(elsewhere, "/unload", "csv")
    export.put("list/snow.csv", "FILE_NAME,ROW_COUNT\nunload/0000_part_00,1\n")
    assert export.whole(elsewhere, "/unload", "csv") == {"unload/0000_part_00"}


@pytest.mark.parametrize(
    "spelled", ["./a.parquet", "a.parquet", "../export/a.parquet", "deep/../a.parquet", "file://{}/a.parquet"]
)
def test_names_in_a_manifest_can_be_escaped_as_in_listings(export: Folder, spelled: str) -> None:
    expected = manifest(export, {"name": spelled.format(export.path)})
    assert export.whole(expected) == {"a.parquet"}


def test_checksum_files_can_name_files_as_find_does(export: Folder) -> None:
    """As `sha256sum ./*.parquet` writes them."""
    assert export.whole(Expected(manifest=export.put("SUMS", f"{A}  ./a.parquet\n"))) == {"a.parquet"}


def test_too_few_rows_are_reported_before_they_are_read(export: Folder) -> None:
    assert len(export.whole(Expected(min_rows=20))) == 2
    assert "it has 20 rows, and min_rows is 21" in export.why(Expected(min_rows=21))


def test_readiness_of_objects_is_judged_like_that_of_files(s3: S3Server, bucket: str) -> None:
    client, where = s3.client(), f"s3://{bucket}/night"

    def put(name: str, data: bytes = b"") -> None:
        client.put_object(Bucket=bucket, Key=f"night/{name}", Body=data)

    def ready(expected: Expected, path: str = where) -> Readiness:
        return readiness(ParquetExport(parquet=path), expected, datetime.now(UTC))

    put("a.parquet", parquet(10))
    assert "a.parquet has no marker _SUCCESS" in ready(MARKED).why
    put("_temporary/0/x")
    put("_SUCCESS")
    assert ready(MARKED).verdict == "whole", "what is as old as the marker is a leftover"
    assert "_temporary/0/x is there" in ready(ANY).why
    client.delete_object(Bucket=bucket, Key="night/_temporary/0/x")
    md5 = hashlib.md5(parquet(10)).hexdigest()
    put("sums", f"{md5}  a.parquet\n".encode())
    found = ready(Expected(manifest="sums"))
    assert [file.path for file in found.files] == [f"{where}/a.parquet"]
    put("sums", f"{md5[::-1]}  {where}/a.parquet\n".encode())
    assert "the md5 of" in ready(Expected(manifest=f"{where}/sums")).why
    assert ready(MARKED, f"{where}/a.parquet").verdict == "whole"
    assert "no file matches" in ready(ANY, f"{where}/b*").why
    with pytest.raises(Refused, match="does not exist"):
        ready(ANY, "s3://nowhere-at-all/x")


# --- nights -----------------------------------------------------------------------------------------


class Shop(TestSite):
    """A site whose section `p` reads a folder of CSV files with this `expect`."""

    def __init__(self, folder: Path, expect: dict[str, Any], **keys: Any) -> None:
        super().__init__(folder, **keys)
        self.exports = Folder(folder / "exports")
        self.lines: list[str] = []
        self.paused: list[float] = []
        self.arrives: Iterator[Callable[[], object]] = iter(())
        self.environment = replace(self.environment, log=self.lines.append, pause=self.pause)
        self.keys["sections"]["p"] = {"from": {"csv": "./exports", "expect": expect}}

    def write(self, rows: int, name: str = "a.csv") -> None:
        text = "".join(f"/p/{n}\n" for n in range(rows))
        path = Path(self.exports.put(name, f"loc\n{text}"))
        written = (FIRST_NIGHT - timedelta(hours=1)).timestamp()
        os.utime(path, (written, written))

    def pause(self, seconds: float) -> None:
        """Let time pass, and something happen."""
        self.paused.append(seconds)
        next(self.arrives, lambda: None)()

    def listed(self) -> int:
        return len(self.public().locs())


def test_an_incomplete_export_is_refused_and_the_published_pages_stay(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"min_rows": 50})
    site.write(60)
    site.night(1)
    site.write(30)
    with pytest.raises(Unavailable, match=r"section p: it has 30 rows, and min_rows is 50"):
        site.night(2)
    assert site.listed() == 60
    site.keys["sections"]["p"]["on_error"] = "keep"
    assert site.night(3).summary.kept == {"p": "section p: it has 30 rows, and min_rows is 50"}
    assert site.listed() == 60
    assert site.night(4, dry_run=True, limit=10).summary.sections["p"].listed == 10


def test_rows_that_a_manifest_promises_are_counted_as_they_are_read(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"manifest": "rows.json"})
    site.write(60)
    site.exports.put("rows.json", json.dumps({"files": ["a.csv"], "rows": 61}))
    with pytest.raises(Unavailable, match=r"60 rows were read, and the manifest of the export says 61"):
        site.night(1)
    site.exports.put("rows.json", json.dumps({"files": [{"name": "a.csv", "rows": 60}]}))
    site.write(10, "old.csv")
    done = site.night(1)
    assert done.summary.sections["p"].listed == 60
    assert any("files that the manifest does not name were not read" in text for text in done.summary.warnings)


def test_a_minimum_number_of_rows_applies_to_databases(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    site.environment = replace(site.environment, environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{tmp_path}/catalog.db"})
    query = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) SELECT '/p/' || i AS loc FROM n"
    )
    (tmp_path / "catalog.db").touch()
    site.keys["sections"]["p"] = {"from": {"database": "catalog", "query": query, "expect": {"min_rows": 41}}}
    with pytest.raises(Unavailable, match="it has 40 rows, and min_rows is 41"):
        site.night(1)
    site.keys["sections"]["p"]["from"]["expect"]["min_rows"] = 40
    assert site.night(1).summary.sections["p"].listed == 40
    site.keys["sections"]["p"]["from"]["expect"] = {"marker": "_SUCCESS", "wait": "2h"}
    with pytest.raises(
        ConfigError, match=r"expect: a database has no marker and no wait \(for exports\); it takes min_rows"
    ):
        site.load()


def test_a_run_waits_for_an_export_that_arrives_in_time(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"marker": "_SUCCESS", "wait": "2h"})
    site.arrives = iter([lambda: site.write(60), lambda: site.exports.put("_SUCCESS", hours=0)])
    done = site.night(1)
    assert (done.summary.status, site.listed()) == ("published", 60)
    assert site.paused == [30.0, 30.0]
    waits = "section p: waiting for its source until 04:00:00 UTC: "
    assert [line.removeprefix(waits) for line in site.lines if "waiting" in line] == [
        f"there is no file {tmp_path}/exports",
        f"{tmp_path}/exports/a.csv has no marker _SUCCESS beside it or above it",
    ]


def test_a_run_waits_no_longer_than_its_limit_and_not_for_a_hopeless_export(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"marker": "_SUCCESS"})
    site.write(60)
    with pytest.raises(Unavailable, match=r"section p: the source is not whole: .*has no marker"):
        site.night(1)
    assert site.paused == []
    site.keys["sections"]["p"]["from"]["expect"] |= {"wait": "1m"}
    for _ in range(2):
        late = site.store.time

        def passes() -> None:
            site.store.time += timedelta(seconds=31)

        site.arrives = iter([passes] * 10)
        site.paused.clear()
        with pytest.raises(Unavailable, match="has no marker"):
            site.night(1)
        assert site.paused == [30.0, 29.0]
        assert late <= site.store.time
    site.paused.clear()
    site.keys["sections"]["p"]["from"]["expect"] |= {"manifest": "m.json"}
    site.exports.put("m.json", "{}")
    with pytest.raises(InvalidSource, match="has no list of files"):
        site.night(1)
    assert site.paused == []
    site.keys["sections"]["p"]["on_error"] = "keep"
    site.section("q", [{"loc": "/q"}])
    assert "has no list of files" in site.night(1).summary.kept["p"]
    assert site.listed() == 1


def test_polling_by_a_scheduler_writes_nothing(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"marker": "_SUCCESS", "wait": "2h"})
    site.section("q", [{"loc": "/q"}])
    before = {path: path.stat() for path in tmp_path.rglob("*")}
    environment = site.at(FIRST_NIGHT)
    found = not_yet(site.load(), Options(), environment)
    assert {name: (one.wait, "there is no file" in one.why) for name, one in found.items()} == {
        "p": (timedelta(hours=2), True)
    }
    assert not_yet(site.load(), Options(sections=("q",)), environment) == {}
    assert set(tmp_path.rglob("*")) - {site.path} == set(before)
    assert (site.paused, site.lines) == ([], [])


def test_a_recently_changed_file_is_waited_for_without_configuration(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"min_rows": 1})
    site.write(60)
    just = (FIRST_NIGHT - timedelta(seconds=4)).timestamp()
    os.utime(tmp_path / "exports" / "a.csv", (just, just))
    old = (FIRST_NIGHT - timedelta(hours=4)).timestamp()
    site.arrives = iter([lambda: os.utime(tmp_path / "exports" / "a.csv", (old, old))])
    site.night(1)
    assert site.paused == [pytest.approx(6)]
    assert site.listed() == 60


def test_all_splits_read_the_files_that_were_found_complete(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"max_age": "30h"})
    site.write(60)
    found = not_yet(site.load(), Options(), site.at(FIRST_NIGHT))
    assert found == {}
    site.arrives = iter(())
    done = site.night(1)
    assert [File(*file).path for unit in done.run.plan.units for file in unit.split.detail["files"]] == [
        f"{tmp_path}/exports/a.csv"
    ]
    with pytest.raises(Unavailable, match="is 49 hours old, and max_age is 30 hours"):
        site.night(3)


def test_ctrl_c_ends_the_wait_for_an_export(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"marker": "_SUCCESS", "wait": "2h"})
    running = process("run", site.path, cwd=tmp_path)
    assert running.stderr is not None
    while "waiting for its source" not in (line := running.stderr.readline()):
        assert line, "it ended before it waited"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=15)
    assert running.returncode == 130
    assert not (tmp_path / "work" / "shop" / "state" / "lease.json").exists()


def test_validate_reports_an_incomplete_export(tmp_path: Path) -> None:
    site = Shop(tmp_path, {"marker": "_SUCCESS"})
    site.write(3)
    (problem,) = problems_of(site.load(), connect=True, environment=site.at(FIRST_NIGHT))
    assert "section p: the source is not whole" in str(problem)
