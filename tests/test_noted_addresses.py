"""Suspicious URLs that are listed: a line of the summary, and a code of `check`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.sax.saxutils import escape

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.check import Options, Report, check
from sitemap_etl.frames import Tally
from sitemap_etl.urls import NOTES, UrlRules, canonicalize, noted
from tests.support.examples import examples
from tests.support.sites import FIRST_NIGHT, TestSite

S = "https://shop.example"
RULES = UrlRules(S)

KINDS: dict[str, list[str]] = {
    "loc with &amp;": ["/a?b=1&amp;c=2", "/rock-&amp;-roll", "/a?b=1&AMP;c=2"],
    "loc with a template": [
        *("/undefined", "/blog/undefined", "/null/a", "/products/NaN", "/a?b=None", "/[object Object]"),
        *("/blog/[slug]", "/blog/[...slug]", "/[[...slug]]/a", "/shop/{{ handle }}", "/shop/{id}", "/shop/${id}"),
        *(
            "/shop/:id",
            "/:lang/a",
            "/users/$userID/profile",
            "/shop/%s",
            "/tag/<category>",
            "/{% url 'a' %}",
            "/<%= id %>",
        ),
    ],
    "loc in scientific notation": ["/catalog/9.91214E+15", "/9E+15", "/p-8.9e+19.html", "/p?id=1.5E+12"],
    "loc with a route behind #": ["/#/lamp", "/a#!/b", f"{S}/#/x"],
    "loc in a wrong encoding": [
        "/Ã¼ber-uns",
        "/%C3%83%C2%B6l",
        "/na√Øve",
        "/â€“",
        "/Ã©tÃ©",
        "/Ð¿Ñ€Ð¾",
        "/æ—¥æœ¬",
        "/Î±Î»",
        "/ï»¿a",
    ],
    "loc percent-encoded twice": ["/f%25C3%25BChrung", "/a%2520b", "/a?b=%252F"],
    "loc with an empty segment": ["/en//lamp", f"{S}//l", "/a//", "/.//a"],
    "loc with the host in its path": ["/website/shop.example", "/www.shop.example/f", f"{S}/shop.example?a"],
    "loc with a backslash": ["/docs\\a", f"{S}\\d", "a\\b"],
    "loc with an escaped backslash": ["/docs%5Ca", "/a%5cb?c"],
}
PLAIN = [
    *("/a", "/undefined-behavior", "/nullable", "/None-of-it", "/wiki/Talk:Lamp", "/a:b", "/a/$5-lamp", "/100%25"),
    *(
        "/netflix.com-review",
        "/shop.example.org",
        "/e+15",
        "/9.9E15",
        "/c++11",
        "/größe",
        "/été",
        "/ÃO",
        "/Übergröße",
        "/Ð-þ",
        "/ÆØÅ",
        "/a#b",
        "/a?b=//c",
    ),
    *("/a?b=c\\d", "/R&B", "/a?b=1&c=2", "/a[1]", "/50%25-off", "/%25", "/?u=https://shop.example/a"),
]


def notes_of(*values: str) -> dict[str, list[str]]:
    raw = pa.array(values)
    found = canonicalize(raw, RULES)
    assert found.reason.null_count == len(raw), found.reason
    return {note: [values[row] for row in range(len(raw)) if mask[row]] for note, mask in noted(found.loc, raw, RULES)}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_suspicious_url_is_noted(kind: str) -> None:
    assert notes_of(*PLAIN[:3], *KINDS[kind])[kind] == KINDS[kind]
    assert [notes_of(value).get(kind) for value in KINDS[kind]] == [[value] for value in KINDS[kind]]


def test_template_placeholders_of_many_languages_are_noted() -> None:
    values = ["/a/%(id)s", "/a/<?php echo $id ?>", "/a/<?= $id ?>", "/a/{$slug}"]
    assert notes_of(*values, "/a/(id)s", "/a/$5") == {"loc with a template": values}


def test_suspicious_text_in_a_fragment_is_noted() -> None:
    escaped = ["/a?b=1&#38;c=2", "/a?b=1&#x26;c=2", "/a?b=1&amp;c=2"]
    assert notes_of(*escaped, "/a/#{id}") == {"loc with &amp;": escaped, "loc with a template": ["/a/#{id}"]}


def test_every_note_has_examples() -> None:
    assert KINDS.keys() == NOTES.keys()


def test_ordinary_urls_are_not_noted() -> None:
    assert notes_of(*PLAIN) == {}
    assert [notes_of(value) for value in PLAIN] == [{}] * len(PLAIN)


EVERY = [*PLAIN, *(value for values in KINDS.values() for value in values)]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(EVERY), min_size=1, max_size=8))
def test_a_suspicious_url_is_noted_whatever_its_neighbors(values: list[str]) -> None:
    together = notes_of(*values)
    alone: dict[str, list[str]] = {}
    for value in values:
        for note in notes_of(value):
            alone.setdefault(note, []).append(value)
    assert together == alone


def test_a_run_counts_each_kind_with_an_example(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    site.section(
        "pages", [{"loc": f"/x{row}{value}"} for row, value in enumerate(["/a", *KINDS["loc with a template"]])]
    )
    notes: Tally = site.night(1).summary.reasons["pages"]["notes"]
    (reason,) = notes.ordered()
    assert (reason.text, reason.count) == ("loc with a template", len(KINDS["loc with a template"]))
    assert reason.examples == ("/x1/undefined", "/x2/blog/undefined", "/x3/null/a")
    assert reason.as_dropped() == f"{reason.count} addresses with a template"
    assert site.night(2).summary.reasons["pages"]["notes"] == notes


def test_titles_that_are_already_escaped_are_counted(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    titles = ["Rock &amp; Roll", "It&#039;s", "A &#x2013; B", "AT&T & Co", "a < b", "R&D;"]
    site.section(
        "pages", [{"loc": f"/{n}", "title": title} for n, title in enumerate(titles)], feed={"formats": ["rss"]}
    )
    notes = site.night(1).summary.reasons["pages"]["notes"]
    assert notes.counts == {"title escaped twice": 3}
    assert notes.examples["title escaped twice"][0] == f"{S}/0: Rock &amp; Roll"


# --- what a run notes has a code in `check` ---------------------------------------------------------------------------

CODES = {
    "with &amp;": "loc-escaped-twice",
    "with a template": "loc-placeholder",
    "in scientific notation": "loc-scientific",
    "with a route behind #": "loc-fragment",
    "in a wrong encoding": "loc-mojibake",
    "percent-encoded twice": "loc-encoded-twice",
    "with an empty segment": "loc-empty-segment",
    "with the host in its path": "loc-host-in-path",
    "with a backslash": "loc-backslash",
    "with an escaped backslash": "loc-backslash",
}
"""Code of each note. Fragments and raw backslashes don't leave a run, but others publish them."""
OF_PAGES_ONLY = {"with a route behind #", "with the host in its path"}
REPAIRED = {"with a route behind #", "with a backslash"}


