"""Scan a well-formed XML document into columns with one row for each element, without building a tree.

In well-formed XML, every "<" begins a tag. So the positions of "<" and ">" divide the document into tags and the gaps
between them, for the whole file at once. No Python code runs for each element. Comments, CDATA and ">" inside a value
would break this, so they are marked before (`marks`). If a prefix has different namespaces in different places, a
parser finds the namespace of each element. Otherwise, the first declaration is used.
"""

from __future__ import annotations

import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple
from xml.parsers import expat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.arrow import data_of, joined, mask_of, numbers_of, offsets_of, over
from sitemap_etl.check.entities import resolved, unescaped
from sitemap_etl.check.marks import GT, marked
from sitemap_etl.frozen import Frozen

_NAME: Final = r"^</?(?P<name>[^\s/>]+)"
_FILLED: Final = "[^ \t\r\n\x02]"
DEPTH: Final = 64
"""Maximum depth of elements. A sitemap has five levels, and the work grows with the depth."""
_BLOCK: Final = 1 << 18
"""Bytes or tags that are processed together, so that temporary arrays stay small."""
_TEXTS: Final = 1 << 14
"""Texts that are resolved together: as many are copied for each kind of entity."""
_SHORT: Final = 40
"""Bytes up to which a tag is compared as a whole. Longer tags have attributes, and are cut at the first blank."""
_TAG: Final = re.compile(rb"<[^\"'>]*(?:(?:\"[^\"]*\"|'[^']*')[^\"'>]*)*>")
_ATTRIBUTE: Final = re.compile(rb"\s([^\s=]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_STRAYS: Final = 1_000
"""Texts between elements that are kept."""
_XML: Final = "http://www.w3.org/XML/1998/namespace"


class TooDeep(Exception):
    """The elements are nested too deeply for a sitemap."""


class Name(NamedTuple):
    """Namespace of an element (None if its prefix is undeclared), its local name, and its name as written."""

    uri: str | None
    local: str
    written: str


@dataclass
class Scan:
    """The elements of a document, in its order; all arrays have one value an element.

    `name` is an index into `names`, `depth` 1 for the root, `parent` the parent's index (-1 for the root), `start` the
    byte offset of its "<". `leaf`: True for elements without child elements.
    """

    names: list[Name]
    name: np.ndarray
    depth: np.ndarray
    parent: np.ndarray
    start: np.ndarray
    leaf: np.ndarray
    strays: list[tuple[int, str]]
    """Text between elements: byte offset and text, the first few."""
    _token: np.ndarray
    _empty: np.ndarray
    _pieces: Any

    @cached_property
    def root(self) -> Name:
        return self.names[int(self.name[0])]

    @cached_property
    def _of_uri(self) -> dict[str | None, list[int]]:
        found: dict[str | None, list[int]] = defaultdict(list)
        for number, name in enumerate(self.names):
            found[name.uri].append(number)
        return found

    @cached_property
    def _of_name(self) -> dict[tuple[str | None, str], list[int]]:
        found: dict[tuple[str | None, str], list[int]] = defaultdict(list)
        for number, name in enumerate(self.names):
            found[name.uri, name.local].append(number)
        return found

    def ids(self, uri: str, *local: str) -> np.ndarray:
        """Return the indexes in `names` of these elements, or of all elements in the namespace."""
        if not local:
            return np.array(self._of_uri.get(uri, []), int)
        return np.array([number for one in local for number in self._of_name.get((uri, one), [])], int)

    def children(self, parents: np.ndarray, ids: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the elements directly below `parents` (ascending), and for each which of the parents is its own.

        `ids`: only elements of these names.
        """
        place = np.full(len(self.name), -1, np.int64)
        place[parents] = np.arange(len(parents))
        below = self.parent >= 0
        below[below] = place[self.parent[below]] >= 0
        if ids is not None:
            below &= np.isin(self.name, ids)
        found = np.flatnonzero(below)
        return found, place[self.parent[found]]

    def text(self, elements: np.ndarray) -> Any:
        """Return the text of leaves with resolved entities: a string array with one value for each element."""
        tokens, absent = self._token[elements] * 2 + 1, self._empty[elements] | ~self.leaf[elements]
        blocks = (slice(at, at + _TEXTS) for at in range(0, len(elements), _TEXTS))
        gaps = (pa.array(tokens[block], mask=absent[block]) for block in blocks)
        return joined([resolved(pc.fill_null(self._pieces.take(gap), "")) for gap in gaps], pa.string())

    def tag(self, elements: np.ndarray) -> Any:
        """Return the tags as written, from "<" to ">": a string array."""
        return self._pieces.take(pa.array(self._token[elements] * 2))

    def attributed(self) -> np.ndarray:
        """Return the elements whose tags hold more than their name (ascending)."""
        offsets = offsets_of(self._pieces)
        lengths = offsets[self._token * 2 + 1] - offsets[self._token * 2]
        bare = np.array([len(name.written.encode()) + 2 for name in self.names])
        return np.flatnonzero(lengths > bare[self.name] + self._empty)


def scan(document: Flat) -> Scan:
    """Return the elements of a document that is UTF-8, well-formed and has a root. Raise `TooDeep`."""
    data = document.marked
    starts, ends = _positions(data, ord("<")), _positions(data, ord(">"))
    if len(ends) != len(starts) or not ((starts < ends).all() and (ends[:-1] < starts[1:]).all()):
        data, ends = _ends(data, starts, ends)
    pieces = _pieces(data, starts, ends)
    starts, stops = offsets_of(pieces)[:-1:2], offsets_of(pieces)[1::2]
    del ends
    names, name = _names(document.prefixes, pieces, starts, stops)
    bytes_ = np.frombuffer(data, np.uint8)
    closing = bytes_[starts + 1] == ord("/")
    empty = bytes_[stops - 2] == ord("/")
    level = np.cumsum((~closing & ~empty).astype(np.int8) - closing, dtype=np.int32)
    if int(level.max()) > DEPTH:
        raise TooDeep(f"{int(level.max()):,} levels")
    opening = ~closing
    leaf = opening & (empty | np.append(closing[1:], False))
    strays = _strays(pieces, stops, ~leaf | empty)
    token = np.flatnonzero(opening).astype(np.int32)
    name = name[token]
    if document.moved:
        names, name = _resolved(document, names, name)
    depth = (level + empty)[token].astype(np.int8)
    return Scan(
        names=names,
        name=name,
        depth=depth,
        parent=_parents(depth),
        start=starts[token],
        leaf=leaf[token],
        strays=strays,
        _token=token,
        _empty=empty[token],
        _pieces=pieces,
    )


def _positions(data: bytes, byte: int) -> np.ndarray:
    """Return the offsets of a byte in the data: int32."""
    bytes_ = np.frombuffer(data, np.uint8)
    blocks = ((at, np.flatnonzero(bytes_[at : at + _BLOCK] == byte)) for at in range(0, len(data), _BLOCK))
    return np.concatenate([(found + at).astype(np.int32) for at, found in blocks])


def _ends(data: bytes, starts: np.ndarray, ends: np.ndarray) -> tuple[bytes, np.ndarray]:
    """Return the data with every ">" marked that ends no tag, and the position of the one that does, for each tag."""
    owner = np.searchsorted(starts, ends, "right") - 1
    first = np.searchsorted(owner, np.arange(len(starts)))
    true = ends[first]
    many = np.flatnonzero(np.bincount(owner[owner >= 0], minlength=len(starts)) != 1)
    changed = bytearray(data)
    for tag in many.tolist():
        whole = _TAG.match(data, int(starts[tag]))
        assert whole is not None  # the document is well-formed
        true[tag] = whole.end() - 1
        stop = int(starts[tag + 1]) if tag + 1 < len(starts) else len(data)
        changed[starts[tag] : stop] = (
            data[starts[tag] : true[tag]].replace(b">", GT) + b">" + data[true[tag] + 1 : stop].replace(b">", GT)
        )
    return bytes(changed), true


def _pieces(data: bytes, starts: np.ndarray, ends: np.ndarray) -> Any:
    """Return tags and gaps in turn, without copying: piece 2i is tag i, piece 2i + 1 the text after it."""
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends + 1
    offsets[-1] = len(data)
    return over(pa.string(), offsets, data)


def _names(
    prefixes: dict[str, str], pieces: Any, starts: np.ndarray, stops: np.ndarray
) -> tuple[list[Name], np.ndarray]:
    """Return the names that occur, and for each tag which it is."""
    numbers: dict[str, int] = {}
    names: list[Name] = []

    def number(written: str) -> int:
        if written not in numbers:
            prefix, colon, local = written.rpartition(":")
            uri = prefixes.get(prefix) if colon else prefixes.get("", "")
            numbers[written] = len(names)
            names.append(Name(uri, local, written))
        return numbers[written]

    name = np.empty(len(starts), np.int32)
    for at in range(0, len(starts), _BLOCK):
        short = stops[at : at + _BLOCK] - starts[at : at + _BLOCK] <= _SHORT
        for chosen, cut in ((np.flatnonzero(short) + at, False), (np.flatnonzero(~short) + at, True)):
            if not len(chosen):
                continue
            tags = pieces.take(pa.array(chosen * 2))
            if cut:
                tags = _heads(tags)
            encoded = tags.dictionary_encode()
            written = pc.struct_field(pc.extract_regex(encoded.dictionary, _NAME), "name").dictionary_encode()
            codes = np.array([number(one) for one in written.dictionary.to_pylist()], np.int32)
            name[chosen] = codes[numbers_of(written.indices)][numbers_of(encoded.indices)]
    return names, name


def _heads(tags: Any) -> Any:
    """Return each tag up to its first blank."""
    blanks, offsets = numbers_of(pc.find_substring(tags, pattern=" ")), offsets_of(tags)
    cut = np.empty(2 * len(tags) + 1, np.int32)
    cut[::2] = offsets
    cut[1::2] = np.where(blanks >= 0, offsets[:-1] + blanks, offsets[1:])
    return over(pa.string(), cut, data_of(tags)).take(pa.array(np.arange(0, 2 * len(tags), 2)))


def _parents(depth: np.ndarray) -> np.ndarray:
    """Return the parent of each element: the last element before it that is one level higher. -1 for the root."""
    parent = np.full(len(depth), -1, np.int32)
    above = np.flatnonzero(depth == 1)
    for level in range(2, int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        parent[here] = above[np.searchsorted(above, here) - 1]
        above = here
    return parent


def _strays(pieces: Any, stops: np.ndarray, outside: np.ndarray) -> list[tuple[int, str]]:
    """Return position and text of the first gaps that contain text although only blanks are allowed there.

    outside: True for each tag after which only blanks are allowed.
    """
    strays: list[tuple[int, str]] = []
    for at in range(0, len(outside), _BLOCK):
        gaps = np.flatnonzero(outside[at : at + _BLOCK]) + at
        texts = pieces.take(pa.array(gaps * 2 + 1)).dictionary_encode()
        odd = np.flatnonzero(mask_of(pc.match_substring_regex(texts.dictionary, _FILLED)))
        if len(odd):
            where = np.flatnonzero(np.isin(numbers_of(texts.indices), odd))[: _STRAYS - len(strays)]
            strays += [(int(stops[gaps[i]]), texts[int(i)].as_py().strip(" \t\r\n\x02")) for i in where]
    return strays


# --- namespaces ---


def _declarations(data: bytes) -> Iterator[tuple[str, str, bool]]:
    """Return prefix ("" for the default) and namespace of every declaration, and whether it is on the root.

    `data` is marked, so that a "<" begins a tag. However many there are, each byte is read a few times.
    """
    root, done = True, 0
    at = data.find(b"xmlns")
    while at >= 0:
        begin = data.rfind(b"<", done, at)
        tag = _TAG.match(data, begin) if begin >= 0 else None
        if tag is not None and tag.end() > at:
            root = root and not data.count(b"<", 0, begin)
            for name, double, single in _ATTRIBUTE.findall(tag[0]):
                attribute, _, prefix = name.partition(b":")
                if attribute == b"xmlns":
                    yield prefix.decode(), unescaped((double or single).decode()), root
            done = tag.end()
        else:  # it stands in a text
            done = data.find(b"<", at)
            if done < 0:
                return
        at = data.find(b"xmlns", done)


class Flat(Frozen):
    """Document with the namespaces of its prefixes. `marked` is `data` with marks.

    moved: True if a prefix has different namespaces in different places, or none in some; `prefixes` then has the first
    one.
    """

    data: bytes
    marked: bytes
    prefixes: dict[str, str]
    moved: bool = False


def flat(data: bytes, *, scoped: bool = False) -> Flat:
    """Return the document with what disturbs a scan marked; it is well-formed, with a root.

    `scoped`: True if a prefix is used outside of the elements that declare it.
    """
    plain = marked(data)
    meanings = {"xml": _XML}
    moved = scoped
    for prefix, uri, on_root in _declarations(plain):
        late_default = not on_root and prefix == "" and prefix not in meanings
        moved |= late_default or meanings.setdefault(prefix, uri) != uri
    return Flat(data, plain, meanings, moved)


def _resolved(document: Flat, names: list[Name], name: np.ndarray) -> tuple[list[Name], np.ndarray]:
    """Return the names with their namespaces, and the number of each element's name."""
    scope: dict[str, list[str]] = defaultdict(list, {"xml": [_XML], "": [""]})
    declared: list[tuple[str, ...]] = []
    numbers: dict[str | None, int] = {}
    found = array("i")

    def start(written: str, attributes: dict[str, str]) -> None:
        here = tuple(key[6:] for key in attributes if key == "xmlns" or key.startswith("xmlns:"))
        for prefix in here:
            scope[prefix].append(attributes[f"xmlns:{prefix}" if prefix else "xmlns"])
        declared.append(here)
        meanings = scope[written.rpartition(":")[0]]
        found.append(numbers.setdefault(meanings[-1] if meanings else None, len(numbers)))

    def end(_written: str) -> None:
        for prefix in declared.pop():
            scope[prefix].pop()

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.Parse(document.data, True)
    uris = list(numbers)
    pairs, each = np.unique(name.astype(np.int64) * len(uris) + np.asarray(found), return_inverse=True)
    again = [names[pair // len(uris)]._replace(uri=uris[pair % len(uris)]) for pair in pairs.tolist()]
    return again, each.astype(np.int32)
