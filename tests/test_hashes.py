"""The hashes behind samples and fingerprints: the documented arithmetic, for every layout."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl.hashes import added, combine, hash64, hash_column, hash_rows, sums_of

MASK = (1 << 64) - 1


def mix(h: int) -> int:
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    h = (h ^ (h >> 27)) * 0x94D049BB133111EB & MASK
    return h ^ (h >> 31)


def plain(text: bytes) -> int:
    """Return the hash by the definition in the module's docstring, step by step."""
    h = 0x9E3779B97F4A7C15 ^ len(text)
    for at in range(0, len(text), 8):
        h = mix(h ^ int.from_bytes(text[at : at + 8].ljust(8, b"\0"), "little"))
    return mix(h)


VECTORS = {
    b"": 0xE220A8397B1DCDAF,
    b"a": plain(b"a"),
    b"https://shop.example/": plain(b"https://shop.example/"),
}


def test_an_empty_text_has_the_value_that_splitmix64_gives_first() -> None:
    """SplitMix64 seeded with 0 gives 0xE220A8397B1DCDAF: the mix of its increment."""
    assert hash64(pa.array([""])).tolist() == [VECTORS[b""]]


@given(st.lists(st.binary(max_size=40)), st.integers(0, 5), st.booleans())
def test_hashes_of_columns_equal_the_scalar_definition(texts: list[bytes], start: int, large: bool) -> None:
    kind = pa.large_binary() if large else pa.binary()
    array = pa.array(texts, kind)[start:]
    assert hash64(array).tolist() == [plain(text) for text in texts[start:]]


@given(
    st.binary(max_size=30),
    st.one_of(st.integers(0, 20).map(lambda size: st.binary(min_size=size, max_size=size)), st.just(st.binary())),
    st.data(),
    st.integers(0, 2),
)
def test_texts_of_equal_length_or_prefix_hash_correctly(
    beginning: bytes, rest: st.SearchStrategy[bytes], data: st.DataObject, start: int
) -> None:
    texts = [None if end is None else beginning + end for end in data.draw(st.lists(st.none() | rest))]
    array = pa.array(texts, pa.binary())[start:]
    nulls = hash64(pa.array([None], pa.binary())).tolist()[0]
    assert hash64(array).tolist() == [nulls if text is None else plain(text) for text in texts[start:]]


def test_more_rows_than_one_batch_hash_like_single_rows() -> None:
    """Blocks of one length, and of several, after a common beginning."""
    texts = [b"https://shop.example/%05d" % at for at in range(40_000)]
    texts += [b"https://shop.example/%s/%d" % (b"x" * (at % 23), at) for at in range(40_000)]
    hashes = hash64(pa.array(texts, pa.binary())).tolist()
    assert hashes[::997] == [plain(text) for text in texts[::997]]
    assert hashes[-9:] == [plain(text) for text in texts[-9:]]


@given(st.lists(st.one_of(st.none(), st.text(max_size=20))))
def test_chunks_and_nulls_do_not_change_hashes(texts: list[str | None]) -> None:
    chunked = pa.chunked_array([pa.array([text], pa.string()) for text in texts], pa.string())
    assert hash64(chunked).tolist() == hash64(pa.array(texts, pa.string())).tolist()


def test_values_that_are_not_text_are_refused() -> None:
    with pytest.raises(TypeError, match="int64"):
        hash64(pa.array([1]))


NESTED = pa.list_(pa.struct([("a", pa.string()), ("b", pa.list_(pa.int64()))]))
VALUE = st.one_of(
    st.none(),
    st.lists(
        st.fixed_dictionaries(
            {"a": st.one_of(st.none(), st.text(max_size=3)), "b": st.lists(st.integers(0, 3), max_size=3)}
        ),
        max_size=3,
    ),
)


@given(st.lists(VALUE, min_size=2, max_size=30), st.integers(0, 3))
def test_nested_values_have_equal_hashes_exactly_if_they_are_equal(values: list[object], start: int) -> None:
    array = pa.array(values, NESTED)
    hashes = hash_column(array).tolist()
    for one, h in zip(values, hashes, strict=True):
        for other, g in zip(values, hashes, strict=True):
            assert (one == other) == (h == g)
    assert hash_column(array[start:]).tolist() == hashes[start:]


def test_the_combined_hash_depends_on_the_order_of_columns() -> None:
    one, other = hash64(pa.array(["a"])), hash64(pa.array(["b"]))
    assert combine([one, other]).tolist() != combine([other, one]).tolist()


CELL = st.one_of(st.none(), st.sampled_from(["", "a", "b"]))
ROW = st.tuples(CELL, CELL, st.one_of(st.none(), st.integers(0, 2)))
KINDS = pa.schema([("one", pa.string()), ("other", pa.string()), ("number", pa.int8())])


def table(rows: list[tuple[str | None, str | None, int | None]]) -> pa.Table:
    return pa.table([[row[at] for row in rows] for at in range(3)], schema=KINDS)


@given(st.lists(ROW, min_size=1, max_size=20))
def test_rows_have_equal_hashes_exactly_if_all_columns_are_equal(
    rows: list[tuple[str | None, str | None, int | None]],
) -> None:
    """Even if two columns exchange their values, or one has a null and the other nothing."""
    hashes = hash_rows(table(rows), {}).tolist()
    assert len(set(hashes)) == len(set(rows))
    assert hash_rows(table(rows).select(["number", "other", "one"]), {}).tolist() == hashes
    known = {"one": hash64(table(rows).column("one"))}
    assert hash_rows(table(rows), known).tolist() == hashes


def test_a_column_of_nulls_hashes_like_a_missing_column() -> None:
    rows = table([("a", None, 1), ("b", None, 2)])
    assert hash_rows(rows, {}).tolist() == hash_rows(rows.drop_columns("other"), {}).tolist()


@given(st.lists(ROW, max_size=12), st.lists(ROW, max_size=12), st.randoms(use_true_random=False))
def test_digests_depend_on_the_rows_but_not_on_order_and_splits(
    rows: list[tuple[str | None, str | None, int | None]],
    others: list[tuple[str | None, str | None, int | None]],
    dice: random.Random,
) -> None:
    sums = sums_of(hash_rows(table(rows), {}))
    shuffled = dice.sample(rows, len(rows))
    at = dice.randint(0, len(rows))
    parts = [sums_of(hash_rows(table(part), {})) for part in (shuffled[:at], shuffled[at:])]
    assert added(*parts) == sums
    alike = sorted(map(repr, rows)) == sorted(map(repr, others))
    assert (sums_of(hash_rows(table(others), {})) == sums) == alike
