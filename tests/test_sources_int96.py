"""INT96 timestamps of Parquet: read as written, or dropped with their true value."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import lastmod, sources
from sitemap_etl.frames import Tally
from sitemap_etl.settings import ParquetExport
from sitemap_etl.sources.batches import conform
from sitemap_etl.sources.lake import lake
from sitemap_etl.sources.splits import Split
from tests.support import int96
from tests.support.lake import Delta

NOW = datetime(2026, 11, 25, tzinfo=UTC)
DAY = 86_400_000_000


def read(plan: list[Split]) -> pa.Table:
    return pa.Table.from_batches([batch for split in plan for batch in sources.read(split)])


def micros(table: pa.Table, name: str = "changed") -> list[int | None]:
    found: list[int | None] = table[name].combine_chunks().view(pa.int64()).to_pylist()
    return found


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2 * 10**15)), min_size=1))
def test_every_time_that_spark_can_write_is_read_exactly(tmp_path: Path, times: list[int | None]) -> None:
    path = int96.write(tmp_path / "a.parquet", [None if one is None else int96.of_spark(one) for one in times])
    assert micros(read(sources.plan_parquet(path))) == times


@given(st.integers(1, 2**31 - 1), st.integers(0, 86_400_000_000_000 - 1))
def test_a_day_beyond_64_bits_becomes_the_extreme_value(tmp_path: Path, day: int, nanoseconds: int) -> None:
    path = int96.write(tmp_path / "a.parquet", [(day, nanoseconds)])
    exact = (day - int96.JULIAN_1970) * DAY + nanoseconds // 1000
    assert micros(read(sources.plan_parquet(path))) == [min(exact, 2**63 - 1)]


@pytest.mark.parametrize("bits", [(2**32 - 1, 2**63), (2**32 - 1, 0), (2**31, 2**62), (0, 2**64 - 1), (2**32 - 1, 5)])
def test_no_invalid_int96_value_becomes_a_publishable_date(tmp_path: Path, bits: tuple[int, int]) -> None:
    path = int96.write(tmp_path / "a.parquet", [bits])
    tally = Tally()
    column = read(sources.plan_parquet(path))["changed"]
    assert lastmod.moments(column, name="changed", timezone="UTC", read_at=NOW, tally=tally).to_pylist() == [None]
    assert tally.total == 1


@pytest.mark.parametrize("sql", [None, "SELECT * FROM source", "SELECT loc, changed FROM source WHERE loc <> '/x'"])
def test_a_time_out_of_range_is_dropped_and_reported_with_its_true_value(tmp_path: Path, sql: str | None) -> None:
    path = int96.write(
        tmp_path / "a.parquet", list(int96.EXAMPLES.values()), loc=[f"/{at}" for at in range(len(int96.EXAMPLES))]
    )
    plan = (
        sources.plan_parquet(path)
        if sql is None
        else sources.plan_query({"source": ParquetExport(parquet=(str(path),))}, sql)
    )
    found = read(plan).sort_by("loc")["changed"]
    tally = Tally()
    texts = lastmod.texts(lastmod.moments(found, name="changed", timezone="UTC", read_at=NOW, tally=tally))
    expected = [text if text.startswith("2026") else None for text in int96.EXAMPLES]
    assert texts.to_pylist() == expected
    shown = {example for examples in tally.examples.values() for example in examples}
    assert shown == {text for text in int96.EXAMPLES if not text.startswith("2026")}


def test_times_inside_lists_and_structs_are_read_alike(tmp_path: Path) -> None:
    times = list(int96.EXAMPLES.values())
    path = int96.write(tmp_path / "a.parquet", times)
    plain = read(sources.plan_parquet(path))["changed"].combine_chunks()
    # The same leaves under another schema: pyarrow writes no INT96 below a list of its own accord.
    moments = pa.array(
        [datetime(2001, 2, 3, 4, 5, 6 + at, tzinfo=UTC) for at in range(len(times))], pa.timestamp("us", "UTC")
    )
    nested = pa.table(
        {
            "l": pa.ListArray.from_arrays(pa.array([0, 2, 2, len(times)], pa.int32()), moments),
            "s": pa.StructArray.from_arrays([moments.slice(0, 3)], ["changed"]),
        }
    )
    deep = tmp_path / "deep.parquet"
    pq.write_table(
        nested,
        deep,
        use_deprecated_int96_timestamps=True,
        use_dictionary=False,
        compression="none",
        store_schema=False,
    )
    data = deep.read_bytes()
    for at, time in enumerate(times):
        since = int(moments[at].value)
        data = data.replace(int96.bits(since // DAY + int96.JULIAN_1970, since % DAY * 1000), int96.bits(*time))
    deep.write_bytes(data)
    found = read(sources.plan_parquet(deep))
    assert found["l"].combine_chunks().flatten().equals(plain)
    assert found["s"].combine_chunks().field("changed").equals(plain.slice(0, 3))


def test_row_groups_and_batches_keep_each_time_in_its_row(tmp_path: Path) -> None:
    count = 5_000
    times = [datetime(2020, 1, 1 + at % 28, at % 24, tzinfo=UTC) for at in range(count)]
    path = tmp_path / "a.parquet"
    table = pa.table({"loc": [f"/{at}" for at in range(count)], "changed": pa.array(times, pa.timestamp("us", "UTC"))})
    pq.write_table(table, path, use_deprecated_int96_timestamps=True, row_group_size=700)
    for batch_rows in (64, 1_000, 100_000):
        plan = sources.plan_parquet(path, split_rows=2_000)
        found = [batch for split in plan for batch in sources.read(split, batch_rows=batch_rows)]
        assert pa.Table.from_batches(found).equals(table.cast(found[0].schema))


def test_files_with_nanoseconds_and_with_int96_can_be_combined(tmp_path: Path) -> None:
    int96.write(tmp_path / "a.parquet", [int96.EXAMPLES["2600-01-01 00:00:00.000000"]])
    at = pa.array([1_767_323_045_123_456_789], pa.int64()).view(pa.timestamp("ns"))
    pq.write_table(pa.table({"changed": at}), tmp_path / "b.parquet")
    assert micros(read(sources.plan_parquet(tmp_path))) == [19_880_899_200_000_000, 1_767_323_045_123_456]
    export = ParquetExport(parquet=(str(tmp_path),))
    found = read(sources.plan_query({"source": export}, "SELECT changed FROM source ORDER BY changed DESC"))
    assert micros(found) == [19_880_899_200_000_000, 1_767_323_045_123_456]


def test_timestamps_in_seconds_become_milliseconds() -> None:
    seconds = pa.array([253_402_300_799, 2**62, None], pa.int64()).view(pa.timestamp("s"))
    batch = pa.RecordBatch.from_arrays([seconds], ["changed"])
    found = conform(batch, pa.schema([("changed", pa.timestamp("ms"))]))
    assert found.column("changed").view(pa.int64()).to_pylist() == [253_402_300_799_000, 2**63 - 1, None]


# --- Delta Lake, as Spark writes it ---


def delta(folder: Path, *, feed: bool = False) -> Delta:
    """Return a table with the examples' times in INT96."""
    import deltalake

    folder.mkdir()
    locs = [f"/{at}" for at in range(len(int96.EXAMPLES))]
    int96.write(folder / "a.parquet", list(int96.EXAMPLES.values()), loc=locs)
    settings = {"delta.enableChangeDataFeed": "true"} if feed else {}
    deltalake.convert_to_deltalake(str(folder), configuration=settings)
    return Delta(str(folder), feed=feed)


