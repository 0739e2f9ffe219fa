"""What a check hands on: the codes and their documentation, the JSON, the exit code, the table on a terminal."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import test_check_sets
import test_check_web
from broken_sitemaps import FILES, SETS, index, url, urlset
from rich.console import Console

from sitemap_etl.check import CODES, Finding, Options, Report, check, render_table
from sitemap_etl.check.codes import GROUPS, written_into
from sitemap_etl.check.report import FileStats

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
DOCS = Path(__file__).parent.parent / "docs" / "checks.md"

TOLD_ELSEWHERE = {
    "unreachable": (test_check_web, "test_a_server_that_is_not_there_is_a_finding"),
    "private-address": (test_check_web, "test_a_public_sitemap_does_not_lead_to_private_addresses"),
    "robots-unavailable": (test_check_web, "test_a_robots_txt_that_fails_is_told"),
    "files-not-read": (test_check_sets, "test_the_number_of_files_is_bounded"),
}
"""Codes that a table can't show: where a test of its own does."""


def test_every_code_is_triggered_by_a_test() -> None:
    shown = {code for broken in FILES for code in broken.codes}
    shown |= {code for broken in SETS for code, _ in broken.found}
    shown |= {code for _, _, codes in test_check_web.ANSWERS.values() for code in codes}
    assert shown | set(TOLD_ELSEWHERE) == set(CODES)
    assert all(hasattr(module, name) for module, name in TOLD_ELSEWHERE.values())


def test_the_documented_table_is_the_one_of_the_code() -> None:
    """`python -m sitemap_etl.check docs/checks.md` writes it anew."""
    page = DOCS.read_text("utf-8")
    assert written_into(page) == page


def test_codes_are_unique_and_say_how_to_fix() -> None:
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
def test_the_exit_code_is_1_from_the_severity_asked_for(codes: tuple[str, ...], on_error: int, on_warning: int) -> None:
    assert (report(*codes).exit_code("error"), report(*codes).exit_code("warning")) == (on_error, on_warning)


def test_the_json_holds_everything(tmp_path: Path) -> None:
    (tmp_path / "sitemap.xml").write_bytes(index("https://shop.example/a.xml"))
    (tmp_path / "a.xml").write_bytes(urlset(url() + "\n" + url("/b")))
    found = json.loads(json.dumps(check([str(tmp_path)], options=Options(now=NOW)).to_json()))
    assert found["status"] == "faults"
    assert found["totals"] == {
        "files": 2,
        "urls": 2,
        "bytes": found["totals"]["bytes"],
        "errors": 1,
        "warnings": 0,
        "info": 0,
    }
    (finding,) = found["findings"]
    assert finding == {
        "code": "loc-relative",
        "severity": "error",
        "file": str(tmp_path / "a.xml"),
        "line": 4,
        "column": 6,
        "count": 1,
        "title": CODES["loc-relative"].title,
        "detail": "",
        "example": "/b",
        "mend": CODES["loc-relative"].fix,
    }
    assert {f["kind"] for f in found["files"]} == {"index", "urlset"}


def test_the_same_set_gives_the_same_report(tmp_path: Path) -> None:
    for number, broken in enumerate(FILES[:40]):
        (tmp_path / f"{number:02}-{broken.name}").write_bytes(broken.data)
    one, other = (check([str(tmp_path)], options=Options(now=NOW, jobs=jobs)).to_json() for jobs in (1, 4))
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def printed(found: Report, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    render_table(found, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_shows_the_worst_file_first_with_place_example_and_cure() -> None:
    found = Report(
        [Finding("bom", "a.xml", 1), Finding("loc-relative", "b.xml", 12_345, 1, "/b[red]", 3, "more of it")],
        [
            FileStats("a.xml", "urlset", 1, 10),
            FileStats("b.xml", "urlset", 3, 12_345, lastmod_min="2026", lastmod_max="2026"),
        ],
    )
    text = printed(found)
    assert text.index("b.xml") < text.index("a.xml")
    for part in (
        "loc-relative",
        "line 12,345",
        "(3×)",
        "/b[red]",
        "more of it",
        CODES["loc-relative"].fix,
        "12.3 kB",
        "1 error, 1 warning",
    ):
        assert part in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_many_files_with_the_same_faults_are_counted_instead_of_shown() -> None:
    found = Report(
        [Finding("bom", f"{n}.xml") for n in range(500)], [FileStats(f"{n}.xml", "urlset") for n in range(500)]
    )
    text = printed(found)
    assert "497 more files" in text
    assert "500 warnings" in text
    assert len(text.splitlines()) < 30


def test_a_set_without_faults_says_so_in_one_line() -> None:
    text = printed(report())
    assert text.startswith("✓ no problems found")
    assert len(text.splitlines()) == 1


def test_terminal_sequences_in_a_file_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "sitemap.txt").write_bytes(b"https://shop.example/a\nnot a url \x1b[2J\n")
    assert "\x1b" not in printed(check([str(tmp_path)], options=Options(now=NOW)))
