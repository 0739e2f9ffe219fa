"""Columns in every layout of Arrow, sliced and chunked, have the same values for the code that works on them."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import arrow, kernels
from sitemap_etl.frames import INVENTORY, SNAPSHOT

TEXTS = ["a", None, "", "längere Zeile", "a", None, "z"]


def layouts(values: list[str | None]) -> list[pa.Array | pa.ChunkedArray]:
    """Return the values in every layout of text, each directly, as a slice, and in chunks."""
    text = pa.array(values, pa.string())
    found = [text, *(text.cast(kind) for kind in (pa.large_string(), pa.string_view())), text.dictionary_encode()]
    found.append(text.cast(pa.large_string()).dictionary_encode())
    found.append(pc.run_end_encode(text))
    slices = [pa.concat_arrays([one, one, one]).slice(len(values), len(values)) for one in found]
    chunks = [pa.chunked_array([one.slice(0, 2), one.slice(2, 0), one.slice(2)]) for one in found]
    return [*found, *slices, *chunks, pa.chunked_array([text]), pa.array(values, pa.binary()).cast(pa.string())]


@pytest.mark.parametrize("column", layouts(TEXTS), ids=lambda column: f"{type(column).__name__}-{column.type}")
def test_text_in_any_layout_is_one_plain_array_of_the_same_values(column: pa.Array | pa.ChunkedArray) -> None:
    found = arrow.plain(column)
    found.validate(full=True)
    assert (found.type, found.to_pylist()) == (pa.string(), TEXTS)
    assert arrow.single(column).to_pylist() == TEXTS


def test_bytes_and_extension_types_are_plain_too() -> None:
    raw = [b"\xff\x00", None, b"ab"]
    for kind in (pa.large_binary(), pa.binary_view(), pa.binary(2)):
        found = arrow.plain(pa.array([b"ab", None], kind))
        assert (found.type, found.to_pylist()) == (pa.binary(), [b"ab", None])
    assert arrow.plain(pa.array(raw, pa.binary())).to_pylist() == raw
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0123456789abcdef"], pa.binary(16)))
    assert arrow.plain(uuids).to_pylist() == [b"0123456789abcdef"]


def test_a_single_chunk_is_not_copied_and_none_at_all_is_an_empty_array() -> None:
    text = pa.array(TEXTS)
    assert arrow.single(pa.chunked_array([text])).buffers()[2].address == text.buffers()[2].address
    assert arrow.single(pa.chunked_array([], pa.int64())).equals(pa.array([], pa.int64()))
    table = pa.table({"loc": text, "n": range(len(TEXTS))})
    assert arrow.column_of(table.slice(2, 3), "loc").to_pylist() == TEXTS[2:5]
    assert arrow.column_of(table.to_batches()[0], "n").to_pylist() == list(range(len(TEXTS)))


@pytest.mark.thorough
def test_text_that_exceeds_its_offsets_is_an_error() -> None:
    half = pa.array(["x" * (1 << 20)] * 1_025)
    with pytest.raises(OverflowError, match="more than 2 GiB"):
        arrow.single(pa.chunked_array([half, half]))


def test_nulls_in_a_mask_are_false_and_nulls_among_numbers_take_a_default() -> None:
    mask = pa.array([None, True, False, None, True])
    for column in (mask, pa.chunked_array([mask.slice(0, 2), mask.slice(2)]), pa.concat_arrays([mask, mask]).slice(5)):
        assert arrow.mask_of(column).tolist() == [False, True, False, False, True]
    assert arrow.mask_of(mask.slice(3)).tolist() == [False, True]
    assert arrow.mask_of(pa.nulls(2)).tolist() == [False, False]
    own = arrow.mask_of(mask)
    own[0] = True
    assert arrow.mask_of(mask)[0] is np.False_
    numbers = pa.array([2**62 + 1, None, -1])
    assert (arrow.numbers_of(numbers).tolist(), arrow.numbers_of(numbers, 7).tolist()) == (
        [2**62 + 1, 0, -1],
        [2**62 + 1, 7, -1],
    )
    assert arrow.numbers_of(pa.array([1.5, None]), np.nan).tolist()[0] == 1.5
    assert arrow.codes_of(pa.chunked_array([["b", None], ["a", "b"]])).tolist() == [0, -1, 1, 0]


@pytest.mark.parametrize("kind", [pa.list_(pa.int8()), pa.large_list(pa.int8()), pa.list_view(pa.int8())])
def test_list_lengths_add_up_to_the_flattened_values(kind: pa.DataType) -> None:
    lists = pa.array([[1, 2], None, [], [3]], kind)
    for column, lengths in ((lists, [2, 0, 0, 1]), (lists.slice(1), [0, 0, 1])):
        assert arrow.lengths_of(column).tolist() == lengths
        assert sum(lengths) == len(column.flatten())
    assert arrow.is_list(kind)
    assert not arrow.is_list(pa.map_(pa.string(), pa.string()))


@given(st.lists(st.one_of(st.none(), st.text(max_size=5)), max_size=20), st.data())
def test_the_memory_of_a_slice_excludes_its_parent(values: list[str | None], data: st.DataObject) -> None:
    begin = data.draw(st.integers(0, len(values)))
    length = data.draw(st.integers(0, len(values) - begin))
    for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        text = pa.array([None if v is None else v.encode() for v in values], pa.binary()).cast(kind)
        part = text.slice(begin, length)
        offsets, whole = arrow.offsets_of(part), arrow.data_of(part)
        rows = [bytes(whole[a:b]) for a, b in itertools.pairwise(offsets)]
        assert rows == [(value or "").encode() for value in values[begin : begin + length]]
        assert bytes(arrow.bytes_of(part)) == b"".join(rows)
        again = arrow.over(kind, np.ascontiguousarray(offsets), whole)
        assert [value or "" for value in again.cast(pa.string()).to_pylist()] == [
            value or "" for value in values[begin : begin + length]
        ]


def rows_of(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Return values of a snapshot column, of any size and often null."""
    if pa.types.is_list(kind):
        return st.none() | st.lists(rows_of(kind.value_type), max_size=3)
    if pa.types.is_struct(kind):
        return st.none() | st.fixed_dictionaries({field.name: rows_of(field.type) for field in kind})
    if pa.types.is_boolean(kind):
        return st.none() | st.booleans()
    if pa.types.is_integer(kind):
        return st.none() | st.integers(0, 2 ** (kind.bit_width - 1) - 1)
    return st.none() | st.text(max_size=9)


