"""Raw rows: the same rows have the same digest in any order and batches, and others have not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.stages.raw import RawRows

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TYPES: dict[str, pa.DataType] = {
    "loc": pa.string(),
    "n": pa.int64(),
    "share": pa.float64(),
    "live": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "price": pa.decimal128(12, 2),
    "images": pa.list_(pa.string()),
    "video": pa.struct([("title", pa.string()), ("tags", pa.list_(pa.string()))]),
}
SCHEMA = pa.schema(list(TYPES.items()))
_texts = st.text(max_size=12)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "loc": st.none() | _texts,
            "n": st.none() | st.integers(-9, 9),
            "share": st.none() | st.floats(0, 1, width=16),
            "live": st.none() | st.booleans(),
            "at": st.none() | st.integers(0, 1 << 50).map(lambda at: EPOCH + timedelta(microseconds=at)),
            "day": st.none() | st.dates(),
            "price": st.none() | st.decimals(0, 9, places=2),
            "images": st.none() | st.lists(_texts, max_size=3),
            "video": st.none() | st.fixed_dictionaries({"title": _texts, "tags": st.lists(_texts, max_size=2)}),
        }
    ),
    min_size=1,
    max_size=8,
)


def summed(rows: list[dict[str, Any]], *borders: int) -> RawRows:
    """Return the digest of rows in batches that end there."""
    found = RawRows()
    bounds = [0, *sorted(borders), len(rows)]
    for begin, end in pairwise(bounds):
        found.add(pa.Table.from_pylist(rows[begin:end], SCHEMA))
    return found


@given(ROWS, st.data())
def test_the_digest_of_rows_does_not_depend_on_their_order(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    known = summed(rows).digest()
    assert known is not None
    assert summed(data.draw(st.permutations(rows))).digest() == known
    border = data.draw(st.integers(0, len(rows)))
    assert summed(rows, border).all == known.all
    at, name = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.sampled_from(sorted(TYPES)))
    edited = [dict(row) for row in rows]
    edited[at][name] = data.draw(ROWS)[0][name]
    assert (summed(edited).digest() == known) == (edited[at][name] == rows[at][name])
    assert summed(edited).begins_as(known) == (edited[at][name] == rows[at][name])
    assert summed([*rows, rows[0]]).digest() != known
    assert summed(rows[1:]).digest() != known


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("n", pa.int32()),
        ("n", pa.string()),
        ("at", pa.timestamp("ms", "UTC")),
        ("at", pa.timestamp("us")),
        ("at", pa.int64()),
        ("images", pa.large_list(pa.string())),
    ],
    ids=str,
)
def test_equal_values_of_another_type_have_another_digest(name: str, kind: pa.DataType) -> None:
    rows = pa.table({"n": pa.array([1, 2]), "at": pa.array([5, 6], TYPES["at"]), "images": pa.array([["a"], []])})
    one, other = RawRows(), RawRows()
    one.add(rows)
    column = rows.column(name).cast(pa.int64()).cast(kind) if name == "at" else rows.column(name).cast(kind)
    other.add(rows.set_column(rows.column_names.index(name), name, column))
    assert one.digest() is not None
    assert other.digest() != one.digest()


def test_a_column_of_nulls_changes_the_digest() -> None:
    rows = pa.table({"loc": ["/a", "/b"], "n": pa.nulls(2, pa.int64())})
    one, other = RawRows(), RawRows()
    one.add(rows)
    other.add(rows.drop_columns(["n"]))
    assert other.digest() != one.digest()


@pytest.mark.parametrize(
    "rows",
    [
        pa.table({"loc": ["/a"], "id": pa.array([b"0123456789abcdef"], pa.binary(16))}),
        pa.table({"loc": ["/a"], "kind": pa.array(["x"]).dictionary_encode()}),
        pa.table({"loc": ["/a"], "took": pa.array([1], pa.duration("s"))}),
        pa.table([["/a"], [1], [2]], names=["loc", "n", "n"]),
    ],
    ids=["bytes of one length", "dictionary", "duration", "two columns of one name"],
)
def test_rows_that_cannot_be_hashed_have_no_digest(rows: pa.Table) -> None:
    one = RawRows()
    one.add(rows)
    assert one.digest() is None


def test_batches_with_different_columns_have_no_digest() -> None:
    one = RawRows()
    one.add(pa.table({"loc": ["/a"]}))
    assert one.digest() is not None
    one.add(pa.table({"loc": ["/b"], "n": [1]}))
    assert one.digest() is None
