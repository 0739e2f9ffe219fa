"""Small exports with odd values and settings: no row is lost, invented or changed without a reason.

The values that were written are known. Other readers (Python's csv and json, DuckDB) confirm that the file has them.
`FUZZ_EXAMPLES` sets the number of examples of each format: 80 in CI, 400 with ALL=1.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import math
import os
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from sitemap_etl import sources
from sitemap_etl.settings import CsvExport, CsvFormat
from tests.support.examples import ALL, IN_CI
from tests.support.sites import TestSite

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "400" if ALL else "80" if IN_CI else "25"))
fuzzed = settings(max_examples=EXAMPLES)
runs = settings(max_examples=max(5, EXAMPLES // 10))


@contextmanager
def folder() -> Iterator[Path]:
    """Make a folder for one example."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as path:
        yield Path(path)


def extracted(plan: list[sources.Split], **options: Any) -> list[dict[str, Any]]:
    """Return the rows of all splits."""
    return [row for split in plan for batch in sources.read(split, **options) for row in batch.to_pylist()]


# --- text, and how it is packed ------------------------------------------------------------------

ODD = ["", " ", "  a ", "0", "007", "1e3", "-0", "1.10", "true", "NULL", "null", "NaN", "None", "#N/A", "\\", "\\\\"]
ODD += [
    '"',
    '""',
    '"a"',
    'a"b',
    '"a',
    'a"',
    "'",
    "''",
    "a,b",
    "a;b",
    "a|b",
    "a\tb",
    "\t",
    "a\nb",
    "a\r\nb",
    "a\rb",
    "\n",
]
ODD += [
    "/p/größe",
    "日本",
    "\u00a0",
    "\ufeff",
    "\ufeffa",
    "a\ufeff",
    "\u2028",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
    "e\u0301",
]
ODD += [
    "😀",
    "2026-11-01",
    "2026-11-01T02:00:00+02:00",
    "[1, 2]",
    '{"a": "b"}',
    "a\\,b",
    "a\\",
    '\\"',
    "#",
    "--",
    "sep=;",
]
TEXT = st.one_of(
    st.sampled_from(ODD),
    st.sampled_from(ODD),
    st.text(max_size=8),
    st.text(st.sampled_from("ab,;|\t\n\r\"'\\ é\ufeff"), max_size=8),
)
NAMES = ["loc", "lastmod", "a b", "a,b", 'a"b', "größe", "x", "Y", " padded", "1", "a\nb", "[n]", "a'b", "select"]


