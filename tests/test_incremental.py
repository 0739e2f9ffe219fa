"""A SELECT that names `:since` yields only what changed; a mirror of the source makes every night a full night."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import ConfigError, DamagedState, InvalidSource
from sitemap_etl.explain.explain import explain
from sitemap_etl.publish.proposal import propose
from sitemap_etl.runs import tasks
from sitemap_etl.runs.local import Finished, copy_staging, publish_locally
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.stages.run import open_run
from sitemap_etl.state import layout
from sitemap_etl.state.mirror import DELTAS, read_mirror
from sitemap_etl.state.records import Counts, Mirror, Options, Transformed
from sitemap_etl.storage import open_storage
from tests.support.crash import essence
from tests.support.sites import FIRST_NIGHT, TestSite
from tests.support.storages import Counting

CHANGED = " WHERE touched >= :since"
SELECT = "SELECT id, loc, lastmod, exclude FROM pages"
SHOP = "https://shop.example"
COLUMNS = (
    "id INTEGER, loc TEXT, lastmod TEXT, exclude TEXT, gone INTEGER, sold REAL, lang TEXT, pair TEXT, touched TEXT"
)


class Catalog(TestSite):
    """A site with tables in SQLite. `read(section, select)` is a section that reads one of them incrementally."""

    def __init__(self, folder: Path, **keys: Any) -> None:
        super().__init__(folder, **keys)
        self.lines: list[str] = []
        uri = f"sqlite:///{folder}/catalog.db"
        environ = {"AIRFLOW_CONN_CATALOG": uri}
        self.environment = replace(self.environment, environ=environ, log=self.lines.append)

    def table(self, name: str, count: int = 0) -> None:
        self.sql(f"CREATE TABLE {name} ({COLUMNS})")
        rows = [(n, f"/{name}/{n:03}", "2026-10-01", None, 0, n, "en", None, "2026-10-01") for n in range(count)]
        with closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            database.executemany(f"INSERT INTO {name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def sql(self, text: str, *values: Any) -> None:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as database, database:
            database.execute(text, values)

    def read(self, name: str, select: str = SELECT, *, changed: str = CHANGED, **keys: Any) -> None:
        source = {"database": "catalog", "query": select + changed, "key": "id", **keys.pop("source", {})}
        self.keys["sections"][name] = {"from": source, **keys}

    def locs(self) -> set[str]:
        return {loc.removeprefix(SHOP) for loc in self.public().locs()}

    def mirror(self, section: str = "pages") -> Mirror:
        work = self.state().storage
        return read_mirror(work, self.state().current().mirrors[section])


@pytest.fixture
def site(tmp_path: Path) -> Catalog:
    site = Catalog(tmp_path)
    site.table("pages", 100)
    site.read("pages")
    return site


# --- what is read, and what is listed -----------------------------------------------------------------


def test_rows_that_were_not_read_are_those_of_the_mirror(site: Catalog) -> None:
    site.night(1)
    site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00:00' WHERE id = 7")
    site.sql("INSERT INTO pages (id, loc, lastmod, touched) VALUES (900, '/p/new', '2026-11-01', '2026-11-01T13:00')")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.listed) == (2, 99, 101)
    assert (counts.added, counts.changed, counts.removed) == (1, 1, 0)
    entries = site.public().by_loc()
    assert len(entries) == 101
    assert entries[f"{SHOP}/pages/007"].lastmod == "2026-11-01"
    assert entries[f"{SHOP}/pages/008"].lastmod == "2026-10-01"


def test_rows_of_the_mirror_that_can_not_be_listed_were_not_read_tonight(site: Catalog) -> None:
    site.table("many", 3_000)
    site.read("many", SELECT.replace("pages", "many"))
    site.sql("UPDATE many SET loc = 'ftp://elsewhere' WHERE id < 140")
    site.night(1)
    site.sql("UPDATE many SET touched = '2026-11-01T12:00:00' WHERE id >= 2000")
    night = site.night(2)
    assert (night.summary.sections["many"].extracted, night.summary.sections["many"].rejected) == (1_000, 140)
    (gate,) = [gate for gate in night.summary.gates if gate.name == "many.max_rejected"]
    assert (gate.status, gate.value) == ("warned", 140 / 3_000)  # and not 140 of the 1,000 that were read


@pytest.mark.parametrize("touched", ["1970-01-01", "1970-01-01 00:00:00", "1970-01-01T00:00:00Z"])
def test_rows_dated_at_the_beginning_of_time_are_read_whenever_everything_is(site: Catalog, touched: str) -> None:
    """A default of many databases; `:since` of a full read must lie before it."""
    site.sql("UPDATE pages SET touched = ? WHERE id < 10", touched)
    site.night(1)
    assert len(site.locs()) == 100
    site.sql("UPDATE pages SET loc = loc || '-new' WHERE id = 3")  # and nobody touched it: only a full read sees it
    assert site.night(2).summary.status == "unchanged"
    assert site.night(3, full=True).summary.sections["pages"].extracted == 100
    assert "/pages/003-new" in site.locs()
    assert len(site.locs()) == 100


def test_a_row_that_is_read_to_be_excluded_leaves_the_set_and_comes_back(site: Catalog) -> None:
    site.night(1)
    site.sql("UPDATE pages SET exclude = 'sold out', touched = '2026-11-01T12:00:00' WHERE id = 7")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.removed, counts.listed, counts.excluded) == (1, 99, 1)
    assert "/pages/007" not in site.locs()
    assert site.night(3).summary.sections["pages"].excluded == 1, "the mirror has it still"
    site.sql("UPDATE pages SET exclude = NULL, touched = '2026-11-03T12:00:00' WHERE id = 7")
    assert site.night(4).summary.sections["pages"].added == 1


def test_a_renamed_row_takes_its_old_url_down(site: Catalog) -> None:
    site.night(1)
    site.sql("UPDATE pages SET loc = '/pages/seven', touched = '2026-11-01T12:00:00' WHERE id = 7")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.added, counts.removed, counts.listed) == (1, 1, 100)
    assert "/pages/007" not in site.locs()


def test_text_that_says_no_deletes_nothing(site: Catalog) -> None:
    """SQLite yields a column as text where one of its values is."""
    site.read("pages", "SELECT id, loc, lastmod, gone FROM pages", source={"deleted": "gone"})
    site.sql("UPDATE pages SET gone = 'yes' WHERE id = 7")
    site.sql("UPDATE pages SET gone = 'false' WHERE id = 8")
    site.night(1)
    assert site.locs() == {f"/pages/{n:03}" for n in range(100) if n != 7}


def test_a_deleted_row_goes_and_leaves_the_page_to_its_other_rows(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, lastmod, gone FROM pages", source={"deleted": "gone"})
    site.sql("UPDATE pages SET loc = '/pages/006' WHERE id = 7")
    site.night(1)
    site.sql("UPDATE pages SET gone = 1, touched = '2026-11-01T12:00:00' WHERE id IN (6, 8)")
    summary = site.night(2).summary
    counts = summary.sections["pages"]
    assert (counts.excluded, counts.removed) == (2, 1)
    assert [reason.text for reason in summary.reasons["pages"]["excluded"].ordered()] == ["deleted"]
    assert "/pages/006" in site.locs()
    assert "/pages/008" not in site.locs()
    counts = site.night(3).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.excluded) == (0, 98, 0), "it is told of once, and not kept"


def test_the_older_row_of_a_page_touched_alone_does_not_move_its_date_back(site: Catalog) -> None:
    site.sql("UPDATE pages SET loc = '/pages/006', lastmod = '2026-10-20' WHERE id = 7")
    site.night(1)
    site.sql("UPDATE pages SET touched = '2026-11-01T12:00:00' WHERE id = 6")
    assert site.night(2).summary.status == "unchanged"
    assert site.public().by_loc()[f"{SHOP}/pages/006"].lastmod == "2026-10-20"


def test_a_page_that_an_earlier_section_takes_and_gives_back_is_listed_again(site: Catalog) -> None:
    site.table("offers", 3)
    site.keys["sections"] = {}
    site.read("offers", SELECT.replace("pages", "offers"))
    site.read("pages")
    site.night(1)
    site.sql("UPDATE offers SET loc = '/pages/007', touched = '2026-11-01T12:00' WHERE id = 1")
    site.night(2)
    assert _files(site, "/pages/007") == ["offers"]
    site.sql("UPDATE offers SET loc = '/offers/new', touched = '2026-11-02T12:00' WHERE id = 1")
    site.night(3)
    assert _files(site, "/pages/007") == ["pages"]
    assert len(site.public().locs()) == 103


def _files(site: Catalog, loc: str) -> list[str]:
    """The sections that list a page."""
    return [entry.file.split("-")[1] for entry in site.public().entries() if entry.loc == f"{SHOP}{loc}"]


def test_two_sections_that_overlap_never_list_a_page_twice(site: Catalog) -> None:
    site.table("offers", 10)
    site.sql("UPDATE offers SET loc = '/pages/005' WHERE id = 5")
    site.keys["sections"] = {}
    site.read("offers", SELECT.replace("pages", "offers"))
    site.keys["sections"]["pages"] = {"from": {"database": "catalog", "query": SELECT}}
    for night in (1, 2, 3):
        site.night(night)
        locs = site.public().locs()
        assert len(locs) == len(set(locs)) == 109


def test_a_night_without_changes_is_unchanged_and_moves_the_generation(site: Catalog) -> None:
    site.night(1)
    before = site.state().current().mirrors["pages"]
    assert site.night(2).summary.status == "unchanged"
    after = site.state().current().mirrors["pages"]
    assert before != after
    assert [one.base for one in site.mirror().buckets] == [one.base for one in _mirror(site, before).buckets]


def _mirror(site: Catalog, key: str) -> Mirror:
    return read_mirror(site.state().storage, key)


def test_what_is_read_again_within_the_overlap_is_the_same_row(site: Catalog) -> None:
    site.night(1)
    site.sql("UPDATE pages SET touched = '2026-11-02T01:30' WHERE id = 7")
    assert site.night(2).summary.sections["pages"].extracted == 1
    counts = site.night(3).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.changed) == (1, 99, 0), "an hour before the last read"
    assert site.night(4).summary.sections["pages"].extracted == 0


@pytest.mark.parametrize("null", ["NULL", "''"])
def test_a_row_without_a_key_is_rejected(site: Catalog, null: str) -> None:
    site.read("pages", "SELECT iif(id = 7, " + null + ", 'k' || id) AS id, loc, lastmod FROM pages")
    site.keys["gates"] = {"max_rejected": 0.5}
    summary = site.night(1).summary
    assert summary.sections["pages"].rejected == 1
    (reason,) = summary.reasons["pages"]["rejected"].ordered()
    assert (reason.text, reason.examples) == ("no key", ("/pages/007",))
    assert "/pages/007" not in site.locs()


# --- rules reach every row ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"where": "id < 50"}, 50),
        ({"lastmod": "none"}, 100),
        ({"lastmod": {"column": "lastmod", "timezone": "Pacific/Auckland"}}, 100),
    ],
    ids=["where", "no lastmod", "timezone"],
)
def test_a_changed_rule_reaches_rows_that_were_not_read(site: Catalog, change: dict[str, Any], expected: int) -> None:
    if "timezone" in str(change):
        site.sql("UPDATE pages SET lastmod = '2026-10-01 12:00:00'")
        site.keys["sections"]["pages"]["lastmod"] = {"column": "lastmod", "timezone": "UTC"}
    site.keys["gates"] = {"max_drop": 1}
    site.night(1)
    before = site.public().by_loc()
    site.keys["sections"]["pages"] |= change
    counts = site.night(2).summary.sections["pages"]
    assert (counts.extracted, counts.carried) == (0, 100)
    after = site.public().by_loc()
    assert len(after) == expected
    assert all(after[loc] != before[loc] for loc in after) or expected == 50


@pytest.mark.parametrize("urls", [{"exclude": ["/pages/00*"]}, {"respect_robots": True}], ids=["exclude", "robots"])
def test_changed_rules_of_the_site_reach_rows_that_were_not_read(site: Catalog, urls: dict[str, Any]) -> None:
    site.keys["gates"] = {"max_drop": 1}
    site.night(1)
    robots = site.folder / "public" / "robots.txt"
    robots.write_text(robots.read_text() + "\nUser-agent: *\nDisallow: /pages/00\n")
    site.keys["urls"] = urls
    assert site.night(2).summary.sections["pages"].removed == 10


def test_a_changed_priority_reaches_every_row_of_a_file_that_is_rewritten(site: Catalog) -> None:
    site.night(1)
    site.keys["sections"]["pages"]["priority"] = 0.3
    site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 7")
    site.night(2)
    assert {entry.priority for entry in site.public().entries()} == {"0.3"}


def test_a_percentile_ranks_all_rows(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, lastmod, sold FROM pages", priority={"percentile_of": "sold"})
    site.night(1)
    site.sql("UPDATE pages SET sold = 1000, lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 0")
    site.night(2)
    by_loc = site.public().by_loc()
    assert by_loc[f"{SHOP}/pages/000"].priority == "1.0"
    assert by_loc[f"{SHOP}/pages/001"].priority == "0.0"


def test_links_of_a_cluster_stay_on_a_quiet_night(site: Catalog) -> None:
    site.sql("UPDATE pages SET pair = 'p' || (id / 2), lang = iif(id % 2, 'de', 'en')")
    site.read(
        "pages",
        "SELECT id, loc, lastmod, lang, pair FROM pages",
        alternates={"group": "pair", "hreflang": "lang"},
    )
    site.night(1)
    assert len(site.public().by_loc()[f"{SHOP}/pages/006"].alternates) == 2
    assert site.night(2).summary.status == "unchanged"
    site.sql("UPDATE pages SET loc = '/seite/sieben', touched = '2026-11-02T12:00' WHERE id = 7")
    site.night(3)
    assert site.public().by_loc()[f"{SHOP}/pages/006"].alternates["de"] == f"{SHOP}/seite/sieben"


def test_a_fingerprint_over_nights_that_read_nothing(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, sold FROM pages", lastmod={"fingerprint": ["sold"]})
    site.night(1)
    site.night(2)
    site.sql("UPDATE pages SET sold = 5.5, touched = '2026-11-02T12:00' WHERE id = 7")
    site.sql("UPDATE pages SET touched = '2026-11-02T12:00' WHERE id = 8")
    counts = site.night(3).summary.sections["pages"]
    assert (counts.extracted, counts.changed) == (2, 1)
    by_loc = site.public().by_loc()
    assert by_loc[f"{SHOP}/pages/007"].lastmod == "2026-11-03T02:00:00Z"
    assert by_loc[f"{SHOP}/pages/008"].lastmod is None


def test_a_view_is_read_incrementally(site: Catalog) -> None:
    site.read("news", SELECT, view=True)
    site.night(1)
    site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 7")
    counts = site.night(2).summary.sections["news"]
    assert (counts.extracted, counts.carried, counts.listed, counts.changed) == (1, 99, 100, 1)


# --- keys ---------------------------------------------------------------------------------------------


def test_since_without_a_key_is_refused_with_the_line_to_write(site: Catalog) -> None:
    del site.keys["sections"]["pages"]["from"]["key"]
    with pytest.raises(
        ConfigError, match=r"pages: the SELECT names :since.*\n  from: \{database: catalog, …, key: id\}"
    ):
        site.night(1)
    (problem,) = problems_of(site.load(), connect=False, environment=site.environment)
    assert "key: id" in str(problem)


def test_a_key_that_the_source_does_not_yield(site: Catalog) -> None:
    site.read("pages", source={"key": "sku"})
    with pytest.raises(InvalidSource, match=r"pages: key names column 'sku'.*It has: id, loc, lastmod, exclude"):
        site.night(1)


def test_a_deleted_column_that_the_source_does_not_yield(site: Catalog) -> None:
    site.read("pages", source={"deleted": "gone"})
    with pytest.raises(
        InvalidSource, match=r"deleted: the source has no column 'gone'. It has: id, loc, lastmod, exclude"
    ):
        site.night(1)


def test_a_deleted_column_that_comes_or_goes_reaches_every_row(site: Catalog) -> None:
    site.sql("UPDATE pages SET gone = 1 WHERE id < 3")
    site.read("pages", "SELECT id, loc, gone FROM pages")
    site.night(1)
    source = site.keys["sections"]["pages"]["from"]
    for night, listed, change in ((2, 97, "was none and is gone"), (3, 100, "was gone and is none")):
        source.pop("deleted", None) if night == 3 else source.update(deleted="gone")
        assert site.night(night).summary.sections["pages"].listed == listed
        assert f"section pages is read in full: its deleted column {change}" in site.lines


def test_two_rows_of_a_key_are_refused_with_both(site: Catalog) -> None:
    site.sql("INSERT INTO pages (id, loc, touched) VALUES (7, '/pages/other', '2026-10-01')")
    with pytest.raises(InvalidSource) as refused:
        site.night(1)
    message = str(refused.value)
    assert "yields the id 7 more than once" in message
    assert "loc: /pages/007" in message
    assert "loc: /pages/other" in message


def test_a_row_that_a_join_repeats_is_one_row(site: Catalog) -> None:
    site.sql("INSERT INTO pages SELECT * FROM pages WHERE id = 7")
    counts = site.night(1).summary.sections["pages"]
    assert (counts.extracted, counts.listed, counts.duplicates) == (101, 100, 1)


@pytest.mark.parametrize(
    ("first", "second"), [(None, "2026-10-05"), ("2026-10-05", None), ("2026-10-02", "2026-10-05")]
)
def test_of_a_row_that_two_splits_gave_the_newest_is_taken(
    site: Catalog, first: str | None, second: str | None
) -> None:
    """It was changed, and moved from one range of the split column to the other, while the table was read."""
    site.read("pages", "SELECT id, loc, lastmod, sold FROM pages", source={"split": {"column": "sold", "parts": 2}})
    for at, date in ((0, first), (99, second)):
        site.sql(
            "INSERT INTO pages (id, loc, lastmod, sold, touched) VALUES (500, ?, ?, ?, '2026-10-05')",
            f"/dated/{date}",
            date,
            at,
        )
    site.night(1)
    assert {loc for loc in site.locs() if loc.startswith("/dated")} == {"/dated/2026-10-05"}
    assert any("1 keys came from two splits with different rows" in line for line in site.lines)


@pytest.mark.parametrize(
    ("change", "because"),
    [
        ({"query": f"SELECT id, loc, lastmod FROM pages{CHANGED}"}, "its SELECT is another one"),
        ({"key": "loc"}, "its key was id and is loc"),
        ({"params": {"brand": "x"}}, "the params of its SELECT are others"),
    ],
)
def test_another_question_is_asked_from_the_start(site: Catalog, change: dict[str, Any], because: str) -> None:
    site.read("pages", f"{SELECT}{CHANGED} AND :brand IS NOT NULL", changed="", source={"params": {"brand": "y"}})
    if "query" not in change:
        site.night(1)
    else:
        site.read("pages")
        site.night(1)
    site.keys["sections"]["pages"]["from"] |= change
    counts = site.night(2).summary.sections["pages"]
    assert (counts.extracted, counts.carried) == (100, 0)
    assert f"section pages is read in full: {because}" in site.lines
    assert site.night(3).summary.sections["pages"].extracted == 0


def test_columns_that_come_and_go_are_read_from_the_start(site: Catalog) -> None:
    site.read("pages", "SELECT * FROM pages")
    site.night(1)
    site.sql("ALTER TABLE pages ADD COLUMN stock INTEGER")
    assert site.night(2).summary.sections["pages"].extracted == 100
    assert "section pages is read in full: its SELECT yields other columns: stock" in site.lines


def test_a_column_that_changes_its_type_is_read_from_the_start(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, sold FROM pages", lastmod={"fingerprint": ["sold"]})
    site.night(1)
    site.sql("UPDATE pages SET sold = 'many', touched = '2026-11-01T12:00' WHERE id = 7")
    site.sql("UPDATE pages SET sold = 'few' WHERE id = 8")
    counts = site.night(2).summary.sections["pages"]
    assert counts.extracted == 100
    assert any("its column sold was double and is string" in line for line in site.lines)


# --- nights on which nothing was read -----------------------------------------------------------------


def shelves(site: Catalog) -> None:
    """Pages of which one is excluded, one can't be listed, and one is there twice."""
    site.sql("UPDATE pages SET exclude = 'sold out' WHERE id = 7")
    site.sql("UPDATE pages SET loc = 'ftp://elsewhere' WHERE id = 8")
    site.sql("UPDATE pages SET loc = '/pages/010' WHERE id = 9")
    site.keys["gates"] = {"max_drop": 1, "max_growth": 10}


