"""Decide the lastmod of pages whose source has only content: compare fingerprints with the snapshot's.

Only a known fingerprint that changes leads to a new date. All other rows keep their date, take the source's
`until_changed`, or have none. So a mistake can't date a whole site: after a lost state, a new rule, another list of
columns or a rollback, the old fingerprint is unknown, not different.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import nulls


def resolve(
    fingerprint_now: pa.Array,
    source_lastmod: pa.Array | None,
    old_fingerprint: pa.Array,
    old_lastmod: pa.Array,
    is_known: pa.Array,
    *,
    now_text: str,
    reset: bool,
    first_seen: bool,
    first_publish: bool,
) -> tuple[pa.Array, pa.Array]:
    """Return the lastmod of each row (`string`, nullable), and a mask of known rows that changed (`bool`).

    `fingerprint_now`, `old_fingerprint`: uint64. `source_lastmod`: the `until_changed` column as lastmod text, with
    nulls for invalid dates; None without that rule. `old_lastmod`: without future dates (`until`). `is_known`: the row
    is in the snapshot. `now_text`: the run's time as lastmod text. `reset`: the snapshot's fingerprints have another
    definition. `first_publish`: the section has no snapshot, or its state is lost.

    | row | lastmod |
    |---|---|
    | known, fingerprint differs, not reset | now |
    | known, otherwise | the old one, unchanged; if it had none, `until_changed` |
    | unknown | `until_changed`; without it, now if `first_seen` and not `first_publish`, else none |

    A null fingerprint never differs. Pass null as the old one if a row was published under another rule, such as in
    another section, so that its date stays. A known row counts as changed if its fingerprint differs, or if it gets a
    first lastmod.
    """
    rows = len(fingerprint_now)
    text = pa.string()
    source = nulls(rows, text) if source_lastmod is None else source_lastmod
    if reset:
        differs = pa.repeat(pa.scalar(value=False), rows)
    else:
        differs = pc.and_(is_known, pc.fill_null(pc.not_equal(fingerprint_now, old_fingerprint), fill_value=False))
    now = pa.scalar(now_text, text)
    kept = pc.if_else(is_known, old_lastmod, pa.scalar(None, text))
    lastmod = pc.if_else(differs, now, pc.coalesce(kept, source))
    if first_seen and not first_publish:
        lastmod = pc.if_else(pc.and_(pc.invert(is_known), pc.is_null(lastmod)), now, lastmod)
    dated = pc.and_(is_known, pc.and_(pc.is_null(kept), pc.is_valid(lastmod)))
    return lastmod, pc.or_(differs, dated)
