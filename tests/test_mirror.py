"""A mirror's keys, buckets and files: names of rows, their bucket, and their newest version."""

from __future__ import annotations

import decimal
import itertools
import uuid
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sitemap_etl.errors import DamagedState, InvalidSource
from sitemap_etl.state.mirror import (
    BUCKET_BYTES,
    BUCKET_ROWS,
    GONE,
    KEY,
    RUN,
    SLOTS,
    MirrorWriter,
    bucket_of,
    buckets_for,
    key_text,
    read_mirror,
    rows_with_key,
    slots,
    slots_of,
    stored_rows,
    without_keys,
)
from sitemap_etl.state.records import Mirror, MirrorBucket, MirrorFile
from sitemap_etl.storage import Storage, open_storage

ONE = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([1, None, -20]), ["1", None, "-20"]),
        (pa.array(["a", "", None, " "]), ["a", None, None, " "]),
        (pa.array([b"\x00\xff", b"", None, b"a"]), ["00ff", None, None, "61"]),
        (pa.array([b"\x01", b"\x02", None, b"\xab\xcd"])[1:], ["02", None, "abcd"]),
        (pa.array([b"ab", None], pa.large_binary()), ["6162", None]),
        (pa.array([b"ab", None], pa.binary(2)), ["6162", None]),
        (pa.array([ONE.bytes], pa.uuid()), [ONE.hex]),
        (pa.array(["b", "a", "b", None]).dictionary_encode(), ["b", "a", "b", None]),
        (pa.array([date(2026, 1, 2)]), ["2026-01-02"]),
        (pa.array([decimal.Decimal("1.50")]), ["1.50"]),
        (pa.array([], pa.binary()), []),
        (pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
        (pa.chunked_array([], pa.int64()), []),
    ],
    ids=str,
)
def test_a_key_of_any_type_is_stored_as_text(array: pa.Array, text: list[str | None]) -> None:
    found = key_text(array, "id")
    assert found.to_pylist() == text
    assert found.type == pa.string()


@pytest.mark.parametrize("array", [pa.array([1.5]), pa.array([True]), pa.array([[1]]), pa.array([{"a": 1}])])
def test_a_column_that_cannot_be_a_key_is_reported_with_its_type(array: pa.Array) -> None:
    with pytest.raises(InvalidSource, match=rf"key: id is {array.type}.*, which can't be a key".replace("<", ".")[:30]):
        key_text(array, "id")


def test_the_number_of_buckets_is_a_power_of_two_that_fits_rows_and_bytes() -> None:
    assert [buckets_for(rows, 0) for rows in (0, 1, BUCKET_ROWS, BUCKET_ROWS + 1)] == [1, 1, 1, 2]
    assert [buckets_for(BUCKET_ROWS * n, 0) for n in (2, 3, 4, 5, 255, 256, 1_000)] == [2, 4, 4, 8, 256, 256, 256]
    assert [buckets_for(0, size) for size in (BUCKET_BYTES, BUCKET_BYTES + 1, BUCKET_BYTES * 5)] == [1, 2, 8]
    assert buckets_for(BUCKET_ROWS, BUCKET_BYTES * 3) == 4


@pytest.mark.parametrize("buckets", [1, 2, 256])
def test_a_key_is_in_the_bucket_of_its_hash(buckets: int) -> None:
    bounds = [slots_of(bucket, buckets) for bucket in range(buckets)]
    assert bounds[0][0] == 0
    assert bounds[-1][1] == SLOTS
    assert all(one[1] == other[0] for one, other in itertools.pairwise(bounds))
    keys = [str(number) for number in range(300)]
    for key, slot in zip(keys, slots(pa.array(keys)).tolist(), strict=True):
        first, past = bounds[bucket_of(key, buckets)]
        assert first <= slot < past
    assert len(set(slots(pa.array(keys)).tolist())) > 150


# --- files -------------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "work"))


def file(work: Storage, folder: Path, name: str, rows: list[dict[str, Any]], *, delta: bool = False) -> MirrorFile:
    fields = [("title", pa.string()), (KEY, pa.string()), (RUN, pa.string()), *([(GONE, pa.bool_())] if delta else [])]
    writer = MirrorWriter(folder / "file", pa.schema(fields))
    given = [{"title": row["t"], KEY: row["k"], RUN: name, GONE: row.get("gone", False)} for row in rows]
    writer.write(pa.Table.from_pylist(given[:1], writer.schema))
    writer.write(pa.Table.from_pylist([], writer.schema))
    writer.write(pa.Table.from_pylist(given[1:], writer.schema))
    return writer.put(work, f"mirror/{name}")