def before_them(site: Catalog) -> None:
    """A section that lists two of the pages in their place."""
    site.section("first", [{"loc": "/pages/003"}, {"loc": "/pages/004"}])
    site.keys["sections"] = dict(reversed(site.keys["sections"].items()))


def untouched(night: Finished) -> tuple[str, ...]:
    """The sections to whose rows no rule was applied."""
    merging = night.run.merging()
    assert all(
        night.run.receipt(layout.merge(n), Transformed) is None for n in range(merging.needed, len(merging.units))
    )
    return merging.untouched


def test_where_nothing_was_read_and_no_rule_is_another_the_mirror_is_left_untouched(site: Catalog) -> None:
    shelves(site)
    first = site.night(1)
    for number in (2, 3):
        night = site.night(number)
        assert (untouched(night), night.summary.status) == (("pages",), "unchanged")
        assert night.summary.sections["pages"] == Counts(carried=100, listed=97, duplicates=1, excluded=1, rejected=1)
        assert night.summary.reasons == first.summary.reasons
        assert site.mirror().read_at.startswith(f"2026-11-0{number}T02:00:00")
        for loc, answer in (("/pages/007", "excluded"), ("/pages/010", "duplicate")):
            (found,) = explain(site.load(), [SHOP + loc], site.environment)
            assert [(row.answer, row.run_id) for row in found.rows.shown] == [(answer, first.run.run_id)]
    site.sql("UPDATE pages SET lastmod = '2026-11-03', touched = '2026-11-03T12:00:00' WHERE id = 20")
    night = site.night(4)
    assert (untouched(night), night.summary.sections["pages"].changed) == ((), 1)
    assert untouched(site.night(5)) == ("pages",)
    anew = site.night(6, full=True)
    assert (untouched(anew), anew.summary.status) == ((), "unchanged")


