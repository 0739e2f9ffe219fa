from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import limits, sources
from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.settings import ParquetExport
from tests.support.examples import examples


def write(path: Path, rows: int = 10, *, group: int = 1_000_000, start: int = 0, **columns: pa.Array) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = {
        "loc": pa.array([f"/p/{i}" for i in range(start, start + rows)]),
        "id": pa.array(range(start, start + rows)),
    }
    pq.write_table(pa.table(data | columns), path, row_group_size=group)
    return path


def rows(plan: list[sources.Split], **options: object) -> pa.Table:
    return pa.Table.from_batches(
        [b for s in plan for b in sources.read(sources.Split.from_json(s.to_json()), **options)]
    )


def test_a_large_file_is_split_at_row_groups_into_equal_parts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 1000, group=100)
    plan = sources.plan_parquet(path, split_rows=400)
    assert [split.rows for split in plan] == [300, 400, 300]
    assert plan[1].label == f"{path} row groups 3-6"
    assert sorted(rows(plan)["id"].to_pylist()) == list(range(1000))


def test_small_files_share_a_split(tmp_path: Path) -> None:
    for at in range(10):
        write(tmp_path / f"{at}.parquet", 100, start=at * 100)
    plan = sources.plan_parquet(tmp_path, split_rows=500)
    assert [(split.rows, split.label) for split in plan] == [
        (500, f"{tmp_path}/0.parquet and 4 more"),
        (500, f"{tmp_path}/5.parquet and 4 more"),
    ]
    assert sorted(rows(plan)["id"].to_pylist()) == list(range(1000))


MARKS = {
    "Delta": "_delta_log/00000000000000000000.json",
    "Iceberg": "metadata/00001-5f8e.metadata.json",
    "Iceberg, compressed": "metadata/00001-5f8e.gz.metadata.json",
    "Iceberg, compressed elsewhere": "metadata/v3.metadata.json.gz",
    "Hudi": ".hoodie/hoodie.properties",
}


@pytest.mark.parametrize("kind", MARKS)
@pytest.mark.parametrize(
    "asked",
    ["table", "table/", "table/*.parquet", "table/*.zstd.parquet", "table/day=1", "**/*.parquet", "table/[d]*/*"],
)
def test_a_folder_that_is_a_table_is_refused_by_its_kind(tmp_path: Path, kind: str, asked: str) -> None:
    write(tmp_path / "table/a.zstd.parquet")
    file = write(tmp_path / "table/day=1/b.zstd.parquet")
    mark = tmp_path / "table" / MARKS[kind]
    mark.parent.mkdir(parents=True)
    mark.touch()
    with pytest.raises(
        InvalidSource,
        match=rf"files of an? {kind.partition(',')[0]} table \({tmp_path}/table\).*(Export a snapshot|as a table)",
    ):
        sources.plan_parquet(f"{tmp_path}/{asked}")
    with pytest.raises(InvalidSource, match="Or name the files of one version each by itself"):
        sources.plan_query({"source": ParquetExport(parquet=str(tmp_path / "table"))}, "SELECT * FROM source")
    assert rows(sources.plan_parquet([file])).num_rows == 10


def test_a_folder_named_metadata_is_not_a_table(tmp_path: Path) -> None:
    write(tmp_path / "export/a.parquet")
    write(tmp_path / "table/b.parquet")
    (tmp_path / "export/metadata").mkdir()
    (tmp_path / "export/metadata/notes.json").touch()
    (tmp_path / "table/_delta_log").mkdir()
    assert rows(sources.plan_parquet(tmp_path / "export")).num_rows == 10


@settings(max_examples=examples(25))
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=5),
    st.integers(1, 100),
    st.integers(1, 5_000),
)
def test_every_row_is_in_exactly_one_split(
    tmp_path: Path, files: list[tuple[int, int]], split_rows: int, split_bytes: int
) -> None:
    start = 0
    for at, (count, group) in enumerate(files):
        write(tmp_path / f"{at}.parquet", count, group=group, start=start)
        start += count
    paths = [tmp_path / f"{at}.parquet" for at in range(len(files))]
    plan = sources.plan_parquet(paths, split_rows=split_rows, split_bytes=split_bytes)
    found = [i for split in plan for batch in sources.read(split) for i in batch.column("id").to_pylist()]
    assert found == list(range(start))
    assert sum(split.rows or 0 for split in plan) == start


