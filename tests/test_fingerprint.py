"""Fingerprints against an independent reference, and the dates that follow from them."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sitemap_etl import lastmod
from sitemap_etl.errors import InvalidSource

# --- The definition once more, in plain Python over plain values --------------------------------

MASK = 2**64 - 1
SEED = 0x9E3779B97F4A7C15
NULL = 0x6E756C6C6E756C6C


def mix(h: int) -> int:
    h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & MASK
    return h ^ (h >> 31)


def hash64(data: bytes) -> int:
    h = SEED ^ len(data)
    for at in range(0, len(data), 8):
        h = mix(h ^ int.from_bytes(data[at : at + 8].ljust(8, b"\0"), "little"))
    return mix(h)


def combine(hashes: list[int]) -> int:
    h = SEED
    for one in hashes:
        h = mix(h ^ one)
    return h


def whole(number: int) -> bytes:
    return (number & MASK).to_bytes(8, "little")


def micros(value: datetime) -> bytes:
    zone = UTC if value.tzinfo else None
    return whole((value - datetime(1970, 1, 1, tzinfo=zone)) // timedelta(microseconds=1))


def digits(value: Decimal) -> bytes:
    text = f"{value:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return (text if value else "0").encode()


def real(value: float) -> bytes:
    return bytes.fromhex("000000000000f87f") if math.isnan(value) else struct.pack("<d", value or 0.0)


@dataclass
class Map:
    entries: list[tuple[object, object]]


def cell(value: object) -> int:  # noqa: PLR0912 # one branch a kind
    match value:
        case None:
            return NULL
        case bool():
            kind, payload = "bool", bytes([value])
        case int():
            kind, payload = "int", whole(value)
        case float() if value.is_integer() and abs(value) <= 2**53:
            kind, payload = "int", whole(int(value))
        case float():
            kind, payload = "float", real(value)
        case Decimal():
            kind, payload = "decimal", digits(value)
        case str():
            kind, payload = "text", value.encode()
        case bytes():
            kind, payload = "binary", value
        case datetime():
            kind, payload = "instant" if value.tzinfo else "local", micros(value)
        case date():
            kind, payload = "date", whole((value - date(1970, 1, 1)).days)
        case time():
            kind, payload = "time", micros(datetime.combine(date(1970, 1, 1), value))
        case timedelta():
            kind, payload = "duration", whole(value // timedelta(microseconds=1))
        case list():
            kind, payload = "list", b"".join(whole(cell(one)) for one in value)
        case dict():
            kind, payload = "struct", b"".join(whole(cell(value[name])) for name in sorted(value))
        case Map():
            entries = sorted(combine([cell(key), cell(item)]) for key, item in value.entries)
            kind, payload = "map", b"".join(map(whole, entries))
        case _:
            raise AssertionError(value)
    return combine([hash64(kind.encode()), hash64(payload)])


def reference(row: dict[str, object]) -> int:
    return combine([cell(row[name]) for name in sorted(row)])


def one(value: object, kind: pa.DataType) -> int:
    """Return the fingerprint of a single value."""
    held = value.entries if isinstance(value, Map) else value
    return lastmod.fingerprint(pa.table({"c": pa.array([held], kind)}), ["c"])[0].as_py()


# --- Test vectors, which never change -----------------------------------------------------------------------------

BERLIN = datetime(2026, 1, 2, 4, 4, 5, 678_901, tzinfo=UTC)
VECTORS = [
    (None, pa.string(), 0x8DA7B3F0124FEF94),
    ("", pa.string(), 0xC2AE6F4EDCBD771D),
    ("Lampe", pa.string(), 0x80663A1B704AB632),
    ("Größe 10 – weiß", pa.string(), 0xCBDB272F7D0FCC5D),
    (0, pa.int32(), 0x19C9ED9BF15D5FE4),
    (-1, pa.int64(), 0x992EBBBEFCA5738F),
    (1.5, pa.float64(), 0x67AE70417C9319D9),
    (float("nan"), pa.float64(), 0x86762942829615D9),
    (True, pa.bool_(), 0xFAB3A8EE1AB28F63),
    (Decimal("-1.50"), pa.decimal128(10, 2), 0x410B5F55AB726943),
    (Decimal("0.0000001"), pa.decimal128(10, 7), 0x33C5905054865411),
    (b"\x00\xff", pa.binary(), 0x0A031C4DAA7501C1),
    (date(2026, 1, 2), pa.date32(), 0x782CF30C3F928BD8),
    (BERLIN, pa.timestamp("us", "UTC"), 0x3936DE1B20C7A4F0),
    (BERLIN.replace(tzinfo=None), pa.timestamp("us"), 0xB4EA211AFF0B8978),
    (["a", None, ""], pa.list_(pa.string()), 0x4797FA458674D568),
    ({"b": 1, "a": "x"}, pa.struct([("b", pa.int64()), ("a", pa.string())]), 0x3616A9B10467EBBF),
    (Map([("de", 1), ("en", 2)]), pa.map_(pa.string(), pa.int64()), 0x2369C995F76C8673),
]


@pytest.mark.parametrize(("value", "kind", "expected"), VECTORS)
def test_the_documented_test_vectors_are_correct(value, kind, expected):
    assert one(value, kind) == expected
    assert reference({"c": value}) == expected


def test_the_documented_test_vector_of_several_columns_is_correct():
    row = {"title": "Lampe", "price": Decimal("19.90"), "tags": ["neu"], "subtitle": None}
    table = pa.table({name: pa.array([value]) for name, value in row.items()})
    assert lastmod.fingerprint(table, list(row))[0].as_py() == reference(row) == 0xFE6275923FEA2850
    named = lastmod.kinds(table.schema, list(row))
    assert named == [("price", "decimal"), ("subtitle", "null"), ("tags", "list<text>"), ("title", "text")]
    assert lastmod.rule_id(named) == "f1-09fc0c145c0f1212"


def test_the_documentation_has_a_test_vector_of_several_columns():
    text = (Path(__file__).parent.parent / "docs" / "explanation" / "fingerprints.md").read_text(encoding="utf-8")
    assert "`FE6275923FEA2850` under the id `f1-09fc0c145c0f1212`" in text


# --- Physical forms ------------------------------------------------------------------------------

SAME = [
    ("text", ["a", None, "", "ü" * 9], [pa.string(), pa.large_string(), pa.string_view()]),
    ("binary", [b"ab", None, b"cd", b"\0\0"], [pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(2)]),
    ("int", [0, None, 1, 127], [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint32(), pa.uint64()]),
    ("float", [0.5, None, -2.0, float("inf")], [pa.float16(), pa.float32(), pa.float64()]),
    (
        "decimal",
        [Decimal("1.5"), None, Decimal(0), Decimal(-30)],
        [pa.decimal32(9, 1), pa.decimal64(12, 2), pa.decimal128(20, 9), pa.decimal256(60, 30)],
    ),
    ("date", [date(2026, 1, 2), None, date(1969, 12, 31), date(1, 1, 1)], [pa.date32(), pa.date64()]),
    (
        "instant",
        [BERLIN.replace(microsecond=0), None, datetime(1969, 12, 31, tzinfo=UTC), BERLIN.replace(microsecond=0)],
        [pa.timestamp("s", "UTC"), pa.timestamp("ms", "+01:00"), pa.timestamp("ns", "Europe/Berlin")],
    ),
    ("time", [time(3, 4, 5), None, time(0), time(23, 59)], [pa.time32("s"), pa.time32("ms"), pa.time64("us")]),
    ("duration", [timedelta(1), None, timedelta(0), -timedelta(1)], [pa.duration("s"), pa.duration("ns")]),
    (
        "list",
        [["a", None], None, ["", "b"], ["c", "c"]],
        [
            pa.list_(pa.string()),
            pa.large_list(pa.large_string()),
            pa.list_(pa.string(), 2),
            pa.list_view(pa.string()),
            pa.large_list_view(pa.string_view()),
        ],
    ),
]


@pytest.mark.parametrize(("kind", "values", "types"), SAME)
def test_a_value_has_the_same_fingerprint_in_every_physical_type(kind, values, types):
    expected = [reference({"c": value}) for value in values]
    for each in types:
        array = pa.array(values, each)
        assert lastmod.kinds(pa.schema([("c", each)]), ["c"])[0][1].partition("<")[0] == kind
        forms = [array, pa.chunked_array([array.slice(0, 1), array.slice(1, 0), array.slice(1)])]
        forms.append(pa.concat_arrays([array, array]).slice(4))
        if kind in ("text", "int", "date"):
            forms.append(array.cast(pa.string() if each == pa.string_view() else each).dictionary_encode())
        for form in forms:
            assert lastmod.fingerprint(pa.table({"c": form}), ["c"]).to_pylist() == expected, form.type


def test_dictionary_run_end_and_extension_types_have_the_fingerprint_of_their_values():
    plain = lastmod.fingerprint(pa.table({"c": ["a", "a", None]}), ["c"])
    with_null = pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), pa.array(["a", None]))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", None]))
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["a", "a", None]))
    for form in (with_null, runs, json):
        assert lastmod.fingerprint(pa.table({"c": form}), ["c"]) == plain, form.type
        assert lastmod.kinds(pa.schema([("c", form.type)]), ["c"]) == [("c", "text")]


def test_a_column_without_any_chunk_has_no_fingerprints():
    empty = pa.table({"title": pa.chunked_array([], pa.string()), "price": pa.chunked_array([], pa.int64())})
    assert lastmod.fingerprint(empty, ["title", "price"]).to_pylist() == []


def test_special_numbers_are_canonical():
    assert one(-0.0, pa.float64()) == one(0.0, pa.float32())
    other_nan = np.array([0xFFF8000000000001], np.uint64).view(np.float64)
    assert lastmod.fingerprint(pa.table({"c": other_nan}), ["c"])[0].as_py() == one(float("nan"), pa.float16())
    assert one(2**64 - 1, pa.uint64()) == reference({"c": 2**64 - 1})
    longest = Decimal("9" * 38)
    assert one(longest, pa.decimal128(38, 0)) == one(longest, pa.decimal256(60, 0))
    assert one(Decimal(12300), pa.decimal128(5, -2)) == one(Decimal("12300.00"), pa.decimal128(9, 2))


def test_different_values_have_different_fingerprints():
    """Kinds, nulls, blanks, borders between columns and nesting all count."""
    values = [
        (None, pa.string()), ("", pa.string()), ("1", pa.string()), (1, pa.int64()), (1.5, pa.float64()),
        (True, pa.bool_()), (Decimal(1), pa.decimal128(3, 0)), (b"1", pa.binary()), (date(1970, 1, 2), pa.date32()),
        (timedelta(microseconds=1), pa.duration("us")), (datetime(1970, 1, 1, 0, 0, 0, 1), pa.timestamp("us")),  # noqa: DTZ001 # the local kind
        (datetime(1970, 1, 1, 0, 0, 0, 1, UTC), pa.timestamp("us", "UTC")), ([], pa.list_(pa.int64())),
        ([None], pa.list_(pa.int64())), ([1], pa.list_(pa.int64())), ([[1]], pa.list_(pa.list_(pa.int64()))),
        (["1"], pa.list_(pa.string())), ({"a": 1}, pa.struct([("a", pa.int64())])),
        (Map([]), pa.map_(pa.string(), pa.int64())), (Map([("a", None)]), pa.map_(pa.string(), pa.int64())),
    ]  # fmt: skip
    assert len({one(value, kind) for value, kind in values}) == len(values)
    pairs = pa.table({"a": ["x", "xy", "", "y", None, "x"], "b": ["y", "", "xy", "x", "x", None]})
    assert len(set(lastmod.fingerprint(pairs, ["a", "b"]).to_pylist())) == 6


def test_columns_map_entries_and_struct_fields_in_any_order_give_one_fingerprint():
    table = pa.table({"a": ["x"], "b": [1]})
    assert lastmod.fingerprint(table, ["a", "b"]) == lastmod.fingerprint(table.select(["b", "a"]), ["b", "a", "b"])
    assert one(Map([("de", 1), ("en", 2)]), pa.map_(pa.string(), pa.int64())) == one(
        Map([("en", 2), ("de", 1)]), pa.map_(pa.string(), pa.int64())
    )
    ab = pa.struct([("a", pa.int64()), ("b", pa.string())])
    ba = pa.struct([("b", pa.string()), ("a", pa.int64())])
    assert one({"a": 1, "b": "x"}, ab) == one({"a": 1, "b": "x"}, ba)
    assert lastmod.kinds(pa.schema([("c", ab)]), ["c"]) == lastmod.kinds(pa.schema([("c", ba)]), ["c"])
    assert one(["a", "b"], pa.list_(pa.string())) != one(["b", "a"], pa.list_(pa.string()))


ROWS = st.fixed_dictionaries(
    {
        "amount": st.one_of(st.none(), st.decimals(-(10**9), 10**9, places=6)),
        "count": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "ratio": st.one_of(st.none(), st.floats()),
        "tags": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=4)),
        "title": st.one_of(st.none(), st.text(max_size=30)),
        "seen": st.one_of(st.none(), st.datetimes(timezones=st.just(UTC))),
        "labels": st.one_of(st.none(), st.dictionaries(st.text(max_size=5), st.booleans(), max_size=4)),
        "size": st.one_of(
            st.none(), st.fixed_dictionaries({"h": st.integers(0, 9), "w": st.one_of(st.none(), st.text(max_size=3))})
        ),
    }
)
SCHEMA = pa.schema(
    [
        ("amount", pa.decimal128(20, 6)), ("count", pa.int64()), ("ratio", pa.float64()),
        ("tags", pa.list_(pa.string())), ("title", pa.string()), ("seen", pa.timestamp("us", "UTC")),
        ("labels", pa.map_(pa.string(), pa.bool_())), ("size", pa.struct([("w", pa.string()), ("h", pa.int64())])),
    ]
)  # fmt: skip


@pytest.mark.thorough
@given(st.lists(ROWS, max_size=12), st.integers(0, 12))
def test_rows_have_the_fingerprint_of_the_reference_in_any_split(rows, at):
    held = [{**row, "labels": None if row["labels"] is None else list(row["labels"].items())} for row in rows]
    table = pa.Table.from_pylist(held, SCHEMA)
    for row in rows:
        if row["labels"] is not None:
            row["labels"] = Map(list(row["labels"].items()))
    expected = [reference(row) for row in rows]
    assert lastmod.fingerprint(table, SCHEMA.names).to_pylist() == expected
    parts = [table.slice(0, at), table.slice(at)]
    assert [f for part in parts for f in lastmod.fingerprint(part, SCHEMA.names).to_pylist()] == expected
    assert lastmod.fingerprint(pa.concat_tables(parts), SCHEMA.names).to_pylist() == expected


# --- The definition's id ---------------------------------------------------------------------------


def test_the_rule_id_depends_on_columns_and_kinds_but_not_on_their_order():
    named = [("title", "text"), ("price", "int")]
    ids = [
        lastmod.rule_id(other)
        for other in (named, named[:1], [("title", "text"), ("price", "decimal")], [("name", "text"), ("price", "int")])
    ]
    assert len(set(ids)) == len(ids)
    assert lastmod.rule_id(named[::-1]) == ids[0]
    assert lastmod.rule_id([("title", "text"), ("price", "float")]) == ids[0]
    assert ids[0].startswith(f"f{lastmod.HASH_VERSION}-")


def test_a_missing_fingerprint_column_is_reported_with_the_existing_columns():
    table = pa.table({"title": ["x"], "price": [1]})
    with pytest.raises(InvalidSource) as error:
        lastmod.fingerprint(table, ["title", "body"])
    assert "body" in str(error.value)
    assert "title, price" in str(error.value)
    twice = pa.Table.from_arrays([pa.array([1])] * 2, ["body", "body"])
    with pytest.raises(InvalidSource, match="2 columns of that name"):
        lastmod.fingerprint(twice, ["body"])
    with pytest.raises(ValueError, match="at least one"):
        lastmod.fingerprint(table, [])


def test_a_type_without_a_fingerprint_is_named():
    table = pa.table({"every": pa.array([(1, 2, 3)], pa.month_day_nano_interval())})
    with pytest.raises(InvalidSource, match=r"every: month_day_nano_interval.*Cast it to text"):
        lastmod.fingerprint(table, ["every"])


def test_the_kinds_of_all_splits_must_agree_and_a_column_of_nulls_agrees_with_all():
    empty, text, number = [("a", "null")], [("a", "text")], [("a", "int")]
    assert lastmod.agreed([empty, text, empty]) == text
    assert lastmod.agreed([empty]) == empty
    with pytest.raises(InvalidSource, match="a is text in one part of the source and int in another"):
        lastmod.agreed([text, empty, number])


def test_whole_numbers_have_one_fingerprint_as_integers_and_as_floats():
    """In SQLite a column of whole numbers becomes one of floats with a single such value."""
    numbers = [0, 1, -7, 2**53, -(2**53), None]
    integers, floats = pa.array(numbers, pa.int64()), pa.array(numbers, pa.float64())
    assert lastmod.fingerprint(pa.table({"c": integers}), ["c"]) == lastmod.fingerprint(pa.table({"c": floats}), ["c"])
    assert one(0.5, pa.float64()) != one(0, pa.int64())
    nested = [lastmod.kinds(pa.schema([("c", pa.list_(kind))]), ["c"]) for kind in (pa.int8(), pa.float32())]
    assert lastmod.rule_id(nested[0]) == lastmod.rule_id(nested[1])
    assert lastmod.agreed(nested) == nested[0]


def test_the_kind_of_a_map_includes_the_kinds_of_keys_and_values() -> None:
    named = pa.map_(pa.string(), pa.list_(pa.int64()))
    assert lastmod.kinds(pa.schema([("c", named)]), ["c"]) == [("c", "map<text, list<int>>")]


def test_fingerprints_can_be_compared_if_columns_and_kinds_agree():
    published = [("a", "int"), ("b", "text")]
    assert lastmod.comparable(published, published)
    assert lastmod.comparable(published, [("a", "float"), ("b", "null")])
    assert lastmod.comparable([("a", "null"), ("b", "null")], published)
    assert not lastmod.comparable(published, [("a", "text"), ("b", "text")])
    assert not lastmod.comparable(published, published[:1])


def test_a_null_has_one_fingerprint_in_a_typed_column_and_an_untyped_one():
    assert one(None, pa.null()) == one(None, pa.int64()) == one(None, pa.list_(pa.string()))


# --- From fingerprint to lastmod ---------------------------------------------------------------------

NOW = "2026-11-20T02:00:00Z"
OLD = "2026-03-01T00:00:00Z"
SOURCE = "2025-12-24"


def resolve(rows, *, reset=False, first_seen=False, first_publish=False):
    """Rows are (fingerprint now, until_changed, old fingerprint, old lastmod, known)."""
    now, source, old, dates, known = (list(column) for column in zip(*rows, strict=True))
    texts, changed = lastmod.resolve(
        pa.array(now, pa.uint64()), pa.array(source, pa.string()), pa.array(old, pa.uint64()),
        pa.array(dates, pa.string()), pa.array(known, pa.bool_()),
        now_text=NOW, reset=reset, first_seen=first_seen, first_publish=first_publish,
    )  # fmt: skip
    assert texts.type == pa.string()
    return list(zip(texts.to_pylist(), changed.to_pylist(), strict=True))


@pytest.mark.parametrize(
    ("row", "rules", "expected"),
    [
        # an unchanged page keeps its date, whatever the source says by now
        ((1, None, 1, OLD, True), {}, (OLD, False)),
        ((1, SOURCE, 1, OLD, True), {}, (OLD, False)),
        ((1, SOURCE, 1, OLD, True), {"first_seen": True}, (OLD, False)),
        ((1, None, 1, None, True), {"first_seen": True}, (None, False)),
        # it had none, and the source now knows one
        ((1, SOURCE, 1, None, True), {}, (SOURCE, True)),
        # a changed one gets the run's
        ((2, None, 1, OLD, True), {}, (NOW, True)),
        ((2, SOURCE, 1, OLD, True), {}, (NOW, True)),
        ((2, SOURCE, 1, None, True), {}, (NOW, True)),
        # another definition of the fingerprint: no date moves
        ((2, None, 1, OLD, True), {"reset": True}, (OLD, False)),
        ((2, SOURCE, 1, OLD, True), {"reset": True, "first_seen": True}, (OLD, False)),
        ((2, None, 1, None, True), {"reset": True, "first_seen": True}, (None, False)),
        ((2, SOURCE, 1, None, True), {"reset": True}, (SOURCE, True)),
        # published under a rule without fingerprints: nothing to compare with
        ((2, None, None, OLD, True), {}, (OLD, False)),
        ((2, None, None, None, True), {"first_seen": True}, (None, False)),
        # a new page
        ((1, SOURCE, None, None, False), {}, (SOURCE, False)),
        ((1, SOURCE, None, None, False), {"first_seen": True}, (SOURCE, False)),
        ((1, None, None, None, False), {}, (None, False)),
        ((1, None, None, None, False), {"first_seen": True}, (NOW, False)),
        ((1, None, None, None, False), {"first_seen": True, "reset": True}, (NOW, False)),
        # the section's first publish
        ((1, SOURCE, None, None, False), {"first_publish": True}, (SOURCE, False)),
        ((1, None, None, None, False), {"first_publish": True, "first_seen": True}, (None, False)),
        # what the snapshot's columns hold of a row that is not known is nobody's
        ((1, None, 2, OLD, False), {}, (None, False)),
    ],
)
def test_each_row_gets_its_date_and_no_other(row, rules, expected):
    assert resolve([row], **rules) == [expected]


def test_fingerprints_work_without_rows_and_without_until_changed():
    none = pa.array([], pa.uint64())
    texts, changed = lastmod.resolve(
        none, None, none, pa.array([], pa.string()), pa.array([], pa.bool_()),
        now_text=NOW, reset=False, first_seen=True, first_publish=False,
    )  # fmt: skip
    assert len(texts) == len(changed) == 0


@dataclass
class Section:
    """A section over several runs: the contents of its pages, and what was published of them."""

    columns: list[str]
    first_seen: bool = True
    snapshot: dict[str, tuple[int, str | None]] | None = None
    rule: str = ""
    changed: int = field(default=0, init=False)

    def night(self, pages: dict[str, dict[str, object]], now: str) -> dict[str, str | None]:
        table = pa.Table.from_pylist(list(pages.values()))
        fingerprints = lastmod.fingerprint(table, self.columns)
        rule = lastmod.rule_id(lastmod.kinds(table.schema, self.columns))
        old = [(self.snapshot or {}).get(loc, (None, None)) for loc in pages]
        texts, changed = lastmod.resolve(
            fingerprints,
            None,
            pa.array([fingerprint for fingerprint, _ in old], pa.uint64()),
            pa.array([date for _, date in old], pa.string()),
            pa.array([loc in (self.snapshot or {}) for loc in pages]),
            now_text=now,
            reset=self.snapshot is not None and rule != self.rule,
            first_seen=self.first_seen,
            first_publish=self.snapshot is None,
        )
        self.rule, self.changed = rule, sum(changed.to_pylist())
        self.snapshot = dict(zip(pages, zip(fingerprints.to_pylist(), texts.to_pylist(), strict=True), strict=True))
        return dict(zip(pages, texts.to_pylist(), strict=True))


def nights(*numbers: int) -> list[str]:
    return [f"2026-11-{number:02}T02:00:00Z" for number in numbers]


PAGES = {f"/p/{number}": {"title": f"Lampe {number}", "body": "x", "price": number} for number in range(5)}
ONE, TWO, THREE, FOUR = nights(1, 2, 3, 4)


def dated() -> tuple[Section, dict[str, str | None]]:
    """Return a section after two runs, with one page that changed in the second."""
    section = Section(["title", "body"])
    section.night(PAGES, ONE)
    return section, section.night({**PAGES, "/p/3": {"title": "neu", "body": "x", "price": 3}}, TWO)


CURRENT = {**PAGES, "/p/3": {"title": "neu", "body": "x", "price": 3}}


def test_the_first_release_dates_no_page_even_with_first_seen():
    assert set(Section(["title"], first_seen=True).night(PAGES, ONE).values()) == {None}


def test_only_a_changed_page_gets_the_time_of_the_run_and_keeps_it():
    section, published = dated()
    assert published == {**dict.fromkeys(PAGES), "/p/3": TWO}
    for now in nights(*range(3, 20)):
        assert section.night(CURRENT, now) == published
        assert section.changed == 0


def test_a_column_outside_the_fingerprint_changes_no_date():
    section, published = dated()
    dearer = {loc: {**page, "price": 1000} for loc, page in CURRENT.items()}
    assert section.night(dearer, THREE) == published


def test_a_changed_list_of_columns_keeps_all_dates_and_later_changes_are_dated():
    section, published = dated()
    section.columns = ["title", "body", "price"]
    assert section.night(CURRENT, THREE) == published
    assert section.changed == 0
    cheaper = {**CURRENT, "/p/1": {"title": "Lampe 1", "body": "x", "price": 0}}
    assert section.night(cheaper, FOUR) == {**published, "/p/1": FOUR}


def test_a_column_that_changes_its_type_keeps_every_date():
    section, published = dated()
    section.columns = ["title", "price"]
    section.night(CURRENT, THREE)
    as_text = {loc: {**page, "price": str(page["price"])} for loc, page in CURRENT.items()}
    assert section.night(as_text, FOUR) == published


def test_switching_from_a_date_column_to_a_fingerprint_keeps_every_date():
    """The section's dates came from a column so far: its snapshot has no fingerprints, and another rule id."""
    section = Section(["title"], snapshot=dict.fromkeys(PAGES, (None, OLD)), rule="")
    assert set(section.night(PAGES, ONE).values()) == {OLD}
    assert section.changed == 0
    assert set(section.night(PAGES, TWO).values()) == {OLD}


