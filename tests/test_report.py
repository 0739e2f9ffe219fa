"""The run's report: one self-contained page that shows everything in the summary."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from sitemap_etl import report
from sitemap_etl.frames import Tally
from sitemap_etl.publish.summary import put_summary
from sitemap_etl.report.paper import template
from sitemap_etl.state.codec import decode
from sitemap_etl.state.records import Answered, Summary
from tests.support.browser import look, needs_browser
from tests.support.sites import TestSite, pages

ORIGIN = "https://shop.example"
HOSTILE = "<script>alert(\"1\")</script><img src=x onerror='y'>&\u202e"
VOID = {"meta", "col", "br", "hr", "img", "link", "input"}
FETCHING = {"src", "href", "srcset", "action", "data", "poster", "background", "ping"}


class Page(HTMLParser):
    """A page as a browser reads it: its text, its elements, its attributes, and unclosed elements."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def tags(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.elements if tag == name]


def hostile(value: Any) -> Any:
    """Return the value with hostile text in place of every text, keys included."""
    if isinstance(value, str):
        return f"{value}{HOSTILE}"
    if isinstance(value, dict):
        return {f"{key}{HOSTILE}": hostile(entry) for key, entry in value.items()}
    return [hostile(entry) for entry in value] if isinstance(value, list) else value


def counts(**given: int) -> dict[str, int]:
    names = ("extracted", "carried", "listed", "duplicates", "excluded", "rejected", "added", "changed", "removed")
    return {**dict.fromkeys(names, 0), **given}


def rendered(summary: dict[str, Any]) -> str:
    """Return the page of a summary as stored in the state."""
    return report.render(decode(Summary, summary, "summary.json"))


def summary_of(status: str = "published", **more: Any) -> dict[str, Any]:
    return {
        "run_id": "20261102T020000Z-51f6",
        "name": "shop",
        "site": ORIGIN,
        "now": "2026-11-02T02:00:00Z",
        "status": status,
        "published": status == "published",
        "base": "state/manifest-20261101T020000Z-5f97.json",
        "options": {"sections": ["products"], "full": True, "limit": 77_777},
        "sections": {
            "products": counts(extracted=1_234, listed=1_201, duplicates=11, excluded=12, rejected=10, added=40),
            "articles": counts(carried=815, listed=815),
            "fresh": counts(extracted=30, listed=30),
        },
        "views": ["fresh"],
        "kept": {"articles": "there is no file articles.csv"},
        "reasons": {
            "products": {
                "rejected": {"foreign origin": {"count": 10, "examples": ["https://elsewhere.example/x"]}},
                "excluded": {"sold out": {"count": 12, "examples": ["/hidden"]}},
                "duplicates": {
                    "listed already by a row of this section": {"count": 8, "examples": [f"{ORIGIN}/p/1"]},
                    "listed already by section articles": {"count": 3, "examples": [f"{ORIGIN}/a/1"]},
                },
                "notes": {"lastmod in the future": {"count": 2, "examples": ["2929-01-01"]}},
            }
        },
        "clusters": {"aligned": 771, "notes": {"cluster: a single page": {"count": 43, "examples": [f"{ORIGIN}/de"]}}},
        "examples": {"products": {"added": [f"{ORIGIN}/p/040"], "removed": [f"{ORIGIN}/p/041"]}},
        "files": {"written": 2, "unchanged": 5, "deleted": 1, "to_write": 3},
        "bytes": 104_857_600,
        "index": [f"{ORIGIN}/sitemap.xml"],
        "gates": [
            {"name": "products.max_drop", "status": "refused", "value": 0.155, "limit": 0.1, "message": "would drop 6"},
            {"name": "products.min_urls", "status": "ok", "value": 1_201, "limit": 1, "message": "would list 1,201"},
            {"name": "max_growth", "status": "forced", "value": 3.5, "limit": 1.0, "message": "would add 350 %"},
        ],
        "reason": "range “Winter” discontinued",
        "engines": {
            "indexnow": {
                "engine": "indexnow",
                "status": "partial",
                "sent": 39,
                "message": "one host said no",
                "details": {"left": 7, "none": None},
            }
        },
        "warnings": ["97 % of 40 new lastmods are alike"],
        "error": "Refused: products would drop 6\n  publish: sitemap-etl publish SITE.yaml 20261102T020000Z-51f6",
        "report": "s3://private/shop/reports/20261102T020000Z-51f6/report.html",
        "seconds": {"extract": 12.25, "render": 4_000.0, "total": 4_100.0},
        **more,
    }


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(tmp_path)


