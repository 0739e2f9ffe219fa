"""Borders, windows, winners and divisions: pure functions over the order of locs."""

from __future__ import annotations

import itertools
import random
from bisect import bisect_right
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import limits
from sitemap_etl.hashes import hash64
from sitemap_etl.partition import (
    SAMPLES,
    cut,
    dated,
    distinct,
    groups,
    route,
    routing_borders,
    samples,
    windows,
    winners,
)
from sitemap_etl.partition.borders import Range, Window
from sitemap_etl.partition.order import in_order, places_among
from sitemap_etl.partition.winners import stretch
from sitemap_etl.settings import Shards
from sitemap_etl.stages.partition import places_of
from sitemap_etl.state.records import Spool

TEXT = st.text(alphabet="ab/-z9", max_size=24)


TAILS = st.lists(TEXT, min_size=1, max_size=30)
LIMIT = 1_100
"""Texts that are sorted: from a thousand on by their words."""


def ordered(array: pa.Array) -> list[str]:
    order, distinct = in_order(array)
    texts: list[str] = array.take(order).to_pylist()
    assert not (distinct and len(set(texts)) < len(texts))
    return texts


@given(TEXT, TAILS, TAILS, st.sampled_from(["", "x" * 9, "/category/of-some-length/"]))
def test_the_fast_sort_equals_the_bytewise_order(prefix: str, tails: list[str], ends: list[str], head: str) -> None:
    texts = [f"{prefix}{tail}{head}{end}" for tail in tails for end in ends]
    texts += [f"{text}{number}" for number in range(LIMIT // len(texts) + 1) for text in texts]
    array = pa.array(["before", *texts, "after"], pa.string())[1:-1]
    assert ordered(array) == sorted(texts)


@pytest.mark.parametrize("length", range(12))
def test_texts_that_end_at_the_end_of_their_buffer_are_sorted(length: int) -> None:
    texts = [f"https://a.example/{number:x}" for number in range(LIMIT)]
    texts.append("https://a.example/" + "f" * length)
    array = pa.array(texts, pa.string())
    exact = pa.py_buffer("".join(texts).encode())
    array = pa.Array.from_buffers(pa.string(), len(texts), [None, array.buffers()[1], exact])
    assert ordered(array) == sorted(texts)


def test_columns_of_every_type_are_sorted() -> None:
    shuffled = np.random.default_rng(1).permutation(5_000)
    for texts in (
        [f"https://a.example/p/{n:09}" for n in shuffled],
        [f"https://a.example/{n % 7}/{n % 31}-slug/{n % 3}-{n}" for n in shuffled],
        [f"https://a.example/{'a' * (n % 90)}/{n // 7}" for n in shuffled],
        [f"https://a.example/{n * 2_654_435_761 % 2**32:x}" for n in shuffled],
        ["https://a.example/same"] * 5_000,
    ):
        array = pa.array(texts, pa.string())
        assert ordered(array) == sorted(texts)


@given(TEXT, st.lists(TEXT, max_size=30))
def test_the_fast_sort_equals_the_bytewise_order_if_the_last_text_ends_with_the_memory(
    prefix: str, tails: list[str]
) -> None:
    """A word that begins there would extend beyond it."""
    texts = [prefix + tail for tail in tails]
    for rows in (texts, [*texts, prefix + "~"], [*texts, ""]):
        array = pa.array(rows, pa.string())
        assert ordered(array) == sorted(rows)


@given(st.lists(TEXT, max_size=40), st.sets(TEXT, max_size=6))
def test_every_row_is_routed_to_the_last_window_that_begins_before_it(locs: list[str], marks: set[str]) -> None:
    borders = sorted(marks - {""})
    routed = route(pa.table({"loc": pa.array(locs, pa.string()), "row": list(range(len(locs)))}), borders)
    found = []
    for window, (start, stop) in enumerate(itertools.pairwise(routed.starts.tolist())):
        for loc in routed.table.column("loc").slice(start, stop - start).to_pylist():
            assert window == sum(border <= loc for border in borders)
            found.append(loc)
    assert sorted(found) == sorted(locs)


@given(
    TEXT,
    TAILS,
    TAILS,
    st.sampled_from(["", "x" * 9, "/category/of-some-length/"]),
    st.lists(TEXT, max_size=6),
    st.data(),
)
def test_fast_positions_among_borders_equal_those_of_the_texts(
    prefix: str, tails: list[str], ends: list[str], head: str, marks: list[str], data: st.DataObject
) -> None:
    texts = [f"{prefix}{tail}{head}{end}" for tail in tails for end in ends]
    texts += [f"{text}{number}" for number in range(LIMIT // len(texts) + 1) for text in texts]
    among = data.draw(st.lists(st.sampled_from(texts), max_size=6))
    marks += [prefix + mark for mark in marks] + [f"{prefix}{tail}{head}{mark}" for tail in tails[:3] for mark in marks]
    borders = sorted({*among, *(text[:-1] for text in among), *marks} - {""})
    array = pa.array(["before", *texts, "after"], pa.string())[1:-1]
    assert places_among(array, borders).tolist() == [bisect_right(borders, text) for text in texts]


def test_positions_of_dictionary_encoded_rows_are_found_by_their_codes() -> None:
    """Borders in a prefix that no row has, between two prefixes, and before and after all rows."""
    texts = [f"https://a.example/category-{n % 7}/slug-{n * 2_654_435_761 % 2**32:08x}" for n in range(5_000)]
    drawn = sorted(texts)[::357]
    odd = ["https://a.example/category-", "https://a.example/category-3", "https://a.example/category-33/z", "h", "z"]
    borders = sorted([*drawn, *odd])
    assert places_among(pa.array(texts), borders).tolist() == [bisect_right(borders, text) for text in texts]


def test_samples_depend_only_on_the_distinct_locs() -> None:
    locs = [f"https://shop.example/{n}" for n in range(20_000)]

    def drawn(some: list[str], size: int) -> pa.Table:
        found = pa.array(some)
        return samples(found, hash64(found), np.full(len(some), size))

    expected = distinct([drawn(locs, 100)])
    assert 40 < expected.num_rows < 120  # one in 256
    assert expected.column("loc").to_pylist() == sorted(expected.column("loc").to_pylist())
    assert set(expected.column("bytes").to_pylist()) == {100}
    random.Random(1).shuffle(locs)
    parts = [drawn(locs[at::3], 100) for at in range(3)] + [drawn(locs[:500], 90)]
    assert distinct(parts).equals(expected)
    assert distinct([]).equals(SAMPLES.empty_table())


def some_samples(rows: int, size: int) -> pa.Table:
    locs = [f"https://shop.example/{n:09}" for n in range(rows // 256)]
    return pa.table({"loc": pa.array(locs, pa.string()), "bytes": pa.array([size] * len(locs), pa.int64())})


@pytest.mark.parametrize(("rows", "size"), [(1_000, 100), (400_000, 100), (5_000_000, 100), (900_000, 3_000)])
def test_windows_respect_their_limits_and_cover_all_rows(rows: int, size: int) -> None:
    planned = windows([], some_samples(rows, size))
    assert planned[0].low == ""
    assert planned[-1].high is None
    assert all(one.high == other.low for one, other in itertools.pairwise(planned))
    assert all(window.rows <= limits.WINDOW_ROWS and window.bytes <= limits.WINDOW_BYTES for window in planned)


def test_a_window_consists_of_whole_published_ranges() -> None:
    ranges = [Range(f"r{n:04}" if n else "", 45_000, 45_000 * 150) for n in range(100)]
    planned = windows(ranges, SAMPLES.empty_table())
    lows = {entry.low for entry in ranges}
    assert all(window.low in lows for window in planned)
    assert routing_borders(ranges, [], 0) == [window.low for window in planned][1:]


def test_a_range_larger_than_a_window_is_cut_at_samples() -> None:
    ranges = [Range("", 45_000, 1), Range("https://shop.example/000001000", 45_000, 1)]
    planned = windows(ranges, some_samples(2_000_000, 100))
    assert len(planned) > 4
    assert planned[0].low == ""


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1_000_000, 5_000_000, 10_000_000, 20_000_000])
def test_groups_are_even_and_not_fewer_than_jobs(rows: int, jobs: int) -> None:
    planned = windows([], some_samples(rows, 100))
    joined = groups(planned, jobs)
    assert len(joined) >= min(jobs, len(planned))
    assert len(joined) % jobs == 0 or len(joined) == len(planned)
    sizes = [past - first for first, past in joined]
    assert max(sizes) - min(sizes) <= 1, sizes


@pytest.mark.parametrize("jobs", [1, 2, 300])
@pytest.mark.parametrize("rows", [20, 20_000_000])
def test_groups_are_bounded_and_cover_all_windows(rows: int, jobs: int) -> None:
    planned = windows([], some_samples(rows, 100))
    joined = groups(planned, jobs)
    assert len(joined) <= max(limits.GROUPS_PER_SECTION, jobs)
    assert [first for first, _ in joined[1:]] == [past for _, past in joined[:-1]]
    assert joined[0][0] == 0
    assert joined[-1][1] == len(planned)
    for first, past in joined:
        assert sum(window.rows for window in planned[first:past]) <= limits.GROUP_ROWS


MOMENTS = {"2026-01-01": 2 * 1_767_225_600, "2026-02-01": 2 * 1_769_904_000}


def table(rows: list[tuple[str, str | None, int]]) -> pa.Table:
    return pa.table(
        {
            "loc": pa.array([loc for loc, _, _ in rows], pa.string()),
            "moment": pa.array([lastmod and MOMENTS[lastmod] for _, lastmod, _ in rows], pa.int64()),
            "fingerprint": pa.array([print_ for _, _, print_ in rows], pa.uint64()),
            "row": pa.array(range(len(rows)), pa.int64()),
        }
    )


ROW = st.tuples(st.sampled_from("abc"), st.sampled_from([None, "2026-01-01", "2026-02-01"]), st.integers(0, 3))


@given(st.lists(ROW, max_size=25), st.randoms(use_true_random=False), st.integers(0, 3))
def test_the_winner_of_a_loc_does_not_depend_on_the_order_of_rows(
    rows: list[tuple[str, str | None, int]], random_: random.Random, published: int
) -> None:
    known = pa.table({"loc": ["a", "b"], "fingerprint": pa.array([published] * 2, pa.uint64())})
    shuffled = list(rows)
    random_.shuffle(shuffled)
    one, other = (winners(table(variant), known) for variant in (rows, shuffled))
    columns = ["loc", "moment", "fingerprint"]
    assert one.rows.select(columns).to_pylist() == other.rows.select(columns).to_pylist()
    assert one.rows.column("loc").to_pylist() == sorted({loc for loc, _, _ in rows})
    assert one.rows.num_rows + one.losers.num_rows == len(rows)
    for loc, lastmod, print_ in ((r["loc"], r["lastmod"], r["fingerprint"]) for r in dated(one.rows).to_pylist()):
        rivals = [(row[1] or "", loc in "ab" and row[2] == published) for row in rows if row[0] == loc]
        assert (lastmod or "", loc in "ab" and print_ == published) == max(rivals)


@given(st.lists(TEXT, max_size=20), TEXT, st.one_of(st.none(), TEXT))
def test_a_slice_has_the_rows_between_its_borders(locs: list[str], low: str, high: str | None) -> None:
    ordered = pa.table({"loc": pa.array(sorted(locs), pa.string())})
    expected = [loc for loc in sorted(locs) if loc >= low and (high is None or loc < high)]
    if high is None or low <= high:
        assert stretch(ordered, low, high).column("loc").to_pylist() == expected


SIZES = st.lists(st.integers(1, 900), min_size=1, max_size=120)


@given(SIZES, st.integers(1, 30), st.integers(1_024, 6_000), st.floats(0.3, 1))
def test_parts_respect_both_limits_and_lose_no_row(sizes: list[int], rows: int, size: int, fill: float) -> None:
    starts = cut(np.array(sizes), Shards(rows=rows, bytes=size, fill=fill))
    assert starts[0] == 0
    assert starts == sorted(set(starts))
    for start, stop in itertools.pairwise([*starts, len(sizes)]):
        assert 0 < stop - start <= rows
        assert sum(sizes[start:stop]) <= size


def test_parts_are_equal() -> None:
    starts = cut(np.full(200_000, 160), Shards())
    counts = np.diff([*starts, 200_000])
    assert len(counts) == 5  # ⌈200,000 / 45,000⌉
    assert counts.max() - counts.min() <= 1


def test_appended_rows_are_separated_and_the_published_range_stays_whole() -> None:
    assert cut(np.full(60_000, 160), Shards(), published=50_000) == [0, 50_000]
    assert cut(np.full(60_000, 160), Shards(), published=None) == [0, 30_000]
    assert cut(np.full(50_000, 160), Shards(), published=40_000) == [0]


def small(rows: int, size: int = 1_000_000, fill: float = 1.0) -> Shards:
    return Shards.model_construct(rows=rows, bytes=size, fill=fill)


@pytest.mark.parametrize(
    ("sizes", "bounds", "published", "starts"),
    [
        ([1] * 10, small(10), None, [0]),
        ([1] * 11, small(10), None, [0, 5]),
        ([1] * 11, small(10, fill=0.5), None, [0, 3, 7]),
        ([1] * 10, small(10, fill=0.5), None, [0]),
        ([10] * 10, small(100, 100), None, [0]),
        ([10] * 11, small(100, 100), None, [0, 6]),
        ([1] * 12, small(10), 0, [0, 6]),
        ([1] * 12, small(10), 12, [0, 6]),
        ([1] * 12, small(10), 11, [0, 5, 11]),
        ([1] * 12, small(10), 10, [0, 10]),
        ([1] * 12, small(10), 1, [0, 1, 6]),
        ([1] * 22, small(10), 2, [0, 2, 12]),
        ([90, 5, 5, 5, 90], small(100, 100), None, [0, 3]),
        ([60, 60, 60], small(100, 100), None, [0, 1, 2]),
        ([90, 20, 20, 20, 90], small(100, 100), None, [0, 1, 4]),
    ],
)
def test_a_slice_is_cut_only_if_necessary_and_evenly(
    sizes: list[int], bounds: Shards, published: int | None, starts: list[int]
) -> None:
    assert cut(np.array(sizes), bounds, published) == starts


def test_borders_of_a_first_release_are_quantiles_of_the_samples() -> None:
    full = int(limits.WINDOW_ROWS * 0.75)
    guesses = [f"{n:02}" for n in range(10)][::-1]
    assert routing_borders([], guesses, full) == []
    assert routing_borders([], guesses, full + 1) == ["03", "06"]
    assert routing_borders([], guesses, limits.WINDOW_ROWS) == ["03", "06"]
    assert routing_borders([], guesses, limits.WINDOW_ROWS + 1) == ["02", "05", "07"]
    assert routing_borders([], guesses, limits.WINDOW_ROWS * 10, most=2) == ["05"]
    assert routing_borders([], guesses, limits.WINDOW_ROWS * 10, most=1) == []
    assert routing_borders([], guesses[:1], limits.WINDOW_ROWS * 10) == []
    assert routing_borders([], ["a", "a", "a", "b"], limits.WINDOW_ROWS * 10) == ["b"]


@pytest.mark.parametrize("by", ["rows", "bytes"])
def test_ranges_are_combined_until_a_window_is_three_quarters_full(by: str) -> None:
    third = int((limits.WINDOW_ROWS if by == "rows" else limits.WINDOW_BYTES) * 0.75) // 3

    def lows(*sizes: int) -> list[str]:
        ranges = [
            Range(str(at) if at else "", *((size, 1) if by == "rows" else (1, size))) for at, size in enumerate(sizes)
        ]
        planned = windows(ranges, SAMPLES.empty_table())
        assert [window.high for window in planned] == [*(window.low for window in planned[1:]), None]
        return [window.low for window in planned]

    assert lows(third, third, third) == [""]
    assert lows(third, third, third + 3) == ["", "2"]
    assert lows(third, third, third, third, third, third, third) == ["", "3", "6"]
    assert lows(5 * third, third, 5 * third, third) == ["", "1", "2", "3"]


def test_a_window_has_samples_up_to_its_limits_and_is_cut_evenly_beyond_them() -> None:
    most = limits.WINDOW_ROWS // 256
    (window,) = windows([], some_samples(most * 256, 100))
    assert (window.low, window.high, window.rows, window.bytes) == ("", None, most * 256, most * 25_600)
    one, other = windows([], some_samples((most + 1) * 256, 100))
    assert (one.rows, one.bytes) == (other.rows, other.bytes) == ((most + 1) * 128, (most + 1) * 12_800)
    assert one.high == other.low
    assert int(other.low[-9:]) - most // 2 in (0, 1)
    heavy = limits.WINDOW_BYTES // 256 // 1_000
    assert len(windows([], some_samples(1_000 * 256, heavy))) == 1
    assert len(windows([], some_samples(1_000 * 256, heavy + 1))) == 2


def test_samples_are_assigned_to_their_range() -> None:
    ranges = [Range("", limits.WINDOW_ROWS, 1), Range("https://shop.example/000000004", limits.WINDOW_ROWS, 1)]
    planned = windows(ranges, some_samples(10 * 256, 100))
    assert [(window.low, window.rows) for window in planned] == [("", 4 * 256), (ranges[1].low, 6 * 256)]


def test_windows_are_adjacent() -> None:
    def starts(locs: list[str], borders: list[str]) -> list[int]:
        return list(route(pa.table({"loc": pa.array(locs, pa.string())}), borders).starts)

    assert starts(["a", "b", "c"], []) == [0, 3]
    assert starts([], []) == [0, 0]
    assert starts([], ["b"]) == [0, 0, 0]
    assert starts(["a"], ["b", "c"]) == [0, 1, 1, 1]
    assert starts(["c", "a", "b", "a"], ["b", "c"]) == [0, 2, 3, 4]


def test_windows_are_distributed_to_groups_by_their_rows() -> None:
    def bounds(rows: list[int], jobs: int) -> list[tuple[int, int]]:
        return groups([Window(str(at), None, size, 0) for at, size in enumerate(rows)], jobs)

    most = limits.GROUP_ROWS - limits.WINDOW_ROWS
    assert bounds([1], 4) == [(0, 1)]
    assert bounds([0, 0], 2) == [(0, 1), (1, 2)]
    assert bounds([1, 1, 1, 1], 2) == [(0, 2), (2, 4)]
    assert bounds([100, 1, 1, 100], 2) == [(0, 2), (2, 4)]
    assert bounds([most // 10] * 10, 1) == [(0, 10)]
    assert bounds([most // 10] * 11, 1) == [(0, 5), (5, 11)]
    assert bounds([most // 10] * 11, 3) == [(0, 4), (4, 7), (7, 11)]
    assert len(bounds([most] * 300, 1)) == limits.GROUPS_PER_SECTION
    assert len(bounds([most] * 300, 100)) == limits.GROUPS_PER_SECTION // 100 * 100
    assert len(bounds([1] * 300, 300)) == 300


def test_the_winning_row_is_chosen_by_date_then_fingerprint() -> None:
    rows = table(
        [("a", None, 1), ("a", "2026-01-01", 1), ("b", "2026-01-01", 1), ("b", "2026-01-01", 2), ("c", None, 1)]
    )
    known = pa.table({"loc": ["b"], "fingerprint": pa.array([2], pa.uint64())})
    won = winners(rows, known)
    assert won.rows.column("row").to_pylist() == [1, 3, 4]
    assert won.losers.column("row").to_pylist() == [0, 2]
    bare = winners(pa.table({"loc": ["b", "a", "b"], "row": [0, 1, 2]}))
    assert bare.rows.column("loc").to_pylist() == ["a", "b"]
    assert bare.losers.num_rows == 1
    assert winners(rows.slice(0, 1)).rows.num_rows == 1
    assert winners(rows.slice(0, 0)).rows.num_rows == 0
    alike = pa.table({"loc": ["a", "a"], "key": ["x", "y"], "row": [5, 4], "moment": [MOMENTS["2026-01-01"]] * 2})
    assert winners(alike).rows.column("row").to_pylist() == [5]


def test_the_byte_limit_applies_to_slices_within_the_row_limit() -> None:
    starts = cut(np.full(1_000, 1_000_000), Shards())
    assert len(starts) == 22  # ⌈10⁹ / (0.9 · 52,428,800)⌉


# --- which messages of a spool a window takes ---------------------------------------------------------

LETTERS = st.lists(st.sampled_from("bcdefgh"), unique=True).map(sorted)


@given(borders=LETTERS, lows=LETTERS)
def test_a_shuffled_block_belongs_to_all_windows_that_its_range_overlaps(borders: list[str], lows: list[str]) -> None:
    """Blocks and windows are ranges of locs with independent bounds."""
    spool = Spool("spool", "", tuple(((at, 1, 0),) for at in range(len(borders) + 1)), tuple(borders))
    windows = [Window(low, high, 1, 1) for low, high in pairwise(["", *lows, None])]
    found = {(window, start): exact for window, _, start, _, _, exact in places_of(0, spool, windows)}
    ends = "~"  # past every loc
    for window, message in itertools.product(range(len(windows)), range(len(borders) + 1)):
        first, past = ["", *borders][message], [*borders, ends][message]
        low, high = windows[window].low, windows[window].high or ends
        assert ((window, message) in found) == (first < high and past > low)
        if (window, message) in found:
            assert found[window, message] == (low <= first and past <= high)