def test_after_a_lost_state_pages_have_no_dates():
    section, _ = dated()
    section.snapshot = None
    assert set(section.night(CURRENT, THREE).values()) == {None}
    assert set(section.night(CURRENT, FOUR).values()) == {None}


def test_after_a_rollback_only_pages_that_differ_from_it_get_a_new_date():
    section = Section(["title", "body"])
    section.night(PAGES, ONE)
    older = section.snapshot
    section.night(CURRENT, TWO)
    section.snapshot = older
    assert section.night(CURRENT, THREE) == {**dict.fromkeys(PAGES), "/p/3": THREE}


def test_a_rollback_over_a_change_of_columns_keeps_every_date():
    section, published = dated()
    older, rule = section.snapshot, section.rule
    section.columns = ["title", "price"]
    section.night(CURRENT, THREE)
    section.snapshot, section.rule = older, rule
    assert section.night(CURRENT, FOUR) == published


def test_a_moved_page_keeps_its_date_if_its_old_entry_is_known():
    """Its fingerprint belonged to another rule, so it is null."""
    assert resolve([(2, None, None, OLD, True)], first_seen=True) == [(OLD, False)]


def test_a_page_that_returns_counts_as_new():
    section, published = dated()
    section.first_seen = False
    section.night({loc: page for loc, page in CURRENT.items() if loc != "/p/3"}, THREE)
    assert section.night(CURRENT, FOUR) == {**published, "/p/3": None}