def page_of(site: TestSite, run_id: str) -> str:
    return (site.folder / "work" / "shop" / "reports" / run_id / "report.html").read_text()


@pytest.mark.parametrize("status", ["published", "unchanged", "dry_run", "refused", "partial", "failed"])
def test_every_part_of_a_summary_is_shown(status: str) -> None:
    text = Page(rendered(summary_of(status))).text
    for shown in (
        "20261102T020000Z-51f6", "2026-11-02 02:00 UTC", "run 20261101T020000Z-5f97", "only products", "77,777",
        "1,234", "1,201", "fresh (view)", "there is no file articles.csv",
        "foreign origin", "https://elsewhere.example/x", "sold out", "/hidden", "lastmod in the future", "2929-01-01",
        "listed already by a row of this section", "listed already by section articles",
        "771 pages", "cluster: a single page", f"{ORIGIN}/de", f"{ORIGIN}/p/040", f"{ORIGIN}/p/041",
        "104.9 MB", f"{ORIGIN}/sitemap.xml", "15.5 %", "limit 10 %", "would drop 6", "350 %",
        "range “Winter” discontinued",
        "indexnow", "partial", "39", "one host said no", "left: 7", "97 % of 40 new lastmods are alike",
        "publish SITE.yaml 20261102T020000Z-51f6", "12.2 s", "1 h 8 min", "sitemap-etl explain SITE.yaml",
        "s3://private/shop/reports/20261102T020000Z-51f6",
    ):  # fmt: skip
        assert shown in text, shown


def test_the_totals_of_the_site_exclude_views() -> None:
    text = Page(rendered(summary_of())).text
    assert "extracted + reused = listed + duplicates + excluded + rejected." in text
    assert "the site, without views 1,234 815 2,016 11 12 10 40 Kept" in text
    assert "2,016 URLs listed: 40 added, 0 changed, 0 removed." in text


@pytest.mark.parametrize(
    ("status", "more", "headline"),
    [
        ("published", {}, "Published"),
        ("unchanged", {}, "Nothing changed"),
        ("refused", {}, "Refused"),
        ("dry_run", {"error": None}, "Dry run"),
        ("dry_run", {}, "Dry run: a gate would refuse this run"),
        ("partial", {"published": True}, "Partly published"),
        ("partial", {"published": False}, "Nothing changed, but not every section could be read"),
        ("partial", {"kept": {}, "published": True}, "Published. 1 of 1 engine failed: indexnow"),
        ("failed", {}, "Failed"),
    ],
)
def test_the_headline_shows_the_outcome_of_the_run(status: str, more: dict[str, Any], headline: str) -> None:
    page = rendered(summary_of(status, **more))
    assert f"<h1>{headline}</h1>" in page


@pytest.mark.parametrize("depth", ["values", "keys and values"])
def test_hostile_text_stays_text(depth: str) -> None:
    plain = summary_of()
    summary = {key: hostile(value) for key, value in plain.items()}
    if depth == "values":
        for key in ("sections", "kept", "examples", "clusters"):
            summary[key] = plain[key]
    else:
        summary["sections"] = {f"{name}{HOSTILE}": entry for name, entry in plain["sections"].items()}
        summary["kept"] = hostile(plain["kept"])
        summary["examples"] = {f"{name}{HOSTILE}": {f"x{HOSTILE}": [HOSTILE]} for name in plain["sections"]}
        notes = {f"x{HOSTILE}": {"count": 1, "examples": [HOSTILE]}}
        summary["clusters"] = {"aligned": 1, "notes": notes}
    for key in ("files", "options", "views", "status"):
        summary[key] = plain[key]
    entry = {"count": 1, "examples": [HOSTILE]}
    summary["reasons"] = {f"s{HOSTILE}": {kind: {HOSTILE: entry} for kind in ("rejected", "excluded", "notes")}}
    summary["gates"] = [{**gate, "name": gate["name"] + HOSTILE, "message": HOSTILE} for gate in plain["gates"]]
    answer = {"engine": HOSTILE, "status": "partial", "sent": 1, "message": HOSTILE, "details": {HOSTILE: [HOSTILE]}}
    summary["engines"] = {HOSTILE: answer}
    summary["seconds"] = {HOSTILE: 1.0}
    page = Page(rendered(summary))
    assert not page.open
    assert not page.tags("script")
    assert not page.tags("img")
    assert not [link for link in page.tags("a") if not re.match(r"https?://\S+$", link["href"] or "")]
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)
    assert '<script>alert("1")</script>' in page.text


