"""Columns from the names of folders: `…/dt=2026-11-20/country=de/part-0.parquet` has the columns `dt` and `country`.

Spark, Hive and DuckDB write partitioned exports like this, and omit these columns from the files. If a file has such a
column, the file's values count. Values are encoded as in Hive: percent-encoded, and `__HIVE_DEFAULT_PARTITION__` for
null.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import date
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.sources.files.files import File, Note

_KEY: Final = re.compile(r"([^=/]+)=([^/]*)/")
_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,17}")
_KINDS: Final = {"date": pa.date32(), "int": pa.int64(), "text": pa.string()}


def partitions(files: Sequence[File], columns: Collection[str], *, text: bool, note: Note | None) -> dict[str, str]:
    """Return the columns in the names of folders with their kinds: `date`, `int` or `text`.

    Dates if all values are dates; integers if all are integers without leading zeros; otherwise text, or always text
    with `text`. `columns`: columns of the files. `note` is called with keys that are columns too.
    """
    found: dict[str, list[str]] = {}
    for file in files:
        for name, value in _values(file.path).items():
            found.setdefault(name, []).extend([] if value is None else [value])
    both = [name for name in found if name in columns]
    if both and note is not None:
        note(f"{', '.join(both)} in the names of folders is not read: the files have a column of that name")
    return {name: "text" if text else _kind(set(values)) for name, values in found.items() if name not in columns}


def fields(kinds: Mapping[str, str]) -> list[pa.Field]:
    """Return the columns of `partitions` as fields of a schema."""
    return [pa.field(name, _KINDS[kind]) for name, kind in kinds.items()]


def with_partitions(
    batches: Iterable[pa.RecordBatch], file: File, kinds: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file with the columns from its folders."""
    constants = {name: _scalar(value, kinds[name]) for name, value in _values(file.path).items() if name in kinds}
    for batch in batches:
        columns = {**{name: batch.column(name) for name in batch.schema.names}}
        columns |= {name: pa.repeat(scalar, batch.num_rows) for name, scalar in constants.items()}
        yield pa.RecordBatch.from_pydict(columns) if constants else batch


def expression(file: File, kinds: Mapping[str, str]) -> Any:
    """Return the folder values of a file as a dataset expression, or None if there are none."""
    made = None
    for name, value in _values(file.path).items():
        if name in kinds and value is not None:
            equal = pc.field(name) == _scalar(value, kinds[name])
            made = equal if made is None else made & equal
    return made


def _values(path: str) -> dict[str, str | None]:
    """Return the keys and values in the folders of a path, from the top."""
    written = ((unquote(name), unquote(value)) for name, value in _KEY.findall(path))
    return {name: None if value == _NULL else value for name, value in written}


def _kind(values: Collection[str]) -> str:
    if values and all(map(_is_date, values)):
        return "date"
    return "int" if values and all(map(_WHOLE.fullmatch, values)) else "text"


def _is_date(value: str) -> bool:
    if _DATE.fullmatch(value) is None:
        return False
    try:
        date.fromisoformat(value)
    except ValueError:  # the day doesn't exist
        return False
    return True


def _scalar(value: str | None, kind: str) -> pa.Scalar:
    return pa.scalar(value, pa.string()).cast(_KINDS[kind])
