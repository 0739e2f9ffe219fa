from __future__ import annotations

import uuid

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.errors import InvalidSource
from sitemap_etl.sources import Split
from sitemap_etl.sources.batches import fit


@given(st.lists(st.lists(st.text(max_size=40), max_size=30), max_size=12), st.integers(1, 50), st.integers(50, 2_000))
def test_batches_are_returned_in_order_within_both_bounds(given_rows: list[list[str]], rows: int, size: int) -> None:
    source = [pa.record_batch({"loc": pa.array(texts, pa.string())}) for texts in given_rows]
    found = list(fit(source, label="x", batch_rows=rows, batch_bytes=size))
    assert [text for batch in found for text in batch.column(0).to_pylist()] == [
        t for texts in given_rows for t in texts
    ]
    assert all(0 < batch.num_rows <= rows for batch in found)
    assert all(batch.num_rows == 1 or batch.nbytes <= size for batch in found)


def test_small_batches_are_combined() -> None:
    source = [pa.record_batch({"a": pa.array(range(30))})] * 10
    assert [batch.num_rows for batch in fit(source, label="x", batch_rows=100)] == [90, 90, 90, 30]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "é"], pa.large_string()),
        pa.array(["a", None, "é"], pa.string_view()),
        pa.array(["a", None, "é"]).dictionary_encode(),
        pa.compute.run_end_encode(pa.array(["a", None, "é"])),
    ],
)
def test_every_text_type_becomes_plain_text(column: pa.Array) -> None:
    (batch,) = fit([pa.record_batch({"a": column})], label="x")
    assert batch.column(0).type == pa.string()
    assert batch.column(0).to_pylist() == ["a", None, "é"]


def test_nested_types_become_plain_lists_of_plain_text() -> None:
    views = pa.list_view(pa.struct([("src", pa.large_string())]))
    (batch,) = fit([pa.record_batch({"a": pa.array([[{"src": "x"}], None], views)})], label="x")
    assert batch.column(0).type == pa.list_(pa.struct([("src", pa.string())]))
    assert batch.column(0).to_pylist() == [[{"src": "x"}], None]


@given(st.lists(st.uuids() | st.none(), max_size=20), st.integers(0, 5))
def test_a_uuid_becomes_its_usual_text(ids: list[uuid.UUID | None], skip: int) -> None:
    column = pa.array([None if i is None else i.bytes for i in ids], pa.uuid()).slice(skip)
    found = [
        value for batch in fit([pa.record_batch({"a": column})], label="x") for value in batch.column(0).to_pylist()
    ]
    assert found == [None if i is None else str(i) for i in ids[skip:]]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()], ids=str)
@pytest.mark.parametrize("at", [0, 1, 6, 700])
def test_text_that_is_not_utf8_is_reported_with_its_column(kind: pa.DataType, at: int) -> None:
    values = [f"Title {n}".encode() for n in range(701)]
    values[at] = b"Gr\xf6\xdfe"
    values[1:1] = [None]
    titles = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary()).view(kind)
    batch = pa.record_batch({"loc": ["x"] * len(values), "title": titles})
    with pytest.raises(InvalidSource) as error:
        list(fit([batch], label="a.parquet"))
    assert str(error.value) == (
        r"a.parquet: column 'title' can't be read as string: b'Gr\xf6\xdfe' is not UTF-8. Mend that value where it is "
        "stored, or yield title as bytes: then only the rows are rejected whose bytes are not UTF-8"
    )


def test_a_repeated_column_name_is_an_error() -> None:
    twice = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], names=["id", "id"])
    with pytest.raises(InvalidSource, match="'id' more than once"):
        list(fit([twice], label="x"))


def test_a_split_can_be_serialized_and_read_back() -> None:
    split = Split("parquet", "a.parquet", {"files": [["a.parquet", 1, "2"]]}, 7)
    assert Split.from_json(split.to_json()) == split
    with pytest.raises(ValueError, match="'tape' is not known"):
        Split.from_json({"kind": "tape", "label": "", "detail": {}, "rows": None})