def read_delta(table: Delta) -> dict[str, int | None]:
    source = lake.TableSource("delta", table.address)
    found = read(lake.plan_table(lake.find_table(source), source))
    return dict(zip(found["loc"].to_pylist(), micros(found), strict=True))


@pytest.mark.parametrize("masked", [False, True], ids=["plain", "with a deletion vector"])
def test_times_of_a_delta_table_do_not_wrap_around(tmp_path: Path, *, masked: bool) -> None:
    table = delta(tmp_path / "t")
    if masked:
        table.mask(0)
    found = read_delta(table)
    assert ("/0" in found) != masked
    assert [found[f"/{at}"] for at in (1, 2, 3)] == [
        19_880_899_200_000_000,
        -14_817_470_400_000_000,
        253_402_300_799_999_999,
    ]


def test_a_change_feed_whose_times_would_wrap_around_is_not_read(tmp_path: Path) -> None:
    table = delta(tmp_path / "t", feed=True)
    before = str(table.version())
    int96.write(tmp_path / "t" / "b.parquet", [int96.EXAMPLES["2600-01-01 00:00:00.000000"]], loc=["/new"])
    _add(table, tmp_path / "t" / "b.parquet")
    source = lake.TableSource("delta", table.address)
    splits = lake.plan_changes(lake.find_table(source), source, before)
    assert not isinstance(splits, str)
    found = read(splits)
    assert (found["loc"].to_pylist(), micros(found)) == (["/new"], [19_880_899_200_000_000])


def _add(table: Delta, file: Path) -> None:
    """Add a file to the table's log: delta-rs itself writes no INT96."""
    action = {"path": file.name, "size": file.stat().st_size, "partitionValues": {}, "modificationTime": 0}
    actions = [{"commitInfo": {"timestamp": 0, "operation": "WRITE"}}, {"add": {**action, "dataChange": True}}]
    log = Path(table.address) / "_delta_log" / f"{table.version() + 1:020}.json"
    log.write_text("".join(f"{json.dumps(one)}\n" for one in actions))
