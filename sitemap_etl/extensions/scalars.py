"""Simple values of extension elements as published text, null if they are invalid."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import is_list, plain
from sitemap_etl.elements import RELATION
from sitemap_etl.extensions import texts
from sitemap_etl.extensions.codes import COUNTRIES
from sitemap_etl.extensions.pages import Pages
from sitemap_etl.frames import Tally

_YES: Final = pa.array(["yes", "true", "t", "y", "1"])
_NO: Final = pa.array(["no", "false", "f", "n", "0"])
_PLATFORMS: Final = frozenset({"web", "mobile", "tv"})
_SEPARATORS: Final = re.compile(r"[\s,;:=|\[\](){}'\"]+")
_NULL: Final = pa.scalar(None, pa.string())


def whole(values: pa.Array, low: int, high: int) -> pa.Array:
    """Return integers from `low` to `high`, from numbers or their text (`120`, `120.0`)."""
    if pa.types.is_floating(values.type):  # Arrow writes large floats with an exponent
        exact = pc.and_(pc.equal(pc.floor(values), values), pc.less(pc.abs(values), 1e18))
        values = pc.if_else(exact, values, pa.scalar(None, values.type)).cast(pa.int64())
    written = texts.cleaned(_without_booleans(values))
    digits = pc.replace_substring_regex(written, r"^\+?0*(\d{1,18})(\.0*)?$", r"\1")
    number = pc.if_else(pc.match_substring_regex(digits, r"^\d{1,18}$"), digits, _NULL).cast(pa.int64())
    inside = pc.and_(pc.greater_equal(number, low), pc.less_equal(number, high))
    return pc.if_else(inside, number.cast(pa.string()), _NULL)


def decimal(values: pa.Array, low: float, high: float) -> pa.Array:
    """Return decimal numbers from `low` to `high`, rounded to two places, without exponents."""
    written = texts.cleaned(_without_booleans(values))
    plain = pc.match_substring_regex(written, r"^[+]?(\d{1,9}(\.\d*)?|\.\d+)([eE]-?\d{1,3})?$")
    number = pc.if_else(plain, written, _NULL)
    number = pc.replace_substring(number, "+", "").cast(pa.float64())
    inside = pc.and_(pc.greater_equal(number, low), pc.less_equal(number, high))
    return pc.if_else(inside, pc.round(number, 2).cast(pa.string()), _NULL)


def _without_booleans(values: pa.Array) -> pa.Array:
    return pa.nulls(len(values), pa.string()) if pa.types.is_boolean(values.type) else values


def yes_no(values: pa.Array) -> pa.Array:
    """Return `yes` or `no`, from booleans, 0 and 1, and the usual words."""
    words = pc.ascii_lower(texts.cleaned(values))
    return pc.case_when(
        pc.make_struct(pc.is_in(words, value_set=_YES), pc.is_in(words, value_set=_NO)),
        pa.scalar("yes"),
        pa.scalar("no"),
    )


def mobile(
    column: pa.Array | pa.ChunkedArray, tally: Tally, *, loc: pa.Array | pa.ChunkedArray | None = None
) -> pa.Array:
    """Return a bool column: True for pages for feature phones. Blank is null; other values are counted."""
    column = plain(column)
    words = yes_no(column)
    bad = texts.lost(texts.cleaned(column), words)
    Pages.of(loc, tally).count("mobile: neither true nor false", bad, column, np.arange(len(column)))
    return pc.equal(words, "yes")


def countries(values: pa.Array) -> pa.Array:
    """Return `elements.RELATION` of ISO 3166-1 codes: countries in which a video can or can't be played."""
    return _relations(values, COUNTRIES, upper=True)


def platforms(values: pa.Array) -> pa.Array:
    """Return `elements.RELATION` of web, mobile and tv."""
    return _relations(values, _PLATFORMS, upper=False)


def relation_texts(values: pa.Array) -> pa.Array:
    """Return relations as text such as `allow IE GB`, from text or a struct.

    A struct has `relationship` and a text or list of codes.
    """
    if not pa.types.is_struct(values.type):
        return texts.cleaned(values)
    parts = []
    names = [entry.name for entry in values.type]
    for name in sorted(names, key=lambda name: (name != "relationship", names.index(name))):
        part = pc.struct_field(values, name)
        if is_list(part.type):
            part = pc.binary_join(part.cast(pa.list_(pa.string())), " ")
        parts.append(texts.readable(part))
    if not parts:
        return pa.nulls(len(values), pa.string())
    # Not null_handling="skip", which drops rows with only nulls (pyarrow 26).
    return texts.cleaned(pc.binary_join_element_wise(*parts, " ", null_handling="replace", null_replacement=""))


def _relations(values: pa.Array, known: frozenset[str], *, upper: bool) -> pa.Array:
    encoded = relation_texts(values).dictionary_encode()
    read = [_relation(text, known, upper=upper) for text in encoded.dictionary.to_pylist()]
    return pa.array(read, RELATION).take(encoded.indices)


def _relation(text: str, known: frozenset[str], *, upper: bool) -> dict[str, str] | None:
    """Parse one relation. Return None if a code is unknown, because removing only that code changes the meaning."""
    relationship, *codes = [word for word in _SEPARATORS.split(text) if word]
    codes = [code.upper() if upper else code.lower() for code in codes]
    if relationship.lower() not in ("allow", "deny") or not codes or not known.issuperset(codes):
        return None
    return {"relationship": relationship.lower(), "value": " ".join(dict.fromkeys(codes))}
