"""Remove forgotten rows from tables, texts and loc ranges of the state (`sitemap-etl forget`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of, mask_of
from sitemap_etl.elements import ALTERNATES
from sitemap_etl.frozen import Frozen
from sitemap_etl.state.records import Entry

GONE: Final = "(forgotten)"
_BEFORE: Final = r"(?<![A-Za-z0-9%._~/-])"
_AFTER: Final = r"(?![A-Za-z0-9%_~/?=&+#-])(?!\.[A-Za-z0-9])"
"""Characters that must not follow a URL. A dot can follow, because it can end the sentence."""


class Marks(Frozen):
    """The rows to forget, by key and by URL."""

    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)
    locs: frozenset[str] = frozenset()
    raw: frozenset[str] = frozenset()

    def all_keys(self) -> set[str]:
        return {key for keys in self.keys.values() for key in keys}

    # --- tables ---

    def of_locs(self, locs: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """Return the mask of the rows with forgotten canonical URLs."""
        return np.asarray(mask_of(pc.is_in(locs, pa.array(sorted(self.locs), pa.string()))))

    def of_aside(self, rows: pa.Table) -> np.ndarray:
        """Return the mask of rows of `frames.ASIDE` to forget, by key or by URL in any spelling."""
        spelled = pa.array(sorted(self.locs | self.raw), pa.string())
        mask = mask_of(pc.is_in(rows.column("loc"), spelled)) | mask_of(pc.is_in(rows.column("canonical"), spelled))
        for section, keys in self.keys.items():
            of_section = mask_of(pc.fill_null(pc.equal(rows.column("section"), section), False))
            mask |= of_section & mask_of(pc.is_in(rows.column("key"), pa.array(sorted(keys), pa.string())))
        return np.asarray(mask)

    def linking(self, alternates: pa.Array) -> np.ndarray:
        """Return the mask of rows whose hreflang links point to a forgotten page."""
        found = np.zeros(len(alternates), bool)
        items = alternates.flatten()
        if len(items):
            found[pc.list_parent_indices(alternates).to_numpy()[self.of_locs(items.field("href"))]] = True
        return found

    def without(self, rows: pa.Table) -> pa.Table:
        """Return the snapshot rows without forgotten ones and without links to them."""
        rows = rows.filter(pa.array(~self.of_locs(rows.column("loc")))).combine_chunks()
        alternates = column_of(rows, "alternates")
        linking = np.flatnonzero(self.linking(alternates))
        if not len(linking):
            return rows
        lists: list[Any] = alternates.to_pylist()
        for at in linking:  # only the few pages in a cluster with a forgotten page
            lists[at] = [link for link in lists[at] if link["href"] not in self.locs] or None
        place = rows.column_names.index("alternates")
        return rows.set_column(place, "alternates", pa.array(lists, ALTERNATES))

    # --- texts ---

    @cached_property
    def _words(self) -> re.Pattern[str]:
        words = sorted({*self.locs, *self.raw})
        keyed = [rf"\bkey {re.escape(key)}(?!\w)" for key in sorted(self.all_keys())]
        twice = [rf"yields the \S+ {re.escape(key)} more than once" for key in sorted(self.all_keys())]
        all_of = [*(rf"{_BEFORE}{re.escape(word)}{_AFTER}" for word in words), *keyed, *twice]
        return re.compile("|".join(all_of) or "(?!)")

    def in_text(self, text: str) -> bool:
        """Return True if the text names a forgotten row."""
        return self._words.search(text) is not None

    def scrubbed(self, value: Any) -> Any:
        """Return JSON data without texts that name forgotten rows. Lists lose such texts, other places get `GONE`.

        A reason with a count of one is removed with its only row: it can contain text of the row.
        """
        if isinstance(value, str):
            return GONE if self.in_text(value) else value
        if isinstance(value, list):
            stays = [item for item in value if not (isinstance(item, str) and self.in_text(item))]
            return [self.scrubbed(item) for item in stays]
        if isinstance(value, dict):
            tally = all(isinstance(item, dict) and item.keys() == {"count", "examples"} for item in value.values())
            lost = {key for key, item in value.items() if tally and item["count"] == 1 and self._any(item["examples"])}
            return {key: self.scrubbed(item) for key, item in value.items() if key not in lost}
        return value

    def _any(self, texts: Sequence[str]) -> bool:
        return any(self.in_text(text) for text in texts)

    # --- ranges ---

    def bounded(self, entry: Entry, site: str) -> Entry:
        """Return the entry with no forgotten loc as a bound of its range."""
        if not self.locs & {entry.low, entry.first, entry.last}:
            return entry
        # This happens only to files of recent changes. The state has no rows for these.
        others: Sequence[str] = [loc for loc in (entry.first, entry.last) if loc not in self.locs] or [f"{site}/"]
        first = others[0] if entry.first in self.locs else entry.first
        last = others[-1] if entry.last in self.locs else entry.last
        return replace(entry, low=first if entry.low in self.locs else entry.low, first=first, last=last)
