"""Exports of JSON lines."""

from __future__ import annotations

import gzip
import json
import os
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.sources.files.json_types import common, pattern_of, type_of
from tests.support.examples import examples

BLOCK = 10_000
"""Lines with a note that are more than one block holds."""
NOTE = "text " * 200


def table(paths: object, **options: object) -> pa.Table:
    splits = [sources.Split.from_json(split.to_json()) for split in sources.plan_jsonl(paths)]
    batches = [batch for split in splits for batch in sources.read(split, **options)]
    return pa.Table.from_batches(batches, sources.columns(splits[0]) if not options else None)


def write(path: Path, *lines: object) -> Path:
    data = "".join((line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines)
    path.write_bytes(gzip.compress(data.encode()) if path.suffix == ".gz" else data.encode())
    return path


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson.gz"])
def test_values_keep_their_types_and_nested_ones_become_native(tmp_path: Path, name: str) -> None:
    path = write(
        tmp_path / name,
        {"loc": "/a", "id": 1, "price": 2, "live": True, "images": ["/1.jpg"], "video": {"title": "é", "tags": []}},
        {"loc": "/b", "id": 2, "price": 2.5, "updated": "2026-01-02", "zip": "007", "video": {"tags": ["x"]}},
    )
    found = table(path)
    assert dict(zip(found.schema.names, map(str, found.schema.types), strict=True)) == {
        "loc": "string",
        "id": "int64",
        "price": "double",
        "live": "bool",
        "images": "list<item: string>",
        "video": "struct<title: string, tags: list<item: string>>",
        "updated": "string",
        "zip": "string",
    }
    assert found.to_pylist()[1]["video"] == {"title": None, "tags": ["x"]}
    assert found.to_pylist()[0]["video"] == {"title": "é", "tags": []}


@pytest.mark.parametrize("blank", ["   ", "\t \t\r", " " * 5_000_000])
def test_a_line_of_white_space_is_blank(tmp_path: Path, blank: str) -> None:
    path = write(tmp_path / "a.jsonl", {"loc": "/a"}, blank, {"loc": "/b"})
    assert table(path).to_pylist() == [{"loc": "/a"}, {"loc": "/b"}]


def test_types_are_derived_from_all_lines(tmp_path: Path) -> None:
    lines = [{"loc": f"/{n}", "price": n, "sku": n, "since": "2026-01-01", "note": NOTE} for n in range(BLOCK)]
    lines[-1] |= {"price": 0.5, "sku": "A-1", "since": "never", "exclude": "gone"}
    found = table(write(tmp_path / "a.jsonl", *lines))
    assert [str(kind) for kind in found.schema.types] == ["string", "double", "string", "string", "string", "string"]
    assert found.slice(0, 1).to_pylist() == [
        {"loc": "/0", "price": 0.0, "sku": "0", "since": "2026-01-01", "note": NOTE, "exclude": None}
    ]
    assert found.slice(BLOCK - 1).to_pylist() == [lines[-1]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, "a", None, 2.5, True], ["1", "a", None, "2.5", "true"]),
        ([{"x": 1}, "a", [1, 2]], ['{"x":1}', "a", "[1,2]"]),
        ([[1], ["a", None]], [["1"], ["a", None]]),
        ([{"x": 1}, {"x": "b", "y": None}], [{"x": "1", "y": None}, {"x": "b", "y": None}]),
        ([[{"x": 1}], [{"x": {"y": 2}}]], ['[{"x":1}]', '[{"x":{"y":2}}]']),
        ([[{"x": "a", "z": 1}], [{"x": ["b"]}]], ['[{"x":"a","z":1}]', '[{"x":["b"]}]']),
        ([{}, {}], ["{}", "{}"]),
        ([12345678901234567890, 1, "a"], ["12345678901234567890", "1", "a"]),
        ([1, -1, 9223372036854775807], [1, -1, 9223372036854775807]),
        ([1, 9223372036854775808], ["1", "9223372036854775808"]),
        ([12345678901234567890, None], ["12345678901234567890", None]),
        ([1.5, -(2**70)], ["1.5", str(-(2**70))]),
        ([None, None], [None, None]),
        (['it\'s "quoted"', "a\nb\\", "\u2028ü"], ['it\'s "quoted"', "a\nb\\", "\u2028ü"]),
    ],
)
def test_a_key_with_values_of_mixed_types_is_text_as_written(
    tmp_path: Path, values: list[Any], expected: list[Any]
) -> None:
    lines = [json.dumps({"v": value}, separators=(",", ":"), ensure_ascii=False) for value in values]
    path = write(tmp_path / "a.jsonl", '{"v":' + json.dumps(values[0], separators=(",", ":")) + "}", *lines[1:])
    assert table(path).column("v").to_pylist() == expected


