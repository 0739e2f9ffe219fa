"""JSON lines exports, plain or compressed: one object per line, whose keys are the columns. Nested values stay native.

All lines are read when the splits are planned, to find the types of their values. Every line counts, and a broken line
is reported before anything else begins. Numbers are integers or not, true and false are booleans, lists are lists,
objects are structs. Text stays text, even dates, which rules read. A key with values of several kinds (text and
numbers) is text, as written in the file.

Most lines add nothing new. A pattern detects this for a whole block, and only other blocks are parsed for types.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, reduce
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json
import pyarrow.types as pt

from sitemap_etl import limits
from sitemap_etl.arrow import bytes_of, mask_of, nulls
from sitemap_etl.errors import InvalidSource
from sitemap_etl.sources.batches import conform, fit
from sitemap_etl.sources.files.bounds import check_columns
from sitemap_etl.sources.files.file_columns import FileColumns, Needed, check_files
from sitemap_etl.sources.files.files import File, Note, Paths, ahead, check_unchanged, each, locate
from sitemap_etl.sources.files.formats import FIRST, advice
from sitemap_etl.sources.files.json_bounds import find_deep_line, find_wide_line
from sitemap_etl.sources.files.json_types import (
    common,
    from_duckdb,
    is_mixed,
    pattern_of,
    readable,
    to_duckdb,
    type_of,
    undated,
)
from sitemap_etl.sources.files.partitions import fields, partitions, with_partitions
from sitemap_etl.sources.files.text import blocks, bundled, packed
from sitemap_etl.sources.splits import LINES, LineNumbers, Split, pack_schema, unpack_schema

SUFFIXES: Final = packed(".jsonl", ".ndjson", ".json")
_BLOCK_BYTES: Final = 4 * 1024 * 1024
"""Bytes of lines per query, because every query has a fixed cost."""
_SCANNED_BYTES: Final = 1024 * 1024
"""Bytes examined for types at a time, so that they stay in the processor's cache."""
_HUGE: Final = r"[:\[,][ \t]*-?(?:9[2-9][0-9]{17}|[1-9][0-9]{19})"
"""An integer that might not fit into an int64, or text that contains one."""
_DOUBTFUL: Final = r"^[ \t\r]*[^ \t\r{]|,[ \t\r]*[\]}]"
"""Invalid lines that parsers accept as objects (another value, or an extra comma), or text that looks like them."""
_SHOWN: Final = 200
_BOM: Final = b"\xef\xbb\xbf"


def plan_jsonl(
    paths: Paths,
    *,
    pays: bool = False,
    verify: bool = True,
    note: Note | None = None,
    needed: Needed | None = None,
    split_bytes: int = limits.SPLIT_BYTES,
) -> list[Split]:
    """Return the splits of JSON lines files. Each file is one stream, and small files share a split.

    `pays`, `verify`, `note`: see `locate`. Keys that a line lacks are null. Raise InvalidSource (no such file, or a
    line that is not a JSON object, with its number), Refused, Unavailable.
    """
    files = locate(paths, SUFFIXES, pays=pays, verify=verify, note=note)
    detail = described(files, note=note, needed=needed)
    return [
        Split("jsonl", label, {**detail, "files": [file.to_json() for file in bundle]})
        for label, bundle in bundled(files, split_bytes)
    ]


def described(files: Sequence[File], *, note: Note | None = None, needed: Needed | None = None) -> dict[str, Any]:
    """Return the detail of a split of these files: their columns. Raises as `plan_jsonl`."""
    first = _structure(pa.struct([]), files[0])
    found = reduce(common, each(partial(_structure, first), files[1:]), first)
    if needed is not None and len(files) > 1:
        wanted = needed.among([child.name for child in found])
        check_files(each(partial(_keys, wanted.address | wanted.ruled), files), needed)
    found = pa.struct([child for child in found if child.name])  # nothing can name a key without a name
    if not found.num_fields:
        raise InvalidSource(f"{files[0].path} has no columns: expected a JSON object in each line")
    columns = [(child.name, child.type if pt.is_null(child.type) else readable(child.type)) for child in found]
    keys = partitions(files, [name for name, _ in columns], text=False, note=note)
    return {
        "schema": pack_schema(pa.schema([*map(pa.field, *zip(*columns, strict=True)), *fields(keys)])),
        "partitions": keys,
    }


