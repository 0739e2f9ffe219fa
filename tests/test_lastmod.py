"""How dates of a source become lastmod, and which are dropped."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import lastmod, priority
from sitemap_etl.errors import ConfigError, InvalidSource
from sitemap_etl.frames import Tally

READ_AT = datetime(2026, 11, 20, 2, 0, 0, 500_000, UTC)
FUTURE, EARLY = "lastmod in the future", "lastmod before 1990"
NO_DATE, COARSE = "lastmod not a date", "lastmod without a day"


def read(column, *, zone=None, unit=None, read_at=READ_AT, tally=None):
    tally = Tally() if tally is None else tally
    moments = lastmod.moments(column, name="updated", timezone=zone, unit=unit, read_at=read_at, tally=tally)
    assert moments.type == pa.int64()
    result = lastmod.texts(moments)
    for found in (moments, result):
        found.validate(full=True)
        assert len(found) == len(column)
    return result.to_pylist(), tally.counts


def moments(*texts: str | None) -> pa.Array:
    """Return numeric lastmods of published texts."""

    def moment(text: str) -> int:
        at = datetime.fromisoformat(text.removesuffix("Z")).replace(tzinfo=UTC)
        return 2 * ((at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)) + text.endswith("Z")

    return pa.array([text and moment(text) for text in texts], pa.int64())


TEXTS = [
    # text in the source, lastmod
    ("2026-01-02", "2026-01-02"),
    ("2024-02-29", "2024-02-29"),
    ("2026-01-02T03:04Z", "2026-01-02T03:04:00Z"),
    ("2026-01-02T03:04+01:00", "2026-01-02T02:04:00Z"),
    ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
    ("2026-01-02t03:04:05z", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05.9Z", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05,999999999Z", "2026-01-02T03:04:05Z"),
    ("2026-01-02T03:04:05.678-05:30", "2026-01-02T08:34:05Z"),
    ("2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00Z"),
    ("2026-01-02T03:04:05-00:00", "2026-01-02T03:04:05Z"),
    ("2026-01-02 03:04:05+00", "2026-01-02T03:04:05Z"),  # PostgreSQL, DuckDB
    ("2026-01-02 03:04:05.123456+01", "2026-01-02T02:04:05Z"),
    ("2026-01-02 03:04:05+05:45", "2026-01-01T21:19:05Z"),
    ("2026-01-02 03:04:05.1234567 +01:00", "2026-01-02T02:04:05Z"),  # SQL Server
    ("2026-01-02 03:04:05 +0100", "2026-01-02T02:04:05Z"),  # Ruby, git
    ("2026-01-02T03:04:05.000+0000", "2026-01-02T03:04:05Z"),  # Java
    ("2026-01-02 03:04:05 UTC", "2026-01-02T03:04:05Z"),  # Rails, Trino
    ("2026-01-02 03:04:05 gmt", "2026-01-02T03:04:05Z"),
    ("  2026-01-02\n", "2026-01-02"),
    ("2026-01-02 03:04:05Z   ", "2026-01-02T03:04:05Z"),  # char(n)
]


@pytest.mark.parametrize(("text", "expected"), TEXTS)
def test_each_date_format_is_read(text, expected):
    assert read(pa.array([text])) == ([expected], {})


def test_all_date_formats_can_be_in_one_column():
    texts = [text for text, _ in TEXTS] * 3 + [None, "", " "]
    assert read(pa.array(texts)) == ([expected for _, expected in TEXTS] * 3 + [None] * 3, {})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("0000-00-00", NO_DATE),
        ("0000-00-00 00:00:00", NO_DATE),  # MySQL's nothing; it has no zone, and asks for none
        ("0000-01-01", NO_DATE),
        ("-001-11-30", NO_DATE),  # what PHP makes of it
        ("-001-11-30T00:00:00+00:00", NO_DATE),
        ("2026-02-30", NO_DATE),
        ("2023-02-29", NO_DATE),
        ("2026-13-01", NO_DATE),
        ("2026-01-00", NO_DATE),
        ("infinity", NO_DATE),
        ("-infinity", NO_DATE),
        ("n/a", NO_DATE),
        ("yesterday", NO_DATE),
        ("02.01.2026", NO_DATE),
        ("2026/01/02", NO_DATE),
        ("20260102", NO_DATE),
        ("Fri, 02 Jan 2026 03:04:05 GMT", NO_DATE),
        ("2026-01-02T24:00:00Z", NO_DATE),
        ("2026-01-02T03:60:00Z", NO_DATE),
        ("2016-12-31T23:59:60Z", NO_DATE),
        ("2026-01-02T03:04:5Z", NO_DATE),
        ("2026-01-02T03:04:05.Z", NO_DATE),
        ("2026-01-02T03:04:05.12x4Z", NO_DATE),
        ("2026-01-02T03Z", NO_DATE),
        ("2026-01-02X03:04:05Z", NO_DATE),
        ("2026-01-02T03:04:05+99:00", NO_DATE),
        ("2026-01-02T03:04:05 Europe/Berlin", NO_DATE),
        ("٢٠٢٦-٠١-٠٢", NO_DATE),
        ("2026-01-02" + " " * 20 + "x" * 40, NO_DATE),
        ("2026", COARSE),
        ("2026-01", COARSE),
        ("2026-13", NO_DATE),
        ("2929-01-01", FUTURE),
        ("9999-12-31T23:59:59Z", FUTURE),
        ("0001-01-01", EARLY),
        ("1970-01-01T00:00:00Z", EARLY),
        ("1989-12-31T23:59:59Z", EARLY),
    ],
)
def test_impossible_dates_are_dropped_and_counted_with_the_text_of_the_source(text, reason):
    tally = Tally()
    assert read(pa.array([text, "2026-01-02T03:04:05Z"]), tally=tally) == ([None, "2026-01-02T03:04:05Z"], {reason: 1})
    assert tally.examples == {reason: [text]}
    assert reason in lastmod.REASONS


def test_a_blank_value_is_no_date_and_is_not_counted():
    assert read(pa.array(["", "  ", None, "\t"])) == ([None] * 4, {})
    assert read(pa.nulls(2)) == ([None, None], {})


def test_examples_are_few_and_counts_are_exact():
    tally = Tally()
    read(pa.array(["0000-00-00"] * 1000), tally=tally)
    assert (tally.counts, tally.examples) == ({NO_DATE: 1000}, {NO_DATE: ["0000-00-00"] * 3})


# --- The edge of the future ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("2026-11-20T02:00:00Z", True),
        ("2026-11-20T02:00:00.999Z", True),  # the fraction is dropped on both sides
        ("2026-11-20T02:00:01Z", False),
        ("2026-11-20T03:00:00+01:00", True),
        ("2026-11-21", True),  # it is tomorrow somewhere
        ("2026-11-22", False),
        ("1990-01-01", True),
        ("1990-01-01T00:00:00Z", True),
        ("1990-01-01T00:00:00+01:00", False),
    ],
)
def test_an_instant_after_the_read_and_a_date_over_a_day_later_are_in_the_future(text, kept):
    values, counts = read(pa.array([text]))
    assert (values[0] is not None) is kept
    assert sum(counts.values()) == (not kept)


def test_a_row_edited_during_the_read_is_not_in_the_future():
    """Each split is compared with the time of its own read, not with the start of the run."""
    edited = pa.array([READ_AT + timedelta(minutes=9)], pa.timestamp("us", "UTC"))
    assert read(edited) == ([None], {FUTURE: 1})
    assert read(edited, read_at=READ_AT + timedelta(minutes=10)) == (["2026-11-20T02:09:00Z"], {})


def test_the_time_of_the_read_needs_a_timezone():
    late = READ_AT.astimezone(ZoneInfo("Asia/Tokyo"))
    assert read(pa.array(["2026-11-20T02:00:00Z"]), read_at=late) == (["2026-11-20T02:00:00Z"], {})
    with pytest.raises(ValueError, match="read_at"):
        read(pa.array(["2026-11-20"]), read_at=READ_AT.replace(tzinfo=None))


# --- Types of a database ----------------------------------------------------------------------


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+05:45"])
def test_a_timestamp_with_a_zone_is_published_in_utc(unit, zone):
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    column = pa.array([moment, None, moment], pa.timestamp(unit, zone))
    assert read(column) == (["2026-01-02T03:04:05Z", None, "2026-01-02T03:04:05Z"], {})
    assert read(column.slice(1)) == ([None, "2026-01-02T03:04:05Z"], {})
    assert read(pa.chunked_array([column, column.slice(2)]))[0][2:] == ["2026-01-02T03:04:05Z"] * 2


def test_a_date_without_time_is_published_as_a_date():
    column = pa.array([date(2026, 1, 2), None, date(2026, 11, 21), date(2026, 11, 22), date(1, 1, 1)])
    expected = (["2026-01-02", None, "2026-11-21", None, None], {FUTURE: 1, EARLY: 1})
    assert read(column) == expected
    assert read(column.cast(pa.date64())) == expected
    assert read(column, zone="Asia/Tokyo", unit="ms") == expected  # neither says anything about a date


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date64()])
def test_a_timestamp_beyond_the_calendar_is_dropped_without_an_error(kind):
    """PostgreSQL's infinity arrives as the extreme values of int64."""
    column = pa.array([-(2**63) + 1, 2**63 - 1, None]).view(kind)
    values, counts = read(column, zone="Asia/Kathmandu")
    assert values == [None] * 3
    assert counts == {NO_DATE: 2}