WORDS = st.text('aé"\\ ', max_size=5)
WHOLE = st.integers(-(2**63), 2**63 - 1)
CELLS = st.one_of(
    st.none(),
    st.booleans(),
    WHOLE,
    WORDS,
    st.lists(WHOLE, max_size=3),
    st.lists(st.none() | WORDS, max_size=3),
    st.lists(st.lists(st.booleans(), max_size=2), max_size=3),
    st.fixed_dictionaries({"x": WORDS, "y": st.lists(WHOLE, max_size=2)}),
)


@settings(max_examples=examples(20))
@given(st.lists(CELLS, min_size=1, max_size=8))
def test_values_of_one_type_are_read_back_unchanged(tmp_path: Path, cells: list[Any]) -> None:
    columns = {f"v{number}": cell for number, cell in enumerate(cells)}
    found = table(write(tmp_path / "a.jsonl", {"loc": "/a", **columns}, {"loc": "/b"}))
    assert found.to_pylist()[0] == {"loc": "/a", **columns}


LINES = st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys("ab ü", CELLS)), max_size=4)
FORMS = st.sampled_from([{}, {"separators": (",", ":")}, {"ensure_ascii": False}])
SPLINTERS = st.sampled_from(["", '"', ",", "[", "1", "\\", " ", "-", "\n"])


@given(LINES, LINES, FORMS, SPLINTERS, st.integers(0, 100))
def test_lines_that_match_the_pattern_of_known_types_add_no_types(
    lines: list[dict[str, Any]], others: list[dict[str, Any]], form: dict[str, Any], splinter: str, place: int
) -> None:
    """Broken and unusual lines do not match it."""
    known = reduce(common, map(type_of, lines), pa.struct([]))
    for text in (json.dumps(line, **form) for line in (*lines, *others)):
        at = place % (len(text) + 1)
        for spelled in (text, text[:at] + splinter + text[at:], text[:at] + text[at + 1 :]):
            if fits(spelled, known):
                found = [json.loads(line) for line in spelled.split("\n") if line.strip()]
                assert reduce(common, map(type_of, found), known) == known


@pytest.mark.parametrize("form", [{}, {"separators": (",", ":")}, {"ensure_ascii": False}])
def test_ordinary_lines_match_the_pattern_of_known_types(form: dict[str, Any]) -> None:
    """They need not be parsed to find their types; lines with other types must be."""
    first = {"loc": '/ü\n"', "id": 1, "price": 1.5, "live": True, "gone": None, "a ü": ["x"], "video": {"tags": [[]]}}
    second = {"price": -2, "id": None, "a ü": [], "loc": "😀", "video": {}, "gone": None}
    known = reduce(common, map(type_of, [first, second]))
    assert all(fits(json.dumps(line, **form), known) for line in (first, second, {}))
    strange = [{"id": 1.5}, {"live": 1}, {"gone": 1}, {"new": None}, {"loc": []}, {"video": {"x": None}}, {"a ü": [[]]}]
    assert not any(fits(json.dumps(line, **form), known) for line in (*strange, None, []))


def fits(line: str, known: pa.StructType) -> bool:
    pattern = pattern_of(known)
    return pattern is not None and pc.match_substring_regex(pa.array([line.encode() + b"\n"]), pattern)[0].as_py()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (
            '{"loc": "/b"',
            r"line 3: expected a JSON object in this line, but .*'\{\"loc\": \"/b\"'",
        ),
        ("[1, 2]", "line 3: .* but it is not an object"),
        ("null", "line 3: .* but it is not an object"),
        ('{"loc": "/b",}', "line 3: .* but ."),
        ('"text"', "line 3: .* but it is not an object"),
        ('{"loc": "/b"} {"loc": "/c"}', "line 3: .* but ."),
        ("loc,id", "line 3: .* but ."),
        (r'{"loc": "/\ud800"}', "line 3: .* but it has half of a character"),
    ],
)
@pytest.mark.parametrize("before", [1, BLOCK])
def test_a_broken_line_is_reported_with_its_number(tmp_path: Path, line: str, told: str, before: int) -> None:
    path = write(tmp_path / "a.jsonl", *[json.dumps({"loc": "/a", "note": NOTE})] * before, "", line, '{"loc": "/z"}')
    with pytest.raises(InvalidSource, match=told.replace("line 3", f"line {before + 2}")):
        sources.plan_jsonl(path)


