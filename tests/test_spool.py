"""Files between stages: rows by window, read block by block, and every byte verified."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sitemap_etl.errors import DamagedState
from sitemap_etl.partition import Routed
from sitemap_etl.stages.spool import (
    INDEX,
    SpoolWriter,
    index_rows,
    put_index,
    read_index,
    read_messages,
    read_places,
    read_windows,
)
from sitemap_etl.state.checked import BLOCK, open_checked, put_checked, read_checked
from sitemap_etl.state.records import Spool
from sitemap_etl.storage import Storage, open_storage

SCHEMA = pa.schema([("loc", pa.string()), ("row", pa.int64())])


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return open_storage(str(tmp_path / "store"))


def routed(*windows: Sequence[int]) -> Routed:
    """Return a batch of rows, in this order of windows."""
    rows = [row for window in windows for row in window]
    table = pa.table({"loc": [f"/{row}" for row in rows], "row": rows}, schema=SCHEMA)
    return Routed(table, np.cumsum([0, *map(len, windows)]))


def spool(storage: Storage, folder: Path, *batches: Routed, windows: int = 3, spread: int = 1) -> Spool:
    writer = SpoolWriter(folder / "rows", SCHEMA, windows)
    for batch in batches:
        writer.write(batch, spread)
    return writer.put(storage, "spool", ["b", "c"])


def rows_of(tables: object) -> list[list[int]]:
    return [table.column("row").to_pylist() for table in tables]  # type: ignore[attr-defined]


def test_only_the_blocks_of_a_window_are_read(storage: Storage, tmp_path: Path) -> None:
    written = spool(storage, tmp_path, routed([1, 2], [], [3]), routed([4], [5], [6, 7]), routed([], [], []))
    assert [len(places) for places in written.places] == [2, 1, 2]
    assert written.borders == ("b", "c")
    assert rows_of(read_windows(storage, written, [0])) == [[1, 2], [4]]
    assert rows_of(read_windows(storage, written, [1])) == [[5]]
    assert rows_of(read_windows(storage, written, [2, 1])) == [[3], [5], [6, 7]]
    assert rows_of(read_windows(storage, written, [])) == []
    (table,) = read_windows(storage, written, [1])
    assert table.schema == SCHEMA


def test_only_requested_columns_are_read(storage: Storage, tmp_path: Path) -> None:
    written = spool(storage, tmp_path, routed([1, 2], [3], []))
    found = list(read_windows(storage, written, [0, 1], ["row"]))
    assert [table.column_names for table in found] == [["row"], ["row"]]
    assert rows_of(found) == [[1, 2], [3]]


def test_a_block_of_several_windows_is_read_once(storage: Storage, tmp_path: Path) -> None:
    written = spool(storage, tmp_path, routed([1], [2]), windows=4, spread=2)
    assert [len(places) for places in written.places] == [1, 1, 1, 1]
    assert written.places[0] == written.places[1] != written.places[2] == written.places[3]
    assert rows_of(read_windows(storage, written, range(4))) == [[1], [2]]


def test_adjacent_blocks_are_read_together(tmp_path: Path) -> None:
    plain = open_storage(str(tmp_path / "store"))
    written = spool(plain, tmp_path, routed([1], [2], [3]))
    places = sorted({place for window in written.places for place in window})
    assert [start + size for start, size, _ in places[:-1]] == [start for start, _, _ in places[1:]]
    reads: list[tuple[int, int]] = []

    class Noting:
        def __getattr__(self, name: str) -> object:
            return getattr(plain, name)

        def read(self, key: str, start: int, length: int) -> bytes:
            reads.append((start, length))
            return plain.read(key, start, length)

    noting: Storage = Noting()  # type: ignore[assignment]
    assert rows_of(read_windows(noting, written, [0, 1, 2])) == [[1], [2], [3]]
    assert reads == [(places[0][0], sum(size for _, size, _ in places))]
    reads.clear()
    assert rows_of(read_windows(noting, written, [0, 2])) == [[1], [3]]
    assert reads == [place[:2] for place in (places[0], places[2])]


def test_appended_data_is_stored_after_the_rows(storage: Storage, tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "rows", SCHEMA, 1)
    writer.write(routed([1, 2]))
    place = writer.append(pa.py_buffer(b"no rows"))
    written = writer.put(storage, "spool")
    assert [bytes(data) for data in read_places(storage, "spool", [place])] == [b"no rows"]
    assert rows_of(read_windows(storage, written, [0])) == [[1, 2]]
    assert written.borders == ()


def test_a_flipped_bit_in_a_block_is_reported_and_other_blocks_are_read(storage: Storage, tmp_path: Path) -> None:
    written = spool(storage, tmp_path, routed([1], [2], [3]))
    start, size, _ = written.places[1][0]
    path = tmp_path / "store" / "spool"
    data = bytearray(path.read_bytes())
    for at in (start, start + size // 2, start + size - 1):
        spoilt = bytearray(data)
        spoilt[at] ^= 1
        path.write_bytes(spoilt)
        with pytest.raises(
            DamagedState, match=r"spool is damaged: its content is not what was written.*start a new run"
        ):
            list(read_windows(storage, written, [1]))
        assert rows_of(read_windows(storage, written, [0, 2])) == [[1], [3]]


def test_blocks_are_returned_in_their_stored_order(storage: Storage, tmp_path: Path) -> None:
    written = spool(storage, tmp_path, routed([1], [2], [3]))
    places = [window[0] for window in written.places]
    assert rows_of(read_messages(storage, written, [places[2], places[0], places[2]])) == [[1], [3]]


def test_the_index_has_the_positions_of_the_blocks_of_a_group(storage: Storage) -> None:
    rows = [
        (window, spool, 10 * spool, 5, 7, window == spool) for window, spool in itertools.product(range(5), range(2))
    ]
    index = put_index(storage, "index", rows[::-1], [(0, 2), (2, 3), (3, 5)])
    assert list(index_rows(read_index(storage, index, 0))) == rows[:4]
    assert list(index_rows(read_index(storage, index, 1))) == rows[4:6]
    assert list(index_rows(read_index(storage, index, 2))) == rows[6:]
    empty = put_index(storage, "empty", [], [(0, 2), (2, 3)])
    assert read_index(storage, empty, 1).schema == INDEX
    assert list(index_rows(read_index(storage, empty, 0))) == []


# --- whole objects, checked block by block -------------------------------------------------------------

DATA = bytes(np.random.default_rng(1).integers(0, 256, 2 * BLOCK + 100, np.uint8))


@pytest.mark.parametrize("size", [0, 1, BLOCK, BLOCK + 1, 2 * BLOCK + 100])
def test_a_checksummed_object_is_read_as_written_from_memory_or_file(
    size: int, storage: Storage, tmp_path: Path
) -> None:
    data = DATA[:size]
    (tmp_path / "file").write_bytes(data)
    checked = put_checked(storage, "k", data)
    assert checked == put_checked(storage, "k", tmp_path / "file") == put_checked(storage, "k", memoryview(data))
    assert (checked.key, checked.bytes, len(checked.blocks)) == ("k", size, -(-size // BLOCK))
    assert read_checked(storage, checked) == data
    with open_checked(storage, checked) as file:
        assert file.read() == data
    assert read_checked(storage, replace(checked, key="gone")) is None


@pytest.mark.parametrize("how", ["flipped", "cut", "longer"])
@pytest.mark.parametrize("at", [0, BLOCK, 2 * BLOCK + 99])
def test_a_changed_checksummed_object_is_reported(how: str, at: int, storage: Storage, tmp_path: Path) -> None:
    checked = put_checked(storage, "k", DATA)
    spoilt = bytearray(DATA)
    if how == "flipped":
        spoilt[at] ^= 1
    (tmp_path / "store" / "k").write_bytes(spoilt[:at] if how == "cut" else spoilt + b"x" * (how == "longer"))
    with pytest.raises(DamagedState, match="k is damaged: its content is not what was written"):
        read_checked(storage, checked)


def test_a_part_of_an_object_is_read_if_its_own_blocks_are_undamaged(storage: Storage, tmp_path: Path) -> None:
    checked = put_checked(storage, "k", DATA)
    spoilt = bytearray(DATA)
    spoilt[BLOCK] ^= 1
    (tmp_path / "store" / "k").write_bytes(spoilt)
    with open_checked(storage, checked) as file:
        assert file.seek(2 * BLOCK) == 2 * BLOCK
        assert file.read() == DATA[2 * BLOCK :]
        file.raw.seek(10)
        assert file.raw.read(20) == DATA[10:30]
        assert file.raw.read(BLOCK - 30) == DATA[30:BLOCK]
        with pytest.raises(DamagedState):
            file.raw.read(1)


def test_a_checksummed_object_supports_seek(storage: Storage) -> None:
    checked = put_checked(storage, "k", DATA)
    with open_checked(storage, checked) as file:
        assert file.seekable()
        assert file.readable()
        assert file.seek(-10, 2) == len(DATA) - 10
        assert file.read(100) == DATA[-10:]
        assert file.tell() == len(DATA)
        assert file.read(1) == b""
        assert file.seek(5) == 5
        assert file.seek(5, 1) == 10
        assert file.read(BLOCK + 5) == DATA[10 : BLOCK + 15]
        assert file.raw.seek(-1) == 0
        assert file.raw.read(3) == DATA[:3]
        assert file.raw.tell() == 3
