"""Check RSS 2.0 and Atom 1.0 feeds that serve as sitemaps."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urljoin

import numpy as np
import pyarrow as pa
from lxml import etree

from sitemap_etl.check.bounds import ROWS
from sitemap_etl.check.document import Kind
from sitemap_etl.check.report import Faults
from sitemap_etl.dates import RFC822, RFC3339, read
from sitemap_etl.extensions import escaped_twice

_ADDRESS: Final = re.compile(r"https?://", re.IGNORECASE)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_ATOM: Final = "{http://www.w3.org/2005/Atom}"
_ATOM_03: Final = "{http://purl.org/atom/ns#}"
_BLOCK: Final = 1 << 16
"""Bytes that are parsed before elements are removed."""
_FIELDS: Final = frozenset({"channel", "title", "link", "description", "guid", "pubDate", "id", "updated", "published"})
"""Elements that are kept until their item ends, the first of each. All others can be removed."""
_PARTS: Final = 1_000
"""Elements in a field that are kept because of their text."""


def check_feed(data: bytes, kind: Kind, faults: Faults) -> tuple[pa.Array, np.ndarray]:
    """Return the links of a feed's items and their places (byte offsets of their lines); faults are reported."""
    items = _items(data, faults)
    try:
        found = _links(next(items), items, kind, faults)
        deque(items, 0)  # a feed of another version is read to its end too
    except etree.XMLSyntaxError as error:  # of a namespace: a tree needs what well-formedness does not
        faults.add("xml-malformed", line=error.lineno, detail=error.msg.partition(", line ")[0] if error.msg else "")
        found = []
    assert faults.lines is not None
    at = np.array([faults.lines.offset(line, 1) for _, line in found], np.int64)
    return pa.array([text for text, _ in found], pa.string()), at


def _items(data: bytes, faults: Faults) -> Iterator[etree._Element]:
    """Yield the root at its start, then each item or entry at its end. Elements that were read are removed."""
    parser = etree.XMLPullParser(
        ("start", "end"),
        tag=[f"{{*}}{name}" for name in ("rss", "feed", "RDF", "item", "entry")],
        remove_comments=True,
        remove_pis=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
    )
    root: etree._Element | None = None
    count = 0
    for at in range(0, len(data), _BLOCK):
        parser.feed(data[at : at + _BLOCK])
        for event, found in parser.read_events():
            element: Any = found  # the stubs also know events without an element
            if root is None:
                root = element
                yield root
            elif event == "end" and element is not root:
                count += 1
                if count <= ROWS:
                    yield element
                elif count == ROWS + 1:
                    faults.add("partly-read", line=_line(element), detail=f"it has more than {ROWS:,} entries")
        if root is not None:
            _prune(root)
    parser.close()


def _prune(root: etree._Element) -> None:
    """Remove the elements that have ended and are not needed later. The last one at each level may still be open."""
    node = root
    while len(node) and not (_is_field(node) and len(node) < _PARTS):
        seen = set()
        for child in list(node)[:-1]:
            key = child.tag, child.get("rel", "alternate") == "alternate"
            if key in seen or not _is_field(child):
                node.remove(child)
            seen.add(key)
        node = node[-1]


def _is_field(element: etree._Element) -> bool:
    return str(element.tag).rpartition("}")[2] in _FIELDS  # the tag of an entity is a function


def _links(root: etree._Element, items: Iterator[etree._Element], kind: Kind, faults: Faults) -> list[tuple[str, int]]:
    """Return the links of the items, each with its line."""
    if kind == "atom" and root.tag.startswith(_ATOM):
        return _atom(root, items, faults)
    if kind == "rss":
        return _rss(root, items, faults)
    if root.tag.startswith(_ATOM_03):
        faults.add("feed-obsolete", line=_line(root), example=root.tag)
        return _atom_03(root, items, faults)
    faults.add("feed-version", line=_line(root), example=root.tag)
    return []


def _text(element: etree._Element, name: str) -> str | None:
    """Return the text of a child, or None if it is missing or empty."""
    child = element.find(name)
    if child is None:
        return None
    text = "".join(str(part) for part in child.itertext()).strip()
    return text or None


def _line(element: etree._Element) -> int:
    line: Any = element.sourceline  # an untyped property in the stubs
    return int(line or 1)


def _permalink(item: etree._Element) -> str | None:
    """Return the guid of an item if it is the item's address, which is the default (RSS 2.0), or None."""
    guid = item.find("guid")
    if guid is None or guid.get("isPermaLink", "true").strip().lower() != "true":
        return None
    text = _text(item, "guid")
    return text if text and _ADDRESS.match(text) else None