def test_where_nobody_knows_any_more_what_became_of_rows_that_nobody_read_they_are_looked_at_again(
    site: Catalog,
) -> None:
    shelves(site)
    first = site.night(1)
    site.state().storage.delete(layout.summary(first.run.run_id))
    night = site.night(2)
    assert "pages" not in night.summary.quiet
    assert (night.summary.status, night.summary.reasons) == ("unchanged", first.summary.reasons)
    assert untouched(site.night(3)) == ("pages",)


OTHERWISE: dict[str, Callable[[Catalog], object]] = {
    "an exclude": lambda site: site.keys.update(urls={"exclude": ["/pages/03"]}),
    "a rule of the section": lambda site: site.keys["sections"]["pages"].update(lastmod="none"),
    "another SELECT": lambda site: site.read("pages", SELECT.replace("lastmod,", "'2026-10-05' AS lastmod,")),
}


@pytest.mark.parametrize("edit", OTHERWISE)
def test_where_a_rule_is_another_it_is_applied_to_rows_that_nobody_read(site: Catalog, edit: str) -> None:
    shelves(site)
    site.night(1)
    OTHERWISE[edit](site)
    night = site.night(2)
    assert (untouched(night), night.summary.status) == ((), "published")
    assert site.night(3, full=True).summary.status == "unchanged"


