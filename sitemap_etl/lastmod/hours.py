"""Lastmods counted by minute, and the densest hour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.frozen import Frozen

HOUR: Final = 60
"""Minutes of the sliding window."""
HELD: Final = 65_536
"""Maximum minutes that are counted while a group is rendered: 45 days without a gap, in 1 MB."""
KEPT: Final = 4_096
"""Maximum minutes in a group's task result.

A minute with more than 1/4,096 of the dates is always included, so the densest hour lacks at most 60/4,096 of the
dates, 1.5 %.
"""
_DAY: Final = 10
"""Length of a lastmod without a time of day."""


class Minutes(Frozen):
    """Number of lastmods in each minute. Dates without a time of day are not counted.

    Counts of windows, groups and sections can be added in any number, because only the fullest minutes are kept.
    """

    minutes: np.ndarray  # int64, minutes since 1970, ascending, each once
    counts: np.ndarray  # int64

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Minutes):
            return NotImplemented
        return np.array_equal(self.minutes, other.minutes) and np.array_equal(self.counts, other.counts)

    def __hash__(self) -> int:
        return hash((self.minutes.tobytes(), self.counts.tobytes()))

    @classmethod
    def none(cls) -> Minutes:
        """Return empty counts."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int64))

    @classmethod
    def of(cls, dates: pa.Array) -> Minutes:
        """Count lastmods (string, `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ssZ`). Nulls are not counted."""
        timed = dates.filter(pc.fill_null(pc.greater(pc.binary_length(dates), _DAY), False))
        seconds = pc.utf8_slice_codeunits(timed, 0, 16).cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
        minutes, counts = np.unique(seconds // 60, return_counts=True)
        return cls(minutes, counts.astype(np.int64))

    @classmethod
    def stored(cls, stored: Mapping[str, int]) -> Minutes:
        """Return the counts that `to_store` wrote."""
        minutes = np.array(list(stored), "datetime64[m]").astype(np.int64)
        order = np.argsort(minutes)
        return cls(minutes[order], np.fromiter(stored.values(), np.int64, len(stored))[order])

    def to_store(self) -> dict[str, int]:
        """Return the fullest minutes as text (`YYYY-MM-DDThh:mm`), each with its count."""
        kept = self._fullest(KEPT)
        texts = np.datetime_as_string(kept.minutes.astype("datetime64[m]")).tolist()
        return dict(zip(texts, kept.counts.tolist(), strict=True))

    def __add__(self, other: Minutes) -> Minutes:
        if not len(self.minutes) or not len(other.minutes):
            return self if len(self.minutes) else other
        minutes, at = np.unique(np.concatenate([self.minutes, other.minutes]), return_inverse=True)
        counts = np.zeros(len(minutes), np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        return Minutes(minutes, counts)._fullest(HELD)

    def _fullest(self, count: int) -> Minutes:
        if len(self.minutes) <= count:
            return self
        at = np.sort(np.argsort(-self.counts, kind="stable")[:count])
        return Minutes(self.minutes[at], self.counts[at])

    def densest_hour(self) -> tuple[str, int]:
        """Return the 60 minutes with the most dates: their first minute (`YYYY-MM-DDThh:mmZ`), and the number of dates.

        The hour slides, so a burst across a full hour is found. If several hours are equal, the first one is returned.
        Without dates, the result is "" and 0.
        """
        if not len(self.minutes):
            return "", 0
        until = np.concatenate([[0], np.cumsum(self.counts)])
        past = np.searchsorted(self.minutes, self.minutes + HOUR)
        dates = until[past] - until[:-1]
        at = int(np.argmax(dates))
        return f"{np.datetime_as_string(self.minutes[at].astype('datetime64[m]'))}Z", int(dates[at])
