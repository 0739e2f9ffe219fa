"""Dates of videos and articles, in the two forms that W3C Datetime and the XSDs share."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from sitemap_etl.arrow import plain
from sitemap_etl.dates import BLANK, DATE, INSTANT, LOCAL, is_dated, placed, read, text
from sitemap_etl.extensions import texts
from sitemap_etl.frozen import Frozen

_FIRST: Final = np.datetime64("1900-01-01", "s").astype(np.int64)
_LAST: Final = np.datetime64("9999-12-31T00:00:00", "s").astype(np.int64)


class Dates(Frozen):
    """The dates of a column.

    `text`: string, null if the row has no valid date. `seconds`: int64 since 1970 UTC, null alike; a date counts from
    its midnight in the zone given, else UTC. `is_date`: no time of day. `naive`: it has a time of day that no zone
    places; its text is null.
    """

    text: pa.Array
    seconds: pa.Array
    is_date: np.ndarray
    naive: np.ndarray


def dates(column: pa.Array | pa.ChunkedArray, timezone: str | None = None) -> Dates:
    """Read dates, timestamps with and without zone, and text as `sitemap_etl.dates` reads it.

    Invalid values and dates before 1900 have a null text and are not naive. Raise ValueError if `timezone` is not in
    the time zone database.
    """
    column = plain(column)
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        column = texts.cleaned(column)
    if not is_dated(column.type):
        nothing = np.zeros(len(column), bool)
        return Dates(pa.nulls(len(column), pa.string()), pa.nulls(len(column), pa.int64()), nothing, nothing)
    written = read(column)
    kind, seconds = written.kind, written.seconds
    known = (kind == DATE) | (kind == LOCAL) | (kind == INSTANT)
    known &= (seconds >= _FIRST) & (seconds <= _LAST)
    kind, seconds = np.where(known, kind, np.uint8(BLANK)), np.where(known, seconds, 0)
    is_date, local = kind == DATE, kind == LOCAL
    naive = np.zeros(len(column), bool)
    if timezone is None:
        naive = local
    elif is_date.any() or local.any():
        seconds = np.where(is_date | local, placed(seconds, timezone), seconds)
        kind = np.where(local, np.uint8(INSTANT), kind)
    published = text(kind, np.where(is_date, written.value, seconds))
    return Dates(published, pa.array(seconds, mask=~known | naive), is_date, naive)
