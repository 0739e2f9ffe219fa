"""Forgotten rows are found wherever the state names them, and similar texts are kept."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from sitemap_etl.frames import ASIDE, SNAPSHOT
from sitemap_etl.state.erasure import GONE, Marks
from sitemap_etl.state.records import Entry, File

SITE = "https://a.example"
MARKS = Marks({"p": frozenset({"7"})}, frozenset({f"{SITE}/p/7"}), frozenset({"/p/7?utm_source=x"}))


@pytest.mark.parametrize(
    "text",
    [
        f"{SITE}/p/7",
        f"see {SITE}/p/7, and more",
        f"it is {SITE}/p/7.",
        f'"{SITE}/p/7"',
        "row /p/7?utm_source=x of split 1",
        "row with key 7 of p",
        "the SELECT yields the id 7 more than once",
    ],
)
def test_texts_that_name_a_forgotten_row_are_found(text: str) -> None:
    assert MARKS.in_text(text)
    assert MARKS.scrubbed(text) == GONE


@pytest.mark.parametrize(
    "text",
    [
        f"{SITE}/p/70",
        f"{SITE}/p/7/b",
        f"{SITE}/p/7?a=1",
        f"{SITE}/p/7.html",
        f"x{SITE}/p/7",
        "/p/7",
        "monkey 7",
        "key 77",
        "7",
        "the SELECT yields the id 77 more than once",
    ],
)
def test_texts_of_other_rows_are_not_found(text: str) -> None:
    assert not MARKS.in_text(text)
    assert MARKS.scrubbed(text) == text


def test_no_text_is_found_if_there_is_nothing_to_forget() -> None:
    assert not Marks().in_text("")
    assert not Marks().in_text("anything")


def test_values_that_name_a_forgotten_row_are_removed_from_json() -> None:
    page = f"{SITE}/p/7"
    given: dict[str, Any] = {
        "examples": [page, f"{SITE}/p/8", {"loc": page}],
        "number": 7,
        "reasons": {
            f"said {page}": {"count": 1, "examples": [page]},
            "often": {"count": 2, "examples": [page, "b"]},
            "other": {"count": 1, "examples": ["b"]},
        },
        "none": {},
    }
    assert MARKS.scrubbed(given) == {
        "examples": [f"{SITE}/p/8", {"loc": GONE}],
        "number": 7,
        "reasons": {"often": {"count": 2, "examples": ["b"]}, "other": {"count": 1, "examples": ["b"]}},
        "none": {},
    }
    assert MARKS.scrubbed({"a": {"count": 1, "examples": [page]}, "b": 2}) == {
        "a": {"count": 1, "examples": []},
        "b": 2,
    }


def test_rows_that_were_not_listed_are_found_by_their_key_or_their_loc() -> None:
    rows = [
        {"section": "p", "loc": "/x", "key": "7"},
        {"section": "q", "loc": "/x", "key": "7"},
        {"section": "p", "loc": "/x", "key": "8"},
        {"section": "q", "loc": "/p/7?utm_source=x"},
        {"section": "q", "loc": "/x", "canonical": f"{SITE}/p/7"},
        {"section": None, "loc": None},
    ]
    assert MARKS.of_aside(pa.Table.from_pylist(rows, ASIDE)).tolist() == [True, False, False, True, True, False]


def test_forgotten_rows_and_links_to_them_are_removed_from_a_snapshot() -> None:
    def link(number: int) -> dict[str, str]:
        return {"hreflang": f"l{number}", "href": f"{SITE}/p/{number}"}

    rows = [
        {"loc": f"{SITE}/p/6", "alternates": [link(6), link(7)]},
        {"loc": f"{SITE}/p/7", "alternates": [link(6), link(7)]},
        {"loc": f"{SITE}/p/8", "alternates": [link(7)]},
        {"loc": f"{SITE}/p/9", "alternates": [link(9)]},
        {"loc": f"{SITE}/q"},
    ]
    table = pa.Table.from_pylist(rows, SNAPSHOT)
    assert MARKS.of_locs(table.column("loc")).tolist() == [False, True, False, False, False]
    assert MARKS.linking(table.column("alternates").combine_chunks()).tolist() == [True, True, True, False, False]
    left = MARKS.without(table)
    assert left.schema == SNAPSHOT
    assert left.column("loc").to_pylist() == [f"{SITE}/p/6", f"{SITE}/p/8", f"{SITE}/p/9", f"{SITE}/q"]
    assert left.column("alternates").to_pylist() == [[link(6)], None, [link(9)], None]
    plain = pa.Table.from_pylist([{"loc": f"{SITE}/q"}], SNAPSHOT)
    assert MARKS.without(plain).equals(plain)


A, B, C = "https://a.example/a", "https://a.example/b", "https://a.example/c"


@pytest.mark.parametrize(
    ("forgotten", "before", "after"),
    [
        ({C}, ("", A, B), ("", A, B)),
        ({A}, ("", A, B), ("", B, B)),
        ({B}, ("", A, B), ("", A, A)),
        ({A}, (A, A, B), (B, B, B)),
        ({A}, (A, B, C), (B, B, C)),
        ({A, B}, (A, A, B), (f"{SITE}/", f"{SITE}/", f"{SITE}/")),
    ],
)
def test_forgotten_rows_are_not_the_bounds_of_a_file(
    forgotten: set[str], before: tuple[str, str, str], after: tuple[str, str, str]
) -> None:
    low, first, last = before
    entry = Entry("p", 1, low, first, last, 1, 1, 1, File("k", 1, "", 1, "", None, ""), "")
    found = Marks(locs=frozenset(forgotten)).bounded(entry, SITE)
    assert (found.low, found.first, found.last) == after


def test_the_keys_to_forget_are_combined_over_sections() -> None:
    assert Marks({"a": frozenset("12"), "b": frozenset("23")}).all_keys() == {"1", "2", "3"}
