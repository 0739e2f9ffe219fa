"""The lastmod of a page whose source only says what is in it: its fingerprint against the snapshot's.

The one way to a new date is a fingerprint that was known and is now another. Everything else keeps the
date there is, takes the source's `until_changed`, or has none. So no mistake dates a whole site: a lost
state, a new rule, another list of columns, a rollback know no *other* fingerprint, only none.
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
    """The lastmod of each row (`string`, nullable) and whether a known row has changed (`bool`).

    `fingerprint_now`, `old_fingerprint`: uint64. `source_lastmod`: the `until_changed` column as lastmod
    text, invalid dates already null; None without that rule. `is_known`: the row is in the snapshot.
    `now_text`: the run's time as lastmod text. `reset`: the snapshot's fingerprints come from another
    definition. `first_publish`: the section has no snapshot yet (also: its state is lost).

    | row | lastmod |
    |---|---|
    | known, fingerprint differs, not reset | now |
    | known, otherwise | the old one to the byte; where it had none, `until_changed` |
    | unknown | `until_changed`; without it now if `first_seen` and not `first_publish`, else none |

    `old_lastmod` is without dates in the future (`until`).
    A null fingerprint on either side never differs: give null as the old one where a row was published
    under another rule (a page that moved here from another section), and its date stays.
    Changed is a known row whose fingerprint differs or whose lastmod is now another, a first one included.
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
