"""Values of a site file that are accepted unchanged, and those that are refused early."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from sitemap_etl.settings import DeltaSource, LastmodColumn
from sitemap_etl.stages.arrival import await_sources
from sitemap_etl.state.records import Options
from tests.site_files import MINIMAL, loaded, problems
from tests.support.command import call
from tests.support.sites import TestSite, pages

BEGIN = "site: https://shop.example\npublish: ./public\nsections:\n  pages:\n"


def source(text: str) -> str:
    """A site file whose section has this source."""
    return f"{BEGIN}    from: {text}\n"


def test_two_tables_that_differ_only_in_case_are_refused_with_both_names(tmp_path: Path) -> None:
    tables = "{stock: {csv: de.csv}, Stock: {csv: at.csv}}"
    (told,) = problems(tmp_path, source(f"{{csv: a.csv, query: SELECT loc FROM source, tables: {tables}}}"))
    assert told.endswith("tables: stock and Stock are one name in SQL, which ignores case; rename one of them")


# --- names of columns ---


def test_spaces_in_the_name_of_a_column_are_kept(tmp_path: Path) -> None:
    rules = """\
    from: {delta: ./table, key: "id ", filter: {" country": de}}
    columns: {loc: " url"}
    lastmod: " lastmod"
    priority: {percentile_of: "sales "}
    changefreq: {column: " often"}
    alternates: {group: " group", hreflang: "language "}