@pytest.mark.parametrize(
    "rule",
    [{"where": "lastmod < current_date::VARCHAR"}, {"transform": "tests.model.hooks:shouted"}],
    ids=["where", "hook"],
)
def test_rules_that_may_change_by_themselves_are_applied_every_night(site: Catalog, rule: dict[str, Any]) -> None:
    site.read("pages", SELECT.replace("exclude", "loc AS title"), **rule)
    site.night(1)
    assert untouched(site.night(2)) == ()


def test_a_date_that_has_yet_to_come_is_looked_at_every_night(site: Catalog) -> None:
    site.sql("UPDATE pages SET lastmod = '2026-11-03T12:00:00Z' WHERE id = 7")
    site.night(1)
    assert untouched(site.night(2)) == ()
    assert site.night(4).summary.sections["pages"].changed == 1
    assert untouched(site.night(5)) == ("pages",)


def test_rows_that_were_dropped_as_they_were_read_are_told_of_once(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, lastmod, gone FROM pages", source={"deleted": "gone"})
    site.night(1)
    site.sql("UPDATE pages SET gone = 1, touched = '2026-11-01T12:00:00' WHERE id = 7")
    assert site.night(2).summary.sections["pages"].excluded == 1
    night = site.night(3)
    assert (untouched(night), night.summary.sections["pages"].excluded) == ((), 0)
    assert untouched(site.night(4)) == ("pages",)


def test_a_page_that_another_section_gives_up_is_taken_over_though_nothing_was_read(site: Catalog) -> None:
    before_them(site)
    site.night(1)
    assert untouched(site.night(2)) == ("pages",)
    site.export("first", [{"loc": "/pages/003"}])
    night = site.night(3)
    assert (night.summary.quiet, night.summary.sections["pages"].listed) == ({}, 99)
    assert "/pages/004" in site.locs()
    assert site.night(4, full=True).summary.status == "unchanged"


def test_a_dry_run_is_published_as_it_was_shown_also_from_the_copy_that_is_kept_in_a_bucket(site: Catalog) -> None:
    before_them(site)
    site.night(1)
    site.export("first", [{"loc": "/pages/003"}])
    dry = site.night(2, dry_run=True)
    copy = open_storage(site.folder / "copy")
    copy_staging(dry.run.staging, copy)
    run = open_run(dry.run.staging.url, site.at(FIRST_NIGHT + timedelta(days=1)), staging=copy)
    assert propose(run).counts == dry.summary.sections
    assert (dry.run.merging().untouched, dry.summary.sections["pages"].listed) == (("pages",), 99)


def test_tasks_of_a_scheduler_leave_a_mirror_untouched_and_merge_it_after_all(site: Catalog) -> None:
    site.keys["airflow"] = {"small": 0}
    before_them(site)
    site.night(1)
    for number, status in ((2, "unchanged"), (3, "published")):
        environment = site.at(FIRST_NIGHT + timedelta(days=number - 1))
        started = tasks.start(site.load(), Options(), environment, owner=f"dag/{number}")
        for bundle in started.bundles:
            tasks.extract(started.key, bundle, environment)
        assert tasks.buckets(started.key, environment) == []
        for bundle in tasks.partition(started.key, environment):
            tasks.render(started.key, bundle, environment)
        assert tasks.publish(started.key, environment)["status"] == status
        site.export("first", [{"loc": "/pages/003"}])
    assert "/pages/004" in site.locs()
    assert site.night(4, full=True).summary.status == "unchanged"


# --- full reads and drift -----------------------------------------------------------------------------


def test_a_full_read_tells_what_the_watermark_did_not_show(site: Catalog) -> None:
    site.night(1)
    site.sql("DELETE FROM pages WHERE id = 7")
    site.sql("UPDATE pages SET lastmod = '2026-10-30' WHERE id = 8")
    site.sql("INSERT INTO pages (id, loc, touched) VALUES (901, '/pages/late', '2026-10-02')")
    assert site.night(2).summary.status == "unchanged"
    site.sql("UPDATE pages SET lastmod = '2026-11-02', touched = '2026-11-02T12:00' WHERE id = 9")
    summary = site.night(3, full=True).summary
    counts = summary.sections["pages"]
    assert (counts.extracted, counts.carried) == (100, 0)
    assert (counts.added, counts.changed, counts.removed) == (1, 2, 1)
    drift = summary.drift["pages"]
    assert (drift.missing, drift.stale, drift.gone) == (1, 1, 1)
    (warning,) = [warning for warning in summary.warnings if "pages" in warning]
    assert "1 rows missing, 1 out of date, 1 gone from the source" in warning
    assert site.night(4, full=True).summary.drift["pages"].total == 0


@pytest.mark.parametrize("sold", ["NULL", "'many'"])
def test_a_full_read_compares_what_a_column_that_holds_other_types_now_can_show(site: Catalog, sold: str) -> None:
    site.read("pages", "SELECT id, loc, sold FROM pages")
    site.night(1)
    site.sql(f"UPDATE pages SET sold = {sold}")
    site.sql("UPDATE pages SET loc = '/pages/other' WHERE id = 8")
    drift = site.night(2, full=True).summary.drift["pages"]
    assert (drift.missing, drift.gone) == (0, 0)
    assert drift.stale == (100 if sold == "NULL" else 1)


def test_everything_is_read_when_full_every_is_over(site: Catalog) -> None:
    read = [site.night(night).summary.sections["pages"].extracted for night in range(1, 17)]
    assert [night for night, rows in enumerate(read, 1) if rows] == [1, 8, 15]
    assert any("the last full read was 2026-11-01T02:00:00Z" in line for line in site.lines)


def test_a_try_with_a_limit_leaves_the_mirror_alone(site: Catalog) -> None:
    site.night(1)
    before = site.state().current().mirrors
    assert site.night(2, limit=10, dry_run=True).summary.sections["pages"].extracted == 10
    assert site.state().current().mirrors == before


# --- generations --------------------------------------------------------------------------------------


def test_a_refused_or_dry_run_does_not_move_the_mirror_and_its_publish_does(site: Catalog) -> None:
    site.night(1)
    before = site.state().current().mirrors
    site.sql("UPDATE pages SET exclude = 'x', touched = '2026-11-01T12:00' WHERE id < 30")
    refused = site.night(2).summary
    assert (refused.status, site.state().current().mirrors) == ("refused", before)
    dry = site.night(3, dry_run=True, force=("pages.max_drop",), reason="right").summary
    assert site.state().current().mirrors == before
    assert dry.run_id is not None
    done = publish_locally(
        site.load(), dry.run_id, site.environment, force=("pages.max_drop",), reason="right", adopt=False
    )
    assert done.summary.status == "published"
    assert site.state().current().mirrors != before
    counts = site.night(4).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.listed) == (0, 100, 70)


