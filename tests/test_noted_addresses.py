"""Addresses that are listed although something is odd about them: one line of the summary, and a code of `check`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.frames import Tally
from sitemap_etl.urls import NOTES, UrlRules, canonicalize, noted
from tests.support.examples import examples
from tests.support.sites import TestSite

S = "https://shop.example"
RULES = UrlRules(S)

KINDS: dict[str, list[str]] = {
    "loc with &amp;": ["/a?b=1&amp;c=2", "/rock-&amp;-roll"],
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
    "loc in a wrong encoding": ["/Ã¼ber-uns", "/%C3%83%C2%B6l", "/na√Øve", "/â€“", "/Ã©tÃ©"],
    "loc percent-encoded twice": ["/f%25C3%25BChrung", "/a%2520b", "/a?b=%252F"],
    "loc with an empty segment": ["/en//lamp", f"{S}//l", "/a//", "/.//a"],
    "loc with the host in its path": ["/website/shop.example", "/www.shop.example/f", f"{S}/shop.example?a"],
    "loc with a backslash": ["/docs\\a", f"{S}\\d", "a\\b"],
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
def test_addresses_of_each_kind_are_noted(kind: str) -> None:
    assert notes_of(*PLAIN[:3], *KINDS[kind])[kind] == KINDS[kind]
    assert [notes_of(value).get(kind) for value in KINDS[kind]] == [[value] for value in KINDS[kind]]


def test_every_note_has_examples() -> None:
    assert KINDS.keys() == NOTES.keys()


def test_plain_addresses_are_not_noted() -> None:
    assert notes_of(*PLAIN) == {}
    assert [notes_of(value) for value in PLAIN] == [{}] * len(PLAIN)


EVERY = [*PLAIN, *(value for values in KINDS.values() for value in values)]


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(st.sampled_from(EVERY), min_size=1, max_size=8))
def test_an_address_is_noted_whatever_its_neighbors_are(values: list[str]) -> None:
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


def test_titles_that_were_escaped_before_are_counted(tmp_path: Path) -> None:
    site = TestSite(tmp_path)
    titles = ["Rock &amp; Roll", "It&#039;s", "A &#x2013; B", "AT&T & Co", "a < b", "R&D;"]
    site.section(
        "pages", [{"loc": f"/{n}", "title": title} for n, title in enumerate(titles)], feed={"formats": ["rss"]}
    )
    notes = site.night(1).summary.reasons["pages"]["notes"]
    assert notes.counts == {"title escaped twice": 3}
    assert notes.examples["title escaped twice"][0] == f"{S}/0: Rock &amp; Roll"