def test_the_physical_type_of_text_does_not_matter():
    column = pa.array(["2026-01-02", None, "2026-01-02T03:04:05Z", "x"])
    expected = read(column)
    for other in (column.cast(pa.large_string()), column.cast(pa.string_view()), column.dictionary_encode()):
        assert read(other) == expected
    assert read(pa.chunked_array([column.slice(0, 1), column.slice(1)])) == expected
    assert read(pa.array(["pad", *column.to_pylist()]).slice(1)) == expected
    assert read(pa.chunked_array([], pa.string())) == ([], {})


def test_a_column_type_without_dates_is_reported():
    for column in (pa.array([[1]]), pa.array([True]), pa.array([1], pa.time64("us"))):
        with pytest.raises(InvalidSource) as error:
            read(column)
        assert "updated" in str(error.value)
        assert str(column.type) in str(error.value)


# --- Zones ------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [pa.array([datetime(2026, 7, 2, 3, 4, 5)]), pa.array(["2026-07-02 03:04:05"])])  # noqa: DTZ001 # without a zone is the point
def test_a_time_without_a_timezone_is_refused_with_the_setting_to_add(column):
    with pytest.raises(InvalidSource) as error:
        read(column)
    assert "2026-07-02 03:04:05" in str(error.value)
    assert "\n  lastmod: {column: updated, timezone: Europe/Berlin}" in str(error.value)
    assert read(column, zone="Europe/Berlin") == (["2026-07-02T01:04:05Z"], {})
    assert read(column, zone="+02:00") == (["2026-07-02T01:04:05Z"], {})
    assert read(column, zone="UTC") == read(column, zone="Z") == (["2026-07-02T03:04:05Z"], {})


