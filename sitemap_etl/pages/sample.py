"""Draw a reproducible sample, and estimate the share of the whole."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import pyarrow as pa

from sitemap_etl.frozen import Frozen
from sitemap_etl.hashes import combine, hash64

_Z: Final = 1.959964
"""The quantile of the normal distribution for 95 %."""


def sampled(locs: pa.Array | pa.ChunkedArray, most: int, seed: int = 0) -> np.ndarray:
    """Return the indices of at most `most` distinct URLs with the smallest hashes, smallest first.

    The hash depends on the seed. The sample is random, but the same at any time on any machine. Its beginning is a
    smaller sample. The sample of the samples of several parts is the sample of the whole. If a few URLs change, most of
    the sample stays.
    """
    hashes = combine([hash64(locs), np.full(len(locs), np.uint64(seed % 2**64))])
    _, first = np.unique(hashes, return_index=True)
    return first[:most].astype(np.int64)


class Share(Frozen):
    """Share of a sample: `part` of `drawn` pages, from `whole` pages (0: unknown)."""

    part: int
    drawn: int
    whole: int = 0

    @property
    def value(self) -> float:
        return self.part / self.drawn if self.drawn else 0.0

    def interval(self) -> tuple[float, float]:
        """Return the limits of the true share, with 95 % confidence.

        This is Wilson's interval (Wilson 1927, "Probable inference, the law of succession, and statistical inference").
        It is valid for small samples and for shares near 0 and 1. If everything was drawn, the share is exact.
        """
        if not self.drawn:
            return 0.0, 1.0
        if self.whole and self.drawn >= self.whole:
            return self.value, self.value
        n, share, square = self.drawn, self.value, _Z * _Z
        middle = (share + square / (2 * n)) / (1 + square / n)
        half = _Z / (1 + square / n) * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)

    def __str__(self) -> str:
        """Return a text such as `3 of 50 sampled pages (6 %, 95 % confidence interval 2.1 to 16.2 %)`."""
        if self.whole and self.drawn >= self.whole:
            return f"{self.part:,} of all {self.drawn:,} pages ({_percent(self.value)} %)"
        low, high = self.interval()
        between = f"95 % confidence interval {_percent(low)} to {_percent(high)} %"
        return f"{self.part:,} of {self.drawn:,} sampled pages ({_percent(self.value)} %, {between})"


def _percent(share: float) -> str:
    return f"{share * 100:.1f}".removesuffix(".0")