@pytest.mark.parametrize("first", [True, False])
def test_what_a_dry_run_staged_of_a_mirror_is_no_hindrance_to_a_clean_up(site: Catalog, first: bool) -> None:
    if not first:
        site.night(1)
        site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 5")
    dry = site.night(2, dry_run=True).summary
    site.night(3)
    site.sql("UPDATE pages SET lastmod = '2026-11-03', touched = '2026-11-03T12:00' WHERE id = 6")
    done = site.night(4).summary
    assert (done.status, done.warnings) == ("published", ())
    files = {stat.key for stat in site.state().storage.list(f"state/mirrors/pages/{dry.run_id}/")}
    assert files, "what can be published still is kept"


def test_sections_that_are_not_read_or_kept_carry_their_mirror_on(site: Catalog) -> None:
    site.table("offers", 5)
    site.read("offers", SELECT.replace("pages", "offers"), on_error="keep")
    site.night(1)
    offers = site.state().current().mirrors["offers"]
    site.night(2, sections=["pages"])
    assert site.state().current().mirrors["offers"] == offers
    site.sql("ALTER TABLE offers RENAME TO away")
    summary = site.night(3).summary
    assert "offers" in summary.kept
    assert site.state().current().mirrors["offers"] == offers
    site.sql("ALTER TABLE away RENAME TO offers")
    site.sql("UPDATE offers SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 1")
    counts = site.night(4).summary.sections["offers"]
    assert (counts.extracted, counts.carried, counts.changed) == (1, 4, 1)