@pytest.mark.parametrize("status", ["published", "refused", "dry_run"])
def test_the_report_loads_nothing_from_other_addresses(status: str) -> None:
    text = rendered(summary_of(status))
    page = Page(text)
    assert not [tag for tag, _ in page.elements if tag in ("script", "link", "img", "iframe", "object", "form", "base")]
    assert not [
        names
        for tag, names in page.elements
        if FETCHING & set(names) and (tag != "a" or FETCHING & set(names) != {"href"})
    ]
    # An address that the source has from a stranger is shown, and no way to go there.
    assert all((link["href"] or "").startswith(f"{ORIGIN}/") for link in page.tags("a"))
    assert "https://elsewhere.example/x" in page.text
    (style,) = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert not re.search(r"url\(|@import|https?:", style)


def test_the_page_can_be_read_with_a_screen_reader() -> None:
    page = Page(rendered(summary_of("refused")))
    assert page.tags("html") == [{"lang": "en"}]
    assert len(page.tags("h1")) == 1
    assert len(page.tags("caption")) == len(page.tags("table")) > 5
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in page.tags("svg"))
    assert all("scope" in attributes for attributes in page.tags("th"))
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    named = [attributes["aria-labelledby"] for _, attributes in page.elements if "aria-labelledby" in attributes]
    assert len(ids) == len(set(ids))
    assert set(named) <= set(ids)


def test_invisible_characters_are_shown_as_escapes() -> None:
    reasons = {"products": {"rejected": {"invisible character": {"count": 1, "examples": ["/a\u200bb\u202e"]}}}}
    assert "/a\\u200bb\\u202e" in Page(rendered(summary_of(reasons=reasons))).text
    written = {"products": {"excluded": {"sold\u202e\x1b[2J": {"count": 1, "examples": ["/a"]}}}}  # by the source
    assert "sold\\u202e\\u001b[2J" in Page(rendered(summary_of(reasons=written))).text


@pytest.mark.thorough
@needs_browser
def test_the_longest_section_name_leaves_all_columns_visible() -> None:
    text = json.dumps(summary_of("refused")).replace("products", "a" * 190)
    assert (seen := look(rendered(json.loads(text)))).width == seen.window
    assert seen.wide == 0


def test_columns_without_values_are_omitted() -> None:
    shape = {"products": {"files": 2, "fill": [0] * 9 + [2], "undated": 0, "ages": [0, 0, 3, 0, 0, 0, 1]}}
    text = Page(rendered(summary_of(shape=shape))).text
    assert "section to 30 days older files fill" in text
    assert "products 75 % 25 % 2" in text


def test_files_that_a_refused_run_would_write_are_shown_without_zeros() -> None:
    files = {"written": 0, "unchanged": 5, "deleted": 0, "to_write": 3, "to_delete": 0}
    text = Page(rendered(summary_of("refused", files=files))).text
    assert "Files to write 3 unchanged 5 index" in text


@pytest.mark.parametrize(("status", "more"), [("forced", True), ("ok", False)])
def test_only_forced_gates_are_shown_as_overridden(status: str, more: bool) -> None:
    gate = {"name": "max_growth", "status": status, "value": 3.5, "limit": 1.0, "message": "would add 350 %"}
    text = Page(rendered(summary_of(gates=[gate], reason="the clock is right"))).text
    assert "Reason given the clock is right" in text
    assert ("Overridden because: the clock is right" in text) == more


def test_only_the_most_frequent_of_many_reasons_are_shown() -> None:
    many = {f"reason {n}": {"count": n, "examples": []} for n in range(1, 1_001)}
    text = Page(rendered(summary_of(reasons={"products": {"excluded": many}}))).text
    assert "reason 1000 1,000" in text
    assert "reason 800 " not in text
    assert "and 800 more reasons" in text


@pytest.mark.parametrize("summary", [{}, {"status": "failed", "error": "x"}, {"status": "published", "sections": {}}])
def test_a_summary_of_an_earlier_version_is_shown(summary: dict[str, Any]) -> None:
    assert "<h1>" in rendered(summary)


