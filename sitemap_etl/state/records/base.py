"""What all records have in common."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any, ClassVar, Final, Self

from sitemap_etl.frozen import Frozen

FORMAT: Final = 2
"""The format of the documents of the state that this release writes. It reads earlier ones."""
INTENT_FORMAT: Final = 3
"""The format of intents. Earlier ones are read."""
RUN_FORMAT: Final = 3
"""That of the documents in the folder of a run, and of the rows beside them. Nothing of an earlier one is read."""


class Record(Frozen):
    """What all records have: the keys that this release does not know."""

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)


class Document(Record):
    """A record that is stored as an object of its own."""

    format: int = field(default=FORMAT, kw_only=True)

    newest: ClassVar[int] = FORMAT
    title: ClassVar[str] = "object"  # what messages call it

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON of an earlier format with the names of this one."""
        return data


class RunDocument(Document):
    """A document in the folder of a run: only releases of one format share a run."""

    format: int = field(default=RUN_FORMAT, kw_only=True)

    newest: ClassVar[int] = RUN_FORMAT


class Summed(Record):
    """A record of whole numbers that can be added up."""

    def __add__(self, other: Self) -> Self:
        names = [entry.name for entry in fields(self) if entry.name != "unknown"]
        summed: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **summed)


def renamed(data: Mapping[str, Any], **names: str) -> dict[str, Any]:
    """The object with the keys of an earlier format under their names of today."""
    return {names.get(key, key): value for key, value in data.items()}
