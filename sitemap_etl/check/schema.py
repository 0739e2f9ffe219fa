"""Check the places of elements and their attributes, with the XSDs as one table.

An element is looked up by its name and its parent's name, so the cost of a file depends only on its distinct names.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from sitemap_etl.check.report import Faults
from sitemap_etl.check.scan import Name, Scan
from sitemap_etl.check.shapes import SHAPES
from sitemap_etl.limits import NS_GEO, NS_IMAGE, NS_MOBILE, NS_NEWS, NS_SITEMAP, NS_VIDEO, NS_XHTML

EXTENSIONS: Final = frozenset({NS_IMAGE, NS_VIDEO, NS_NEWS, NS_XHTML, NS_MOBILE, NS_GEO})
"""Namespaces with elements in the table."""
_ALSO_KNOWN: Final = frozenset(
    {
        "http://www.google.com/schemas/sitemap-pagemap/1.0",
        "http://www.google.com/codesearch/schemas/sitemap/1.0",
        "http://www.baidu.com/schemas/sitemap-mobile/1/",
        "http://www.w3.org/2001/XMLSchema-instance",
    }
)
_URL: Final = ((NS_SITEMAP, "url"),)
_ENTRY: Final = (*_URL, (NS_SITEMAP, "sitemap"))
_PLACES: Final[dict[tuple[str, str], tuple[tuple[str, str], ...]]] = {
    (NS_SITEMAP, "url"): ((NS_SITEMAP, "urlset"),),
    (NS_SITEMAP, "sitemap"): ((NS_SITEMAP, "sitemapindex"),),
    (NS_SITEMAP, "loc"): _ENTRY,
    (NS_SITEMAP, "lastmod"): _ENTRY,
    (NS_SITEMAP, "changefreq"): _URL,
    (NS_SITEMAP, "priority"): _URL,
    (NS_IMAGE, "image"): _URL,
    (NS_VIDEO, "video"): _URL,
    (NS_NEWS, "news"): _URL,
    (NS_XHTML, "link"): _URL,
    (NS_MOBILE, "mobile"): _URL,
    (NS_GEO, "geo"): _URL,
    (NS_GEO, "format"): ((NS_GEO, "geo"),),
} | {(shape.uri, part.name): ((shape.uri, shape.name),) for shape in SHAPES for part in shape.parts}
"""(namespace, name) → elements that can contain it."""
_ANYTHING: Final = frozenset({"urlset", "url", "sitemapindex", "sitemap"})
"""Elements of the protocol that can contain elements of any other namespace."""

LINK: Final = (NS_XHTML, "link")
_LINK: Final = "charset href hreflang type rel rev media id class style title lang xml:lang dir on[a-z]+"
_ATTRIBUTES: Final[dict[tuple[str, str], str]] = {LINK: _LINK} | {
    (shape.uri, part.name): part.attributes for shape in SHAPES for part in shape.parts if part.attributes
}
_ALWAYS: Final = r"xmlns xmlns:[^\s=]+ [^\s=:]+:(?:schemaLocation|noNamespaceSchemaLocation|type|nil)"
"""Declarations, and the attributes of XML Schema itself."""
_PAIRS: Final = 1 << 22
"""Pairs of names that are counted in a table. With more names, they are sorted."""


def check_names(scan: Scan, faults: Faults, ours: str) -> None:
    """Report prefixes without a namespace, misspelt and unknown extensions, text between elements.

    `ours`: the namespace that the elements of the protocol are in.
    """
    known_uris = {ours, "", *EXTENSIONS, *_ALSO_KNOWN}
    odd = [number for number, name in enumerate(scan.names) if name.uri not in known_uris]
    rows = np.flatnonzero(np.isin(scan.name, odd)) if odd else np.empty(0, np.int64)
    used, first, counts = np.unique(scan.name[rows], return_index=True, return_counts=True)
    for number, row, count in zip(used.tolist(), rows[first].tolist(), counts.tolist(), strict=True):
        name = scan.names[number]
        known = {"at": int(scan.start[row]), "count": count}
        if name.uri is None:
            faults.add("prefix-undeclared", **known, example=f"<{name.written}>", detail=name.written.partition(":")[0])
        else:
            code = "extension-namespace" if _misspelt(name.uri) else "extension-unknown"
            faults.add(code, **known, example=f"<{name.written}>", detail=name.uri)
    for at, text in scan.strays:
        faults.add("text-stray", at=at, example=text)


def _misspelt(uri: str) -> bool:
    """Return True if a namespace is a misspelling of a known one, or the protocol's own in place of an extension."""
    near = uri.lower()
    words = ("sitemap-image", "sitemap-video", "sitemap-news", "/xhtml", "schemas/sitemap/")
    return any(word in near for word in words)


def check_places(scan: Scan, faults: Faults, ours: str) -> None:
    """Report elements that the schema does not have, or not in this place."""
    count = len(scan.names)
    pairs = scan.name[1:].astype(np.int64) * count + scan.name[scan.parent[1:]]
    few = count * count <= _PAIRS
    found = np.flatnonzero(np.bincount(pairs, minlength=1)) if few else np.unique(pairs)
    names = [_as_ours(name, ours) for name in scan.names]
    wrong = [pair for pair in found.tolist() if not _fits(names[pair // count], names[pair % count])]
    if wrong:
        hits = np.flatnonzero(np.isin(pairs, wrong)) + 1
        first, around = (scan.names[scan.name[at]].written for at in (hits[0], scan.parent[hits[0]]))
        faults.add("element-unknown", at=int(scan.start[hits[0]]), example=f"<{first}> in <{around}>", count=len(hits))


def _as_ours(name: Name, ours: str) -> Name:
    return name._replace(uri=NS_SITEMAP) if name.uri == ours else name


def _fits(name: Name, around: Name) -> bool:
    """Return True if an element can be directly in another. Faults of its namespace are reported elsewhere."""
    if name.uri is None or around.uri is None:
        return True
    if name.uri == NS_SITEMAP or (name.uri in EXTENSIONS and (around.uri == NS_SITEMAP or around.uri in EXTENSIONS)):
        return (around.uri, around.local) in _PLACES.get((name.uri, name.local), ())
    if around.uri == NS_SITEMAP:
        return name.uri != "" and around.local in _ANYTHING  # "##other" excludes elements without a namespace
    return around.uri not in EXTENSIONS


def check_attributes(scan: Scan, faults: Faults, ours: str) -> None:
    """Report attributes that the schema does not have, except for links (`check_alternates`)."""
    elements = scan.attributed()
    numbers = defaultdict(list)
    for number in np.unique(scan.name[elements]).tolist():
        name = _as_ours(scan.names[number], ours)
        key = (name.uri or "", name.local)
        if key != LINK and (key in _PLACES or (name.uri == NS_SITEMAP and name.local in _ANYTHING)):
            numbers[key].append(number)
    for key, same in numbers.items():
        chosen = elements[np.isin(scan.name[elements], same)]
        tags = scan.tag(chosen)
        faults.rows("attribute-unknown", odd_attributes(tags, key), tags, scan.start[chosen])


def odd_attributes(tags: Any, key: tuple[str, str]) -> Any:
    """Return the tags of one element that have attributes outside the schema (boolean)."""
    allowed = "|".join(f"{_ALWAYS} {_ATTRIBUTES.get(key, '')}".split())
    pattern = rf"^<[^\s/>]+(?:\s+(?:{allowed})\s*=\s*(?:\"[^\"]*\"|'[^']*'))*\s*/?>$"
    return pc.invert(pc.match_substring_regex(tags, pattern))
