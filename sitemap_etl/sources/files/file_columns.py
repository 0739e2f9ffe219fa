"""The columns of each file of an export: a file without addresses is refused, one without another column is named.

Schemas grow, so a column that a file lacks is null in its rows. Without the column of addresses none of its rows could
be listed: the file is of another kind, or its first row is not a header.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Final

from sitemap_etl.errors import InvalidSource
from sitemap_etl.frozen import Frozen

_SHOWN: Final = 10
"""Columns that a message names."""


class FileColumns(Frozen):
    """The columns of a file, as far as they matter. `filled`: it has rows."""

    path: str
    names: frozenset[str]
    filled: bool


class Needed(Frozen):
    """The columns that matter in an export. `address`: those that its addresses are made from.

    `optional`: one of these is enough. `ruled`: those that have a meaning, by a rule or by their name. `every`: any
    other column can be read, too. `folded`: these names are in lower case, and mean columns in any case. `warn` takes
    the warning about files without one of them.
    """

    address: frozenset[str] = frozenset()
    ruled: frozenset[str] = frozenset()
    optional: bool = False
    every: bool = False
    folded: bool = False
    warn: Callable[[str], None] = lambda _text: None

    def is_read(self, name: str) -> bool:
        """Return True if something can read a column."""
        wanted = self.address | self.ruled
        return self.every or (name.casefold() if self.folded else name) in wanted

    def among(self, names: Collection[str]) -> Needed:
        """Return the same of these columns only, as they are written."""

        def chosen(wanted: frozenset[str]) -> frozenset[str]:
            return frozenset(name for name in names if (name.casefold() if self.folded else name) in wanted)

        return replace(self, address=chosen(self.address), ruled=chosen(self.ruled), folded=False)


def check_files(files: Sequence[FileColumns], needed: Needed, *, advice: str = "") -> None:
    """Raise `InvalidSource` for a file with rows but without a column of addresses that other files have.

    `needed.warn` is called at most once, for files without a column that a rule names. `advice`: more to do.
    """
    count = Counter(name for file in files if file.filled for name in sorted(file.names))
    known = [name for name, _ in count.most_common()]
    if needed.folded:  # of names that differ in case only, most files have the right one
        known = list({name.casefold(): name for name in reversed(known)}.values())
    needed = needed.among(known)
    unlike = [file for file in files if file.filled and _lacks_address(file, needed)]
    if unlike:
        raise InvalidSource(_unlike(unlike, files, needed.address, advice))
    lacking = {file.path: needed.ruled - file.names for file in files if file.filled}
    lacking = {path: names for path, names in lacking.items() if names}
    if lacking:
        path, names = next(iter(lacking.items()))
        more = f" {len(lacking) - 1:,} more files lack a column, too." if len(lacking) > 1 else ""
        columns = f"the column {_quoted(names)}, which a rule uses: it is"
        if len(names) > 1:
            columns = f"the columns {_quoted(names)}, which rules use: they are"
        needed.warn(f"{path} lacks {columns} null in its rows.{more}")


def _lacks_address(file: FileColumns, needed: Needed) -> bool:
    missing = needed.address - file.names
    return len(missing) == len(needed.address) > 0 if needed.optional else bool(missing)


def _unlike(unlike: Sequence[FileColumns], files: Sequence[FileColumns], address: Collection[str], advice: str) -> str:
    first = unlike[0]
    missing = sorted(name for name in address if name not in first.names)
    other = next(file.path for file in files if missing[0] in file.names)
    more = f" {len(unlike) - 1:,} more files lack it, too." if len(unlike) > 1 else ""
    return (
        f"{first.path} has no column {_quoted(missing)}, which has the addresses of pages in {other}. It has: "
        f"{_quoted(first.names)}.{more} Rename the column in that file, or read such files in a section of their own"
        f"{advice}"
    )


def _quoted(names: Collection[str]) -> str:
    shown = ", ".join(map(repr, sorted(names)[:_SHOWN]))
    return f"{shown} and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else shown or "none"
