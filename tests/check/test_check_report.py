"""The results of a check: codes and their documentation, JSON, exit code, table on a terminal."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from sitemap_etl.check import CODES, Finding, Options, Report, check, render_table
from sitemap_etl.check.codes import GROUPS
from sitemap_etl.check.explanations import explanations
from sitemap_etl.check.lines import Lines
from sitemap_etl.check.reference import keys, schema, written_into
from sitemap_etl.check.report import Example, Faults, FileStats
from tests.check import test_check_edges, test_check_files, test_check_pages, test_check_sets, test_check_web
from tests.support.broken_sitemaps import FILES, SETS, index, url, urlset
from tests.support.command import call

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"

TOLD_ELSEWHERE = {
    "unreachable": (test_check_web, "test_an_unreachable_server_is_a_finding"),
    "not-asked": (test_check_edges, "test_a_host_that_never_answers_is_abandoned_for_all_its_files"),
    "redirect": (test_check_web, "test_a_redirect_is_followed_and_reported"),
    "private-address": (test_check_web, "test_a_public_sitemap_cannot_make_the_check_request_private_addresses"),
    "robots-unavailable": (test_check_web, "test_a_robots_txt_that_fails_is_reported"),
    "target-invalid": (test_check_edges, "test_an_invalid_target_is_reported_along_with_the_others"),
    "defect": (test_check_edges, "test_a_failure_to_read_one_file_is_a_finding_of_that_file"),
    "not-finished": (test_check_edges, "test_when_max_time_ends_the_report_has_checked_files_and_names_the_rest"),
    "partly-read": (test_check_files, "test_decompression_stops_at_the_limit_and_is_reported"),
    "files-not-read": (test_check_sets, "test_the_number_of_files_is_bounded"),
    **dict.fromkeys(
        test_check_pages.FAULTS,
        (test_check_pages, "test_a_page_that_should_not_be_listed_is_reported_with_its_line_and_share"),
    ),
    "page-blocked-by-robots": (test_check_pages, "test_a_page_that_robots_txt_disallows_is_reported_and_not_requested"),
    "page-soft-404": (test_check_pages, "test_a_page_with_the_content_of_a_missing_page_is_reported_as_soft_404"),
    "page-not-visited": (test_check_pages, "test_pages_that_were_not_visited_in_time_are_reported"),
    "crawler-refused": (
        test_check_pages,
        "test_a_sitemap_that_refuses_only_the_crawler_has_its_own_code",
    ),
    "checker-refused": (
        test_check_pages,
        "test_a_sitemap_that_refuses_only_sitemap_etl_is_reported_and_read_as_the_crawler",
    ),
}
"""Codes that a table can't show: where a test of its own does."""


def test_every_code_is_explained_with_an_example_and_a_source() -> None:
    assert list(explanations()) == list(CODES)
    for explanation in explanations().values():
        assert explanation.source.startswith("https://www.") or "developers.google.com" in explanation.source
        assert explanation.before != explanation.after
        assert explanation.reason.endswith(".")


def test_a_code_is_explained_on_the_command_line() -> None:
    done = call("check", "--explain", "loc-relative")
    assert done.code == 0
    for part in ("loc-relative: error", "before: <loc>/lamps/1</loc>", "source: https://www.sitemaps.org/"):
        assert part in done.out
    assert call("check", "--explain", "loc-relative", "--json").json["source"].startswith("https://")
    wrong = call("check", "--explain", "loc-relativ")
    assert (wrong.code, "did you mean loc-relative?" in wrong.err) == (2, True)
    assert call("check", "--explain", "loc-relative", "public").code == 2


def test_every_code_is_triggered_by_a_test() -> None:
    shown = {code for broken in FILES for code in broken.codes}
    shown |= {code for broken in SETS for code, _ in broken.found}
    shown |= {code for _, _, codes in test_check_web.ANSWERS.values() for code in codes}
    assert shown | set(TOLD_ELSEWHERE) == set(CODES)
    assert all(hasattr(module, name) for module, name in TOLD_ELSEWHERE.values())


def test_the_built_documentation_has_a_section_for_each_code(tmp_path: Path) -> None:
    built = tmp_path / "check-codes.md"
    subprocess.run(
        [sys.executable, "-m", "sitemap_etl.check", str(REFERENCE / "check-codes.md"), str(built)], check=True
    )
    headings = [line for line in built.read_text("utf-8").splitlines() if line.startswith("### ")]
    assert headings == [f"### `{code}`" for codes in GROUPS.values() for code in codes]


def test_codes_are_unique_and_say_how_to_fix_the_problem() -> None:
    assert sum(len(codes) for codes in GROUPS.values()) == len(CODES)
    for code in CODES.values():
        assert code.code == code.code.lower()
        assert code.fix.endswith(".")
        assert not code.title.endswith(".")


def report(*codes: str) -> Report:
    return Report(
        [Finding(code, "sitemap.xml", 3, 1, "x") for code in codes], [FileStats("sitemap.xml", "urlset", 2, 10)]
    )