def pack(path: Path, data: bytes) -> None:
    """Write a file, packed as its name says."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("member", data)
        return
    if path.suffix == ".zst":
        data = pa.compress(data, codec="zstd", asbytes=True)
    packers = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    path.write_bytes(packers.get(path.suffix, bytes)(data))


FORMS: dict[str, list[Any]] = {
    "packing": ["", "", ".gz", ".zst", ".bz2", ".xz", ".zip"],
    "delimiter": [",", ",", ";", "\t", "|"],
    "quote": ['"', '"', '"', "'", "none"],
    "escape": [None, None, "\\"],
    "encoding": ["utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252", "utf-16-le"],
    "end": ["\n", "\r\n", "\n\n"],
    "compression": ["none", "snappy", "gzip", "zstd", "brotli", "lz4"],
    "data_page_version": ["1.0", "2.0"],
    "version": ["1.0", "2.4", "2.6"],
}
"""How a file can be written; what is more frequent stands twice."""
PACKED = st.sampled_from(FORMS["packing"])


@pytest.fixture
def seen() -> Iterator[dict[str, set[Any]]]:
    """How the files of the examples were written. In CI, which always has the same examples, no way is left out."""
    found: dict[str, set[Any]] = {name: set() for name in FORMS}
    yield found
    if IN_CI:
        chosen = {name: values for name, values in found.items() if values and name != "packing"}
        assert {name: values for name, values in chosen.items() if values < set(FORMS[name])} == {}


def note(seen: dict[str, set[Any]], **form: Any) -> None:
    """Note how a file was written."""
    for name in form.keys() & seen.keys():
        seen[name].add(form[name])


@pytest.mark.parametrize("packing", sorted(set(FORMS["packing"])))
def test_every_compression_is_read(tmp_path: Path, packing: str) -> None:
    pack(tmp_path / f"e.csv{packing}", b"loc,n\n/a,1\n/b,2\n")
    wanted = [{"loc": "/a", "n": "1"}, {"loc": "/b", "n": "2"}]
    assert extracted(sources.plan_csv(tmp_path, CsvFormat())) == wanted


# --- CSV -----------------------------------------------------------------------------------------


@st.composite
def csv_exports(
    draw: st.DrawFn,
) -> tuple[dict[str, Any], list[tuple[list[str], list[list[str]]]], str, bool, str, bool]:
    """Draw settings, files (names and rows), the end of lines, whether all is quoted, the packing, the last end."""
    quote = draw(st.sampled_from(FORMS["quote"]))
    form = {
        "delimiter": draw(st.sampled_from(FORMS["delimiter"])),
        "quote": quote,
        "escape": None if quote == "none" else draw(st.sampled_from(FORMS["escape"])),
        "encoding": draw(st.sampled_from(FORMS["encoding"])),
    }
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    text = TEXT.filter(lambda value: writable(value, form))
    assume(all(writable(name, form) and plain_name(name, form) for name in names))
    files = []
    for _ in range(draw(st.integers(1, 3))):
        own = draw(st.permutations(names))[: draw(st.integers(1, len(names)))]
        rows = draw(st.lists(st.lists(text, min_size=len(own), max_size=len(own)), max_size=6))
        files.append((own, rows))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return form, files, end, draw(st.booleans()), draw(PACKED), draw(st.booleans())


def writable(value: str, form: dict[str, Any]) -> bool:
    """Return whether a value can be written so. Without quotes, separators and ends of lines can't."""
    try:
        value.encode(form["encoding"])
    except UnicodeEncodeError:
        return False
    if value == "\\N":
        return False  # a null marker, unless it is quoted
    return form["quote"] != "none" or not set(value) & {form["delimiter"], "\n", "\r"}


def plain_name(name: str, form: dict[str, Any]) -> bool:
    """Return whether a name alone in the first row can't be taken for names with another delimiter."""
    return not set(name) & set(";\t|,\n")


def csv_text(form: dict[str, Any], names: list[str], rows: list[list[str]], end: str, *, quoted: bool) -> str:
    """Return the file. `quoted`: whether all values have quotes, else those that need them. Only those have escapes."""

    def cell(value: str, alone: bool) -> str:
        quote, escape = form["quote"], form["escape"]
        special = set(value) & {form["delimiter"], quote, "\n", "\r"}
        if quote == "none" or not (quoted or special or (alone and not value)):
            return value
        if escape is None:
            return quote + value.replace(quote, quote * 2) + quote
        return quote + value.replace(escape, escape * 2).replace(quote, escape + quote) + quote

    lines = [form["delimiter"].join(cell(value, len(row) == 1) for value in row) for row in [names, *rows]]
    return "".join(line + end for line in lines)


def confirmed(text: str, form: dict[str, Any], names: list[str], rows: list[list[str]]) -> bool:
    """Return whether Python's own reader finds the same rows."""
    more: dict[str, Any] = {"quoting": csv.QUOTE_NONE} if form["quote"] == "none" else {"quotechar": form["quote"]}
    if form["escape"] is not None:
        more |= {"escapechar": form["escape"], "doublequote": False}
    found = list(csv.reader(io.StringIO(text, newline=""), delimiter=form["delimiter"], **more))
    return [row for row in found if row] == [names, *rows]


