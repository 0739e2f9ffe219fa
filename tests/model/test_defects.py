"""Known differences between product and documentation, each as a user would notice it.

A failing case is marked with the reason; the fix removes the mark.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl.errors import ConfigError, InvalidSource, Refused, Unavailable
from sitemap_etl.runs.local import Finished, run_locally
from sitemap_etl.state.codec import encode
from sitemap_etl.state.records import Options
from tests.model.world import OLD
from tests.support.command import call
from tests.support.engines import RESET, Reply, Side
from tests.support.proxy import CORRUPT, FaultProxy
from tests.support.s3 import S3Server
from tests.support.sites import Listed, TestSite, pages

NOBODY = "http://127.0.0.1:9"
"""A site that does not answer, at once."""
START = datetime(2021, 3, 1, 2, 0, tzinfo=UTC)
"""Long ago, so that the clock of no source is behind it."""
DAY = 1.0
MINUTE = DAY / 24 / 60


class Catalogue(TestSite):
    """Sections that are tables of a database, each row with a watermark; a run reads what changed since the last."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        super().__init__(folder, site=NOBODY, **{"gates": {"max_drop": 1, "max_growth": 99}, **keys})
        environ = {"AIRFLOW_CONN_CATALOG": f"sqlite:///{folder}/catalog.db"}
        self.environment = replace(self.environment, environ=environ)

    def table(
        self, name: str, rows: list[dict[str, Any]], *, source: dict[str, Any] | None = None, **keys: Any
    ) -> None:
        """A section of these rows, read by key `id`; `source` changes single keys of `from`."""
        columns = list(rows[0])
        with self._database() as database:
            database.execute(f"CREATE TABLE {name} ({', '.join([*columns, 'touched'])})")
        self.add(name, *({**row, "touched": "2021-01-01 00:00:00"} for row in rows))
        query = f"SELECT {', '.join(columns)} FROM {name} WHERE touched >= :since"
        read = {"database": "catalog", "query": query, "key": "id", **(source or {})}
        self.section(name, **keys)
        self.keys["sections"][name]["from"] = read

    def add(self, name: str, *rows: dict[str, Any]) -> None:
        places = ", ".join(f":{column}" for column in rows[0])
        with self._database() as database:
            database.executemany(f"INSERT INTO {name} ({', '.join(rows[0])}) VALUES ({places})", rows)

    def edit(self, name: str, key: int, night: int, **values: Any) -> None:
        """Change values of a row, at noon before that run."""
        values["touched"] = noon(night)
        new = ", ".join(f"{column} = :{column}" for column in values)
        with self._database() as database:
            database.execute(f"UPDATE {name} SET {new} WHERE id = {key}", values)

    def drop(self, name: str, key: int) -> None:
        with self._database() as database:
            database.execute(f"DELETE FROM {name} WHERE id = {key}")

    @contextlib.contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        with contextlib.closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            yield database

    def night(self, number: float, **options: Any) -> Finished:  # type: ignore[override]
        environment = self.at(START + timedelta(days=number - 1))
        return run_locally(self.load(), Options(**options), environment, jobs=1)

    def listed(self) -> dict[str, Listed]:
        """Return path → page of all files; a page in two files is an error."""
        entries = self.public().entries()
        found = {entry.loc.removeprefix(NOBODY): entry for entry in entries}
        assert len(found) == len(entries), sorted(entry.loc for entry in entries)
        return found


def told(finished: Finished) -> dict[str, Any]:
    """The summary of a run as `--json` prints it."""
    return dict(encode(finished.summary))


def noon(night: int) -> str:
    """Return the noon before a run, as a watermark."""
    return f"{START + timedelta(days=night - 1, hours=-14):%Y-%m-%d %H:%M:%S}"


def rows(count: int, start: int = 1, **columns: Any) -> list[dict[str, Any]]:
    """Rows of pages /p/001 …, with further columns, which may be functions of the number."""
    return [
        {
            "id": number,
            "loc": f"/p/{number:03}",
            **{name: value(number) if callable(value) else value for name, value in columns.items()},
        }
        for number in range(start, start + count)
    ]


