"""The pages of extension elements: count removed values, and make URLs canonical."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import urls
from sitemap_etl.arrow import mask_of, plain
from sitemap_etl.extensions import texts
from sitemap_etl.frames import EXAMPLES, Tally
from sitemap_etl.frozen import Frozen

KINDS: Final = ("image", "video", "alternate")
"""First words of the notes on extension elements."""


class Pages(Frozen):
    """`loc`: canonical address of each row, or None if unknown. `rules`: URL rules of the site."""

    loc: pa.Array | None
    tally: Tally
    rules: urls.UrlRules | None = None

    @classmethod
    def of(cls, loc: pa.Array | pa.ChunkedArray | None, tally: Tally, rules: urls.UrlRules | None = None) -> Pages:
        return cls(None if loc is None else plain(loc), tally, rules)

    def count(self, reason: str, bad: np.ndarray, values: pa.Array, owner: np.ndarray) -> None:
        """Count the values of a mask under a reason. Examples are the page (row `owner`) and the value."""
        found = np.flatnonzero(bad)
        if not len(found):
            return
        some = found[:EXAMPLES]
        shown = texts.readable(values.take(pa.array(some))).to_pylist()
        pages = [None] * len(some) if self.loc is None else self.loc.take(pa.array(owner[some])).to_pylist()
        both = [": ".join(part for part in pair if part is not None) for pair in zip(pages, shown, strict=True)]
        self.tally.add(reason, len(found), [text for text in both if text])

    def canonical(self, what: str, values: pa.Array, owner: np.ndarray) -> pa.Array:
        """Return canonical absolute http(s) URLs of any host. Invalid ones are null and counted as `what: reason`.

        Relative URLs are joined to the site. URLs on the site or an equivalent origin are spelled as its pages are
        listed.
        """
        given = texts.trimmed(values)  # removing invalid characters would lead to another address
        if given.null_count == len(given):
            return given
        checked = urls.canonical_urls(given, self.rules)
        result = plain(checked.loc)
        bad = texts.lost(given, result)
        if bad.any():
            reasons = plain(checked.reason)
            for reason in pc.unique(reasons.filter(pa.array(bad))).to_pylist():
                of_it = mask_of(pc.equal(reasons, reason))
                self.count(f"{what}: {reason}", bad & of_it, given, owner)
        self._note(what, given, result, owner)
        if self.rules is None:
            return result
        spelled = urls.as_listed(result, self.rules)
        self.count(f"{what}: too long", texts.lost(result, spelled), given, owner)
        return spelled

    def _note(self, what: str, given: pa.Array, listed: pa.Array, owner: np.ndarray) -> None:
        """Count URLs that are probably mistakes, although they are listed."""
        rows = np.flatnonzero(mask_of(pc.is_valid(listed)))
        if not len(rows):
            return
        at = pa.array(rows)
        raw = given.take(at)
        kind = next(kind for kind in KINDS if what.startswith(kind))
        for note, mask in urls.noted(listed.take(at), raw, None):
            self.count(f"{kind} {note.removeprefix('loc ')}", mask, raw, owner[rows])
