"""Render a text sitemap: one URL a line, nothing else (https://www.sitemaps.org/protocol.html#otherformats)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import bytes_of, single


def document(table: pa.Table, start: int, stop: int) -> list[bytes | memoryview]:
    """Return the locs of the rows from `start` to before `stop`, each on a line, not escaped.

    Raise ValueError if the sitemap would be invalid: no row or more than 50,000, more than 52,428,800 bytes, or a null
    loc.
    """
    rows = stop - start
    if not 0 < rows <= limits.SITEMAP_ROWS:
        raise ValueError(f"a sitemap takes 1 to {limits.SITEMAP_ROWS:,} entries, not {rows:,}")
    column = table.column("loc").slice(start, rows)
    if column.null_count:
        raise ValueError("a row without a loc can't be rendered")
    # One part, whatever the chunks, because the output of gzip depends on the cuts.
    body = bytes_of(single(pc.binary_join_element_wise(column, "\n", ""))).data
    if len(body) > limits.SITEMAP_BYTES:
        raise ValueError(f"a sitemap takes {limits.SITEMAP_BYTES:,} bytes, not {len(body):,}")
    return [body]