def read_jsonl(
    split: Split,
    *,
    columns: Sequence[str] | None = None,
    lines: LineNumbers | None = None,
    batch_rows: int = limits.BATCH_ROWS,
    batch_bytes: int = limits.BATCH_BYTES,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a split, only `columns` if given, in that order. Unknown columns are skipped.

    `lines`: filled in, and a column `LINES` (int32) is added. Raise InvalidSource with file and line for a line that
    is not a JSON object, Refused, and Unavailable if a file has changed since it was planned.
    """
    schema = unpack_schema(split.detail["schema"])
    if columns is not None:
        schema = pa.schema([schema.field(name) for name in columns if name in schema.names])
    keys = split.detail["partitions"]
    counted = schema if lines is None else schema.append(pa.field(LINES, pa.int32()))
    own = pa.schema([entry for entry in schema if entry.name not in keys])
    files = [File(*file) for file in split.detail["files"]]
    check_unchanged(files)
    with _duckdb() as database:
        made = _Rows(database, own, lines)
        for file in ahead(files):
            try:
                batches = with_partitions(made.batches(file), file, keys)
                yield from fit(batches, label=file.path, schema=counted, batch_rows=batch_rows, batch_bytes=batch_bytes)
            except InvalidSource:
                # While a file is overwritten, it looks broken.
                check_unchanged([file])
                raise
    check_unchanged(files)
    if lines is not None:
        lines.known = True


class _Rows:
    """Rows of consecutive files, with their line numbers if wanted."""

    def __init__(self, database: Any, schema: pa.Schema, lines: LineNumbers | None) -> None:
        self._database = database
        self._schema = schema
        self._numbers = lines
        self._rows = self._lines = 0  # so far, over all files

    def batches(self, file: File) -> Iterator[pa.RecordBatch]:
        """Yield the batches of the next file, with the column `LINES` if wanted."""
        last = -1
        if self._numbers is not None:
            self._numbers.files.append((file.path, self._lines))
        for text, numbers in _lines(file):
            batch = _values(self._database, file, text, self._schema)
            if self._numbers is not None:
                ahead = self._lines + numbers - np.arange(self._rows, self._rows + len(numbers))
                batch = batch.append_column(LINES, pa.array(ahead.astype(np.int32)))
            self._rows += len(text)
            last = int(numbers[-1])
            yield batch
        self._lines += last + 1


# --- lines -----------------------------------------------------------------------------------


def _blocks(file: File, size: int) -> Iterator[tuple[bytes, int, int]]:
    """Yield the blocks of a file: bytes, the end of the last whole line, and the number of the first line."""
    number, rest, blank = 0, b"", 0
    with blocks(file) as text:
        while True:
            data = text.read(size)
            if not number and not rest:
                data = data.removeprefix(_BOM)
            if not data and rest:
                data = b"\n"  # the last line has no break
            elif not data:
                return
            block = rest + data
            end = block.rfind(b"\n") + 1
            if len(block) > limits.JSON_LINE_BYTES and not 0 <= block.find(b"\n") <= limits.JSON_LINE_BYTES:
                said = f"is longer than {limits.JSON_LINE_BYTES:,} bytes: expected one JSON object a line"
                raise _no_json(file, number, block) or InvalidSource(f"{file.path} line {number + 1} {said}")
            rest = block[end:]
            if end:
                blank = blank + end if block[:end].isspace() else 0
                if blank > limits.BLANK_BYTES:
                    raise InvalidSource(
                        f"{file.path} has more than {limits.BLANK_BYTES:,} bytes of blank lines in a row"
                    )
                if not blank:
                    yield block, end, number
                number += int(np.count_nonzero(np.frombuffer(block, np.uint8, end) == ord("\n")))


def _lines(file: File) -> Iterator[tuple[pa.Array, np.ndarray]]:
    """Yield the non-blank lines of a file in blocks: their text (`string`), and their numbers from 0."""
    for block, end, number in _blocks(file, _BLOCK_BYTES):
        text, numbers = _checked(file, *_cut(block, end), number)
        if len(text):
            yield text, numbers


def _checked(file: File, text: pa.Array, numbers: np.ndarray, first: int) -> tuple[pa.Array, np.ndarray]:
    """Return lines that are valid UTF-8, and their numbers counted from `first`. Raise InvalidSource."""
    try:
        text.validate(full=True)
    except pa.ArrowInvalid as error:
        raise _fault(file, text, numbers + first) or InvalidSource(f"{file.path}: {error}") from error
    return text, numbers + first


def _cut(block: bytes, end: int) -> tuple[pa.Array, np.ndarray]:
    """Return the non-blank lines of the first `end` bytes, and their numbers."""
    data = np.frombuffer(block, np.uint8, end)
    breaks = np.flatnonzero(data == ord("\n"))
    offsets = np.concatenate([[0], breaks + 1]).astype(np.int32)
    found = pa.Array.from_buffers(pa.string(), len(breaks), [None, pa.py_buffer(offsets), pa.py_buffer(block)])
    numbers = np.arange(len(breaks))
    if (data[offsets[:-1]] == ord("{")).all():
        return found, numbers
    filled = mask_of(pc.match_substring_regex(found.view(pa.binary()), r"\S"))
    return found.filter(pa.array(filled)), numbers[filled]


def _fault(file: File, text: pa.Array, numbers: np.ndarray) -> InvalidSource | None:
    """Return the error for the first line that is not a JSON object, or None."""
    for at in range(len(text)):  # nothing of it will be published
        line = text.slice(at, 1).view(pa.binary())[0].as_py()
        try:
            found = json.loads(line)
            why = None if isinstance(found, dict) else "it is not an object"
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            why = f"it has half of a character ({error.reason})"
        except UnicodeDecodeError as error:
            why = f"it is not UTF-8 ({error.reason})"
        except ValueError as error:
            why = str(error)
        if why is not None:
            other = _no_json(file, int(numbers[at]), line)
            shown = line[:_SHOWN].rstrip(b"\r\n").decode(errors="replace")
            return other or InvalidSource(
                f"{file.path} line {numbers[at] + 1}: expected a JSON object in this line, but {why}: {shown!r}"
            )
    return None


def _no_json(file: File, number: int, line: bytes) -> InvalidSource | None:
    """Return the error for a file of another format if its beginning shows one."""
    what = advice(file.path, line[:FIRST], "jsonl") if number == 0 else None
    return None if what is None else InvalidSource(f"{file.path} is not a file of JSON lines; {what}")


# --- types -----------------------------------------------------------------------------------


def _structure(known: pa.StructType, file: File) -> pa.StructType:
    """Return the keys of a file's lines as a struct of common types, combined with `known` from earlier files."""
    pattern = pattern_of(known)
    for block, end, number in _blocks(file, _SCANNED_BYTES):
        if pattern is None or not _all_fit(block, end, pattern):
            _check_bounds(file, block, end, number)
            text, numbers = _checked(file, *_cut(block, end), number)
            if not len(text):
                continue
            known = common(known, _block_structure(file, text, numbers))
            check_columns(file.path, known.num_fields)
            pattern = pattern_of(known)
    return known


def _keys(wanted: Collection[str], file: File) -> FileColumns:
    """Return the keys of a file: those of its first line if they are all that is wanted, else those of all lines."""
    for text, _ in _lines(file):
        names = frozenset(json.loads(text[0].as_py()))
        if not names.issuperset(wanted):
            names = frozenset(child.name for child in _structure(pa.struct([]), file))
        return FileColumns(file.path, names, filled=True)
    return FileColumns(file.path, frozenset(), filled=False)


def _check_bounds(file: File, block: bytes, end: int, first: int) -> None:
    """Raise InvalidSource for a line that is nested too deeply or has too many keys.

    `first`: number of the first line.
    """
    deep = find_deep_line(block, end, limits.JSON_LEVELS)
    if deep is not None:
        raise InvalidSource(
            f"{file.path} line {first + deep + 1}: its lists and objects are nested more than "
            f"{limits.JSON_LEVELS} levels deep"
        )
    wide = find_wide_line(block, end, limits.EXPORT_COLUMNS, limits.JSON_KEYS)
    if wide is not None:
        line, count = wide
        raise InvalidSource(
            f"{file.path} line {first + line + 1}: an object has {count:,} keys: at most {limits.EXPORT_COLUMNS:,} "
            f"can be columns, and an object within a line can have {limits.JSON_KEYS:,}"
        )


def _block_structure(file: File, text: pa.Array, numbers: np.ndarray) -> pa.StructType:
    """Parse one block and return its keys as a struct."""
    doubtful = _fits(text, _DOUBTFUL)
    fault = _fault(file, text.filter(doubtful), numbers[mask_of(doubtful)])
    if fault is not None:
        raise fault
    # Arrow converts integers beyond int64 to doubles, and DuckDB has one name for all integers.
    huge = _fits(text, _HUGE)
    if not pc.any(huge).as_py():
        whole = pyarrow.json.ReadOptions(use_threads=False, block_size=2 * limits.JSON_LINE_BYTES)
        with suppress(pa.ArrowException):  # values of several kinds, or an invalid line
            found = pyarrow.json.read_json(pa.BufferReader(bytes_of(text)), whole)
            if found.num_rows == len(text):
                return undated(pa.struct(list(found.schema)))
    one_by_one = (type_of(json.loads(line)) for line in text.filter(huge).to_pylist())
    others = _merged_structure(file, text.filter(pc.invert(huge)), numbers[~mask_of(huge)])
    return reduce(common, one_by_one, others)


def _merged_structure(file: File, text: pa.Array, numbers: np.ndarray) -> pa.StructType:
    """Return the structure of lines that are JSON objects.

    DuckDB has the same name for scalars of several kinds and for lists or objects among others. If it returns that
    name, each distinct structure of a line is examined.
    """
    structures: list[str] = []
    try:
        with _duckdb() as database:
            ((merged,),) = _run(database, text, "json_group_structure(line::JSON)").to_pydict().values()
            if merged is not None and '"JSON"' in merged:
                (structures,) = _run(database, text, "DISTINCT json_structure(line::JSON)").to_pydict().values()
    except duckdb.Error as error:
        raise _fault(file, text, numbers) or InvalidSource(f"{file.path}: {error}") from error
    together = _from_structure(merged or "{}")
    each = reduce(common, map(_from_structure, structures), pa.struct([]))
    mixed = {child.name: child.type for child in each if is_mixed(child.type)}
    return pa.struct([(child.name, mixed.get(child.name, child.type)) for child in together])


def _from_structure(structure: str) -> Any:
    found = json.loads(structure)
    return from_duckdb(found if isinstance(found, dict) else {})  # empty objects have no structure in DuckDB


def _all_fit(block: bytes, end: int, pattern: str) -> bool:
    """Return True if the first `end` bytes are UTF-8 and match the pattern of lines."""
    offsets = pa.py_buffer(np.array([0, end], np.int32))
    whole = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(block)])
    try:
        whole.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return bool(_fits(whole, pattern)[0].as_py())