@pytest.fixture
def site(tmp_path: Path) -> Catalogue:
    return Catalogue(tmp_path)


# --- incremental reads ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["database", "csv"])
def test_a_select_with_two_columns_of_the_same_name_is_refused(site: Catalogue, kind: str) -> None:
    site.table("a", rows(3, title="x"))
    site.export("b", rows(3, title="x"))
    query = "SELECT loc, title, id AS title FROM " + ("a" if kind == "database" else "source")
    source = {"database": "catalog"} if kind == "database" else {"csv": "./b.csv"}
    site.keys["sections"] = {"a": {"from": {**source, "query": query}}}
    with pytest.raises(InvalidSource, match="title"):
        site.night(1)


BODY = {"fingerprint": ["body"]}


def test_rows_without_changes_get_no_date_after_the_fingerprint_columns_changed(site: Catalogue) -> None:
    site.table("a", rows(5, body="b", title="t"), lastmod=BODY)
    site.night(1)
    site.keys["sections"]["a"]["lastmod"] = {"fingerprint": ["body", "title"]}
    site.night(2)
    site.edit("a", 3, 3)
    assert told(site.night(3))["status"] == "unchanged"
    site.edit("a", 4, 4, title="other")
    site.night(4)
    assert {path for path, page in site.listed().items() if page.lastmod} == {"/p/004"}


def test_a_whole_number_that_becomes_a_fraction_changes_its_page(site: Catalogue) -> None:
    site.table("a", rows(5, price=lambda n: n), lastmod={"fingerprint": ["price"]})
    site.keys["sections"]["a"]["from"] = {"database": "catalog", "query": "SELECT loc, price FROM a"}
    site.night(1)
    site.edit("a", 3, 2, price=3.5)
    site.edit("a", 4, 2, price=40)
    site.night(2)
    assert {path for path, page in site.listed().items() if page.lastmod} == {"/p/003", "/p/004"}


def test_a_row_that_became_visible_late_is_read_within_the_overlap(site: Catalogue) -> None:
    site.table("a", rows(5))
    site.night(1)
    site.night(2)
    late = START + timedelta(days=1, minutes=-30)  # a transaction that was open when the second night read
    site.add("a", {"id": 6, "loc": "/p/006", "touched": f"{late:%Y-%m-%d %H:%M:%S}"})
    site.night(3)
    assert "/p/006" in site.listed()


# --- gates and clocks -----------------------------------------------------------------------------


def test_an_export_whose_date_format_changes_is_refused(tmp_path: Path) -> None:
    site = TestSite(tmp_path, site=NOBODY)
    site.section("p", pages(2_000, lastmod=lambda n: f"2026-09-{n % 28 + 1:02}"))
    site.night(1)
    before = site.public().objects()
    site.export("p", pages(2_000, lastmod=lambda n: f"{n % 28 + 1:02}.09.2026"))
    summary = told(site.night(2))
    assert summary["status"] == "refused"
    assert "p.max_undated" in {gate["name"] for gate in summary["gates"] if gate["status"] == "refused"}
    assert site.public().objects() == before


def test_dates_dropped_by_a_rule_are_a_warning_except_in_views(tmp_path: Path) -> None:
    site = TestSite(tmp_path, site=NOBODY)
    site.section("p", pages(100, lastmod="2026-09-01"))
    site.section("v", pages(100, lastmod="2026-09-01"), view=True)
    site.night(1)
    site.section("p", lastmod="none")
    site.section("v", pages(100, lastmod="soon"), view=True)
    summary = told(site.night(2))
    assert summary["status"] == "published"
    status = {gate["name"]: gate["status"] for gate in summary["gates"]}
    assert status["p.max_undated"] == "warned"
    assert status.get("v.max_undated", "ok") == "ok"