@fuzzed
@given(csv_exports(), st.booleans())
def test_any_csv_is_read_or_reported(seen: dict[str, set[Any]], export: Any, selected: bool) -> None:
    form, files, end, quoted, packing, ended = export
    note(seen, packing=packing, **form)
    with folder() as path:
        wanted: list[dict[str, str | None]] = []
        columns = list(dict.fromkeys(name for names, _ in files for name in names))
        for number, (names, rows) in enumerate(files):
            # A row of one empty value is a blank line, which is none.
            kept = [row for row in rows if form["quote"] != "none" or len(row) > 1 or row[0]]
            text = csv_text(form, names, kept, end, quoted=quoted)
            assert form["escape"] or confirmed(text, form, names, kept)
            if not ended and kept and not (form["quote"] == "none" and kept[-1][-1:] == [""]):
                text = text.removesuffix(end)
            pack(path / f"e{number}.csv{packing}", text.encode(form["encoding"]))
            for row in kept:
                cells = dict(zip(names, row, strict=True))
                wanted.append({name: cells.get(name) or None for name in columns})
        plan = sources.plan_csv(path, CsvFormat(**form))
        assert extracted(plan) == wanted
        if selected:
            made = CsvExport(csv=[str(path)], **form)
            assert same_rows(
                extracted(sources.plan_query({"source": made}, "SELECT * FROM source")), wanted, ordered=False
            )
        lines = [sources.read(split, lines=sources.LineNumbers()) for split in plan]
        assert sum(batch.num_rows for batches in lines for batch in batches) == len(wanted)


# --- JSON lines ----------------------------------------------------------------------------------

SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", " ", "a", "1", "true", "null", "2026-11-01", "2026-11-01T02:00:00Z", '"', "\\", "é", "😀", "\n"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
KEYS = st.sampled_from(["a", "b", "c d", 'q"', "é", "list", "0"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3), max_leaves=5
)
ONE_KIND = st.sampled_from(
    [
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-(2**70), 2**70),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
        st.booleans(),
        st.floats(allow_nan=False, allow_infinity=False),
        st.lists(st.text("ab/é", max_size=4), max_size=3),
        VALUES,
        VALUES,
    ]
)


@st.composite
def jsonl_exports(draw: st.DrawFn) -> tuple[list[list[dict[str, Any]]], dict[str, Any], str, str, bool]:
    """Draw files of objects, how they are written, the end of lines, the packing, and whether there is a mark."""
    names = draw(st.lists(st.sampled_from(["loc", "lastmod", "n", "A b", "é", 'x"y', "a.b"]), min_size=1, unique=True))
    kinds = {name: st.none() | draw(ONE_KIND) for name in names}
    row = st.fixed_dictionaries({}, optional=kinds)
    files = draw(st.lists(st.lists(row, max_size=5), min_size=1, max_size=3))
    assume(any(row for rows in files for row in rows))
    written = draw(
        st.fixed_dictionaries({"ensure_ascii": st.booleans(), "separators": st.sampled_from([None, (",", ":")])})
    )
    return files, written, draw(st.sampled_from(FORMS["end"])), draw(PACKED), draw(st.booleans())


def same_json(ours: Any, value: Any) -> bool:  # noqa: PLR0911 - one for each kind of value
    """Return whether a value arrived: as it is, or as its JSON text if its column has values of several kinds."""
    if value is None or value == {}:
        return ours is None or not ours or ours in ("null", "{}") or no_values(ours)
    if isinstance(value, str):
        return bool(ours == value)
    if isinstance(value, bool):
        return bool(ours is value or ours == json.dumps(value))
    if isinstance(value, int | float):
        if isinstance(ours, str):
            return same_number(json.loads(ours), value)
        return same_number(ours, value)
    if isinstance(ours, str):
        return bool(json.loads(ours) == value)
    if isinstance(value, list):
        return isinstance(ours, list) and len(ours) == len(value) and all(map(same_json, ours, value))
    return (
        isinstance(ours, dict)
        and all(same_json(ours.get(name), inner) for name, inner in value.items())
        and all(no_values(inner) for name, inner in ours.items() if name not in value)
    )


def no_values(ours: Any) -> bool:
    return ours is None or (isinstance(ours, dict) and all(map(no_values, ours.values())))


def same_number(ours: Any, value: float) -> bool:
    return isinstance(ours, int | float) and not isinstance(ours, bool) and ours == value


