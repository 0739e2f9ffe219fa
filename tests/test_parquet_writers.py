"""Parquet of other writers: types and layouts that pyarrow would not write itself."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sitemap_etl import limits, sources
from sitemap_etl.errors import InvalidSource
from sitemap_etl.settings import ParquetExport
from tests.support.beginnings import runs, started
from tests.support.command import call, process
from tests.support.sites import TestSite

COUNT = 40
SHOP = "https://shop.example"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TestSite:
    monkeypatch.chdir(tmp_path)
    return TestSite(tmp_path)


def written(path: str | Path, table: pa.Table, **options: Any) -> Path:
    pq.write_table(table, path, **options)
    return Path(path)


def ids(count: int = COUNT) -> list[uuid.UUID]:
    return [uuid.UUID(int=at + (1 << 100)) for at in range(count)]


def of_uuids(values: list[uuid.UUID | None]) -> pa.Array:
    return pa.array([None if one is None else one.bytes for one in values], pa.uuid())


# --- UUIDs ---


@pytest.mark.parametrize("store_schema", [True, False], ids=["of Arrow", "of others"])
@pytest.mark.parametrize("sql", [None, "SELECT * FROM source", "SELECT id, ids, one FROM source WHERE id <> ''"])
def test_a_uuid_is_text_at_any_depth(tmp_path: Path, sql: str | None, *, store_schema: bool) -> None:
    values: list[uuid.UUID | None] = [*ids(3), None]
    array = of_uuids(values)
    lists = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), array)
    table = pa.table({"id": array, "ids": lists, "one": pa.StructArray.from_arrays([array], ["id"])})
    path = written(tmp_path / "a.parquet", table, store_schema=store_schema)
    export = ParquetExport(parquet=(str(path),))
    plan = sources.plan_parquet(path) if sql is None else sources.plan_query({"source": export}, sql)
    found = pa.Table.from_batches([batch for split in plan for batch in sources.read(split)])
    texts = [None if one is None else str(one) for one in values]
    if sql is not None and "WHERE" in sql:
        texts.pop()
    rows = found.sort_by("id").to_pylist()
    assert [row["id"] for row in rows] == texts
    assert [row["one"] for row in rows] == [{"id": text} for text in texts]
    assert [row["ids"] for row in rows][:3] == [texts[:2], [], texts[2:3]]


@pytest.mark.parametrize("store_schema", [True, False], ids=["of Arrow", "of others"])
def test_init_writes_a_site_file_for_an_export_with_a_uuid(site: TestSite, *, store_schema: bool) -> None:
    table = pa.table({"id": of_uuids(list(ids())), "url": [f"{SHOP}/p/{one}" for one in ids()]})
    written("a.parquet", table, store_schema=store_schema)
    assert started("a.parquet")["sections"]["a"]["columns"] == {"loc": "url"}
    runs(COUNT)


# --- times ---

DATED: dict[str, pa.Array] = {
    "nanoseconds": pa.array([1_767_323_045_123_456_789 + at for at in range(COUNT)]).view(pa.timestamp("ns")),
    "nanoseconds of UTC": pa.array([1_767_323_045_123_456_789 + at for at in range(COUNT)]).view(
        pa.timestamp("ns", "UTC")
    ),
    "a time far away": pa.array([1_767_323_045_000_000] * (COUNT - 1) + [2**62], pa.int64()).view(pa.timestamp("us")),
    "a zone that does not exist": pa.array([1_767_323_045_000] * COUNT).view(pa.timestamp("ms", "Nowhere/Land")),
    "a day far away": pa.array([20_000] * (COUNT - 1) + [2**31 - 1], pa.int32()).view(pa.date32()),
}


@pytest.mark.parametrize("kind", DATED)
def test_init_and_a_run_read_dates(site: TestSite, kind: str) -> None:
    times = DATED[kind]
    written("a.parquet", pa.table({"url": [f"{SHOP}/p/{at}" for at in range(COUNT)], "updated_at": times}))
    # In a process of its own: with pandas among the modules, pyarrow would make other values.
    done = process("init", "site.yaml", "--from", "a.parquet", cwd=Path())
    said = done.communicate()
    assert done.returncode == 0, said
    done = process("run", "site.yaml", "--dry-run", "--json", cwd=Path())
    out, err = done.communicate()
    assert done.returncode == 0, (out, err)
    assert json.loads(out)["sections"]["a"]["listed"] == COUNT


def test_init_reads_int96(site: TestSite) -> None:
    times = [datetime(2026, 1, 1 + at % 28, at % 24, tzinfo=UTC) for at in range(COUNT)]
    urls = [f"{SHOP}/{at}" for at in range(COUNT)]
    table = pa.table({"url": urls, "changed": pa.array(times, pa.timestamp("us", "UTC"))})
    written("a.parquet", table, use_deprecated_int96_timestamps=True, store_schema=False)
    assert started("a.parquet")["sections"]["a"]["lastmod"] == {"column": "changed", "timezone": "UTC"}
    runs(COUNT)


def test_init_ignores_times_of_day_durations_and_nested_nanoseconds(site: TestSite) -> None:
    stamps = pa.array([1_767_323_045_123_456_789] * COUNT).view(pa.timestamp("ns"))
    others = {
        "opens": pa.array([123_456_789] * COUNT).view(pa.time64("ns")),
        "takes": pa.array([123_456_789] * COUNT).view(pa.duration("ns")),
        "history": pa.ListArray.from_arrays(pa.array(range(COUNT + 1), pa.int32()), stamps),
        "last": pa.StructArray.from_arrays([stamps], ["at"]),
        "nothing": pa.nulls(COUNT),
        "price": pa.array([Decimal("1.50")] * COUNT),
        "half": pa.array([1.5] * COUNT, pa.float16()),
    }
    written("a.parquet", pa.table({"url": [f"{SHOP}/{at}" for at in range(COUNT)], **others}))
    done = process("init", "site.yaml", "--from", "a.parquet", cwd=Path())
    assert done.communicate()[1].count("Traceback") == 0
    assert done.returncode == 0
    runs(COUNT)


# --- text without its annotation ---

TEXTS: dict[str, list[str | None]] = {
    "loc": [f"/p/{at}" if at else "/größe" for at in range(COUNT)],
    "lastmod": [None, "2026-10-01", "2026-10-01T10:00:00Z", "01.10.2026", *(["2026-09-01"] * (COUNT - 4))],
    "changefreq": ["daily", "Weekly", "never ever", None, *(["monthly"] * (COUNT - 4))],
    "priority": ["0.5", "1", "high", None, *(["0.25"] * (COUNT - 4))],
    "exclude": [None, "", "sold out", None, *([None] * (COUNT - 4))],
    "images": ["/a.jpg", '["/b.jpg", "/c.jpg"]', None, "https://cdn.example/ü.jpg", *([None] * (COUNT - 4))],
    "alternates": ['{"de": "/de/1"}', None, "{", "", *([None] * (COUNT - 4))],
    "mobile": ["true", "0", "perhaps", None, *([None] * (COUNT - 4))],
    "title": ["Lampe", "Größe", None, "\x00", *(["T"] * (COUNT - 4))],
}
LAYOUTS: dict[str, pa.DataType] = {
    "bytes": pa.binary(),
    "large bytes": pa.large_binary(),
    "views of bytes": pa.binary_view(),
    "large text": pa.large_string(),
    "views of text": pa.string_view(),
    "a dictionary": pa.dictionary(pa.int32(), pa.string()),
    "a dictionary of bytes": pa.dictionary(pa.int16(), pa.binary()),
}


@pytest.mark.parametrize("store_schema", [True, False], ids=["of Arrow", "of others"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_binary_columns_are_read_as_text(tmp_path: Path, layout: str, *, store_schema: bool) -> None:
    published = []
    for folder, kind in (("plain", pa.string()), ("other", LAYOUTS[layout])):
        site = TestSite(tmp_path / folder)
        raw = {name: pa.array(values, pa.string()) for name, values in TEXTS.items()}
        columns = (
            {name: values.cast(pa.binary()).cast(kind) for name, values in raw.items()} if kind != pa.string() else raw
        )
        written(site.folder / "p.parquet", pa.table(columns), store_schema=store_schema)
        site.section("p", **{"from": {"parquet": "./p.parquet"}, "gates": {"max_rejected": 1.0}})
        done = site.night(20)
        published.append(
            (site.public().contents(), {kind: tally.to_json() for kind, tally in done.summary.reasons["p"].items()})
        )
    assert published[0] == published[1]
    assert published[0][1]["notes"]["lastmod not a date"]["count"] == 1


@pytest.mark.parametrize("word", [b"false", b"0", b"", b" "])
def test_binary_text_that_means_no_deletes_no_row(tmp_path: Path, word: bytes) -> None:
    from sitemap_etl.transform.batch import says_yes

    values = pa.array([word, None, b"true", b"2026-01-01", b"\xff"], pa.binary())
    assert says_yes(values).tolist() == [False, False, True, True, True]


def test_a_date_with_invalid_utf8_is_dropped_but_not_its_page(site: TestSite) -> None:
    dates = [b"2026-10-01", b"\xff\xfe", b"2026-10-0\xff"]
    written("p.parquet", pa.table({"loc": ["/a", "/b", "/c"], "lastmod": pa.array(dates, pa.binary())}))
    site.section("p", **{"from": {"parquet": "./p.parquet"}})
    done = site.night(1)
    note = done.summary.reasons["p"]["notes"].to_json()["lastmod not a date"]
    assert (note["count"], note["examples"][0]) == (2, f"{SHOP}/b: \\xff\\xfe")
    assert {one.loc: one.lastmod for one in site.public().entries()} == {
        f"{SHOP}/a": "2026-10-01",
        f"{SHOP}/b": None,
        f"{SHOP}/c": None,
    }


def test_urls_in_fixed_size_binary_are_text(site: TestSite) -> None:
    locs = pa.array([b"/p/01", b"/p/02", None], pa.binary(5))
    written("p.parquet", pa.table({"loc": locs, "lastmod": pa.array([b"2026-10-01"] * 3, pa.binary(10))}))
    site.section("p", **{"from": {"parquet": "./p.parquet"}, "gates": {"max_rejected": 1.0}})
    site.night(1)
    assert {one.loc: one.lastmod for one in site.public().entries()} == {
        f"{SHOP}/p/01": "2026-10-01",
        f"{SHOP}/p/02": "2026-10-01",
    }


# --- footers ---


def test_a_footer_with_invalid_utf8_is_refused_with_the_file_name(site: TestSite) -> None:
    path = written("a.parquet", pa.table({"loc": ["/a"], "produktname": ["x"]}), store_schema=False)
    whole = path.read_bytes()
    places = [at for at in range(len(whole)) if whole.startswith(b"produktname", at)]
    assert len(places) >= 2  # in the schema, and in the chunk of the column
    for at in places:
        path.write_bytes(whole[: at + 3] + b"\xec" + whole[at + 4 :])
        for command in (("init", "new.yaml", "--from", "a.parquet", "--site", SHOP), ("run", "p.yaml", "--dry-run")):
            Path("p.yaml").write_text(
                f"site: {SHOP}\npublish: ./public\nsections: {{a: {{from: {{parquet: a.parquet}}}}}}\n"
            )
            done = call(*command)
            assert done.code == 2, done.err
            assert "a.parquet: the footer names a column b'pro\\xecuktname', which is not UTF-8" in done.err


# --- shapes ---


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"loc": pa.array([], pa.string()), "lastmod": pa.array([], pa.timestamp("ns"))}),
        pa.table({"loc": pa.nulls(0), "n": pa.nulls(0)}),
        pa.table({"loc": pa.array([], pa.string())}).slice(0, 0),
    ],
    ids=["no rows", "columns of nulls", "one column"],
)
def test_a_file_without_rows_is_refused_by_the_gate(site: TestSite, table: pa.Table) -> None:
    written("a.parquet", table)
    site.section("a", **{"from": {"parquet": "./a.parquet"}})
    done = call("run", site.path, "--json")
    assert (done.code, done.json["status"]) == (1, "refused")


def test_empty_row_groups_and_missing_statistics_lose_no_row(tmp_path: Path) -> None:
    schema = pa.schema([("loc", pa.string()), ("nothing", pa.null())])
    path = tmp_path / "a.parquet"
    with pq.ParquetWriter(path, schema, write_statistics=False) as writer:
        for count in (0, 3, 0, 0, 2, 0):
            writer.write_table(pa.table({"loc": [f"/{at}" for at in range(count)], "nothing": pa.nulls(count)}, schema))
    plan = sources.plan_parquet(path, split_rows=2)
    found = [batch for split in plan for batch in sources.read(split)]
    assert sorted(loc for batch in found for loc in batch.column("loc").to_pylist()) == ["/0", "/0", "/1", "/1", "/2"]
    query = sources.plan_query({"source": ParquetExport(parquet=(str(path),))}, "SELECT loc FROM source WHERE loc > ''")
    assert sum(batch.num_rows for split in query for batch in sources.read(split)) == 5


def test_a_type_that_duckdb_lacks_is_named_in_sql_over_an_export(tmp_path: Path) -> None:
    table = pa.table({"loc": ["/a"], "price": pa.array([Decimal("1.5")], pa.decimal256(50, 3))})
    export = ParquetExport(parquet=(str(written(tmp_path / "a.parquet", table)),))
    with pytest.raises(InvalidSource, match=r"sql: .*Decimal"):
        sources.plan_query({"source": export}, "SELECT loc FROM source")


def test_short_decimals_of_any_width_are_read_in_sql(tmp_path: Path) -> None:
    prices = {f"d{bits}": pa.array([Decimal("1.50"), None], kind(7, 2)) for bits, kind in DECIMALS.items()}
    path = written(tmp_path / "a.parquet", pa.table({"loc": ["/a", "/b"], **prices}))
    plan = sources.plan_query({"source": ParquetExport(parquet=(str(path),))}, "SELECT * FROM source ORDER BY loc")
    (row, other) = [row for split in plan for batch in sources.read(split) for row in batch.to_pylist()]
    assert {row[name] for name in prices} == {Decimal("1.50")}
    assert {other[name] for name in prices} == {None}


DECIMALS: dict[int, Any] = {32: pa.decimal32, 64: pa.decimal64, 128: pa.decimal128, 256: pa.decimal256}


def test_an_encrypted_file_is_reported_as_encrypted(tmp_path: Path) -> None:
    from pyarrow.parquet import encryption

    table, path = pa.table({"loc": ["/a"]}), tmp_path / "a.parquet"
    keys = encryption.create_encryption_properties(footer_key=b"0123456789abcdef")
    with pq.ParquetWriter(path, table.schema, encryption_properties=keys) as writer:
        writer.write_table(table)
    with pytest.raises(InvalidSource, match=r"a\.parquet is encrypted, which is not supported"):
        sources.plan_parquet(path)


def test_a_column_with_gigabytes_per_row_is_refused_from_the_footer(tmp_path: Path) -> None:
    wide = "x" * (limits.PARQUET_VALUE_BYTES + 1)
    table = pa.table({"loc": ["/a"], "wide": [wide]})
    path = written(tmp_path / "a.parquet", table, compression="zstd", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 1_000_000
    with pytest.raises(InvalidSource, match=r"a\.parquet: the column 'wide' has .* more than 134,217,728 a row"):
        sources.plan_parquet(path)