def test_an_import_that_gives_every_page_the_same_date_is_refused(tmp_path: Path) -> None:
    site = TestSite(tmp_path, site=NOBODY)
    site.section("p", pages(1_500, lastmod=lambda n: f"2026-09-{n % 28 + 1:02}"))
    site.night(1)
    site.export("p", pages(1_500, lastmod="2026-10-30"))
    summary = told(site.night(2))
    assert summary["status"] == "refused"
    assert "p.max_same_date" in {gate["name"] for gate in summary["gates"] if gate["status"] == "refused"}
    assert told(site.night(3, force=("p.max_same_date",), reason="imported again"))["status"] == "published"


def test_a_run_is_refused_if_many_of_the_rows_it_read_are_rejected(site: Catalogue) -> None:
    del site.keys["gates"]
    site.table("a", rows(4_000))
    site.night(1)
    with site._database() as database:
        database.execute(f"UPDATE a SET touched = '{noon(2)}' WHERE id <= 1000")
        database.execute("UPDATE a SET loc = 'ftp://x/' || id WHERE id <= 100")
    summary = told(site.night(2))
    assert summary["status"] == "refused"
    assert "a.max_rejected" in {gate["name"] for gate in summary["gates"] if gate["status"] == "refused"}


def test_a_clock_slightly_behind_takes_the_time_of_the_release(site: Catalogue) -> None:
    site.section("p", rows(5, body="old"), lastmod=BODY)
    site.night(2)
    site.export("p", rows(5, body="new"))
    summary = told(site.night(2 - 5 * MINUTE))
    assert summary["now"] == "2021-03-02T02:00:00Z"
    assert {page.lastmod for page in site.listed().values()} == {"2021-03-02T02:00:00Z"}


def test_a_clock_far_behind_is_refused(site: Catalogue) -> None:
    site.section("p", rows(5, body="old"), lastmod=BODY)
    site.night(2)
    site.export("p", rows(5, body="new"))
    with pytest.raises(Refused, match="2021-03-02T02:00:00Z"):
        site.night(2 - 60 * MINUTE)


# --- sources, state, engines ----------------------------------------------------------------------


class Robots:
    """A site whose robots.txt is served by something else."""

    def __init__(self, folder: Path) -> None:
        self.reply = Reply(200, "User-agent: *\nDisallow: /p/000001\n")
        self.side = Side(lambda request: self.reply if request.path == "/robots.txt" else Reply(404))
        publish = {"to": "./public", "at": f"{self.side.url}/maps/"}
        self.site = TestSite(folder, site=self.side.url, publish=publish, urls={"respect_robots": True})
        self.site.keys["publish"] = publish
        self.site.section("p", pages(30))


@pytest.fixture
def robots(tmp_path: Path) -> Iterator[Robots]:
    robots = Robots(tmp_path)
    with robots.side:
        yield robots


FAULTS = pytest.mark.parametrize("reply", [Reply(503), Reply(500), Reply(403), RESET])


@FAULTS
def test_an_unreachable_robots_txt_applies_as_last_read(robots: Robots, reply: Reply) -> None:
    assert told(robots.site.night(1))["sections"]["p"]["listed"] == 29
    robots.reply = reply
    summary = told(robots.site.night(2))
    assert summary["sections"]["p"]["listed"] == 29
    assert any("robots.txt" in warning for warning in summary["warnings"])


@FAULTS
def test_a_robots_txt_that_was_never_reachable_ends_the_run(robots: Robots, reply: Reply) -> None:
    robots.reply = reply
    with pytest.raises(Unavailable, match=r"robots\.txt"):
        robots.site.night(1)


def test_an_unclosed_quote_is_refused_with_its_line(tmp_path: Path) -> None:
    site = TestSite(tmp_path, site=NOBODY).section("p")
    more = "".join(f"/p/{number},Page {number}\n" for number in range(10_000))
    (tmp_path / "p.csv").write_text(f'loc,title\n/first,First\n/second,"Second\n{more}')
    with pytest.raises(InvalidSource, match="line 3"):
        site.night(1)


