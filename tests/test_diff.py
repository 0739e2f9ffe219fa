"""The rows of a run against the published ones: new, changed, different only in the snapshot; and dates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.arrow import column_of
from sitemap_etl.diff import Compared, Dating, compare, places
from sitemap_etl.frames import INVENTORY, SNAPSHOT

NOW = "2026-11-01T02:00:00Z"
EPOCH = 1_793_498_400
BY_SOURCE = Dating(
    now=NOW,
    epoch=EPOCH,
    dated=True,
    fingerprint=False,
    reset=False,
    first_seen=False,
    first_publish=False,
    back=False,
)
BY_FINGERPRINT = replace(BY_SOURCE, fingerprint=True)
UNDATED = replace(BY_SOURCE, dated=False)

ROWS = INVENTORY.append(pa.field("lastmod", pa.string()))


def row(loc: str, **values: Any) -> dict[str, Any]:
    return {"loc": f"https://a.example/{loc}", **values}


def old(*rows: dict[str, Any]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SNAPSHOT)


def compared(
    now: list[dict[str, Any]],
    known: list[dict[str, Any]],
    dating: Dating = BY_SOURCE,
    *,
    moved: tuple[dict[str, Any], ...] = (),
    elsewhere: tuple[dict[str, Any], ...] | None = None,
) -> Compared:
    names = ["loc", "lastmod", "fingerprint"]
    there = None if elsewhere is None else old(*elsewhere).select(names)
    rows, published = pa.Table.from_pylist(now, ROWS), old(*known)
    at = places(column_of(rows, "loc"), column_of(published, "loc"))
    return compare(rows, published, at, dating, old(*moved), there)


def of(result: Compared, name: str) -> list[Any]:
    return list(result.rows.column(name).to_pylist())


def marked(mask: np.ndarray) -> list[int]:
    return [int(at) for at in np.flatnonzero(mask)]


def test_the_position_of_a_loc_is_found_or_its_absence() -> None:
    def found(some: str, among: str) -> list[int]:
        return list(places(pa.array(list(some), pa.string()), pa.array(list(among), pa.string())))

    assert found("abcde", "bd") == [-1, 0, -1, 1, -1]
    assert found("bd", "abcde") == [1, 3]
    assert found("abc", "abc") == [0, 1, 2]
    assert found("abc", "abd") == [0, 1, -1]
    assert found("aabb", "ab") == [0, 0, 1, 1]
    assert found("ab", "") == [-1, -1]
    assert found("b", "a") == [-1]
    assert found("", "ab") == []
    assert places(pa.array([], pa.string()), pa.array(["a"])).dtype == np.int64


@given(
    among=st.sets(st.integers(0, 2_000), min_size=1, max_size=1_500),
    gone=st.sets(st.integers(0, 2_000), max_size=20),
    come=st.sets(st.integers(0, 2_000), max_size=20),
    again=st.integers(1, 3),
)
def test_the_positions_of_many_locs_are_found_despite_inserted_rows(
    among: set[int], gone: set[int], come: set[int], again: int
) -> None:
    def texts(numbers: Iterable[int]) -> list[str]:
        return [f"https://shop.example/{number:05}" for number in sorted(numbers)]

    there = texts(among)
    at = {loc: place for place, loc in enumerate(there)}
    asked = [loc for loc in texts(among - gone | come) for _ in range(again)]

    found = places(pa.array(asked, pa.string()), pa.array(there))

    assert found.tolist() == [at.get(loc, -1) for loc in asked]


def test_rows_are_joined_with_the_published_ones_by_loc() -> None:
    result = compared([row("b"), row("c"), row("d")], [row("a"), row("b"), row("d"), row("e")])
    assert result.at.tolist() == [1, -1, 2]
    assert marked(result.added) == [1]
    assert result.gone.tolist() == [0, 3]
    assert marked(result.changed) == marked(result.differs) == marked(result.beside) == marked(result.moved) == []


def test_rows_are_joined_by_loc_even_if_their_number_is_the_same() -> None:
    now = [row("b", lastmod="2026-01-02"), row("c", lastmod="2026-01-03")]
    known = [row("a", lastmod="2026-01-01"), row("b", lastmod="2026-01-02")]
    result = compared(now, known)
    assert (result.at.tolist(), marked(result.differs), marked(result.changed)) == ([1, -1], [], [])


def test_the_first_and_last_rows_are_joined() -> None:
    result = compared([row("a"), row("d")], [row("a"), row("b"), row("d")])
    assert (result.at.tolist(), result.gone.tolist(), marked(result.added)) == ([0, 2], [1], [])
    result = compared([row("a"), row("b")], [row("a"), row("b"), row("c")])
    assert (result.at.tolist(), result.gone.tolist(), marked(result.added)) == ([0, 1], [2], [])
    result = compared([], [row("a")])
    assert (result.at.tolist(), result.gone.tolist()) == ([], [0])
    result = compared([row("a")], [])
    assert (result.at.tolist(), result.gone.tolist(), marked(result.added)) == ([-1], [], [0])


VALUES: dict[str, tuple[Any, Any]] = {
    "images": (["https://a.example/i.jpg"], ["https://a.example/j.jpg"]),
    "videos": ([{"title": "one"}], [{"title": "two"}]),
    "news": ({"title": "one"}, {"title": "two"}),
    "alternates": ([{"hreflang": "de", "href": "x"}], [{"hreflang": "de", "href": "y"}]),
    "mobile": (None, True),
}


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("dating", [BY_SOURCE, UNDATED])
def test_a_changed_extension_rewrites_the_file_and_is_a_change_if_pages_have_no_dates(
    name: str, dating: Dating
) -> None:
    before, after = VALUES[name]
    result = compared(
        [row("a", **{name: after}), row("b", **{name: before})],
        [row("a", **{name: before}), row("b", **{name: before})],
        dating,
    )
    assert marked(result.differs) == [0]
    assert marked(result.changed) == ([] if dating.dated else [0])
    assert marked(result.beside) == []


@pytest.mark.parametrize(
    ("before", "after"), [("2026-01-01", "2026-01-02"), (None, "2026-01-02"), ("2026-01-01", None)]
)
def test_a_changed_date_rewrites_the_file_and_is_a_change_if_pages_have_dates(
    before: str | None, after: str | None
) -> None:
    for dating in (BY_SOURCE, UNDATED):
        result = compared([row("a", lastmod=after), row("b")], [row("a", lastmod=before), row("b")], dating)
        assert marked(result.differs) == [0]
        assert marked(result.changed) == ([0] if dating.dated else [])
        assert marked(result.dated) == ([0] if before else [])


@pytest.mark.parametrize("name", ["priority", "changefreq"])
def test_changed_priority_or_changefreq_alone_changes_nothing(name: str) -> None:
    value = 5 if name == "priority" else "daily"
    result = compared([row("a", **{name: value})], [row("a")])
    assert marked(result.differs) == marked(result.changed) == marked(result.beside) == []
    assert of(result, name) == [value]


@pytest.mark.parametrize(
    ("name", "value"), [("fingerprint", 7), ("cluster", "c"), ("hreflang", ["de"]), ("title", "t")]
)
def test_differences_in_the_snapshot_are_distinguished_from_differences_in_the_file(name: str, value: Any) -> None:
    now = [
        row("a", **{name: value}),
        row("b", **{name: value}, lastmod="2026-01-01"),
        row("c"),
        row("d", **{name: value}),
    ]
    result = compared(now, [row("a"), row("b"), row("c")])
    assert marked(result.beside) == [0]
    assert marked(result.differs) == [1]
    assert marked(result.added) == [3]


def test_mobile_false_and_null_are_equal() -> None:
    result = compared([row("a", mobile=False), row("b")], [row("a"), row("b", mobile=False)])
    assert marked(result.differs) == []


# --- when a row last changed -------------------------------------------------------------------------


def test_added_and_changed_rows_belong_to_this_run_and_the_others_keep_theirs() -> None:
    now = [row("a", lastmod="2026-02-01"), row("b"), row("c"), row("d")]
    known = [row("a", since=1), row("b", since=2), row("d")]
    assert of(compared(now, known), "since") == [EPOCH, 2, EPOCH, None]
    first = replace(BY_SOURCE, first_publish=True)
    assert of(compared(now, [], first), "since") == [None] * 4


def test_after_the_clock_was_set_back_no_row_has_a_future_time() -> None:
    back = replace(BY_SOURCE, back=True)
    future = "2027-01-01"
    known = [
        row("a", since=EPOCH + 1, lastmod="2026-01-01"),
        row("b", since=EPOCH, lastmod="2026-01-01"),
        row("c", lastmod="2026-01-01"),
        row("d", since=5, lastmod=future),
    ]
    now = [row(name, lastmod="2026-01-01") for name in "abcd"]
    result = compared(now, known, back)
    assert of(result, "since") == [EPOCH, EPOCH, None, EPOCH]
    assert marked(result.beside) == [0]
    assert marked(result.dated) == [0, 1, 2]
    result = compared(now, known)
    assert of(result, "since") == [EPOCH + 1, EPOCH, None, EPOCH]
    assert marked(result.beside) == []
    assert marked(result.dated) == [0, 1, 2, 3]


# --- rows that stood in another section --------------------------------------------------------------


def test_a_moved_row_is_compared_with_its_entry_in_the_other_section() -> None:
    now = [row("a", lastmod="2026-01-01"), row("b", lastmod="2026-01-02"), row("c", lastmod="2026-01-01"), row("d")]
    moved = (row("a", lastmod="2026-01-01", since=4), row("b", lastmod="2026-01-01", since=5))
    result = compared(now, [row("d", since=6)], moved=moved)
    assert marked(result.added) == [0, 1, 2]
    assert marked(result.moved) == [0, 1]
    assert marked(result.changed) == [1]
    assert marked(result.differs) == []
    assert of(result, "since") == [4, EPOCH, EPOCH, 6]
    assert marked(result.dated) == [0, 1]


def test_a_row_that_a_former_view_takes_is_compared_with_its_section() -> None:
    """Its file is still compared with the entries of the view."""
    now = [row("a", lastmod="2026-01-01"), row("b", lastmod="2026-01-02"), row("c", lastmod="2026-01-01")]
    shown = [row(loc, lastmod="2026-01-02", since=6) for loc in "ab"] + [row("c", lastmod="2026-01-01", since=6)]
    moved = [row("a", lastmod="2026-01-01", since=4), *(row(loc, lastmod="2026-01-01", since=6) for loc in "bc")]
    result = compared(now, shown, moved=tuple(moved))
    assert marked(result.moved) == [0, 1, 2]
    assert marked(result.changed) == [1]
    assert marked(result.differs) == [0]
    assert marked(result.beside) == [1]
    assert of(result, "since") == [4, EPOCH, 6]


# --- dates by fingerprint ----------------------------------------------------------------------------


def test_a_page_with_another_fingerprint_has_the_date_of_this_run() -> None:
    now = [row("a", fingerprint=1), row("b", fingerprint=2), row("c", fingerprint=3), row("d", fingerprint=4)]
    known = [
        row("a", fingerprint=1, lastmod="2026-01-01"),
        row("b", fingerprint=9, lastmod="2026-01-01"),
        row("c", lastmod="2026-01-01"),
    ]
    result = compared(now, known, BY_FINGERPRINT)
    assert of(result, "lastmod") == ["2026-01-01", NOW, "2026-01-01", None]
    assert marked(result.changed) == [1]
    assert marked(result.differs) == [1]
    assert marked(result.beside) == [2]


def test_a_changed_fingerprint_definition_changes_no_date() -> None:
    reset = replace(BY_FINGERPRINT, reset=True)
    result = compared([row("a", fingerprint=1)], [row("a", fingerprint=9, lastmod="2026-01-01")], reset)
    assert of(result, "lastmod") == ["2026-01-01"]
    assert (marked(result.changed), marked(result.beside)) == ([], [0])


@pytest.mark.parametrize(
    ("first_seen", "first_publish", "date"), [(True, False, NOW), (True, True, None), (False, False, None)]
)
def test_a_new_page_is_dated_if_first_seen_is_set_and_there_was_an_earlier_run(
    first_seen: bool, first_publish: bool, date: str | None
) -> None:
    dating = replace(BY_FINGERPRINT, first_seen=first_seen, first_publish=first_publish)
    assert of(compared([row("a", fingerprint=1)], [], dating), "lastmod") == [date]


def test_a_future_date_is_dropped() -> None:
    known = [row("a", fingerprint=1, lastmod="2027-01-01")]
    assert of(compared([row("a", fingerprint=1)], known, BY_FINGERPRINT), "lastmod") == [None]


def test_an_unchanged_page_that_moved_or_returned_keeps_its_date() -> None:
    now = [row(name, fingerprint=1) for name in "abcde"]
    known = [row("c", fingerprint=9, lastmod="2026-01-03"), row("d", fingerprint=9, lastmod="2026-01-04")]
    elsewhere = (
        row("a", fingerprint=1, lastmod="2026-02-01"),
        row("b", fingerprint=2, lastmod="2026-02-02"),
        row("c", fingerprint=1, lastmod="2026-02-03"),
        row("d", fingerprint=2, lastmod="2026-02-04"),
    )
    result = compared(now, known, BY_FINGERPRINT, elsewhere=elsewhere)
    assert of(result, "lastmod") == ["2026-02-01", NOW, "2026-02-03", NOW, None]
    result = compared(now, known, BY_FINGERPRINT, elsewhere=())
    assert of(result, "lastmod") == [None, None, NOW, NOW, None]


def test_a_moved_page_with_an_incomparable_fingerprint_keeps_its_date() -> None:
    result = compared(
        [row("a", fingerprint=1), row("b", fingerprint=1)],
        [row("b", fingerprint=1, lastmod="2026-01-03")],
        BY_FINGERPRINT,
        elsewhere=(row("a", lastmod="2026-02-01"), row("b", lastmod="2026-02-02")),
    )
    assert of(result, "lastmod") == ["2026-02-01", "2026-01-03"]


def test_dates_from_the_source_are_not_changed() -> None:
    now = [row("a", fingerprint=1, lastmod="2026-05-05")]
    result = compared(now, [row("a", fingerprint=9, lastmod="2026-05-05")])
    assert of(result, "lastmod") == ["2026-05-05"]
    assert marked(result.changed) == []
