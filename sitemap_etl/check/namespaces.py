"""Which namespace a prefix stands for, anywhere in a document."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from sitemap_etl.check.marks import marked, unescaped

TAG: Final = re.compile(rb"<(?:[^\"'>]|\"[^\"]*\"|'[^']*')*>")
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


def prefixes_of(data: bytes) -> dict[str, str]:
    """What each prefix stands for; `flat` has seen to it that one prefix means one namespace."""
    found = {"xml": "http://www.w3.org/XML/1998/namespace"}
    for prefix, uri, _ in _declarations(data):
        found.setdefault(prefix, uri)
    return found


def flat(data: bytes, prefixes: dict[str, str]) -> bytes:
    """The document such that one prefix means one namespace; nearly always as it is.

    Where namespaces change their prefix on the way, all are declared on the root under `prefixes`. Newlines in
    text stay, so lines are about true.
    """
    plain = marked(data)
    root = TAG.search(plain)
    assert root is not None  # the document is well-formed
    meanings: dict[str, str] = {}
    moved = False
    for prefix, uri, at in _declarations(plain):
        late_default = prefix == "" and prefix not in meanings and at > root.end()
        moved |= late_default or meanings.setdefault(prefix, uri) != uri
    if not moved:
        return data
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    tree = etree.fromstring(data, parser)
    etree.cleanup_namespaces(tree, top_nsmap=prefixes)
    return etree.tostring(tree, encoding="UTF-8", xml_declaration=False)