def test_a_rollback_takes_the_mirror_of_its_set(site: Catalog) -> None:
    site.night(1)
    first = site.manifest()
    site.sql("UPDATE pages SET exclude = 'x', touched = '2026-11-01T12:00' WHERE id = 7")
    site.night(2)
    roll_back(site.load(), None, site.at(FIRST_NIGHT + timedelta(days=1, hours=3)), reason="test")
    assert site.state().current().mirrors["pages"] == first.sections["pages"].mirror
    assert "/pages/007" in site.locs()
    counts = site.night(3).summary.sections["pages"]
    assert (counts.extracted, counts.carried, counts.removed) == (1, 99, 1), "what came since that set is read again"


def test_a_set_without_a_mirror_is_read_in_full(site: Catalog) -> None:
    keys = dict(site.keys["sections"]["pages"])
    site.keys["sections"]["pages"] = {"from": {"database": "catalog", "query": SELECT}}
    site.night(1)
    site.keys["sections"]["pages"] = keys
    assert site.night(2).summary.sections["pages"].extracted == 100
    assert "section pages is read in full: there is no mirror of it yet" in site.lines
    site.keys["sections"]["pages"] = {"from": {"database": "catalog", "query": SELECT}}
    site.night(3)
    assert "pages" not in site.state().current().mirrors, "it would be out of date when :since comes back"


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_deltas_are_folded_and_old_files_forgotten(site: Catalog) -> None:
    site.keys["sections"]["pages"]["from"]["full_every"] = "365d"
    seen = set()
    for night in range(1, 3 * DELTAS):
        touched = (FIRST_NIGHT + timedelta(days=night - 1)).strftime("%Y-%m-%dT12:00")
        site.sql("UPDATE pages SET lastmod = ?, touched = ? WHERE id = ?", touched[:10], touched, night)
        site.night(night)
        (bucket,) = site.mirror().buckets
        assert bucket.base is not None
        assert bucket.base.rows == 100
        assert len(bucket.deltas) <= DELTAS
        seen.add(len(bucket.deltas))
    assert len(seen) > 2, "deltas come and are folded"
    assert site.public().by_loc()[f"{SHOP}/pages/020"].lastmod == "2026-11-20"