def test_a_column_of_nulls_without_a_timezone_is_accepted():
    assert read(pa.nulls(2, pa.timestamp("us"))) == ([None, None], {})


def test_the_timezone_setting_applies_only_to_times_without_one():
    texts = pa.array(["2026-07-02 03:04:05", "2026-07-02 03:04:05Z", "2026-07-02"])
    assert read(texts, zone="Europe/Berlin")[0] == ["2026-07-02T01:04:05Z", "2026-07-02T03:04:05Z", "2026-07-02"]


def test_a_repeated_hour_is_the_earlier_one_and_a_skipped_time_the_end_of_the_gap():
    texts = pa.array(["2026-10-25 02:30:00", "2026-03-29 02:30:00", "2026-03-29 03:00:00"])
    assert read(texts, zone="Europe/Berlin") == (
        ["2026-10-25T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:00:00Z"],
        {},
    )


def test_a_row_edited_in_a_repeated_hour_is_not_in_the_future_of_that_run():
    """The first 02:10 of the night, read five minutes later: taken for the second, it would be dropped."""
    read_at = datetime(2026, 10, 25, 0, 15, tzinfo=UTC)
    texts = pa.array(["2026-10-25 02:10:00"])
    assert read(texts, zone="Europe/Berlin", read_at=read_at) == (["2026-10-25T00:10:00Z"], {})


