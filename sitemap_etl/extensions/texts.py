"""Clean text values of extension elements, whole columns at a time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import bytes_of, is_visible, mask_of, occurs, occurs_below, plain
from sitemap_etl.escape import FORBIDDEN
from sitemap_etl.instants import spelled as spelled_times

_ENTITY: Final = "&(?:amp|lt|gt|quot|apos|nbsp|#[0-9]+|#x[0-9A-Fa-f]+);"
_HALVES: Final = re.compile("[\ud800-\udfff]")


def escaped_twice(texts: pa.Array) -> np.ndarray:
    """Return a mask (bool) of texts that were escaped before they are written, so that readers see the entities."""
    if not occurs(bytes_of(texts), ord("&")):
        return np.zeros(len(texts), bool)
    return mask_of(pc.match_substring_regex(texts, _ENTITY))


def readable(values: pa.Array) -> pa.Array:
    """Return any flat column as string. Bytes that are not UTF-8 become NUL, which is never published.

    Numbers, dates and booleans get Arrow's text form. Types without one (lists, structs) become null.
    """
    values = plain(values)
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        try:
            texts = values.cast(pa.string())
            texts.validate(full=True)
        except pa.ArrowInvalid:
            raw = values.cast(pa.binary()).to_pylist()
            return spelled([None if text is None else text.decode("utf-8", "surrogateescape") for text in raw])
        return texts
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return spelled_times(values)
    if pa.types.is_floating(kind):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, kind), values)  # pandas writes NaN for a missing value
    try:
        return values.cast(pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return pa.nulls(len(values), pa.string())


def spelled(values: Sequence[str | None]) -> pa.Array:
    """Return Python strings as a column. A lone surrogate, which JSON can contain, becomes NUL.

    No address can contain either.
    """
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:
        return pa.array([None if value is None else _HALVES.sub("\0", value) for value in values], pa.string())


def trimmed(values: pa.Array) -> pa.Array:
    """Return text without surrounding whitespace, otherwise unchanged. Null if nothing is left."""
    texts = readable(values)
    return _filled(texts if is_visible(bytes_of(texts)) else pc.utf8_trim_whitespace(texts))


def cleaned(values: pa.Array) -> pa.Array:
    """Return text without characters that XML forbids and without surrounding whitespace. Null if nothing is left."""
    texts = readable(values)
    data = bytes_of(texts)
    if not is_visible(data):
        if occurs_below(data, 0x20) or occurs(data, 0xEF):  # 0xEF begins the UTF-8 of U+FFFE and U+FFFF
            texts = pc.replace_substring_regex(texts, FORBIDDEN, "")
        texts = pc.utf8_trim_whitespace(texts)
    return _filled(texts)


def _filled(texts: pa.Array) -> pa.Array:
    """Return the texts, null for empty ones."""
    blank = pc.equal(texts, "")
    return pc.if_else(blank, pa.scalar(None, pa.string()), texts) if pc.any(blank).as_py() else texts


def lost(before: pa.Array, after: pa.Array) -> np.ndarray:
    """Return a mask of values that were valid before and are null after a check."""
    return mask_of(pc.and_(pc.is_valid(before), pc.is_null(after)))
