"""Base classes of all stored records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any, ClassVar, Final, Self

from sitemap_etl.frozen import Frozen

FORMAT: Final = 2
"""Format of state documents that this version writes. It reads all earlier formats."""
INTENT_FORMAT: Final = 3
"""The format of intents. Earlier ones are read."""
RUN_FORMAT: Final = 4
"""Format of the documents in a run's folder, and of the rows beside them. Earlier formats are refused."""


class Record(Frozen):
    """Base of all records. Keys that this version does not know survive reading and writing.

    A field with whole numbers and fractions is `int | float`, so that a number is written unchanged.
    """

    unknown: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False, compare=False)


class Document(Record):
    """A record that is stored as one object."""

    format: int = field(default=FORMAT, kw_only=True)

    newest: ClassVar[int] = FORMAT
    oldest: ClassVar[int] = FORMAT  # lower numbers are damage
    title: ClassVar[str] = "object"  # what messages call it

    @classmethod
    def upgraded(cls, data: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the JSON of an earlier format with the key names of the current one."""
        return data


class RunDocument(Document):
    """A document in a run's folder. All tasks of a run must use the same run format."""

    format: int = field(default=RUN_FORMAT, kw_only=True)

    newest: ClassVar[int] = RUN_FORMAT
    oldest: ClassVar[int] = 1


class Summed(Record):
    """A record of whole numbers that can be added up."""

    def __add__(self, other: Self) -> Self:
        names = [entry.name for entry in fields(self) if entry.name != "unknown"]
        summed: dict[str, Any] = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(self, **summed)
