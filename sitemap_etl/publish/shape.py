"""What the files of a set hold: how full they are, and how old the dates of their pages are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from sitemap_etl.config import Site
from sitemap_etl.settings import Shards
from sitemap_etl.state.records import Entry, Shape

AGES: Final = (1, 7, 30, 90, 365, 1_095)
"""Days up to which an age counts into a class; what is older is in a last one."""
_TENTHS: Final = 10
_DAY: Final = 86_400


def shapes(site: Site, entries: Iterable[Entry], now: str) -> dict[str, Shape]:
    """The shape of every section, in the order of the entries."""
    by_section: dict[str, list[Entry]] = {}
    for entry in entries:
        by_section.setdefault(entry.section, []).append(entry)
    today = int(datetime.fromisoformat(now).astimezone(UTC).timestamp()) // _DAY
    bounds = {name: section.shards for name, section in site.sections.items()}
    return {name: _shape(found, _bounds(bounds, name), today) for name, found in by_section.items()}


def _bounds(sections: Mapping[str, Shards], name: str) -> Shards:
    """A section's limits; `recent` and sections that left have the usual ones."""
    return sections.get(name, Shards())


def _shape(entries: Sequence[Entry], bounds: Shards, today: int) -> Shape:
    rows = np.array([entry.rows for entry in entries], np.int64)
    used = np.maximum(rows / bounds.rows, np.array([entry.body for entry in entries]) / bounds.bytes)
    fill = np.bincount(np.minimum((used * _TENTHS).astype(int), _TENTHS - 1), minlength=_TENTHS)
    ages = np.zeros(len(AGES) + 1)
    known = [entry for entry in entries if entry.undated is not None]
    for entry in known:
        if entry.days:
            # Between two deciles lies a tenth of the pages: half of it counts as old as either.
            old = today - np.array(entry.days)
            weights = np.full(len(old), 2.0)
            weights[[0, -1]] = 1.0
            counted = np.bincount(np.searchsorted(AGES, old, side="right"), weights, minlength=len(ages))
            ages += counted / weights.sum() * (entry.rows - (entry.undated or 0))
    return Shape(
        files=len(entries),
        fill=tuple(fill.tolist()),
        undated=sum(entry.undated or 0 for entry in known),
        ages=tuple(np.rint(ages).astype(int).tolist()),
        unrecorded=int(rows.sum()) - sum(entry.rows for entry in known),
    )
