"""One version of a table of a lakehouse, whichever its format: what `lake` asks of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from sitemap_etl.frozen import Frozen

Values = Mapping[str, Sequence[Any]]
"""Column → the values of which a row has one."""


class DataFile(Frozen):
    """A data file of a version. `rows`: None where the table does not say. `mark`: what else of it may change."""

    name: str
    bytes: int
    rows: int | None = None
    mark: str = ""


class Batch(Frozen):
    """Rows of a table, those of changes with what they are: `gone`, and their `order`."""

    rows: pa.RecordBatch
    gone: bool | None = None
    order: int = 0


class Table(Protocol):
    """One version of a table. Its methods raise `InvalidSource`, `Refused`, `Unavailable`.

    `identity`: tells it from another table at its address, which was dropped and made anew; versions begin anew then.
    """

    identity: str
    version: str
    moment: datetime
    schema: pa.Schema

    def files(self, filter_: Values) -> list[DataFile] | None:
        """The data files that may have such rows; None where it can only be read as a whole."""

    def rows(self, names: Sequence[str] | None, columns: Sequence[str], filter_: Values) -> Iterator[pa.RecordBatch]:
        """The rows of these data files, of all where None; those that were deleted are not among them."""

    def lost(self, names: Sequence[str]) -> str | None:
        """One of these data files that is there no longer; None where none is missed."""

    def feed(self, since: str) -> str | None:
        """Why the table can't say which rows changed after an earlier version; None where it can, see `changes`.

        It can't where files that say so are there no longer.
        """

    def changes(self, since: str, columns: Sequence[str], filter_: Values) -> Iterator[Batch]:
        """The rows that changed after an earlier version, as the table's own feed has them."""
