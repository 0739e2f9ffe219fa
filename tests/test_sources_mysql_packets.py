"""The text protocol compared with PyMySQL's own reader, for any chunks of bytes."""

from __future__ import annotations

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.protocol import MysqlPacket

from sitemap_etl.sources.databases.mysql_packets import HEADER, Broken, Lost, ServerError, blocks, packets

OK = b"\x05\x00\x00\x00\xfe\x00\x00\x22\x00"

values = st.one_of(
    st.none(),
    st.binary(max_size=12),
    st.sampled_from(
        [b"", b"\x00" * 9, b"x" * 250, b"x" * 251, b"\xfe\x00\x00\x00" * 70, b"y" * 65_531, b"\x00" * 70_000]
    ),
)


def packet(content: bytes) -> bytes:
    return len(content).to_bytes(3, "little") + b"\x07" + content


def written(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    if size < 251:
        return bytes([size]) + value
    return (b"\xfc" + size.to_bytes(2, "little") if size < 65_536 else b"\xfd" + size.to_bytes(3, "little")) + value


def read(data: bytes, columns: int, sizes: list[int]) -> list[tuple[bytes | None, ...]]:
    """Return the rows, with `read` returning at most this many bytes at a time."""
    stream, turn = io.BytesIO(data), iter(range(10**9))
    found: list[tuple[bytes | None, ...]] = []
    for block in blocks(lambda most: stream.read(min(most, sizes[next(turn) % len(sizes)])), columns):
        cells = [
            [
                None if each.null is not None and each.null[row] else each.data[start : start + length].tobytes()
                for row, (start, length) in enumerate(zip(each.starts, each.lengths, strict=True))
            ]
            for each in block
        ]
        found += zip(*cells, strict=True)
    return found


@given(
    st.lists(st.tuples(values, values, values), max_size=40),
    st.lists(st.sampled_from([1, 3, 4, 5, 100, 5_000, 10**7]), min_size=1, max_size=4).filter(lambda s: max(s) > 50),
)
def test_rows_are_the_same_as_those_read_by_the_driver(rows: list[tuple[bytes | None, ...]], sizes: list[int]) -> None:
    contents = [b"".join(map(written, row)) for row in rows]
    found = read(b"".join(map(packet, contents)) + OK, 3, sizes)
    theirs = []
    for content in contents:
        one = MysqlPacket(content, "utf8")
        theirs.append(tuple(one.read_length_coded_string() for _ in range(3)))
    assert found == theirs


def test_more_rows_than_a_buffer_are_read_in_order() -> None:
    rows = [(str(n).encode(), b"z" * (n % 700)) for n in range(30_000)]
    data = b"".join(packet(b"".join(map(written, row))) for row in rows)
    assert read(data + OK, 2, [60_000]) == rows


def test_an_error_among_the_rows_is_raised_after_the_earlier_rows() -> None:
    error = packet(b"\xff\x2b\x04#HY000the words")
    came = blocks(io.BytesIO(packet(b"\x011") * 3 + error).read, 1)
    assert len(next(came)[0].starts) == 3
    with pytest.raises(ServerError) as caught:
        next(came)
    assert caught.value.packet.endswith(b"the words")


@pytest.mark.parametrize("cut", [0, 2, HEADER, 8])
def test_a_result_without_its_end_is_a_lost_connection(cut: int) -> None:
    with pytest.raises(Lost):
        list(blocks(io.BytesIO(packet(b"\x03abc")[:cut]).read, 1))


@pytest.mark.parametrize("content", [b"\x03ab", b"\x03abcd", b"\x01a\x01b", b"\xfcab"])
def test_a_packet_that_is_not_a_row_of_the_columns_is_reported(content: bytes) -> None:
    with pytest.raises(Broken, match="not what the protocol says"):
        list(blocks(io.BytesIO(packet(content) + OK).read, 1))


def test_incomplete_packets_wait_for_the_rest() -> None:
    data = np.frombuffer(packet(b"\x01a") * 3, np.uint8)
    starts, at = packets(data[:-1], 0)
    assert (starts.tolist(), at) == ([0, 6], 12)
