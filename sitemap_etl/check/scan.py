"""A well-formed XML document as columns: one row an element, found by searching the bytes, not by a tree.

In well-formed XML a "<" begins a tag, wherever it stands. So the positions of "<" and ">" cut the document
into tags and the gaps between them, for all of a file at once; nothing runs once per element in Python.
What disturbs this picture is marked first (see `marks`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sitemap_etl.check.marks import GT, resolved
from sitemap_etl.check.namespaces import TAG, Flat

_NAME: Final = re.compile(r"</?([^\s/>]+)")
_BLANK: Final = re.compile("[ \t\r\n\x02]*")
DEPTH: Final = 64
"""Levels of elements that are looked at; a sitemap has five, and the work grows with them."""
_SHORT: Final = 40
"""Bytes of a tag up to which it is told apart whole; longer ones have attributes and are cut at the first blank."""


class TooDeep(Exception):
    """Elements are nested so deeply that this can be no sitemap."""


class Name(NamedTuple):
    """An element's namespace (None where its prefix is undeclared), local name, and name as it is written."""

    uri: str | None
    local: str
    written: str


@dataclass
class Scan:
    """The elements of a document, in its order; all arrays have one value an element.

    `name` is an index into `names`, `depth` 1 for the root, `parent` the parent's index (-1 for the root),
    `start` the byte offset of its "<". `leaf` holds where there is text only (or nothing) inside.
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

    def ids(self, uri: str, *local: str) -> np.ndarray:
        """The indexes in `names` of these elements; of all of the namespace without `local`."""
        return np.array([i for i, n in enumerate(self.names) if n.uri == uri and (not local or n.local in local)], int)

    def children(self, parents: np.ndarray, ids: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The elements directly below `parents` (ascending), and for each which of the parents is its own.

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
        """The text of leaves, entities resolved, as it stands: a string array, one an element."""
        gaps = pa.array(self._token[elements] * 2 + 1, mask=self._empty[elements] | ~self.leaf[elements])
        return resolved(pc.fill_null(self._pieces.take(gaps), ""))

    def tag(self, elements: np.ndarray) -> Any:
        """The tags as they are written, "<" to ">": a string array."""
        return self._pieces.take(pa.array(self._token[elements] * 2))


def scan(document: Flat) -> Scan:
    """The elements of a document that is UTF-8, well-formed and has a root. Raises `TooDeep`."""
    data = document.marked
    bytes_ = np.frombuffer(data, np.uint8)
    starts = np.flatnonzero(bytes_ == ord("<"))
    ends = np.flatnonzero(bytes_ == ord(">"))
    if len(ends) != len(starts) or not ((starts < ends).all() and (ends[:-1] < starts[1:]).all()):
        data, ends = _ends(data, starts, ends)
        bytes_ = np.frombuffer(data, np.uint8)
    pieces = _pieces(data, starts, ends)
    names, name = _names(document.prefixes, pieces, starts, ends)
    closing = bytes_[starts + 1] == ord("/")
    empty = bytes_[ends - 1] == ord("/")
    level = np.cumsum(np.where(closing, -1, np.where(empty, 0, 1)))
    if int(level.max()) > DEPTH:
        raise TooDeep(f"{int(level.max()):,} levels")
    opening = ~closing
    leaf = opening & (empty | np.append(closing[1:], False))
    strays = _strays(pieces, ends, np.flatnonzero(~leaf | empty))
    token = np.flatnonzero(opening)
    depth = (level + empty)[token]
    return Scan(
        names=names,
        name=name[token],
        depth=depth,
        parent=_parents(depth),
        start=starts[token],
        leaf=leaf[token],
        strays=strays,
        _token=token,
        _empty=empty[token],
        _pieces=pieces,
    )


def _ends(data: bytes, starts: np.ndarray, ends: np.ndarray) -> tuple[bytes, np.ndarray]:
    """The data with every ">" marked that ends no tag, and the position of the one that does, for each tag."""
    owner = np.searchsorted(starts, ends, "right") - 1
    first = np.searchsorted(owner, np.arange(len(starts)))
    true = ends[first]
    many = np.flatnonzero(np.bincount(owner[owner >= 0], minlength=len(starts)) != 1)
    mended = bytearray(data)
    for tag in many.tolist():
        whole = TAG.match(data, int(starts[tag]))
        assert whole is not None  # the document is well-formed
        true[tag] = whole.end() - 1
        stop = int(starts[tag + 1]) if tag + 1 < len(starts) else len(data)
        mended[starts[tag] : stop] = (
            data[starts[tag] : true[tag]].replace(b">", GT) + b">" + data[true[tag] + 1 : stop].replace(b">", GT)
        )
    return bytes(mended), true


def _pieces(data: bytes, starts: np.ndarray, ends: np.ndarray) -> Any:
    """Tags and gaps in turn, without copying: piece 2i is tag i, piece 2i + 1 the text after it."""
    offsets = np.empty(2 * len(starts) + 1, np.int32)
    offsets[0:-1:2] = starts
    offsets[1::2] = ends + 1
    offsets[-1] = len(data)
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def _names(
    prefixes: dict[str, str], pieces: Any, starts: np.ndarray, ends: np.ndarray
) -> tuple[list[Name], np.ndarray]:
    """The names that occur, and for each tag which it is."""
    short = ends - starts < _SHORT
    numbers: dict[str, int] = {}
    names: list[Name] = []

    def number(tag: str) -> int:
        found = _NAME.match(tag)
        written = found[1] if found else tag
        if written not in numbers:
            prefix, colon, local = written.rpartition(":")
            uri = prefixes.get(prefix) if colon else prefixes.get("", "")
            numbers[written] = len(names)
            names.append(Name(uri, local, written))
        return numbers[written]

    name = np.empty(len(starts), np.int32)
    for chosen, cut in ((np.flatnonzero(short), False), (np.flatnonzero(~short), True)):
        if not len(chosen):
            continue
        tags = pieces.take(pa.array(chosen * 2))
        if cut:
            tags = _heads(tags)
        encoded = tags.dictionary_encode()
        codes = np.array([number(tag) for tag in encoded.dictionary.to_pylist()], np.int32)
        name[chosen] = codes[encoded.indices.to_numpy(zero_copy_only=False)]
    return names, name


def _heads(tags: Any) -> Any:
    """Each tag up to its first blank."""
    blanks = pc.find_substring(tags, pattern=" ").to_numpy(zero_copy_only=False)
    offsets = np.frombuffer(tags.buffers()[1], np.int32)[tags.offset : tags.offset + len(tags) + 1]
    cut = np.empty(2 * len(tags) + 1, np.int32)
    cut[::2] = offsets
    cut[1::2] = np.where(blanks >= 0, offsets[:-1] + blanks, offsets[1:])
    halves = pa.StringArray.from_buffers(2 * len(tags), pa.py_buffer(cut), tags.buffers()[2])
    return halves.take(pa.array(np.arange(0, 2 * len(tags), 2)))


def _parents(depth: np.ndarray) -> np.ndarray:
    """For each element the last one before it that is a level higher."""
    parent = np.full(len(depth), -1, np.int64)
    above = np.flatnonzero(depth == 1)
    for level in range(2, int(depth.max()) + 1):
        here = np.flatnonzero(depth == level)
        parent[here] = above[np.searchsorted(above, here) - 1]
        above = here
    return parent


def _strays(pieces: Any, ends: np.ndarray, gaps: np.ndarray) -> list[tuple[int, str]]:
    """Text in gaps that should hold blanks only."""
    texts = pieces.take(pa.array(gaps * 2 + 1)).dictionary_encode()
    odd = [code for code, text in enumerate(texts.dictionary.to_pylist()) if not _BLANK.fullmatch(text)]
    if not odd:
        return []
    where = np.flatnonzero(np.isin(texts.indices.to_numpy(zero_copy_only=False), odd))[:1000]
    return [(int(ends[gaps[i]]) + 1, texts[int(i)].as_py().strip(" \t\r\n\x02")) for i in where]