def urlset(folder: Path, entries: list[str]) -> dict[str, int]:
    """Return the codes of a sitemap with these `<url>` contents."""
    namespaces = (
        'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" '
        'xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml" '
        'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
    )
    body = "".join(f"<url>{entry}</url>\n" for entry in entries)
    path = folder / "sitemap.xml"
    path.write_text(f"<urlset {namespaces}>\n{body}</urlset>", encoding="utf-8")
    return counts(checked(str(path), f"{S}/sitemap.xml"))


def checked(target: str, at: str) -> Report:
    return check([target], options=Options(at=at, now=FIRST_NIGHT))


def counts(report: Report) -> dict[str, int]:
    found: Counter[str] = Counter()
    for finding in report.findings:
        found[finding.code] += finding.count
    return dict(found)


def test_every_note_has_a_code() -> None:
    assert {f"loc {note}" for note in CODES} == NOTES.keys()


@pytest.mark.parametrize("note", CODES)
def test_check_finds_the_same_suspicious_urls_in_foreign_files_as_a_run(tmp_path: Path, note: str) -> None:
    values = [value.removeprefix(S) for value in KINDS[f"loc {note}"]]
    entries = [f"<loc>{escape(S + (value if value[0] in '/' + chr(92) else '/' + value))}</loc>" for value in values]
    assert urlset(tmp_path, entries)[CODES[note]] == len(values)


