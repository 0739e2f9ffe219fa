"""Images of a page (Google image sitemaps; Google reads only `image:loc`)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl import limits
from sitemap_etl.arrow import codes_of, is_list, mask_of, plain
from sitemap_etl.elements import IMAGES
from sitemap_etl.extensions import literals, nested, texts
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.extensions.pages import Pages
from sitemap_etl.extensions.separated import separated
from sitemap_etl.frames import Tally
from sitemap_etl.urls import UrlRules

_UNREADABLE: Final = "images: neither a list of URLs nor JSON of one"


def images(
    column: pa.Array | pa.ChunkedArray,
    loc: pa.Array | pa.ChunkedArray | None,
    tally: Tally,
    *,
    rules: UrlRules | None = None,
) -> pa.Array:
    """Return `elements.IMAGES`: canonical URLs in the source's order, without repetitions, at most 1,000 per page.

    `column`: list of text, or of structs with `loc`; text with separated URLs; or text with such a list in JSON, Python
    or PostgreSQL syntax. An element can contain several URLs. `rules`: relative URLs are joined to the site, and URLs
    on the site or an equivalent origin are spelled like its pages. Without rules, relative URLs are counted as not
    absolute. `loc`: canonical addresses of the pages, for examples. A page without images is null.
    """
    pages = Pages.of(loc, tally, rules)
    found = separated(_elements(plain(column), pages))
    if not len(found.owner):
        return pa.nulls(found.rows, IMAGES)
    canonical = pages.canonical("image", found.values, found.owner)
    found = Elements(found.owner, canonical, found.rows)
    found = found.where(mask_of(pc.is_valid(canonical)))
    found = _distinct(found, pages)
    over = found.position() >= limits.IMAGES_PER_PAGE
    pages.count("image: more than 1,000 on a page", over, found.values, found.owner)
    return found.where(~over).to_lists(IMAGES)


def _distinct(found: Elements, pages: Pages) -> Elements:
    """Remove repeated URLs of a row. The first one stays."""
    if len(found.owner) < 2 or not (found.owner[1:] == found.owner[:-1]).any():
        return found
    codes = codes_of(found.values)
    keys = found.owner * (int(codes.max()) + 1) + codes
    first = np.zeros(len(keys), bool)
    first[np.unique(keys, return_index=True)[1]] = True
    pages.count("image: twice on a page", ~first, found.values, found.owner)
    return found.where(first)


def _elements(column: pa.Array, pages: Pages) -> Elements:
    kind = column.type
    if is_list(kind):
        found = nested.elements(column)
        if pa.types.is_struct(found.values.type):
            at = found.values.type.get_field_index("loc")
            urls = pa.nulls(len(found.values), pa.string()) if at < 0 else pc.struct_field(found.values, "loc")
            pages.count(_UNREADABLE, texts.lost(found.values, urls), urls, found.owner)
            return Elements(found.owner, texts.readable(urls), found.rows)
        return Elements(found.owner, texts.readable(found.values), found.rows)
    if pa.types.is_null(kind):
        return Elements(np.empty(0, np.int64), pa.array([], pa.string()), len(column))
    if not (pa.types.is_string(kind) or pa.types.is_binary(kind)):
        pages.tally.add(_UNREADABLE, len(column) - column.null_count, [str(kind)])
        return Elements(np.empty(0, np.int64), pa.array([], pa.string()), len(column))
    raw = texts.readable(column)
    literal = pc.match_substring_regex(raw, literals.BEGINS)
    if not pc.any(literal).as_py():
        return _plain(raw)
    nothing = pa.scalar(None, pa.string())
    values = nested.parsed(pc.if_else(literal, raw, nothing), pages.tally, _UNREADABLE)
    lists = nested.flattened([_urls_of(value, pages.tally) for value in values], texts.spelled)
    others = _plain(pc.if_else(literal, nothing, raw))
    return nested.merged(lists, others) if len(others.owner) else lists


def _plain(raw: pa.Array) -> Elements:
    """Return texts that are addresses themselves."""
    filled = pc.is_valid(texts.cleaned(raw))
    return Elements(np.flatnonzero(mask_of(filled)), raw.filter(filled), len(raw))


def _urls_of(value: Any, tally: Tally) -> list[str]:
    """Return the URLs of one parsed JSON value."""
    if value is None:
        return []
    result = []
    for element in value if isinstance(value, list) else [value]:
        url = element.get("loc") if isinstance(element, dict) else element
        if isinstance(url, str):
            result.append(url)
        elif element is not None and element != {}:  # {} is an empty array in PostgreSQL
            tally.add(_UNREADABLE, 1, [element])
    return result
