"""`validate --connect`: a thousand rows through every rule, and what a run would report about them."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

from sitemap_etl.errors import InvalidSource, SitemapEtlError, Unavailable
from sitemap_etl.runs.trial import try_section
from sitemap_etl.runs.validate import problems_of
from sitemap_etl.stages.run import Environment
from tests.support.command import call
from tests.support.postgres import Postgres
from tests.support.sites import FIRST_NIGHT, TestSite, pages

SPLIT = {"column": "id", "parts": 4}


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """Let `hooks:hook` do this with each frame; return the list of their lengths."""
    seen: list[int] = []

    def make(work: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame) -> list[int]:
        def hook(frame: pd.DataFrame) -> pd.DataFrame:
            seen.append(len(frame))
            return work(frame)

        module = ModuleType("hooks")
        module.hook = hook  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "hooks", module)
        return seen

    return make


@pytest.fixture
def catalog(tmp_path: Path) -> TestSite:
    """A site with a section `p` of a table of 5,000 rows."""
    site = TestSite(tmp_path / "site")
    path = tmp_path / "catalog.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE page (id INTEGER PRIMARY KEY, path TEXT, changed TEXT, mixed)")
        db.executemany(
            "INSERT INTO page VALUES (?, ?, ?, ?)",
            [(n, f"/p/{n}", "2026-10-01 10:00:00", n if n % 2 else "x") for n in range(5_000)],
        )
    site.environment = Environment(environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{path}"})
    query = "SELECT id, path AS loc, changed, mixed FROM page"
    site.keys["sections"]["p"] = {"from": {"database": "catalog", "query": query}}
    return site


def found(site: TestSite, told: list[str] | None = None) -> list[str]:
    environment = site.at(FIRST_NIGHT)
    if told is not None:
        environment = type(environment)(**{**vars(environment), "log": told.append})
    return [str(problem) for problem in problems_of(site.load(), connect=True, environment=environment)]


@pytest.mark.parametrize(
    ("source", "keys", "said"),
    [
        ({}, {"lastmod": "changed"}, "changed has times without a zone (e.g. 2026-10-01 10:00:00)"),
        ({}, {"where": "price > 3"}, "there is no column 'price'. The columns are: id, loc, changed, mixed"),
        ({}, {"where": "mixed::INT > 3"}, "where: "),
        ({"split": {**SPLIT, "column": "mixed"}}, {}, "split.column 'mixed' holds values of several types"),
        ({"split": {**SPLIT, "bounds_from": "nowhere"}}, {}, "split.bounds_from: needs a table"),
        ({"deleted": "gone"}, {}, "deleted: the source has no column 'gone'"),
        ({"query": "SELECT path AS loc FROM page WHERE id > :least"}, {}, "the parameter :least, which has no value"),
        ({"query": "SELECT id AS loc FROM page"}, {}, "the column 'loc' has type int64, expected text"),
        ({}, {"alternates": {"group": "id", "hreflang": "language"}}, "'language', which the source does not have"),
        ({}, {"news": {"publication": "Shop", "language": "en"}}, "'title', which the source does not have"),
    ],
)
def test_validate_finds_refusals_of_a_run_with_the_same_message(
    catalog: TestSite, source: dict[str, Any], keys: dict[str, Any], said: str
) -> None:
    section = catalog.keys["sections"]["p"]
    section |= keys
    section["from"] |= source
    (problem,) = found(catalog)
    assert problem.startswith("section p: ")
    assert said in problem
    with pytest.raises(SitemapEtlError) as refused:
        catalog.night(1)
    assert said.partition(", which the source")[0] in str(refused.value)


def test_a_missing_split_column_is_reported_by_validate_and_by_a_run(catalog: TestSite) -> None:
    """In double quotes SQLite would read it as a text."""
    catalog.keys["sections"]["p"]["from"]["split"] = {**SPLIT, "column": "number"}
    said = "no such column: number\n  split: needs the column 'number' in the result of the SELECT"
    (problem,) = found(catalog)
    assert problem.endswith(said)
    with pytest.raises(InvalidSource, match=said):
        catalog.night(1)


def test_a_missing_table_is_reported_without_the_split(catalog: TestSite) -> None:
    source = catalog.keys["sections"]["p"]["from"]
    source |= {"split": SPLIT, "query": "SELECT * FROM nowhere"}
    (problem,) = found(catalog)
    assert problem.endswith("no such table: nowhere")


def test_validate_finds_a_hook_that_fails_on_the_rows(catalog: TestSite, hooks: Callable[..., list[int]]) -> None:
    hooks(lambda frame: frame.assign(loc=frame["price"]))
    catalog.keys["sections"]["p"]["transform"] = "hooks:hook"
    (problem,) = found(catalog)
    assert "hooks:hook" in problem
    assert "price" in problem


def test_validate_reads_a_thousand_rows_of_the_first_and_the_last_split(
    catalog: TestSite, hooks: Callable[..., list[int]]
) -> None:
    lengths = hooks()
    catalog.keys["sections"]["p"]["transform"] = "hooks:hook"
    assert found(catalog) == []
    assert lengths == [1_000]
    lengths.clear()
    catalog.keys["sections"]["p"]["from"]["split"] = SPLIT
    assert found(catalog) == []
    assert lengths == [1_000, 1_000]


def test_validate_writes_nothing_and_keeps_the_release(catalog: TestSite) -> None:
    def files() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in catalog.folder.rglob("*") if path.is_file()}

    before = files()
    assert found(catalog) == []
    assert not (catalog.folder / "work").exists()
    assert not (catalog.folder / "public").exists()
    catalog.night(1)
    before = files()
    assert found(catalog) == []
    assert files() == before | {catalog.folder / "shop.yaml": (catalog.folder / "shop.yaml").read_bytes()}


@pytest.mark.parametrize(
    ("columns", "key", "said"),
    [
        ("path AS loc", "id", "key names column 'id', which the source does not yield. It has: loc"),
        ("path AS loc, id / 2.0 AS half", "half", "key: half is double, which can't be a key"),
    ],
)
def test_validate_tests_the_key_of_an_incremental_section(catalog: TestSite, columns: str, key: str, said: str) -> None:
    catalog.keys["sections"]["p"]["from"] |= {
        "query": f"SELECT {columns} FROM page WHERE changed >= :since",
        "key": key,
    }
    assert found(catalog) == [f"section p: {said}{found(catalog)[0].removeprefix(f'section p: {said}')}"]
    with pytest.raises(SitemapEtlError, match=said.partition(" It has")[0].partition(", which")[0]):
        catalog.night(1)


def test_validate_reports_a_problem_if_no_row_can_be_listed_and_a_remark_for_some(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    site.section("p", pages(30, loc=lambda n: f"https://other.example/{n}"))
    (problem,) = found(site)
    assert problem.startswith("section p: none of the 30 rows that were read can be listed: foreign origin (30, e.g. ")
    site.section("p", pages(1_200, loc=lambda n: f"https://other.example/{n}" if n < 100 else f"/p/{n}"))
    told: list[str] = []
    assert found(site, told) == []
    (remark,) = told
    assert "100 of 1,000 rows that were read are rejected: foreign origin (100, e.g. https://other.example/0)" in remark
    assert "10.0%: if all rows are like these, the gate max_rejected (0.05) refuses a run" in remark


def test_validate_reports_dropped_values(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(3, lastmod=lambda n: "soon" if n else "2026-10-01"))
    told: list[str] = []
    assert found(site, told) == []
    assert told == ["section p: 2 lastmod values dropped: not a date, e.g. https://shop.example/p/000001: soon"]


def test_validate_reports_a_failing_source_even_if_on_error_is_keep(catalog: TestSite) -> None:
    catalog.keys["sections"]["p"] |= {"on_error": "keep", "lastmod": "changed"}
    (problem,) = found(catalog)
    assert "times without a zone" in problem


def test_validate_reports_no_problem_for_a_site_that_runs(catalog: TestSite, tmp_path: Path) -> None:
    """Incremental reads, hreflang clusters, news, feeds, exclusions, a section that may fail: all rules at once."""
    catalog.keys |= {"recent": "3d", "urls": {"respect_robots": True, "exclude": ["/p/9"]}}
    catalog.keys["sections"]["p"] = {
        "from": {
            "database": "catalog",
            "query": "SELECT id, path AS loc, changed, mixed = 'x' AS gone FROM page WHERE changed >= :since",
            "key": "id",
            "deleted": "gone",
            "split": SPLIT,
        },
        "lastmod": {"column": "changed", "timezone": "Europe/Berlin"},
        "priority": {"percentile_of": "id"},
        "where": "id <> 4",
    }
    languages = {"group": lambda n: n // 2, "language": lambda n: ("de", "en")[n % 2]}
    alternates = {"group": "group", "hreflang": "language"}
    catalog.section(
        "a", pages(8, loc=lambda n: f"/a/{n}", **languages), alternates=alternates, feed={}, on_error="keep"
    )
    news = pages(3, loc=lambda n: f"/n/{n}", title="Lamps", publication_date="2026-11-01T01:00:00Z")
    catalog.section("n", news, news={"publication": "Shop", "language": "en"})
    (catalog.folder / "public").mkdir()
    (catalog.folder / "public" / "robots.txt").write_text("User-agent: *\nDisallow: /a/7\n")
    told: list[str] = []
    for night in (1, 2):
        assert found(catalog, told) == []
        catalog.night(night)
        with sqlite3.connect(tmp_path / "catalog.sqlite") as db:
            db.execute("UPDATE page SET changed = '2026-10-30 12:00:00' WHERE id < 20")
    assert found(catalog, told) == []
    assert told == []


def test_validate_gives_up_on_a_select_beyond_its_time_limit(tmp_path: Path, postgres: Postgres) -> None:
    site = TestSite(tmp_path)
    site.environment = Environment(environ={"AIRFLOW_CONN_CATALOG": postgres.uri})
    site.keys["sections"]["p"] = {
        "from": {"database": "catalog", "query": "SELECT '/a' AS loc FROM pg_sleep(30)", "timeout": "1h"}
    }
    with pytest.raises(Unavailable, match="This check waits for 1s, a run for 1h: see what that says, with run"):
        try_section(site.load(), "p", site.at(FIRST_NIGHT), None, limit=timedelta(seconds=1))


def test_validate_requests_robots_txt_once_and_reports_its_absence(tmp_path: Path) -> None:
    site = TestSite(tmp_path, urls={"respect_robots": True}, site="http://127.0.0.1:1")
    site.section("p", pages(3)).section("q", pages(3, start=5))
    (problem,) = found(site)
    assert problem.startswith("urls.respect_robots: ")
    assert "it is not known which pages it disallows" in problem
    (tmp_path / "public").mkdir()
    (tmp_path / "public" / "robots.txt").write_text("User-agent: *\nDisallow: /p/\n")
    told: list[str] = []
    assert found(site, told) == []
    assert told[0].startswith("section p: all 3 rows that were read are excluded: robots.txt (3, e.g. ")


def test_validate_reports_the_state_of_another_site(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(3))
    site.night(1)
    site.keys["site"] = "https://other.example"
    (problem,) = [text for text in found(site) if text.startswith("work: ")]
    assert "is the state of shop (https://shop.example)" in problem


def test_validate_reads_the_sitemap_to_compare_with(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("p", pages(3))
    assert call("validate", site.path, "--against", "https://shop.example/sitemap.xml").code == 2
    done = call("validate", site.path, "--connect", "--against", "http://127.0.0.1:1/sitemap.xml")
    assert done.code == 3
    assert "--against: http://127.0.0.1:1/sitemap.xml: " in done.err
    (tmp_path / "page.xml").write_text("<html></html>")
    done = call("run", site.path, "--dry-run", "--against", tmp_path / "page.xml")
    assert done.code == 1
    assert "page.xml: " in done.err
    assert "extract" not in done.err
    (tmp_path / "old.xml").write_text(
        '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>https://shop.example/a</loc></url></urlset>'
    )
    assert call("validate", site.path, "--connect", "--against", tmp_path / "old.xml").code == 0


@pytest.mark.parametrize("wanted", ["prcie", "PRICE"])
def test_validate_and_a_run_report_a_missing_column_alike_with_a_suggestion(tmp_path: Path, wanted: str) -> None:
    site = TestSite(tmp_path).section("p", [{"loc": "/a", "price": 1}], columns={"title": wanted})
    (said,) = try_section(site.load(), "p", site.environment, None).lacks
    source = f"the source ({tmp_path / 'p.csv'})"
    assert said == f"columns.title: {source} has no column {wanted!r}. It has: loc, price. Did you mean price?"
    with pytest.raises(InvalidSource) as found:
        site.night(1)
    assert str(found.value) == f"section p: {said}"


@pytest.mark.parametrize(("locs", "numbers"), [(range(1, 9), True), (["1", "/2"], False), (["1a", "2b"], False)])
def test_validate_notes_values_of_loc_that_look_like_ids(tmp_path: Path, locs: list[object], numbers: bool) -> None:
    site = TestSite(tmp_path).section("p", [{"id": loc} for loc in locs], columns={"loc": "id"})
    done = call("validate", site.path, "--connect")
    assert done.code == 0
    warning = "p: its addresses are numbers such as 1, which is https://shop.example/1"
    assert (f"section {warning}" in done.out) == numbers
    assert any(text.startswith(warning) for text in site.night(1).summary.warnings) == numbers
    site.section("p", [{"id": loc} for loc in [*locs, 9]], columns={"loc": "id"})
    assert not any(text.startswith(warning) for text in site.night(2).summary.warnings), "it was read after the first"
