"""Priorities and changefreqs: rounding, ranges, percentiles, words."""

from __future__ import annotations

import itertools
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import priority
from sitemap_etl.errors import InvalidSource
from sitemap_etl.frames import Tally
from sitemap_etl.limits import CHANGEFREQS


def read(column, rule=priority.from_column):
    tally = Tally()
    result = rule(column, tally)
    result.validate(full=True)
    assert len(result) == len(column)
    assert set(tally.counts) <= set(priority.REASONS)
    return result.to_pylist(), tally.counts


def half_up(number) -> int:
    """Tenths, rounded half up, of the shortest decimal that means the number."""
    return int((Decimal(str(number)) * 10).to_integral_value(ROUND_HALF_UP))


# --- Numbers ----------------------------------------------------------------------------------

ROUNDED = [
    ("0", 0), ("0.0", 0), ("0.04", 0), ("0.05", 1), ("0.1", 1), ("0.14999", 1), ("0.15", 2), ("0.25", 3),
    ("0.3", 3), ("0.349", 3), ("0.35", 4), ("0.449999", 4), ("0.45", 5), ("0.5", 5), ("0.55", 6), ("0.65", 7),
    ("0.75", 8), ("0.85", 9), ("0.949", 9), ("0.95", 10), ("1", 10), ("1.0", 10),
]  # fmt: skip


@pytest.mark.parametrize(("text", "tenths"), ROUNDED)
def test_a_priority_of_any_type_is_rounded_half_up(text, tenths):
    assert priority.constant(text) == tenths
    assert priority.constant(float(text)) == tenths
    for column in (
        pa.array([text]),
        pa.array([float(text)], pa.float64()),
        pa.array([float(text)], pa.float32()),
        pa.array([Decimal(text)], pa.decimal128(7, 6)),
        pa.array([Decimal(text)], pa.decimal256(70, 60)),
    ):
        assert read(column) == ([tenths], {}), column.type


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1))
def test_any_float_rounds_as_its_shortest_decimal_does(numbers):
    expected = [None if number is None else half_up(number) for number in numbers]
    assert read(pa.array(numbers, pa.float64())) == (expected, {})


@given(st.lists(st.decimals(0, 1, places=12), min_size=1))
def test_any_decimal_rounds_exactly(numbers):
    assert read(pa.array(numbers, pa.decimal128(20, 12))) == ([half_up(f"{n:f}") for n in numbers], {})


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0000001, -0.1, 80.0, float("inf")]),
        pa.array([2, -1, 80]),
        pa.array([255], pa.uint8()),
        pa.array(["1.01", "-0.5", "80", "1e1"]),
        pa.array([Decimal("1.01"), Decimal("-0.01")]),
    ],
)
def test_numbers_outside_0_to_1_are_dropped_and_counted(column):
    assert read(column) == ([None] * len(column), {priority.OUT_OF_RANGE: len(column)})


def test_text_that_is_not_a_number_is_counted_with_examples():
    tally = Tally()
    texts = pa.array(["0,5", "high", "0.5", "nan", "inf", "1/2", "0x1", ""])
    assert priority.from_column(texts, tally).to_pylist() == [None, None, 5, None, None, None, None, None]
    assert tally.to_json() == {priority.NO_NUMBER: {"count": 6, "examples": ["0,5", "high", "nan"]}}


def test_signs_points_exponents_and_white_space_are_read():
    assert read(pa.array([" 0.8 ", "+.5", "1.", "1e-1", "5E-1", "-0"])) == ([8, 5, 10, 1, 5, 0], {})


def test_null_nan_and_blank_are_no_priority_and_not_counted():
    assert read(pa.array([None, float("nan")])) == ([None, None], {})
    assert read(pa.array([None, "", " "])) == ([None] * 3, {})
    assert read(pa.nulls(2)) == ([None, None], {})
    assert read(pa.array([0, None, 1])) == ([0, None, 10], {})