def bucket(work: Storage, folder: Path) -> MirrorBucket:
    """Three runs: a and b change in the second; in the third c is deleted and d returns."""
    base = file(work, folder, "base", [{"k": key, "t": f"{key}1"} for key in "abcd"])
    second = file(
        work,
        folder,
        "second",
        [{"k": "a", "t": "a2"}, {"k": "b", "t": "b2"}, {"k": "d", "t": "", "gone": True}],
        delta=True,
    )
    third = file(
        work,
        folder,
        "third",
        [{"k": "a", "t": "a3"}, {"k": "c", "t": "", "gone": True}, {"k": "d", "t": "d3"}],
        delta=True,
    )
    return MirrorBucket(base, (second, third))


def titles(tables: Any, column: str = "title") -> list[str]:
    return sorted(value for table in tables for value in table.column(column).to_pylist())


def test_the_mirror_returns_the_newest_row_of_each_key_without_deleted_ones(work: Storage, tmp_path: Path) -> None:
    one = bucket(work, tmp_path)
    assert (one.base.rows if one.base else 0, [delta.rows for delta in one.deltas]) == (4, [3, 3])
    assert titles(stored_rows(work, [one], [])) == ["a3", "b2", "d3"]
    assert titles(stored_rows(work, [one], [pa.array(["b"]), pa.array(["x"])])) == ["a3", "d3"]
    assert titles(stored_rows(work, [MirrorBucket(one.base)], [pa.array(["b"])])) == ["a1", "c1", "d1"]
    assert titles(stored_rows(work, [MirrorBucket(None, one.deltas)], [])) == ["a3", "b2", "d3"]
    assert list(stored_rows(work, [MirrorBucket()], [])) == []
    assert titles(stored_rows(work, [one, one], []), RUN) == ["second", "second", "third", "third", "third", "third"]


def test_only_requested_and_internal_columns_are_read(work: Storage, tmp_path: Path) -> None:
    one = bucket(work, tmp_path)
    assert {tuple(table.column_names) for table in stored_rows(work, [one], [])} == {("title", KEY, RUN)}
    assert {tuple(table.column_names) for table in stored_rows(work, [one], [], [])} == {(KEY, RUN)}
    assert {tuple(table.column_names) for table in stored_rows(work, [one], [], ["title"])} == {("title", KEY, RUN)}


def mirror(*buckets: MirrorBucket) -> Mirror:
    return Mirror("pages", "r", "id", "", "", "", "", "", buckets)


def test_all_versions_of_a_row_in_the_mirror_are_found_and_forgotten(work: Storage, tmp_path: Path) -> None:
    held = mirror(bucket(work, tmp_path))
    found = rows_with_key(work, held, "a")
    assert found is not None
    assert found.column("title").to_pylist() == ["a1", "a2", "a3"]
    assert rows_with_key(work, held, "x") is None
    left = without_keys(work, held, {"a"}, "r2")
    assert rows_with_key(work, left, "a") is None
    assert titles(stored_rows(work, left.buckets, [])) == ["b2", "d3"]
    assert without_keys(work, held, {"x"}, "r2") == held
    b_alone = without_keys(work, left, {"b", "d"}, "r3")
    assert [len(one.deltas) for one in b_alone.buckets] == [1]
    assert [one.base.rows for one in b_alone.buckets if one.base] == [1]
    none = without_keys(work, b_alone, {"c"}, "r4")
    assert none.buckets == (MirrorBucket(),)
    names = {one.key for one in left.buckets[0].files()} - {one.key for one in held.buckets[0].files()}
    assert len(names) == 3
    assert all("/pages/" in name or "pages" in name for name in names)


def test_a_missing_or_damaged_mirror_file_is_reported_with_what_to_do(work: Storage, tmp_path: Path) -> None:
    one = bucket(work, tmp_path)
    path = tmp_path / "work" / "mirror" / "second"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(DamagedState, match=r"mirror/second is damaged: its content is not.*or run with --full"):
        list(stored_rows(work, [one], []))
    path.unlink()
    with pytest.raises(DamagedState, match=r"mirror/second is missing, although the mirror.*or run with --full"):
        list(stored_rows(work, [one], []))
    with pytest.raises(DamagedState, match=r"mirror/none is missing, although .*or run with --full"):
        read_mirror(work, "mirror/none")
    work.put("mirror/bad", b"{")
    with pytest.raises(DamagedState, match=r"mirror/bad is damaged.*Or run with --full"):
        read_mirror(work, "mirror/bad")
