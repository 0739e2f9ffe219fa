"""Mark comments, CDATA and instructions, so that each "<" of a document begins a tag."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sitemap_etl.check.doctype import find_doctype

GT, NOTHING, LT, AMP = b"\x01", b"\x02", b"\x03", b"\x04"
"""Marks, which XML can't contain: for ">", for bytes that are not text, for "<" and for "&"."""
_MARK: Final = re.compile(rb"<[!?]")
_MARKUP: Final = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))


def marked(data: bytes) -> bytes:
    """Return the document with comments, CDATA and processing instructions turned into marks."""
    changed = None
    for begin, stop in _markup(data):
        if changed is None:
            changed = bytearray(data)
        if data.startswith(b"<![CDATA[", begin):
            text = data[begin + 9 : stop - 3].replace(b"<", LT).replace(b">", GT).replace(b"&", AMP)
            changed[begin:stop] = NOTHING * 9 + text + NOTHING * 3
        else:
            changed[begin:stop] = NOTHING * (stop - begin)
    return data if changed is None else bytes(changed)


def _markup(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield begin and end of all that is neither element nor text."""
    stop = 0
    while found := _MARK.search(data, stop):
        stop = _end(data, found.start())
        yield found.start(), stop


def _end(data: bytes, begin: int) -> int:
    """Return the end of the markup that begins here. The document is well-formed."""
    for opening, closing in _MARKUP:
        if data.startswith(opening, begin):
            return data.index(closing, begin + len(opening)) + len(closing)
    doctype = find_doctype(data, begin)
    assert doctype is not None
    return doctype.stop