def test_text_that_is_not_utf8_is_reported_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"loc": "/a"}\n{"loc": "/gr\xf6sse"}\n')
    with pytest.raises(InvalidSource, match=r"line 2: expected a JSON object in this line, but it is not UTF-8"):
        sources.plan_jsonl(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (
            b'[\n{"loc": "/a"}\n]',
            r"it is one JSON array: write an object a line, with  jq -c '\.\[\]' a\.jsonl > a-lines\.jsonl",
        ),
        (b"loc,id\n/a,1\n", "it looks like CSV: write csv: instead of jsonl:"),
        (b"PAR1" + b"\x00" * 50, "it is a Parquet file: write parquet:"),
    ],
)
def test_a_file_of_another_format_is_reported_with_what_to_do(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(InvalidSource, match=rf"a\.jsonl is not a file of JSON lines; {told}"):
        sources.plan_jsonl(tmp_path / "a.jsonl")


def test_the_line_of_a_row_is_that_of_a_text_editor(tmp_path: Path) -> None:
    first = write(
        tmp_path / "a.jsonl", '\ufeff{"n": 1}', "", "  ", {"n": 4}, *({"n": n, "note": NOTE} for n in range(5, BLOCK))
    )
    second = write(tmp_path / "b.jsonl", "", {"n": 2}, {"n": 3})
    (split,) = sources.plan_jsonl([first, second])
    numbers = sources.LineNumbers()
    found = pa.Table.from_batches(sources.read(split, lines=numbers))
    assert numbers.known
    assert [path for path, _ in numbers.files] == [str(first), str(second)]
    position = [at + ahead for at, ahead in enumerate(found.column(sources.LINES).to_pylist())]
    before = numbers.files[1][1]
    lines = [place - before + 1 if place >= before else place + 1 for place in position]
    assert lines == found.column("n").to_pylist()


def test_missing_keys_are_null_and_columns_can_be_selected(tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", {"loc": "/a"})
    write(tmp_path / "b.jsonl", {"loc": "/b", "x": 1})
    assert table(tmp_path).to_pylist() == [{"loc": "/a", "x": None}, {"loc": "/b", "x": 1}]
    assert table(tmp_path, columns=["x", "unknown"]).to_pylist() == [{"x": None}, {"x": 1}]


def test_keys_that_differ_only_in_case_are_separate_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"loc": "/a", "Loc": 1, "x": [1], "LOC": "/c"}, {"loc": None, "Loc": 2})
    found = {"loc": ["/a", None], "Loc": [1, 2], "x": [[1], None], "LOC": ["/c", None]}
    assert table(path).to_pydict() == found
    assert table(path, columns=["LOC", "loc"]).to_pydict() == {name: found[name] for name in ("LOC", "loc")}
    path = write(tmp_path / "a.jsonl", {"loc": "/a", "more": {"x": 1, "X": 2}})
    assert json.loads(table(path).column("more").to_pylist()[0]) == {"x": 1, "X": 2}


