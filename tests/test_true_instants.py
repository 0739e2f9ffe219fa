"""Every conversion of an instant returns the same instant, or drops it with the stored value."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sitemap_etl import extensions, lastmod, sources
from sitemap_etl.dates import UNITS
from sitemap_etl.extensions.dates import dates
from sitemap_etl.frames import Tally
from sitemap_etl.settings import ParquetExport
from tests.support.sites import TestSite

NOW = datetime(2026, 11, 25, tzinfo=UTC)
SHOP = "https://shop.example"
FIRST = int(datetime(1990, 1, 1, tzinfo=UTC).timestamp())
LAST = int(NOW.timestamp())
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 2 * 10**18), st.integers(0, 2 * 10**9))


def published(column: pa.Array, unit: str | None, tally: Tally) -> list[str | None]:
    found = lastmod.moments(column, name="d", timezone="UTC", unit=unit, read_at=NOW, tally=tally)
    texts: list[str | None] = lastmod.texts(found).to_pylist()
    return texts


def expected(value: int | Decimal, unit: str) -> str | None:
    seconds = Fraction(value) // UNITS[unit]
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}" if FIRST <= seconds <= LAST else None


@given(st.lists(NUMBERS, min_size=1), st.sampled_from(list(UNITS)), st.sampled_from(["int64", "text", "decimal"]))
@example([2**63 - 1, -(2**63), 9_223_372_036_854_775], "s", "int64")
def test_an_epoch_number_of_any_unit_is_its_exact_instant_or_null(values: list[int], unit: str, kind: str) -> None:
    column = pa.array(values, pa.int64())
    if kind != "int64":
        column = column.cast(pa.string())
    if kind == "decimal":
        column = column.cast(pa.decimal128(38, 3))
    tally = Tally()
    assert published(column, unit, tally) == [expected(value, unit) for value in values]
    assert tally.total == sum(expected(value, unit) is None for value in values)


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1), st.sampled_from(list(UNITS)))
def test_an_unsigned_number_does_not_become_negative(values: list[int], unit: str) -> None:
    assert published(pa.array(values, pa.uint64()), unit, Tally()) == [expected(value, unit) for value in values]


@given(st.lists(NUMBERS, min_size=1), st.sampled_from(list(UNITS)), st.sampled_from([None, "UTC", "Asia/Tokyo"]))
def test_a_timestamp_of_any_unit_is_its_exact_instant_or_null(values: list[int], unit: str, zone: str | None) -> None:
    column = pa.array(values, pa.int64()).view(pa.timestamp(unit, zone))
    tally = Tally()
    assert published(column, None, tally) == [expected(value, unit) for value in values]
    assert not any("out of range" in one for examples in tally.examples.values() for one in examples)


@given(st.lists(NUMBERS, min_size=1), st.sampled_from(list(UNITS)))
def test_dates_of_videos_and_articles_do_not_wrap_around(values: list[int], unit: str) -> None:
    found = dates(pa.array(values, pa.int64()).view(pa.timestamp(unit, "UTC")))
    for value, seconds in zip(values, found.seconds.to_pylist(), strict=True):
        assert seconds in (None, value // UNITS[unit])
    in_range = [
        datetime(1900, 1, 1, tzinfo=UTC).timestamp() <= value // UNITS[unit] < 253_402_214_400 for value in values
    ]
    assert [seconds is not None for seconds in found.seconds.to_pylist()] == in_range


@pytest.mark.parametrize("value", [2**63 - 1, -(2**63), 9_089_380_393_200_000_000])
def test_an_article_with_a_date_in_the_distant_past_or_future_is_not_news(value: int) -> None:
    tally = Tally()
    news = extensions.news(
        pa.array(["T"]),
        pa.array([value], pa.int64()).view(pa.timestamp("us", "UTC")),
        name="N",
        language="en",
        now=NOW,
        tally=tally,
        loc=pa.array([f"{SHOP}/a"]),
    )
    assert news.to_pylist() == [None]
    assert "out of range" not in str(tally.examples)


@pytest.mark.parametrize("kind", ["DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMPTZ"])
def test_infinity_in_sql_over_an_export_is_counted_and_not_published(tmp_path: Path, kind: str) -> None:
    site = TestSite(tmp_path)
    pq.write_table(pa.table({"n": [1, 2, 3]}), tmp_path / "p.parquet")
    ends = f"CASE n WHEN 1 THEN 'infinity'::{kind} WHEN 2 THEN '-infinity'::{kind} ELSE '2026-10-01'::{kind} END"
    query = f"SELECT '/p/' || n AS loc, {ends} AS lastmod FROM source"
    site.section(
        "p", **{"from": {"parquet": "./p.parquet", "query": query}, "lastmod": {"column": "lastmod", "timezone": "UTC"}}
    )
    done = site.night(1)
    assert [entry.lastmod is None for entry in sorted(site.public().entries(), key=lambda one: one.loc)] == [
        True,
        True,
        False,
    ]
    assert sum(tally["count"] for tally in done.summary.reasons["p"]["notes"].to_json().values()) == 2


def test_a_predicate_over_times_beyond_the_calendar_keeps_the_rows(tmp_path: Path) -> None:
    values = pa.array([2**63 - 2, 1 - 2**63, 0], pa.int64())
    for unit in UNITS:
        table = pa.table({"loc": ["/a", "/b", "/c"], "d": values.view(pa.timestamp("ms" if unit == "s" else unit))})
        site = TestSite(tmp_path / unit)
        pq.write_table(table, site.folder / "p.parquet")
        site.section("p", **{"from": {"parquet": "./p.parquet"}, "where": "loc <> '/c'"})
        site.night(1)
        assert sorted(site.public().locs()) == [f"{SHOP}/a", f"{SHOP}/b"]
        export = ParquetExport(parquet=(str(site.folder / "p.parquet"),))
        plan = sources.plan_query({"source": export}, "SELECT * FROM source")
        found = [batch for split in plan for batch in sources.read(split)]
        assert pa.Table.from_batches(found)["d"].combine_chunks().view(pa.int64()).equals(values)
