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
def test_a_single_url_with_commas_and_semicolons_is_not_split(url: str) -> None:
    assert read(url, f"{url} {B}") == ([[url], [url, B]], {})


IIIF = "https://iiif.example/2/27992/full/843"


@pytest.mark.parametrize("between", [",", ";", "|"])
@pytest.mark.parametrize(
    "written",
    [
        "{}",
        '["{}"]',
        "['{}']",
        '{{"{}"}}',
        "[{}]",
        '"{}"',
    ],
)
def test_a_separator_before_a_slash_is_part_of_an_absolute_url(between: str, written: str) -> None:
    url = f"{IIIF}{between}/0/default.jpg"
    spelled = url.replace("|", "%7C")
    assert read(written.format(url), A) == ([[spelled], [A]], {})
    assert read(f"{url}, {A}", f"{A},{url}") == ([[spelled, A], [A, spelled]], {})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://c.example/a.jpg,/b.jpg", ["https://c.example/a.jpg", f"{SITE}/b.jpg"]),
        ("https://c.example/a.JPEG;/b", ["https://c.example/a.JPEG", f"{SITE}/b"]),
        ("http://a.jpg,/b", ["http://a.jpg/", f"{SITE}/b"]),
        (f"{IIIF}, /b.jpg", [IIIF, f"{SITE}/b.jpg"]),
        (f"{IIIF} ,/b.jpg", [IIIF, f"{SITE}/b.jpg"]),
        (f"{IIIF}\n/b.jpg", [IIIF, f"{SITE}/b.jpg"]),
        (f"{A},/full/843,/0/d.jpg|/c", [A, f"{SITE}/full/843,/0/d.jpg", f"{SITE}/c"]),
        (f"{A} 2x,/b.jpg 1x", [A, f"{SITE}/b.jpg"]),
        (f"/1,/2;{A}", [f"{SITE}/1", f"{SITE}/2", A]),
    ],
)
def test_white_space_or_the_name_of_an_image_ends_an_absolute_url_before_a_slash(
    text: str, expected: list[str]
) -> None:
    assert read(text, json.dumps([text]), A)[0] == [expected, expected, [A]]


@pytest.mark.parametrize("blank", ["\u00a0", "\u2009", "\u202f", "\u3000", "\ufeff", " \u00a0 ", "\u00a0\u00a0"])
def test_unicode_spaces_around_a_separator_are_removed(blank: str) -> None:
    assert read(f"{A},{blank}{B}", f"{A}{blank};{blank}{B}{blank}", f"{A}{blank}2x", A)[0] == [[A, B], [A, B], [A], [A]]


def test_a_unicode_space_inside_a_url_is_kept() -> None:
    assert read("/a\u00a0b.jpg, /c.jpg")[0] == [[f"{SITE}/a%C2%A0b.jpg", f"{SITE}/c.jpg"]]


@pytest.mark.parametrize(
    ("text", "urls", "words"),
    [
        (f"{A}, NULL", [A], 1),
        (f"{A},NULL", [A], 1),
        (f"{A} | null | ", [A], 1),
        (f"NULL, {A}", [A], 1),
        (f"N/A;{A};nan,undefined, None", [A], 4),
        (f"{A}, NULL, {B}", [A, B], 1),
        ("NULL, NULL", None, 2),
        (f"a.jpg, \\N, {B}", [f"{SITE}/a.jpg", B], 1),
        ("https://c.example/a,nullable", ["https://c.example/a,nullable"], 0),
        ("https://c.example/a,null/b", ["https://c.example/a,null/b"], 0),
    ],
)
def test_words_for_a_missing_value_are_recognized_within_lists(text: str, urls: list[str] | None, words: int) -> None:
    assert read(text, A) == ([urls, [A]], {"image: placeholder": words} if words else {})


@pytest.mark.parametrize(
    "text", [f"- {A}", f"- {A}\n- {B}", f"  - {A}\r\n  - {B}\n", f"* {A}\n* {B}", f'- "{A}"\n- "{B}"', f"- '{A}'"]
)
def test_items_of_a_yaml_list_are_images(text: str) -> None:
    assert read(text, A) == ([[A, B] if B in text else [A], [A]], {})


@pytest.mark.parametrize("about", ["2x", "1.5x", "300w", "2x,", "2x ", "2x ;"])
def test_a_srcset_width_after_a_single_url_is_removed(about: str) -> None:
    assert read(f"{A} {about}", f"/b.jpg  {about}", A)[0] == [[A], [f"{SITE}/b.jpg"], [A]]


