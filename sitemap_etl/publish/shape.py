"""Summarize the files of a release: their fill, and the ages of their pages' dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import numpy as np

from sitemap_etl.config import Site
from sitemap_etl.settings import Shards
from sitemap_etl.state.records import Entry, Shape

AGES: Final = (1, 7, 30, 90, 365, 1_095)
"""Upper limits of the age classes, in days. Older pages are in an additional last class."""
_TENTHS: Final = 10
_DAY: Final = 86_400


def shapes(site: Site, entries: Iterable[Entry], now: str) -> dict[str, Shape]:
    """Return the shape of each section, in the order of the entries."""
    by_section: dict[str, list[Entry]] = {}
    for entry in entries:
        by_section.setdefault(entry.section, []).append(entry)
    today = int(datetime.fromisoformat(now).astimezone(UTC).timestamp()) // _DAY
    bounds = {name: section.shards for name, section in site.sections.items()}
    return {name: _shape(found, _bounds(bounds, name), today) for name, found in by_section.items()}


def _bounds(sections: Mapping[str, Shards], name: str) -> Shards:
    """Return the limits of a section. `recent` and sections that left the site file have the default limits."""
    return sections[name] if name in sections else Shards.standard()


def _shape(entries: Sequence[Entry], bounds: Shards, today: int) -> Shape:
    rows = np.array([entry.rows for entry in entries], np.int64)
    used = np.maximum(rows / bounds.rows, np.array([entry.body for entry in entries]) / bounds.bytes)
    fill = np.bincount(np.minimum((used * _TENTHS).astype(int), _TENTHS - 1), minlength=_TENTHS)
    ages = np.zeros(len(AGES) + 1)
    known = [entry for entry in entries if entry.undated is not None]
    for entry in known:
        if entry.days:
            # Two deciles have a tenth of the pages between them. Half of these count with each age.
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