def test_a_section_has_a_bounded_number_of_splits(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 2_000, group=2)
    plan = sources.plan_parquet(path, split_rows=2)
    assert 200 < len(plan) <= limits.SPLITS_PER_SECTION
    assert rows(plan).num_rows == 2_000


def test_a_folder_is_read_recursively_without_hidden_names(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 1)
    write(tmp_path / "day=2" / "b.parquet", 1, start=1)
    for name in (".hidden.parquet", "_temporary/c.parquet", "d.parquet.tmp", "_SUCCESS"):
        write(tmp_path / name, 1, start=9)
    found = rows(sources.plan_parquet(tmp_path))
    assert sorted(found["id"].to_pylist()) == [0, 1]
    assert found.column_names == ["loc", "id", "day"]


def test_files_can_be_given_by_patterns_and_lists(tmp_path: Path) -> None:
    for at, name in enumerate(["a-1", "a-2", "b-1", "deep/a-3", "we[i]rd"]):
        write(tmp_path / f"{name}.parquet", 1, start=at)

    def ids(paths: object) -> list[int]:
        return sorted(rows(sources.plan_parquet(paths))["id"].to_pylist())

    assert ids(f"{tmp_path}/a-*.parquet") == [0, 1]
    assert ids(f"{tmp_path}/?-1.parquet") == [0, 2]
    assert ids(f"{tmp_path}/**/a-*.parquet") == [0, 1, 3]
    assert ids([tmp_path / "b-1.parquet", f"{tmp_path}/a-[12].parquet", str(tmp_path / "a-1.parquet")]) == [0, 1, 2]
    assert ids(tmp_path / "we[i]rd.parquet") == [4]


@pytest.mark.parametrize(
    ("name", "told"), [("a.parquet", "there is no file"), ("*.parquet", "no file matches"), ("", "no file matches")]
)
def test_a_path_without_a_file_is_reported(tmp_path: Path, name: str, told: str) -> None:
    with pytest.raises(InvalidSource, match=f"{told} {tmp_path}"):
        sources.plan_parquet(tmp_path / name)


def test_an_empty_list_of_paths_is_reported() -> None:
    with pytest.raises(InvalidSource, match="no file is named"):
        sources.plan_parquet([])


@pytest.mark.parametrize("size", [0, 3, 100, -1])
def test_a_truncated_file_is_reported(tmp_path: Path, size: int) -> None:
    path = write(tmp_path / "a.parquet")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InvalidSource, match=r"a\.parquet is not a whole Parquet file, it may be cut off"):
        sources.plan_parquet(path)


def test_damage_inside_a_file_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 5_000)
    data = bytearray(path.read_bytes())
    data[4:2_000] = bytes(1_996)
    path.write_bytes(data)
    with pytest.raises(InvalidSource, match=r"a\.parquet is not a whole Parquet file"):
        rows(sources.plan_parquet(path))


def test_text_that_is_not_utf8_is_reported_with_file_and_column(tmp_path: Path) -> None:
    binary = pa.array([b"\xff\xfe"] * 10, pa.binary())
    path = write(tmp_path / "a.parquet", title=pa.Array.from_buffers(pa.string(), 10, binary.buffers()))
    with pytest.raises(InvalidSource, match=r"a\.parquet: column 'title' can't be read as string"):
        rows(sources.plan_parquet(path))


def test_missing_columns_are_null_and_numbers_are_widened(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 2, price=pa.array([1, 2], pa.int32()))
    write(tmp_path / "b.parquet", 2, price=pa.array([1.5, 2.5]), title=pa.array(["x", "y"]).dictionary_encode())
    write(tmp_path / "c.parquet", 2, title=pa.array(["x", "y"], pa.large_string()))
    found = rows(sources.plan_parquet(tmp_path))
    assert found["price"].to_pylist() == [1.0, 2.0, 1.5, 2.5, None, None]
    assert found["title"].to_pylist() == [None, None, "x", "y", "x", "y"]
    assert found.schema.field("title").type == pa.string()