def test_urls_of_videos_and_alternates_are_split_like_lists_of_images() -> None:
    media = f"{IIIF},/0/default.jpg"
    video = {"title": "T", "description": "D", "thumbnail_loc": media, "content_loc": f"- {C}, NULL"}
    tally = Tally()
    loc = pa.array([f"{SITE}/0"])
    (found,) = videos(pa.array([[video]]), loc, tally, rules=UrlRules(SITE)).to_pylist()
    assert (found[0]["thumbnail_loc"], found[0]["content_loc"]) == (media, C)
    column = pa.array([json.dumps({"de": f"{SITE}/de/843,/x", "en": f"{SITE}/en/, NULL"})])
    (links,) = alternates(column, tally, loc=loc, rules=UrlRules(SITE)).to_pylist()
    assert [link["href"] for link in links] == [f"{SITE}/de/843,/x", f"{SITE}/en/"]
    assert tally.counts == {}


def test_a_url_that_ends_with_a_comma_and_is_not_a_file_is_kept() -> None:
    assert read("https://img.example/a,") == ([["https://img.example/a,"]], {})


def test_a_url_with_bars_and_spaces_is_not_split() -> None:
    assert read("https://img.example/a|b c.jpg") == ([["https://img.example/a%7Cb%20c.jpg"]], {})


def test_a_data_uri_is_dropped_as_one_image() -> None:
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
def test_lists_written_by_python_postgresql_and_json_are_read(text: str) -> None:
    """They are next to other texts: rows are read together."""
    assert read(text, A, None, json.dumps([B])) == ([[A, B], [A], None, [B]], {})


@pytest.mark.parametrize("text", ["[]", "()", "{}", "[None]", "{NULL}", "['']"])
def test_an_empty_list_has_no_images_and_no_note(text: str) -> None:
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


def test_escapes_and_quotes_in_lists_are_decoded_as_written() -> None:
    names = ["it's.jpg", 'say "a".jpg', "back\\slash.jpg", "größe\u00a0é.jpg", "tab\x41.jpg"]
    paths = [f"/{name}" for name in names]
    array = "{" + ",".join('"' + path.replace("\\", "\\\\").replace('"', '\\"') + '"' for path in paths) + "}"
    as_python, as_postgres, as_json = read(repr(paths), array, json.dumps(paths))[0]
    assert as_python == as_postgres == as_json
    assert len(as_json or []) == len(paths)


def test_the_first_of_several_video_urls_is_used() -> None:
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
def test_the_first_video_url_of_a_list_is_used(written: Callable[[dict[str, Any]], Any]) -> None:
    video = {"title": "T", "description": "D", "thumbnail_loc": [A, B], "content_loc": [C]}
    tally = Tally()
    column = pa.array([written(video)])
    (found,) = videos(column, pa.array([f"{SITE}/0"]), tally, rules=UrlRules(SITE)).to_pylist()
    assert (found[0]["thumbnail_loc"], found[0]["content_loc"]) == (A, C)
    assert tally.counts == {"video thumbnail_loc: several URLs in one text, the first stays": 1}


def test_videos_in_python_notation_are_read_with_tags_in_any_list_notation() -> None:
    video = {"title": "It's", "description": 'A "D"', "thumbnail_loc": A, "content_loc": C, "live": True, "tag": None}
    tally = Tally()
    loc = pa.array([f"{SITE}/{n}" for n in range(4)])
    written = ["['a', 'b']", '["a", "b"]', "{a,b}", "a, b"]
    column = pa.array([repr([video | {"tag": tag, "restriction": "allow ['IE', 'GB']"}]) for tag in written])
    found = [row[0] for row in videos(column, loc, tally, rules=UrlRules(SITE)).to_pylist()]
    assert [one["tag"] for one in found] == [["a", "b"]] * 3 + [["a, b"]]
    assert {(one["title"], one["live"], one["restriction"]["value"]) for one in found} == {("It's", "yes", "IE GB")}
    assert tally.counts == {}


def test_the_first_of_several_urls_of_an_alternate_is_used() -> None:
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
    """Return the URLs of a text, one character class at a time."""
    parts = [part for part in SEPARATOR.split(text) if part]
    trimmed = parts[-1].rstrip(",;| \t\r\n") if parts else ""
    if parts and (len(SEPARATOR.split(text)) > 1 or re.search(r"\.jpg[,;|\s]+$", text)):
        parts[-1] = trimmed
    return [part for part in parts if part]


