"""Alternates of a page from its own column (`xhtml:link` with hreflang)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import is_list, mask_of, numbers_of, plain
from sitemap_etl.elements import ALTERNATES
from sitemap_etl.extensions import nested, texts
from sitemap_etl.extensions.hreflang import hreflang_tags
from sitemap_etl.extensions.nested import Elements
from sitemap_etl.extensions.pages import Pages
from sitemap_etl.extensions.separated import firsts
from sitemap_etl.frames import Tally
from sitemap_etl.urls import UrlRules

_UNREADABLE: Final = "alternates: neither a map of hreflang to URL nor JSON of one"
_PAIR: Final = pa.struct([("key", pa.string()), ("value", pa.string())])
_HREF_NAMES: Final = ("href", "url", "loc", "value")
_TAG_NAMES: Final = ("hreflang", "lang", "key")


def alternates(
    column: pa.Array | pa.ChunkedArray,
    tally: Tally,
    *,
    loc: pa.Array | pa.ChunkedArray | None = None,
    rules: UrlRules | None = None,
) -> pa.Array:
    """Return `elements.ALTERNATES`: sorted and unique tags (`hreflang_tag`) per page, with canonical URLs.

    `column`: map hreflang → URL; struct with a field per language; list of structs of `hreflang` and `href`; or text
    with such a value in JSON or Python syntax. If an address has several URLs, or a tag occurs twice, the first one is
    used. `rules`: URLs of the site's own pages are spelled as listed, and relative URLs are joined to the site. A page
    without alternates is null. Nothing is added, not even the page itself.
    """
    pages = Pages.of(loc, tally, rules)
    found = _pairs(plain(column), tally)
    if not len(found.owner):
        return pa.nulls(found.rows, ALTERNATES)
    keys, values = (texts.readable(pc.struct_field(found.values, name)) for name in ("key", "value"))
    given, (values, several) = values, firsts(values)
    pages.count("alternate: several URLs in one text, the first stays", several, given, found.owner)
    filled = mask_of(pc.is_valid(texts.cleaned(values)))
    tags = hreflang_tags(pc.if_else(pa.array(filled), keys, pa.scalar(None, pa.string())), tally)
    untagged = filled & mask_of(pc.is_null(texts.cleaned(keys)))
    pages.count("alternate: hreflang is missing", untagged, values, found.owner)
    urls = pages.canonical(
        "alternate", pc.if_else(pc.is_valid(tags), values, pa.scalar(None, pa.string())), found.owner
    )
    links = pa.StructArray.from_arrays([tags, urls], fields=list(ALTERNATES.value_type))
    found = Elements(found.owner, links, found.rows).where(mask_of(pc.is_valid(urls)))
    return _sorted(found, pages).to_lists(ALTERNATES)


def _sorted(found: Elements, pages: Pages) -> Elements:
    """Sort by tag within each row, bytewise. Of equal tags, the first one stays."""
    if len(found.owner) < 2:
        return found
    encoded = pc.struct_field(found.values, "hreflang").dictionary_encode()
    ranks = np.empty(len(encoded.dictionary), np.int64)
    ranks[pc.sort_indices(encoded.dictionary).to_numpy()] = np.arange(len(ranks))
    keys = found.owner * len(ranks) + ranks[numbers_of(encoded.indices)]
    if (keys[1:] > keys[:-1]).all():
        return found
    order = np.argsort(keys, kind="stable")
    keys, found = keys[order], found.take(order)
    again = np.concatenate([[False], keys[1:] == keys[:-1]])
    links = pc.struct_field(found.values, "href")
    pages.count("alternate: two of one hreflang on a page", again, links, found.owner)
    return found.where(~again)


def _pairs(column: pa.Array, tally: Tally) -> Elements:
    """Return the alternates of all rows as structs of key and value."""
    kind = column.type
    if pa.types.is_map(kind):
        return nested.elements(column)
    if is_list(kind) and pa.types.is_struct(kind.value_type):
        found = nested.elements(column)
        names = [entry.name for entry in found.values.type]
        tag = next((name for name in _TAG_NAMES if name in names), None)
        href = next((name for name in _HREF_NAMES if name in names), None)
        if tag is not None and href is not None:
            pairs = [texts.readable(pc.struct_field(found.values, name)) for name in (tag, href)]
            return Elements(found.owner, pa.StructArray.from_arrays(pairs, fields=list(_PAIR)), found.rows)
    elif pa.types.is_struct(kind):
        return _fields(column)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        rows = nested.parsed(texts.readable(column), tally, _UNREADABLE)
        return nested.flattened([_pairs_of(value, tally) for value in rows], _structs)
    if not pa.types.is_null(kind):
        tally.add(_UNREADABLE, len(column) - column.null_count, [str(kind)])
    return Elements(np.empty(0, np.int64), pa.array([], _PAIR), len(column))


def _fields(column: pa.Array) -> Elements:
    """Return the non-null fields of each row of a struct with one field per language."""
    rows, names = len(column), [entry.name for entry in column.type]
    if not names:
        return Elements(np.empty(0, np.int64), pa.array([], _PAIR), rows)
    by_field = pa.concat_arrays([texts.readable(pc.struct_field(column, name)) for name in names])
    cell = np.arange(rows * len(names))
    owner, field = cell // len(names), cell % len(names)
    values = by_field.take(pa.array(field * rows + owner))
    keys = pa.array(names).take(pa.array(field))
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(_PAIR))
    return Elements(owner, pairs, rows).where(mask_of(pc.is_valid(values)))


def _structs(pairs: list[tuple[str, str]]) -> pa.Array:
    sides = [texts.spelled([pair[side] for pair in pairs]) for side in (0, 1)]
    return pa.StructArray.from_arrays(sides, fields=list(_PAIR))


def _pairs_of(value: Any, tally: Tally) -> list[tuple[str, str]]:
    """Return the alternates of one parsed JSON value."""
    if value is None:
        return []
    pairs: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        pairs = list(value.items())
        if all(type(href) is str for href in value.values()):
            return pairs
    elif isinstance(value, list):
        for element in value:
            inner = element if isinstance(element, dict) else {}
            tag = next((inner[name] for name in _TAG_NAMES if name in inner), None)
            pairs.append((tag, next((inner[name] for name in _HREF_NAMES if name in inner), element)))
    else:
        pairs = [(value, value)]
    result = []
    for tag, href in pairs:
        if isinstance(tag, str) and isinstance(href, str):
            result.append((tag, href))
        elif href is not None:
            tally.add(_UNREADABLE, 1, [href])
    return result
