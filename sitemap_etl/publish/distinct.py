"""Check that no loc is listed twice, independently of the stages that prevent it.

Within a section the files are consecutive ranges. Files of different sections can share a loc only if their ranges
overlap. Of such pairs only those with new rows are read, so an unchanged run reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of
from sitemap_etl.errors import Refused
from sitemap_etl.hashes import hash64
from sitemap_etl.stages.run import Run
from sitemap_etl.state.records import Entry, SectionState

_SHOWN: Final = 3


def check_distinct(run: Run, entries: Iterable[Entry], sections: Mapping[str, SectionState]) -> None:
    """Raise Refused if a loc is listed twice outside of views. `entries`: of the set, each section's in order."""
    plain = [entry for entry in entries if entry.section in sections and not sections[entry.section].view]
    last: dict[str, Entry] = {}
    for entry in plain:
        before = last.get(entry.section)
        if before is not None and before.last >= entry.first:
            _refuse(run, before, entry, [entry.first])
        last[entry.section] = entry
    known = _known(run)
    hashes = _Hashes(run)
    for one, other in _overlapping(plain):
        if one.snapshot in known.get(one.section, ()) and other.snapshot in known.get(other.section, ()):
            continue
        if hashes.share(one, other) and (twice := _common(run, one, other)):
            _refuse(run, one, other, twice)


def _known(run: Run) -> dict[str, set[str]]:
    """Return the published snapshots of each section, without views, if that release was checked in the same way."""
    base = run.base
    if base is None or not base.distinct:
        return {}
    found: dict[str, set[str]] = {}
    for entry in base.entries:
        state = base.sections.get(entry.section)
        if state is not None and not state.view:
            found.setdefault(entry.section, set()).add(entry.snapshot)
    return found


def _overlapping(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Yield pairs of files of different sections with overlapping ranges, ordered by the start of the later range."""
    open_: list[Entry] = []
    for entry in sorted(entries, key=lambda each: each.first):
        open_ = [each for each in open_ if each.last >= entry.first]
        yield from ((each, entry) for each in open_ if each.section != entry.section)
        open_.append(entry)


class _Hashes:
    """Sorted hashes of the locs of files. Files that no later one can overlap are dropped."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.read: dict[str, tuple[str, np.ndarray]] = {}  # snapshot → last loc, hashes

    def share(self, one: Entry, other: Entry) -> bool:
        """Return True if both files can list the same loc."""
        self.read = {key: loaded for key, loaded in self.read.items() if loaded[0] >= other.first}
        return bool(np.isin(self._of(one), self._of(other), assume_unique=True).any())

    def _of(self, entry: Entry) -> np.ndarray:
        if entry.snapshot not in self.read:
            hashes = np.sort(hash64(self.run.state.snapshot(entry.snapshot, ["loc"]).column("loc")))
            self.read[entry.snapshot] = (entry.last, hashes)
        return self.read[entry.snapshot][1]


def _common(run: Run, one: Entry, other: Entry) -> list[str]:
    """Return the locs that both files list."""
    mine, theirs = (column_of(run.state.snapshot(entry.snapshot, ["loc"]), "loc") for entry in (one, other))
    found: list[str] = mine.filter(pc.is_in(mine, theirs)).to_pylist()
    return found


def _refuse(run: Run, one: Entry, other: Entry, locs: Sequence[str]) -> None:
    where = f"{one.section} and {other.section}" if one.section != other.section else f"two files of {one.section}"
    raise Refused(
        f"{run.site.name}: {len(locs):,} URLs would be listed in {where}, e.g. {', '.join(locs[:_SHOWN])}. "
        "Nothing public was touched. This is a bug in sitemap_etl: please report it. Until it is fixed, "
        "run with --full"
    )
