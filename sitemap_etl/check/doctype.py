"""Find document types of XML by their marks, without parsing or expanding anything."""

from __future__ import annotations

import re
from typing import Final

from sitemap_etl.frozen import Frozen

_BEGIN: Final = b"<!DOCTYPE"
_OUTSIDE: Final = re.compile(rb"""["'\[>]""")
_INSIDE: Final = re.compile(rb"""["'\]]|<!--|<\?""")
"""Marks in the internal subset. A "]" can be part of comments, instructions and values."""
_CLOSING: Final = {b'"': b'"', b"'": b"'", b"<!--": b"-->", b"<?": b"?>"}
_END: Final = re.compile(rb"\s*>")


class Doctype(Frozen):
    """Document type.

    stop: the offset after its last byte.
    subset: True if it has an internal subset.
    """

    stop: int
    subset: bool


def find_doctype(data: bytes, start: int) -> Doctype | None:
    """Return the document type that begins at `start`, or None if there is none, or if it never ends.

    Each byte is read a few times at most, even in a document type that never ends.
    """
    at = start + len(_BEGIN)
    if data[start:at].upper() != _BEGIN:
        return None
    marks = _OUTSIDE
    while (found := marks.search(data, at)) is not None:
        mark, at = found[0], found.end()
        if mark == b">":
            return Doctype(at, subset=False)
        if mark == b"]":
            end = _END.match(data, at)
            return None if end is None else Doctype(end.end(), subset=True)
        if mark == b"[":
            marks = _INSIDE
            continue
        closing = data.find(_CLOSING[mark], at)
        if closing < 0:
            return None
        at = closing + len(_CLOSING[mark])
    return None