def test_every_run_writes_its_report_page_next_to_its_summary(site: TestSite) -> None:
    site.section("products", pages(100))
    first = site.night(1)
    assert "<h1>Published</h1>" in page_of(site, first.run.run_id)
    assert first.summary.report.endswith(f"{first.run.run_id}/report.html")
    assert "<h1>Nothing changed</h1>" in page_of(site, site.night(2).run.run_id)
    site.export("products", pages(50))
    refused = page_of(site, site.night(3).run.run_id)
    assert "<h1>Refused</h1>" in refused
    assert "products would drop 50 of 100 URLs" in refused
    assert "<h1>Dry run: a gate would refuse this run</h1>" in page_of(site, site.night(4, dry_run=True).run.run_id)


def test_the_report_page_shows_later_answers_of_engines(site: TestSite) -> None:
    site.section("products", pages(100))
    done = site.night(1)
    answer = Answered("indexnow", "refused", 0, "the key is wrong")
    put_summary(done.run, replace(done.summary, engines={"indexnow": answer}))
    assert "the key is wrong" in page_of(site, done.run.run_id)


def test_duplicates_are_counted_and_sampled_within_and_across_sections(site: TestSite) -> None:
    site.section("a", [*pages(30), {"loc": "/p/000003"}, {"loc": "/p/000004"}])
    site.section("b", [*pages(20, start=100), {"loc": "/p/000005"}, {"loc": "/p/000100"}])
    done = site.night(1)
    own, other = "listed already by a row of this section", "listed already by section a"
    two = Tally({own: 2}, {own: [f"{ORIGIN}/p/000003", f"{ORIGIN}/p/000004"]})
    assert done.summary.reasons["a"]["duplicates"] == two
    one_each = Tally({own: 1, other: 1}, {own: [f"{ORIGIN}/p/000100"], other: [f"{ORIGIN}/p/000005"]})
    assert done.summary.reasons["b"]["duplicates"] == one_each
    text = Page(page_of(site, done.run.run_id)).text
    assert f"{own} 2 {ORIGIN}/p/000003" in text
    assert f"{other} 1 {ORIGIN}/p/000005" in text


def test_incomplete_clusters_are_in_summary_and_page(site: TestSite) -> None:
    rows = [{"loc": f"/{tag}/{n}", "sku": str(n), "lang": tag} for n in range(5) for tag in ("de", "en")]
    rows += [{"loc": "/de/alone", "sku": "alone", "lang": "de"}, {"loc": "/en/twice", "sku": "0", "lang": "en"}]
    site.section("products", rows, alternates={"group": "sku", "hreflang": "lang"})
    done = site.night(1)
    clusters = done.summary.clusters
    assert clusters.aligned == 10
    assert clusters.notes.examples == {
        "cluster: a single page, which needs no links": [f"{ORIGIN}/de/alone"],
        "cluster: two pages for one language, the first by loc is linked": [f"{ORIGIN}/en/twice"],
    }
    text = Page(page_of(site, done.run.run_id)).text
    assert "10 pages link to" in text
    assert f"needs no links 1 {ORIGIN}/de/alone" in text


def test_no_secret_is_in_summary_or_page(site: TestSite) -> None:
    secret = "0123456789abcdef0123456789abcdef"
    site.environment.environ["INDEXNOW_KEY"] = secret  # type: ignore[index]  # the fixture's own dict
    site.keys["ping"] = {"indexnow": {"key": "${INDEXNOW_KEY}"}}
    site.section("products", pages(30))
    done = site.night(1)
    folder = site.folder / "work" / "shop" / "reports" / done.run.run_id
    for path in folder.iterdir():
        assert secret.encode() not in path.read_bytes(), path.name


def test_compiled_templates_are_cached_like_modules_and_broken_ones_recompiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    site = TestSite(tmp_path / "site").section("p", pages(3))
    page = site.folder / "work" / "shop" / "reports" / "latest.html"

    def made(night: int) -> str:
        template.cache_clear()
        site.night(night, full=True)
        return page.read_text()

    made(1)
    kept = [path for path in tmp_path.rglob("*.pyc") if path.name.startswith("page.html")]
    assert len(kept) == 1
    whole = kept[0].read_bytes()
    made(2)
    assert kept[0].read_bytes() == whole
    for broken in (b"", whole[: len(whole) // 2], b"\0" * 100):
        kept[0].write_bytes(broken)
        assert "<h1>Nothing changed</h1>" in made(3)
        assert kept[0].read_bytes() == whole
    kept[0].unlink()
    kept[0].mkdir()  # where nothing can be kept the page is made all the same
    assert "<h1>Nothing changed</h1>" in made(4)
    template.cache_clear()
