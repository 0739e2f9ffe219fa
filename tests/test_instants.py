"""Timestamps between units, and their text."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.dates import UNITS
from sitemap_etl.instants import FIRST, LAST, YEAR_1, YEAR_10000, in_unit, spelled

NUMBERS = st.one_of(
    st.integers(FIRST, LAST),
    st.sampled_from([FIRST, FIRST + 1, -1, 0, 1, LAST - 1, LAST]),
    st.integers(-(10**10), 10**10),
)


def times(values: list[int | None], unit: str, zone: str | None = None) -> pa.Array:
    return pa.array(values, pa.int64()).view(pa.timestamp(unit, zone))


@given(st.lists(st.one_of(st.none(), NUMBERS), min_size=1), st.sampled_from(list(UNITS)), st.sampled_from(list(UNITS)))
def test_a_conversion_never_wraps_around(values: list[int | None], unit: str, target: str) -> None:
    found = in_unit(times(values, unit), pa.timestamp(target)).view(pa.int64()).to_pylist()
    for value, made in zip(values, found, strict=True):
        if value is None or value in (FIRST, LAST):
            assert made == value
        else:
            exact = Fraction(value, UNITS[unit]) * UNITS[target]
            assert made == min(max(exact.numerator // exact.denominator, FIRST), LAST)


@given(st.integers(YEAR_1, YEAR_10000 - 1), st.sampled_from(["s", "ms", "us"]))
def test_times_within_the_calendar_are_converted_correctly(seconds: int, unit: str) -> None:
    found = times([seconds * UNITS[unit], None], unit)
    assert spelled(found).equals(found.cast(pa.string()))


@given(st.integers(-300_000, 300_000), st.integers(1, 12), st.integers(1, 28))
def test_a_day_of_any_year_is_formatted_correctly(year: int, month: int, day: int) -> None:
    # The calendar repeats every 400 years of 146,097 days.
    near = np.datetime64(f"{2000 + year % 400:04}-{month:02}-{day:02}", "D").astype(int)
    days = int(near) + (year - 2000 - year % 400) // 400 * 146_097
    shown = f"{year:0{5 if year < 0 else 4}}-{month:02}-{day:02}"
    assert spelled(pa.array([days], pa.int32()).view(pa.date32())).to_pylist() == [shown]
    assert spelled(times([days * 86_400 + 3_661], "s")).to_pylist() == [f"{shown} 01:01:01"]


@pytest.mark.parametrize(
    ("value", "unit", "zone", "text"),
    [
        (9_089_380_393_200_000_000, "us", None, "290000-12-30 23:00:00.000000"),
        (9_089_380_393_200_000_000, "us", "Europe/Berlin", "290000-12-30 23:00:00.000000Z"),
        (253_402_300_800, "s", "Asia/Tokyo", "10000-01-01 00:00:00Z"),
        (LAST, "us", None, "after 294247-01-10 04:00:54.775806"),
        (FIRST, "us", "UTC", "before -290308-12-21 19:59:05.224193Z"),
        (LAST, "ns", None, "after 2262-04-11 23:47:16.854775806"),
        (1_700_000_000, "s", "Nowhere/Land", "2023-11-14 22:13:20Z"),
        (1_700_000_000, "s", "Europe/Berlin", "2023-11-14 23:13:20+0100"),
    ],
)
def test_a_time_beyond_the_calendar_is_shown_with_its_value(value: int, unit: str, zone: str | None, text: str) -> None:
    assert spelled(times([None, value, 0], unit, zone))[1].as_py() == text