def test_the_physical_type_does_not_matter():
    column = pa.array(["0.35", None, "x"])
    for form in (
        column.cast(pa.large_string()),
        column.dictionary_encode(),
        pa.chunked_array([column.slice(0, 1), column.slice(1)]),
    ):
        assert read(form) == ([4, None, None], {priority.NO_NUMBER: 1})
    assert read(pa.chunked_array([], pa.float64())) == ([], {})


@pytest.mark.parametrize("value", ["1.01", -0.1, "high", "nan", "Infinity", True])
def test_a_constant_priority_in_the_site_file_is_validated(value):
    with pytest.raises(ValueError, match=r"not a number|not between"):
        priority.constant(value)


@pytest.mark.parametrize("column", [pa.array([True]), pa.array([[1]]), pa.array([0], pa.date32())])
def test_a_column_type_without_numbers_is_reported(column):
    for rule in (priority.from_column, priority.signal_bins):
        with pytest.raises(InvalidSource) as error:
            rule(column, Tally(), name="sales")
        assert "sales" in str(error.value)
        assert str(column.type) in str(error.value)


# --- Depth ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "tenths"),
    [
        ("/", 10), ("/?page=2", 10), ("/?a=/b/c/d", 10), ("/a", 8), ("/a/", 8), ("/a?x=/y/z", 8), ("/a/?x", 8),
        ("/a/b", 6), ("/a/b/", 6), ("/a//b", 4), ("/a/b/c", 4), ("/a/b/c/d", 2), ("/a/b/c/d/e/f/g/", 2),
    ],
)  # fmt: skip
def test_the_depth_of_a_page_is_the_depth_of_its_path(path, tenths):
    for origin in ("https://shop.example", "http://shop.example:8080"):
        locs = pa.array([origin + path, None, origin + "/"])
        assert priority.depth(locs).to_pylist() == [tenths, None, 10]
        assert priority.depth(locs.slice(1)).to_pylist() == [None, 10]
        assert priority.depth(pa.chunked_array([locs, locs])).to_pylist() == [tenths, None, 10] * 2


# --- Percentiles ------------------------------------------------------------------------------


def reference_bin(number: float) -> int:
    """Return the top 16 bits of the order-preserving float64, by definition."""
    bits = int.from_bytes(np.float64(number + 0.0).tobytes(), "little")
    return ((bits ^ (2**64 - 1)) if bits >> 63 else (bits | 1 << 63)) >> 48


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=False), st.integers(-(2**53), 2**53).map(float))))
def test_bins_keep_the_order_of_the_numbers(numbers):
    bins = priority.signal_bins(pa.array(numbers, pa.float64())).to_pylist()
    assert bins == [None if number is None else reference_bin(number) for number in numbers]
    pairs = sorted((number, one) for number, one in zip(numbers, bins, strict=True) if number is not None)
    assert [one for _, one in pairs] == sorted(one for _, one in pairs)


def test_a_signal_is_in_the_same_bin_whatever_its_type():
    forms = [
        pa.array([0, 1, -7, 1000, None]),
        pa.array([0, 1, -7, 1000, float("nan")]),
        pa.array([0, 1, -7, 1000, None], pa.float32()),
        pa.array([Decimal(n) for n in (0, 1, -7, 1000)] + [None], pa.decimal128(20, 9)),
        pa.array(["-0", "1.0", " -7", "1e3", ""]),
    ]
    for form in forms:
        bins, counts = read(form, priority.signal_bins)
        assert bins == [reference_bin(n) for n in (0, 1, -7, 1000)] + [None], form.type
        assert counts == {}


def test_a_signal_that_is_not_a_number_is_not_ranked():
    assert read(pa.array(["1", "many"]), priority.signal_bins)[1] == {priority.NO_SIGNAL: 1}
    assert priority.signal_bins(pa.array(["many"])).to_pylist() == [None]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_a_percentile_counts_the_rows_below_and_half_of_the_equal_ones(counts):
    histogram = np.zeros(priority.BINS, np.int64)
    histogram[: len(counts)] = counts
    table = priority.percentile_table(histogram)
    assert table.dtype == np.int8
    rows = sum(counts)
    for at in range(len(counts)):
        if counts[at]:
            share = Fraction(2 * sum(counts[:at]) + counts[at], 2 * rows)
            assert table[at] == int(share * 10 + Fraction(1, 2))


