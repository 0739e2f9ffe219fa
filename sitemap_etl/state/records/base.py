"""What all records have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any, ClassVar, Final, Self, dataclass_transform

FORMAT: Final = 2
"""The format of the documents that this release writes. It reads earlier ones of the state, and runs of this one."""


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _Frozen:
    """Makes each class derived from it a frozen dataclass.

    How instances compare and show themselves is written here once: compiled for each class anew, as the decorator does
    it, that is a twentieth of what a small run costs.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _compared(self))

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in _compared(self)))

    def __repr__(self) -> str:
        shown = (f"{entry.name}={getattr(self, entry.name)!r}" for entry in fields(self) if entry.repr)
        return f"{type(self).__qualname__}({', '.join(shown)})"


def _compared(record: _Frozen) -> list[str]:
    return [entry.name for entry in fields(record) if entry.compare]


class Record(_Frozen):
    """What all records have: the keys that this release does not know."""

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)


class Document(Record):
    """A record that is stored as an object of its own."""

    format: int = field(default=FORMAT, kw_only=True)

    title: ClassVar[str] = "object"  # what messages call it

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON of an earlier format with the names of this one."""
        return data


class RunDocument(Document):
    """A document in the folder of a run: only releases of one format share a run."""


class Summed(Record):
    """A record of whole numbers that can be added up."""

    def __add__(self, other: Self) -> Self:
        names = [entry.name for entry in fields(self) if entry.name != "unknown"]
        summed: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **summed)


def renamed(data: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The object with the keys of an earlier format under their names of today."""
    return {names.get(key, key): value for key, value in data.items()}