@pytest.mark.parametrize("note", [note for note in CODES if note not in REPAIRED])
def test_check_finds_the_suspicious_urls_that_the_run_noted(tmp_path: Path, note: str) -> None:
    site = TestSite(tmp_path)
    site.section("pages", [{"loc": f"/x{n}{value.removeprefix(S)}"} for n, value in enumerate(KINDS[f"loc {note}"])])
    notes = site.night(1).summary.reasons["pages"]["notes"]
    assert counts(checked(str(tmp_path / "public"), f"{S}/")) == {CODES[note]: notes.counts[f"loc {note}"]}


@pytest.mark.parametrize("note", [note for note in CODES if note not in OF_PAGES_ONLY])
@pytest.mark.parametrize("form", ["text", "json", "video", "alternates"])
def test_suspicious_urls_of_images_videos_and_alternates_are_noted(tmp_path: Path, note: str, form: str) -> None:
    """A run counts them with the page, and `check` finds those that leave it as they are."""
    cdn = "https://cdn.example"
    values = [f"{cdn}/x{n}{value.removeprefix(S)}" for n, value in enumerate(KINDS[f"loc {note}"])]
    form, columns = {
        "text": ("image", [{"images": value} for value in values]),
        "json": ("image", [{"images": json.dumps([f"{cdn}/ok.jpg", {"loc": value}])} for value in values]),
        "video": (
            "video",
            [
                {"videos": json.dumps({"title": "a", "description": "b", "thumbnail_loc": value, "content_loc": cdn})}
                for value in values
            ],
        ),
        "alternates": ("alternate", [{"alternates": json.dumps({"de": value})} for value in values]),
    }[form]
    site = TestSite(tmp_path)
    site.section("pages", [{"loc": f"/p/{n}", **column} for n, column in enumerate(columns)])
    notes = site.night(1).summary.reasons["pages"]["notes"]
    assert notes.counts == {f"{form} {note}": len(values)}
    (reason,) = notes.ordered()
    assert reason.examples[0] == f"{S}/p/0: {values[0]}"
    plural = "" if len(values) == 1 else "s"
    assert reason.as_dropped() == f"{len(values)} {form}{plural} {note}"
    code = "hreflang-unlikely" if form == "alternate" else f"{form}-unlikely"
    found = counts(checked(str(tmp_path / "public"), f"{S}/")).get(code, 0)
    assert found == (0 if note in REPAIRED else len(values))


def test_ordinary_image_urls_are_not_noted(tmp_path: Path) -> None:
    cdn = [
        "https://i0.wp.example/shop.example/a.jpg",
        "https://res.example/fetch/https://shop.example/a.jpg",
        "https://cdn.example/a.jpg?x=//b&y=c%5Cd",
    ]
    site = TestSite(tmp_path)
    site.section("pages", [{"loc": f"/p/{n}", "images": value} for n, value in enumerate(cdn)])
    assert site.night(1).summary.reasons["pages"]["notes"].counts == {}
    assert counts(checked(str(tmp_path / "public"), f"{S}/")) == {}


@pytest.mark.parametrize("form", ["rss", "atom"])
def test_check_finds_the_escaped_titles_that_a_run_noted(tmp_path: Path, form: str) -> None:
    titles = ["Rock &amp; Roll", "It&#039;s", "AT&T & Co"]
    date = "2026-10-31T20:00:00Z"
    rows = [
        {"loc": f"/{n}", "title": title, "publication_date": date, "lastmod": date} for n, title in enumerate(titles)
    ]
    video = json.dumps(
        {"title": titles[0], "description": titles[1], "thumbnail_loc": "/1.jpg", "content_loc": "/1.mp4"}
    )
    site = TestSite(tmp_path)
    site.section("pages", rows, feed={"formats": [form]})
    site.section("news", rows, news={"publication": "Times", "language": "en"})
    site.section("films", [{"loc": "/film", "videos": video}])
    reasons = site.night(1).summary.reasons
    assert reasons["pages"]["notes"].counts == reasons["news"]["notes"].counts == {"title escaped twice": 2}
    films = {"video with a title escaped twice": 1, "video with a description escaped twice": 1}
    assert reasons["films"]["notes"].counts == films
    found = counts(checked(str(tmp_path / "public"), f"{S}/"))
    assert {code: found.get(code) for code in ("news-title-escaped", "video-unlikely")} == {
        "news-title-escaped": 2,
        "video-unlikely": 2,
    }
    feed = f"pages.{form}.xml"
    assert counts(checked(str(tmp_path / "public" / feed), f"{S}/{feed}")) == {"feed-title-escaped": 2}
