"""A SELECT with `:since` yields only changed rows; with the mirror of the source, every run sees all rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.records import Mirror
from tests.support.catalog import CHANGED, SELECT, SHOP, Catalog, of_pages


@pytest.fixture
def site(tmp_path: Path) -> Catalog:
    return of_pages(tmp_path)


# --- what is read, and what is listed -----------------------------------------------------------------


def test_rows_that_were_not_read_come_from_the_mirror(site: Catalog) -> None:
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


def test_the_gate_on_rejected_rows_counts_rows_of_the_mirror(site: Catalog) -> None:
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
def test_rows_with_a_default_timestamp_of_the_distant_past_are_read_by_full_reads(site: Catalog, touched: str) -> None:
    """A default value in many databases; `:since` of a full read must be earlier."""
    site.sql("UPDATE pages SET touched = ? WHERE id < 10", touched)
    site.night(1)
    assert len(site.locs()) == 100
    site.sql("UPDATE pages SET loc = loc || '-new' WHERE id = 3")  # and nobody touched it: only a full read sees it
    assert site.night(2).summary.status == "unchanged"
    assert site.night(3, full=True).summary.sections["pages"].extracted == 100
    assert "/pages/003-new" in site.locs()
    assert len(site.locs()) == 100


def test_a_page_leaves_when_its_changed_row_is_excluded_and_returns_later(site: Catalog) -> None:
    site.night(1)
    site.sql("UPDATE pages SET exclude = 'sold out', touched = '2026-11-01T12:00:00' WHERE id = 7")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.removed, counts.listed, counts.excluded) == (1, 99, 1)
    assert "/pages/007" not in site.locs()
    assert site.night(3).summary.sections["pages"].excluded == 1, "the mirror has it still"
    site.sql("UPDATE pages SET exclude = NULL, touched = '2026-11-03T12:00:00' WHERE id = 7")
    assert site.night(4).summary.sections["pages"].added == 1


def test_a_row_with_a_changed_url_removes_the_old_url(site: Catalog) -> None:
    site.night(1)
    site.sql("UPDATE pages SET loc = '/pages/seven', touched = '2026-11-01T12:00:00' WHERE id = 7")
    counts = site.night(2).summary.sections["pages"]
    assert (counts.added, counts.removed, counts.listed) == (1, 1, 100)
    assert "/pages/007" not in site.locs()


def test_text_that_means_no_in_the_deleted_column_deletes_nothing(site: Catalog) -> None:
    """SQLite yields a column as text if one of its values is text."""
    site.read("pages", "SELECT id, loc, lastmod, gone FROM pages", source={"deleted": "gone"})
    site.sql("UPDATE pages SET gone = 'yes' WHERE id = 7")
    site.sql("UPDATE pages SET gone = 'false' WHERE id = 8")
    site.night(1)
    assert site.locs() == {f"/pages/{n:03}" for n in range(100) if n != 7}


def test_a_page_of_a_deleted_row_stays_if_another_row_has_it(site: Catalog) -> None:
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


def test_reading_only_the_older_row_of_a_page_does_not_move_its_date_back(site: Catalog) -> None:
    site.sql("UPDATE pages SET loc = '/pages/006', lastmod = '2026-10-20' WHERE id = 7")
    site.night(1)
    site.sql("UPDATE pages SET touched = '2026-11-01T12:00:00' WHERE id = 6")
    assert site.night(2).summary.status == "unchanged"
    assert site.public().by_loc()[f"{SHOP}/pages/006"].lastmod == "2026-10-20"


def test_a_page_that_an_earlier_section_takes_and_returns_is_listed_again(site: Catalog) -> None:
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
    """Return the sections that list a page."""
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


def test_a_run_without_changes_advances_the_version_of_the_mirror(site: Catalog) -> None:
    site.night(1)
    before = site.state().current().mirrors["pages"]
    assert site.night(2).summary.status == "unchanged"
    after = site.state().current().mirrors["pages"]
    assert before != after
    assert [one.base for one in site.mirror().buckets] == [one.base for one in _mirror(site, before).buckets]


def _mirror(site: Catalog, key: str) -> Mirror:
    return read_mirror(site.state().storage, key)


def test_rows_read_again_within_the_overlap_are_not_counted_as_changed(site: Catalog) -> None:
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
def test_a_changed_rule_applies_to_rows_that_were_not_read(
    site: Catalog, change: dict[str, Any], expected: int
) -> None:
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
def test_changed_rules_of_the_site_apply_to_rows_that_were_not_read(site: Catalog, urls: dict[str, Any]) -> None:
    site.keys["gates"] = {"max_drop": 1}
    site.night(1)
    robots = site.folder / "public" / "robots.txt"
    robots.write_text(robots.read_text() + "\nUser-agent: *\nDisallow: /pages/00\n")
    site.keys["urls"] = urls
    assert site.night(2).summary.sections["pages"].removed == 10


def test_a_changed_priority_applies_to_every_row_of_a_rewritten_file(site: Catalog) -> None:
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


def test_links_of_a_cluster_stay_in_a_run_without_changes(site: Catalog) -> None:
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


def test_fingerprints_keep_dates_over_runs_that_read_nothing(site: Catalog) -> None:
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


def test_a_view_can_be_read_incrementally(site: Catalog) -> None:
    site.read("news", SELECT, view=True)
    site.night(1)
    site.sql("UPDATE pages SET lastmod = '2026-11-01', touched = '2026-11-01T12:00' WHERE id = 7")
    counts = site.night(2).summary.sections["news"]
    assert (counts.extracted, counts.carried, counts.listed, counts.changed) == (1, 99, 100, 1)


# --- keys ---------------------------------------------------------------------------------------------


def test_since_without_a_key_is_refused_with_the_setting_to_add(site: Catalog) -> None:
    del site.keys["sections"]["pages"]["from"]["key"]
    with pytest.raises(
        ConfigError, match=r"pages: the SELECT names :since.*\n  from: \{database: catalog, …, key: id\}"
    ):
        site.night(1)
    (problem,) = problems_of(site.load(), connect=False, environment=site.environment)
    assert "key: id" in str(problem)


def test_a_key_column_missing_in_the_source_is_reported(site: Catalog) -> None:
    site.read("pages", source={"key": "sku"})
    with pytest.raises(InvalidSource, match=r"pages: key names column 'sku'.*It has: id, loc, lastmod, exclude"):
        site.night(1)


def test_a_deleted_column_missing_in_the_source_is_reported(site: Catalog) -> None:
    site.read("pages", source={"deleted": "gone"})
    with pytest.raises(
        InvalidSource, match=r"deleted: the source has no column 'gone'. It has: id, loc, lastmod, exclude"
    ):
        site.night(1)


def test_adding_or_removing_the_deleted_setting_applies_to_every_row(site: Catalog) -> None:
    site.sql("UPDATE pages SET gone = 1 WHERE id < 3")
    site.read("pages", "SELECT id, loc, gone FROM pages")
    site.night(1)
    source = site.keys["sections"]["pages"]["from"]
    for night, listed, change in ((2, 97, "was none and is gone"), (3, 100, "was gone and is none")):
        source.pop("deleted", None) if night == 3 else source.update(deleted="gone")
        assert site.night(night).summary.sections["pages"].listed == listed
        assert f"section pages is read in full: its deleted column {change}" in site.lines


def test_two_rows_with_the_same_key_are_refused_and_both_shown(site: Catalog) -> None:
    site.sql("INSERT INTO pages (id, loc, touched) VALUES (7, '/pages/other', '2026-10-01')")
    with pytest.raises(InvalidSource) as refused:
        site.night(1)
    message = str(refused.value)
    assert "yields the id 7 more than once" in message
    assert "loc: /pages/007" in message
    assert "loc: /pages/other" in message


def test_identical_rows_repeated_by_a_join_count_as_one(site: Catalog) -> None:
    site.sql("INSERT INTO pages SELECT * FROM pages WHERE id = 7")
    counts = site.night(1).summary.sections["pages"]
    assert (counts.extracted, counts.listed, counts.duplicates) == (101, 100, 1)


@pytest.mark.parametrize(
    ("first", "second"), [(None, "2026-10-05"), ("2026-10-05", None), ("2026-10-02", "2026-10-05")]
)
def test_of_a_row_read_by_two_splits_the_newest_version_is_used(
    site: Catalog, first: str | None, second: str | None
) -> None:
    """It changed, and moved from one range of the split column to the other, during the read."""
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
def test_a_changed_query_or_parameter_is_read_in_full(site: Catalog, change: dict[str, Any], because: str) -> None:
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


def test_added_or_removed_columns_cause_a_full_read(site: Catalog) -> None:
    site.read("pages", "SELECT * FROM pages")
    site.night(1)
    site.sql("ALTER TABLE pages ADD COLUMN stock INTEGER")
    assert site.night(2).summary.sections["pages"].extracted == 100
    assert "section pages is read in full: its SELECT yields other columns: stock" in site.lines


def test_a_column_that_changes_its_type_causes_a_full_read(site: Catalog) -> None:
    site.read("pages", "SELECT id, loc, sold FROM pages", lastmod={"fingerprint": ["sold"]})
    site.night(1)
    site.sql("UPDATE pages SET sold = 'many', touched = '2026-11-01T12:00' WHERE id = 7")
    site.sql("UPDATE pages SET sold = 'few' WHERE id = 8")
    counts = site.night(2).summary.sections["pages"]
    assert counts.extracted == 100
    assert any("its column sold was double and is string" in line for line in site.lines)


def test_a_number_beyond_the_type_of_the_mirror_is_reported(site: Catalog) -> None:
    """A SQLite column has the type of the values read: here integers, and then one that is not."""
    site.sql("ALTER TABLE pages ADD COLUMN mark")
    site.sql("UPDATE pages SET mark = id + (1 << 60)")
    site.read("pages", "SELECT id, loc, mark FROM pages", lastmod={"fingerprint": ["mark"]})
    site.night(1)
    site.sql("UPDATE pages SET mark = 0.5, touched = '2026-11-01T12:00' WHERE id = 7")
    said = "pages: the column mark is int64 in one part and double in another, .* Cast it to one type in the SELECT"
    with pytest.raises(InvalidSource, match=said):
        site.night(2)
    site.read("pages", "SELECT id, loc, CAST(mark AS TEXT) AS mark FROM pages", lastmod={"fingerprint": ["mark"]})
    assert site.night(3).summary.sections["pages"].listed == 100


# --- full reads and drift -----------------------------------------------------------------------------


def test_a_full_read_reports_rows_that_incremental_reads_missed(site: Catalog) -> None:
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
    assert "Rows missing: 1, out of date: 1, gone from the source: 1." in warning
    assert site.night(4, full=True).summary.drift["pages"].total == 0


@pytest.mark.parametrize("sold", ["NULL", "'many'"])
def test_a_full_read_finds_stale_rows_despite_changed_column_types(site: Catalog, sold: str) -> None:
    site.read("pages", "SELECT id, loc, sold FROM pages")
    site.night(1)
    site.sql(f"UPDATE pages SET sold = {sold}")
    site.sql("UPDATE pages SET loc = '/pages/other' WHERE id = 8")
    drift = site.night(2, full=True).summary.drift["pages"]
    assert (drift.missing, drift.gone) == (0, 0)
    assert drift.stale == (100 if sold == "NULL" else 1)


def test_everything_is_read_after_full_every(site: Catalog) -> None:
    read = [site.night(night).summary.sections["pages"].extracted for night in range(1, 17)]
    assert [night for night, rows in enumerate(read, 1) if rows] == [1, 8, 15]
    assert any("the last full read was 2026-11-01T02:00:00Z" in line for line in site.lines)


def test_a_run_with_a_limit_does_not_change_the_mirror(site: Catalog) -> None:
    site.night(1)
    before = site.state().current().mirrors
    assert site.night(2, limit=10, dry_run=True).summary.sections["pages"].extracted == 10
    assert site.state().current().mirrors == before
