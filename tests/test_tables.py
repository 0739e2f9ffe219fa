# ruff: noqa: F811 - fixtures are imported and asked for by name
"""Delta Lake and Iceberg tables: one version per run; deleted rows never appear, unchanged ones are not read."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from sitemap_etl.errors import ConfigError, InvalidSource, Refused, Unavailable
from sitemap_etl.runs import tasks
from sitemap_etl.runs.local import publish_locally, run_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.s3 import S3Client
from sitemap_etl.sources import read
from sitemap_etl.sources.lake import lake
from sitemap_etl.sources.lake.delta import store_options
from sitemap_etl.sources.lake.rowwise import RowSelect
from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.records import Options
from tests.support.fixtures import bucket, moto, reachable, s3  # noqa: F401 - fixtures
from tests.support.lake import Delta, Iceberg, Written, rows
from tests.support.s3 import S3Server
from tests.support.sites import FIRST_NIGHT, TestSite

SHOP = "https://shop.example"
OPEN = {"max_drop": 1, "max_growth": 99}


class Lake(TestSite):
    """A site with one section, `p`, over a table."""

    def __init__(self, folder: Path, table: Written, monkeypatch: pytest.MonkeyPatch, **source: Any) -> None:
        super().__init__(folder)
        for name, value in table.environ.items():
            monkeypatch.setenv(name, value)  # pyiceberg's own configuration
        self.table = table
        self.lines: list[str] = []
        self.environment = replace(self.environment, log=self.lines.append)
        self.keys["sections"]["p"] = {"from": {**table.source, **source}}

    @property
    def source(self) -> dict[str, Any]:
        found: dict[str, Any] = self.keys["sections"]["p"]["from"]
        return found

    def counts(self, night: int, **options: Any) -> Any:
        return self.night(night, **options).summary.sections["p"]

    def locs(self) -> set[str]:
        return {loc.removeprefix(f"{SHOP}/p/") for loc in self.public().locs()}


def made(kind: str, folder: Path) -> Written:
    table: Written
    if kind == "iceberg":
        table = Iceberg(folder / "lake")
    else:
        table = Delta(str(folder / "lake" / "products"), feed=kind == "feed")
    table.append(rows(0, 60))
    table.append(rows(60, 100))
    return table


@pytest.fixture(params=["delta", "iceberg"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Written:
    return made(request.param, tmp_path)


@pytest.fixture
def site(table: Written, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path / "site", table, monkeypatch)


@pytest.fixture(params=["delta", "feed", "iceberg"])
def keyed(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    return Lake(tmp_path / "site", made(request.param, tmp_path), monkeypatch, key="id")


NUMBERS = {str(n) for n in range(100)}


def renamed(table: Written) -> None:
    """Delete three rows, rename one, and add one."""
    table.delete("id >= 7 and id < 10")
    table.update(50, "/p/fifty")
    table.append(rows(200, 201))


AFTER = (NUMBERS - {"7", "8", "9", "50"}) | {"fifty", "200"}


# --- a version ----------------------------------------------------------------------------------------


def test_deleted_rows_never_appear_and_a_renamed_one_is_listed_once(site: Lake) -> None:
    assert site.counts(1).extracted == 100
    renamed(site.table)
    counts = site.counts(2)
    assert (counts.extracted, counts.added, counts.removed) == (98, 2, 4)
    assert site.locs() == AFTER


def test_a_published_table_version_is_not_read_again(site: Lake) -> None:
    site.night(1)
    counts = site.counts(2)
    assert (counts.extracted, counts.carried, counts.listed) == (0, 100, 100)
    assert site.night(3).summary.status == "unchanged"
    site.table.update(50, "/p/50")  # another version in which nothing changed
    assert site.counts(4).extracted == 100
    assert site.counts(5).extracted == 0
    assert site.counts(6, full=True).extracted == 100
    assert site.counts(7, dry_run=True).extracted == 0
    assert site.locs() == NUMBERS


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": {"title": "wide"}},
        {"where": "loc <> '/p/3'"},
        {"lastmod": "none"},
        {"formats": ["text"]},
    ],
    ids=["columns", "where", "lastmod", "formats"],
)
def test_a_changed_rule_reads_the_same_version_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    site = Lake(tmp_path / "site", made("delta", tmp_path), monkeypatch)
    site.night(1)
    assert site.counts(2).extracted == 0
    site.keys["sections"]["p"].update(changed)
    assert site.counts(3).extracted == 100
    assert site.counts(4).extracted == 0
    site.keys["urls"] = {"exclude": ["/p/4"]}
    assert site.counts(5).extracted == 100


def test_a_section_with_time_dependent_rules_is_read_by_every_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Lake(tmp_path / "site", made("delta", tmp_path), monkeypatch)
    for keys in (
        {"where": "lastmod < today()::VARCHAR"},
        {"transform": "tests.model.hooks:shouted", "columns": {"title": "wide"}},
        {"alternates": {"group": "id", "hreflang": "wide"}},
    ):
        site.keys["sections"]["p"] = {"from": site.source, **keys}
        site.night(1)
        assert site.counts(2).extracted == 100, keys
    site.keys["sections"]["p"] = {"from": site.source}
    site.table.append(rows(300, 301).set_column(2, "lastmod", pa.array(["2026-11-05T00:00:00Z"])))
    assert site.counts(3).extracted == 101
    assert site.public().by_loc()[f"{SHOP}/p/300"].lastmod is None, "it lies in the future"
    assert site.counts(5).extracted == 101, "and may have come"
    assert site.public().by_loc()[f"{SHOP}/p/300"].lastmod == "2026-11-05T00:00:00Z"
    assert site.counts(6).extracted == 0


def test_a_page_that_another_section_no_longer_lists_returns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lake(tmp_path / "site", made("delta", tmp_path), monkeypatch)
    products = site.keys["sections"].pop("p")
    site.section("first", [{"loc": "/p/3"}, {"loc": "/other"}])
    site.keys["sections"]["p"] = products
    assert site.counts(1).duplicates == 1
    assert site.counts(2).extracted == 100, "a page of it is listed elsewhere"
    site.export("first", [{"loc": "/other"}])
    assert site.counts(3).listed == 100
    assert site.counts(4).extracted == 0
    assert site.locs() >= NUMBERS


def test_after_a_rollback_the_table_is_read(site: Lake) -> None:
    site.night(1)
    renamed(site.table)
    first = site.manifest().run_id
    site.night(2)
    roll_back(site.load(), first, site.at(FIRST_NIGHT + timedelta(days=1, hours=3)), reason=None)
    assert site.locs() == NUMBERS
    assert site.counts(3).extracted == 98
    assert site.locs() == AFTER


def test_a_recreated_table_is_read_whatever_its_version(site: Lake) -> None:
    """A job that drops its table and writes it again restarts the versions of Delta Lake."""
    site.keys["gates"] = OPEN
    for night, first in enumerate((0, 20, 50), start=1):
        site.table.make_anew(rows(first, 60))
        assert site.counts(night).listed == 60 - first
        assert site.locs() == set(map(str, range(first, 60)))


def test_a_version_or_a_timestamp_of_a_table_can_be_configured(site: Lake) -> None:
    first = site.table.version()
    time.sleep(0.05)  # a version has a time in milliseconds
    at = datetime.now(UTC)
    time.sleep(0.05)
    renamed(site.table)
    site.source["version"] = first
    site.night(1)
    assert site.locs() == NUMBERS
    del site.source["version"]
    site.source["as_of"] = at.isoformat()
    assert site.counts(2).extracted in (0, 100)
    assert site.locs() == NUMBERS
    site.source["as_of"] = "2001-01-01T00:00:00Z"
    with pytest.raises(InvalidSource, match=r"has no (version|snapshot) of 2001-01-01"):
        site.night(3)
    del site.source["as_of"]
    site.source["version"] = 4711
    with pytest.raises(InvalidSource, match=r"has no (version|snapshot) 4711"):
        site.night(3)
    assert site.locs() == NUMBERS


def _named(site: Lake) -> tuple[Any, str]:
    (kind,) = {"delta", "iceberg"} & set(site.source)
    return kind, site.source[kind]


def test_a_version_with_missing_files_is_reported(site: Lake) -> None:
    first = site.table.version()
    renamed(site.table)
    site.table.expire()
    site.source["version"] = first
    with pytest.raises(InvalidSource, match=r"is gone, which VACUUM has probably removed|or it has expired"):
        site.night(1)
    del site.source["version"]
    site.night(1)
    assert site.locs() == AFTER


def test_all_splits_of_a_run_have_the_same_version(site: Lake) -> None:
    source = lake.TableSource(*_named(site))
    table = lake.find_table(source)
    splits = lake.plan_table(table, source, split_rows=50)
    assert len(splits) == 2
    found = []
    for split in splits:
        found += [row for batch in read(split, columns=["id"]) for row in batch.to_pylist()]
        renamed(site.table)
    assert sorted(row["id"] for row in found) == list(range(100))
    assert {tuple(row) for row in found} == {("id",)}


def test_only_columns_that_rules_need_are_staged(site: Lake) -> None:
    done = site.night(1, dry_run=True)
    raw = done.run.extracted(0).raw
    assert raw is not None
    stored = done.run.staging.get(raw.key)
    assert stored is None or b"xxxxxxxx" not in stored.data


def test_a_filter_skips_rows_and_files_without_matches(site: Lake) -> None:
    site.source["filter"] = {"id": [3, 77, 500], "lastmod": "2026-10-01"}
    site.night(1)
    assert site.locs() == {"3", "77"}
    site.source["filter"] = {"colour": "red"}
    with pytest.raises(InvalidSource, match=r"filter: .* has no column 'colour'\. It has: id, loc"):
        site.night(2)


def test_a_select_over_a_table_is_applied_row_by_row(site: Lake) -> None:
    site.source["query"] = "SELECT '/q/' || id AS loc, lastmod FROM source WHERE id % 2 = 0"
    site.night(1)
    assert {loc.removeprefix(f"{SHOP}/q/") for loc in site.public().locs()} == {str(n) for n in range(0, 100, 2)}
    site.source["query"] = "SELECT max(loc) AS loc FROM source"
    with pytest.raises(InvalidSource, match=r"section p: .*max looks at several rows: a SELECT over a table"):
        site.night(2)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT loc FROM source",
        "SELECT loc FROM source LIMIT 3",
        "SELECT loc FROM source GROUP BY loc",
        "SELECT loc, row_number() OVER () AS n FROM source",
        "SELECT loc FROM source UNION ALL SELECT loc FROM source",
        "WITH x AS (SELECT loc FROM source) SELECT * FROM x",
        "SELECT loc FROM source WHERE id = (SELECT 3)",
        "SELECT loc FROM source a JOIN source b USING (loc)",
        "SELECT loc FROM source USING SAMPLE 3",
    ],
)
def test_a_select_over_several_rows_of_a_table_is_refused(sql: str) -> None:
    with pytest.raises(InvalidSource, match="a SELECT over a table sees each row by itself"):
        RowSelect(sql, rows(0, 1).schema, "x")


def test_a_select_reads_only_the_columns_that_it_names() -> None:
    assert RowSelect("SELECT LOC FROM source s WHERE s.id > 1", rows(0, 1).schema, "x").columns == ["id", "loc"]
    assert len(RowSelect("SELECT * FROM source", rows(0, 1).schema, "x").columns) == 4


# --- what changed -------------------------------------------------------------------------------------


def test_a_run_reads_only_changed_files(keyed: Lake) -> None:
    assert keyed.counts(1).extracted == 100
    renamed(keyed.table)
    counts = keyed.counts(2)
    assert counts.extracted + counts.carried == counts.listed + counts.duplicates + counts.excluded
    assert (counts.listed, counts.added, counts.removed) == (98, 2, 4)
    assert keyed.locs() == AFTER
    mirror = read_mirror(keyed.state().storage, keyed.state().current().mirrors["p"])
    assert "wide" not in str(mirror.schema)


def test_a_change_feed_yields_only_changed_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lake(tmp_path / "site", made("feed", tmp_path), monkeypatch, key="id")
    site.night(1)
    renamed(site.table)
    site.table.update(51, "/p/x")
    site.table.update(51, "/p/fifty-one")
    site.table.delete("id = 60")
    site.table.append(rows(60, 61))
    counts = site.counts(2)
    # Three deleted, one renamed (as it was, as it is), one new; one renamed twice; one deleted and put again.
    assert (counts.extracted, counts.excluded, counts.duplicates) == (3 + 2 + 1 + 4 + 2, 3, 1 + 3 + 1)
    assert site.locs() == (AFTER - {"51"}) | {"fifty-one"}


@pytest.mark.thorough
def test_runs_that_read_changes_publish_the_same_as_full_runs(keyed: Lake, tmp_path: Path) -> None:
    """Over several versions, with views, `where` and a failed run in between."""
    keyed.keys["sections"]["p"]["where"] = "loc <> '/p/5'"
    steps: list[Any] = [
        lambda: keyed.table.update(5, "/p/five"),
        lambda: renamed(keyed.table),
        lambda: keyed.table.update(200, "/p/5"),
        lambda: (keyed.table.delete("id = 1"), keyed.table.append(rows(1, 3).slice(0, 1))),
        lambda: None,
        lambda: keyed.table.delete("id < 90"),
    ]
    keyed.night(1)
    for night, step in enumerate(steps, start=2):
        step()
        keyed.night(night, force=("p.max_drop", "max_drop"), reason="a test")
        seen = keyed.locs()
        full = keyed.night(night, full=True, dry_run=True).summary.sections["p"]
        assert (full.added, full.removed, full.changed) == (0, 0, 0), night
        assert full.listed == len(seen)
    assert seen == {str(n) for n in range(90, 100)}


def test_changes_of_a_refused_or_dry_run_are_read_again(keyed: Lake) -> None:
    keyed.night(1)
    keyed.table.delete("id < 50")
    assert keyed.night(2).summary.status == "refused"
    assert keyed.locs() == NUMBERS
    tried = keyed.night(3, dry_run=True)
    assert tried.summary.sections["p"].removed == 50
    renamed(keyed.table)
    assert keyed.night(4).summary.status == "refused"
    publish_locally(
        keyed.load(),
        tried.run.run_id,
        keyed.at(FIRST_NIGHT + timedelta(days=4)),
        force=("p.max_drop", "max_drop"),
        reason="a test",
        adopt=False,
    )
    assert keyed.locs() == {str(n) for n in range(50, 100)}
    keyed.night(6)
    assert keyed.locs() == {*map(str, range(51, 100)), "fifty", "200"}


@pytest.mark.parametrize("more", [0, 1])
def test_a_recreated_table_is_not_merged_with_its_predecessor(keyed: Lake, more: int) -> None:
    keyed.keys["gates"] = OPEN
    keyed.table.make_anew(rows(0, 30))
    keyed.night(1)
    keyed.table.make_anew(rows(20, 60))
    for n in range(more):
        keyed.table.append(rows(60 + n, 61 + n))
    assert keyed.counts(2).carried == 0
    assert keyed.locs() == set(map(str, range(20, 60 + more)))
    assert "section p is read in full: its table was dropped and created again" in keyed.lines


def test_a_table_recreated_during_the_read_is_not_read_as_empty(site: Lake) -> None:
    source = lake.TableSource(*_named(site))
    splits = lake.plan_table(lake.find_table(source), source)
    site.table.make_anew(rows(0, 5))
    site.table.append(rows(5, 9))
    with pytest.raises((Refused, InvalidSource), match=r"was dropped and created again while it was read|has expired"):
        list(read(splits[0]))


def test_a_change_feed_with_removed_files_is_not_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lake(tmp_path / "site", made("feed", tmp_path), monkeypatch, key="id")
    site.night(1)
    site.table.append(rows(100, 105))
    table: Any = site.table
    table.table().optimize.compact()
    table.expire()
    assert site.counts(2).listed == 105
    assert site.locs() == set(map(str, range(105)))


def test_a_removed_commit_of_a_change_feed_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lake(tmp_path / "site", made("feed", tmp_path), monkeypatch, key="id")
    site.night(1)
    site.table.append(rows(100, 105))
    table: Any = site.table
    table.table().create_checkpoint()
    lost = Path(table.address) / "_delta_log" / f"{site.table.version():020}.json"
    lost.rename(lost.with_suffix(".gone"))
    assert site.counts(2).listed == 105


@pytest.mark.parametrize("why", ["it was off for a commit", "a folder has a space", "a folder has a colon"])
def test_a_change_feed_that_the_library_cannot_read_is_not_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    address = str(tmp_path / "products")
    of = {"a folder has a space": "United Kingdom", "a folder has a colon": datetime(2026, 10, 1, 2, tzinfo=UTC)}.get(
        why, "UK"
    )
    first = rows(0, 100).append_column("of", pa.array([of] * 100))
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(address, first, configuration=feed, partition_by=["of"] if "folder" in why else None)
    site = TestSite(tmp_path / "site")
    site.keys["sections"]["p"] = {"from": {"delta": address, "key": "id"}, "gates": {"max_drop": 1}}
    site.night(1)
    for night in (2, 3):
        DeltaTable(address).delete(f"id = {night}")
        if "off" in why:
            DeltaTable(address).alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
            DeltaTable(address).delete(f"id = {night + 10}")
            DeltaTable(address).alter.set_table_properties(feed)
        left = 100 - (night - 1) * (2 if "off" in why else 1)
        assert site.night(night).summary.sections["p"].listed == left


def test_a_filter_still_works_after_the_table_was_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lake(
        tmp_path / "site", made("delta", tmp_path), monkeypatch, filter={"lastmod": "2026-10-01", "id": [3, 70]}
    )
    for night, change in enumerate((lambda: None, lambda: site.table.delete("id < 2"), lambda: renamed(site.table))):
        change()
        site.night(night + 1)
        assert site.locs() == {"3", "70"}


def test_if_the_last_version_has_expired_everything_is_read(keyed: Lake) -> None:
    keyed.night(1)
    keyed.table.delete("id < 3")
    keyed.night(2)
    renamed(keyed.table)
    keyed.table.append(rows(300, 302))
    keyed.table.expire()
    counts = keyed.counts(3)
    assert counts.listed == 97
    assert keyed.locs() == (AFTER - {"0", "1", "2"}) | {"300", "301"}


def test_a_changed_key_or_select_reads_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = Lake(tmp_path / "site", made("feed", tmp_path), monkeypatch, key="id")
    site.night(1)
    site.table.delete("id = 99")
    site.source["query"] = "SELECT id, loc, lastmod FROM source WHERE id > 2"
    assert site.counts(2).extracted == 96
    assert "section p is read in full: its SELECT is another one" in site.lines
    site.table.update(3, "/p/three")
    site.table.delete("id = 4")
    counts = site.counts(3)
    assert (counts.extracted, counts.listed) == (3, 95)
    assert site.locs() == {*map(str, range(5, 99)), "three"}
    site.source["key"] = "loc"
    assert site.counts(4).extracted == 95
    assert "section p is read in full: its key was id and is loc" in site.lines


@pytest.mark.parametrize("small", [0, 1_000])
@pytest.mark.parametrize("key", [None, "id"])
def test_scheduler_tasks_read_tables_like_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, key: str | None
) -> None:
    site = Lake(tmp_path / "site", made("delta", tmp_path), monkeypatch, **({} if key is None else {"key": key}))
    site.keys["airflow"] = {"small": small}
    assert by_tasks(site, 1) == 100
    assert by_tasks(site, 2) == 100
    renamed(site.table)
    assert by_tasks(site, 3) == 98
    assert site.locs() == AFTER
    assert by_tasks(site, 4) == 98


def by_tasks(site: Lake, night: int) -> int:
    """Run the site as a scheduler does, with a newly opened run in each task; return the number of listed rows."""
    world = site.at(FIRST_NIGHT + timedelta(days=night - 1))
    started = tasks.start(site.load(), Options(), world, owner=f"night {night}")
    key = started.key
    for part in started.bundles:
        tasks.extract(key, part, world)
    if started.bundles:
        for part in tasks.buckets(key, world):
            tasks.merge(key, part, world)
        for part in tasks.partition(key, world):
            tasks.render(key, part, world)
    else:
        tasks.build(key, world)
    tasks.publish(key, world)
    return site.manifest().counts["p"].listed


# --- rows that are deleted and still in the files -------------------------------------------------------


@pytest.mark.parametrize("key", [None, "id"])
def test_rows_of_a_deletion_vector_never_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    table = Delta(str(tmp_path / "lake" / "products"))
    table.append(rows(0, 100))
    site = Lake(tmp_path / "site", table, monkeypatch, **({} if key is None else {"key": key}))
    site.night(1)
    table.mask(3, 4, 99)
    site.night(2)
    assert site.locs() == NUMBERS - {"3", "4", "99"}
    site.source["filter"] = {"id": [2, 3]}
    site.night(3, force=("p.max_drop", "max_drop"), reason="a test")
    assert site.locs() == {"2"}


@pytest.mark.parametrize("key", [None, "id"])
def test_rows_of_position_deletes_never_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    table = Iceberg(tmp_path / "lake")
    table.append(rows(0, 100))
    site = Lake(tmp_path / "site", table, monkeypatch, **({} if key is None else {"key": key}))
    site.night(1)
    table.mask(3, 4, 99)
    counts = site.counts(2)
    assert site.locs() == NUMBERS - {"3", "4", "99"}
    assert (counts.listed, counts.removed) == (97, 3)


def test_a_table_with_equality_deletes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = Iceberg(tmp_path / "lake")
    table.append(rows(0, 100))
    site = Lake(tmp_path / "site", table, monkeypatch)
    site.night(1)
    table.mask(3, equality=True)
    with pytest.raises(InvalidSource, match="has equality deletes, which pyiceberg can't read"):
        site.night(2)
    assert site.locs() == NUMBERS


# --- the table's own life -----------------------------------------------------------------------------


def test_added_or_renamed_columns_are_read_as_in_the_current_schema(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made("iceberg", tmp_path)
    site = Lake(tmp_path / "site", table, monkeypatch, key="id")
    assert isinstance(table, Iceberg)
    site.night(1)
    with table.table().update_schema() as update:
        update.rename_column("loc", "url")
    with pytest.raises(InvalidSource, match="loc"):
        site.night(2)
    site.keys["sections"]["p"]["columns"] = {"loc": "url"}
    assert site.counts(2).extracted == 100
    with table.table().update_schema() as update:
        update.add_column("changefreq", _string())
    new = rows(400, 401).rename_columns(["id", "url", "lastmod", "wide"])
    table.append(new.append_column("changefreq", pa.array(["daily"])))
    site.night(3)
    assert site.public().by_loc()[f"{SHOP}/p/400"].changefreq == "daily"
    assert site.public().by_loc()[f"{SHOP}/p/4"].changefreq is None
    assert len(site.locs()) == 101


def _string() -> Any:
    from pyiceberg.types import StringType

    return StringType()


def test_a_delta_table_that_gains_a_column_has_nulls_in_its_older_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made("delta", tmp_path)
    site = Lake(tmp_path / "site", table, monkeypatch, key="id")
    site.night(1)
    table.append(rows(400, 401).append_column("changefreq", pa.array(["daily"])))
    assert site.counts(2).extracted == 101
    assert "section p is read in full: its table yields other columns: changefreq" in site.lines
    assert site.public().by_loc()[f"{SHOP}/p/400"].changefreq == "daily"
    assert site.public().by_loc()[f"{SHOP}/p/4"].changefreq is None


def test_a_folder_that_is_not_a_table_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("iceberg", tmp_path)
    for source, error, said in (
        ({"delta": "./nowhere"}, InvalidSource, "there is no Delta table at .*nowhere"),
        ({"delta": "./site"}, InvalidSource, "there is no Delta table at .*site"),
        ({"iceberg": "lake.shop.clients"}, InvalidSource, "there is no Iceberg table lake.shop.clients"),
        ({"iceberg": "mars.shop.clients"}, ConfigError, "the catalog mars of .* is not known: set PYICEBERG_CATALOG__"),
        ({"iceberg": "/none/v1.metadata.json"}, InvalidSource, "there is no Iceberg table /none/v1.metadata.json"),
    ):
        site = Lake(tmp_path / "site", table, monkeypatch)
        site.keys["sections"]["p"]["from"] = source
        with pytest.raises(error, match=said):
            site.night(1)
        (problem,) = problems_of(site.load(), connect=True, environment=site.at(FIRST_NIGHT))
        assert "section p" in str(problem)


def test_a_table_can_be_given_by_its_metadata_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made("iceberg", tmp_path)
    assert isinstance(table, Iceberg)
    site = Lake(tmp_path / "site", table, monkeypatch)
    site.source["iceberg"] = table.table().metadata_location
    renamed(table)
    site.night(1)
    assert site.locs() == NUMBERS, "that file is of one moment"


def test_a_version_older_than_max_age_is_refused_or_waited_for(site: Lake) -> None:
    site.source["expect"] = {"max_age": "1h", "min_rows": 101}
    moment = lake.find_table(lake.TableSource(*_named(site))).moment
    with pytest.raises(Unavailable, match=r"version .* is 2 hours old, and max_age is 60 minutes"):
        _at(site, moment + timedelta(hours=2))
    with pytest.raises(Unavailable, match="it has 100 rows, and min_rows is 101"):
        _at(site, moment + timedelta(minutes=59))
    site.source["expect"] = {"marker": "_SUCCESS"}
    with pytest.raises(
        ConfigError, match=r"expect: a table has no marker \(for exports\); it takes max_age and min_rows and wait"
    ):
        site.load()


def _at(site: Lake, moment: datetime) -> None:
    run_locally(site.load(), Options(), site.at(moment), jobs=1)


# --- in S3 --------------------------------------------------------------------------------------------


def nights_in_s3(table: Written, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(rows(0, 100))
    site = Lake(folder / "site", table, monkeypatch, key="id")
    site.night(1)
    renamed(table)
    site.night(2)
    assert site.locs() == AFTER
    assert site.counts(3).extracted == 0


def test_an_iceberg_table_in_s3_is_read_with_the_usual_settings(
    s3: S3Server, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"s3.endpoint": s3.endpoint, "s3.access-key-id": s3.env["AWS_ACCESS_KEY_ID"], "s3.region": "us-east-1"}
    own |= {"s3.secret-access-key": s3.env["AWS_SECRET_ACCESS_KEY"]}
    nights_in_s3(Iceberg(tmp_path / "c", f"s3://{bucket}/lake", **own), tmp_path, monkeypatch)


def test_a_delta_table_in_s3_is_read_with_the_usual_settings(
    seaweedfs: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is in another process: delta-rs blocks all other threads while it waits."""
    server = reachable(seaweedfs, monkeypatch)
    options = {"AWS_ALLOW_HTTP": "true", "AWS_S3_ALLOW_UNSAFE_RENAME": "true"}
    nights_in_s3(Delta(f"s3://{server.bucket()}/lake", feed=True, options=options), tmp_path, monkeypatch)


def test_the_delta_library_gets_the_settings_of_the_store(s3: S3Server) -> None:
    told = store_options("s3://lake/products")
    assert told["aws_endpoint_url"] == s3.endpoint
    assert told["aws_access_key_id"] == s3.env["AWS_ACCESS_KEY_ID"]
    assert told["aws_secret_access_key"] == s3.env["AWS_SECRET_ACCESS_KEY"]
    assert (told["allow_http"], told["aws_region"]) == ("true", "us-east-1")
    assert "aws_session_token" not in told
    assert store_options("/lake/products") == {}
    assert s3.env["AWS_SECRET_ACCESS_KEY"] not in repr(S3Client().access())