def _fits(text: pa.Array, pattern: str) -> pa.Array:
    """Return a mask (`bool`) of texts whose bytes match a pattern."""
    return pc.match_substring_regex(text.view(pa.binary()), pattern)


# --- values ----------------------------------------------------------------------------------


def _values(database: Any, file: File, text: pa.Array, schema: pa.Schema) -> pa.RecordBatch:
    """Return the values of these lines."""
    wanted = [(entry.name, to_duckdb(entry.type)) for entry in schema if not pt.is_null(entry.type)]
    if not schema.names:  # a batch without columns has no rows; unneeded columns are dropped later
        return pa.RecordBatch.from_arrays([text], ["line"])
    if not wanted:
        return pa.RecordBatch.from_arrays([nulls(len(text), entry.type) for entry in schema], schema=schema)
    columns: dict[str, pa.Array] = {}
    for part in _apart(wanted):
        structure = json.dumps(part).replace("'", "''")
        try:
            found = _run(database, text, f"unnest(json_transform(line, '{structure}'))").combine_chunks()
        except duckdb.Error as error:
            raise InvalidSource(f"{file.path}: {error}") from error
        columns |= zip(found.column_names, found.to_batches()[0].columns, strict=True)
    return conform(pa.RecordBatch.from_pydict(columns), schema)


def _apart(wanted: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    """Return the keys in parts, none of which has two that differ in case only: a struct of DuckDB can't have them."""
    parts: list[dict[str, Any]] = []
    known: Counter[str] = Counter()
    for name, kind in wanted:
        at = known[name.lower()]
        known[name.lower()] += 1
        if at == len(parts):
            parts.append({})
        parts[at][name] = kind
    return parts


@contextmanager
def _duckdb() -> Iterator[Any]:
    """Open a database for its JSON functions."""
    database = duckdb.connect(config={"threads": "1", "python_enable_replacements": "false"})
    try:
        database.execute("SET enable_progress_bar = false")
        yield database
    finally:
        database.close()


def _run(database: Any, text: pa.Array, expression: str) -> pa.Table:
    """Evaluate an expression over the lines, in their order. Raises `duckdb.Error`."""
    database.register("lines", pa.table({"line": text}))
    try:
        found = database.sql(f"SELECT {expression} FROM lines").to_arrow_table()  # noqa: S608 - built by this module
    except UnicodeDecodeError as error:  # DuckDB cut its message off within a character
        raise duckdb.InvalidInputException("a line is not JSON") from error
    database.unregister("lines")
    return found