def test_a_file_changed_since_planning_can_be_retried_with_a_new_run(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"loc": "/a"})
    (split,) = sources.plan_jsonl(path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(Unavailable, match="changed while it was read"):
        list(sources.read(split))


def test_keys_that_no_rule_can_name_are_ignored_and_unusual_ones_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", {"": 1, "it's": 2, 'x"y': {"": 3}, "a b": [{"c.d": 4}]})
    assert table(path).to_pylist() == [{"it's": 2, 'x"y': '{"":3}', "a b": [{"c.d": 4}]}]


@pytest.mark.parametrize("depth", [70, 200, 3000])
def test_too_deeply_nested_values_are_reported(tmp_path: Path, depth: int) -> None:
    write(tmp_path / "a.jsonl", {"loc": "/a"})
    write(tmp_path / "b.jsonl", {"loc": "/b", "x": 1})
    write(tmp_path / "c.jsonl", {"loc": "/c"}, '{"a": ' + "[" * depth + "]" * depth + "}")
    with pytest.raises(
        InvalidSource, match=r"c\.jsonl line 2: its lists and objects are nested more than 50 levels deep"
    ):
        sources.plan_jsonl(tmp_path)


@pytest.mark.parametrize(
    "text", ["[{" * 99, '"[{' * 99, "\\" * 99 + "[" * 99, "\\" * 98 + '"' + "{" * 99, "é[" * 99], ids=ascii
)
def test_brackets_in_text_do_not_count_as_nesting(tmp_path: Path, text: str) -> None:
    found = table(write(tmp_path / "a.jsonl", {"loc": "/a"}, {"loc": "/b", "x": text}, {"loc": "/c", "x": [[text]]}))
    assert [None if x is None else x for x in found.column("x").to_pylist()][:2] == [None, text]


@pytest.mark.parametrize(("levels", "fits"), [(50, True), (51, False)])
@pytest.mark.parametrize("around", ["[]", "{}"])
def test_any_line_with_more_than_fifty_levels_is_reported(tmp_path: Path, levels: int, fits: bool, around: str) -> None:
    begin, end = ("[", "]") if around == "[]" else ('{"a":', "}")
    inner = begin * (levels - 1) + "1" + end * (levels - 1)
    many = [json.dumps({"loc": f"/{n}", "more": [{"n": n}] * 60}) for n in range(9)]
    path = write(tmp_path / "a.jsonl", *many, f'{{"loc": "/b", "x": {inner}}}', *many)
    if fits:
        assert len(table(path)) == 19
    else:
        with pytest.raises(
            InvalidSource, match=r"a\.jsonl line 10: its lists and objects are nested more than 50 levels"
        ):
            sources.plan_jsonl(path)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_the_length_of_a_line_is_bounded_wherever_it_begins(tmp_path: Path, name: str) -> None:
    fits, over = ('{"loc": "/b", "x": "' + "x" * (size - 22) + '"}' for size in (16 * 1024**2, 16 * 1024**2 + 1))
    assert len(table(write(tmp_path / name, {"loc": "/a"}, fits, {"loc": "/c"}))) == 3
    for before in (1, 100_000):
        path = write(tmp_path / name, *[{"loc": "/a"}] * before, over, {"loc": "/c"})
        with pytest.raises(InvalidSource, match=rf"{name} line {before + 1} is longer than 16,777,216 bytes"):
            sources.plan_jsonl(path)


@pytest.mark.parametrize("count", [10_000, 10_001, 500_000])
def test_the_keys_of_a_nested_object_are_bounded(tmp_path: Path, count: int) -> None:
    path = write(
        tmp_path / "a.jsonl", {"loc": "/a"}, {"loc": "/b", "x": [{"y": dict.fromkeys(map(str, range(count)), 1)}]}
    )
    if count == 10_000:
        assert len(table(path)) == 2
        return
    with pytest.raises(InvalidSource, match=rf"a\.jsonl line 2: an object has {count:,} keys"):
        sources.plan_jsonl(path)


def test_the_total_number_of_keys_is_bounded(tmp_path: Path) -> None:
    assert (
        len(sources.columns(sources.plan_jsonl(write(tmp_path / "a.jsonl", {f"c{n}": n for n in range(4_096)}))[0]))
        == 4_096
    )
    path = write(tmp_path / "a.jsonl", *({f"c{n}": n} for n in range(4_097)))
    with pytest.raises(InvalidSource, match=r"a\.jsonl has 4,097 columns: at most 4,096 can be read"):
        sources.plan_jsonl(path)


def test_a_key_with_mixed_types_does_not_change_other_keys(tmp_path: Path) -> None:
    lines = [{"v": 1, "whole": 1, "number": 1}, {"v": "a", "whole": -1, "number": -1.5}]
    assert table(write(tmp_path / "a.jsonl", *lines)).to_pylist() == [{**lines[0], "v": "1"}, lines[1]]


@pytest.mark.parametrize("tail", [b"", bytes(1024)])
def test_a_file_that_is_compressed_twice_is_reported(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(gzip.compress(b'{"loc": "/a"}\n') + tail))
    with pytest.raises(
        InvalidSource, match=r"a\.jsonl\.gz is compressed with gzip more than once: unpack it, with  gzip"
    ):
        sources.plan_jsonl(path)
