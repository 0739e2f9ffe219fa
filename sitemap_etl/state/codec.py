"""Convert records to bytes and back, compatible with newer and older versions.

Keys of a newer version are kept, and missing keys take their defaults. A document is one JSON object. Its first key is
a checksum over all following bytes, verified before decoding. A document without a checksum is read as it is: an early
version wrote it, or a person edited it and removed the checksum. The key `format` says which versions can read it.

Types of fields: `str`, `int`, `float`, `bool`, `None`, `object` (any JSON value), literals, unions of these,
`tuple[X, ...]`, `tuple[X, Y]`, `Mapping[str, X]`, other dataclasses, and classes with `to_json` and `from_json`.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeVar, cast

from sitemap_etl.advice import SITE_FILE
from sitemap_etl.errors import DamagedState

_R = TypeVar("_R")
_Read = Callable[[Any, str], Any]
_SEALED: Final = re.compile(rb'\{"checksum":"([0-9a-f]{64})",')
UNKNOWN: Final = "unknown"
"""The field that holds the keys that this version does not know."""


def seal(body: Mapping[str, Any]) -> bytes:
    """Return the object as bytes with a checksum. It needs at least one key. Keys keep their order."""
    try:
        rest = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()[1:]
    except UnicodeEncodeError:  # a file name that is not UTF-8 can only be written as escapes
        rest = json.dumps(body, separators=(",", ":")).encode()[1:]
    return b'{"checksum":"' + hashlib.sha256(rest).hexdigest().encode() + b'",' + rest


def unseal(data: bytes, where: str) -> dict[str, Any]:
    """Return the content that `seal` was given. `where`: its address, for messages. Raise DamagedState."""
    sealed = _SEALED.match(data)
    if sealed is not None and hashlib.sha256(memoryview(data)[sealed.end() :]).hexdigest().encode() != sealed[1]:
        raise damaged(where, "its checksum does not match its content")
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as error:  # also where it is not UTF-8
        raise damaged(where, f"it is not JSON ({error})") from error
    if not isinstance(body, dict):
        raise damaged(where, "it is not a JSON object")
    body.pop("checksum", None)
    return body


VERIFY: Final = f"What can be repaired without: sitemap-etl state verify {SITE_FILE}"
"""Last sentence of messages about damaged or missing objects."""


def damaged(where: str, what: str) -> DamagedState:
    """Return the error for a stored object that can't be believed."""
    return DamagedState(
        f"{where} is damaged: {what}. Restore this object from an earlier version of it or from a backup of the state. "
        f"{VERIFY}"
    )


_SCALARS: Final = frozenset({str, int, float, bool})


def encode(record: Any) -> Any:
    """Return a record as JSON values, unknown keys last."""
    if record is None or type(record) in _SCALARS:
        return record
    if hasattr(record, "to_json"):
        return record.to_json()
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        body = {
            entry.name: encode(getattr(record, entry.name))
            for entry in dataclasses.fields(record)
            if entry.name != UNKNOWN
        }
        return body | dict(getattr(record, UNKNOWN, {}))
    if isinstance(record, Mapping):
        return {key: encode(value) for key, value in record.items()}
    if isinstance(record, Sequence) and not isinstance(record, str):
        return [encode(item) for item in record]
    return record


def decode(kind: type[_R], data: Any, where: str) -> _R:
    """Return the record of JSON values. Raise DamagedState with the path of the value that doesn't fit."""
    try:
        read: _R = _reader(cast("Any", kind))(data, "")
    except _Unfit as unfit:
        raise damaged(where, str(unfit)) from None
    return read


class _Unfit(Exception):
    """A JSON value that doesn't fit the record."""

    def __init__(self, path: str, expected: str, got: Any) -> None:
        shown = json.dumps(got, ensure_ascii=False)
        shown = f"{shown[:60]}…" if len(shown) > 60 else shown
        super().__init__(f"{path or 'the object'}: expected {expected}, got {shown}")


@cache
def _reader(kind: Any) -> _Read:  # noqa: PLR0911 - one return a form
    """Return the reader of JSON values of a type. Raise TypeError if none is defined."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind in (object, Any):
        return lambda value, _path: value
    if kind in _PLAIN:
        return _plain(kind)
    if origin is typing.Literal:
        return _literal(arguments)
    if origin in (typing.Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping(arguments[1])
    if hasattr(kind, "from_json"):
        return _own(kind)
    if dataclasses.is_dataclass(kind):
        return _fields(kind)
    raise TypeError(f"no JSON form is defined for {kind}")


_PLAIN: Final[dict[Any, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _plain(kind: Any) -> _Read:
    def read(value: Any, path: str) -> Any:
        fits = isinstance(value, (int, float) if kind is float else kind)
        if not fits or (isinstance(value, bool) and kind in (int, float)):
            raise _Unfit(path, _PLAIN[kind], value)
        return value

    return read


def _literal(allowed: Sequence[Any]) -> _Read:
    def read(value: Any, path: str) -> Any:
        if value not in allowed:
            raise _Unfit(path, f"one of {', '.join(map(repr, allowed))}", value)
        return value

    return read


def _union(arguments: Sequence[Any]) -> _Read:
    readers = [_reader(argument) for argument in arguments if argument is not type(None)]
    nullable = type(None) in arguments

    def read(value: Any, path: str) -> Any:
        if value is None and nullable:
            return None
        for reader in readers[:-1]:
            try:
                return reader(value, path)
            except _Unfit:
                continue
        return readers[-1](value, path)

    return read


def _tuple(arguments: Sequence[Any]) -> _Read:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        reader = _reader(arguments[0])

        def read(value: Any, path: str) -> Any:
            if not isinstance(value, list):
                raise _Unfit(path, "a list", value)
            return tuple(reader(item, f"{path}[{at}]") for at, item in enumerate(value))

        return read
    readers = [_reader(argument) for argument in arguments]

    def read_fixed(value: Any, path: str) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise _Unfit(path, f"a list of {len(readers)}", value)
        return tuple(
            reader(item, f"{path}[{at}]") for at, (reader, item) in enumerate(zip(readers, value, strict=True))
        )

    return read_fixed


def _mapping(argument: Any) -> _Read:
    reader = _reader(argument)

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _Unfit(path, "an object", value)
        return {key: reader(item, f"{path}.{key}" if path else key) for key, item in value.items()}

    return read


def _own(kind: Any) -> _Read:
    def read(value: Any, path: str) -> Any:
        try:
            return kind.from_json(value)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise _Unfit(path, f"a {kind.__name__}", value) from error

    return read


def _fields(kind: Any) -> _Read:
    hints = typing.get_type_hints(kind)
    entries = [entry for entry in dataclasses.fields(kind) if entry.name != UNKNOWN]
    keeps = any(entry.name == UNKNOWN for entry in dataclasses.fields(kind))
    readers: dict[str, _Read] = {}

    def read(value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            raise _Unfit(path, "an object", value)
        if not readers:  # not before: a record may hold its own kind
            readers.update({entry.name: _reader(hints[entry.name]) for entry in entries})
        found = {}
        for entry in entries:
            here = f"{path}.{entry.name}" if path else entry.name
            if entry.name in value:
                found[entry.name] = readers[entry.name](value[entry.name], here)
            elif entry.default is dataclasses.MISSING and entry.default_factory is dataclasses.MISSING:
                raise _Unfit(here, "a value", None)
        if keeps:
            found[UNKNOWN] = {key: item for key, item in value.items() if key not in readers}
        return kind(**found)

    return read