@pytest.mark.parametrize(
    ("codes", "on_error", "on_warning"),
    [((), 0, 0), (("loc-tracking",), 0, 0), (("bom",), 0, 1), (("loc-relative", "bom"), 1, 1)],
)
def test_the_exit_code_is_1_from_the_severity_of_fail_on(
    codes: tuple[str, ...], on_error: int, on_warning: int
) -> None:
    assert (report(*codes).exit_code("error"), report(*codes).exit_code("warning")) == (on_error, on_warning)


def strict(part: object) -> object:
    """Return the schema without additional keys."""
    if isinstance(part, list):
        return [strict(one) for one in part]
    if not isinstance(part, dict):
        return part
    found = {name: strict(about) for name, about in part.items()}
    return {**found, "additionalProperties": False} if "type" in found and "properties" in found else found


def valid(told: dict[str, object]) -> dict[str, object]:
    """Return the JSON of `--json` after validating it: the schema has each key."""
    jsonschema.Draft202012Validator(strict(schema())).validate(told)  # type: ignore[arg-type]
    return told


def test_the_json_has_every_finding_and_file(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_bytes(index("https://shop.example/a.xml"))
    (tmp_path / "a.xml").write_bytes(urlset(url() + "\n" + url("/b") + "\n" + url("/c")))
    found = json.loads(json.dumps(check([str(tmp_path)], options=Options(now=NOW, examples=9)).to_json()))
    valid({"error": None, "exit": 1, **found})
    assert (found["format"], found["status"]) == (1, "faults")
    assert found["totals"] == {
        "files": 2,
        "urls": 3,
        "bytes": found["totals"]["bytes"],
        "errors": 1,
        "warnings": 0,
        "info": 0,
        "occurrences": {"error": 2, "warning": 0, "info": 0},
        "affected": {"urls": 2, "at_least": False, "unread": 0},
        "known": 0,
        "left_out": 0,
    }
    (finding,) = found["findings"]
    assert finding == {
        "code": "loc-relative",
        "severity": "error",
        "file": str(tmp_path / "a.xml"),
        "line": 4,
        "column": 6,
        "count": 2,
        "known": 0,
        "title": CODES["loc-relative"].title,
        "detail": "",
        "example": "/b",
        "examples": [{"line": 4, "column": 6, "text": "/b"}, {"line": 5, "column": 6, "text": "/c"}],
        "mend": CODES["loc-relative"].fix,
    }
    (total,) = found["codes"]
    assert (total["code"], total["findings"], total["occurrences"], total["files"]) == ("loc-relative", 1, 2, 1)
    assert {f["kind"] for f in found["files"]} == {"index", "urlset"}


def test_every_json_report_matches_the_schema(tmp_path: Path) -> None:
    for number, broken in enumerate(FILES):
        (tmp_path / f"{number:03}-{broken.name}").write_bytes(broken.data)
    told = check([str(tmp_path)], options=Options(now=NOW, max_bytes=1_000_000)).to_json()
    valid(json.loads(json.dumps({"error": None, "exit": 1, **told})))


def test_every_key_of_the_json_is_described() -> None:
    described = dict(keys(schema()))
    assert {"totals.affected.urls", "codes[].mend", "findings[].examples[].line", "gone[].checked"} <= set(described)
    assert all(text.endswith(".") for text in described.values())
    text = written_into((REFERENCE / "json.md").read_text("utf-8"))
    assert [path for path in described if f"| `{path}` |" not in text] == []


def test_the_same_files_give_the_same_report(tmp_path: Path) -> None:
    for number, broken in enumerate(FILES[:40]):
        (tmp_path / f"{number:02}-{broken.name}").write_bytes(broken.data)
    one, other = (check([str(tmp_path)], options=Options(now=NOW, jobs=jobs)).to_json() for jobs in (1, 4))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def printed(found: Report, width: int = 80, *, by_file: bool = False, examples: int | None = 1) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    render_table(found, console, by_file=by_file, examples=examples)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_each_code_once_the_worst_first_with_numbers_example_and_advice() -> None:
    found = Report(
        [
            Finding("bom", "a.xml", 1),
            Finding("loc-relative", "a.xml", 7, 1, "/a", 1),
            Finding("loc-relative", "b.xml", 12_345, 1, "/b[red]", 3_000, "more of it"),
        ],
        [FileStats("a.xml", "urlset", 9, 10), FileStats("b.xml", "urlset", 3_000, 12_345)],
    )
    text = printed(found)
    assert text.index("loc-relative") < text.index("bom")
    (row,) = (line.split() for line in text.splitlines() if line.startswith("✗"))
    assert row == ["✗", "loc-relative", "3,001", "2"]
    assert text.count(CODES["loc-relative"].fix) == 2, "once in the table, and once as what to do first"
    for part in ("b.xml:12345", "/b[red]", "more of it", "12.4 kB", "3,001 errors, 1 warning"):
        assert part in text
    assert "a.xml:7" not in text
    assert text.rstrip().endswith("Start with loc-relative: Include the scheme and the host.")
    both = printed(found, examples=None)
    assert "a.xml:7" in both
    assert "b.xml:12345" in both


@pytest.mark.thorough
@pytest.mark.parametrize("by_file", [False, True])
def test_no_line_is_longer_than_80_columns(tmp_path: Path, *, by_file: bool) -> None:
    for number, broken in enumerate(FILES):
        (tmp_path / f"{number:03}-{broken.name}").write_bytes(broken.data)
    found = check([str(tmp_path)], options=Options(now=NOW, max_bytes=1_000_000, examples=None))
    for width in (80, 200):
        text = printed(found, width, by_file=by_file, examples=3)
        most = max(text.splitlines(), key=len)
        assert len(most) <= width, most
        advice = [line for line in text.splitlines() if line.lstrip().startswith("→")]
        assert advice
        assert all(len(line) <= 80 for line in advice)


def test_advice_begins_with_findings_that_keep_files_from_being_read() -> None:
    found = Report([Finding("loc-relative", "a.xml", 1, 1, "/b", 900), Finding("xml-malformed", "b.xml", 4)])
    assert "Start with xml-malformed" in printed(found)


def test_findings_that_lose_files_precede_those_that_lose_urls_or_values() -> None:
    many = [Finding("priority-invalid", "a.xml", 1, count=9000), Finding("loc-relative", "a.xml", 1, count=90)]
    found = Report([*many, Finding("index-file-missing", "sitemap.xml", 4)])
    assert [total.code for total in found.codes()] == ["index-file-missing", "loc-relative", "priority-invalid"]
    assert "Start with index-file-missing" in printed(found)


def test_faults_that_every_reader_accepts_are_warnings() -> None:
    assert {CODES[code].severity for code in ("element-order", "feed-incomplete")} == {"warning"}


def test_the_report_by_file_counts_further_files_with_the_same_faults() -> None:
    twice = [Finding("prefix-undeclared", f"{n}.xml", detail=detail) for n in range(500) for detail in ("a", "b")]
    found = Report(twice, [FileStats(f"{n}.xml", "urlset") for n in range(500)])
    text = printed(found, by_file=True)
    assert "and 497 more files" in text
    assert "prefix-undeclared in 497 files" in text
    assert len(text.splitlines()) < 40
    assert "more files" not in printed(found)


def test_each_affected_url_is_counted_once(tmp_path: Path) -> None:
    rows = (
        url("/a", "<priority>2</priority><lastmod>soon</lastmod>") + url("/b") + url() + url("https://shop.example/d")
    )
    (tmp_path / "a.xml").write_bytes(urlset(rows))
    (tmp_path / "b.txt").write_bytes(b"https://shop.example/x\nnope\nhttps://shop.example/%zz\n")
    report = check([str(tmp_path / "a.xml"), str(tmp_path / "b.txt")], options=Options(now=NOW))
    assert (report.urls, report.affected().urls, report.affected().at_least) == (6, 3, False)
    text = printed(report)
    assert "3 of 6 URLs have an error or a warning; one with several counts once." in text


def test_a_fault_whose_urls_are_not_all_known_makes_the_number_a_lower_bound() -> None:
    stats = FileStats("a.xml", "urlset", 50)
    across = Report([Finding("duplicate-across", "a.xml", 3, None, "x", 20)], [stats])
    assert (across.affected().urls, across.affected().at_least) == (20, True)
    assert "At least 20 of 50 URLs have an error" in printed(across)
    unread = Report([Finding("http-status", "b.xml")], [FileStats("b.xml", "unread")])
    assert "1 file could not be read; its URLs are not counted." in printed(unread)


def test_a_finding_of_severity_info_affects_no_url() -> None:
    found = Report([Finding("loc-tracking", "a.xml", 3, None, "x", 20)], [FileStats("a.xml", "urlset", 50)])
    assert found.affected().urls == 0


def test_the_first_examples_are_kept_up_to_the_requested_number() -> None:
    data = b"one\ntwo\nthree\n"
    for number, wanted in ((1, ["one"]), (2, ["one", "two"]), (9, ["one", "two", "three"])):
        faults = Faults("a.txt", Lines(data), examples=number)
        faults.add("text-not-url", at=8, example="three")
        faults.add("text-not-url", at=0, example="one")
        faults.add("text-not-url", at=4, example="two")
        (finding,) = faults.findings()
        assert [example.text for example in finding.examples] == wanted
        assert finding.examples[0] == Example(1, 1, "one")
        assert finding.count == 3


def test_a_set_without_faults_says_so_in_one_line() -> None:
    text = printed(report())
    assert text.startswith("✓ no problems found")
    assert len(text.splitlines()) == 1


def test_escape_sequences_in_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "sitemap.txt").write_bytes(b"https://shop.example/a\nnot a url \x1b[2J\n")
    assert "\x1b" not in printed(check([str(tmp_path)], options=Options(now=NOW)))
