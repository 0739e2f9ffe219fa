"""Kernels give exactly the results of numpy and Arrow; how they are compiled, found and ignored."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import kernels
from sitemap_etl.arrow import count_after, data_of, offsets_of, taken
from sitemap_etl.diff import places
from sitemap_etl.hashes import hash64, hash_column
from sitemap_etl.kernels.__main__ import main as kernels_main
from sitemap_etl.partition import route, winners
from sitemap_etl.partition.order import in_order, places_among
from sitemap_etl.render import urlset
from sitemap_etl.urls import UrlRules, canonicalize
from tests.support.sites import TestSite, pages

ROWS = 1_000
"""Fewer are put in order by comparing texts."""


@pytest.fixture(autouse=True)
def _compiled() -> None:
    if kernels.compiled is None:
        assert not os.environ.get("CI"), "in CI nothing is skipped: the kernels have to be compiled"
        pytest.skip("the kernels were not compiled here")


def both(work: Callable[[], Any]) -> tuple[Any, Any]:
    """Return the results with kernels and without them."""
    assert kernels.compiled is not None
    mine = work()
    with kernels.without():
        return mine, work()


def texts(alphabet: str, longest: int, *, least: int = ROWS) -> st.SearchStrategy[list[str]]:
    """Draw many texts out of a few, some of them equal, most with a common prefix."""

    def repeated(drawn: tuple[str, list[str], int]) -> list[str]:
        prefix, endings, seed = drawn
        picked = np.random.default_rng(seed).integers(0, len(endings), least + seed % 50)
        return [f"{prefix}{endings[at]}{at % 7 * 'x'}{'-' * (n % 3)}" for n, at in enumerate(picked.tolist())]

    return st.tuples(
        st.text(alphabet, max_size=40),
        st.lists(st.text(alphabet, max_size=longest), min_size=1, max_size=300),
        st.integers(0, 1_000),
    ).map(repeated)


URLS = "abyz019-._/%"


@given(st.lists(st.one_of(st.none(), st.text(max_size=90)), max_size=60), st.integers(0, 3))
def test_compiled_and_python_hashes_of_texts_are_equal(values: list[str | None], skipped: int) -> None:
    array = pa.array(values, pa.string()).slice(min(skipped, len(values)))
    mine, theirs = both(lambda: hash64(array))
    assert (mine == theirs).all()


@given(st.lists(st.integers(0, 2**63), max_size=200))
def test_compiled_and_python_hashes_of_numbers_are_equal(values: list[int]) -> None:
    mine, theirs = both(lambda: hash_column(pa.array(values, pa.uint64())))
    assert (mine == theirs).all()


@given(texts(URLS, 30), st.integers(0, 5))
def test_the_compiled_sort_orders_texts_bytewise(values: list[str], skipped: int) -> None:
    array = pa.array(values).slice(skipped)
    order, distinct = in_order(array)
    assert array.take(order).to_pylist() == sorted(values[skipped:])
    assert distinct == (len(set(values[skipped:])) == len(values) - skipped)


def test_the_compiled_sort_orders_texts_with_long_common_prefixes() -> None:
    values = [f"https://shop.example/{'same/' * 300}{n * 7_919 % 2_003:05}" for n in range(2_003)]
    values += [value[:-1] for value in values[:40]]
    for some, differ in ((values, True), (values + values[-40:], False)):
        array = pa.array(some)
        order, distinct = in_order(array)
        assert array.take(order).to_pylist() == sorted(some)
        assert distinct == differ


@given(texts(URLS, 20), st.lists(st.text(URLS, max_size=12), min_size=1, max_size=40), st.integers(0, 50))
def test_compiled_and_python_positions_among_borders_are_equal(values: list[str], others: list[str], own: int) -> None:
    borders = sorted({*others, *values[:own]})
    mine, theirs = both(lambda: places_among(pa.array(values), borders))
    assert (mine == theirs).all()
    routed, as_well = both(lambda: route(pa.table({"loc": values, "row": range(len(values))}), borders))
    assert routed.table.equals(as_well.table)
    assert (routed.starts == as_well.starts).all()


def test_positions_are_equal_among_borders_with_long_common_prefixes() -> None:
    borders = ["/about", *(f"/products/p-{n:03}" for n in range(0, 300, 3))]
    values = ["", "/a", "/about", "/b", *(f"/products/p-{n:03}{end}" for n in range(300) for end in ("", "-x")), "/z"]
    mine, theirs = both(lambda: places_among(pa.array(values), borders))
    assert (mine == theirs).all()


@given(texts(URLS, 20))
def test_the_compiled_take_equals_that_of_arrow(values: list[str]) -> None:
    table = pa.table({"loc": values, "maybe": [None if n % 5 == 0 else text for n, text in enumerate(values)]})
    order = np.random.default_rng(len(values)).permutation(len(values))[: len(values) // 2]
    mine, theirs = both(lambda: taken(table, order))
    mine.validate(full=True)
    assert mine.equals(theirs)
    won, also = both(lambda: winners(table.append_column("row", pa.array(range(len(values))))))
    assert won.rows.column("loc").equals(also.rows.column("loc"))
    assert won.losers.num_rows == also.losers.num_rows


@given(st.lists(st.text(URLS + "`(&;?#[]^{}\\<>\"' é\x01/.", max_size=40), min_size=1, max_size=40), st.booleans())
def test_compiled_and_python_code_normalize_urls_alike(paths: list[str], sessions: bool) -> None:
    rules = UrlRules("https://shop.example", (), frozenset({"sessions", "tracking"} if sessions else {"tracking"}))
    array = pa.array([f"https://shop.example/{path}" for path in paths])
    mine, theirs = both(lambda: canonicalize(array, rules))
    assert mine.loc.equals(theirs.loc)
    assert mine.reason.equals(theirs.reason)


ENTRY = st.fixed_dictionaries(
    {
        "loc": st.text(URLS + "&'", min_size=1, max_size=60),
        "lastmod": st.sampled_from([None, "2026-11-01", "2026-11-01T02:00:00Z"]),
        "changefreq": st.sampled_from([None, "daily"]),
        "priority": st.sampled_from([None, 0, 5, 10]),
        "images": st.sampled_from([None, [], ["https://img.example/a&b.jpg"]]),
    }
)


@given(st.lists(ENTRY, min_size=1, max_size=30), st.integers(0, 3))
def test_compiled_and_python_code_render_the_same_bytes(rows: list[dict[str, Any]], skipped: int) -> None:
    schema = pa.schema(
        [
            ("loc", pa.string()),
            ("lastmod", pa.string()),
            ("changefreq", pa.string()),
            ("priority", pa.int8()),
            ("images", pa.list_(pa.string())),
        ]
    )
    table = pa.Table.from_pylist(rows, schema)
    entries = urlset.entries(table).slice(min(skipped, len(rows) - 1), len(rows))
    mine, theirs = both(lambda: b"".join(entries.chunks()))
    assert mine == theirs
    assert len(mine) == entries.sizes.sum()


def test_kernels_do_not_read_beyond_their_input() -> None:
    """A row at the end of its memory: a longer read would find another length, or crash."""
    array = pa.array(["a" * length for length in range(20)])
    offsets, data = offsets_of(array), data_of(array)[: int(offsets_of(array)[-1])].copy()
    assert kernels.compiled is not None
    assert (kernels.compiled.hash64((offsets, data)) == hash64(array)).all()


def test_more_text_than_a_column_holds_is_refused_before_it_is_copied() -> None:
    column = pa.array(["x" * 1_000_000, "y"])
    assert kernels.compiled is not None
    texts = kernels.compiled.texts([(offsets_of(column), data_of(column))])
    with pytest.raises(OverflowError, match="must be read in batches"):
        kernels.compiled.taken(texts, np.zeros(2_200, np.int64))


def test_runs_with_and_without_kernels_publish_the_same_bytes(tmp_path_factory: pytest.TempPathFactory) -> None:
    def published() -> tuple[dict[str, bytes], dict[str, bytes]]:
        site = TestSite(tmp_path_factory.mktemp("site"), gates={"max_drop": 1, "max_growth": 99})
        rows = pages(1_500, lastmod="2026-10-01", sales=7) + pages(100, start=700, lastmod="2026-10-02", sales=9)
        rows += [{"loc": f"/größe/{n} %zz", "lastmod": None, "sales": n} for n in range(40)]
        site.section("large", rows, shards={"rows": 400}, priority={"percentile_of": "sales"})
        site.section("small", [*pages(40), {"loc": "/p/000012/"}, {"loc": "/a&b'c"}])
        site.night(1)
        first = site.public().objects()
        site.export("large", [*rows[:50], *rows[60:], {"loc": "/new", "lastmod": "2026-11-01", "sales": 1}])
        site.night(2)
        return first, site.public().objects()

    mine, theirs = both(published)
    assert mine == theirs


COMPILE = (
    "import sys; sys.prefix = sys.argv[1]\n"
    "from sitemap_etl.kernels.__main__ import main\nfrom sitemap_etl import kernels\n"
    "assert main() == 0 and kernels.load() is not None"
)


def test_kernels_are_compiled_into_the_environment_and_replaced_after_changes(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "sitemap_etl"
    folder.mkdir(parents=True)
    (folder / f"{kernels.PLATFORM}-former.so").write_bytes(b"")
    (folder / "kernels-of-another-machine.so").write_bytes(b"")
    subprocess.run([sys.executable, "-c", COMPILE, str(tmp_path)], check=True, capture_output=True)
    (own,) = folder.glob(f"{kernels.PLATFORM}-*")
    assert own.name == kernels.name_of(own.read_bytes())
    assert (folder / "kernels-of-another-machine.so").exists()


@given(st.binary(max_size=200), st.lists(st.binary(min_size=1, max_size=4), max_size=5))
def test_compiled_and_python_code_count_words_after_a_byte_alike(data: bytes, words: list[bytes]) -> None:
    data = data.replace(b"\x01", b"/")
    words = [*words, data[-2:] or b"x", data[1:3] or b"y"]
    counted, plainly = both(lambda: count_after(np.frombuffer(data, np.uint8), ord("/"), words))
    assert counted == plainly == [sum(data.startswith(b"/" + word, at) for at in range(len(data))) for word in words]


@pytest.mark.parametrize("compiler", ["no-such-compiler", 'gcc "', "", "true"])
def test_without_a_compiler_building_kernels_says_so_and_leaves_no_file(tmp_path: Path, compiler: str) -> None:
    code = "import sys; sys.prefix = sys.argv[1]\nfrom sitemap_etl.kernels.__main__ import main\nsys.exit(main())"
    said = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "CC": compiler},
    )
    assert said.returncode == 1
    assert "the kernels were not compiled" in said.stderr
    assert "runs give the same without them" in said.stderr
    assert list((tmp_path / "lib").glob("*/*")) == []


@pytest.mark.parametrize("size", [0, 4_096, 12_288])
def test_a_truncated_kernel_library_is_not_loaded_but_compiled_again(
    tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The system kills a process that touches a missing part of the library."""
    own = next(path for path in kernels.libraries() if path.name == kernels.name_of(path.read_bytes()))
    library = tmp_path / "lib" / "sitemap_etl" / own.name
    library.parent.mkdir(parents=True)
    library.write_bytes(own.read_bytes()[:size])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert kernels.load() is None
    assert kernels_main() == 0
    (library,) = library.parent.iterdir()
    assert library.name == kernels.name_of(library.read_bytes())
    assert kernels.load() is not None


def test_an_unloadable_kernel_library_is_ignored(tmp_path: Path) -> None:
    code = "import sys; sys.prefix = sys.argv[1]\nfrom sitemap_etl import kernels\nassert kernels.compiled is None"
    library = tmp_path / "lib" / "sitemap_etl" / kernels.name_of(b"of another machine")
    library.parent.mkdir(parents=True)
    library.write_bytes(b"of another machine")
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@given(texts(URLS, 12, least=20), st.integers(0, 3), st.booleans())
def test_compiled_and_python_searches_in_sorted_texts_are_equal(values: list[str], step: int, ordered: bool) -> None:
    among = pa.array(sorted(set(values))[:: step + 1])
    sought = [*values, *(value + "/" for value in values[:9])]
    array = pa.array(sorted(sought) if ordered else sought)
    mine, theirs = both(lambda: places(array, among))
    assert (mine == theirs).all()
