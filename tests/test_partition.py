"""Borders, windows, winners and cuts: pure functions over the order of locs."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import limits
from sitemap_etl.partition import Sample, cut, groups, route, routing_borders, samples, windows, winners
from sitemap_etl.partition.borders import Range, distinct
from sitemap_etl.partition.order import in_order
from sitemap_etl.partition.winners import stretch
from sitemap_etl.settings import Shards

TEXT = st.text(alphabet="ab/-z9", max_size=24)


TAILS = st.lists(TEXT, min_size=1, max_size=30)
LIMIT = 1_100
"""Texts that are sorted: from a thousand on by their words."""


@given(TEXT, TAILS, TAILS, st.sampled_from(["", "x" * 9, "/category/of-some-length/"]))
def test_the_quick_order_is_the_bytewise_one(prefix: str, tails: list[str], ends: list[str], head: str) -> None:
    texts = [f"{prefix}{tail}{head}{end}" for tail in tails for end in ends]
    texts += [f"{text}{number}" for number in range(LIMIT // len(texts) + 1) for text in texts]
    array = pa.array(["before", *texts, "after"], pa.string())[1:-1]
    assert array.take(in_order(array)).to_pylist() == sorted(texts)


@pytest.mark.parametrize("length", range(12))
def test_texts_that_end_at_the_very_end_of_their_buffer_are_in_order(length: int) -> None:
    texts = [f"https://a.example/{number:x}" for number in range(LIMIT)]
    texts.append("https://a.example/" + "f" * length)
    array = pa.array(texts, pa.string())
    exact = pa.py_buffer("".join(texts).encode())
    array = pa.Array.from_buffers(pa.string(), len(texts), [None, array.buffers()[1], exact])
    assert array.take(in_order(array)).to_pylist() == sorted(texts)


def test_columns_of_every_kind_are_in_order() -> None:
    shuffled = np.random.default_rng(1).permutation(5_000)
    for texts in (
        [f"https://a.example/p/{n:09}" for n in shuffled],
        [f"https://a.example/{n % 7}/{n % 31}-slug/{n % 3}-{n}" for n in shuffled],
        [f"https://a.example/{'a' * (n % 90)}/{n // 7}" for n in shuffled],
        [f"https://a.example/{n * 2_654_435_761 % 2**32:x}" for n in shuffled],
        ["https://a.example/same"] * 5_000,
    ):
        array = pa.array(texts, pa.string())
        assert array.take(in_order(array)).to_pylist() == sorted(texts)


@given(TEXT, st.lists(TEXT, max_size=30))
def test_the_quick_order_is_the_bytewise_one_where_the_last_text_ends_with_the_memory(
    prefix: str, tails: list[str]
) -> None:
    """A word that begins there would reach beyond it."""
    texts = [prefix + tail for tail in tails]
    for rows in (texts, [*texts, prefix + "~"], [*texts, ""]):
        array = pa.array(rows, pa.string())
        assert array.take(in_order(array)).to_pylist() == sorted(rows)


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


def test_samples_are_a_function_of_the_set_of_locs() -> None:
    locs = [f"https://shop.example/{n}" for n in range(20_000)]
    expected = distinct(samples(pa.array(locs), 100))
    assert 40 < len(expected) < 120  # one in 256
    random.Random(1).shuffle(locs)
    parts = [samples(pa.array(locs[at::3]), 100) for at in range(3)] + [samples(pa.array(locs[:500]), 90)]
    assert distinct(itertools.chain(*parts)) == expected


def some_samples(rows: int, size: int) -> list[Sample]:
    return [Sample(f"https://shop.example/{n:09}", size) for n in range(rows // 256)]


@pytest.mark.parametrize(("rows", "size"), [(1_000, 100), (400_000, 100), (5_000_000, 100), (900_000, 3_000)])
def test_windows_hold_their_limits_and_cover_the_order(rows: int, size: int) -> None:
    planned = windows([], some_samples(rows, size))
    assert planned[0].low == ""
    assert planned[-1].high is None
    assert all(one.high == other.low for one, other in itertools.pairwise(planned))
    assert all(window.rows <= limits.WINDOW_ROWS and window.bytes <= limits.WINDOW_BYTES for window in planned)


def test_a_window_is_made_of_whole_published_ranges() -> None:
    ranges = [Range(f"r{n:04}" if n else "", 45_000, 45_000 * 150) for n in range(100)]
    planned = windows(ranges, [])
    lows = {entry.low for entry in ranges}
    assert all(window.low in lows for window in planned)
    assert routing_borders(ranges, [], 0) == [window.low for window in planned][1:]


def test_a_range_that_outgrew_a_window_is_cut_at_samples() -> None:
    ranges = [Range("", 45_000, 1), Range("https://shop.example/000001000", 45_000, 1)]
    planned = windows(ranges, some_samples(2_000_000, 100))
    assert len(planned) > 4
    assert planned[0].low == ""


@pytest.mark.parametrize("jobs", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [1_000_000, 5_000_000, 10_000_000, 20_000_000])
def test_groups_are_even_and_at_least_as_many_as_jobs(rows: int, jobs: int) -> None:
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


def table(rows: list[tuple[str, str | None, int]]) -> pa.Table:
    return pa.table(
        {
            "loc": pa.array([loc for loc, _, _ in rows], pa.string()),
            "lastmod": pa.array([lastmod for _, lastmod, _ in rows], pa.string()),
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
    columns = ["loc", "lastmod", "fingerprint"]
    assert one.rows.select(columns).to_pylist() == other.rows.select(columns).to_pylist()
    assert one.rows.column("loc").to_pylist() == sorted({loc for loc, _, _ in rows})
    assert one.rows.num_rows + one.losers.num_rows == len(rows)
    for loc, lastmod, print_ in ((r["loc"], r["lastmod"], r["fingerprint"]) for r in one.rows.to_pylist()):
        rivals = [(row[1] or "", loc in "ab" and row[2] == published) for row in rows if row[0] == loc]
        assert (lastmod or "", loc in "ab" and print_ == published) == max(rivals)


@given(st.lists(TEXT, max_size=20), TEXT, st.one_of(st.none(), TEXT))
def test_a_stretch_is_the_rows_between_its_borders(locs: list[str], low: str, high: str | None) -> None:
    ordered = pa.table({"loc": pa.array(sorted(locs), pa.string())})
    expected = [loc for loc in sorted(locs) if loc >= low and (high is None or loc < high)]
    if high is None or low <= high:
        assert stretch(ordered, low, high).column("loc").to_pylist() == expected


SIZES = st.lists(st.integers(1, 900), min_size=1, max_size=120)


@given(SIZES, st.integers(1, 30), st.integers(1_024, 6_000), st.floats(0.3, 1))
def test_parts_hold_both_limits_and_lose_no_row(sizes: list[int], rows: int, size: int, fill: float) -> None:
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


def test_appended_rows_are_cut_off_and_what_was_published_stays_whole() -> None:
    assert cut(np.full(60_000, 160), Shards(), published=50_000) == [0, 50_000]
    assert cut(np.full(60_000, 160), Shards(), published=None) == [0, 30_000]
    assert cut(np.full(50_000, 160), Shards(), published=40_000) == [0]


def test_the_byte_limit_cuts_where_rows_would_not() -> None:
    starts = cut(np.full(1_000, 1_000_000), Shards())
    assert len(starts) == 22  # ⌈10⁹ / (0.9 · 52,428,800)⌉