def _resolved(element: etree._Element, link: str) -> str:
    """Return a link as a full URL if an `xml:base` has its base."""
    base = element.base
    try:
        return urljoin(base, link) if base and _ADDRESS.match(base) and not _SCHEME.match(link) else link
    except ValueError:
        return link


def _rss(root: etree._Element, items: Iterator[etree._Element], faults: Faults) -> list[tuple[str, int]]:
    version = root.get("version")
    if version != "2.0":
        faults.add("feed-version", line=_line(root), example=f'<rss version="{version or ""}">')
    found: list[tuple[str, int]] = []
    dates: list[tuple[str, int]] = []
    for item in items:
        if item.tag != "item" or item.getparent() is not root.find("channel"):
            continue
        link = _text(item, "link") or _permalink(item)
        if link is None:
            faults.add("feed-no-link", line=_line(item), example=_text(item, "title") or "")
        else:
            found.append((_resolved(item, link), _line(item)))
        _check_title(item, "title", faults)
        if _text(item, "title") is None and _text(item, "description") is None:
            faults.add("feed-incomplete", line=_line(item), detail="an item has neither title nor description")
        date = _text(item, "pubDate")
        if date is None:
            faults.add("feed-no-date", line=_line(item), example=link or "")
        else:
            dates.append((date, _line(item)))
    _check_dates(dates, RFC822, faults)
    channel = root.find("channel")
    if channel is None:
        faults.add("feed-incomplete", line=_line(root), detail="no channel")
        return found
    for name in ("title", "link", "description"):
        if _text(channel, name) is None:
            faults.add("feed-incomplete", line=_line(channel), detail=f"the channel has no {name}")
    return found


def _atom(root: etree._Element, items: Iterator[etree._Element], faults: Faults) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    dates: list[tuple[str, int]] = []
    for entry in items:
        if entry.tag != _ATOM + "entry" or entry.getparent() is not root:
            continue
        _required(entry, "an entry", faults)
        _check_title(entry, _ATOM + "title", faults)
        links = [link for link in entry.iterfind(_ATOM + "link") if link.get("rel", "alternate") == "alternate"]
        href = links[0].get("href") if links else None
        if not href:
            faults.add("feed-no-link", line=_line(entry), example=_text(entry, _ATOM + "title") or "")
        else:
            found.append((_resolved(links[0], str(href)), _line(entry)))
        if _text(entry, _ATOM + "updated") is None:
            faults.add("feed-no-date", line=_line(entry), example=str(href or ""))
        for name in ("updated", "published"):
            date = _text(entry, _ATOM + name)
            if date is not None:
                dates.append((date, _line(entry)))
    _check_dates(dates, RFC3339, faults)
    _required(root, "the feed", faults)
    return found


def _atom_03(root: etree._Element, items: Iterator[etree._Element], faults: Faults) -> list[tuple[str, int]]:
    """Return the links of an Atom 0.3 feed, which some readers still take. Its rules are not checked."""
    found: list[tuple[str, int]] = []
    for entry in items:
        if entry.tag != _ATOM_03 + "entry" or entry.getparent() is not root:
            continue
        links = [link for link in entry.iterfind(_ATOM_03 + "link") if link.get("rel", "alternate") == "alternate"]
        href = links[0].get("href") if links else None
        if href:
            found.append((_resolved(links[0], str(href)), _line(entry)))
        else:
            faults.add("feed-no-link", line=_line(entry), example=_text(entry, _ATOM_03 + "title") or "")
    return found


def _required(element: etree._Element, what: str, faults: Faults) -> None:
    for name in ("id", "title", "updated"):
        if name == "updated" and what == "an entry":
            continue  # counted as feed-no-date
        if _text(element, _ATOM + name) is None:
            faults.add("feed-incomplete", line=_line(element), detail=f"{what} has no {name}")


def _check_title(item: etree._Element, name: str, faults: Faults) -> None:
    """Report a title in which readers see entities. A title of Atom that says it is HTML can have some."""
    title, text = item.find(name), _text(item, name)
    if title is None or text is None or title.get("type", "text") != "text":
        return
    if "&" in text and escaped_twice(pa.array([text])).any():
        faults.add("feed-title-escaped", line=_line(title), example=text)


def _check_dates(dates: list[tuple[str, int]], form: int, faults: Faults) -> None:
    """Report dates (text, line) that are invalid in the format `form`."""
    read_ = read(pa.array([text for text, _ in dates], pa.string()), form)
    bad = np.flatnonzero((read_.forms & form) == 0)
    if len(bad):
        text, line = dates[int(bad[0])]
        faults.add("feed-date", line=line, example=text, count=len(bad))