@fuzzed
@given(jsonl_exports())
def test_any_jsonl_is_read_or_reported(seen: dict[str, set[Any]], export: Any) -> None:
    files, written, end, packing, mark = export
    note(seen, packing=packing, end=end)
    with folder() as path:
        for number, rows in enumerate(files):
            text = "".join(json.dumps(row, **written) + end for row in rows)
            assert [json.loads(line) for line in text.split("\n") if line.strip()] == rows or not written[
                "ensure_ascii"
            ]
            pack(path / f"e{number}.jsonl{packing}", (codecs.BOM_UTF8 if mark else b"") + text.encode())
        wanted = [row for rows in files for row in rows]
        found = extracted(sources.plan_jsonl(path))
        assert len(found) == len(wanted)
        for ours, value in zip(found, wanted, strict=True):
            assert same_json(ours, value), (ours, value)
            assert set(ours) >= set(value)


# --- Parquet -------------------------------------------------------------------------------------

MOMENTS = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1))  # noqa: DTZ001 - the columns decide about the zone
TYPES: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.string(), TEXT),
    (pa.large_string(), TEXT),
    (pa.dictionary(pa.int32(), pa.string()), TEXT),
    (pa.int8(), st.integers(-128, 127)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), st.booleans()),
    (pa.date32(), st.dates()),
    (pa.timestamp("s"), MOMENTS.map(lambda moment: moment.replace(microsecond=0))),
    (pa.timestamp("ms", "UTC"), MOMENTS.map(lambda moment: moment.replace(microsecond=5000, tzinfo=UTC))),
    (pa.timestamp("us"), MOMENTS),
    (pa.timestamp("us", "UTC"), MOMENTS.map(lambda moment: moment.replace(tzinfo=UTC))),
    (pa.decimal128(12, 2), st.decimals(-(10**9), 10**9, places=2)),
    (pa.list_(pa.string()), st.lists(TEXT, max_size=3)),
    (pa.list_(pa.int64()), st.lists(st.none() | st.integers(-5, 5), max_size=3)),
    (
        pa.struct([("a", pa.string()), ("b", pa.int32())]),
        st.fixed_dictionaries({"a": st.none() | TEXT, "b": st.integers(0, 9)}),
    ),
    (pa.map_(pa.string(), pa.string()), st.dictionaries(TEXT, TEXT, max_size=2).map(lambda found: list(found.items()))),
    (pa.binary(), st.text(max_size=4).map(str.encode)),
    (pa.null(), st.none()),
]


