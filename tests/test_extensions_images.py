"""Images: from every column type, valid images are published."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl.extensions import images
from sitemap_etl.frames import IMAGES, Tally
from sitemap_etl.urls import UrlRules
from tests.support.examples import examples

SITE = "https://shop.example"
LOC = pa.array([f"{SITE}/{n}" for n in range(3)])
A, B = "https://img.example/a.jpg", "https://img.example/b.jpg"


RULES = UrlRules(SITE)


def read(column, loc=LOC, rules=RULES) -> tuple[list, dict[str, int]]:
    tally = Tally()
    result = images(column, loc, tally, rules=rules)
    assert result.type == IMAGES
    result.validate(full=True)
    return result.to_pylist(), tally.counts


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[A, B], None, [B]]),
        pa.array([[A, B], None, [B]], pa.large_list(pa.large_string())),
        pa.array([[A, B], None, [B, None]], pa.list_(pa.string(), 2)),
        pa.array([[A, B], None, [B]], pa.list_view(pa.string_view())),
        pa.array([[A, B], None, [B]], pa.list_(pa.binary())),
        pa.array([[A, B], None, [B]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
        pa.array([[{"loc": A}, {"loc": B}], None, [{"loc": B}]]),
        pa.array([json.dumps([A, B]), None, json.dumps([B])]),
        pa.array([json.dumps([A, {"loc": B}]), " ", B]),
        pa.array([json.dumps([A, B]), "null", json.dumps(B)]).dictionary_encode(),
        pa.chunked_array([[[A, B]], [None, [B]]]),
        pa.array([["x"], [A, B], None, [B]]).slice(1),
    ],
)
def test_images_are_read_alike_from_every_column_type(column):
    assert read(column) == ([[A, B], None, [B]], {})


def test_list_values_under_a_null_row_are_not_read():
    hidden = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 4], pa.int32()), pa.array([A, "x", "y", B]), mask=pa.array([False, True, False])
    )
    assert read(hidden) == ([[A], None, [B]], {})


def test_urls_are_made_canonical_on_any_host_and_relative_ones_joined_to_the_site():
    column = pa.array([["HTTPS://IMG.Example:443/ä b.jpg"], ["/c.jpg", "d.jpg"], ["//cdn.example/e.jpg"]])
    assert read(column)[0] == [
        ["https://img.example/%C3%A4%20b.jpg"],
        [f"{SITE}/c.jpg", f"{SITE}/d.jpg"],
        ["https://cdn.example/e.jpg"],
    ]


def test_an_image_url_is_rejected_for_the_same_reasons_as_a_loc():
    column = pa.array([["shop.example/a.jpg", "#top"], ["?size=2", "https://shop.example#top"], ["img.example/a.jpg"]])
    assert read(column) == (
        [None, [f"{SITE}/?size=2", f"{SITE}/"], [f"{SITE}/img.example/a.jpg"]],
        {"image: scheme missing": 1, "image: missing loc": 1},
    )


def test_an_image_on_an_origin_of_the_site_is_normalized_like_its_pages():
    rules = UrlRules(SITE, same_as=("https://old.example",))
    column = pa.array([["https://old.example/a.jpg", "old.example/b.jpg"], ["https://img.example/c.jpg"], ["d.jpg"]])
    assert read(column, rules=rules) == (
        [[f"{SITE}/a.jpg"], ["https://img.example/c.jpg"], [f"{SITE}/d.jpg"]],
        {"image: scheme missing": 1},
    )


def test_an_invalid_image_is_dropped_alone_and_counted_with_its_page():
    tally = Tally()
    result = images(pa.array([[A, "ftp://x/y.jpg"], ["mailto:a@b"], ["", None]]), LOC, tally, rules=UrlRules(SITE))
    assert result.to_pylist() == [[A], None, None]
    assert tally.to_json() == {
        "image: not http or https": {
            "count": 2,
            "examples": [f"{SITE}/0: ftp://x/y.jpg", f"{SITE}/1: mailto:a@b"],
        }
    }


@pytest.mark.parametrize("word", ["NULL", "None", "\\N", "NaN", "#N/A", " null"])
@pytest.mark.parametrize("rules", [None, UrlRules(SITE)], ids=["no site", "a site"])
def test_a_word_for_a_missing_value_is_not_an_image(word, rules):
    assert read(pa.array([[A, word], [B], None]), rules=rules) == ([[A], [B], None], {"image: placeholder": 1})


def test_a_word_for_a_missing_value_is_not_an_image_in_a_text_column():
    assert read(pa.array([A, "NULL", "\\N"])) == ([[A], None, None], {"image: placeholder": 2})


def test_without_a_site_a_relative_url_is_not_an_image():
    assert read(pa.array([["/c.jpg"], None, None]), rules=None) == ([None, None, None], {"image: not absolute": 1})


def test_an_image_is_listed_once_per_page_and_on_every_page():
    column = pa.array([[A, B, A, "https://IMG.example/a.jpg"], [A], [B, B]])
    assert read(column) == ([[A, B], [A], [B]], {"image: twice on a page": 3})


def test_at_most_the_first_thousand_images_of_a_page_are_listed():
    urls = [f"https://img.example/{n}.jpg" for n in range(1_002)]
    result, counts = read(pa.array([urls, [urls[0], *urls[:1_000]], None]))
    assert result == [urls[:1_000], urls[:1_000], None]
    assert counts == {"image: more than 1,000 on a page": 2, "image: twice on a page": 1}


@pytest.mark.parametrize(
    ("text", "expected", "count"),
    [
        ('["https://img.example/a.jpg"', None, 1),
        ('["https://img.example/a.jpg"],["https://img.example/b.jpg"]', None, 1),
        ('["https://img.example/a.jpg", 3, null, {"loc": null}]', [A], 2),
        ('{"loc": "https://img.example/a.jpg"}', [A], 0),
        ('["https://img.example/\\ud83da.jpg"]', None, 1),
        ('["https://img.example/\\u0000a.jpg", "https://img.example/a.jpg"]', [A], 1),
        ("[" * 100_000, None, 1),
        ("[NaN]", None, 1),
        ("[]", None, 0),
    ],
)
def test_invalid_json_drops_only_the_images_of_its_row(text, expected, count):
    """Rows are parsed together; none may swallow or split its neighbors."""
    result, counts = read(pa.array([json.dumps([A]), text, json.dumps([B])]))
    assert result == [[A], expected, [B]]
    assert sum(counts.values()) == count


def test_json_split_over_two_rows_is_not_joined():
    assert read(pa.array(['["https://img.example/a.jpg"', '"https://img.example/b.jpg"]', '["x.jpg"],["y.jpg"]'])) == (
        [None, None, None],
        {"images: neither a list of URLs nor JSON of one": 3},
    )


@pytest.mark.parametrize("column", [pa.array([1, 2, None]), pa.array([True, None, False])])
def test_an_unsuitable_column_type_of_images_is_counted(column):
    assert read(column) == ([None, None, None], {"images: neither a list of URLs nor JSON of one": 2})


def test_columns_without_rows_or_values_have_no_images():
    assert read(pa.nulls(3)) == ([None] * 3, {})
    assert read(pa.array([], IMAGES), loc=LOC.slice(3)) == ([], {})
    assert read(pa.array([], pa.string()), loc=LOC.slice(3)) == ([], {})


@settings(max_examples=examples(100))
@given(
    st.lists(st.none() | st.lists(st.none() | st.text(max_size=12) | st.just(A), max_size=4), min_size=1, max_size=5)
)
def test_json_and_native_lists_of_any_text_mean_the_same(rows):
    loc = pa.array([f"{SITE}/{n}" for n in range(len(rows))])
    column = pa.array([None if row is None else [t and t.encode() for t in row] for row in rows], pa.list_(pa.binary()))
    native = read(column, loc=loc)
    as_json = read(pa.array([None if row is None else json.dumps(row) for row in rows], pa.string()), loc=loc)
    assert native == as_json
