"""A page is listed in one spelling, in whatever spelling the source has it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from tests.support.sites import TestSite, pages


@pytest.fixture
def site(tmp_path: Path) -> TestSite:
    return TestSite(
        tmp_path, urls={"same_as": ["http://old.example", "https://www.shop.example"], "strip": ["tracking"]}
    )


# --- a slash at the end ------------------------------------------------------------------------------


def test_pages_with_and_without_a_slash_are_two_pages_and_an_unchanged_run_renders_neither(site: TestSite) -> None:
    site.section("a", [{"loc": "/p/1"}, {"loc": "/p/1/"}]).section("b", [{"loc": "/p/1-b"}, {"loc": "/p/2/"}])
    first = site.night(1)
    assert len(site.public().locs()) == 4
    assert not any("slash" in text for text in first.summary.warnings)
    assert site.night(2).run.partition().quiet.keys() == {"a", "b"}


# --- rows of another site ------------------------------------------------------------------------------


@pytest.mark.parametrize(("there", "more", "warned"), [(6, 0, True), (5, 0, False), (5, 1, False), (6, 1, True)])
def test_rows_mostly_on_another_origin_are_reported_with_the_setting_to_add(
    site: TestSite, there: int, more: int, warned: bool
) -> None:
    rows = [f"https://new.example/{n}" for n in range(there)] + [f"https://other.example/{n}" for n in range(more)]
    rows += [f"/p/{n}" for n in range(11 - more - there if there == 6 else 10 - more - there)]
    done = site.section("p", [{"loc": loc} for loc in rows], gates={"max_rejected": 1}).night(1)
    found = [text for text in done.summary.warnings if "rows are on" in text]
    said = f"p: {there:,} of {len(rows):,} rows are on https://new.example, not on https://shop.example."
    assert [text.startswith(said) for text in found] == [True] * warned
    assert all("urls: {same_as: [https://new.example]}" in text for text in found)


# --- pages that other columns name -------------------------------------------------------------------


def test_alternates_on_the_site_are_normalized_like_its_pages(site: TestSite) -> None:
    links = {
        "de": "http://old.example/de?utm_source=x&a=1",
        "en": "https://www.shop.example:443/en",
        "fr": "/fr?gclid=1",
        "it": "https://other.example/it?utm_source=x",
    }
    site.section("p", [{"loc": "http://old.example/de?a=1&utm_source=x", "alternates": json.dumps(links)}])
    site.night(1)
    (entry,) = site.public().entries()
    assert entry.loc == "https://shop.example/de?a=1"
    assert entry.alternates == {
        "de": "https://shop.example/de?a=1",
        "en": "https://shop.example/en",
        "fr": "https://shop.example/fr",
        "it": "https://other.example/it?utm_source=x",
    }


def test_images_and_videos_on_the_site_are_normalized_like_its_pages(site: TestSite) -> None:
    video = {
        "thumbnail_loc": "http://old.example/t.jpg?utm_source=x",
        "title": "T",
        "description": "D",
        "content_loc": "http://old.example/v.mp4?gclid=1",
        "player_loc": "http://old.example/p/1?utm_source=x",
        "uploader": "U",
        "uploader_info": "http://old.example/u?utm_source=x",
    }
    row = {"loc": "/p/1", "images": "http://old.example/i.jpg?utm_source=x", "videos": json.dumps(video)}
    done = site.section("p", [row]).night(1)
    xml = site.public().read(site.load().publish.at + "sitemap-p-00001.xml.gz")
    text = gzip.decompress(xml).decode()
    for kept in (
        ">https://shop.example/i.jpg<",
        ">https://shop.example/t.jpg<",
        ">https://shop.example/v.mp4<",
    ):
        assert kept in text
    assert '<video:uploader info="https://shop.example/u">U' in text
    assert "player_loc" not in text
    assert done.summary.reasons["p"]["notes"].counts == {"video player_loc: is the page itself": 1}


@pytest.mark.parametrize(("before", "after"), [("", "0"), ("0", ""), ("", "false"), ("", None)])
def test_mobile_that_turns_from_null_to_false_is_no_change(site: TestSite, before: str, after: str | None) -> None:
    site.section("p", pages(3, mobile=before))
    site.night(1)
    site.section("p", pages(3, **({} if after is None else {"mobile": after})))
    assert site.night(2).summary.status == "unchanged"
    site.section("p", pages(3, mobile=lambda n: "1" if n else ""))
    assert site.night(3).summary.sections["p"].changed == 2


# --- reasons ------------------------------------------------------------------------------------------


def test_a_row_without_a_loc_is_reported_by_its_row_number(site: TestSite) -> None:
    done = site.section(
        "p", [{"loc": "/a", "t": "x"}, {"loc": "", "t": "x"}, {"loc": "  ", "t": "x"}], gates={"max_rejected": 1}
    ).night(1)
    tally = done.summary.reasons["p"]["rejected"]
    file = site.folder / "p.csv"
    assert tally.examples == {"missing loc": [f"line 3 of {file}", f"line 4 of {file}"]}


def test_a_value_that_was_dropped_is_reported_with_its_page(site: TestSite) -> None:
    row = {"loc": "/a", "lastmod": "01.09.2026", "priority": "high", "changefreq": "often", "sold": "many"}
    site.section("pages", [row])
    site.section("others", [{**row, "loc": "/b"}], priority={"percentile_of": "sold"})
    reasons = site.night(1).summary.reasons
    told = {one.text: one.examples for one in reasons["pages"]["notes"].ordered()}
    assert told == {
        "lastmod not a date": ("https://shop.example/a: 01.09.2026",),
        "priority not a number": ("https://shop.example/a: high",),
        "changefreq not a word of the protocol": ("https://shop.example/a: often",),
    }
    signal = [one for one in reasons["others"]["notes"].ordered() if one.text == "signal not a number"]
    assert [(one.count, one.examples) for one in signal] == [(1, ("https://shop.example/b: many",))]


def test_extensions_too_large_for_any_file_are_reported_as_notes(site: TestSite) -> None:
    images = json.dumps([f"/i/{n:0100}.jpg" for n in range(100)])
    done = site.section("p", [{"loc": "/a", "images": images}, {"loc": "/b"}], shards={"bytes": 10_000}).night(1)
    reasons = done.summary.reasons["p"]
    assert reasons["duplicates"].counts == {}
    assert reasons["notes"].examples == {"extensions over the byte limit of a file": ["https://shop.example/a"]}