@pytest.mark.parametrize(
    ("mark", "name"), [("_delta_log/00000000000000000000.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg")]
)
def test_a_folder_that_is_a_table_of_another_format_is_refused_by_name(tmp_path: Path, mark: str, name: str) -> None:
    site = TestSite(tmp_path, site=NOBODY).section("p")
    (tmp_path / "table" / mark).parent.mkdir(parents=True)
    (tmp_path / "table" / mark).write_text("{}")
    pq.write_table(pa.table({"loc": ["/a"]}), tmp_path / "table" / "part.parquet")
    site.keys["sections"]["p"]["from"] = {"parquet": "./table"}
    with pytest.raises((InvalidSource, ConfigError), match=name):
        site.night(1)


def test_a_copy_of_a_project_with_the_same_state_is_refused_unless_confirmed(tmp_path: Path) -> None:
    one, two = (TestSite(tmp_path / name, site=NOBODY, work=str(tmp_path / "work")) for name in ("one", "two"))
    for each in (one, two):
        each.section("p", pages(5))
    one.night(1)
    with pytest.raises((Refused, ConfigError)) as told:
        two.night(2)
    assert str(tmp_path / "one" / "public") in str(told.value)
    assert str(tmp_path / "two" / "public") in str(told.value)
    assert not (tmp_path / "two" / "public" / "sitemap.xml").exists()
    assert call("run", two.path, "--moved", "--json").code == 0
    assert len(two.public().locs()) == 5


def test_an_engine_whose_key_is_not_set_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INDEXNOW_KEY", raising=False)
    site = TestSite(tmp_path, site=NOBODY, ping={"indexnow": {"key": "${INDEXNOW_KEY}"}})
    site.section("p", pages(5))
    done = call("run", site.path, "--json")
    assert done.code == 3
    assert "INDEXNOW_KEY" in json.dumps(done.json["engines"]["indexnow"])
    assert "INDEXNOW_KEY" in Path(done.json["report"]).read_text()
    assert len(site.public().locs()) == 5


# --- columns --------------------------------------------------------------------------------------


def test_the_url_rules_apply_to_images_and_alternates_on_the_site(site: Catalogue) -> None:
    site.keys["urls"] = {"same_as": [OLD], "strip": ["tracking"]}
    images = json.dumps([f"{OLD}/i/1.jpg?utm_source=mail"])
    alternates = json.dumps({"en": f"{OLD}/en?utm_source=mail", "de": "/de"})
    site.section("p", [{"loc": "/de", "images": images, "alternates": alternates}])
    site.night(1)
    page = site.listed()["/de"]
    assert page.images == [f"{NOBODY}/i/1.jpg"]
    assert page.alternates == {"en": f"{NOBODY}/en", "de": f"{NOBODY}/de"}


def test_columns_can_swap_their_names(site: Catalogue) -> None:
    site.section(
        "p", [{"loc": "/an/id", "url": "/a/page"}], columns={"loc": "url", "url": "loc"}, where="url = '/an/id'"
    )
    site.night(1)
    assert set(site.listed()) == {"/a/page"}


def test_a_page_whose_mobile_turns_from_null_to_false_is_unchanged(site: Catalogue) -> None:
    site.table("a", rows(5, mobile=None))
    site.keys["sections"]["a"]["from"] = {"database": "catalog", "query": "SELECT loc, mobile FROM a"}
    site.night(1)
    for key in range(1, 6):
        site.edit("a", key, 2, mobile=0)
    summary = told(site.night(2))
    assert summary["status"] == "unchanged"
    assert summary["sections"]["a"]["changed"] == 0


# --- stores that change bytes ---------------------------------------------------------------------


@pytest.mark.thorough
def test_a_new_file_corrupted_in_transit_is_written_again_by_the_next_run(
    tmp_path: Path, s3: S3Server, proxy: FaultProxy
) -> None:
    """The store kept the changed bytes beside the checksum that was sent for the right ones, as lenient stores do."""
    bucket = s3.bucket()
    site = TestSite(tmp_path, to=f"s3://{bucket}/public", work=f"s3://{bucket}/work", site=NOBODY)
    site.section("a", pages(5))
    proxy.once(CORRUPT, method="PUT", contains="sitemap-a-00001")
    with pytest.raises(Unavailable):
        site.night(1)
    assert site.night(2).summary.status == "published"