def test_incompatible_types_are_reported_with_both_files(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", 1, day=pa.array(["2026-01-02"]))
    write(tmp_path / "b.parquet", 1, day=pa.array([20], pa.date32()))
    with pytest.raises(InvalidSource, match=r"'day' is string in .*a\.parquet and date32\[day\] in .*b\.parquet"):
        sources.plan_parquet(tmp_path)


def test_columns_can_be_selected_and_nested_ones_are_complete(tmp_path: Path) -> None:
    videos = pa.array([[{"title": "t", "duration": 5}]] * 10)
    path = write(tmp_path / "a.parquet", videos=videos)
    found = rows(sources.plan_parquet(path), columns=["videos", "nowhere", "id"])
    assert found.column_names == ["videos", "id"]
    assert found["videos"].to_pylist() == videos.to_pylist()


def test_batches_respect_the_bounds_even_for_dictionary_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 20_000, title=pa.array(["x" * 1_000] * 20_000))
    found = list(sources.read(sources.plan_parquet(path)[0], batch_bytes=1_000_000, batch_rows=5_000))
    assert sum(batch.num_rows for batch in found) == 20_000
    assert max(batch.nbytes for batch in found) <= 1_000_000


def test_memory_is_freed_once_a_file_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 20_000, group=5_000, title=pa.array(["x" * 1_000] * 20_000))
    before = pa.total_allocated_bytes()
    for _ in range(3):
        assert sum(batch.num_rows for batch in sources.read(sources.plan_parquet(path)[0])) == 20_000
        assert pa.total_allocated_bytes() - before < 1_000_000


def test_a_large_row_group_is_read_in_parts(tmp_path: Path) -> None:
    wide = pa.array([os.urandom(1_000) for _ in range(40_000)])
    pq.write_table(pa.table({"loc": [f"/{n}" for n in range(40_000)], "body": wide}), tmp_path / "a.parquet")
    del wide
    before = pa.total_allocated_bytes()
    batches = iter(sources.read(sources.plan_parquet(tmp_path / "a.parquet")[0], batch_bytes=1_000_000))
    most = max(pa.total_allocated_bytes() - before for _ in batches)
    assert most < 10_000_000


def test_an_empty_file_is_one_split_without_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 0)
    plan = sources.plan_parquet(path)
    assert [split.rows for split in plan] == [0]
    assert [list(sources.read(split)) for split in plan] == [[]]
    assert sources.columns(plan[0]).names == ["loc", "id"]


def test_a_file_that_changes_during_the_read_can_be_retried_with_a_new_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 1_000)
    (split,) = sources.plan_parquet(path)
    reader = sources.read(split, batch_rows=100)
    next(reader)
    os.utime(path, ns=(1, 1))
    with pytest.raises(Unavailable, match="changed while it was read"):
        list(reader)
    write(path, 999)
    with pytest.raises(Unavailable, match="changed while it was read"):
        list(sources.read(split))


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (b"loc,lastmod\n/a,2026-01-01\n", "it looks like CSV: write csv:"),
        (b'{"loc": "/a"}\n', "it looks like JSON: write jsonl:"),
    ],
)
def test_a_file_of_another_format_is_reported_with_what_to_do(tmp_path: Path, data: bytes, advice: str) -> None:
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(InvalidSource, match=rf"a\.parquet is not a Parquet file; {advice}"):
        sources.plan_parquet([str(tmp_path / "a.parquet")])


def test_a_footer_with_inconsistent_row_counts_is_damaged(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", 300)
    data = path.read_bytes()
    rows_of_footer = b"\x16\xd8\x04\x19"  # field 3 (int64): 300 in Thrift's compact form; field 4 (list)
    assert data.count(rows_of_footer) == 1
    path.write_bytes(data.replace(rows_of_footer, b"\x16\xda\x04\x19"))
    for plan in (
        sources.plan_parquet,
        lambda path: sources.plan_query({"source": ParquetExport(parquet=str(path))}, "FROM source"),
    ):
        with pytest.raises(InvalidSource, match="its footer says 301 rows, and its row groups have 300"):
            plan(path)
