"""`explain`: why a URL is listed or not, from state and reports, without the source."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sitemap_etl.errors import Refused
from sitemap_etl.explain.answers import json_of
from sitemap_etl.explain.explain import explain
from sitemap_etl.explain.spellings import alike, differences, spellings
from sitemap_etl.runs.rollback import roll_back
from sitemap_etl.urls import UrlRules
from tests.support.sites import FIRST_NIGHT, TestSite, pages

ORIGIN = "https://shop.example"
SMALL = {"rows": 100, "fill": 0.9}
RULES = UrlRules(ORIGIN)


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path)


def ask(site: TestSite, url: str) -> dict[str, Any]:
    answer = json.loads(json.dumps([json_of(one) for one in explain(site.load(), [url], site.environment)]))[0]
    assert answer["sentence"].startswith(url)
    assert answer["sentence"].endswith(".")
    assert "\n" not in answer["sentence"]
    return answer


def sources_gone(site: TestSite) -> None:
    for path in site.folder.glob("*.csv"):
        path.unlink()


def test_a_listed_url_is_reported_with_its_section_file_and_lastmod(site: TestSite) -> None:
    site.section("products", pages(1_000, lastmod="2026-10-01"), shards=SMALL)
    run_id = site.night(1).run.run_id
    sources_gone(site)
    answer = ask(site, f"{ORIGIN}/p/000500")
    assert answer["answer"] == "listed"
    listed = answer["listed"]
    published = site.public().by_loc()[f"{ORIGIN}/p/000500"]
    assert listed["file"] == f"{ORIGIN}/{published.file}"
    assert f"sitemap-products-{listed['number']:05}.xml.gz" == published.file
    assert (listed["section"], listed["lastmod"]) == ("products", "2026-10-01")
    assert listed["index"] == f"{ORIGIN}/sitemap.xml"
    assert listed["since"] == {"at": "2026-11-01T02:00:00Z", "run_id": run_id, "how": "first publish"}
    assert answer["sentence"] == (
        f"{ORIGIN}/p/000500 is listed in section products: {listed['file']}, lastmod 2026-10-01."
    )


def test_only_the_shard_of_the_url_is_read(site: TestSite) -> None:
    site.section("products", pages(1_000), shards=SMALL)
    site.night(1)
    own = next(e for e in site.manifest().entries if e.first <= f"{ORIGIN}/p/000500" <= e.last)
    for path in (site.folder / "work" / "shop" / "state" / "snapshots").iterdir():
        if not own.snapshot.endswith(path.name):
            path.unlink()
    assert ask(site, "/p/000500")["answer"] == "listed"


def test_explain_says_when_a_listed_row_was_added_or_last_changed(site: TestSite) -> None:
    rows = pages(50, lastmod="2026-10-01")
    site.section("products", rows)
    site.night(1)
    rows[7]["lastmod"] = "2026-11-01"
    site.export("products", [*rows, {"loc": "/new", "lastmod": "2026-11-01"}])
    second = site.night(2).run.run_id
    site.night(3)
    rows[8]["lastmod"] = "2026-11-03"
    site.export("products", [*rows, {"loc": "/new", "lastmod": "2026-11-01"}])
    site.night(4)
    told = {url: ask(site, url)["listed"]["since"] for url in ("/p/000007", "/new", "/p/000001")}
    assert told["/p/000007"] == {"at": "2026-11-02T02:00:00Z", "run_id": second, "how": "changed"}
    assert told["/new"] == {"at": "2026-11-02T02:00:00Z", "run_id": second, "how": "added"}
    assert told["/p/000001"]["how"] == "first publish"


def test_explain_says_when_a_row_changed_if_the_manifest_of_that_run_is_gone(site: TestSite) -> None:
    site.section("products", pages(50))
    site.night(1)
    site.export("products", pages(51))
    second = site.night(2).run.run_id
    site.export("products", pages(52))
    site.night(3)
    (site.folder / "work" / "shop" / "state" / f"manifest-{second}.json").unlink()
    since = ask(site, "/p/000050")["listed"]["since"]
    assert since == {"at": "2026-11-02T02:00:00Z", "run_id": None, "how": "added or changed"}
    assert ask(site, "/p/000001")["listed"]["since"] == {
        "at": None,
        "run_id": None,
        "how": "first publish",
        "before": "2026-11-03T02:00:00Z",
    }


def test_priority_cluster_and_views_are_reported(site: TestSite) -> None:
    rows = [{"loc": f"/{tag}/1", "sku": "1", "lang": tag, "priority": "0.7"} for tag in ("de", "en")]
    site.section("products", rows, alternates={"group": "sku", "hreflang": "lang"})
    site.section("top", [{"loc": "/de/1"}], view=True)
    site.night(1)
    answer = ask(site, "/de/1")
    assert answer["listed"]["priority"] == 0.7
    assert answer["listed"]["cluster"] == {"group": "1", "hreflang": ["de"]}
    assert answer["listed"]["alternates"] == [
        {"hreflang": "de", "href": f"{ORIGIN}/de/1"},
        {"hreflang": "en", "href": f"{ORIGIN}/en/1"},
    ]
    assert [view["section"] for view in answer["views"]] == ["top"]


def test_a_recently_changed_url_is_also_in_the_file_of_recent_changes(site: TestSite) -> None:
    site.keys["recent"] = "3d"
    site.section("products", pages(50))
    site.night(1)
    site.export("products", pages(51))
    site.night(2)
    (view,) = ask(site, "/p/000050")["views"]
    assert view["file"] == f"{ORIGIN}/sitemap-recent-00001.xml.gz"
    assert ask(site, "/p/000049")["views"] == []


@pytest.mark.parametrize(
    ("url", "reason", "row"),
    [
        ("/hidden", "sold out", 52),
        ("/f%C3%A9e", "where", 53),
        ("/print/1", "urls.exclude", 54),
        ("/cart/1", "robots.txt", 55),
    ],
)
def test_an_excluded_url_is_reported_with_its_line_and_reason(site: TestSite, url: str, reason: str, row: int) -> None:
    public = site.folder / "public"
    public.mkdir()
    (public / "robots.txt").write_text("User-agent: *\nDisallow: /cart\n")
    site.keys["urls"] = {"exclude": ["/print/*"], "respect_robots": True}
    extra = [
        {"loc": "/hidden", "exclude": "sold out"},
        {"loc": "/fée", "exclude": ""},
        {"loc": "/print/1", "exclude": ""},
        {"loc": f"{ORIGIN}/cart/1", "exclude": ""},
    ]
    site.section("products", [*pages(50, exclude=""), *extra], where="loc <> '/fée'")
    run_id = site.night(1).run.run_id
    sources_gone(site)
    answer = ask(site, url)
    assert answer["answer"] == "excluded"
    (found,) = answer["set_aside"]["rows"]
    assert (found["reason"], found["row"], found["run_id"]) == (reason, row, run_id)
    assert found["source"].endswith("products.csv")
    assert f"run {run_id} of 2026-11-01 02:00 UTC excluded it" in answer["sentence"]
    assert f"(line {row} of " in answer["sentence"]


def test_a_rejected_url_is_reported_with_a_similar_listed_one(site: TestSite) -> None:
    site.section("products", [*pages(50), {"loc": "http://www.shop.example/p/000001"}])
    site.night(1)
    answer = ask(site, "http://www.shop.example/p/000001")
    assert answer["answer"] == "rejected"
    assert answer["reason"] == "foreign origin"
    assert "rejected it: foreign origin (line 52 of" in answer["sentence"]
    assert answer["nearest"] == [{"loc": f"{ORIGIN}/p/000001", "differs": ["scheme", "host"]}]
    other_spelling = ask(site, "HTTP://WWW.shop.example:80/p/000001")
    assert other_spelling["answer"] == "rejected"


def test_rows_with_invalid_urls_are_found_by_their_text(site: TestSite) -> None:
    site.section("products", [*pages(50), {"loc": "mailto:shop@shop.example"}, {"loc": "/a\tb"}])
    site.night(1)
    assert ask(site, "mailto:shop@shop.example")["set_aside"]["rows"][0]["reason"] == "not http or https"
    assert ask(site, "/a\tb")["set_aside"]["rows"][0]["row"] == 53


def test_a_listed_url_names_its_duplicates_within_and_across_sections(site: TestSite) -> None:
    site.section("a", [*pages(30), {"loc": "/p/000003"}])
    site.section("b", [*pages(20, start=100), {"loc": f"{ORIGIN}/p/000003"}])
    site.night(1)
    answer = ask(site, "/p/000003")
    assert answer["answer"] == "listed"
    assert answer["listed"]["section"] == "a"
    assert answer["set_aside"]["counts"] == {"duplicate": 2}
    assert {(row["section"], row["reason"]) for row in answer["set_aside"]["rows"]} == {
        ("a", "listed already by a row of this section"),
        ("b", "listed already by section a"),
    }


def test_the_rows_of_a_very_frequent_url_are_counted_and_a_few_shown(site: TestSite) -> None:
    site.section("products", [*pages(30), *({"loc": "/hidden", "exclude": "no"} for _ in range(500))])
    site.night(1)
    aside = ask(site, "/hidden")["set_aside"]
    assert aside["counts"] == {"excluded": 500}
    assert len(aside["rows"]) == 20


@pytest.mark.parametrize(
    ("url", "differs"),
    [
        (f"{ORIGIN}/shop/lamp-a/", ["slash"]),
        (f"{ORIGIN}/Shop/Lamp-A", ["case"]),
        (f"{ORIGIN}/shop/lamp-a?page=2", ["query"]),
        ("http://shop.example/shop/lamp-a", ["scheme"]),
        ("https://www.shop.example/shop/lamp-a", ["host"]),
        ("http://www.shop.example/Shop/lamp-a/?x=1", ["scheme", "host", "case", "slash", "query"]),
        ("shop.example/shop/lamp-a", []),
        (f"{ORIGIN}/tea/Cups", ["slash"]),
        (f"{ORIGIN}/tea/cups", ["case", "slash"]),
        (f"{ORIGIN}/list", ["query"]),
        (f"{ORIGIN}/a,b", ["percent-encoding"]),
        (f"{ORIGIN}/c%2Cd", ["percent-encoding"]),
    ],
)
def test_an_absent_url_is_reported_with_a_listed_spelling_of_it(site: TestSite, url: str, differs: list[str]) -> None:
    own = ("/shop/lamp-a", "/tea/Cups/", "/list?page=1", "/a%2Cb", "/c,d")
    site.section("products", [*pages(500), *({"loc": loc} for loc in own)], shards=SMALL)
    run_id = site.night(1).run.run_id
    sources_gone(site)
    answer = ask(site, url)
    assert answer["answer"] == "absent"
    assert answer["nearest"][0]["loc"].removeprefix(ORIGIN) in own
    if differs:
        assert answer["nearest"][0]["differs"] == differs
    assert f"not in the source at run {run_id}" in answer["sentence"]
    assert answer["nearest"][0]["loc"] in answer["sentence"]


def test_an_absent_url_is_found_by_its_name_in_another_folder(site: TestSite) -> None:
    own = [{"loc": f"/{folder}/{name}"} for folder in ("p", "blog") for name in ("a", "lampe", "z")][1:]
    site.section("products", [*pages(500), *own], shards=SMALL)
    site.night(1)
    answer = ask(site, "/lampe")
    assert (answer["answer"], answer["nearest"]) == (
        "absent",
        [{"loc": f"{ORIGIN}/p/lampe", "differs": []}, {"loc": f"{ORIGIN}/blog/lampe", "differs": []}],
    )
    assert answer["sentence"].endswith(f"; {ORIGIN}/p/lampe is listed.")


def test_a_url_without_similar_ones_is_reported_as_absent(site: TestSite) -> None:
    site.section("products", pages(500), shards=SMALL)
    run_id = site.night(1).run.run_id
    answer = ask(site, "/nothing/like/it")
    assert (answer["answer"], answer["nearest"]) == ("absent", [])
    assert answer["sentence"] == (
        f"/nothing/like/it ({ORIGIN}/nothing/like/it) is not listed: it was not in the source at run {run_id} of "
        "2026-11-01 02:00 UTC."
    )


def test_a_url_that_left_the_source_is_reported_with_the_last_release_listing_it(site: TestSite) -> None:
    site.section("products", pages(100))
    first = site.night(1).run.run_id
    site.export("products", pages(99))
    second = site.night(2).run.run_id
    answer = ask(site, "/p/000099")
    assert answer["last_listed"] == {"run_id": first, "at": "2026-11-01T02:00:00Z"}
    assert f"is not listed any more: it was not in the source at run {second}" in answer["sentence"]


@pytest.mark.parametrize(
    ("source", "fate"),
    [
        (pages(50), "did not have it in its source"),
        ([*pages(50), {"loc": "/p/000099", "exclude": "gone"}], "excluded it: gone (line 52 of "),
        (
            [*pages(50), *({"loc": f"/p/{n:06}/"} for n in range(50, 100))],
            f"would list {ORIGIN}/p/000099/ instead, which differs only by the trailing slash",
        ),
    ],
)
def test_a_url_that_a_refused_run_would_drop_is_listed_with_the_reason(
    site: TestSite, source: list[dict[str, Any]], fate: str
) -> None:
    site.section("products", pages(100))
    first = site.night(1).run.run_id
    site.export("products", source)
    refused = site.night(2)
    assert refused.summary.status == "refused"
    sources_gone(site)
    answer = ask(site, "/p/000099")
    assert answer["answer"] == "listed"
    assert (
        f"is listed (published by run {first} of 2026-11-01 02:00 UTC), but run {refused.run.run_id}"
        in (answer["sentence"])
    )
    assert "which was refused, " + fate in answer["sentence"]
    stays = ask(site, "/p/000001")
    assert stays["later"]["answer"] == "listed"
    assert "refused" not in stays["sentence"]


def test_a_refused_run_is_ignored_once_a_later_one_is_published(site: TestSite) -> None:
    site.section("products", pages(100))
    site.night(1)
    site.export("products", pages(50))
    site.night(2)
    site.export("products", pages(100))
    assert site.night(3).summary.status == "unchanged"
    assert ask(site, "/p/000099")["later"] is None


def test_the_message_says_that_the_staging_of_a_refused_run_is_gone(site: TestSite) -> None:
    site.section("products", pages(100))
    site.night(1)
    site.export("products", pages(50))
    site.night(2)
    shutil.rmtree(site.folder / "work" / "shop" / "runs")
    assert "left nothing that tells whether" in ask(site, "/p/000099")["sentence"]


@pytest.mark.parametrize("name", ["plan.json", "partition.json"])
def test_damaged_files_of_a_dry_run_do_not_break_explain(site: TestSite, name: str) -> None:
    """Nothing public depends on it."""
    site.section("products", pages(50))
    site.night(1)
    site.export("products", pages(60))
    dry = site.night(2, dry_run=True).run.run_id
    staged = Path(site.state().storage.url, "runs", dry, name)
    staged.write_bytes(staged.read_bytes()[:-4])
    assert ask(site, "/p/000001")["answer"] == "listed"


def test_explain_of_a_dry_run_says_what_it_would_list(site: TestSite) -> None:
    site.section("products", pages(50))
    site.night(1, dry_run=True)
    answer = ask(site, "/p/000001")
    assert (answer["answer"], answer["later"]["answer"]) == ("absent", "listed")
    assert "a dry run, would list it in section products" in answer["sentence"]
    assert "nothing" not in answer["sentence"]
    assert "did not have it in its source" in ask(site, "/q")["sentence"]


def test_rows_of_a_kept_section_come_from_the_run_that_last_read_it(site: TestSite) -> None:
    site.section("a", pages(30))
    site.section("b", [*pages(30, start=100), {"loc": "/hidden", "exclude": "sold out"}], on_error="keep")
    first = site.night(1).run.run_id
    (site.folder / "b.csv").unlink()
    site.export("a", pages(31))
    site.night(2)
    answer = ask(site, "/hidden")
    assert answer["set_aside"]["rows"][0]["run_id"] == first
    assert "b.csv" in answer["not_read"]["b"]


def test_a_row_of_an_incremental_source_is_named_by_its_key_and_the_run_that_read_it(site: TestSite) -> None:
    with sqlite3.connect(site.folder / "catalog.db") as database:
        database.execute("CREATE TABLE pages (id INTEGER, loc TEXT, exclude TEXT, touched TEXT)")
        rows = [(n, f"/p/{n:03}", "sold out" if n == 7 else None, "2026-10-01") for n in range(30)]
        database.executemany("INSERT INTO pages VALUES (?, ?, ?, ?)", rows)
    site.environment = replace(
        site.environment, environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{site.folder}/catalog.db"}
    )
    site.section("pages")
    query = "SELECT id, loc, exclude FROM pages WHERE touched >= :since"
    site.keys["sections"]["pages"]["from"] = {"database": "catalog", "query": query, "key": "id"}
    first = site.night(1).run.run_id
    with sqlite3.connect(site.folder / "catalog.db") as database:
        database.execute("INSERT INTO pages VALUES (90, '/p/new', NULL, '2026-11-01T12:00:00')")
        database.execute("INSERT INTO pages VALUES (91, '/p/newer', 'hidden', '2026-11-01T12:00:00')")
    second = site.night(2).run.run_id
    answer = ask(site, "/p/007")
    (row,) = answer["set_aside"]["rows"]
    assert (row["run_id"], row["key"], row["read_by"]) == (second, "7", first)
    assert f"key 7, read by run {first}" in answer["sentence"]
    (row,) = ask(site, "/p/newer")["set_aside"]["rows"]
    assert (row["key"], row["read_by"]) == ("91", second)
    assert ask(site, "/p/new")["answer"] == "listed"


def test_a_page_that_an_incremental_read_did_not_yield_may_still_be_in_the_source(site: TestSite) -> None:
    with sqlite3.connect(site.folder / "catalog.db") as database:
        database.execute("CREATE TABLE pages (id INTEGER, loc TEXT, touched TEXT)")
        database.executemany("INSERT INTO pages VALUES (?, ?, '2026-10-01')", [(n, f"/p/{n:03}") for n in range(30)])
    site.environment = replace(
        site.environment, environ={"AIRFLOW_CONN_CATALOG": f"sqlite:///{site.folder}/catalog.db"}
    )
    site.section("pages")
    query = "SELECT id, loc FROM pages WHERE touched >= :since"
    site.keys["sections"]["pages"]["from"] = {"database": "catalog", "query": query, "key": "id"}
    first = site.night(1).run.run_id
    assert f"it was not in the source at run {first}" in ask(site, "/new")["sentence"]
    with sqlite3.connect(site.folder / "catalog.db") as database:
        database.execute("INSERT INTO pages VALUES (90, '/new', '2026-10-01')")
    second = site.night(2).run.run_id
    assert ask(site, "/new")["sentence"] == (
        f"/new ({ORIGIN}/new) is not listed: the incremental read of run {second} of 2026-11-02 02:00 UTC did not "
        "yield it (all rows were read last on 2026-11-01 02:00 UTC; a run with --full reads them again)."
    )
    dry = site.night(3, dry_run=True).run.run_id
    assert f"yield it, nor did run {dry} of 2026-11-03 02:00 UTC, a dry run (all" in ask(site, "/new")["sentence"]
    third = site.night(4, full=True).run.run_id
    assert ask(site, "/new")["answer"] == "listed"
    assert f"it was not in the source at run {third}" in ask(site, "/newer")["sentence"]


def test_a_page_whose_section_was_removed_is_not_reported_as_missing_in_the_source(site: TestSite) -> None:
    site.section("products", pages(90))
    site.section("arts", pages(9, start=100))
    site.night(1)
    del site.keys["sections"]["arts"]
    second = site.night(2, force=("max_drop",), reason="no more arts").run.run_id
    site.export("products", pages(91))
    site.night(3)
    assert ask(site, "/p/000105")["sentence"] == (
        f"/p/000105 ({ORIGIN}/p/000105) is not listed any more: its section arts is not in the site file of run "
        f"{second} of 2026-11-02 02:00 UTC."
    )


def test_a_rollback_to_a_release_without_the_section_is_reported(site: TestSite) -> None:
    site.section("products", pages(50))
    first = site.night(1).run.run_id
    site.section("arts", pages(9, start=100))
    site.night(2)
    at = site.at(FIRST_NIGHT + timedelta(days=2))
    done = roll_back(site.load(), first, at, reason="too early", force=["max_drop"])
    assert done is not None
    assert (
        f"its section arts is not in the site file of run {first} of 2026-11-01 02:00 UTC, to which rollback "
        f"{done.run.run_id} of 2026-11-03 02:00 UTC went back."
    ) in ask(site, "/p/000105")["sentence"]


def test_a_page_whose_section_a_refused_run_would_remove_is_reported_with_that_run(site: TestSite) -> None:
    site.section("products", pages(50))
    site.section("arts", pages(50, start=100))
    site.night(1)
    del site.keys["sections"]["arts"]
    refused = site.night(2)
    assert refused.summary.status == "refused"
    sentence = ask(site, "/p/000105")["sentence"]
    assert f"but its section arts is not in the site file of run {refused.run.run_id}" in sentence
    assert sentence.endswith("which was refused.")


def test_a_published_run_without_a_report_counts_as_the_last_read(site: TestSite) -> None:
    site.section("products", pages(50))
    first = site.night(1).run.run_id
    site.export("products", pages(51))
    second = site.night(2).run.run_id
    shutil.rmtree(site.folder / "work" / "shop" / "reports" / second)  # it was killed after its commit
    answer = ask(site, "/q")
    assert answer["read_by"] == {"run_id": second, "at": "2026-11-02T02:00:00Z", "status": "published"}
    assert (
        f"it is not in the release of run {second} of 2026-11-02 02:00 UTC, which left no report" in answer["sentence"]
    )
    assert first not in answer["sentence"]


def test_a_page_removed_by_a_rollback_is_explained_by_the_rollback(site: TestSite) -> None:
    site.section("products", pages(50))
    first = site.night(1).run.run_id
    site.export("products", pages(51))
    site.night(2)
    done = roll_back(site.load(), first, site.at(FIRST_NIGHT + timedelta(days=2)), reason="broken export")
    assert done is not None
    new = ask(site, "https://shop.example/p/000050")["sentence"]
    assert f"it was not in the source at run {first}" in new
    assert f", to which rollback {done.run.run_id} of 2026-11-03 02:00 UTC went back" in new
    assert "rollback" not in ask(site, "https://shop.example/p/000099")["sentence"]


def test_after_a_rollback_reports_of_reverted_runs_are_ignored(site: TestSite) -> None:
    site.section("products", pages(50))
    first = site.night(1).run.run_id
    site.export("products", pages(52))
    site.night(2)
    roll_back(site.load(), first, site.at(FIRST_NIGHT + timedelta(days=2)), reason="broken export")
    answer = ask(site, "/p/000051")
    assert answer["answer"] == "absent"
    assert answer["published"]["rolled_back_to"] == first
    assert f"not in the source at run {first}" in answer["sentence"]


def test_pages_of_a_section_removed_from_the_site_file_are_explained(site: TestSite) -> None:
    site.section("a", pages(30))
    site.section("b", pages(30, start=100))
    site.night(1)
    del site.keys["sections"]["b"]
    assert ask(site, "/p/000100")["listed"]["section"] == "b"


def test_the_message_says_that_there_was_no_run(site: TestSite) -> None:
    site.section("products", pages(5))
    with pytest.raises(Refused, match=r"nothing to explain.*Run the site first"):
        ask(site, "/p/000001")


@pytest.mark.thorough
def test_explain_prints_its_answer_first_and_ends_with_1_if_a_url_is_not_listed(site: TestSite) -> None:
    site.section("products", [*pages(50), {"loc": "/hidden", "exclude": "sold out"}])
    site.night(1)
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", "import sys; from sitemap_etl.cli import main; main()", "explain", str(site.path)]
    urls = ["/p/000001", "/hidden", "/nowhere"]
    done = subprocess.run([*command, *urls], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    blocks = done.stdout.split("\n\n")
    assert [block.split(" ")[0] for block in blocks] == urls
    assert f"({ORIGIN}/p/000001) is listed in section products" in blocks[0].splitlines()[0]
    assert "sold out (line 52 of" in blocks[1].splitlines()[0]
    done = subprocess.run([*command, *urls, "--json"], env=environ, capture_output=True, text=True, check=False)
    assert [(one["url"], one["answer"]) for one in json.loads(done.stdout)["urls"]] == [
        ("/p/000001", "listed"),
        ("/hidden", "excluded"),
        ("/nowhere", "absent"),
    ]


@pytest.mark.parametrize(
    ("one", "other", "differing"),
    [
        ("https://a.example/x", "https://a.example/x", []),
        ("https://a.example/x", "https://a.example/y", []),
        ("https://a.example/x", "http://b.example/X/?q", ["scheme", "host", "case", "slash", "query"]),
        ("https://a.example/a%2Fb", "https://a.example/a/b", ["percent-encoding"]),
        ("https://a.example/A%2Cb", "https://a.example/a,b", ["case", "percent-encoding"]),
        ("no address", "https://a.example/", []),
    ],
)
def test_the_difference_between_two_urls_is_described(one: str, other: str, differing: list[str]) -> None:
    assert differences(one, other) == differing


def test_alternative_spellings_are_canonical_urls_of_the_site_nearest_first() -> None:
    made = spellings(f"{ORIGIN}/A%2Cb/?q=1", RULES)
    assert made[0] != f"{ORIGIN}/A%2Cb/?q=1"
    assert all(url.startswith(f"{ORIGIN}/") for url in made)
    assert len(made) == len(set(made)) == 15
    assert {f"{ORIGIN}/A%2Cb?q=1", f"{ORIGIN}/A%2Cb/", f"{ORIGIN}/A,b/?q=1", f"{ORIGIN}/a,b"} <= set(made)
    assert spellings(f"{ORIGIN}/", RULES) == []


def test_at_most_three_similar_urls_are_found_among_neighbors() -> None:
    locs = [f"{ORIGIN}/list?page={n}" for n in range(9)] + [f"{ORIGIN}/list/", f"{ORIGIN}/lists", f"{ORIGIN}/LIST"]
    found = alike(pa.array(sorted(locs)), f"{ORIGIN}/list")
    assert len(found) == 3
    assert f"{ORIGIN}/lists" not in found