@pytest.mark.parametrize("which", ["base", "delta", "document"])
@pytest.mark.parametrize("how", ["flipped", pytest.param("gone", marks=pytest.mark.thorough)])
def test_a_damaged_mirror_is_refused_by_name_and_healed_by_a_full_read(site: Catalog, which: str, how: str) -> None:
    site.night(1)
    site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 7")
    site.night(2)
    before = site.public().objects()
    (bucket,) = site.mirror().buckets
    assert bucket.base is not None
    key = {"base": bucket.base.key, "delta": bucket.deltas[0].key, "document": site.state().current().mirrors["pages"]}
    path = Path(site.state().storage.url_of(key[which]))
    if how == "gone":
        path.unlink()
    else:
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    site.sql("UPDATE pages SET touched = '2026-11-02T12:00' WHERE id = 7")  # else the mirror is left untouched
    with pytest.raises(DamagedState, match=re.escape(path.name) + r"[\s\S]*--full"):
        site.night(3)
    assert site.public().objects() == before
    assert site.night(4, full=True).summary.status == "unchanged"
    assert site.night(5).summary.sections["pages"].extracted == 0


@pytest.mark.thorough
def test_quiet_nights_cost_the_same_and_the_state_stays_as_large(tmp_path: Path) -> None:
    site = Catalog(tmp_path)
    site.table("pages", 20_000)
    site.read("pages", source={"full_every": "365d"})
    requests, sizes, everything, plain = [], [], [], site.environment
    for night in range(1, 41):
        touched = (FIRST_NIGHT + timedelta(days=night - 2)).strftime("%Y-%m-%dT12:00")
        changes = "UPDATE pages SET lastmod = ?, touched = ? WHERE id IN (?, ?)"
        site.sql(changes, touched[:10], touched, night, night + 50)
        counting = Counting()
        site.environment = counting.around(plain)
        site.night(night)
        site.environment = plain
        requests.append(counting.calls.total())
        sizes.append(_state_bytes(site))
        everything.append(sum(path.stat().st_size for path in (tmp_path / "work").rglob("*") if path.is_file()))
    assert max(requests[20:]) <= max(requests[10:20]) * 1.2
    assert max(sizes[20:]) <= max(sizes[2:20]) * 1.3
    assert max(everything[20:]) <= max(everything[:20]) * 1.1


