"""What can be wrong with hreflang annotations within a file, and the links that others must return."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import mask_of, numbers_of
from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Scan, resolved
from sitemap_etl.check.urlset import ABSOLUTE, Entries
from sitemap_etl.extensions import hreflang_tag
from sitemap_etl.hashes import combine, hash64
from sitemap_etl.limits import NS_XHTML

_USUAL: Final = r'^<[^\s]+\s+rel="alternate"\s+hreflang="(?P<hreflang>[^"]*)"\s+href="(?P<href>[^"]*)"\s*/?>$'
_ATTRIBUTE: Final = re.compile(r"\s(rel|hreflang|href)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


@dataclass
class Links:
    """Links between pages, each by the hashes of the two URLs; `at` is the byte offset of the link."""

    source: np.ndarray
    target: np.ndarray
    at: np.ndarray


def check_alternates(scan: Scan, found: Entries, locs: Any, faults: Faults) -> Links | None:
    """Report faults of the alternates of all entries; the links to other pages. `locs`: trimmed, one an entry."""
    ids = scan.ids(NS_XHTML, "link")
    if not len(ids):
        return None
    links, page = scan.children(found.elements, ids)
    at = scan.start[links]
    rel, tag, href = _attributes(scan.tag(links))
    is_alternate = pc.fill_null(pc.equal(rel, "alternate"), True)
    complete = pc.and_(pc.and_(is_alternate, rel.is_valid()), pc.and_(tag.is_valid(), href.is_valid()))
    faults.rows("hreflang-incomplete", pc.and_not(is_alternate, complete), scan.tag(links), at)
    kept = np.flatnonzero(mask_of(complete))
    if not len(kept):
        return None
    page, at = page[kept], at[kept]
    tag = pc.utf8_lower(tag.take(pa.array(kept)))
    href = pc.utf8_trim_whitespace(href.take(pa.array(kept)))
    _tags(tag, at, faults)
    relative = pc.invert(pc.match_substring_regex(href, ABSOLUTE))
    faults.rows("hreflang-href", relative, href, at)
    own, target = hash64(locs), hash64(href)
    _languages(tag, target, page, at, faults)
    is_self = target == own[page]
    has_self = np.zeros(len(own), bool)
    has_self[page[is_self]] = True
    alone = np.zeros(len(own), bool)
    alone[page] = True
    faults.rows("hreflang-no-self", alone & ~has_self, locs, found.at)
    out = ~is_self & ~mask_of(relative)
    return Links(own[page][out], target[out], at[out])


def _attributes(tags: Any) -> tuple[Any, Any, Any]:
    """rel, hreflang and href of each tag; null where it has none."""
    usual = pc.extract_regex(tags, _USUAL)
    tag, href = (pc.struct_field(usual, name) for name in ("hreflang", "href"))
    rel = pc.if_else(tag.is_valid(), "alternate", pa.scalar(None, pa.string()))
    odd = tag.is_null()
    if pc.any(odd).as_py():
        rows = [
            {name: double or single for name, double, single in _ATTRIBUTE.findall(text)}
            for text in tags.filter(odd).to_pylist()
        ]
        rel, tag, href = (
            pc.replace_with_mask(known, odd, pa.array([row.get(name) for row in rows], pa.string()))
            for known, name in ((rel, "rel"), (tag, "hreflang"), (href, "href"))
        )
    return rel, tag, resolved(href)


def _tags(tags: Any, at: np.ndarray, faults: Faults) -> None:
    encoded = tags.dictionary_encode()
    bad = np.array(
        ["_" in t or t != t.strip() or hreflang_tag(t) is None for t in encoded.dictionary.to_pylist()], bool
    )
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