@given(
    st.lists(st.one_of(st.none(), st.integers(-100, 100), st.floats(-1e9, 1e9)), max_size=80),
    st.lists(st.integers(0, 80), max_size=4),
    st.randoms(use_true_random=False),
)
def test_percentiles_do_not_depend_on_splits_and_order(numbers, cuts, random):
    def percentiles(values, edges):
        column = pa.array(values, pa.float64())
        bounds = [0, *sorted(min(edge, len(values)) for edge in edges), len(values)]
        splits = [column.slice(a, b - a) for a, b in itertools.pairwise(bounds)]
        bins = [priority.signal_bins(split) for split in splits]
        table = priority.percentile_table(sum(priority.histogram(split) for split in bins))
        return [tenths for split in bins for tenths in priority.apply_table(split, table).to_pylist()]

    whole = percentiles(numbers, [])
    assert percentiles(numbers, cuts) == whole
    order = random.sample(range(len(numbers)), len(numbers))
    assert percentiles([numbers[at] for at in order], cuts) == [whole[at] for at in order]


def test_percentiles_span_the_range_and_a_row_without_a_signal_has_no_priority():
    bins = priority.signal_bins(pa.array([None, *(2.0**n for n in range(100))]))
    result = priority.apply_table(bins, priority.percentile_table(priority.histogram(bins)))
    assert result.type == pa.int8()
    # The lowest of a hundred is at 0.5 %, the one at exactly 4.5 % still rounds to 0.0, 5.5 % to 0.1.
    assert result.to_pylist() == [None] + [half_up(Decimal(2 * n + 1) / 200) for n in range(100)]


def test_one_row_or_equal_rows_get_the_middle_percentile_and_no_rows_none():
    for values in ([7.0], [7.0] * 9):
        bins = priority.signal_bins(pa.array(values))
        table = priority.percentile_table(priority.histogram(bins))
        assert set(priority.apply_table(bins, table).to_pylist()) == {5}
    empty = np.zeros(priority.BINS, np.int64)
    assert priority.apply_table(pa.nulls(2, pa.uint16()), priority.percentile_table(empty)).to_pylist() == [None] * 2


def test_a_billion_rows_do_not_overflow():
    histogram = np.full(priority.BINS, 10**9 // priority.BINS, np.int64)
    table = priority.percentile_table(histogram)
    assert (table[0], table[priority.BINS // 2], table[-1]) == (0, 5, 10)
    assert (np.diff(table) >= 0).all()


# --- changefreq -------------------------------------------------------------------------------


def test_changefreq_words_are_read_regardless_of_case_and_white_space():
    texts = [form for word in CHANGEFREQS for form in (word, word.title(), f" {word.upper()}\n")]
    expected = [word for word in CHANGEFREQS for _ in range(3)]
    assert read(pa.array(texts), priority.changefreq) == (expected, {})
    assert read(pa.array(texts).dictionary_encode(), priority.changefreq) == (expected, {})


def test_an_unknown_changefreq_is_dropped_and_counted_but_a_blank_is_not_counted():
    tally = Tally()
    column = pa.chunked_array([pa.array(["fortnightly", None, ""]), pa.array(["daily", "fortnightly"])])
    assert priority.changefreq(column, tally).to_pylist() == [None, None, None, "daily", None]
    assert tally.to_json() == {priority.NO_WORD: {"count": 2, "examples": ["fortnightly"] * 2}}
    assert read(pa.nulls(1), priority.changefreq) == ([None], {})


def test_a_changefreq_column_that_is_not_text_is_reported():
    with pytest.raises(InvalidSource, match=r"freq is int64.*always"):
        priority.changefreq(pa.array([1]), Tally(), name="freq")