@st.composite
def parquet_exports(draw: st.DrawFn) -> tuple[list[pa.Table], dict[str, Any]]:
    """Draw tables of one schema, and how they are written."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    kinds = [draw(st.sampled_from(TYPES)) for _ in names]
    tables = []
    for _ in range(draw(st.integers(1, 3))):
        count = draw(st.integers(0, 7))
        columns = [
            pa.array(draw(st.lists(st.none() | values, min_size=count, max_size=count)), kind) for kind, values in kinds
        ]
        tables.append(pa.table(columns, names=names))
    written = {
        "compression": draw(st.sampled_from(FORMS["compression"])),
        "row_group_size": draw(st.integers(1, 9)),
        "use_dictionary": draw(st.booleans()),
        "data_page_version": draw(st.sampled_from(FORMS["data_page_version"])),
        "version": draw(st.sampled_from(FORMS["version"])),
        "write_page_checksum": draw(st.booleans()),
        "use_deprecated_int96_timestamps": draw(st.booleans()),
        "store_schema": draw(st.booleans()),
    }
    return tables, written


def plain(value: Any) -> Any:  # noqa: PLR0911 - one for each kind of value
    """Return a value without the differences that readers make: of zones, bytes and maps."""
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, dict):
        return sorted((str(name), repr(plain(inner))) for name, inner in value.items())
    if isinstance(value, list) and value and all(isinstance(one, tuple) for one in value):
        return sorted((str(name), repr(plain(inner))) for name, inner in value)
    if isinstance(value, list):
        return list(map(plain, value)) or None
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return Decimal(value)
    return value


def same_rows(ours: list[dict[str, Any]], others: list[dict[str, Any]], *, ordered: bool = True) -> bool:
    def known(rows: list[dict[str, Any]]) -> list[str]:
        found = [repr([(name, plain(value)) for name, value in sorted(row.items())]) for row in rows]
        return found if ordered else sorted(found)

    return known(ours) == known(others)


@settings(max_examples=EXAMPLES * 2)
@given(parquet_exports(), st.sampled_from([1, 3, 1_000]))
def test_any_parquet_is_read_or_reported(seen: dict[str, set[Any]], export: Any, split_rows: int) -> None:
    tables, written = export
    note(seen, **written)
    with folder() as path:
        for number, table in enumerate(tables):
            pq.write_table(table, path / f"e{number}.parquet", **written)
        wanted = [row for table in tables for row in table.to_pylist()]
        found = extracted(sources.plan_parquet(path, split_rows=split_rows))
        assert same_rows(found, wanted), (found, wanted)
        with duckdb.connect() as database:
            names = ", ".join('"' + name.replace('"', '""') + '"' for name in tables[0].column_names)
            rows = database.execute(
                f"SELECT {names} FROM read_parquet(?, file_row_number = true) ORDER BY filename, file_row_number",
                [str(path / "*.parquet")],
            ).to_arrow_table()  # times with a zone as Python's objects need pytz
        assert rows.num_rows == len(found)


# --- whole runs ----------------------------------------------------------------------------------

PAGES = st.integers(0, 30).map(lambda number: f"/p/{number}")
LOCS = st.one_of(
    PAGES,
    PAGES,
    PAGES,
    st.sampled_from(["", " ", "/p/1 ", "https://shop.example/p/2", "NULL", "mailto:a", "/a\nb"]),
    TEXT,
)
INSTANTS = st.datetimes(datetime(1990, 1, 2), datetime(2026, 10, 31))  # noqa: DTZ001 - written as UTC
DATES = st.one_of(
    INSTANTS.map(lambda moment: f"{moment:%Y-%m-%dT%H:%M:%SZ}"),
    INSTANTS.map(lambda moment: f"{moment:%Y-%m-%d}"),
    st.sampled_from(["", "x", "2999-01-01", "1970-01-01", "2026", "2026-02-30"]),
)
ROWS = st.lists(st.fixed_dictionaries({"loc": LOCS, "lastmod": DATES}), min_size=1, max_size=20)


def write_rows(path: Path, kind: str, rows: list[dict[str, str]]) -> None:
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, ["loc", "lastmod"], quoting=csv.QUOTE_ALL)
            writer.writeheader()
            writer.writerows(rows)


@runs
@given(ROWS, st.sampled_from(["csv", "jsonl", "parquet"]))
def test_a_run_publishes_each_row_or_says_why_not(rows: list[dict[str, str]], kind: str) -> None:
    assume(not any("\\N" in row["loc"] for row in rows))
    with folder() as path:
        gates = {"max_rejected": 1, "min_urls": 0, "max_undated": 1}
        site = TestSite(path, gates=gates)
        write_rows(path / f"p.{kind}", kind, rows)
        site.keys["sections"]["p"] = {"from": {kind: f"./p.{kind}"}, "gates": gates}
        summary = site.night(1).summary
        counts = summary.sections["p"]
        assert counts.extracted == len(rows)
        assert counts.listed + counts.duplicates + counts.excluded + counts.rejected == len(rows)
        entries = site.public().entries() if (path / "public").exists() else []
        assert len(entries) == counts.listed
        published = {entry.loc.removeprefix(site.origin): entry.lastmod for entry in entries}
        # Clean rows are listed, with the newest of their dates.
        clean = {row["loc"] for row in rows if row["loc"].startswith("/p/") and row["loc"].isascii()}
        for loc in clean:
            address = loc.strip()
            if not address[3:].isdigit():
                continue
            dates = [row["lastmod"] for row in rows if row["loc"].strip() in (address, site.origin + address)]
            valid = [text for text in dates if text.endswith("Z") or (len(text) == 10 and "1990" < text[:4] < "2027")]
            valid = [text for text in valid if text != "2026-02-30"]
            assert address in published
            assert published[address] == max(valid, key=moment_of, default=None) or moment_of(
                str(published[address])
            ) == max(map(moment_of, valid))
        # What is published was in the export.
        given_dates = {row["lastmod"] for row in rows}
        assert {lastmod for lastmod in published.values() if lastmod is not None} <= given_dates


def moment_of(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
