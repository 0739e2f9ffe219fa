"""Alternates and their hreflang tags."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from sitemap_etl.extensions import alternates, hreflang_lists, hreflang_tag, hreflang_tags
from sitemap_etl.frames import ALTERNATES, Tally
from sitemap_etl.urls import UrlRules

SITE = "https://shop.example"
LOC = pa.array([f"{SITE}/{n}" for n in range(3)])
DE, EN = ("de", f"{SITE}/de/"), ("en", f"{SITE}/en/")
MAP = pa.map_(pa.string(), pa.string())


def read(column) -> tuple[list, dict[str, int]]:
    tally = Tally()
    result = alternates(column, tally, loc=LOC, rules=UrlRules(SITE))
    assert result.type == ALTERNATES
    result.validate(full=True)
    pairs = [None if row is None else [(link["hreflang"], link["href"]) for link in row] for row in result.to_pylist()]
    return pairs, tally.counts


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ("en", "en"),
        ("EN-us", "en-US"),
        ("de_CH", "de-CH"),
        (" fr-ca ", "fr-CA"),
        ("zh-hant", "zh-Hant"),
        ("ZH-HANS-cn", "zh-Hans-CN"),
        ("X-Default", "x-default"),
        ("x_default", "x-default"),
        ("uk", "uk"),
        ("uk-UA", "uk-UA"),
        ("es-419", None),
        ("en-EU", None),
        ("en-UN", None),
        ("en-UK", None),
        ("UK-GB-x", None),
        ("us", None),
        ("be-nl-be", None),
        ("fil", None),
        ("eng", None),
        ("en-GB-oxendict", None),
        ("zh-Blah", None),
        ("en--US", None),
        ("en-", None),
        ("", None),
        ("default", None),
        ("ｅｎ", None),
    ],
)
def test_language_tags_are_those_of_bcp_47_that_google_accepts(text, tag):
    assert hreflang_tag(text) == tag


def test_each_distinct_language_tag_is_parsed_once_and_invalid_ones_counted():
    tally = Tally()
    column = pa.array(["en", "EN", None, "en-UK", "", "en-UK", "es-419"])
    assert hreflang_tags(column, tally).to_pylist() == ["en", "en", None, None, None, None, None]
    assert tally.to_json() == {
        "alternate: hreflang is no language that Google takes": {"count": 3, "examples": ["en-UK", "es-419"]}
    }


@pytest.mark.parametrize(
    "column",
    [
        pa.array([["en", "de_CH"], None, ["xx"], []]),
        pa.array(['["en", "de_CH"]', None, "xx", ""]),
        pa.ListArray.from_arrays(
            pa.array([0, 2, 3, 4, 4], pa.int32()),
            pa.array(["en", "de_CH", "fr", "xx"]),
            mask=pa.array([False, True, False, False]),
        ),
    ],
)
def test_a_row_may_have_several_languages(column):
    tally = Tally()
    assert hreflang_lists(column, tally).to_pylist() == [["en", "de-CH"], None, None, None]
    assert tally.total == 1


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[EN, DE], None, [DE]], MAP),
        pa.array([[("x", "y")], [EN, DE], None, [DE]], MAP).slice(1),
        pa.array([dict([EN, DE]), None, dict([DE])]),
        pa.array([[{"hreflang": t, "href": u} for t, u in (EN, DE)], None, [{"hreflang": DE[0], "href": DE[1]}]]),
        pa.array([[{"url": u, "lang": t} for t, u in (EN, DE)], None, [{"lang": DE[0], "url": DE[1]}]]),
        pa.array([json.dumps(dict([EN, DE])), None, json.dumps(dict([DE]))]),
        pa.array([json.dumps([{"hreflang": t, "href": u} for t, u in (EN, DE)]), "", json.dumps(dict([DE]))]),
    ],
)
def test_every_form_of_the_column_means_the_same_sorted_by_tag(column):
    assert read(column) == ([[DE, EN], None, [DE]], {})


def test_tags_and_urls_are_made_canonical():
    column = pa.array([[("en_GB", "HTTPS://Shop.Example/ä"), ("X-DEFAULT", "/"), ("fr", "https://autre.example")]], MAP)
    tally = Tally()
    assert alternates(column, tally, rules=UrlRules(SITE)).to_pylist()[0] == [
        {"hreflang": "en-GB", "href": f"{SITE}/%C3%A4"},
        {"hreflang": "fr", "href": "https://autre.example/"},
        {"hreflang": "x-default", "href": f"{SITE}/"},
    ]
    assert tally.total == 0


def test_of_two_alternates_with_the_same_tag_the_first_is_used():
    column = pa.array([[("en", "/1"), ("de", "/2"), ("EN", "/3")], [EN], [("en", "/1")]], MAP)
    assert read(column) == (
        [[("de", f"{SITE}/2"), ("en", f"{SITE}/1")], [EN], [("en", f"{SITE}/1")]],
        {"alternate: two of one hreflang on a page": 1},
    )


def test_an_invalid_alternate_is_dropped_alone_and_counted():
    column = pa.array(
        [json.dumps({"en-UK": "/x", "en": "/1", "de": "ftp://x", "fr": "", "": "/y"}), "{broken", '["en", 3]']
    )
    assert read(column) == (
        [[("en", f"{SITE}/1")], None, None],
        {
            "alternate: hreflang is no language that Google takes": 1,
            "alternate: not http or https": 1,
            "alternate: hreflang is missing": 1,
            "alternates: neither a map of hreflang to URL nor JSON of one": 3,
        },
    )


def test_a_lone_surrogate_in_json_alternates_is_harmless():
    """The address without it is another one."""
    given = pa.array(['{"en": "/\\ud83d1"}', '{"en": "/\\u00001", "de": "/2"}', None])
    assert read(given) == ([None, [("de", f"{SITE}/2")], None], {"alternate: control character": 2})


@pytest.mark.parametrize("column", [pa.array([1, 2, None]), pa.array([["a"], ["b"], None])])
def test_an_unsuitable_column_type_of_alternates_is_counted(column):
    assert read(column)[0] == [None, None, None]
    assert read(column)[1] == {"alternates: neither a map of hreflang to URL nor JSON of one": 2}


def test_columns_without_rows_or_values_have_no_alternates():
    assert read(pa.nulls(3))[0] == [None] * 3
    assert read(pa.array([], MAP))[0] == []
    assert read(pa.array([[], None, []], MAP))[0] == [None] * 3
    assert read(pa.array([{"en": None}, None, {"en": None}], pa.struct([("en", pa.string())])))[0] == [None] * 3
