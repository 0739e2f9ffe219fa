"""The addresses of a sample, judged by the rules that a run applies to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import column_of, is_text, single
from sitemap_etl.frozen import Frozen
from sitemap_etl.runs.init.columns import Found
from sitemap_etl.urls import NO_ADDRESSES, UrlRules, canonicalize

_AS_WRITTEN: Final = frozenset({"url", "path", "slug"})
"""Forms of addresses to which the proposed section adds no scheme."""


class Judged(Frozen):
    """`bare`: some address has no leading slash. `notes`: addresses that a run would reject."""

    bare: bool = False
    notes: tuple[str, ...] = ()


def judge(rows: pa.Table, found: Found, rules: UrlRules) -> Judged:
    """Return the judgement of a site's rules on the addresses of a sample."""
    address = found.address
    if address is None or address.column not in rows.column_names:
        return Judged(bare=True)
    column = column_of(rows.combine_chunks(), address.column)
    if address.form not in _AS_WRITTEN or not is_text(column.type):
        return Judged()
    canonical = canonicalize(column, rules, address.column)
    return Judged(canonical.bare[0] > 0, tuple(_rejected(column, single(canonical.reason), address.column)))


def _rejected(column: pa.Array, reasons: pa.Array, name: str) -> Iterator[str]:
    for counted in pc.value_counts(reasons).to_pylist():
        reason, count = counted["values"], counted["counts"]
        if reason in NO_ADDRESSES:
            example = column[pc.index(reasons, reason).as_py()].as_py()
            yield (
                f"{name}: {count:,} of {len(column):,} values are not addresses ({reason}), such as {example!r}: a run "
                "rejects them"
            )
