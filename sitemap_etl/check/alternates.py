"""Check hreflang annotations within a file, and collect the links that other pages must return."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import joined, mask_of, numbers_of
from sitemap_etl.check.entities import resolved
from sitemap_etl.check.locs import canonical_origin, check_addresses
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan
from sitemap_etl.check.schema import LINK, odd_attributes
from sitemap_etl.check.urlset import ABSOLUTE, Entries
from sitemap_etl.extensions import hreflang_tag
from sitemap_etl.hashes import combine, hash64
from sitemap_etl.limits import NS_XHTML

_USUAL: Final = r'^<[^\s]+\s+rel="alternate"\s+hreflang="(?P<hreflang>[^"]*)"\s+href="(?P<href>[^"]*)"\s*/?>$'
_BLOCK: Final = 1 << 14
"""Tags that are examined at a time."""
_ATTRIBUTES: Final = ("rel", "hreflang", "href", "media")
_APP: Final = r"^(?i)(?:android|ios)-app:"
"""Beginning of the address of a page in an app, which Google accepts beside languages."""


@dataclass
class Links:
    """Links between pages, each by the hashes of the two URLs.

    at: byte offset of the link.
    host: the `host_keys` of the target's origin.
    """

    source: np.ndarray
    target: np.ndarray
    at: np.ndarray
    host: np.ndarray


def host_keys(origins: Iterable[str]) -> np.ndarray:
    """Return 32-bit hashes of origins."""
    return hash64(pa.array(list(origins), pa.string())).astype(np.uint32)


def check_alternates(scan: Scan, found: Entries, locs: Any, faults: Faults) -> Links | None:
    """Report faults of the alternates of all entries; the links to other pages. `locs`: trimmed, one an entry.

    An alternate is for a language (`hreflang`), for a kind of screen (`media`), or the page in an app.
    """
    ids = scan.ids(NS_XHTML, "link")
    if not len(ids):
        return None
    links, page = scan.children(found.elements, ids)
    at = scan.start[links].astype(np.int64)
    starts = range(0, len(links), _BLOCK)
    blocks = [_complete(scan, links[first : first + _BLOCK], at[first : first + _BLOCK], faults) for first in starts]
    is_kept, has_medium = (np.concatenate([np.empty(0, bool), *(block[part] for block in blocks)]) for part in (0, 1))
    if not is_kept.any():
        return None
    page, at = page[is_kept], at[is_kept]
    tag, href = (joined([block[part] for block in blocks], pa.string()) for part in (2, 3))
    del blocks
    absolute = mask_of(pc.match_substring_regex(href, ABSOLUTE))
    faults.rows("hreflang-href", ~absolute, href, at)
    rows = np.flatnonzero(absolute)
    origins, codes = check_addresses("hreflang-url", _taken(href, rows), at[rows], faults, unlikely="hreflang-unlikely")
    hosts = np.zeros(len(href), np.uint32)
    hosts[rows] = np.append(host_keys(canonical_origin(text) for text in origins), np.zeros(2, np.uint32))[codes]
    own, target = hash64(locs), hash64(href)
    spoken = np.flatnonzero(mask_of(tag.is_valid()) & ~has_medium)
    page, at, target, hosts, absolute = page[spoken], at[spoken], target[spoken], hosts[spoken], absolute[spoken]
    del href
    tag = pc.utf8_lower(_taken(tag, spoken))
    hosts[mask_of(pc.equal(tag, "x-default"))] = 0  # a page to choose a language on need not be listed
    _tags(tag, at, faults)
    _languages(tag, target, page, at, faults)
    is_self = target == own[page]
    has_self = np.zeros(len(own), bool)
    has_self[page[is_self]] = True
    alone = np.zeros(len(own), bool)
    alone[page] = True
    faults.rows("hreflang-no-self", alone & ~has_self, locs, found.at)
    out = ~is_self & absolute
    return Links(own[page][out], target[out], at[out], hosts[out])


def _taken(column: Any, rows: np.ndarray) -> Any:
    return column if len(rows) == len(column) else column.take(pa.array(rows))


def _complete(scan: Scan, links: np.ndarray, at: np.ndarray, faults: Faults) -> tuple[np.ndarray, np.ndarray, Any, Any]:
    """Return which links are complete and lead to a page, and of these which have a medium, and hreflang and href."""
    tags = scan.tag(links)
    rel, tag, href, media = _attributes(tags, at, faults)
    href = pc.utf8_trim_whitespace(href)
    is_alternate = pc.fill_null(pc.equal(rel, "alternate"), True)
    is_app = pc.fill_null(pc.match_substring_regex(href, _APP), False)
    purpose = pc.or_(pc.or_(tag.is_valid(), media.is_valid()), is_app)
    complete = pc.and_(pc.and_(is_alternate, rel.is_valid()), pc.and_(purpose, href.is_valid()))
    faults.rows("hreflang-incomplete", pc.and_not(is_alternate, complete), tags, at)
    kept = mask_of(pc.and_not(complete, is_app))
    rows = np.flatnonzero(kept)
    return kept, mask_of(media.is_valid())[rows], _taken(tag, rows), _taken(href, rows)


def _attributes(tags: Any, at: np.ndarray, faults: Faults) -> tuple[Any, Any, Any, Any]:
    """Return rel, hreflang, href and media of each tag, with nulls. Report other attributes."""
    usual = pc.extract_regex(tags, _USUAL)
    tag, href = (pc.struct_field(usual, name) for name in ("hreflang", "href"))
    rel = pc.if_else(tag.is_valid(), "alternate", pa.scalar(None, pa.string()))
    media = pa.nulls(len(tags), pa.string())
    odd = tag.is_null()
    if pc.any(odd).as_py():
        others = tags.filter(odd)
        faults.rows("attribute-unknown", odd_attributes(others, LINK), others, at[mask_of(odd)])
        rel, tag, href, media = (
            pc.replace_with_mask(known, odd, _attribute(others, name))
            for known, name in zip((rel, tag, href, media), _ATTRIBUTES, strict=True)
        )
    return rel, tag, resolved(href), media


def _attribute(tags: Any, name: str) -> Any:
    """Return the value of one attribute of each tag as written, null if it is missing."""
    value = r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')"
    before = r"^<[^\s]+(?:\s+[^\s=]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*?"
    found = pc.extract_regex(tags, rf"{before}\s+{name}\s*=\s*{value}")
    double, single = (pc.struct_field(found, quote) for quote in ("double", "single"))
    return pc.if_else(pc.equal(double, ""), single, double)


def _tags(tags: Any, at: np.ndarray, faults: Faults) -> None:
    encoded = tags.dictionary_encode()
    known = encoded.dictionary
    blocks = (known[first : first + _BLOCK].to_pylist() for first in range(0, len(known), _BLOCK))
    odd = ("_" in text or text != text.strip() or hreflang_tag(text) is None for block in blocks for text in block)
    bad = np.fromiter(odd, bool, len(known))
    faults.rows("hreflang-invalid", bad[numbers_of(encoded.indices)], encoded, at)


def _languages(tags: Any, target: np.ndarray, page: np.ndarray, at: np.ndarray, faults: Faults) -> None:
    """Report pages that name a language twice."""
    key = combine([page.astype(np.uint64), hash64(tags)])
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    if not same.any():
        return
    again, differs = np.zeros(len(page), bool), np.zeros(len(page), bool)
    again[order[1:]] = same
    differs[order[1:]] = same & (target[order][1:] != target[order][:-1])
    default = mask_of(pc.equal(tags, "x-default"))
    faults.rows("hreflang-default-twice", again & default, tags, at)
    faults.rows("hreflang-two-urls", differs & ~default, tags, at)
