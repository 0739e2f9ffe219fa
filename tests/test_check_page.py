"""The report page of check: self-contained, with the templates of the run's report, and safe with hostile text."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from broken_sitemaps import FILES
from test_report import FETCHING, HOSTILE, Page

from sitemap_etl import __version__
from sitemap_etl.check import CODES, FileStats, Finding, Options, Report, check
from sitemap_etl.check.report import Example, Gone
from sitemap_etl.report.check import render_check
from tests.support.browser import PHONE, look, needs_browser

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def report(hostile: str = "") -> Report:
    more = tuple(Example(n, 1, f"/more-{n}{hostile}") for n in range(8, 20))
    found = Report(
        [
            Finding("loc-relative", f"a.xml{hostile}", 7, 6, f"/b{hostile}", 1_204, f"detail{hostile}", more),
            Finding("bom", f"a.xml{hostile}", 1),
            Finding("duplicate", f"a.xml{hostile}", 3, 1, "x", 2, known=2),
            Finding("loc-tracking", f"b.xml{hostile}", 9),
        ],
        [
            FileStats(f"b.xml{hostile}", "urlset", 7, 1_400_000, lastmod_max=f"2026-10-01{hostile}"),
            FileStats(f"a.xml{hostile}", "urlset", 5_000, 99),
            FileStats(f"c.xml{hostile}", "unread"),
        ],
        75.0,
        left_out=3,
        gone=[Gone("xml-deep", f"old.xml{hostile}", f"# levels{hostile}", 4, checked=True)],
    )
    found.sort()
    return found


def test_the_report_page_names_target_time_and_version() -> None:
    moment = datetime(2026, 11, 2, 4, 5, 6, tzinfo=UTC)
    text = Page(render_check(report(), targets=["https://me:secret@shop.example/", "b.xml"], at=moment)).text
    for part in ("https://shop.example/ and 1 more", "2026-11-02T04:05:06Z", f"sitemap-etl {__version__}"):
        assert part in text
    assert "secret" not in text


@pytest.mark.thorough
@needs_browser
def test_the_report_page_fits_a_phone() -> None:
    seen = look(render_check(report()), width=PHONE)
    assert (seen.width, seen.wide) == (PHONE, 0)


def test_the_report_page_omits_empty_columns_and_its_numbers_agree() -> None:
    page = Page(render_check(Report([Finding("bom", "a.xml", 1)], [FileStats("a.xml", "urlset", 5, 10)])))
    assert "file warnings kind entries size a.xml" in page.text
    assert [cell["data-of"] for cell in page.tags("td") if "data-of" in cell][:2] == ["occurrence", "file"]


def test_the_report_page_shows_findings_with_the_most_urgent_and_the_worst_file_first() -> None:
    page = Page(render_check(report()))
    assert page.open == []
    text = page.text
    for part in (
        "1,204 errors, 1 warning",
        "of 5,007 URLs have an error or a warning",
        "1 file could not be read; its URLs are not counted.",
        "3 files, 5,007 URLs, 1.4 MB",
        "1 min 15 s",
        "1 known finding not shown",
        "3 findings, by --select, --ignore or --severity",
        CODES["loc-relative"].fix,
        "/more-8",
        "and 8 more",
        "Gone from the baseline",
        "old.xml",
        "2026-10-01",
    ):
        assert part in text, part
    assert "duplicate" not in text, "what is known is not shown"
    assert text.index("What to do first") < text.index("Problems") < text.index("Files")
    files = text.partition("Open a file to see its problems.")[2]
    assert files.index("a.xml") < files.index("b.xml") < files.index("c.xml")


@pytest.mark.parametrize(
    ("findings", "tone", "headline"),
    [
        ([], "good", "No problems found"),
        ([Finding("loc-tracking", "a.xml")], "good", "No errors or warnings"),
        ([Finding("bom", "a.xml", known=1)], "good", "No new errors or warnings"),
        ([Finding("bom", "a.xml")], "attention", "1 warning"),
        ([Finding("bom", "a.xml", count=2), Finding("loc-relative", "a.xml")], "bad", "1 error, 2 warnings"),
    ],
)
def test_colour_and_headline_show_the_worst_severity(findings: list[Finding], tone: str, headline: str) -> None:
    page = Page(render_check(Report(findings, [FileStats("a.xml", "urlset", 5, 10)])))
    assert [attributes["class"] for attributes in page.tags("header")] == [tone]
    assert headline in page.text


def test_hostile_text_stays_text_and_the_page_fetches_nothing() -> None:
    tame, wild = Page(render_check(report())), Page(render_check(report(HOSTILE)))
    assert [tag for tag, _ in wild.elements] == [tag for tag, _ in tame.elements]
    assert "\u202e" not in "".join(wild.texts)
    assert wild.tags("script") == wild.tags("img") == []
    for tag, attributes in wild.elements:
        assert not any(name.startswith("on") for name in attributes), tag
        assert all((attributes[name] or "").startswith("#") for name in FETCHING & set(attributes)), tag


def test_links_within_the_report_page_have_targets() -> None:
    page = Page(render_check(report()))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    assert {(attributes["href"] or "")[1:] for attributes in page.tags("a")} <= set(ids)


@pytest.mark.thorough
def test_the_report_page_has_a_bounded_size_for_any_sitemaps(tmp_path: Path) -> None:
    for number, broken in enumerate(FILES):
        (tmp_path / f"{number:03}-{broken.name}").write_bytes(broken.data)
    found = check([str(tmp_path)], options=Options(now=NOW, max_bytes=1_000_000, examples=None))
    page = Page(render_check(found))
    assert page.open == []
    assert all(total.code in page.text for total in found.codes())
    many = Report(
        [Finding(code, f"{n}.xml", detail=str(n)) for n in range(2_000) for code in list(CODES)[:60]],
        [FileStats(f"{n}.xml", "urlset") for n in range(2_000)],
    )
    text = render_check(many)
    assert "and 1,500 more files" in text
    assert len(text) < 6_000_000
