"""Frozen dataclasses that are cheap to make: most of what modules consist of here, and of what loading them costs."""

from __future__ import annotations

from dataclasses import Field, dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen:
    """Makes each class derived from it a frozen dataclass.

    How instances compare and show themselves is written here, once. The decorator compiles it anew for each class; with
    two hundred of them that is a tenth of what a small run costs.
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


def _compared(instance: Frozen) -> list[str]:
    return [entry.name for entry in fields(instance) if entry.compare]
