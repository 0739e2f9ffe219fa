"""Which namespace a prefix stands for, anywhere in a document."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from lxml import etree

from sitemap_etl.check.marks import marked, unescaped
from sitemap_etl.limits import NS_IMAGE, NS_NEWS, NS_VIDEO, NS_XHTML

TAG: Final = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
_USUAL: Final = {NS_IMAGE: "image", NS_VIDEO: "video", NS_NEWS: "news", NS_XHTML: "xhtml"}
_DECLARATION: Final = re.compile(rb"xmlns(?::([^\s=]+))?\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def _declarations(data: bytes) -> list[tuple[str, str, int]]:
    """Prefix ("" for the default), namespace and position of every declaration."""
    found = []
    at = data.find(b"xmlns")
    while at >= 0:
        match = _DECLARATION.match(data, at)
        if match and data[at - 1 : at].isspace() and data.rfind(b"<", 0, at) > data.rfind(b">", 0, at):
            prefix, double, single = match.groups(b"")
            found.append((prefix.decode(), unescaped((double or single).decode()), at))
        at = data.find(b"xmlns", at + 5)
    return found


@dataclass(frozen=True)
class Flat:
    """A document such that one prefix means one namespace. `marked` is `data` with its marks (see `marks`)."""

    data: bytes
    marked: bytes
    prefixes: dict[str, str]


def flat(data: bytes) -> Flat:
    """The document, nearly always as it is: well-formed, with a root.

    Where namespaces change their prefix on the way, all are declared on the root. Newlines in text stay, so
    lines are about true.
    """
    found, moved = _read(data)
    if not moved:
        return found
    try:
        return _read(_hoisted(found))[0]
    except (etree.XMLSyntaxError, ValueError):  # a namespace that is no URI: the first meaning of each prefix must do
        return found


def _hoisted(found: Flat) -> bytes:
    """The document with all namespaces declared on the root, each under a prefix of its own."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    tree = etree.fromstring(found.data, parser)
    uris = {uri for _, uri, _ in _declarations(found.marked)} - {""}
    free = {_USUAL.get(uri, ""): uri for uri in uris if _USUAL.get(uri, "") not in {"", *tree.nsmap}}
    others = sorted(uris - set(free.values()))
    free |= {f"ns{number}": uri for number, uri in enumerate(others) if f"ns{number}" not in tree.nsmap}
    etree.cleanup_namespaces(tree, top_nsmap=free)
    return etree.tostring(tree, encoding="UTF-8", xml_declaration=False)


def _read(data: bytes) -> tuple[Flat, bool]:
    """The document with the first meaning of each prefix, and whether one has another meaning elsewhere."""
    plain = marked(data)
    root = TAG.search(plain)
    assert root is not None  # the document is well-formed
    meanings = {"xml": "http://www.w3.org/XML/1998/namespace"}
    moved = False
    for prefix, uri, at in _declarations(plain):
        late_default = prefix == "" and prefix not in meanings and at > root.end()
        moved |= late_default or meanings.setdefault(prefix, uri) != uri
    return Flat(data, plain, meanings), moved
