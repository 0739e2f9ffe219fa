"""Frozen dataclasses that are cheap to make: most of what modules consist of here, and of what loading them costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Frozen:
    """Makes each class derived from it a frozen dataclass.

    What instances do is written here, once. The decorator writes it again for each class, as source that is compiled:
    with two hundred classes that is a fifth of what a small run costs.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    _names: ClassVar[frozenset[str]]
    _places: ClassVar[tuple[str, ...]]
    """The fields that can be given by their place, in order."""
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Callable[[], Any]]]

    def __init_subclass__(cls) -> None:
        dataclass(init=False, eq=False, repr=False)(cls)
        entries = fields(cls)
        cls._names = frozenset(entry.name for entry in entries)
        cls._places = tuple(entry.name for entry in entries if not entry.kw_only)
        cls._defaults = {entry.name: entry.default for entry in entries if entry.default is not MISSING}
        cls._factories = {
            entry.name: entry.default_factory for entry in entries if entry.default_factory is not MISSING
        }

    def __init__(self, *given: Any, **named: Any) -> None:
        placed = dict(zip(self._places, given, strict=False))
        values = {**self._defaults, **placed, **named}
        for name, make in self._factories.items():
            if name not in values:
                values[name] = make()
        if len(placed) < len(given) or values.keys() != self._names or not placed.keys().isdisjoint(named):
            raise TypeError(_mistake(self, placed, named, len(given)))
        self.__dict__.update(values)
        self.__post_init__()

    def __post_init__(self) -> None:
        """Check or complete the values of a new instance. Subclasses can replace it."""

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

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


def _mistake(instance: Frozen, placed: dict[str, Any], named: dict[str, Any], given: int) -> str:
    """Return the mistake in the values of a new instance."""
    who = type(instance).__qualname__
    wrong = {
        "does not know": named.keys() - instance._names,
        "is given twice": placed.keys() & named.keys(),
        "lacks": instance._names - {*instance._defaults, *instance._factories, *placed, *named},
    }
    told = [f"{what} {', '.join(sorted(names))}" for what, names in wrong.items() if names]
    return f"{who} {' and '.join(told)}" if told else f"{who} takes {len(instance._places)} values, not {given}"