def written(array: pa.Array) -> bytes:
    """Return the bytes of an array as a record batch message."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(
        sink, pa.schema([("x", array.type)]), options=pa.ipc.IpcWriteOptions(compression="lz4")
    ) as to:
        to.write_batch(pa.record_batch([array], ["x"]))
    return bytes(sink.getvalue())


@pytest.mark.parametrize("name", SNAPSHOT.names)
@given(st.data())
def test_equal_rows_are_written_as_equal_bytes_whatever_their_buffers_hold_besides(
    name: str, data: st.DataObject
) -> None:
    kind = SNAPSHOT.field(name).type
    values = data.draw(st.lists(rows_of(kind), max_size=20))
    if data.draw(st.booleans()):
        values = [value for value in values if value is not None]
    before, after = (data.draw(st.lists(rows_of(kind), max_size=20)) for _ in range(2))
    alone = pa.array(values, kind)
    among = pa.concat_arrays([pa.array(before, kind), alone, pa.array(after, kind)]).slice(len(before), len(values))
    hidden = alone
    if pa.types.is_integer(kind) and alone.null_count:
        beneath = pc.fill_null(alone, data.draw(st.integers(1, 9)))
        hidden = pa.Array.from_buffers(kind, len(alone), [alone.buffers()[0], beneath.buffers()[1]])
    if pa.types.is_struct(kind) and alone.null_count:
        under = [pa.repeat(pa.scalar("x", field.type), len(alone)) for field in kind]
        kept = [pc.if_else(alone.is_valid(), alone.field(at), other) for at, other in enumerate(under)]
        hidden = pa.StructArray.from_arrays(kept, fields=list(kind), mask=alone.is_null())
    for found in (among, hidden):
        exactly = arrow.exact(found)
        exactly.validate(full=True)
        assert exactly.equals(alone)
        assert written(exactly) == written(arrow.exact(alone))


def test_bytes_are_searched_beyond_the_first_block() -> None:
    data = np.full(600_000, ord("a"), np.uint8)
    assert arrow.is_visible(data)
    for code in (0x00, 0x20, 0x7F + 1, 0xEF):
        data[-1] = code
        assert arrow.occurs(data, code)
        assert arrow.occurs_below(data, 0x20) is (code < 0x20)
        assert not arrow.is_visible(data)
    assert not arrow.occurs(np.empty(0, np.uint8), 0)


def test_sliding_windows_start_at_every_byte() -> None:
    data = np.frombuffer(b"\x01\x02\x03\x04\x05", np.uint8)
    assert arrow.windows(data, "<u4").tolist() == [0x04030201, 0x05040302]
    assert arrow.windows(data, ">u4").tolist() == [0x01020304, 0x02030405]
    assert len(arrow.windows(data[:3], "<u4")) == len(arrow.windows(data[:0], "<u8")) == 0


@given(st.lists(st.integers(0, 2**64 - 1), max_size=50), st.sampled_from([1, 2, 64, 300, 70_000]))
def test_rows_are_partitioned_by_hash_and_keep_their_order(hashes: list[int], buckets: int) -> None:
    order, starts = arrow.dealt(np.array(hashes, np.uint64), buckets)
    assert sorted(order.tolist()) == list(range(len(hashes)))
    assert len(starts) == buckets + 1
    for bucket in {value % buckets for value in hashes}:
        mine = order[starts[bucket] : starts[bucket + 1]].tolist()
        assert mine == [at for at, value in enumerate(hashes) if value % buckets == bucket]


@pytest.mark.parametrize("count", [0, 1, 9, 100_000])
@pytest.mark.parametrize("kind", [*SNAPSHOT.types, *INVENTORY.types, pa.decimal128(9, 2), pa.null(), pa.large_string()])
def test_nulls_with_shared_memory_have_the_right_type(kind: pa.DataType, count: int) -> None:
    found = arrow.nulls(count, kind)
    found.validate(full=True)
    assert found.equals(pa.nulls(count, kind))
    assert found.null_count == count


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint16(), pa.float32(), pa.timestamp("us", "UTC"), pa.bool_()])
@pytest.mark.parametrize("compiled", [True, False])
def test_rows_can_be_taken_from_slices_whose_memory_ends_anywhere(kind: pa.DataType, compiled: bool) -> None:
    buffer = pa.py_buffer(bytes(range(83)))  # no multiple of any width
    whole = pa.Array.from_buffers(kind, 9, [None, buffer])
    table = pa.table({"values": whole.slice(2), "loc": [f"/{n}" for n in range(7)]})
    with nullcontext() if compiled else kernels.without():
        for order in (np.array([6, 0, 3]), np.empty(0, np.int64)):
            found = arrow.taken(table, order)
            found.validate(full=True)
            assert found.equals(table.take(pa.array(order)))
    assert arrow.taken(table.slice(0, 0), np.empty(0, np.int64)).num_rows == 0


CUT = [
    b"",
    b"a\n\0",
    "ü\u0800\ud7ff\ue000\U00010000\U0010ffff".encode(),
    b"\xff",
    b"\xc3",
    b"\xc0\x80",
    b"\xe0\x9f\xbf",
]
CUT += [b"\xed\xa0\x80", b"\xf0\x8f\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xe2\x82", b"\xf1\x80\x80"]


@given(
    st.lists(st.none() | st.lists(st.sampled_from(CUT) | st.binary(max_size=5), max_size=4).map(b"".join)),
    st.integers(0, 3),
)
def test_invalid_utf_8_is_escaped_and_valid_text_is_read(values: list[bytes | None], skipped: int) -> None:
    column = pa.array(values, pa.binary()).slice(min(skipped, len(values)))
    found = arrow.text_of(column)
    found.validate(full=True)
    expected = [None if raw is None else raw.decode("utf-8", "backslashreplace") for raw in column.to_pylist()]
    assert (found.type, found.to_pylist()) == (pa.string(), expected)