@settings(max_examples=examples(300))
@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), min_size=1, max_size=6))
def test_columns_are_split_like_single_texts(rows: list[str]) -> None:
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


LIST = [
    "https://a.example/x",
    "HTTP://b.example",
    "/y",
    "/full/843",
    ",",
    ";",
    "|",
    " ",
    "\n",
    "\u00a0",
    "b",
    "c.jpg",
    "d.WebP",
    " 2x",
    " 300w",
    "NULL",
    "n/a",
    "- ",
    "?q=1,2",
]
IMAGE = re.compile(r"\.(jpe?g|png|gif|webp|avif|svg|bmp|tiff?)([ \n]+[0-9.]+[wxh])?\Z", re.IGNORECASE)
WORDS = {"null", "n/a"}


def read_plainly(text: str) -> list[str]:
    """Return the URLs of a text that begins with an absolute URL, character by character."""
    text = re.sub(
        r"(?<=[,;| \n])\u00a0+|\u00a0+\Z|\u00a0+(?=[,;| \n]|[0-9.]+[wxh]\Z|https?:/)", " ", text, flags=re.IGNORECASE
    )
    text = re.sub(r"(?m)^[ \t]*-[ \t]+", "", text)
    found, at = [""], 0
    while at < len(text):
        run = re.match(r"[,;| \n]*", text[at:])
        after = text[at + (run.end() if run else 0) :]
        if not run or not run[0]:
            found[-1] += text[at]
            at += 1
            continue
        is_root = after.startswith("/") and (any(c in run[0] for c in " \n") or IMAGE.search(found[-1]))
        if re.match("https?:/", after, re.IGNORECASE) or is_root:
            found.append("")
        elif after or not (len(found) > 1 or re.search(r"\.(jpg|webp)\Z", found[-1], re.IGNORECASE)):
            found[-1] += run[0]
        at += run.end()
    return [item for piece in found for item in items_of(re.sub(r"[ \n]+[0-9.]+[wxh][,;| \n]*\Z", "", piece))]


def items_of(piece: str) -> list[str]:
    """Return a piece without words for a missing value after it."""
    words: list[str] = []
    while True:
        cut = re.search(r"[ \n]*[,;|][,;| \n]*(null|n/a)[,;| \n]*\Z", piece, re.IGNORECASE)
        if cut is None:
            return [piece, *words] if piece else words
        words.insert(0, cut[1])
        piece = piece[: cut.start()]


def words_last(items: list[str]) -> list[str]:
    """A dropped item leaves no gap in a list."""
    return [one for one in items if one.lower() not in WORDS] + sorted(one for one in items if one.lower() in WORDS)


@settings(max_examples=examples(300))
@given(st.lists(st.lists(st.sampled_from(LIST), max_size=9).map("".join), min_size=1, max_size=6))
def test_the_fast_path_for_lists_that_begin_with_a_url_gives_the_same_result(rows: list[str]) -> None:
    rows = [f"https://img.example/{row}" for row in rows]
    array = pa.array(["x,/y", *rows])[1:]
    found = separated(Elements(pa.array(range(len(rows))).to_numpy(), array, len(rows)))
    split: list[list[str]] = [[] for _ in rows]
    for owner, value in zip(found.owner.tolist(), found.values.to_pylist(), strict=True):
        split[owner].append(value)
    if any(set(row) & set(",;| \n\u00a0") for row in rows):
        assert [words_last(one) for one in split] == [words_last(read_plainly(row)) for row in rows]
    else:
        assert split == [[row] for row in rows]


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
def test_no_text_changes_how_neighboring_rows_are_read(rows: list[str | None]) -> None:
    together = read(*rows)
    alone = [read(row) for row in rows]
    assert together[0] == [images_of for one, _ in alone for images_of in one]
    assert sum(together[1].values()) == sum(sum(counts.values()) for _, counts in alone)


@pytest.mark.parametrize("text", ['{a%s"', "{%sx", '{a "%s}', "{a,%s'}", "[%s'", '{"a"%sx}', "(%s"], ids=range(7))
def test_an_invalid_list_with_a_megabyte_of_spaces_is_scanned_once(text: str) -> None:
    """A reader that tries every space again would take hours."""
    with pytest.raises(ValueError, match="neither JSON nor a list"):
        literals.value_of(text % (" " * 1_000_000))