"""
    section = loaded(tmp_path, BEGIN + rules).sections["pages"]
    assert isinstance(section.source, DeltaSource)
    assert (section.source.key, section.source.filter) == ("id ", {" country": ("de",)})
    assert section.columns == {"loc": " url"}
    assert isinstance(section.lastmod, LastmodColumn)
    assert (section.lastmod.column, section.priority.columns, section.changefreq.columns) == (
        *(" lastmod", ("sales ",)),
        (" often",),
    )
    assert section.alternates is not None
    assert (section.alternates.group, section.alternates.hreflang) == (" group", "language ")
    section = loaded(
        tmp_path, f'{BEGIN}    from: {{csv: a.csv}}\n    lastmod: {{fingerprint: [" a", "b "]}}\n'
    ).sections["pages"]
    assert section.lastmod.columns == (" a", "b ")


@pytest.mark.parametrize("rule", ["lastmod: {column: ' '}", "columns: {loc: ''}", "lastmod: {newest_of: [a, ' ']}"])
def test_a_blank_column_name_is_an_error(tmp_path: Path, rule: str) -> None:
    (told,) = problems(tmp_path, f"{MINIMAL}    {rule}\n")
    assert "expected text, got an empty value" in told


# --- values that could only fail later ---


@pytest.mark.parametrize("written", ['"public,\\nmax-age=600"', "größer", "|\n    public,\n    max-age=600"])
def test_a_header_must_be_one_line_of_ascii(tmp_path: Path, written: str) -> None:
    text = MINIMAL.replace("publish: ./public", f"publish:\n  to: ./public\n  cache_control: {written}")
    (told,) = problems(tmp_path, text)
    assert "publish.cache_control: expected one line of ASCII, such as public, max-age=600, got" in told


@pytest.mark.parametrize("key", ["recent: 999999w", "recent: 3654d"])
def test_a_duration_is_at_most_ten_years(tmp_path: Path, key: str) -> None:
    (told,) = problems(tmp_path, f"{MINIMAL}{key}\n")
    assert "recent: expected a duration of ten years (3653d) or less, got" in told
    assert loaded(tmp_path, f"{MINIMAL}recent: 3653d\n").recent == timedelta(days=3653)


@pytest.mark.parametrize(
    "text",
    ["{csv: a.csv, expect: {wait: 999999w}}", "{database: c, query: SELECT 1, key: id, overlap: 999999w}"],
)
def test_a_duration_in_a_source_is_at_most_ten_years(tmp_path: Path, text: str) -> None:
    (told,) = problems(tmp_path, source(text))
    assert "expected a duration of ten years (3653d) or less" in told


@pytest.mark.parametrize(("wait", "until"), [("2h", "04:00:00 UTC"), ("3d", "2026-11-05 02:00:00 UTC")])
def test_a_wait_of_days_is_reported_with_its_date(tmp_path: Path, wait: str, until: str) -> None:
    site = TestSite(tmp_path).section("p", pages(1))
    site.keys["sections"]["p"]["from"]["expect"] = {"marker": "_SUCCESS", "wait": wait}
    said: list[str] = []
    began = datetime(2026, 11, 2, 2, tzinfo=UTC)
    world = replace(site.at(began), log=said.append, pause=lambda _seconds: (tmp_path / "_SUCCESS").touch())
    await_sources(site.load(), Options(), world)
    assert said[0].startswith(f"section p: waiting for its source until {until}: ")


@pytest.mark.parametrize("hours", ["inf", "nan", "1e400", "1e300", "87673"])
def test_the_maximum_age_of_a_run_is_at_most_ten_years(tmp_path: Path, hours: str) -> None:
    done = call("status", tmp_path / "shop.yaml", "--max-age", hours)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("--max-age: expected a number from 0 to 87,672, got ")


@pytest.mark.parametrize(
    "encoding", ["punycode", "idna", "unicode_escape", "raw-unicode-escape", "undefined", "rot13", "base64"]
)
def test_an_encoding_must_be_one_for_text_files(tmp_path: Path, encoding: str) -> None:
    (told,) = problems(tmp_path, source(f"{{csv: a.csv, encoding: {encoding}}}"))
    assert "from.encoding: expected an encoding" in told


@pytest.mark.parametrize("value", ["{de: 1}", "[de, [at]]", "[1, null]", "1e999"])
def test_an_invalid_filter_value_is_reported_once_at_its_key(tmp_path: Path, value: str) -> None:
    (told,) = problems(tmp_path, source(f"{{delta: ./t, filter: {{country: {value}, active: true, size: [1, x]}}}}"))
    assert "from.filter.country: expected text, a number, true or false, or a list of these, got" in told


@pytest.mark.parametrize("text", ["{csv: 's3://'}", "{parquet: [a, 's3://']}", "{delta: 's3://'}"])
def test_an_s3_address_without_a_bucket_is_an_error(tmp_path: Path, text: str) -> None:
    (told,) = problems(tmp_path, source(text))
    assert "expected a bucket name after s3://" in told


# --- contradictions ---


@pytest.mark.parametrize("key", ["unit: ms", "format: '%d.%m.%Y'"])
def test_with_a_fingerprint_date_settings_require_a_date_column(tmp_path: Path, key: str) -> None:
    (told,) = problems(tmp_path, f"{MINIMAL}    lastmod: {{fingerprint: [title], {key}}}\n")
    name = key.partition(":")[0]
    assert f"pages.lastmod.{name}: is for the dates of `until_changed:`, which is missing" in told
    assert loaded(tmp_path, f"{MINIMAL}    lastmod: {{fingerprint: [title], until_changed: day, {key}}}\n")
    # The zone is also that of other dates of a row, such as a publication date.
    assert loaded(tmp_path, f"{MINIMAL}    lastmod: {{fingerprint: [title], timezone: Europe/Berlin}}\n")


def test_an_invalid_date_column_is_the_only_reported_error(tmp_path: Path) -> None:
    (told,) = problems(tmp_path, f"{MINIMAL}    lastmod: {{fingerprint: [title], until_changed: 5, unit: ms}}\n")
    assert "until_changed: expected text, got 5" in told


def test_state_in_the_public_folder_behind_a_symbolic_link_is_refused(tmp_path: Path) -> None:
    sites = tmp_path / "sites"
    (sites / "public" / "state").mkdir(parents=True)
    (sites / "link").symlink_to("public/state")
    (told,) = problems(tmp_path, f"{MINIMAL}work: ./link\n")
    assert "work: " in told
    assert f"{sites}/link (by a symbolic link {sites.resolve()}/public/state) is inside publish.to" in told
    (sites / "private").mkdir()
    (sites / "served").symlink_to("private")
    (told,) = problems(tmp_path, f"{MINIMAL.replace('./public', './served/shop/x')}work: ./private\n")
    assert "publish" in told


def test_an_invalid_argument_is_reported_by_its_name_in_the_help() -> None:
    done = call("schema", "foo")
    assert (done.code, done.out) == (2, "")
    assert done.err == "site|check: expected one of site, check, got 'foo'. See sitemap-etl schema --help\n"