def _state_bytes(site: Catalog) -> int:
    """Bytes of the mirrors that the state refers to: what a grace of days leaves behind is not counted."""
    return sum(file.bytes for bucket in site.mirror().buckets for file in bucket.files())


# --- incremental and full are the same ----------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))])
def test_incremental_nights_give_the_bytes_of_full_nights(tmp_path: Path, seed: int) -> None:
    random_ = random.Random(seed)
    sites = [Catalog(tmp_path / name) for name in ("incremental", "full")]
    for site, changed in zip(sites, (CHANGED, ""), strict=True):
        for table in ("offers", "pages"):
            site.table(table, 40)
        _sections(site, changed)
    touched = FIRST_NIGHT
    for night in range(1, 9):
        for text, values in _edits(random_, night):
            for site in sites:
                site.sql(text, *values)
        touched += timedelta(days=1)
        one, other = [site.night(night).summary for site in sites]
        assert (one.status, one.error) == (other.status, other.error), night
        public, expected = [site.public().contents() for site in sites]
        assert public.keys() == expected.keys()
        for key in public:
            assert public[key] == expected[key], (night, key)
        for name, counts in other.sections.items():
            mine = one.sections[name]
            assert (mine.listed, mine.added, mine.changed, mine.removed) == (
                (counts.listed, counts.added, counts.changed, counts.removed)
            ), (night, name)
            assert mine.extracted + mine.carried == mine.listed + mine.duplicates + mine.excluded + mine.rejected
        assert _without_mirrors(sites[0]) == _without_mirrors(sites[1]), night


def _without_mirrors(site: Catalog) -> dict[str, Any]:
    data = json.loads(json.dumps(essence(site.manifest())))
    for counts in data["counts"].values():
        for name in ("extracted", "carried", "excluded"):
            counts.pop(name, None)
    data["gates"] = [gate for gate in data["gates"] if not gate["name"].endswith("max_rejected")]
    data.pop("to", None)
    return dict(data)


def _sections(site: Catalog, changed: str) -> None:
    select = "SELECT id, loc, lastmod, exclude, gone, sold, lang, pair FROM "
    for name in ("offers", "pages"):
        site.read(
            name,
            select + name,
            changed=changed,
            source={"deleted": "gone", "key": "id"},
            lastmod={"fingerprint": ["sold", "lang"]} if name == "pages" else {"column": "lastmod"},
            priority={"percentile_of": "sold"},
            alternates={"group": "pair", "hreflang": "lang"},
            feed={"formats": ["rss"], "title": name, "items": 5},
        )
    site.keys["gates"] = {"max_drop": 1, "max_growth": 10, "max_rejected": 1}
    site.keys["recent"] = "48h"


def _edits(random_: random.Random, night: int) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Statements of one day; each moves the watermark of what it changes."""
    touched = (FIRST_NIGHT + timedelta(days=night - 2)).strftime("%Y-%m-%dT12:00:00")
    for _ in range(random_.randrange(12)):
        table = random_.choice(["offers", "pages"])
        column, value = random_.choice(
            [
                ("loc", f"/{random_.choice(['offers', 'pages'])}/{random_.randrange(45):03}"),
                ("loc", f"/elsewhere/{random_.randrange(30)}"),
                ("lastmod", f"2026-10-{random_.randrange(1, 31):02}"),
                ("lastmod", None),
                ("exclude", random_.choice([None, "sold out"])),
                ("gone", random_.randrange(2)),
                ("sold", random_.choice([None, 1, 2.5, random_.randrange(100)])),
                ("lang", random_.choice(["en", "de", "xx-nonsense"])),
                ("pair", random_.choice([None, "a", "b", "c"])),
                ("touched", touched),
            ]
        )
        row = random_.randrange(50)
        if row >= 40:
            text = f"INSERT INTO {table} (id, loc, sold, lang, touched) SELECT max(id) + 1, ?, 3, 'en', ? FROM {table}"
            yield text, (f"/{table}/new-{night}-{random_.randrange(20)}", touched)
        else:
            yield f"UPDATE {table} SET {column} = ?, touched = ? WHERE id = ?", (value, touched, row)
