"""Manifests of exports: lists of files in JSON, CSV or text, with rows, bytes and hashes.

- JSON: `{"files": […]}` or `{"entries": […]}` (the manifest of Redshift's UNLOAD, also VERBOSE:
  https://docs.aws.amazon.com/redshift/latest/dg/r_UNLOAD.html), or the list itself. An element is a name, or a mapping
  with one of `_NAMES` and any of `_ROWS`, `_BYTES`, `sha256` and `md5`. `rows` beside the list is the sum.
- CSV with such names in its header, as in Snowflake's COPY INTO (`FILE_NAME`, `FILE_SIZE`, `ROW_COUNT` of
  DETAILED_OUTPUT: https://docs.snowflake.com/en/sql-reference/sql/copy-into-location).
- Text: one name per line, optionally after a hash as in `sha256sum` and `md5sum`.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sitemap_etl.errors import InvalidSource, Unavailable
from sitemap_etl.frozen import Frozen

_NAMES: Final = ("url", "uri", "path", "name", "file", "file_name", "filename", "key")
_ROWS: Final = ("rows", "row_count", "record_count", "num_rows", "records")
_BYTES: Final = ("bytes", "size", "file_size", "content_length", "size_bytes", "length")
_HASHES: Final = {"sha256": "sha256", "md5": "md5", "md5checksum": "md5"}
_LISTS: Final = ("files", "entries")
_SUM: Final = re.compile(r"(?P<hash>[0-9a-fA-F]{64}|[0-9a-fA-F]{32})\s+\*?(?P<name>.+)")
_ALGORITHMS: Final = {64: "sha256", 32: "md5"}
"""Algorithm by the digits of its hashes."""


class Listed(Frozen):
    """A file in a manifest. `hash`: the algorithm and its hexadecimal digits."""

    name: str
    rows: int | None = None
    bytes: int | None = None
    hash: tuple[str, str] | None = None


class Manifest(Frozen):
    """Files that a manifest names. `rows`: of all files; None: it does not say."""

    files: tuple[Listed, ...]
    rows: int | None = None


def parse_manifest(data: bytes, path: str) -> Manifest:
    """Parse a manifest. Raise InvalidSource if it is invalid, Unavailable if it is incomplete."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidSource(f"the manifest {path} is not UTF-8: {error}") from error
    total: Any = None
    if text.lstrip().startswith(("{", "[")):
        elements, total = _json(text, path)
    else:
        elements = _lines(text)
    if not elements:
        raise Unavailable(f"the manifest {path} names no file")
    files = tuple(_listed(element, path) for element in elements)
    if total is None and all(file.rows is not None for file in files):
        total = sum(file.rows or 0 for file in files)
    return Manifest(files, None if total is None else _number(total, path))


def _json(text: str, path: str) -> tuple[Sequence[Any], Any]:
    """Return the elements of the list, and the total of rows, if given."""
    try:
        read = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unavailable(f"the manifest {path} is not complete JSON, it may still be written: {error}") from error
    if isinstance(read, list):
        return read, None
    plain = _folded(read)
    found = next((plain[name] for name in _LISTS if isinstance(plain.get(name), list)), None)
    if found is None:
        raise InvalidSource(
            f'the manifest {path} has no list of files: expected "files" or "entries", got {", ".join(read) or "{}"}'
        )
    return found, _first(plain, _ROWS)


def _lines(text: str) -> Sequence[Any]:
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    for delimiter in ",;\t":
        header = [name.strip().strip('"').lower() for name in lines[0].split(delimiter)] if lines else []
        if any(name in _NAMES for name in header) and (len(header) > 1 or len(lines) > 1):
            return list(csv.DictReader(lines, delimiter=delimiter))
    found: list[Any] = []
    for line in lines:
        summed = _SUM.fullmatch(line)
        if summed is None:
            found.append(line)
        else:
            found.append({"name": summed["name"], _ALGORITHMS[len(summed["hash"])]: summed["hash"]})
    return found


def _listed(element: Any, path: str) -> Listed:
    if isinstance(element, str):
        return Listed(element)
    if not isinstance(element, Mapping):
        raise InvalidSource(f"the manifest {path} lists {element!r}: expected the name of a file, or a mapping with it")
    plain = _folded(element)
    if isinstance(plain.get("meta"), Mapping):
        plain = {**plain, **_folded(plain["meta"])}
    name = _first(plain, _NAMES)
    if not isinstance(name, str) or not name:
        raise InvalidSource(
            f"the manifest {path} lists a file without a name: expected one of {', '.join(_NAMES)}, "
            f"found {', '.join(map(str, element))}"
        )
    rows, size = _first(plain, _ROWS), _first(plain, _BYTES)
    digest = next(
        ((algorithm, str(plain[key]).lower()) for key, algorithm in _HASHES.items() if plain.get(key)),
        None,
    )
    return Listed(
        name, None if rows is None else _number(rows, path), None if size is None else _number(size, path), digest
    )


def _folded(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).strip().lower().replace("-", "_"): value for key, value in mapping.items()}


def _first(mapping: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((mapping[name] for name in names if mapping.get(name) not in (None, "")), None)


def _number(value: Any, path: str) -> int:
    if isinstance(value, bool) or not re.fullmatch(r"[0-9]+", str(value).strip()):
        raise InvalidSource(f"the manifest {path} gives {value!r} for a number of rows or bytes")
    return int(value)
