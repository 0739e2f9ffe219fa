"""Decide if changes can be merged into the last version of a section's mirror, or if everything has to be read."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pyarrow as pa
import pyarrow.types as pt

from sitemap_etl.errors import DamagedState
from sitemap_etl.frozen import Frozen
from sitemap_etl.state.mirror import read_mirror
from sitemap_etl.state.records import Mirror, Reading
from sitemap_etl.storage import Storage


class Generation(Frozen):
    """The last version of a section's mirror."""

    work: Storage
    key: str | None
    full: bool

    def reading(self, everything: Reading) -> tuple[Reading, Mirror | None]:
        """Return the read of the changes since then, and the mirror; or a full read, which says why, and None.

        `everything`: how all of it is read. Raise DamagedState.
        """
        if self.key is None:
            return replace(everything, because="there is no mirror of it yet"), None
        try:
            mirror = read_mirror(self.work, self.key)
        except DamagedState as error:
            if not self.full:
                raise
            return replace(everything, because=f"--full ({error})"), None
        other = _another(mirror, everything)
        if other is not None:
            return replace(everything, because=other), None
        if self.full:
            return replace(everything, because="--full", compared=self.key), None
        return replace(everything, mirror=self.key), mirror


def _another(mirror: Mirror, reading: Reading) -> str | None:
    """Return the reason why a mirror has other rows than the run asks for, or None if it has these rows."""
    if mirror.select != reading.select:
        return "its SELECT is another one"
    if mirror.params != reading.params:
        return "the params of its SELECT are others"
    if mirror.table != reading.table:
        return "its table was dropped and created again"
    if mirror.key != reading.key:
        return f"its key was {mirror.key} and is {reading.key}"
    if mirror.deleted != reading.deleted:
        return f"its deleted column was {mirror.deleted or 'none'} and is {reading.deleted or 'none'}"
    return None


def other_columns(what: str, known: pa.Schema, found: pa.Schema, key: str, *, typed: bool) -> str | None:
    """Return the reason why rows with the columns `found` don't fit a mirror with the columns `known`, or None if they
    do.

    `what`: SELECT or table, for the message. `typed`: columns have declared types. Without them, as in SQLite, the
    types come from the values.
    """
    if set(found.names) != set(known.names):
        return f"its {what} yields other columns: {', '.join(sorted(set(found.names) ^ set(known.names)))}"
    for name in known.names:
        was, now = known.field(name).type, found.field(name).type
        if not (_is_read_alike(was, now) if typed or name == key else joins(was, now)):
            return f"its column {name} was {was} and is {now}"
    return None


def _is_read_alike(one: pa.DataType, other: pa.DataType) -> bool:
    return bool(one == other or pt.is_null(one) or pt.is_null(other))


def joins(one: pa.DataType, other: pa.DataType) -> bool:
    """Return True if values of the two types can be compared, such as integers and floats."""
    return _is_read_alike(one, other) or {one, other} == {pa.int64(), pa.float64()}


def digest(text: str) -> str:
    """Return a short digest of a text, such as a SELECT."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
