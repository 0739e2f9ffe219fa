"""Several addresses in one text, and lists that are written as text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.extensions import alternates, images, literals, videos
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.extensions.separated import separated
from sitemap_etl.frames import Tally
from sitemap_etl.urls import UrlRules
from tests.support.examples import examples

SITE = "https://shop.example"
A, B, C = (f"https://img.example/{name}.jpg" for name in "abc")
UNREADABLE = "images: neither a list of URLs nor JSON of one"


def read(*texts: str | None) -> tuple[list[list[str] | None], dict[str, int]]:
    tally = Tally()
    loc = pa.array([f"{SITE}/{n}" for n in range(len(texts))])
    result = images(pa.array(texts, pa.string()), loc, tally, rules=UrlRules(SITE))
    result.validate(full=True)
    return result.to_pylist(), tally.counts


@pytest.mark.parametrize("between", [",", ", ", " ,", ";", "; ", "|", " | ", " ", "\n", "\r\n", "\t", ",,", ",\n "])
def test_urls_with_a_separator_between_them_are_several_images(between: str) -> None:
    assert read(between.join([A, B, C]), A) == ([[A, B, C], [A]], {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"/1.jpg,{A}", [f"{SITE}/1.jpg", A]),
        ("/1.jpg|/2.jpg", [f"{SITE}/1.jpg", f"{SITE}/2.jpg"]),
        (f"{A},//img.example/b.jpg", [A, B]),
        ("HTTPS://img.example/a.jpg,Http://img.example/b", [A, "http://img.example/b"]),
        (f" ,{A}, {B}, ", [A, B]),
        (f"{A},", [A]),
        (f"{A} ;", [A]),
        ("1.jpg, 2.png;x/3.webp", [f"{SITE}/1.jpg", f"{SITE}/2.png", f"{SITE}/x/3.webp"]),
        (f"hat.jpg,{A}", [f"{SITE}/hat.jpg", A]),
        (f"{A} 1x, {B} 1.5x,{C} 300w", [A, B, C]),
        (f"{A} ! alt : Lamp ! title : 1, 2 | {B} ! alt :  ! title : x ! desc :  ! caption : ", [A, B]),
        (f"{A}, data:image/jpeg;base64,/9j/4AAQ", [A]),
    ],
)
def test_lists_of_shops_are_split(text: str, expected: list[str]) -> None:
    assert read(None, text, A)[0] == [None, expected, [A]]


@pytest.mark.parametrize(
    "url",
    [
        "https://img.example/w_100,h_200/a.jpg",
        "https://img.example/a;v=1/b,c",
        "https://img.example/a.jpg,b.jpg",
        "https://img.example/a%20b%2C%20/c.jpg",
        "https://img.example/a,https.jpg",
        "https://img.example/fit=cover/https://img.example/b.jpg",
        "https://img.example/a.php?sizes=1;2,3&x=a,b",
    ],
)
def test_one_url_with_commas_and_semicolons_stays_whole(url: str) -> None:
    assert read(url, f"{url} {B}") == ([[url], [url, B]], {})


def test_a_url_that_ends_with_a_comma_and_is_no_file_stays_whole() -> None:
    assert read("https://img.example/a,") == ([["https://img.example/a,"]], {})


def test_a_url_with_bars_and_blanks_stays_whole() -> None:
    assert read("https://img.example/a|b c.jpg") == ([["https://img.example/a%7Cb%20c.jpg"]], {})


def test_data_in_place_of_an_address_is_left_out_as_one_image() -> None:
    assert read("data:image/jpeg;base64,/9j/4AAQ/x") == ([None], {"image: not http or https": 1})


@pytest.mark.parametrize(
    "text",
    [
        f"['{A}', '{B}']",
        f"('{A}', '{B}',)",
        f"{{'{A}', '{B}'}}",
        f"[{{'loc': '{A}', 'alt': None, 'n': 1.5, 'x': True}}, u'{B}']",
        f"['{A}', \"{B}\"]",
        f"['{A}', None, '{B}']",
        f"{{{A},{B}}}",
        f"{{{A}, NULL ,{B}}}",
        f'{{"{A}",{B}}}',
        f"[0:1]={{{A},{B}}}",
        f"[{A}, {B}]",
        f'"{A}","{B}"',
        json.dumps([f"{A}, {B}"]),
        json.dumps(f"{A}|{B}"),
    ],
)
def test_lists_as_python_postgresql_and_json_write_them_are_read(text: str) -> None:
    """They stand beside other texts: rows are read together."""
    assert read(text, A, None, json.dumps([B])) == ([[A, B], [A], None, [B]], {})


@pytest.mark.parametrize("text", ["[]", "()", "{}", "[None]", "{NULL}", "['']"])
def test_an_empty_list_is_no_image_and_no_fault(text: str) -> None:
    assert read(text, A) == ([None, [A]], {})


@pytest.mark.parametrize(
    "text",
    [
        f"['{A}' '{B}']",
        f"['{A}', '{B}'",
        f"{{{A},{B}",
        f"{{{{{A}}},{{{B}}}}}",
        f"{{'{A}' '{B}'}}",
        f"[datetime('{A}')]",
        "['" * 50_000,
        "{" * 50_000,
        "[(" * 50_000 + ")]" * 50_000,
        "['\\U99999999']",
    ],
)
def test_a_list_that_cannot_be_read_is_dropped_with_its_reason(text: str) -> None:
    tally = Tally()
    loc = pa.array([f"{SITE}/{n}" for n in range(3)])
    result = images(pa.array([json.dumps([A]), text, f"['{B}']"]), loc, tally, rules=UrlRules(SITE))
    assert result.to_pylist() == [[A], None, [B]]
    assert tally.counts == {UNREADABLE: 1}
    assert tally.examples[UNREADABLE] == [text[:300]]


def test_elements_of_native_lists_are_split_too() -> None:
    column = pa.array([[f"{A}, {B}", C], None, [C]])
    loc = pa.array([f"{SITE}/{n}" for n in range(3)])
    assert images(column, loc, Tally(), rules=UrlRules(SITE)).to_pylist() == [[A, B, C], None, [C]]


def test_escapes_and_quotes_in_lists_mean_what_their_writer_meant() -> None:
    names = ["it's.jpg", 'say "a".jpg', "back\\slash.jpg", "größe\u00a0é.jpg", "tab\x41.jpg"]
    paths = [f"/{name}" for name in names]
    array = "{" + ",".join('"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' for path in paths) + "}"
    as_python, as_postgres, as_json = read(repr(paths), array, json.dumps(paths))[0]
    assert as_python == as_postgres == as_json
    assert len(as_json or []) == len(paths)


def test_an_address_of_a_video_is_the_first_of_several() -> None:
    video = {"title": "T", "description": "D", "thumbnail_loc": f"{A}, {B}", "content_loc": f"{C};/v.mp4"}
    tally = Tally()
    loc = pa.array([f"{SITE}/0"])
    (found,) = videos(pa.array([[video]]), loc, tally, rules=UrlRules(SITE)).to_pylist()
    assert (found[0]["thumbnail_loc"], found[0]["content_loc"]) == (A, C)
    assert tally.counts == {
        "video thumbnail_loc: several URLs in one text, the first stays": 1,
        "video content_loc: several URLs in one text, the first stays": 1,
    }


@pytest.mark.parametrize("written", [lambda video: [video], lambda video: json.dumps([video]), repr])
def test_an_address_of_a_video_is_the_first_of_a_list(written: Callable[[dict[str, Any]], Any]) -> None:
    video = {"title": "T", "description": "D", "thumbnail_loc": [A, B], "content_loc": [C]}
    tally = Tally()
    column = pa.array([written(video)])
    (found,) = videos(column, pa.array([f"{SITE}/0"]), tally, rules=UrlRules(SITE)).to_pylist()
    assert (found[0]["thumbnail_loc"], found[0]["content_loc"]) == (A, C)
    assert tally.counts == {"video thumbnail_loc: several URLs in one text, the first stays": 1}


def test_videos_are_read_as_python_prints_them_and_their_tags_as_any_list() -> None:
    video = {"title": "It's", "description": 'A "D"', "thumbnail_loc": A, "content_loc": C, "live": True, "tag": None}
    tally = Tally()
    loc = pa.array([f"{SITE}/{n}" for n in range(4)])
    written = ["['a', 'b']", '["a", "b"]', "{a,b}", "a, b"]
    column = pa.array([repr([video | {"tag": tag, "restriction": "allow ['IE', 'GB']"}]) for tag in written])
    found = [row[0] for row in videos(column, loc, tally, rules=UrlRules(SITE)).to_pylist()]
    assert [one["tag"] for one in found] == [["a", "b"]] * 3 + [["a, b"]]
    assert {(one["title"], one["live"], one["restriction"]["value"]) for one in found} == {("It's", "yes", "IE GB")}
    assert tally.counts == {}


def test_an_alternate_is_the_first_of_several_addresses() -> None:
    column = pa.array([repr({"de": f"{SITE}/de/ | {SITE}/at/", "en": "/en/"}), json.dumps({"de": "/d,e/"})])
    tally = Tally()
    loc = pa.array([f"{SITE}/0", f"{SITE}/1"])
    found = alternates(column, tally, loc=loc, rules=UrlRules(SITE)).to_pylist()
    links = [[(link["hreflang"], link["href"]) for link in row] for row in found]
    assert links == [[("de", f"{SITE}/de/"), ("en", f"{SITE}/en/")], [("de", f"{SITE}/d,e/")]]
    assert tally.counts == {"alternate: several URLs in one text, the first stays": 1}


PIECES = ["https://a.example/x", "/y", ",", ";", "|", " ", "\n", "b", "c.jpg", "http", "://", "é", "?q=1"]
SEPARATOR = re.compile(r"[,;| \t\r\n]+(?=(?i:https?:/|data:)|/)")


def by_hand(text: str) -> list[str]:
    """The addresses of a text, one character class at a time."""
    parts = [part for part in SEPARATOR.split(text) if part]
    trimmed = parts[-1].rstrip(",;| \t\r\n") if parts else ""
    if parts and (len(SEPARATOR.split(text)) > 1 or re.search(r"\.jpg[,;|\s]+$", text)):
        parts[-1] = trimmed
    return [part for part in parts if part]


@settings(max_examples=examples(300))
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=1, max_size=6))
def test_whole_columns_are_split_as_single_texts_are(rows: list[str]) -> None:
    rows = [f"/{row}" if row else row for row in rows]  # what begins with a name is a list of names
    array = pa.array(["x,/y", *rows])[1:]
    found = separated(Elements(pa.array(range(len(rows))).to_numpy(), array, len(rows)))
    split: list[list[str]] = [[] for _ in rows]
    for owner, value in zip(found.owner.tolist(), found.values.to_pylist(), strict=True):
        split[owner].extend([value] if value else [])
    if any(set(row) & set(",;| \n") for row in rows):
        assert split == [by_hand(row) for row in rows]
    else:
        assert split == [[row] if row else [] for row in rows]


ODD = [
    A,
    "/y.jpg",
    *",;| \n[]{}'\":\\",
    "b.jpg",
    "NULL",
    "None",
    "é",
    "\x01",
    "http://",
    "/9j/",
    "1x",
    " ! alt : x",
    "base64,",
]


@settings(max_examples=150)
@given(st.lists(st.none() | st.lists(st.sampled_from(ODD), max_size=7).map("".join), min_size=1, max_size=5))
def test_no_text_changes_what_is_read_of_its_neighbours(rows: list[str | None]) -> None:
    together = read(*rows)
    alone = [read(row) for row in rows]
    assert together[0] == [images_of for one, _ in alone for images_of in one]
    assert sum(together[1].values()) == sum(sum(counts.values()) for _, counts in alone)


@pytest.mark.parametrize("text", ['{a%s"', "{%sx", '{a "%s}', "{a,%s'}", "[%s'", '{"a"%sx}', "(%s"], ids=range(7))
def test_a_broken_list_with_a_megabyte_of_blanks_is_read_once(text: str) -> None:
    """A reader that tries every blank again would take hours."""
    with pytest.raises(ValueError, match="neither JSON nor a list"):
        literals.value_of(text % (" " * 1_000_000))