def test_an_unknown_timezone_or_unit_is_an_error_of_the_site_file():
    with pytest.raises(ConfigError, match="Mars/Base"):
        read(pa.array(["2026-07-02 03:04:05"]), zone="Mars/Base")
    with pytest.raises(ConfigError, match="minutes"):
        read(pa.array([1]), unit="minutes")


# --- Numbers ----------------------------------------------------------------------------------

EPOCH = 1_767_323_045  # 2026-01-02T03:04:05Z


@pytest.mark.parametrize(("unit", "times"), [("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)])
def test_epoch_numbers_of_each_unit_and_type_are_read(unit, times):
    whole = EPOCH * times
    columns = [
        pa.array([whole, None]),
        pa.array([whole, None], pa.uint64()),
        pa.array([float(whole), float("nan")]),  # pandas writes a missing number as NaN
        pa.array([Decimal(whole), None], pa.decimal128(38, 2)),
        pa.array([str(whole), ""]),
        pa.array([f" +{whole}.75 ", None]),
    ]
    for column in columns:
        assert read(column, unit=unit) == (["2026-01-02T03:04:05Z", None], {}), column.type


@pytest.mark.parametrize(
    ("column", "counts"),
    [
        (pa.array([0, -5, 2**62]), {EARLY: 2, NO_DATE: 1}),
        (pa.array([2**64 - 1, 2**63], pa.uint64()), {NO_DATE: 2}),
        (pa.array([float("inf"), -1e300, 1e12]), {NO_DATE: 3}),
        (pa.array([Decimal("1e30"), Decimal(-1)], pa.decimal128(38, 2)), {NO_DATE: 1, EARLY: 1}),
        (pa.array(["9999999999999999999", "12", "2026", "x"]), {NO_DATE: 2, EARLY: 2}),
        (pa.array([EPOCH * 1000]), {NO_DATE: 1}),  # milliseconds taken for seconds: the year 57973
        (pa.array([EPOCH * 2]), {FUTURE: 1}),
    ],
)
def test_numbers_that_are_not_dates_are_dropped(column, counts):
    assert read(column, unit="s") == ([None] * len(column), counts)


def test_numbers_and_dates_can_be_in_one_column_of_text():
    """A column in SQLite can have values of several types."""
    texts = pa.array([str(EPOCH), "2026-01-02", "2026-01-02 03:04:05Z"])
    assert read(texts, unit="s") == (["2026-01-02T03:04:05Z", "2026-01-02", "2026-01-02T03:04:05Z"], {})


@pytest.mark.parametrize(
    ("column", "unit"),
    [
        (pa.array([None, EPOCH]), "s"),
        (pa.array([EPOCH * 10**3]), "ms"),
        (pa.array([EPOCH * 1e6]), "us"),
        (pa.array([Decimal(EPOCH * 10**9)]), "ns"),
        (pa.array([None, "n/a", str(EPOCH * 10**3)]), "ms"),
    ],
)
def test_a_number_without_a_unit_is_refused_with_the_setting_to_add(column, unit):
    with pytest.raises(InvalidSource) as error:
        read(column)
    assert str(EPOCH)[:9] in str(error.value).replace(".", "")
    assert f"\n  lastmod: {{column: updated, unit: {unit}}}" in str(error.value)


def test_a_single_number_among_dates_is_dropped_and_does_not_refuse_the_column():
    assert read(pa.array(["2026-01-02", str(EPOCH)])) == (["2026-01-02", None], {NO_DATE: 1})
    assert read(pa.array(["0", None])) == ([None, None], {NO_DATE: 1})


# --- Properties -------------------------------------------------------------------------------

MOMENTS = st.datetimes(datetime(1990, 1, 2), datetime(2026, 11, 18))  # noqa: DTZ001 # the zone is drawn apart
OFFSETS = st.integers(-15 * 60, 15 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(st.lists(st.tuples(MOMENTS, OFFSETS, st.sampled_from([" ", "T"]), st.integers(0, 9)), min_size=1))
def test_any_time_with_any_offset_is_read_as_by_python(drawn):
    texts, expected = [], []
    for moment, offset, separator, digits in drawn:
        whole = moment.replace(tzinfo=offset)
        fraction = f".{moment.microsecond:06}000"[: digits + 1] if digits else ""
        texts.append(f"{whole:%Y-%m-%d{separator}%H:%M:%S}{fraction}{whole.isoformat()[-6:]}")
        expected.append(whole.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    assert read(pa.array(texts)) == (expected, {})


@given(st.lists(st.one_of(st.none(), st.text(alphabet="0123456789-:.,TtZz+ UC", max_size=30), st.text(max_size=60))))
def test_any_text_is_a_valid_lastmod_or_dropped(texts):
    values, counts = read(pa.array(texts, pa.string()), zone="Europe/Berlin", unit="s")
    for text, value in zip(texts, values, strict=True):
        if value is not None:
            assert len(value) in (10, 20)
            assert datetime.fromisoformat(value).year >= 1990
        elif text is not None and text.strip(" \t\n\v\f\r"):
            assert counts


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.sampled_from(["s", "ms", "us", "ns"]))
def test_any_number_is_a_valid_lastmod_or_dropped(numbers, unit):
    values, counts = read(pa.array(numbers, pa.int64()), unit=unit)
    assert sum(counts.values()) == sum(n is not None and v is None for n, v in zip(numbers, values, strict=True))


@given(
    st.lists(st.one_of(st.none(), MOMENTS)), st.sampled_from(["Europe/Berlin", "America/New_York", "Asia/Kathmandu"])
)
def test_local_times_are_read_as_by_python(moments, zone):
    values, _ = read(pa.array(moments, pa.timestamp("us")), zone=zone)
    for moment, value in zip(moments, values, strict=True):
        if moment is None:
            assert value is None
            continue
        instant = moment.replace(tzinfo=ZoneInfo(zone)).astimezone(UTC)
        if instant.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == moment:  # not in a skipped hour
            assert value == instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_a_long_column_is_read_like_its_single_rows():
    """Blocks, lengths and timezone formats are read together; none may affect its neighbors."""
    random = np.random.default_rng(7)
    pool = np.array([text for text, _ in TEXTS] + ["", "x", "0000-00-00", "2026"], object)
    expected = dict(TEXTS)
    texts = pool[random.integers(0, len(pool), 100_000)]
    values, _ = read(pa.array(texts, pa.string()))
    assert values == [expected.get(text) for text in texts]


def test_every_reason_is_in_the_documentation():
    text = (Path(__file__).parent.parent / "docs" / "reference" / "lastmod.md").read_text(encoding="utf-8")
    for reason in [*lastmod.REASONS, *priority.REASONS]:
        assert f"`{reason}`" in text, reason


DAYS = st.dates(date(1, 1, 1), date(9999, 12, 31))
INSTANTS = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))  # noqa: DTZ001 (of UTC)
LASTMODS = st.one_of(st.none(), DAYS.map(str), INSTANTS.map(lambda at: f"{at:%Y-%m-%dT%H:%M:%SZ}".zfill(20)))


@given(st.lists(LASTMODS, max_size=20))
def test_numeric_lastmods_sort_like_their_texts_and_convert_back(found: list[str | None]) -> None:
    numbers = moments(*found)
    assert lastmod.texts(numbers).to_pylist() == found
    assert lastmod.texts(numbers[1:]).to_pylist() == found[1:]
    there = sorted({text for text in found if text is not None})
    assert sorted(set(numbers.drop_null().to_pylist())) == moments(*there).to_pylist()


# --- The newest of several --------------------------------------------------------------------


def test_the_newest_date_of_several_columns_is_used_for_each_row():
    columns = [
        moments("2026-01-02", "2026-01-03", None, None, "2026-01-02"),
        moments("2026-01-02T00:00:00Z", "2026-01-02T23:59:59Z", "2026-01-01", None, "2026-01-02"),
    ]
    # The instant is newer than the date of its day, older than the next day's.
    expected = ["2026-01-02T00:00:00Z", "2026-01-03", "2026-01-01", None, "2026-01-02"]
    assert lastmod.texts(lastmod.newest_of(columns)).to_pylist() == expected
    assert lastmod.texts(lastmod.newest_of(columns[::-1])).to_pylist() == expected
    assert lastmod.newest_of(columns[:1]) == columns[0]
    with pytest.raises(ValueError, match="at least one"):
        lastmod.newest_of([])


@pytest.mark.parametrize(
    ("form", "values", "expected"),
    [
        ("%d.%m.%Y", ["02.01.2026", "2.1.2026", " 02.01.2026 ", "31.02.2026", "02/01/2026", "2026-01-03", None, ""],
         ["2026-01-02", "2026-01-02", "2026-01-02", None, None, "2026-01-03", None, None]),
        ("%m/%d/%y %I:%M %p", ["1/2/26 12:05 AM", "01/02/26 1:05 pm", "1/2/26 13:00 PM", "1/2/26 0:05 AM",
                               "1/2/99 12:00 PM"],
         ["2026-01-01T23:05:00Z", "2026-01-02T12:05:00Z", None, None, "1999-01-02T11:00:00Z"]),
        ("%d %b %Y %H:%M:%S %z", ["02 Jan 2026 03:04:05 +0100", "2 March 2026 3:04:05 Z", "2 Mrz 2026 03:04:05 Z"],
         ["2026-01-02T02:04:05Z", "2026-03-02T03:04:05Z", None]),
        ("%d %B %Y", ["2 JANU 2026", "2 sept. 2025", "2 maaliskuu 2025", "2 marraskuu 2025", "2 Junk 2025"],
         ["2026-01-02", "2025-09-02", None, None, None]),
        ("%Y%m%d", ["20260102", "20261302", "202611", "2026111"], ["2026-01-02", None, None, None]),
        ("%Y%m%d%H%M%S", ["20260102030405", "202601020304"], ["2026-01-02T02:04:05Z", None]),
        ("%d%b%Y", ["2Jan2026", "02jan2026"], ["2026-01-02", "2026-01-02"]),
        ("%Y%m%d", [20260102, None], ["2026-01-02", None]),
        ("%Y-%m-%dT%T.%f", ["2026-01-02T03:04:05.678"], ["2026-01-02T02:04:05Z"]),
        ("excel", [46024, 46024.5, 1.0, None, 1e12], ["2026-01-02", "2026-01-02T11:00:00Z", None, None, None]),
        ("excel", ["46024", "46024.75", "2026-01-03", "x", ""],
         ["2026-01-02", "2026-01-02T17:00:00Z", "2026-01-03", None, None]),
    ],
)  # fmt: skip
def test_dates_in_another_format_are_read_with_the_format_setting(
    form: str, values: list[object], expected: list[str | None]
) -> None:
    read_at = datetime(2026, 6, 1, tzinfo=UTC)
    found = lastmod.moments(
        pa.array(values), name="changed", timezone="Europe/Berlin", form=form, read_at=read_at, tally=Tally()
    )
    assert lastmod.texts(found).to_pylist() == expected


def test_a_value_that_does_not_match_the_format_is_counted_with_its_text() -> None:
    tally = Tally()
    values = pa.array(["02.01.2026", "gestern", "2026"])
    read_at = datetime(2026, 6, 1, tzinfo=UTC)
    lastmod.moments(values, name="changed", form="%d.%m.%Y", read_at=read_at, tally=tally)
    assert dict(tally.counts) == {"lastmod not a date": 1, "lastmod without a day": 1}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_a_serial_number_that_is_nan_is_null_and_one_that_is_too_large_is_dropped(kind: pa.DataType) -> None:
    tally = Tally()
    values = pa.array([46024, np.nan, np.inf, -np.inf, 1e12], kind)
    read_at = datetime(2026, 6, 1, tzinfo=UTC)
    found = lastmod.moments(values, name="changed", form="excel", read_at=read_at, tally=tally)
    assert lastmod.texts(found).to_pylist() == ["2026-01-02", *[None] * 4]
    assert dict(tally.counts) == {"lastmod not a date": 3}


def test_numbers_among_dates_are_reported_with_the_setting_that_reads_them() -> None:
    tally = Tally()
    values = pa.array(["2026-01-01", "1764547200", "1764547201"])
    lastmod.moments(values, name="changed", read_at=datetime(2026, 6, 1, tzinfo=UTC), tally=tally)
    (reason,) = tally.ordered()
    assert (reason.text, reason.count) == ("lastmod not a date", 2)
    assert "lastmod: {column: changed, unit: s}" in reason.advice


@given(st.integers(800_000_000, 1_767_000_000))
def test_dates_written_by_strftime_are_read_back(seconds: int) -> None:
    moment = datetime.fromtimestamp(seconds, UTC)
    for form in ("%d.%m.%Y %H:%M:%S", "%b %d, %Y %I:%M:%S %p", "%A, %d. %B %y %T", "%m/%d/%Y %R:%S"):
        found = lastmod.moments(
            pa.array([moment.strftime(form)]),
            name="changed",
            timezone="UTC",
            form=form,
            read_at=datetime(2026, 6, 1, tzinfo=UTC),
            tally=Tally(),
        )
        assert lastmod.texts(found).to_pylist() == [f"{moment:%Y-%m-%dT%H:%M:%SZ}"]


MAIL = "%a, %d %b %Y %H:%M:%S %z"


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        ("GMT", "03:04:05"),
        ("UTC", "03:04:05"),
        ("UT", "03:04:05"),
        ("z", "03:04:05"),
        ("-0000", "03:04:05"),
        ("+0200", "01:04:05"),
        ("EST", "08:04:05"),
        ("edt", "07:04:05"),
        ("CST", "09:04:05"),
        ("MDT", "09:04:05"),
        ("PST", "11:04:05"),
    ],
)
def test_email_dates_are_read_with_their_timezones(zone: str, expected: str) -> None:
    column = pa.array([f"Fri, 02 Jan 2026 03:04:05 {zone}", "2026-01-02", "Fri, 02 Jan 2026 03:04:05 CET"])
    tally = Tally()
    found = lastmod.moments(column, name="updated", form=MAIL, read_at=READ_AT, tally=tally)
    assert lastmod.texts(found).to_pylist() == [f"2026-01-02T{expected}Z", "2026-01-02", None]
    assert tally.examples == {NO_DATE: ["Fri, 02 Jan 2026 03:04:05 CET"]}


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Fri, 02 Jan 2026 03:04:05 GMT", MAIL),
        ("2 Jan 26 03:04 +0100", "%d %b %y %H:%M %z"),
    ],
)
def test_email_dates_without_a_format_are_reported_with_the_setting_that_reads_them(text: str, form: str) -> None:
    tally = Tally()
    assert read(pa.array([text]), tally=tally) == ([None], {NO_DATE: 1})
    assert f"lastmod: {{column: updated, format: '{form}'}}" in tally.advice[NO_DATE]
    assert lastmod.moments(pa.array([text]), name="updated", form=form, read_at=READ_AT, tally=tally).null_count == 0


def test_dates_of_mongodb_exports_are_unwrapped() -> None:
    at = "2026-01-02T03:04:05Z"
    long = {"$numberLong": "1767323045000"}
    for column in (
        pa.array([{"$date": at}, None]),
        pa.array([{"$date": 1767323045000}, {"$date": None}]),
        pa.array([{"$date": long}, None]),
        pa.array(['{"$date": {"$numberLong": "1767323045000"}}', None]),
        pa.array([f' {{ "$date" : "{at}" }} ', ""]),
    ):
        assert read(column) == ([at, None], {})
    assert read(pa.array(['{"$date": -1}', "{}", "2026-01-02", f'{{"$date": "{at}"}}'])) == (
        [None, None, "2026-01-02", at],
        {NO_DATE: 1, EARLY: 1},
    )


def test_other_structs_are_not_dates() -> None:
    with pytest.raises(InvalidSource, match="expected a date"):
        read(pa.array([{"$oid": "5f"}]))
