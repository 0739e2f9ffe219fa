"""Interface of one version of a lakehouse table, for any format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from sitemap_etl.frozen import Frozen

Values = Mapping[str, Sequence[Any]]
"""By column, the accepted values of a row."""


class DataFile(Frozen):
    """A data file of a version.

    `rows`: None if the table doesn't have the number. `mark`: other changeable properties.
    """

    name: str
    bytes: int
    rows: int | None = None
    mark: str = ""


class Batch(Frozen):
    """Rows of a table. Changed rows have the columns `gone` and `order`."""

    rows: pa.RecordBatch
    gone: bool | None = None
    order: int = 0


class Table(Protocol):
    """One version of a table. Its methods raise `InvalidSource`, `Refused`, `Unavailable`.

    `identity`: differs if the table at the address was dropped and created again. Its versions then start again.
    """

    identity: str
    version: str
    moment: datetime
    schema: pa.Schema

    def files(self, filter_: Values) -> list[DataFile] | None:
        """Return the data files that can have matching rows, or None if the table can only be read as a whole."""

    def rows(self, names: Sequence[str] | None, columns: Sequence[str], filter_: Values) -> Iterator[pa.RecordBatch]:
        """Yield the rows of these data files, or of all if None, without deleted rows."""

    def lost(self, names: Sequence[str]) -> str | None:
        """Return one of these data files that no longer exists, or None."""

    def feed(self, since: str) -> str | None:
        """Return the reason why the table has no feed of changes since an earlier version, or None if `changes` can
        read it.

        Removed files of the feed are a reason.
        """

    def changes(self, since: str, columns: Sequence[str], filter_: Values) -> Iterator[Batch]:
        """Yield the rows that changed after an earlier version, as the table's own feed has them."""
