"""The report next to earlier ones: charts of the last runs, usual ranges, and links between the pages."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl import report
from sitemap_etl.dates import instant
from sitemap_etl.errors import SitemapEtlError
from sitemap_etl.publish.shape import AGES
from sitemap_etl.report import Around
from sitemap_etl.report.page import AGE_NAMES
from sitemap_etl.state.codec import decode
from sitemap_etl.state.records import Answered, Attempt, Counts, Summary
from tests.support.browser import PHONE, look, needs_browser
from tests.support.command import call
from tests.support.sites import FIRST_NIGHT, TestSite, pages
from tests.test_report import HOSTILE, Page, hostile, summary_of

REFUSED = 9
"""The night of the runs below that was refused."""


def attempt(night: int, listed: int = 1_000, **more: Any) -> Attempt:
    moment = FIRST_NIGHT + timedelta(days=night - 1)
    run_id = f"{moment:%Y%m%dT%H%M%SZ}-0000"
    counts = Counts(extracted=listed, listed=listed, added=10 + night % 3, changed=20)
    given: dict[str, Any] = {
        "status": "published",
        "sections": {"products": counts},
        "seconds": {"render": 2.0, "total": 4.0},
    }
    return Attempt(run_id, instant(moment), instant(moment), report="x", **{**given, **more})


def runs(last: Attempt | None = None, count: int = 30) -> list[Attempt]:
    found = [attempt(night, 1_000 + night) for night in range(1, count)]
    if count > REFUSED:
        found[REFUSED - 1] = attempt(REFUSED, 10, status="refused", error="products would drop")
    return [*found, last or attempt(count, 1_000 + count)]


def rendered(around: Around, **more: Any) -> str:
    own = around.runs[-1].run_id if around.runs else "20261102T020000Z-51f6"
    return report.render(decode(Summary, summary_of(**{**more, "run_id": own}), "summary.json"), around)


def test_the_counts_of_a_run_are_added_once() -> None:
    run = attempt(1, sections={"products": Counts(listed=2), "news": Counts(listed=3), "recent": Counts(listed=9)})
    views = replace(run, views=("recent",))
    assert (run.total.listed, views.total.listed) == (14, 5)
    assert run.total is run.total
    assert replace(run) == run


# --- what is usual ------------------------------------------------------------------------------------


def test_thirty_runs_are_shown_with_the_usual_ranges() -> None:
    page = Page(rendered(Around(runs())))
    assert "listed 1,030 usually 1,001 to 1,029" in page.text
    assert "added 10 usually 10 to 12" in page.text
    assert "unusually" not in page.text
    labels = [picture["aria-label"] for picture in page.tags("svg")]
    assert "listed: 1,030, usually 1,001 to 1,029; 30 runs" in labels
    assert page.text.count("refused") >= 1


@pytest.mark.parametrize(
    ("listed", "said"), [(700, "unusually few"), (1_400, "unusually many"), (1_035, ""), (990, "")]
)
def test_an_unusual_run_is_marked(listed: int, said: str) -> None:
    text = Page(rendered(Around(runs(attempt(30, listed))))).text
    found = re.search(r"listed [0-9,]+ (unusually \w+)?", text)
    assert found
    assert (found[1] or "") == said


def test_there_are_no_usual_ranges_for_a_few_runs() -> None:
    text = Page(rendered(Around(runs(count=5)))).text
    assert "usually" not in text.replace("what it usually takes", "").replace("usually relative", "")


def test_a_single_run_has_no_charts() -> None:
    page = Page(rendered(Around([attempt(1)])))
    assert "Is this normal?" not in page.text
    assert not page.tags("svg")


def test_charts_show_reasons_engines_and_stages_over_time() -> None:
    google = {"indexes": {"https://shop.example/sitemap.xml": {"errors": 3, "warnings": 0}}}
    answer = {"search_console": Answered("search_console", "accepted", 1, "", google)}
    late = {"search_console": Answered("search_console", "unavailable", 0, "")}
    shown = [
        attempt(n, rejected={"products": {"missing loc": n, "foreign origin": 1}}, engines=late if n == 4 else answer)
        for n in range(1, 11)
    ]
    page = Page(rendered(Around(shown)))
    labels = [str(picture["aria-label"]) for picture in page.tags("svg")]
    assert "missing loc: 10, usually 1 to 9; 10 runs" in labels
    assert "search_console: asked 10 times, failed 1 times" in labels
    assert "errors that Google reports: 3, usually 3; 10 runs" in labels
    assert "render 1 h 6 min 2.0 s" in page.text  # what it took, and what it usually takes


def test_the_numbers_behind_charts_are_a_table_with_links_to_other_runs() -> None:
    page = Page(rendered(Around(runs(count=4), earlier="E", later="L")))
    ways = [link["href"] for link in page.tags("a") if str(link["href"]).startswith("../")]
    assert ways[:4] == ["../E/report.html", "../L/report.html", "../latest.html", "../index.html"]
    assert "../20261101T020000Z-0000/report.html" in ways
    assert [row for row in page.tags("tr") if row.get("aria-current") == "page"]


# --- pages and files ----------------------------------------------------------------------------------


def test_charts_show_the_age_of_dates_and_the_fill_of_files(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    days = [0] * 10 + [5] * 20 + [200] * 60 + [2_000] * 10
    rows = [
        {"loc": f"/p/{n}", "lastmod": (FIRST_NIGHT - timedelta(days=age)).date().isoformat()}
        for n, age in enumerate(days)
    ]
    site.section("products", [*rows, *({"loc": f"/q/{n}", "lastmod": ""} for n in range(25))], shards={"rows": 100})
    shape = site.night(1).summary.shape["products"]
    assert (shape.files, shape.undated, sum(shape.fill)) == (2, 25, 2)
    assert sum(shape.ages) == pytest.approx(100, abs=3)  # each is rounded
    assert shape.ages[0] == pytest.approx(10, abs=6)
    assert shape.ages[1] == pytest.approx(20, abs=6)
    assert shape.ages[4] == pytest.approx(60, abs=8)
    assert shape.ages[6] == pytest.approx(10, abs=6)
    assert len(AGE_NAMES) == 1 + len(AGES) + 1  # none, and older
    # The least, nine deciles and the greatest, of those files that have dates.
    assert {len(entry.days) for entry in site.manifest().entries if entry.days} == {11}
    again = site.night(2).summary  # nothing was rendered: what the files hold is remembered
    assert (again.status, again.shape["products"].undated) == ("unchanged", 25)


# --- from page to page --------------------------------------------------------------------------------


def reports(site: TestSite) -> Path:
    return site.folder / "work" / "shop" / "reports"


def ways(path: Path) -> dict[str, str]:
    """Return the links of a page to other pages of runs, by their text; each leads to a file."""
    text = path.read_text()
    nav = text[text.index("<nav") : text.index("</nav>")] if "<nav" in text else ""
    found = dict(re.findall(r'<a href="([^"]+)">([^<]+)</a>', nav))
    for way in found:
        assert (path.parent / way).resolve().is_file(), way
    return {words: way for way, words in found.items()}


def test_the_report_links_to_earlier_and_later_runs(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(100))
    first, second = site.night(1).run.run_id, site.night(2).run.run_id
    site.export("products", pages(10))
    third = site.night(3).run.run_id
    folder = reports(site)
    assert ways(folder / first / "report.html")["Later run"] == f"../{second}/report.html"
    assert ways(folder / second / "report.html") == {
        "Earlier run": f"../{first}/report.html",
        "Later run": f"../{third}/report.html",
        "Latest run": "../latest.html",
        "All runs": "../index.html",
    }
    assert ways(folder / "latest.html")["Earlier run"] == f"{second}/report.html"
    assert "<h1>Refused</h1>" in (folder / "latest.html").read_text()
    assert (folder / first / "report.html").read_text().count(second) == 1  # its nights are those up to its own


def test_a_dry_run_is_shown_only_on_its_own_page(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(100))
    first = site.night(1).run.run_id
    site.export("products", pages(110))
    tried = site.night(2, dry_run=True).run.run_id
    third = site.night(3).run.run_id
    folder = reports(site)
    assert ways(folder / tried / "report.html")["Earlier run"] == f"../{first}/report.html"
    assert ways(folder / third / "report.html")["Earlier run"] == f"../{first}/report.html"


def test_the_page_of_all_runs_includes_failed_ones(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(100))
    first = site.night(1).run.run_id
    (site.folder / "products.csv").unlink()
    with pytest.raises(SitemapEtlError) as failed:
        site.night(2)
    page = Page((reports(site) / "index.html").read_text())
    assert page.tags("title")
    assert "shop: Failed" in page.text
    assert str(failed.value) in page.text
    assert f"{first}/report.html" in [link["href"] for link in page.tags("a")]
    assert ways(reports(site) / "index.html") == {"Latest run": "latest.html"}


def test_commands_name_the_site_file_that_was_used(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(100))
    assert call("run", site.path).code == 0
    site.export("products", pages(10))
    call("run", site.path)
    text = Page((reports(site) / "latest.html").read_text()).text
    assert f"sitemap-etl explain {site.path} " in text
    assert f"sitemap-etl publish {site.path} 2" in text
    assert "SITE.yaml" not in text


def test_examples_link_to_their_pages_and_nowhere_else(tmp_path: Path) -> None:
    examples = [
        "javascript:alert(1)",
        "/relative",
        "https://shop.example/a b",
        "https://shop.example/ok",
        f"x{HOSTILE}",
    ]
    reasons = {"products": {"rejected": {"odd": {"count": 5, "examples": examples}}}}
    page = Page(report.render(decode(Summary, summary_of(reasons=reasons, examples={}, clusters={}), "summary.json")))
    assert [link["href"] for link in page.tags("a")] == ["https://shop.example/ok"]
    assert "javascript:alert(1)" in page.text


def test_a_forgotten_url_is_in_no_page(tmp_path: Path) -> None:
    site = TestSite(tmp_path).section("products", pages(100))
    site.night(1)
    site.export("products", pages(10, start=90))
    site.night(2)
    site.night(3, force=("products.max_drop",), reason="meant")
    told = re.findall(r"https://shop\.example/p/\d+", (reports(site) / "latest.html").read_text())
    assert told
    assert call("state", "forget", site.path, "--url", told[0]).code == 0
    for path in reports(site).rglob("*.html"):
        assert told[0] not in path.read_text(), path


def test_every_report_page_stays_small(tmp_path: Path) -> None:
    many = {f"section_{n}": Counts(extracted=10**9, listed=10**9, rejected=5) for n in range(50)}
    shown = [attempt(n, sections=many, rejected={name: {f"reason {n}": 1} for name in many}) for n in range(1, 31)]
    assert len(rendered(Around(shown), sections={name: vars(count) for name, count in many.items()})) < 1_000_000
    year = [attempt(n, sections=many) for n in range(1, 101)]
    assert len(report.render_index("shop", "https://shop.example", year, [])) < 1_000_000


# --- in a browser -------------------------------------------------------------------------------------


def everything(text: str) -> tuple[str, str]:
    """Return the page of a run and that of all runs, with this text everywhere."""
    name = f"products{text}"
    shown = [
        attempt(
            n,
            status="refused" if n == 4 else "published",
            error=f"no{text}",
            rejected={name: {f"reason{text}": 3}},
            engines={f"engine{text}": Answered("x", "accepted", 1, text)},
            sections={name: Counts(extracted=n, listed=n)},
        )
        for n in range(1, 12)
    ]
    summary = summary_of(shape={name: {"files": 3, "fill": [1, 0, 2], "ages": [1, 2, 3, 4, 5, 6, 7], "undated": 2}})
    if text:
        for key in ("reasons", "examples", "kept", "warnings", "error", "index", "gates"):
            plain = summary[key]
            summary[key] = hostile(plain) if key != "gates" else [{**gate, "message": text} for gate in plain]
        summary["reasons"] = {name: {"rejected": {text: {"count": 1, "examples": [text]}}}}
    page = report.render(decode(Summary, summary, "s"), Around(shown, earlier="e", later="l"))
    return page, report.render_index(f"shop{text}", f"https://shop.example{text}", shown, [shown[0].run_id])


@pytest.mark.thorough
@needs_browser
@pytest.mark.parametrize("which", [0, 1], ids=["run", "index"])
def test_hostile_text_is_harmless_in_a_real_browser(which: int) -> None:
    seen = look(everything(HOSTILE)[which])
    assert (seen.scripts, seen.images, seen.frames, seen.loaded) == (0, 0, 0, [])
    assert '<script>alert("1")</script>' in seen.text


@pytest.mark.thorough
@needs_browser
@pytest.mark.parametrize("which", [0, 1], ids=["run", "index"])
def test_a_phone_shows_the_page_without_scrolling_sideways(which: int, tmp_path: Path) -> None:
    seen = look(everything("")[which], width=PHONE, picture=tmp_path / "phone.png")
    assert (seen.window, seen.width, seen.wide) == (PHONE, PHONE, 0)
    assert seen.focusable
    assert (tmp_path / "phone.png").stat().st_size > 20_000


@pytest.mark.thorough
@needs_browser
def test_the_page_is_light_or_dark_as_the_reader_likes(tmp_path: Path) -> None:
    page = everything("")[0]
    light = look(page, picture=tmp_path / "light.png")
    dark = look(page, dark=True, picture=tmp_path / "dark.png")
    assert (light.paper, dark.paper) == ("rgb(255, 255, 255)", "rgb(20, 23, 27)")
    assert (tmp_path / "light.png").read_bytes() != (tmp_path / "dark.png").read_bytes()
